"""What of a machine is varied: places of its file, or a short name for what usually is."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tilestitch.base.errors import InputError, printable
from tilestitch.exploration.values import once
from tilestitch.hardware.accelerator import Level
from tilestitch.hardware.chip import layout_of
from tilestitch.hardware.file_models import model_of
from tilestitch.hardware.yaml_path import Path, known_path, named, path_text, replaced, value_at
from tilestitch.hardware.yaml_tree import Mistake, Scalar, Tree

Setting: TypeAlias = tuple[tuple[Path, str], ...]  # what stands where

_EXTENTS = re.compile(r"([1-9][0-9]{0,8})x([1-9][0-9]{0,8})")
_COUNT = re.compile(r"[1-9][0-9]{0,8}")
_NETWORKS = ("first", "second", "result", "reduction")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One thing that is varied, and what each of its values writes into the machine's file."""

    name: str  # as the user calls it
    stands_for: str  # the places of the file
    values: tuple[str, ...]
    settings: tuple[Setting, ...]  # of each value

    @property
    def paths(self) -> tuple[Path, ...]:
        return tuple(path for path, _ in self.settings[0])


def parameter(tree: Tree, name: str, values: Sequence[str], where: str) -> Parameter:
    """A parameter by its short name or its path; refused where the machine has no such place or a value is none.

    Values are judged one by one, as far as their own field goes; what contradicts other fields is for the machine that
    has them all.
    """
    values = once(values, where)
    if name in SHORT_NAMES:
        if not is_chip(tree):
            raise InputError(
                f"{where}: is a short name of what chips have; vary something by its path, such as axes.NAME.size or "
                "memories.NAME.size"
            )
        paths, setting = SHORT_NAMES[name](tree, where)
        settings = tuple(setting(value) for value in values)
    else:
        paths = (_known_path(tree, name, where),)
        settings = tuple(((paths[0], value),) for value in values)
    for value, setting in zip(values, settings, strict=True):
        mistakes = [Mistake(named(tree, one.path), one.problem) for one in model_of(with_setting(tree, setting))[1]]
        if mistakes:
            raise InputError("\n".join(f"{where}: value {printable(value, 60)}: {mistake}" for mistake in mistakes[:5]))
    return Parameter(name, ", ".join(path_text(named(tree, path)) for path in paths), values, settings)


def is_chip(tree: Tree) -> bool:
    """Whether a machine says cores; every other one is a tree of memories alone."""
    return isinstance(tree, dict) and "cores" in tree


def with_setting(tree: Tree, setting: Setting) -> Tree:
    """The same tree with other text at some places; what is not changed is shared."""
    for path, text in setting:
        tree = replaced(tree, path, Scalar(text, quoted=False))
    return tree


def text_at(tree: Tree, path: Path) -> str | None:
    """The text that stands at a place, None where there is none."""
    found = value_at(tree, path)
    return found.text if isinstance(found, Scalar) else None


def _known_path(tree: Tree, name: str, where: str) -> Path:
    """The keys of a path that leads to a single value."""
    path = known_path(tree, name, where, tuple(SHORT_NAMES))
    found = value_at(tree, path)
    if isinstance(found, dict | list):
        numbers = range(len(found))
        inside = list(found) if isinstance(found, dict) else [str(named(tree, (*path, at))[-1]) for at in numbers]
        raise InputError(
            f"{where}: is not a single value; vary one inside: {', '.join(f'{name}.{key}' for key in inside)}"
        )
    return path


def _short(text: str) -> str:
    return printable(text, 60)


# Short names. Each gives the places that it stands for, and what a value writes there.

_Short: TypeAlias = tuple[tuple[Path, ...], Callable[[str], Setting]]


def _units(tree: Tree, kind: str) -> list[str]:
    units = tree.get("units", {}) if isinstance(tree, dict) else {}
    assert isinstance(units, dict), "the machine was loaded"
    return [name for name in units if text_at(units, (name, "kind")) == kind]


def memory_levels(tree: Tree) -> list[Level | None]:
    """What each memory of a machine is for, in the order of its file; None of one that mappings alone know."""
    model, _ = model_of(tree)
    assert model is not None, "the machine was loaded"
    levels = {place.name: place.level for place in layout_of(model).places}
    return [levels.get(memory.name) for memory in model.memories]


def _everywhere(paths: Sequence[Path]) -> _Short:
    return tuple(paths), lambda value: tuple((path, value) for path in paths)


def _pes(tree: Tree, where: str) -> _Short:
    arrays, matrices = _units(tree, "array"), _units(tree, "matrix")
    places = [("units", name, "rows", "columns") for name in arrays] or [("units", name, "k", "n") for name in matrices]
    if not places:
        raise InputError(f"{where}: the machine has no PE array and no matrix unit; vary something by its path")
    paths = [(first, name, key) for first, name, *keys in places for key in keys]

    def setting(value: str) -> Setting:
        extents = _extents(value, where)
        found: list[tuple[Path, str]] = []
        for first, name, *keys in places:
            old = [int(text_at(tree, (first, name, key)) or 0) for key in keys]
            kept = value == str(math.prod(old))  # the shape that the file has, where the number is the same
            found += [((first, name, key), str(new)) for key, new in zip(keys, old if kept else extents, strict=True)]
        return tuple(found)

    return tuple(paths), setting


def _extents(value: str, where: str) -> tuple[int, int]:
    """Rows and columns of `12x14`; of a plain number those nearest to a square, no more rows than columns."""
    if (match := _EXTENTS.fullmatch(value)) is not None:
        return int(match[1]), int(match[2])
    if _COUNT.fullmatch(value) is None:
        shown = _short(value)
        raise InputError(f"{where}: expected a number of elements, such as 256 or 12x14, found '{shown}'")
    count = int(value)
    rows = next(rows for rows in range(math.isqrt(count), 0, -1) if count % rows == 0)
    return rows, count // rows


def _rf(tree: Tree, where: str) -> _Short:
    return _everywhere([("units", name, "register_bytes") for name in _arrays(tree, where)])


def _networks(tree: Tree, where: str) -> _Short:
    return _everywhere([("units", name, "networks") for name in _arrays(tree, where)])


def _width(tree: Tree, where: str) -> _Short:
    arrays = _arrays(tree, where)
    return _everywhere([("units", name, f"{one}_bytes_per_cycle") for name in arrays for one in _NETWORKS])


def _arrays(tree: Tree, where: str) -> list[str]:
    arrays = _units(tree, "array")
    if not arrays:
        raise InputError(f"{where}: the machine has no PE array; vary something by its path, such as setup.dma_cycles")
    return arrays


def _spm(tree: Tree, where: str) -> _Short:
    levels = memory_levels(tree)
    for level in (Level.LB, Level.GB):
        if level in levels:
            return _everywhere([("memories", levels.index(level), "size")])
    raise InputError(f"{where}: the machine has no memory on chip; vary something by its path")


def _bandwidth(tree: Tree, where: str) -> _Short:
    """Of DRAM, and of the link where the file has the same for it, since it would be the limit otherwise."""
    places: tuple[Path, ...] = (("memories", len(memory_levels(tree)) - 1), ("link",))
    paths: list[Path] = [(*place, "bandwidth_bytes_per_cycle") for place in places]
    same = text_at(tree, paths[0]) == text_at(tree, paths[1])
    return _everywhere(paths if same else paths[:1])


def _cores(tree: Tree, where: str) -> _Short:
    return _axis(tree, where, "cores", at=0)


def _clusters(tree: Tree, where: str) -> _Short:
    return _axis(tree, where, "clusters", at=1)


def _axis(tree: Tree, where: str, what: str, *, at: int) -> _Short:
    """The size of the one axis along which cores of a cluster repeat, or clusters."""
    model, _ = model_of(tree)
    assert model is not None, "the machine was loaded"
    layout = layout_of(model)
    axes = (layout.core_axes, layout.cluster_axes)[at]
    if len(axes) != 1:
        found = ", ".join(axes) or "none"
        raise InputError(
            f"{where}: expected one axis of {what}, found {found}; vary an axis by its path, axes.NAME.size"
        )
    names = [axis.name for axis in model.axes]
    return _everywhere([("axes", names.index(axes[0]), "size")])


SHORT_NAMES: dict[str, Callable[[Tree, str], _Short]] = {
    "cores": _cores,
    "clusters": _clusters,
    "pes": _pes,
    "rf": _rf,
    "spm": _spm,
    "networks": _networks,
    "width": _width,
    "bandwidth": _bandwidth,
}

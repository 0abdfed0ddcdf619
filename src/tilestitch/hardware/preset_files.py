"""The files of the machines that come with the package, and what lists say of each without reading all of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import prod

from tilestitch.hardware.tree_fields import ClockField
from tilestitch.hardware.yaml_tree import Scalar, Tree, read_tree


@dataclass(frozen=True, slots=True)
class PresetLine:
    """A machine that is built in, in one line; its numbers by name."""

    name: str
    description: str
    size: str
    form: str  # "chip" or "tree"
    numbers: tuple[tuple[str, int], ...]


@cache
def preset_names() -> tuple[str, ...]:
    """The machines that come with the package, in alphabetical order."""
    found = files("tilestitch.hardware").joinpath("presets").iterdir()
    return tuple(sorted(one.name.removesuffix(".yaml") for one in found if one.name.endswith(".yaml")))


@cache
def chip_names() -> tuple[str, ...]:
    """Those of them that are described as cores."""
    return tuple(one.name for one in preset_lines() if one.form == "chip")


def preset_text(name: str) -> str:
    """The YAML text of one of them."""
    return files("tilestitch.hardware").joinpath("presets", f"{name}.yaml").read_text(encoding="utf-8")


def preset_lines() -> Iterator[PresetLine]:
    """Every machine of the package: chips, then trees on which only `map` runs. Reads no more than the lines say."""
    read = [read_tree(preset_text(name), f"{name}.yaml", []) for name in preset_names()]
    found = [one for one in read if isinstance(one, dict)]
    yield from (_chip_line(one) for one in found if "cores" in one)
    yield from (_tree_line(one) for one in found if "cores" not in one)


def _chip_line(found: dict[str, Tree]) -> PresetLine:
    shared = next((one for one in _mappings(found["memories"]) if one["serves"]), {})
    along = [_text(name) for name in _list(shared["serves"])] if shared else []
    sizes = {_text(axis["name"]): _number(axis["size"]) for axis in _mappings(found["axes"])}
    cores = prod(size for name, size in sizes.items() if name in along)
    clusters = prod(size for name, size in sizes.items() if name not in along)
    clock = ClockField()(found["clock"])
    numbers = (("clusters", clusters), ("cores_per_cluster", cores), ("clock_hz", clock))
    return PresetLine(_text(found["name"]), _text(found["description"]), f"{clusters} x {cores} cores", "chip", numbers)


def _tree_line(found: dict[str, Tree]) -> PresetLine:
    units = prod(_number(axis["size"]) for axis in _mappings(found["axes"]))
    numbers = (("units", units), ("memories", len(_mappings(found["memories"]))))
    return PresetLine(_text(found["name"]), _text(found["description"]), f"tree, {units:,} units", "tree", numbers)


def _mappings(found: Tree) -> list[dict[str, Tree]]:
    return [one for one in _list(found) if isinstance(one, dict)]


def _list(found: Tree) -> list[Tree]:
    return found if isinstance(found, list) else []


def _text(found: Tree) -> str:
    assert isinstance(found, Scalar)
    return found.text.strip()


def _number(found: Tree) -> int:
    return int(_text(found))

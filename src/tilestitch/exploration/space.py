"""Every machine that can be made of one by varying some of its parameters."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tilestitch.base.errors import InputError
from tilestitch.base.shown import Brief
from tilestitch.exploration.parameters import (
    Parameter,
    Path,
    Setting,
    parameter,
    path_text,
    text_at,
    with_setting,
)
from tilestitch.hardware.tree_fields import ClockField, SizeField
from tilestitch.hardware.tree_load import parse_either
from tilestitch.hardware.yaml_path import named, value_at
from tilestitch.hardware.yaml_tree import Scalar, Tree, read_tree, tree_text

MAX_PARAMETERS = 32
_GROUPED = re.compile(r"[1-9][0-9]{0,2}(_[0-9]{3})+")
MAX_DESIGNS = 2**62  # so that the number of a design is one of SQLite's

# dMazeRunner's rule, Dave et al., TECS 2019, as their tables for the exploration of designs have it.
_SCRATCHPAD_GROWTH = 1.5  # of the energy of an access, each time its size doubles


@dataclass(frozen=True, slots=True, repr=False)
class Space(Brief):
    """A machine and what of it is varied. A design is a choice of values, and has a number: the last parameter's
    value counts fastest."""

    machine: str  # its name
    where: str  # the file, as errors name it
    tree: Tree  # the machine as it is without any change
    parameters: tuple[Parameter, ...]
    scale_energy: bool = False

    @property
    def size(self) -> int:
        return math.prod(self.sizes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many values each parameter has."""
        return tuple(len(one.values) for one in self.parameters)

    def choice(self, design: int) -> tuple[int, ...]:
        """The number of each parameter's value in a design."""
        found = []
        for size in reversed(self.sizes):
            design, value = divmod(design, size)
            found.append(value)
        return tuple(reversed(found))

    def number(self, choice: Sequence[int]) -> int:
        """The design with these values; `choice` backwards."""
        design = 0
        for size, value in zip(self.sizes, choice, strict=True):
            design = design * size + value
        return design

    def values(self, design: int) -> dict[str, str]:
        """The value of each parameter, by name."""
        return {one.name: one.values[at] for one, at in zip(self.parameters, self.choice(design), strict=True)}

    def machine_text(self, design: int) -> str:
        """The machine of a design as the text of a YAML file, which may contradict itself."""
        tree = self.tree
        for one, at in zip(self.parameters, self.choice(design), strict=True):
            tree = with_setting(tree, one.settings[at])
        if self.scale_energy:
            tree = with_setting(tree, _scaled_energies(self.tree, tree))
        tree = with_setting(tree, self._scaled_areas(tree))
        return tree_text(_plain_numbers(tree))

    def _scaled_areas(self, after: Tree) -> Setting:
        """The areas of memories in proportion to changed sizes, unless they are varied themselves."""
        varied = {path for one in self.parameters for path in one.paths}
        found: list[tuple[Path, str]] = []
        for at in range(_memories(self.tree)):
            size, area = (("memories", at, key) for key in ("size", "area_mm2"))
            stated = text_at(self.tree, area)
            if stated is not None and size in varied and area not in varied:
                old, new = (_size(text_at(tree, size)) for tree in (self.tree, after))
                found += [(area, repr(float(stated) * (new / old)))] if new != old else []
        return tuple(found)


def _memories(tree: Tree) -> int:
    found = value_at(tree, ("memories",))
    return len(found) if isinstance(found, list) else 0


def space(text: str, where: str, varied: Sequence[tuple[str, Sequence[str]]], *, scale_energy: bool = False) -> Space:
    """The space of a machine, given as the text of its file, by names or paths and the values of each.

    Raises `InputError` for a machine, a path or a value that is wrong by itself.
    """
    machine = parse_either(text, where)
    tree = read_tree(text, where, [])
    if not varied:
        raise InputError("nothing is varied; write, for example, --vary bandwidth=4,8,16")
    if len(varied) > MAX_PARAMETERS:
        raise InputError(f"expected at most {MAX_PARAMETERS} parameters to vary, found {len(varied)}")
    parameters: list[Parameter] = []
    taken: dict[Path, str] = {}
    for name, values in varied:
        found = parameter(tree, name, values, f"--vary {name}")
        for path in found.paths:
            if path in taken:
                both = f"--vary {taken[path]} and --vary {name}"
                raise InputError(
                    f"{both}: both change {path_text(named(tree, path))} of the machine; leave out one of them"
                )
            taken[path] = name
        parameters.append(found)
    made = Space(machine.name, where, tree, tuple(parameters), scale_energy)
    if made.size > MAX_DESIGNS:
        raise InputError(f"expected at most {MAX_DESIGNS:,} designs, found {made.size:.3g}; vary fewer values")
    if scale_energy:
        _expect_energies_alone(tree, taken)
    return made


def _plain_numbers(tree: Tree, key: str = "") -> Tree:
    """`65_536` and `64 KiB` as `65536`, `1 GHz` as `1000000000`: a number is one text however it was written."""
    match tree:
        case dict():
            return {key: _plain_numbers(value, key) for key, value in tree.items()}
        case list():
            return [_plain_numbers(value) for value in tree]
        case _ if key == "clock":
            return Scalar(str(ClockField()(tree)), quoted=False)
        case _ if key == "size":
            bits = SizeField()(tree)
            return Scalar(f"{bits} b" if bits % 8 else str(bits // 8), quoted=False)
        case _:
            grouped = not tree.quoted and _GROUPED.fullmatch(tree.text) is not None
            return Scalar(tree.text.replace("_", ""), quoted=False) if grouped else tree


def _energies(tree: Tree) -> list[tuple[Path, Path, bool]]:
    """Sizes, the energies that go with them, and whether these are of a register file."""
    assert isinstance(tree, dict)
    units = tree.get("units", {})
    assert isinstance(units, dict)
    found: list[tuple[Path, Path, bool]] = []
    for name in units:
        if text_at(units, (name, "kind")) == "array":
            found.append((("units", name, "register_bytes"), ("units", name, "register_pj_per_byte"), True))
    for at in range(_memories(tree) - 1):
        for way in ("read", "write"):
            key = f"{way}_pj" if text_at(tree, ("memories", at, f"{way}_pj")) is not None else f"{way}_pj_per_byte"
            found.append((("memories", at, "size"), ("memories", at, key), False))
    return found


def _scaled_energies(before: Tree, after: Tree) -> Setting:
    """The energies that go with changed sizes: of registers in proportion, of a scratchpad x 1.5 per doubling."""
    found = []
    for size, energy, proportional in _energies(before):
        old, new = (_size(text_at(tree, size)) for tree in (before, after))
        if old != new:
            ratio = new / old
            factor = ratio if proportional else _SCRATCHPAD_GROWTH ** math.log2(ratio)
            found.append((energy, repr(float(text_at(before, energy) or 0) * factor)))
    return tuple(found)


def _size(text: str | None) -> int:
    return SizeField()(Scalar(text or "", quoted=False))


def _expect_energies_alone(tree: Tree, varied: dict[Path, str]) -> None:
    for size, energy, _ in _energies(tree):
        if size in varied and energy in varied:
            places = [path_text(named(tree, path)) for path in (energy, size)]
            raise InputError(
                f"--scale-energy changes {places[0]} with {places[1]}, and --vary {varied[energy]} "
                "changes it too; leave out one of them"
            )

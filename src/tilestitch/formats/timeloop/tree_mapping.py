"""Timeloop's mappings on machine trees: factors, permutations, splits and bypasses by target.

A target is a memory, or the node of a mesh, which Timeloop's front end calls `inter_NODE_spatial`. The levels are those
of the machine, whatever the order of the directives. What a directive does not bypass is kept. A permutation is
innermost first; a loop that it leaves out has the factor 1. The factor 0 is what the others leave. Of a mesh of two
dimensions the loops before `split` go along X, the others along Y.

Source: the input formats of Timeloop v0.2 to v0.4, and the maps of its exercises beside their printed nests.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

from tilestitch.formats.foreign_file import Part, yaml_file
from tilestitch.formats.timeloop.machine import TAGS
from tilestitch.formats.timeloop.mapping import loop_factors, loop_permutation
from tilestitch.formats.tree_row import Along, Keeps, RowNode, Runs
from tilestitch.hardware.tree import MachineTree
from tilestitch.mapping.tree.placed import PlacedNest

Meshes: TypeAlias = Mapping[str, tuple[str | None, str | None]]  # axes along X and Y, by target
_BYPASSES = ("datatype", "dataspace", "bypass", "bypassing")
_SPACES = {"I": "Inputs", "W": "Weights", "O": "Outputs"}  # as written files call the operands


@dataclass(slots=True)
class _Level:
    """What the directives of one target say: factors by loop, and the loops in their order from the outermost."""

    part: Part
    factors: dict[int, int] = field(default_factory=dict)
    order: tuple[int, ...] = ()
    split: int | None = None


def timeloop_row(text: str, where: str, bare: PlacedNest, meshes: Meshes) -> tuple[tuple[RowNode, ...], Part]:
    """The row of nodes that a file maps a nest to, and the file.

    Raises `InputError` with the place of what is not understood: unknown targets, factors that do not divide.
    """
    file = yaml_file(text, where, tags=TAGS)
    if "mapping" not in file.entries():
        file.refuse("the field mapping is missing")
    tree = bare.tree
    targets = {**{axis.name: (axis.name, None) for axis in tree.axes}, **meshes}
    targets |= {f"inter_{name}_spatial": axes for name, axes in tuple(targets.items())}
    memories = [memory.name for memory in tree.memories]
    levels: dict[tuple[str, str], _Level] = {}
    past: dict[str, set[str]] = {}
    for entry in file.entries()["mapping"].items("directives"):
        known = ("factors", "permutation", "split", "keep", "bypass")
        fields = entry.fields(("target", "type"), known, {"tile_shape": "write factors"})
        target, kind = fields["target"].text("a target"), fields["type"].text("a type")
        if kind not in ("temporal", "spatial", *_BYPASSES):
            fields["type"].expected("temporal, spatial, dataspace or bypass")
        if kind == "spatial" and target in targets:
            key = (kind, "/".join(str(axis) for axis in targets[target]))
        elif target in memories and kind != "spatial":
            key = (kind, target)
        elif target in targets:  # a mesh alone holds nothing, and no loop runs in steps there
            _expect_nothing(entry, fields, bare)
            continue
        else:
            known_ones = memories if kind != "spatial" else list(targets)
            fields["target"].refuse(f"{tree.name} has no such target for {kind}; known: {', '.join(known_ones)}")
        if kind in _BYPASSES:
            past.setdefault(target, set()).update(_bypassed(fields, target, bare))
        elif key in levels:
            entry.refuse(f"the {kind} loops of {target} are there twice")
        else:
            levels[key] = _level(entry, fields, bare)
    _replace_remainders(list(levels.values()), bare)
    return tuple(_row(bare, levels, past, targets, file)), file


def _expect_nothing(entry: Part, fields: Mapping[str, Part], bare: PlacedNest) -> None:
    factors = loop_factors(fields["factors"], bare.nest) if "factors" in fields else {}
    if any(factor != 1 for factor in factors.values()):
        entry.refuse("expected factors of 1: a mesh alone runs nothing in steps")


def _bypassed(fields: Mapping[str, Part], target: str, bare: PlacedNest) -> set[str]:
    """The operands, as the machine calls them, that go past a memory."""
    found: dict[str, set[str]] = {"keep": set(), "bypass": set()}
    for key, homes in found.items():
        if key in fields and not fields[key].is_absent:
            for item in fields[key].items("data spaces", least=0):
                homes.add(_home(item, bare))
    both = found["keep"] & found["bypass"]
    if both:
        fields["bypass"].refuse(f"{', '.join(sorted(both))}: kept and bypassed; expected one of them")
    held = next(memory.operands for memory in bare.tree.memories if memory.name == target)
    missing = sorted(found["keep"] - set(held))
    if missing:
        fields["keep"].refuse(f"{target} of {bare.tree.name} does not hold {', '.join(missing)}")
    return found["bypass"]


def _home(item: Part, bare: PlacedNest) -> str:
    name = item.text("a data space")
    for array, home in zip(bare.operands, bare.homes, strict=True):
        if name in (array.name, home, _SPACES.get(array.name)):
            return home
    item.refuse(f"{name} is no operand of the layer; known: {', '.join(array.name for array in bare.operands)}")


def _level(entry: Part, fields: Mapping[str, Part], bare: PlacedNest) -> _Level:
    factors = loop_factors(fields["factors"], bare.nest) if "factors" in fields else {}
    order = loop_permutation(fields["permutation"], bare.nest) if "permutation" in fields else ()
    left = [loop for loop in range(len(bare.nest.loops)) if loop not in order]
    moving = [bare.nest.loops[loop].name for loop in left if factors.get(loop, 1) != 1]
    if moving and (order or len(moving) > 1) and fields["type"].text() == "temporal":
        entry.refuse(f"the permutation leaves out {', '.join(moving)}; name every loop whose factor is not 1")
    split = fields["split"].whole("loops", 0, 99) if "split" in fields else None
    return _Level(entry, factors, (*left, *order), split)


def _replace_remainders(levels: Sequence[_Level], bare: PlacedNest) -> None:
    """A factor of 0 becomes what the others leave of its loop."""
    for number, loop in enumerate(bare.nest.loops):
        open_ones = [level for level in levels if level.factors.get(number) == 0]
        known = prod(level.factors.get(number, 1) for level in levels if level not in open_ones)
        if len(open_ones) > 1 or (open_ones and loop.extent % known != 0):
            open_ones[-1].part.refuse(
                f"the remainder of {loop.name} is not known: {len(open_ones)} factors are 0, the others multiply to "
                f"{known:,}, and its extent is {loop.extent:,}"
            )
        for level in open_ones:
            level.factors[number] = loop.extent // known


def _row(
    bare: PlacedNest,
    levels: Mapping[tuple[str, str], _Level],
    past: Mapping[str, set[str]],
    targets: Meshes,
    file: Part,
) -> list[RowNode]:
    row: list[RowNode] = []
    tree: MachineTree = bare.tree
    pending = [axis.name for axis in tree.axes]
    for memory in reversed(tree.memories):
        for axis in [name for name in pending if name not in memory.serves]:
            row += _along(axis, levels, targets)
            pending.remove(axis)
        held = tuple(
            operand
            for operand, home in enumerate(bare.homes)
            if home in memory.operands and home not in past.get(memory.name, set())
        )
        if held:
            row.append(Keeps(memory.name, held, file))
        level = levels.get(("temporal", memory.name))
        if level is not None:
            row += [Runs(loop, level.factors.get(loop, 1)) for loop in level.order]
    return row + [node for axis in pending for node in _along(axis, levels, targets)]


def _along(axis: str, levels: Mapping[tuple[str, str], _Level], targets: Meshes) -> list[RowNode]:
    """The loops along one axis of a mesh."""
    found: list[RowNode] = []
    for along in dict.fromkeys(targets.values()):
        level = levels.get(("spatial", "/".join(str(name) for name in along)))
        if level is None or axis not in along:
            continue
        moving = [loop for loop in level.order if level.factors.get(loop, 1) > 1]
        if None not in along:
            if level.split is None and moving:
                level.part.refuse(
                    f"the field split is missing: which loops go along {along[0]}, which along {along[1]}"
                )
            inner_first = tuple(reversed(level.order))
            here = inner_first[: level.split] if axis == along[0] else inner_first[level.split or 0 :]
            moving = [loop for loop in moving if loop in here]
        found += [Along(axis, loop, level.factors[loop], level.part) for loop in moving]
    return found

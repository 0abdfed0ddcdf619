"""A mapping that another program's file gives, as a row of nodes from the outermost, on a machine tree.

The reverse of `tree_order`: what memories hold, steps of loops and what is spread become loops and the cuts of every
operand. What a row does not keep in a memory goes past it, and the tree that the mapping is of has no such place.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from typing import TypeAlias

import numpy as np

from tilestitch.formats.foreign_file import Part
from tilestitch.hardware.tree import MachineTree, TreeMemory
from tilestitch.mapping.tree.chain import TreeMapping, crossing_places
from tilestitch.mapping.tree.crossings import Tiles, operands_on_tree
from tilestitch.mapping.tree.placed import PlacedNest, Slide, Unrolled
from tilestitch.mapping.tree.sliding import sliding_loops
from tilestitch.mapping.tree.tables import stored_bits


@dataclass(frozen=True, slots=True)
class Keeps:
    """From here inwards a memory holds the tiles of some operands."""

    memory: str
    operands: tuple[int, ...]
    part: Part


@dataclass(frozen=True, slots=True)
class Runs:
    """A loop in steps."""

    loop: int
    factor: int


@dataclass(frozen=True, slots=True)
class Along:
    """A loop over the units of an axis."""

    axis: str
    loop: int
    factor: int
    part: Part


RowNode: TypeAlias = Keeps | Runs | Along


def mapping_of_row(bare: PlacedNest, row: Sequence[RowNode], file: Part) -> tuple[PlacedNest, TreeMapping]:
    """The nest with what is spread, on the tree without the places that the row does not use, and the mapping.

    Raises `InputError` with the place of an operand that is held in no order, of a fan-out that is too small or in
    the wrong place, and of a loop whose factors are not its extent.
    """
    _expect_extents(bare, row, file)
    tree = _without_what_goes_past(bare, row, file)
    unrolled = _unrolled(bare, row, tree, file)
    runs = [node for node in row if isinstance(node, Runs) and node.factor > 1]
    loops = tuple((node.loop, node.factor) for node in reversed(runs))
    placed = replace(bare, tree=tree, unrolled=unrolled)
    cuts: list[tuple[int, ...]] = []
    for operand, array in enumerate(placed.operands):
        chain = placed.chain(operand)
        ends = [_inside(row, memory, operand) for memory in chain[:-1]]
        for inner, outer, memory in zip(ends, [*ends[1:], len(loops)], chain, strict=False):
            if inner > outer:
                file.refuse(f"{array.name} in {memory.name} stays for longer than in the memory outside it")
        cuts.append((*ends, len(loops)))
    return with_windows(placed, TreeMapping(loops, tuple(cuts)))


def with_windows(placed: PlacedNest, mapping: TreeMapping) -> tuple[PlacedNest, TreeMapping]:
    """The mapping with the rows of windows that slide into memories which keep what they have in common.

    A row is the loop directly outside a crossing with all steps of it in turn, where the tile is a window along it.
    """
    slides: list[Slide] = []
    rows: list[tuple[int, int, int]] = []
    places = crossing_places(replace(placed, slides=()), mapping)
    for operand in operands_on_tree(placed):
        loops = sliding_loops(operand)
        for crossing, inside in enumerate(places[operand.number]):
            if not operand.is_sliding(crossing) or inside == len(mapping.loops):
                continue
            loop, end = mapping.loops[inside][0], inside
            while end < len(mapping.loops) and mapping.loops[end][0] == loop:
                end += 1
            slid = replace(placed, slides=(Slide(operand.number, crossing, loop),))
            begins = operands_on_tree(slid)[operand.number].can_begin(crossing, _tile(placed, mapping, inside))
            if loop in loops and begins[0]:
                slides.append(Slide(operand.number, crossing, loop))
                rows.append((operand.number, crossing, end))
    return replace(placed, slides=tuple(slides)), replace(mapping, rows=tuple(rows))


def _tile(placed: PlacedNest, mapping: TreeMapping, inside: int) -> Tiles:
    """The tile of so many innermost loops."""
    counts = [1] * len(placed.nest.loops)
    for loop, factor in mapping.loops[:inside]:
        counts[loop] *= factor
    return np.array([counts], np.int64)


def _expect_extents(bare: PlacedNest, row: Sequence[RowNode], file: Part) -> None:
    for number, loop in enumerate(bare.nest.loops):
        found = prod(node.factor for node in row if not isinstance(node, Keeps) and node.loop == number)
        if found != loop.extent:
            file.refuse(f"the factors of {loop.name} multiply to {found:,}; expected its extent, {loop.extent:,}")


def _without_what_goes_past(bare: PlacedNest, row: Sequence[RowNode], file: Part) -> MachineTree:
    """The tree in which memories hold what the row keeps there."""
    kept: dict[str, list[str]] = {}
    for node in row:
        if isinstance(node, Keeps):
            for operand in node.operands:
                array, home = bare.operands[operand], bare.homes[operand]
                if node.memory not in [memory.name for memory in bare.chain(operand)]:
                    held = ", ".join(memory.name for memory in bare.chain(operand))
                    node.part.refuse(f"{bare.tree.name} does not keep {array.name} in {node.memory}; it does in {held}")
                if home in kept.setdefault(node.memory, []):
                    node.part.refuse(f"{array.name} is kept in {node.memory} twice; expected one place in the row")
                kept[node.memory].append(home)
    for operand, array in enumerate(bare.operands):
        top = bare.chain(operand)[-1].name
        if bare.homes[operand] not in kept.get(top, []):
            file.refuse(
                f"{array.name} is not kept in {top}, its outermost memory, where it begins or ends; keep it there"
            )
    return kept_on(bare.tree, kept)


def kept_on(tree: MachineTree, kept: Mapping[str, Sequence[str]]) -> MachineTree:
    """The tree whose memories hold these operands, as the machine calls them; without those that hold none."""
    memories: list[TreeMemory] = []
    for memory in tree.memories:
        here = tuple(one for one in memory.operands if one in kept.get(memory.name, ()))
        flows = (tuple(flow for flow in port.flows if flow[0] in here) for port in memory.ports)
        ports = tuple(replace(port, flows=own) for port, own in zip(memory.ports, flows, strict=True))
        if here:
            memories.append(replace(memory, operands=here, ports=ports))
    return replace(tree, memories=tuple(memories))


def _inside(row: Sequence[RowNode], memory: TreeMemory, operand: int) -> int:
    """How many loops run inside the place of an operand in a memory."""
    at = next(
        at
        for at, node in enumerate(row)
        if isinstance(node, Keeps) and node.memory == memory.name and operand in node.operands
    )
    return sum(isinstance(node, Runs) and node.factor > 1 for node in row[at:])


def _unrolled(bare: PlacedNest, row: Sequence[RowNode], tree: MachineTree, file: Part) -> tuple[Unrolled, ...]:
    """What is spread, in the order of the axes. Refuses more than an axis has, and memories on its wrong side."""
    found: list[Unrolled] = []
    for axis in tree.axes:
        here = [(at, node) for at, node in enumerate(row) if isinstance(node, Along) and node.axis == axis.name]
        count = prod(node.factor for _, node in here)
        if count > axis.size:
            here[0][1].part.refuse(f"{count:,} along {axis.name}, which has {axis.size:,}")
        for at, node in here:
            for place, other in enumerate(row):
                if isinstance(other, Keeps) and node.factor > 1:
                    serves = any(axis.name in memory.serves for memory in tree.memories if memory.name == other.memory)
                    if serves != (place < at):
                        side = "outside" if serves else "inside"
                        other.part.refuse(f"{other.memory} is {side} {axis.name}; expected it on that side of the loop")
            if node.factor > 1:
                found.append(Unrolled(axis.name, node.loop, Fraction(node.factor)))
    known = [axis.name for axis in tree.axes]
    for node in row:
        if isinstance(node, Along) and node.axis not in known:
            node.part.refuse(f"{tree.name} has no axis {node.axis}; known: {', '.join(known) or 'none'}")
    return tuple(found)


def room_faults(placed: PlacedNest, mapping: TreeMapping) -> list[str]:
    """Which memories are too small for the tiles of a mapping, with partial sums at full width."""
    taken: dict[str, float] = {}
    parts: dict[str, list[str]] = {}
    for operand in operands_on_tree(placed):
        for level, memory in enumerate(operand.memories):
            tile = _tile(placed, mapping, mapping.cuts[operand.number][level])
            room = float(stored_bits(operand, level, tile, operand.array.element_bits)[0])
            taken[memory.name] = taken.get(memory.name, 0.0) + room
            parts.setdefault(memory.name, []).append(f"{operand.array.name} {room:,.0f}")
    return [
        f"{memory.name} holds {memory.size_bits:,} bits; the mapping puts {taken[memory.name]:,.0f} there "
        f"({', '.join(parts[memory.name])})"
        for memory in placed.tree.memories
        if taken.get(memory.name, 0.0) > memory.size_bits * (1 + 1e-12)
    ]

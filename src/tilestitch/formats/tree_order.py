"""A mapping on a tree as one row of nodes from the outermost: what memories hold, steps of loops, and fan-outs.

ZigZag lets every operand have an order of its own. Timeloop and AccelForge have one row for all: a memory outside a
fan-out has to stand before it, and one inside after it. A mapping that keeps more inside a fan-out than another operand
has outside it has no such row.
"""

from dataclasses import dataclass
from typing import TypeAlias

from tilestitch.base.errors import InputError
from tilestitch.hardware.tree import TreeMemory
from tilestitch.mapping.tree.chain import TreeMapping, crossing_places
from tilestitch.mapping.tree.placed import PlacedNest


@dataclass(frozen=True, slots=True)
class Holds:
    """From here inwards a memory holds the tiles of some operands."""

    memory: TreeMemory
    operands: tuple[int, ...]
    inside: int  # how many loops are in the tile


@dataclass(frozen=True, slots=True)
class Steps:
    """A loop in steps."""

    loop: int
    factor: int


@dataclass(frozen=True, slots=True)
class Spreads:
    """An axis with the loops along it; an empty one repeats what is inside, of which one is used."""

    axis: str
    size: int
    loops: tuple[tuple[int, int], ...]


Node: TypeAlias = Holds | Steps | Spreads


def row_of(placed: PlacedNest, mapping: TreeMapping, program: str) -> tuple[Node, ...]:
    """The nodes from the outermost. Refuses what has no such row, and factors that do not divide."""
    spread = _spread(placed, program)
    holds = _holds(placed, mapping)
    at = {axis.name: _place(placed, axis.name, holds, program) for axis in placed.tree.axes}
    found: list[Node] = []
    pending = list(placed.tree.axes)
    for inside in range(len(mapping.loops), -1, -1):
        for one in (hold for hold in holds if hold.inside == inside):
            for axis in [axis for axis in pending if axis.name not in one.memory.serves]:
                found.append(Spreads(axis.name, axis.size, spread[axis.name]))
                pending.remove(axis)
            found.append(one)
        for axis in [axis for axis in pending if at[axis.name] >= inside]:
            found.append(Spreads(axis.name, axis.size, spread[axis.name]))
            pending.remove(axis)
        if inside > 0:
            found.append(Steps(*mapping.loops[inside - 1]))
    return tuple(found)


def _spread(placed: PlacedNest, program: str) -> dict[str, tuple[tuple[int, int], ...]]:
    found: dict[str, tuple[tuple[int, int], ...]] = {axis.name: () for axis in placed.tree.axes}
    for one in placed.unrolled:
        if one.factor.denominator != 1 or placed.nest.extents[one.loop] % one.factor != 0:
            what = f"{placed.nest.loops[one.loop].name} over {float(one.factor):.4g} along {one.axis}"
            raise InputError(
                f"{placed.nest.name}: {what}: {program} cannot express a factor that does not divide its loop; fix it "
                "with --constraints"
            )
        if one.factor > 1:
            found[one.axis] = (*found[one.axis], (one.loop, int(one.factor)))
    return found


def _holds(placed: PlacedNest, mapping: TreeMapping) -> list[Holds]:
    """What every memory holds, from the outermost; operands that it holds at one place together."""
    places = crossing_places(placed, mapping)
    found: list[Holds] = []
    for memory in reversed(placed.tree.memories):
        by_place: dict[int, list[int]] = {}
        for operand, array in enumerate(placed.operands):
            chain = placed.chain(operand)
            if memory in chain and array.element_bits > 0:
                level = chain.index(memory)
                is_top = level == len(chain) - 1
                place = len(mapping.loops) if is_top else places[operand][level + 1]
                by_place.setdefault(place, []).append(operand)
        found += [Holds(memory, tuple(by_place[place]), place) for place in sorted(by_place, reverse=True)]
    return found


def _place(placed: PlacedNest, axis: str, holds: list[Holds], program: str) -> int:
    """How many loops are inside a fan-out: as many as in the largest tile that is inside it."""
    inner = [one for one in holds if axis not in one.memory.serves]
    outer = [one for one in holds if axis in one.memory.serves]
    place = max((one.inside for one in inner), default=0)
    for one in outer:
        if one.inside < place:
            most = max(inner, key=lambda other: other.inside)
            names = [", ".join(placed.operands[operand].name for operand in hold.operands) for hold in (most, one)]
            raise InputError(
                f"{placed.nest.name}: {names[0]} in {most.memory.name}, inside {axis}, stays for longer than "
                f"{names[1]} in {one.memory.name}, outside it; {program} has one order of loops for all operands and "
                "cannot express that; write it for ZigZag, or limit the tiles with --constraints"
            )
    return place

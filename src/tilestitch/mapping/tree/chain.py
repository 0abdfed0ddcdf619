"""A mapping as a chain of cuts, its loops, and its price."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from tilestitch.base.shown import Brief
from tilestitch.hardware.tree import Flow
from tilestitch.mapping.tree.crossings import OperandOnTree, Part, operands_on_tree
from tilestitch.mapping.tree.loads import loads_of
from tilestitch.mapping.tree.pace import Crossed, Pace
from tilestitch.mapping.tree.placed import PlacedNest


@dataclass(frozen=True, slots=True)
class TreeMapping:
    """Loops from the innermost with their factors, and of each operand how many of them each of its memories is inside.

    `loops` are (loop number, factor) pairs. `cuts[operand][level]` is the number of innermost loops whose tile the
    memory of that level holds; of the outermost memory it is all of them. `rows` are (operand, crossing, loops inside)
    of every row of windows that slide at a crossing: as far as there, over one loop.
    """

    loops: tuple[tuple[int, int], ...]
    cuts: tuple[tuple[int, ...], ...]
    rows: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class PricedFlow:
    """What one operand does at one memory in one direction; accesses are of the port's whole width."""

    operand: int
    level: int
    memory: str
    flow: Flow
    accesses: int
    energy_pj: float


@dataclass(frozen=True, slots=True, repr=False)
class TreePrice(Brief):
    """The energy of a mapping and what it is made of, and its latency; both estimated."""

    mac_pj: float
    flows: tuple[PricedFlow, ...]
    latency_cycles: int

    @property
    def memory_pj(self) -> float:
        return sum(flow.energy_pj for flow in self.flows)

    @property
    def energy_pj(self) -> float:
        return self.memory_pj + self.mac_pj

    @property
    def edp_pj_cycles(self) -> float:
        return self.energy_pj * self.latency_cycles


@dataclass(frozen=True, slots=True)
class PlacedCrossing:
    """A part of what crosses, inside so many loops."""

    operand: OperandOnTree
    crossing: int
    part: Part
    place: int
    tile: tuple[int, ...]


def placed_crossings(placed: PlacedNest, mapping: TreeMapping, *, stays: bool = True) -> list[PlacedCrossing]:
    """Every crossing of a mapping; where windows slide it has two parts.

    A loop that leaves an operand alone directly outside a crossing belongs inside: the operand stays where it is.
    Inputs stay at units with latches during the innermost loops that leave them alone; results leave at every step.
    Without `stays` it is outside: the operand is moved again for each of its steps, as AccelForge has it.
    """
    count = len(placed.nest.loops)
    ends = {(operand, crossing): end for operand, crossing, end in mapping.rows}
    found: list[PlacedCrossing] = []
    for operand in operands_on_tree(placed):
        inner = 0
        for crossing, cut in enumerate((0, *mapping.cuts[operand.number][:-1])):
            at = max(inner, cut)
            while stays and at < len(mapping.loops) and mapping.loops[at][0] in operand.leaves_alone:
                at += 1
            inner = at
            if crossing == 0 and (operand.is_write or not placed.tree.has_latches):
                at = 0
            end = ends.get((operand.number, crossing), 0)
            tile = _tile(mapping.loops[:at], count)
            if end <= at:
                found.append(PlacedCrossing(operand, crossing, Part.ALL, at, tile))
                continue
            inner = end
            found.append(PlacedCrossing(operand, crossing, Part.NEW, at, tile))
            found.append(PlacedCrossing(operand, crossing, Part.FIRST, end, _tile(mapping.loops[:end], count)))
    return found


def crossing_tiles(placed: PlacedNest, mapping: TreeMapping) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """Of each operand the tile at each of its crossings; of windows that slide one of them."""
    found: list[list[tuple[int, ...]]] = [[] for _ in placed.operands]
    for one in placed_crossings(placed, mapping):
        if one.part is not Part.FIRST:
            found[one.operand.number].append(one.tile)
    return tuple(map(tuple, found))


def crossing_places(placed: PlacedNest, mapping: TreeMapping) -> tuple[tuple[int, ...], ...]:
    """Of each operand how many loops lie inside each of its crossings; of windows that slide inside one of them."""
    found: list[list[int]] = [[] for _ in placed.operands]
    for one in placed_crossings(placed, mapping):
        if one.part is not Part.FIRST:
            found[one.operand.number].append(one.place)
    return tuple(map(tuple, found))


@dataclass(frozen=True, slots=True)
class WindowRow:
    """Windows that slide: an operand by name, what they slide into, the loop, and its steps in a row."""

    operand: str
    into: str  # a memory, or the units
    loop: str
    steps: int


def window_rows(placed: PlacedNest, mapping: TreeMapping) -> list[WindowRow]:
    """The rows of windows of a mapping."""
    found: list[WindowRow] = []
    inside: dict[tuple[int, int], int] = {}
    for one in placed_crossings(placed, mapping):
        key = one.operand.number, one.crossing
        if one.part is Part.NEW:
            inside[key] = one.place
        if one.part is Part.FIRST:
            row = mapping.loops[inside[key] : one.place]
            into = one.operand.memories[one.crossing - 1].name if one.crossing > 0 else "units"
            loop = placed.nest.loops[row[0][0]].name
            found.append(WindowRow(one.operand.array.name, into, loop, prod(factor for _, factor in row)))
    return found


def _tile(loops: Sequence[tuple[int, int]], count: int) -> tuple[int, ...]:
    return tuple(prod(factor for loop, factor in loops if loop == number) for number in range(count))


def price(placed: PlacedNest, mapping: TreeMapping, *, stays: bool = True) -> TreePrice:
    """The energy of a mapping, flow by flow, and its latency; without `stays` the energy is that of moving it again."""
    flows = [flow for one in placed_crossings(placed, mapping, stays=stays) for flow in _priced(one)]
    return TreePrice(placed.tree.mac_pj * placed.nest.macs, tuple(flows), latency_cycles(placed, mapping))


def latency_cycles(placed: PlacedNest, mapping: TreeMapping) -> int:
    """The latency of a mapping."""
    return pace_of(placed, mapping).latency


def pace_of(placed: PlacedNest, mapping: TreeMapping) -> Pace:
    """The pace of a whole nest: its loops and crossings, from the innermost."""
    crossings = [(one.place, _loads(one)) for one in placed_crossings(placed, mapping)]
    pace = Pace()
    for inside in range(len(mapping.loops) + 1):
        for at, loads in crossings:
            if at == inside:
                pace = pace.with_crossing(loads)
        if inside < len(mapping.loops):
            pace = pace.repeated(mapping.loops[inside][1])
    return pace


def _loads(one: PlacedCrossing) -> Crossed:
    loads = loads_of(one.operand, one.crossing, np.array([one.tile], np.int64), one.part)
    inwards, outwards, stops = (
        {port: int(cycles[0]) for port, cycles in way.items()} for way in (loads.inwards, loads.outwards, loads.stops)
    )
    return Crossed(inwards, outwards, stops, loads.operand, loads.first_way, loads.delays, loads.line)


def _priced(one: PlacedCrossing) -> list[PricedFlow]:
    operand, tiles = one.operand, np.array([one.tile], np.int64)
    found: list[PricedFlow] = []
    for moved in operand.moved(one.crossing, tiles, one.part):
        level = operand.memories.index(moved.memory)
        count, energy = int(moved.accesses[0]), float(moved.energy_pj[0])
        found.append(PricedFlow(operand.number, level, moved.memory.name, moved.flow, count, energy))
    delivered = float(operand.delivered_pj(one.crossing, tiles, one.part)[0])
    if delivered > 0:
        name = f"network inside {operand.memories[one.crossing].name}"
        flow = Flow.COLLECT if operand.is_write else Flow.FEED
        found.append(PricedFlow(operand.number, one.crossing, name, flow, 0, delivered))
    return found

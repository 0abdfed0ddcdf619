"""A mapping as a chain of cuts, its loops, and its price."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from tilestitch.hardware.tree import Flow
from tilestitch.mapping.tree.crossings import OperandOnTree, PortNumber, operands_on_tree
from tilestitch.mapping.tree.pace import Pace
from tilestitch.mapping.tree.placed import PlacedNest


@dataclass(frozen=True, slots=True)
class TreeMapping:
    """Loops from the innermost with their factors, and of each operand how many of them each of its memories is inside.

    `loops` are (loop number, factor) pairs. `cuts[operand][level]` is the number of innermost loops whose tile the
    memory of that level holds; of the outermost memory it is all of them.
    """

    loops: tuple[tuple[int, int], ...]
    cuts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class PricedFlow:
    """What one operand does at one memory in one direction; accesses are of the port's whole width."""

    operand: int
    level: int
    memory: str
    flow: Flow
    accesses: int
    energy_pj: float


@dataclass(frozen=True, slots=True)
class TreePrice:
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

    @property
    def ed2p_pj_cycles2(self) -> float:
        return self.edp_pj_cycles * self.latency_cycles


def crossing_tiles(placed: PlacedNest, mapping: TreeMapping) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """Of each operand the tile at each of its crossings."""
    count = len(placed.nest.loops)
    places = crossing_places(placed, mapping)
    return tuple(tuple(_tile(mapping.loops[:at], count) for at in of_operand) for of_operand in places)


def crossing_places(placed: PlacedNest, mapping: TreeMapping) -> tuple[tuple[int, ...], ...]:
    """Of each operand how many loops lie inside each of its crossings.

    A loop that leaves an operand alone directly outside a crossing belongs inside: the operand stays where it is.
    Inputs stay at the units during the innermost loops that leave them alone; results leave them at every step.
    """
    found: list[tuple[int, ...]] = []
    for operand in operands_on_tree(placed):
        alone = operand.leaves_alone
        inner = 0
        places: list[int] = []
        for cut in (0, *mapping.cuts[operand.number][:-1]):
            at = max(inner, cut)
            while at < len(mapping.loops) and mapping.loops[at][0] in alone:
                at += 1
            inner = at
            places.append(at)
        if operand.is_write:
            places[0] = 0
        found.append(tuple(places))
    return tuple(found)


def _tile(loops: Sequence[tuple[int, int]], count: int) -> tuple[int, ...]:
    return tuple(prod(factor for loop, factor in loops if loop == number) for number in range(count))


def price(placed: PlacedNest, mapping: TreeMapping) -> TreePrice:
    """The energy of a mapping, flow by flow, and its latency."""
    tiles = crossing_tiles(placed, mapping)
    flows: list[PricedFlow] = []
    for operand in operands_on_tree(placed):
        for crossing, tile in enumerate(tiles[operand.number]):
            flows += _priced(operand, crossing, tile)
    return TreePrice(placed.tree.mac_pj * placed.nest.macs, tuple(flows), latency_cycles(placed, mapping))


def latency_cycles(placed: PlacedNest, mapping: TreeMapping) -> int:
    """The latency of a mapping: its loops and crossings, from the innermost."""
    places, tiles = crossing_places(placed, mapping), crossing_tiles(placed, mapping)
    crossings = [
        (at, operand.is_hidden(crossing), _served(operand, crossing, tiles[operand.number][crossing]))
        for operand in operands_on_tree(placed)
        for crossing, at in enumerate(places[operand.number])
    ]
    pace = Pace()
    for inside in range(len(mapping.loops) + 1):
        for at, hidden, served in crossings:
            if at == inside:
                pace = pace.with_crossing(served, hidden=hidden)
        if inside < len(mapping.loops):
            pace = pace.repeated(mapping.loops[inside][1])
    return pace.alone


def _served(operand: OperandOnTree, crossing: int, tile: tuple[int, ...]) -> dict[PortNumber, int]:
    return {port: int(cycles[0]) for port, cycles in operand.served(crossing, np.array([tile], np.int64)).items()}


def _priced(operand: OperandOnTree, crossing: int, tile: tuple[int, ...]) -> list[PricedFlow]:
    found: list[PricedFlow] = []
    for moved in operand.moved(crossing, np.array([tile], np.int64)):
        level = operand.memories.index(moved.memory)
        count, energy = int(moved.accesses[0]), float(moved.energy_pj[0])
        found.append(PricedFlow(operand.number, level, moved.memory.name, moved.flow, count, energy))
    return found

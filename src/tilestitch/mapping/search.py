"""The best mappings of a nest on an array: proven, since what the search leaves out cannot be among them."""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np

from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.ir.choices import CostMode, Objective
from tilestitch.ir.loop_nest import LoopMapping, LoopNest
from tilestitch.mapping.bounds import ED2P, EDP, LEAST_ENERGY, LEAST_LATENCY, PARETO
from tilestitch.mapping.factors import (
    Factors,
    Limits,
    Orders,
    one_operand_stays,
    orders_of,
    spatial_tilings,
    with_sums_that_stay,
)
from tilestitch.mapping.space import Space
from tilestitch.mapping.tables import MachineTable, NestTable, machine_table, nest_table
from tilestitch.mapping.tiles import count_tilings, fitting_tiles
from tilestitch.mapping.walk import BY_REGISTERS, BY_SPACE, BY_TILE, EVALUATED, KNOWN, OUTCOMES, Best, walk

STEP = 64  # spatial tilings between two reports of progress


_NUMBERS = {
    Objective.EDP: EDP,
    Objective.ED2P: ED2P,
    Objective.ENERGY: LEAST_ENERGY,
    Objective.LATENCY: LEAST_LATENCY,
    Objective.PARETO: PARETO,
}


@dataclass(frozen=True, slots=True)
class Found:
    """A mapping with its latency and energy, which are estimated."""

    mapping: LoopMapping
    cycles: int
    energy_pj: float

    @property
    def edp(self) -> float:
        return self.cycles * self.energy_pj


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The best mappings, best first, and what became of the space.

    Of `spatial` ways to spread the loops over elements `spatial_pruned` were left out whole; of the others so many
    tilings were left out with their register files, so many one by one or with others of the scratchpad, and so many
    were evaluated, in all orders that may be best.
    """

    best: tuple[Found, ...]
    spatial: int
    spatial_pruned: int
    register_pruned: int  # tilings; 0 where factors are ragged, as they are not counted then
    tile_pruned: int  # likewise
    evaluated: int


@dataclass(frozen=True)
class SearchSpace:
    """A nest, a machine and the limits of a search, in the form that compiled code takes."""

    nest: LoopNest
    machine: ArrayMachine
    nest_table: NestTable
    machine_table: MachineTable
    space: Space
    orders: Orders  # of the scratchpad's loops
    outer_orders: Orders  # of DRAM's loops
    spatials: np.ndarray

    def tilings(self) -> int:
        """How many exact tilings fit and are within the limits."""
        return int(count_tilings(self.nest_table, self.machine_table, self.space, self.spatials))


def search_space(
    nest: LoopNest,
    machine: ArrayMachine,
    mode: CostMode = CostMode.DEFAULT,
    *,
    ragged: bool = False,
    limits: Limits | None = None,
) -> SearchSpace:
    """All that fits and is within limits; raises InputError for too many loops."""
    limits = Limits() if limits is None else limits
    table, numbers = nest_table(nest, machine, limits.room), machine_table(machine)
    factors = Factors.of(nest, ragged=ragged)
    stays_once = one_operand_stays(nest)
    # An operand that a fixed dataflow keeps in the registers rules out orders, so the others must all be there.
    every = not stays_once or limits.stays is not None
    orders = outer = orders_of(nest, every=every)
    if mode is CostMode.DEFAULT and sums_may_take_longer(machine):
        outer = orders_of(nest, every=True, by_result=True)
    if limits.sums_stay:
        outer = with_sums_that_stay(outer, nest)
    loops = len(nest.loops)
    sizes = np.ones(loops, np.int64)
    most = max(nest.extents)
    place, divisors = np.full((loops, most + 1), -1), np.ones((loops, 1), np.int64)
    radix, tiles = np.ones(loops, np.int64), 0
    if not ragged:
        found = [factors.items[slice(*factors.first[factors.row[extent] :][:2])] for extent in nest.extents]
        sizes = np.array([len(one) for one in found])
        divisors = np.ones((loops, sizes.max()), np.int64)
        for at, one in enumerate(found):
            divisors[at, : len(one)] = one
            place[at, one] = np.arange(len(one))
            radix[at] = prod(sizes[at + 1 :])
        tiles = prod(sizes)
    space = Space(
        published=mode is CostMode.PUBLISHED,
        ragged=ragged,
        held=table if limits.held is None else nest_table(limits.held, machine),
        one_stays=stays_once,
        first=factors.first,
        items=factors.items,
        row=factors.row,
        order_first=orders.first,
        order_runs=orders.runs,
        outer_first=outer.first,
        outer_runs=outer.runs,
        compulsory=np.array([_compulsory(nest, k, mode) for k in range(len(nest.operands))]),
        dram_most=np.array([1 if at in limits.whole_in_scratchpad else most for at in range(loops)]),
        stays=-1 if limits.stays is None else limits.stays,
        least_registers=limits.least_registers * machine.register_bytes,
        least_scratchpad=limits.least_scratchpad * machine.scratchpad_bytes,
        below=np.zeros(tiles, np.int64),
        least_busy=np.zeros(tiles),
        least_brought=np.zeros(tiles),
        busy=np.zeros(tiles),
        brought=np.zeros(tiles),
        radix=radix,
        place=place,
    )
    if not ragged:
        fitting_tiles(table, numbers, space, sizes, divisors)
    spatials = spatial_tilings(nest, machine.elements, factors, limits)
    return SearchSpace(nest, machine, table, numbers, space, orders, outer, spatials)


def sums_may_take_longer(machine: ArrayMachine) -> bool:
    """Whether partial sums that come back may take longer than results that go: then tiles differ in their slots."""
    return machine.micro.double_buffered[2] or machine.micro.network_latency_cycles > 2


def _compulsory(nest: LoopNest, operand: int, mode: CostMode) -> float:
    """Words that DRAM moves at least: every one that some iteration touches, once.

    That is less than the box around them where a stride is longer than the window. dMazeRunner's count of an input that
    is larger in memory than what is read may be less still, so nothing is sure then.
    """
    one = nest.operands[operand]
    if mode is CostMode.PUBLISHED and one.extents(nest.extents) != one.shape:
        return 0.0
    sizes = []
    for terms in one.axes:
        touched = np.zeros(1, np.int64)
        for loop, step in terms:
            touched = np.unique(touched[:, None] + abs(step) * np.arange(nest.extents[loop]))
        sizes.append(len(touched))
    loops = [loop for terms in one.axes for loop, _ in terms]
    return float(prod(sizes) if len(loops) == len(set(loops)) else max(sizes, default=1))


def search(
    within: SearchSpace,
    objective: Objective,
    *,
    keep: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> SearchResult:
    """The `keep` best tilings, each in its best orders; of a Pareto front all of it, each by one mapping."""
    room = 64 if objective is Objective.PARETO else keep
    loops = len(within.nest.loops)
    best = _room_for(room, loops, objective)
    outcomes = np.zeros(OUTCOMES, np.int64)
    first = 0
    while first < len(within.spatials):
        if progress is not None:
            progress(first, len(within.spatials))
        rows = within.spatials[first : first + STEP]
        before = Best(*(part.copy() for part in best)), outcomes.copy()
        walk(within.nest_table, within.machine_table, within.space, rows, best, outcomes)
        if best.state[KNOWN] >= 0:
            first += len(rows)
            continue
        old, outcomes = before  # the front outgrew its room
        room *= 2
        best = _room_for(room, loops, objective)
        known = int(old.state[KNOWN])
        best.figures[:known], best.mappings[:known] = old.figures[:known], old.mappings[:known]
        best.state[KNOWN] = known
    found = []
    known = int(best.state[KNOWN])
    for (cycles, energy), row in zip(best.figures[:known], best.mappings[:known], strict=True):
        dram, spm, rf, spatial = (tuple(map(int, row[at * loops : (at + 1) * loops])) for at in range(4))
        outside, inside = (
            tuple(map(int, orders.rows[one]))
            for orders, one in zip((within.outer_orders, within.orders), row[4 * loops :], strict=True)
        )
        found.append(Found(LoopMapping(dram, spm, rf, spatial, outside, inside), int(cycles), float(energy)))
    return SearchResult(
        tuple(found),
        len(within.spatials),
        int(outcomes[BY_SPACE]),
        int(outcomes[BY_REGISTERS]),
        int(outcomes[BY_TILE]),
        int(outcomes[EVALUATED]),
    )


def _room_for(room: int, loops: int, objective: Objective) -> Best:
    """Empty tables for so many mappings."""
    return Best(
        np.zeros((room, 2)), np.zeros((room, 4 * loops + 2), np.int64), np.array([0, room, _NUMBERS[objective]])
    )

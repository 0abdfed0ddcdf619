"""The best mappings of a nest on an array: proven, since what the search leaves out cannot be among them."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from math import prod

import numpy as np

from tilestitch.cost.array.tables import MachineTable, NestTable, machine_table, nest_table
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.ir.loop_nest import LoopMapping, LoopNest
from tilestitch.mapping.factors import Factors, Limits, Orders, one_operand_stays, orders_of, spatial_tilings
from tilestitch.mapping.walk import (
    BY_REGISTERS,
    BY_SPACE,
    EDP,
    EVALUATED,
    LEAST_ENERGY,
    LEAST_LATENCY,
    OUTCOMES,
    PARETO,
    Space,
    count_tilings,
    fitting_tiles,
    walk,
)

STEP = 64  # spatial tilings between two reports of progress


class Mode(StrEnum):
    """Which cost: our own, or dMazeRunner's to the digit."""

    DEFAULT = "default"
    PUBLISHED = "published"


class Objective(StrEnum):
    """What a mapping is best in."""

    EDP = "edp"  # energy times latency
    ENERGY = "energy"  # the faster of two with the same
    LATENCY = "latency"  # the one with less energy of two with the same
    PARETO = "pareto"  # every mapping that none beats in both


_NUMBERS = {
    Objective.EDP: EDP,
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
class Outcome:
    """The best mappings, best first, and what became of the space.

    Of `spatial` ways to spread the loops over elements `spatial_pruned` were left out whole; of the others so many
    tilings were left out with their register files, and so many were evaluated, under all orders that may be best.
    """

    best: tuple[Found, ...]
    spatial: int
    spatial_pruned: int
    register_pruned: int  # tilings; 0 where factors are ragged, as they are not counted then
    evaluated: int


@dataclass(frozen=True)
class SearchSpace:
    """A nest, a machine and the limits of a search, in the form that compiled code takes."""

    nest: LoopNest
    machine: ArrayMachine
    nest_table: NestTable
    machine_table: MachineTable
    space: Space
    orders: Orders
    spatials: np.ndarray

    def tilings(self) -> int:
        """How many exact tilings fit and are within the limits."""
        return int(count_tilings(self.nest_table, self.machine_table, self.space, self.spatials))


def search_space(
    nest: LoopNest,
    machine: ArrayMachine,
    mode: Mode = Mode.DEFAULT,
    *,
    ragged: bool = False,
    limits: Limits | None = None,
    every_order: bool = False,
) -> SearchSpace:
    """All that fits and is within limits; `every_order`: orders that cannot be best too. InputError: too many loops."""
    limits = Limits() if limits is None else limits
    table, numbers = nest_table(nest, machine), machine_table(machine)
    factors = Factors.of(nest, ragged=ragged)
    stays_once = one_operand_stays(nest)
    # An operand that a fixed dataflow keeps in the registers rules out orders, so the others must all be there.
    orders = orders_of(nest, every=every_order or not stays_once or limits.stays is not None)
    loops = len(nest.loops)
    sizes = np.ones(loops, np.int64)
    most = max(nest.extents)
    place, divisors = np.full((loops, most + 1), -1), np.ones((loops, 1), np.int64)
    radix, below = np.ones(loops, np.int64), np.zeros(0, np.int64)
    if not ragged:
        found = [factors.items[slice(*factors.first[factors.row[extent] :][:2])] for extent in nest.extents]
        sizes = np.array([len(one) for one in found])
        divisors = np.ones((loops, sizes.max()), np.int64)
        for at, one in enumerate(found):
            divisors[at, : len(one)] = one
            place[at, one] = np.arange(len(one))
            radix[at] = prod(sizes[at + 1 :])
        below = np.zeros(prod(sizes), np.int64)
    space = Space(
        published=mode is Mode.PUBLISHED,
        ragged=ragged,
        one_stays=stays_once,
        values=factors.values,
        first=factors.first,
        items=factors.items,
        row=factors.row,
        order_first=orders.first,
        order_rows=orders.rows,
        order_runs=orders.runs,
        compulsory=np.array([_compulsory(nest, k, mode) for k in range(len(nest.operands))]),
        dram_most=np.array([1 if at in limits.whole_in_scratchpad else most for at in range(loops)]),
        stays=-1 if limits.stays is None else limits.stays,
        least_elements=0,
        least_registers=limits.least_registers * machine.register_bytes,
        least_scratchpad=limits.least_scratchpad * machine.scratchpad_bytes,
        below=below,
        radix=radix,
        place=place,
    )
    if not ragged:
        fitting_tiles(table, numbers, space, sizes, divisors, below)
    spatials = spatial_tilings(nest, machine.elements, factors, limits)
    return SearchSpace(nest, machine, table, numbers, space, orders, spatials)


def _compulsory(nest: LoopNest, operand: int, mode: Mode) -> float:
    """Words that DRAM moves at least: every one that some iteration touches, once.

    That is less than the box around them where a stride is longer than the window. dMazeRunner's count of an input that
    is larger in memory than what is read may be less still, so nothing is sure then.
    """
    one = nest.operands[operand]
    if mode is Mode.PUBLISHED and one.extents(nest.extents) != one.shape:
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
) -> Outcome:
    """The `keep` best tilings, each in its best orders; of a Pareto front all of it, each by one mapping."""
    room = 64 if objective is Objective.PARETO else keep
    loops = len(within.nest.loops)
    best, kept = np.zeros((room, 2)), np.zeros((room, 4 * loops + 2), np.int64)
    known, outcomes = 0, np.zeros(OUTCOMES, np.int64)
    first = 0
    while first < len(within.spatials):
        if progress is not None:
            progress(first, len(within.spatials))
        rows = within.spatials[first : first + (STEP if first else 1)]
        before = best.copy(), kept.copy(), known, outcomes.copy()
        known = walk(
            within.nest_table,
            within.machine_table,
            within.space,
            _NUMBERS[objective],
            rows,
            best,
            kept,
            known,
            room,
            outcomes,
        )
        if known < 0:  # the front outgrew its table
            old_best, old_kept, known, outcomes = before
            best, kept = np.zeros((2 * room, 2)), np.zeros((2 * room, 4 * loops + 2), np.int64)
            best[:room], kept[:room] = old_best, old_kept
            room *= 2
            continue
        first += len(rows)
    found = []
    for (cycles, energy), row in zip(best[:known], kept[:known], strict=True):
        dram, spm, rf, spatial = (tuple(map(int, row[at * loops : (at + 1) * loops])) for at in range(4))
        outside, inside = (tuple(map(int, within.orders.rows[one])) for one in row[4 * loops :])
        found.append(Found(LoopMapping(dram, spm, rf, spatial, outside, inside), int(cycles), float(energy)))
    return Outcome(
        tuple(found),
        len(within.spatials),
        int(outcomes[BY_SPACE]),
        int(outcomes[BY_REGISTERS]),
        int(outcomes[EVALUATED]),
    )

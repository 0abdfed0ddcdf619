"""The best mapping in time of a nest, of all choices of what it spreads over the units.

Choices are taken in the order of the least energy and the steps that each can have, closer bounds are made of those
that are left, and what these do not settle is searched. The searches say how good a choice is; of those that are as
good as the best the mappings are then found by the search that makes tables of the whole lattice.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from heapq import heappop, heappush
from itertools import product
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilestitch.base.errors import TooLarge
from tilestitch.ir.choices import Objective
from tilestitch.mapping.tree import labels
from tilestitch.mapping.tree.choices import Choices
from tilestitch.mapping.tree.cycle_bounds import least_cycles
from tilestitch.mapping.tree.even_bounds import ED2P, EDP, LATENCY
from tilestitch.mapping.tree.found import FoundMapping, SpatialSearch, no_choice_fits
from tilestitch.mapping.tree.opener import Opener
from tilestitch.mapping.tree.placed import PlacedNest, Unrolled
from tilestitch.mapping.tree.sliding import needs_tables, with_slides
from tilestitch.mapping.tree.spread_task import (
    SpreadTask,
    bounds_fj,
    in_turn_fj,
    stores_evenly,
    together_in_time,
    units_fj,
)
from tilestitch.mapping.tree.tables import FEMTO
from tilestitch.mapping.tree.timed_opened import NO_POINTS, Aim
from tilestitch.mapping.tree.timed_quick import timing_of
from tilestitch.mapping.tree.timed_search import FEW_LABELS, NUMBERS, Bounded, best_in_order

FEW = 2**16  # choices for all of which closer bounds of time are made, where tables are
BATCH = 256  # choices of which it is asked whether any fits
MANY = 2**16  # choices whose bounds are made together, once some mapping is known
SEVERAL = 2**8  # choices whose closer bounds are made first; of more, loose bounds of cycles are asked before

FIRST = 16  # choices that are laid out, or bounded by all operands together, at first; and that are searched narrowly
ROUND, GROWTH = 2**16, 8  # labels of a choice in the first round, and how much more in every later one
WIDTHS = 32, 128, 512  # labels of as many moves that are opened for some mapping, until there is any

_Whole = NDArray[np.int64]
_Values = NDArray[np.float64]


class _Bounds(NamedTuple):
    """Below what no mapping of a choice comes: the objective, and energy where the objective is no more than that."""

    value: float
    energy_pj: float
    rank: int
    number: int


def placement(bare: PlacedNest, choices: Choices, number: int) -> PlacedNest:
    """The nest with one of the choices."""
    spread: list[Unrolled] = []
    for at, loop in product(range(len(bare.tree.axes)), range(len(bare.nest.loops))):
        factor = Fraction(int(choices.over[number, at, loop]), int(choices.under[number, at, loop]))
        if factor != 1:
            spread.append(Unrolled(bare.tree.axes[at].name, loop, factor))
    return replace(bare, unrolled=tuple(spread))


def best_spread_in_time(
    task: SpreadTask, choices: Choices, bounds: _Whole, most_labels: int, objective: Objective
) -> SpatialSearch:
    """Choices by the least energy (`bounds`, in femtojoules) and the least cycles that each can have, together.

    Of equal ones the first counts, by the least energy and the steps alone.
    """
    if not needs_tables(task.bare):
        try:
            return _InTime(task, choices, bounds, objective).best(most_labels)
        except TooLarge:
            pass  # the other search says what is, or compares it
    return best_by_tables(task, choices, bounds, most_labels, objective)


def _values(task: SpreadTask, objective: Objective, fj: _Whole, cycles: _Values | _Whole) -> _Values:
    """What mappings of such energies (without arithmetic) and cycles are worth; infinite where none fits."""
    fixed_pj = task.bare.tree.mac_pj * task.bare.nest.macs
    energies = 1.0 if objective is Objective.LATENCY else fj / FEMTO + fixed_pj
    squared = cycles if objective is Objective.ED2P else 1.0
    return np.where(fj >= labels.NEVER, inf, energies * cycles.astype(np.float64) * squared)


def _ranks(values: _Values) -> tuple[_Whole, _Whole]:
    """Choices in the order of their values, and the place of each in it."""
    order = np.argsort(values, kind="stable")
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return order, ranks


class _InTime:
    """Goes through all choices of a nest, each with a search of its own."""

    def __init__(self, task: SpreadTask, choices: Choices, bounds: _Whole, objective: Objective) -> None:
        self._task, self._choices, self._bounds, self._objective = task, choices, bounds, objective
        self._steps = choices.steps.prod(axis=1)
        self._loose = _values(task, objective, bounds, self._steps)
        self._order, self._ranks = _ranks(self._loose)
        self._opener = Opener(task, choices, timing_of(task.operands))
        self._fixed_fj = round(task.bare.tree.mac_pj * task.bare.nest.macs * FEMTO)
        cuts = sum(len(one.memories) + 1 for one in task.operands)
        least = int(bounds.min()) + self._fixed_fj
        # whole femtojoules of cuts, and picojoules of a mapping, may differ by so much
        self._doubt = 1e-11 if objective is Objective.LATENCY else 1e-11 + 2 * (cuts + 2) / max(1, least)
        self._doubt_fj = cuts + 2
        self._best, self._best_fj = inf, inf  # of those that were found; in femtojoules
        self._found: dict[int, tuple[float, float]] = {}  # choices with the value and the energy of what was found
        self._used = 0
        self._opened: set[int] = set()
        self._left = inf  # below what nothing comes that was not looked at

    def best(self, most_labels: int) -> SpatialSearch:
        """The best mapping of all choices; DoesNotFit where none fits."""
        start, size = 0, 32
        while start < len(self._order) and self._used <= most_labels:
            block = self._order[start : start + size]
            block = block[(self._loose[block] <= self._cutoff / self._unit) & (self._loose[block] < inf)]
            if len(block) == 0:
                break
            self._search_block(block, most_labels)
            start, size = start + size, MANY
        if self._used > most_labels and start < len(self._order):
            self._left = min(self._left, float(self._loose[self._order[start]]))
        return self._finished(most_labels)

    @property
    def _unit(self) -> float:
        """How much a value of the compiled search is of a value."""
        return 1.0 if self._objective is Objective.LATENCY else float(FEMTO)

    @property
    def _cutoff(self) -> float:
        return self._best * (1 + self._doubt)

    def _closer(self, block: _Whole) -> _Whole:
        """Closer bounds of the energies of some choices."""
        some = self._choices[block]
        close = units_fj(self._task, some) + bounds_fj(self._task, some, loose=False) + in_turn_fj(self._task, some)
        return np.maximum(self._bounds[block], np.minimum(close, labels.NEVER))

    def _by_ports(self, block: _Whole) -> _Values:
        """Below what no value of some choices comes by loose bounds of the ports' cycles: many are alike to those."""
        return _values(self._task, self._objective, self._bounds[block], self._opener.least_cycles(block, loose=True))

    def _search_block(self, block: _Whole, most_labels: int) -> None:
        """Search choices, the best by loose bounds first; what few of them come to leaves less of the others."""
        values = self._loose[block] if len(block) <= SEVERAL else self._by_ports(block)
        order = np.lexsort((self._ranks[block], values))
        block, values = block[order], values[order]
        start, size = 0, SEVERAL
        while start < len(block):
            chosen = block[start : start + size]
            chosen = chosen[values[start : start + size] <= self._cutoff / self._unit]
            if len(chosen) == 0:
                break
            self._search_some(chosen, most_labels)
            start, size = start + size, 8 * size

    def _search_some(self, block: _Whole, most_labels: int) -> None:
        """Search choices in the order of closer bounds."""
        close = self._closer(block)
        values = _values(self._task, self._objective, close, self._steps[block])
        chosen = (values <= self._cutoff / self._unit) & (close < labels.NEVER)
        block, close = block[chosen], close[chosen]
        if len(block) == 0:
            return
        least = _values(self._task, self._objective, close, self._opener.least_cycles(block))
        most = 0
        while len(block) > 0 and most < most_labels and self._used <= most_labels:
            most = min(most_labels, max(ROUND, GROWTH * most))
            order = np.lexsort((self._ranks[block], least))
            block, least, close = block[order], least[order], close[order]
            left = self._search_round(block, least, close, (most, most_labels))
            where = np.flatnonzero(left < inf)
            block, least, close = block[where], left[where], close[where]
        self._left = min([self._left, *least.tolist()])

    def _search_round(self, block: _Whole, least: _Values, close: _Whole, most: tuple[int, int]) -> _Values:
        """Search some choices, each with few labels: below what nothing comes that is left of each, or infinity.

        `most` are labels of a choice and of all. What is found of a late choice leaves little of the early ones.
        """
        if most[0] > ROUND or self._best == inf:
            self._dive(block, most[1])
        left = np.full(len(block), inf)
        start, size = 0, FIRST
        while start < len(block):
            some = np.arange(start, min(start + size, len(block)))
            some = some[[self._may_be_best(float(least[at]), int(close[at])) for at in some]]
            start, size = start + size, 4 * size
            for part in self._opener.blocks(block[some]):
                self._opener.take(block[some[part]])
                for at in some[part].tolist():
                    if not self._may_be_best(float(least[at]), int(close[at])):
                        continue
                    left[at] = least[at]
                    if self._used <= most[1]:
                        left[at] = max(left[at], self._search(int(block[at]), most[0]))
        return left

    def _may_be_best(self, least: float, close: int) -> bool:
        """Whether a choice with such bounds of its value and of its energy may be the best, or as good."""
        if least > self._cutoff / self._unit:
            return False
        is_open = self._objective is not Objective.LATENCY or least < self._best
        return is_open or close + self._fixed_fj <= self._best_fj + self._doubt_fj

    def _search(self, number: int, most_labels: int) -> float:
        """Search one choice: below what nothing comes that is left of it."""
        ended, count, value = self._open(number, 0, most_labels)
        if count > 0:
            self._opened.add(number)
        return value / self._unit if ended == labels.STOPPED else inf

    def _dive(self, block: _Whole, most_labels: int) -> None:
        """Find some good mapping of the first choices, or of all that are left of a round, to hold others against."""
        if self._best == inf:
            block = block[:FIRST]
        for width in WIDTHS:
            for part in self._opener.blocks(block):
                self._opener.take(block[part])
                for number in block[part].tolist():
                    if self._best < inf and self._used > most_labels:
                        return
                    self._open(number, width, FEW_LABELS)
            if self._best < inf:
                return

    def _open(self, number: int, width: int, most_labels: int) -> tuple[int, int, float]:
        """How the search of one choice ended, its labels, and the value of what was found or left."""
        ended, count, value, energy = self._opener.best(number, self._aim(width), most_labels)
        self._used += count
        if ended == labels.FOUND:
            self._keep(number, value, energy)
        return ended, count, value

    def _aim(self, width: int) -> Aim:
        tie, tie_fj = inf, inf
        if self._objective is Objective.LATENCY:
            tie, tie_fj = self._best, self._best_fj - self._fixed_fj + self._doubt_fj
        return Aim(NUMBERS[self._objective], float(self._fixed_fj), self._cutoff, tie, tie_fj, width, NO_POINTS)

    def _keep(self, number: int, value: float, energy: int) -> None:
        self._found[number] = (value, float(energy + self._fixed_fj))
        self._best, self._best_fj = min((self._best, self._best_fj), self._found[number])

    def _finished(self, most_labels: int) -> SpatialSearch:
        """The mapping of the best choice, found again with tables of its lattice."""
        bare = self._task.bare
        if not self._found and self._left < inf:  # labels ran out before any mapping was found
            chosen, ceiling = self._order[:BATCH].tolist(), inf
        else:
            ceiling = self._cutoff
            chosen = [one for one in self._found if self._is_as_good(*self._found[one])]
        ordered = (Bounded(placement(bare, self._choices, one), 0.0, int(self._ranks[one])) for one in chosen)
        found, _ = best_in_order(ordered, self._task.sums, max(most_labels, FEW_LABELS), self._objective, ceiling)
        if found is None:
            raise no_choice_fits(placement(bare, self._choices, 0), self._task.sums, self._choices.steps)
        bound = min(self._left, found.bound)
        proven = bound >= found.value
        found = replace(
            found,
            is_proven=proven,
            labels=self._used,
            bound_value=found.value if proven else bound,
            bound_pj=self._least_fitting(self._bounds) / FEMTO + bare.tree.mac_pj * bare.nest.macs,
            bound_cycles=self._least_fitting(self._steps),
        )
        return SpatialSearch(found, len(self._choices), len(self._opened))

    def _is_as_good(self, value: float, fj: float) -> bool:
        """Whether nothing better was found; of the same latency nothing that costs less."""
        if self._objective is Objective.LATENCY:
            return (value, fj) <= (self._best, self._best_fj + self._doubt_fj)
        return value <= self._cutoff

    def _least_fitting(self, numbers: _Whole) -> int:
        """The least of these numbers of all choices of which any mapping fits."""
        order = np.argsort(np.where(self._bounds < labels.NEVER, numbers, labels.NEVER), kind="stable")
        for start in range(0, len(order), BATCH):
            block = order[start : start + BATCH]
            fitting = block[self._closer(block) < labels.NEVER]
            if len(fitting):
                return int(numbers[fitting[0]])
        raise AssertionError("a mapping was found")


def best_by_tables(
    task: SpreadTask, choices: Choices, bounds: _Whole, most_labels: int, objective: Objective
) -> SpatialSearch:
    """Choices by their bounds, each with the tables of its placement."""
    steps = choices.steps.prod(axis=1)
    _, ranks = _ranks(_values(task, objective, bounds, steps))
    is_even, close = stores_evenly(task.bare), bounds
    cycles = steps if is_even else least_cycles(task, choices, loose=len(choices) > FEW)
    if len(choices) <= FEW:
        close = units_fj(task, choices) + bounds_fj(task, choices, loose=False) + in_turn_fj(task, choices)
        close = np.maximum(bounds, np.minimum(close, labels.NEVER))
    least = _values(task, objective, close, cycles) * (1 - 1e-12)
    order = np.lexsort((ranks, least))
    order = order[least[order] < inf]
    searched: set[int] = set()

    def ordered() -> Iterator[Bounded]:
        alone = [_Bounds(float(least[number]), 0.0, int(ranks[number]), number) for number in order.tolist()]
        for bounds in _by_all_operands(task, choices, objective, alone) if is_even else alone:
            for one in with_slides([placement(task.bare, choices, bounds.number)]):
                yield Bounded(one, bounds.value, bounds.rank, bounds.energy_pj)
                searched.add(bounds.number)

    found: FoundMapping | None
    found, _ = best_in_order(ordered(), task.sums, most_labels, objective)
    if found is None:
        raise no_choice_fits(placement(task.bare, choices, 0), task.sums, choices.steps)
    bound_pj = int(bounds[order].min()) / FEMTO + task.bare.tree.mac_pj * task.bare.nest.macs
    found = replace(found, bound_pj=bound_pj, bound_cycles=int(steps[order].min()))
    return SpatialSearch(found, len(choices), len(searched))


def _by_all_operands(
    task: SpreadTask, choices: Choices, objective: Objective, ordered: Sequence[_Bounds]
) -> Iterator[_Bounds]:
    """Choices of a tree that stores evenly by the bounds of all operands together, made as they are needed.

    They come in the order of other bounds. Of the same latency those of the least energy come first.
    """
    cuts = sum(len(one.memories) + 1 for one in task.operands)
    # rounded at each cut
    fixed_fj = round(task.bare.tree.mac_pj * task.bare.nest.macs * FEMTO) - cuts - 2
    aim = {Objective.LATENCY: LATENCY, Objective.EDP: EDP, Objective.ED2P: ED2P}[objective]
    waiting: list[_Bounds] = []
    start, size = 0, FIRST
    while start < len(ordered) or waiting:
        while start < len(ordered) and (not waiting or ordered[start] < waiting[0]):
            block = ordered[start : start + size]
            some = choices[np.array([one.number for one in block])]
            worth, fj = together_in_time(task, some, units_fj(task, some) + fixed_fj, aim)
            for one, value, least_fj in zip(block, worth.tolist(), fj.tolist(), strict=True):
                if least_fj >= labels.NEVER:
                    continue
                if objective is Objective.LATENCY:
                    bounds = _Bounds(value, least_fj / FEMTO * (1 - 1e-12), one.rank, one.number)
                else:
                    bounds = _Bounds(max(one.value, value / FEMTO * (1 - 1e-12)), 0.0, one.rank, one.number)
                heappush(waiting, bounds)
            start, size = start + size, 2 * size
        if waiting:
            yield heappop(waiting)

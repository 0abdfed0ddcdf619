"""The best mapping of a nest on a tree, of all choices of what it spreads over the units.

Choices are opened in the order of a bound: of every operand the least that it costs alone on this choice. They end
where the bound is not below the best mapping that is known.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import inf, prod

import numpy as np
from numpy.typing import NDArray

from tilestitch.base.errors import DoesNotFit, InputError, TooLarge
from tilestitch.ir.choices import Objective
from tilestitch.mapping.tree import labels
from tilestitch.mapping.tree.choice_rows import seen_factors
from tilestitch.mapping.tree.choices import Choices, Ragged, SpatialSpace, choices_of
from tilestitch.mapping.tree.cycle_bounds import least_cycles
from tilestitch.mapping.tree.found import FoundMapping
from tilestitch.mapping.tree.lattice import points_of
from tilestitch.mapping.tree.opened import TOO_LARGE, least_of_choice
from tilestitch.mapping.tree.placed import PlacedNest, Unrolled
from tilestitch.mapping.tree.problem import MOST_STATES
from tilestitch.mapping.tree.quick import tables_alone
from tilestitch.mapping.tree.search import MOST_LABELS, best_mapping
from tilestitch.mapping.tree.sliding import needs_tables, with_slides
from tilestitch.mapping.tree.spread_task import SpreadTask, bounds_fj, compared, in_turn_fj, task_of, units_fj
from tilestitch.mapping.tree.tables import FEMTO, Sums
from tilestitch.mapping.tree.timed_search import best_in_order

__all__ = [
    "Opener",
    "Ragged",
    "SpatialSpace",
    "best_spread",
    "bounds_fj",
    "choices_of",
    "placement",
    "task_of",
    "units_fj",
]

FEW = 2**16  # choices for all of which closer bounds of time are made
BATCH = 256  # choices whose bounds are made together
TOGETHER = 2**22  # points of the lattices of choices whose tables are


@dataclass(frozen=True, slots=True)
class SpatialSearch:
    """The best mapping of all choices, and how many there were and were opened."""

    found: FoundMapping
    choices: int
    opened: int


def placement(bare: PlacedNest, choices: Choices, number: int) -> PlacedNest:
    """The nest with one of the choices."""
    spread: list[Unrolled] = []
    for at, loop in product(range(len(bare.tree.axes)), range(len(bare.nest.loops))):
        factor = Fraction(int(choices.over[number, at, loop]), int(choices.under[number, at, loop]))
        if factor != 1:
            spread.append(Unrolled(bare.tree.axes[at].name, loop, factor))
    return replace(bare, unrolled=tuple(spread))


def best_spread(
    bare: PlacedNest,
    space: SpatialSpace = SpatialSpace(),
    sums: Sums = Sums.FULL,
    most_labels: int = MOST_LABELS,
    objective: Objective = Objective.ENERGY,
) -> SpatialSearch:
    """The best mapping of all choices, proven unless labels run out.

    Raises `DoesNotFit` where no choice has a mapping that fits, or none uses as many units as is asked, and
    `InputError` for a front, which is not searched over choices.
    """
    if objective is Objective.PARETO:
        raise InputError(f"{bare.nest.name}: a front has several mappings; ask free_front for it")
    choices = choices_of(bare, space)
    if len(choices) == 0:
        raise DoesNotFit(
            f"{bare.nest.name}: no choice of what to spread uses {space.least_use:.0%} of {bare.tree.units:,} units"
        )
    task = task_of(bare, sums)
    units = units_fj(task, choices)
    bounds = np.minimum(units + bounds_fj(task, choices, loose=True), labels.NEVER)
    if objective is not Objective.ENERGY:
        return _best_in_time(task, choices, bounds, most_labels, objective)
    if needs_tables(bare):
        return _best_by_tables(task, choices, bounds, most_labels)
    best, winner, used, opened, left = labels.NEVER, -1, 0, 0, labels.NEVER
    opener = Opener(task, choices)
    order = np.argsort(bounds, kind="stable")
    is_worth, settles, tight, close, known = True, True, bounds.copy(), bounds.copy(), 0
    for start in range(0, len(order), BATCH):
        batch = order[start : start + BATCH]
        batch = batch[bounds[batch] < best]
        if len(batch) == 0:
            break
        # the search of a choice begins with closer bounds: made beforehand they pay if they settle many
        if start >= known and (settles or is_worth):
            known = min(len(order), max(BATCH, 4 * start if settles else start + BATCH))
            block = order[start:known]
            block = block[bounds[block] < best]
            tight[block] = np.minimum(units[block] + bounds_fj(task, choices[block], loose=False), labels.NEVER)
            close[block] = np.minimum(tight[block] + in_turn_fj(task, choices[block]), labels.NEVER)
            settles = best == labels.NEVER or 2 * int((close[block] < best).sum()) < len(block)
        if is_worth:
            bounds[batch] = tight[batch]
            batch = batch[np.argsort(bounds[batch], kind="stable")]
            is_worth = 2 * int((bounds[batch] < best).sum()) < len(batch) or best == labels.NEVER
        batch = batch[close[batch] < best]
        for number in opener.each(batch):
            if bounds[number] >= best or used > most_labels:
                break
            if close[number] >= best:
                continue
            ended, value, more_labels = opener.least(number, most_labels - used, best)
            used, opened = used + more_labels, opened + (more_labels > 0)
            if ended == labels.STOPPED:
                left = min(left, value)
                continue
            bounds[number] = close[number] = labels.NEVER  # nothing of it is left
            if ended == labels.FOUND:
                best, winner = value, number
        if used > most_labels:
            left = min(left, int(np.maximum(bounds, close)[order[start:]].min()))
            break
    if winner < 0 and bare.limits and left == labels.NEVER:
        raise DoesNotFit(
            f"{bare.nest.name}: no mapping fits the memories within the limits that are given; allow larger or smaller "
            "tiles, or a larger share"
        )
    found = best_mapping(placement(bare, choices, winner if winner >= 0 else int(bounds.argmin())), sums, most_labels)
    if left < best:
        bound_pj = left / FEMTO + found.price.mac_pj
        found = replace(found, bound_pj=min(bound_pj, found.price.energy_pj), is_proven=False)
    return SpatialSearch(replace(found, labels=used), len(choices), opened)


def _best_in_time(
    task: SpreadTask, choices: Choices, bounds: NDArray[np.int64], most_labels: int, objective: Objective
) -> SpatialSearch:
    """Choices by the least energy and the least cycles that each can have, together.

    Of equal ones the first counts, by the least energy and the steps alone.
    """
    steps = choices.steps.prod(axis=1)
    fixed_pj = task.bare.tree.mac_pj * task.bare.nest.macs

    def values(fj: NDArray[np.int64], cycles: NDArray[np.float64]) -> NDArray[np.float64]:
        energies = 1.0 if objective is Objective.LATENCY else fj / FEMTO + fixed_pj
        squared = cycles if objective is Objective.ED2P else 1.0
        return np.where(fj >= labels.NEVER, inf, energies * cycles * squared)

    firsts = np.argsort(values(bounds, steps.astype(np.float64)), kind="stable")
    ranks = np.empty(len(choices), np.int64)
    ranks[firsts] = np.arange(len(choices))
    cycles, close = least_cycles(task, choices, loose=len(choices) > FEW), bounds
    if len(choices) <= FEW:
        close = units_fj(task, choices) + bounds_fj(task, choices, loose=False) + in_turn_fj(task, choices)
        close = np.maximum(bounds, np.minimum(close, labels.NEVER))
    least = values(close, cycles) * (1 - 1e-12)
    order = [number for number in np.lexsort((ranks, least)).tolist() if least[number] < inf]
    searched: set[int] = set()

    def ordered() -> Iterator[tuple[PlacedNest, float, int]]:
        for number in order:
            for one in with_slides([placement(task.bare, choices, number)]):
                yield one, float(least[number]), int(ranks[number])
                searched.add(number)

    found, _ = best_in_order(ordered(), task.sums, most_labels, objective)
    if found is None:
        raise DoesNotFit(f"{task.bare.nest.name}: no choice of what to spread has a mapping that fits the memories")
    bound_pj = int(bounds[order].min()) / FEMTO + fixed_pj
    found = replace(found, bound_pj=bound_pj, bound_cycles=int(steps[order].min()))
    return SpatialSearch(found, len(choices), len(searched))


def _best_by_tables(task: SpreadTask, choices: Choices, bounds: NDArray[np.int64], most_labels: int) -> SpatialSearch:
    """Choices by their bounds, each with the tables of its placement."""
    best: FoundMapping | None = None
    count, opened, left_pj = 0, 0, inf
    for number in np.argsort(bounds, kind="stable").tolist():
        placed = placement(task.bare, choices, number)
        least_pj = int(bounds[number]) / FEMTO + placed.tree.mac_pj * placed.nest.macs
        if bounds[number] >= labels.NEVER or (best is not None and least_pj >= best.price.energy_pj):
            break
        if count > most_labels:
            left_pj = min(left_pj, least_pj)
            break
        opened += 1
        try:
            found = best_mapping(placed, task.sums, most_labels)
        except DoesNotFit:
            continue
        count, left_pj = count + found.labels, min(left_pj, found.bound_pj)
        if best is None or found.price.energy_pj < best.price.energy_pj:
            best = found
    if best is None:
        raise DoesNotFit(f"{task.bare.nest.name}: no choice of what to spread has a mapping that fits the memories")
    bound_pj = min(left_pj, best.price.energy_pj)
    proven = replace(best, bound_pj=bound_pj, is_proven=bound_pj >= best.price.energy_pj, labels=count)
    return SpatialSearch(proven, len(choices), opened)


class Opener:
    """Opens choices one after another, with one array for the places of labels."""

    def __init__(self, task: SpreadTask, choices: Choices) -> None:
        self._task, self._choices = task, choices
        self._over = self._under = np.empty((0, 0, 0, 0), np.int64)
        self._togo, self._offsets = np.empty(0, np.int64), np.empty((0, 0), np.int64)
        self._heads = np.full(0, -1, np.int32)
        self._rows: dict[int, int] = {}  # of the choices that were taken
        cuts = [len(one.memories) + (not one.is_write) for one in task.operands]
        self._states = 2 * prod(one + 1 for one in cuts)

    def each(self, numbers: NDArray[np.int64]) -> Iterator[int]:
        """Choices one after another, some of them laid out together."""
        some = max(1, TOGETHER // points_of(self._task.bare.nest.extents))
        for start in range(0, len(numbers), some):
            self.take(numbers[start : start + some])
            yield from numbers[start : start + some].tolist()

    def take(self, numbers: NDArray[np.int64]) -> None:
        """Lay out choices that are opened next, with one table for those that an operand cannot tell apart."""
        task, chosen = self._task, self._choices[numbers]
        pairs = [seen_factors(task.view(chosen, number), task.levels) for number in range(len(task.operands))]
        self._over, self._under = (np.stack([pair[part] for pair in pairs], axis=1) for part in (0, 1))
        self._rows = {number: row for row, number in enumerate(numbers.tolist())}
        self._offsets = np.empty((len(numbers), len(task.operands)), np.int64)
        tables: list[NDArray[np.int64]] = []
        for number in range(len(task.operands)):
            first, back = task.different(chosen, number, sees_steps=not task.arrays.has_latches)
            over, under = self._over[first, number], self._under[first, number]
            final = task.sums is Sums.FINAL
            table, starts = tables_alone(task.bounds, number, over, under, chosen.steps[first], final)
            self._offsets[:, number] = starts[back] + sum(map(len, tables))
            compared(task, table[:1])
            tables.append(table)
        self._togo = np.concatenate(tables)

    def least(self, number: int, most_labels: int, below: int) -> tuple[int, int, int]:
        """How the search of a choice ended, its least cost or bound in femtojoules, and the labels that it took."""
        if number not in self._rows:
            self.take(np.array([number]))
        task, steps, row = self._task, self._choices.steps[number], self._rows[number]
        places = self._states * points_of(steps.tolist())
        if places > MOST_STATES:
            raise TooLarge(f"{task.bare.nest.name}: {places:,} states of the search; at most {MOST_STATES:,} are kept")
        if places > len(self._heads):
            self._heads = np.full(places, -1, np.int32)
        ended, value, count, _ = least_of_choice(
            task.arrays,
            task.bounds,
            self._togo,
            self._offsets[row],
            self._over[row],
            self._under[row],
            steps,
            task.shared,
            task.limit,
            self._heads,
            most_labels,
            below,
            task.sums is Sums.FINAL,
        )
        if ended == TOO_LARGE:
            raise TooLarge(f"{task.bare.nest.name}: energies above 5e14 pJ are not compared; use smaller loops")
        return int(ended), int(value), int(count)

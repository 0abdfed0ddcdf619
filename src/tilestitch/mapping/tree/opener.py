"""Opens spatial choices: lays out what their searches ask, for many choices together, and starts the searches."""

from collections.abc import Iterator
from itertools import pairwise
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilestitch.base.errors import TooLarge
from tilestitch.mapping.tree import labels
from tilestitch.mapping.tree.choice_rows import seen_factors
from tilestitch.mapping.tree.choices import Choices
from tilestitch.mapping.tree.ground import TOO_LARGE, Sheet
from tilestitch.mapping.tree.lattice import points_of
from tilestitch.mapping.tree.opened import USEFUL, USELESS, least_of_choice
from tilestitch.mapping.tree.problem import MOST_STATES
from tilestitch.mapping.tree.quick_bounds import tables_alone
from tilestitch.mapping.tree.quick_clocks import clocks_alone
from tilestitch.mapping.tree.spread_task import SpreadTask, compared
from tilestitch.mapping.tree.tables import Sums
from tilestitch.mapping.tree.timed_near import Clock
from tilestitch.mapping.tree.timed_opened import Aim, best_of_choice
from tilestitch.mapping.tree.timed_pace import SUMS
from tilestitch.mapping.tree.timed_quick import Timing, latencies_at_least, starts_of

VIEWS = 256  # of an operand whose tables of cycles are made together, and not kept
TRIED = 8  # tables of near cuts that are made before it counts how many were of use
TOGETHER = 2**24  # entries at most in tables that are made together, if no two choices shared any

_Whole = NDArray[np.int64]


class Opener:
    """Opens choices one after another, with one array for the places of labels; with `timing` in time as well."""

    def __init__(self, task: SpreadTask, choices: Choices, timing: Timing | None = None) -> None:
        self._task, self._choices, self._timing = task, choices, timing
        self._over = self._under = np.empty((0, 0, 0, 0), np.int64)
        self._togo, self._offsets = np.empty(0, np.int64), np.empty((0, 0), np.int64)
        self._clock, self._clock_offsets = self._togo, self._offsets
        self._heads = np.full(0, -1, np.int32)
        self._loose: dict[int, tuple[_Whole, NDArray[np.bool_]]] = {}  # by operand: least cycles, and which are known
        self._rows: dict[int, int] = {}  # of the choices that were taken
        self._places: list[int] = []  # states of their searches
        self._uses = [0, 0, 0]  # how many searches had no table of near cuts, had one of no use, and one of use
        cuts = [len(one.memories) + (not one.is_write) for one in task.operands]
        self._states = 2 * prod(one + 1 for one in cuts)

    def blocks(self, numbers: _Whole) -> Iterator[slice]:
        """Choices in groups that are laid out together."""
        task, points = self._task, self._points_of(numbers)
        sizes = np.zeros(len(numbers), np.int64)
        for number, operand in enumerate(task.operands):
            kinds = 1 if self._timing is None else 1 + int(self._timing.many_sums[number])
            own = np.where(task.arrays.moving[number], points, 1).prod(axis=1)
            sizes += 2 * (len(operand.memories) + 1) * kinds * own
        group = np.cumsum(sizes) // TOGETHER
        ends = [0, *(np.flatnonzero(np.diff(group)) + 1).tolist(), len(numbers)]
        yield from (slice(start, end) for start, end in pairwise(ends) if start < end)

    def _points_of(self, numbers: _Whole) -> _Whole:
        """How many points the lattice of the steps of each loop has: [choice, loop]."""
        different, back = np.unique(self._choices.steps[numbers], return_inverse=True)
        points = np.array([points_of([one]) for one in different.tolist()], np.int64)
        return points[back].reshape(len(numbers), self._choices.steps.shape[1])

    def each(self, numbers: _Whole) -> Iterator[int]:
        """Choices one after another, some of them laid out together."""
        for block in self.blocks(numbers):
            self.take(numbers[block])
            yield from numbers[block].tolist()

    def take(self, numbers: _Whole) -> None:
        """Lay out choices that are opened next, with one table for those that an operand cannot tell apart."""
        task, chosen = self._task, self._choices[numbers]
        pairs = [seen_factors(task.view(chosen, number), task.levels) for number in range(len(task.operands))]
        self._over, self._under = (np.stack([pair[part] for pair in pairs], axis=1) for part in (0, 1))
        self._rows = {number: row for row, number in enumerate(numbers.tolist())}
        self._places = (self._states * self._points_of(numbers).prod(axis=1)).tolist()
        self._offsets = np.empty((len(numbers), len(task.operands)), np.int64)
        tables: list[_Whole] = []
        for number in range(len(task.operands)):
            first, back = task.different(chosen, number, sees_steps=not task.arrays.has_latches)
            over, under = self._over[first, number], self._under[first, number]
            final = task.sums is Sums.FINAL
            table, starts = tables_alone(task.bounds, number, over, under, chosen.steps[first], final)
            self._offsets[:, number] = starts[back] + sum(map(len, tables))
            compared(task, table[:1])
            tables.append(table)
        self._togo = np.concatenate(tables)
        if self._timing is not None:
            self._take_cycles(self._timing, chosen)

    def _take_cycles(self, timing: Timing, chosen: Choices) -> None:
        """Lay out tables of cycles of each operand."""
        task = self._task
        self._clock_offsets = np.empty((len(chosen), len(task.operands)), np.int64)
        tables: list[_Whole] = []
        for number in range(len(task.operands)):
            first, back = task.different(chosen, number, sees_steps=not task.arrays.has_latches)
            spread = self._over[first, number], self._under[first, number], chosen.steps[first]
            table, starts, roots = clocks_alone(task.bounds, timing, number, spread, (task.sums is Sums.FINAL, True))
            self._expect_cycles(roots)
            self._clock_offsets[:, number] = starts[back] + sum(map(len, tables))
            tables.append(table)
        self._clock = np.concatenate(tables)

    def least_cycles(self, numbers: _Whole, *, loose: bool = False) -> _Whole:
        """Below what no latency of some choices comes, where any mapping fits.

        A loose bound is one of what moves each operand alone, as that of `bounds_fj`.
        """
        task, timing, result = self._task, self._timing, len(self._task.operands) - 1
        assert timing is not None
        chosen = self._choices[numbers]
        first, back = task.different(chosen, result, sees_steps=True)
        some = chosen[first]
        spread = (*seen_factors(task.view(some, result), task.levels), some.steps)
        rows, partial = (one[back] for one in starts_of(task.bounds, timing, spread))
        least = np.zeros((len(chosen), timing.columns.end), np.int64)
        for number in range(result + 1):
            if loose:
                least[:, SUMS : timing.columns.until] += self._loose_roots(number, timing, numbers)
                continue
            first, back = task.different(chosen, number, sees_steps=not task.arrays.has_latches)
            roots = self._roots(number, timing, chosen[first], sees_all=True)
            self._expect_cycles(roots)
            least[:, SUMS : timing.columns.until] += roots[back, partial if number == result else 0]
        return latencies_at_least(rows, timing.columns, least, chosen.steps.prod(axis=1))

    def _loose_roots(self, number: int, timing: Timing, numbers: _Whole) -> _Whole:
        """The least cycles of an operand for some choices, made once for all that are alike: [choice, sum].

        Complete sums come from the units. Nothing where nothing fits, or too much: closer bounds say so.
        """
        first, back = self._task.different(
            self._choices, number, sees_all=False, sees_steps=not self._task.arrays.has_latches
        )
        if number not in self._loose:
            shape = len(first), timing.columns.until - SUMS
            self._loose[number] = np.zeros(shape, np.int64), np.zeros(len(first), np.bool_)
        known, is_known = self._loose[number]
        asked = np.zeros(len(first), np.bool_)
        asked[back[numbers]] = True
        new = np.flatnonzero(asked & ~is_known)
        if len(new):
            roots = self._roots(number, timing, self._choices[first[new]], sees_all=False)[:, 0]
            known[new], is_known[new] = np.where((roots >= 0) & (roots < labels.NEVER), roots, 0), True
        return known[back[numbers]]

    def _roots(self, number: int, timing: Timing, chosen: Choices, *, sees_all: bool) -> _Whole:
        """The least cycles of an operand for some choices: [choice, partial, sum]."""
        task = self._task
        found = np.empty((len(chosen), 2, timing.columns.until - SUMS), np.int64)
        over, under = seen_factors(task.view(chosen, number, sees_all=sees_all), task.levels)
        for start in range(0, len(chosen), VIEWS):
            part = slice(start, start + VIEWS)
            spread = over[part], under[part], chosen.steps[part]
            found[part] = clocks_alone(task.bounds, timing, number, spread, (task.sums is Sums.FINAL, False))[2]
        return found

    def _expect_cycles(self, roots: _Whole) -> None:
        if (roots[:, 0, 0] < 0).any():
            raise TooLarge(f"{self._task.bare.nest.name}: latencies above 3e14 cycles are not compared one by one")

    def _sheet(self, number: int) -> Sheet:
        if number not in self._rows:
            self.take(np.array([number]))
        task, steps, row = self._task, self._choices.steps[number], self._rows[number]
        places = self._places[row]
        if places > MOST_STATES:
            raise TooLarge(f"{task.bare.nest.name}: {places:,} states of the search; at most {MOST_STATES:,} are kept")
        if places > len(self._heads):
            self._heads = np.full(places, -1, np.int32)
        return Sheet(self._over[row], self._under[row], steps, self._togo, self._offsets[row], task.shared, task.limit)

    def least(self, number: int, most_labels: int, below: int) -> tuple[int, int, int]:
        """How the search of a choice ended, its least cost or bound in femtojoules, and the labels that it took."""
        task, sheet = self._task, self._sheet(number)
        tables, limits, options = (task.arrays, task.bounds), (most_labels, below), self._options()
        ended, value, count, _, use = least_of_choice(tables, sheet, self._heads, limits, options)
        self._uses[use] += 1
        self._expect_compared(ended)
        return int(ended), int(value), int(count)

    def best(self, number: int, aim: Aim, most_labels: int) -> tuple[int, int, float, int]:
        """How the search of a choice in time ended, its labels, and the value and energy of what was found or left."""
        assert self._timing is not None
        task, sheet = self._task, self._sheet(number)
        clock = Clock(self._clock, self._clock_offsets[self._rows[number]])
        tables = task.arrays, task.bounds, self._timing
        found = best_of_choice(tables, sheet, clock, aim, self._heads, most_labels, self._options())
        ended, count, value, energy, _, use = found
        self._uses[use] += 1
        self._expect_compared(ended)
        return int(ended), int(count), float(value), int(energy)

    def _options(self) -> tuple[bool, bool]:
        """Whether sums are stored at their final width, and whether tables of near cuts may be made."""
        made, useful = self._uses[USELESS] + self._uses[USEFUL], self._uses[USEFUL]
        return self._task.sums is Sums.FINAL, made < TRIED or 2 * useful >= made

    def _expect_compared(self, ended: int) -> None:
        if ended == TOO_LARGE:
            name = self._task.bare.nest.name
            raise TooLarge(f"{name}: energies above 5e14 pJ are not compared; use smaller loops")

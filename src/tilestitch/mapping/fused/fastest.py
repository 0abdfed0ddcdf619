"""Below how many cycles no run of an operator comes, choice by choice, whatever loops it shares with others.

Counted is what surely lies inside shared loops: all loops as one nest, without the cuts in memories that all units
share. Visits that a run is divided into take no less together.
"""

from math import inf

import numpy as np
from numpy.typing import NDArray

from tilestitch.base.errors import TooLarge
from tilestitch.ir.choices import Objective
from tilestitch.mapping.tree import labels
from tilestitch.mapping.tree.choices import Choices
from tilestitch.mapping.tree.cycle_bounds import least_cycles
from tilestitch.mapping.tree.opener import Opener
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.sliding import needs_tables
from tilestitch.mapping.tree.spread_task import SpreadTask, task_of
from tilestitch.mapping.tree.tables import Sums
from tilestitch.mapping.tree.timed_opened import NO_POINTS, Aim
from tilestitch.mapping.tree.timed_quick import timing_of
from tilestitch.mapping.tree.timed_search import NUMBERS
from tilestitch.mapping.tree.timed_spread import FEW

MOST_LABELS = 100_000  # of one choice, whose bound stays where that is not enough


class Fastest:
    """Bounds of the cycles of a run, closer ones as they are asked for."""

    def __init__(self, inside: PlacedNest, sums: Sums, choices: Choices) -> None:
        task = task_of(inside, sums)
        self._opener: Opener | None = None
        if not needs_tables(inside):
            self._opener = Opener(task, choices, timing_of(task.operands))
        self.cycles = self._first(task, choices)
        self._settled = np.full(len(choices), self._opener is None, np.bool_)  # nothing closer can be had

    def _first(self, task: SpreadTask, choices: Choices) -> NDArray[np.int64]:
        if self._opener is not None:
            try:
                return self._opener.least_cycles(np.arange(len(choices)))
            except TooLarge:
                self._opener = None
        return np.floor(least_cycles(task, choices, loose=len(choices) > FEW)).astype(np.int64)

    def is_above(self, number: int, most: int) -> bool:
        """Whether a choice takes more than so many cycles, by a search if need be."""
        if self.cycles[number] <= most and not self._settled[number]:
            self._search(number, most)
        return bool(self.cycles[number] > most)

    def settle_least(self, order: NDArray[np.int64]) -> None:
        """Make the bounds of these choices as close as it takes to know which of them is the fastest."""
        best = labels.NEVER
        for number in order[np.argsort(self.cycles[order], kind="stable")].tolist():
            if self.cycles[number] >= best:
                break
            if not self._settled[number]:
                self._search(number, best - 1)
            best = min(best, int(self.cycles[number]))

    def _search(self, number: int, most: int) -> None:
        """Find the least cycles of a choice, if they are not more than so many."""
        assert self._opener is not None
        aim = Aim(NUMBERS[Objective.LATENCY], 0.0, float(most), inf, inf, 0, NO_POINTS)
        try:
            ended, _, value, _ = self._opener.best(number, aim, MOST_LABELS)
        except TooLarge:
            self._settled[number] = True
            return
        if ended == labels.FOUND or ended == labels.STOPPED:
            self.cycles[number] = max(int(self.cycles[number]), int(value))
            self._settled[number] = True
        else:
            self.cycles[number] = max(int(self.cycles[number]), most + 1)

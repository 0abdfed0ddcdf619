"""Every mapping of all choices of what is spread that none beats in both energy and latency.

Choices are opened in the order of their least energy times their least cycles, so that good points come early. A
choice is left out if a point takes no more cycles than it does at least, and has no more energy than any of its
mappings: than its bound, or than the search for energy alone finds; or if the search in time finds none of its mappings
that no point beats.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from tilestitch.base.errors import TooLarge
from tilestitch.mapping.tree.choices import Choices, SpatialSpace, choices_of
from tilestitch.mapping.tree.cycle_bounds import least_cycles
from tilestitch.mapping.tree.floor import above_floor, least_of_all, of_some
from tilestitch.mapping.tree.found import FoundMapping, no_choice_fits
from tilestitch.mapping.tree.labels import NEVER, NOTHING
from tilestitch.mapping.tree.least_room import expect_room
from tilestitch.mapping.tree.no_choice import no_choice
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.search import MOST_LABELS
from tilestitch.mapping.tree.sliding import needs_tables, with_slides
from tilestitch.mapping.tree.spatial import Opener, placement
from tilestitch.mapping.tree.spread_task import SpreadTask, bounds_fj, task_of, units_fj
from tilestitch.mapping.tree.tables import FEMTO, Sums
from tilestitch.mapping.tree.timed_labels import FRONT
from tilestitch.mapping.tree.timed_opened import Aim
from tilestitch.mapping.tree.timed_quick import timing_of
from tilestitch.mapping.tree.timed_search import FrontPoint, front_with
from tilestitch.mapping.tree.timed_spread import FEW


@dataclass(frozen=True, slots=True)
class SpatialFront:
    """The front in ascending order of energy, and how many choices were compared and opened.

    `more_than` is 0 where they were all there are; else points may be missing, and there are more ways than that.
    """

    points: tuple[FoundMapping, ...]
    choices: int
    opened: int
    more_than: int = 0


def front_of_choices(
    bare: PlacedNest, space: SpatialSpace = SpatialSpace(), sums: Sums = Sums.FULL, most_labels: int = MOST_LABELS
) -> SpatialFront:
    """The front over all choices, proven unless labels run out or there are too many choices.

    Raises `DoesNotFit` where no choice has a mapping that fits, or none uses as many units as is asked, and `TooLarge`
    where none fits of some of too many.
    """
    choices = choices_of(bare, space)
    if len(choices) == 0:
        raise no_choice(bare, space)
    expect_room(bare)
    task = task_of(bare, sums)
    if not choices.more_than:
        return _front_in_time(task, choices, most_labels)
    with of_some(bare, choices):
        front = _front_in_time(task, choices, most_labels)
    floor = least_of_all(task, space)
    points = (replace(above_floor(one, floor), is_proven=False, bound_value=None) for one in front.points)
    return replace(front, points=tuple(points), more_than=choices.more_than)


def _front_in_time(task: SpreadTask, choices: Choices, most_labels: int) -> SpatialFront:
    """The front over these choices; without the search in time where that does not compare so much."""
    if not needs_tables(task.bare):
        try:
            return _front_of(task, choices, most_labels, in_time=True)
        except TooLarge:
            pass  # tables say what is, or compare it
    return _front_of(task, choices, most_labels, in_time=False)


def _front_of(task: SpreadTask, choices: Choices, most_labels: int, *, in_time: bool) -> SpatialFront:
    """The front over these choices."""
    bare, sums = task.bare, task.sums
    is_plain = not needs_tables(bare)
    arithmetic = round(bare.tree.mac_pj * bare.nest.macs * FEMTO)
    energies = np.minimum(units_fj(task, choices) + bounds_fj(task, choices, loose=not is_plain), NEVER)
    steps = choices.steps.prod(axis=1)
    cycles = np.ceil(least_cycles(task, choices, loose=len(choices) > FEW))
    opener = Opener(task, choices, timing_of(task.operands) if in_time else None) if is_plain else None
    points: list[FrontPoint] = []
    count, opened, is_proven = 0, 0, True
    fitting = np.flatnonzero(energies < NEVER)
    order = fitting[np.argsort((energies[fitting] + arithmetic).astype(np.float64) * cycles[fitting], kind="stable")]
    for number in order.tolist() if opener is None else opener.each(order):
        below = _energy_below(points, int(cycles[number]), arithmetic)
        if energies[number] >= below:
            continue
        if count > most_labels:
            is_proven = False
            break
        if opener is not None:
            ended, _, more = opener.least(number, most_labels, below)
            count += more
            if ended == NOTHING:
                continue
            if in_time and points:
                known = np.array([[one.energy_fj - arithmetic, one.cycles] for one in points], np.int64)
                aim = Aim(FRONT, float(arithmetic), inf, inf, inf, 0, known)
                ended, more, *_ = opener.best(number, aim, most_labels)
                count += more
                if ended == NOTHING:
                    continue
        opened += 1
        for placed in with_slides([placement(bare, choices, number)]):
            points, was_proven, more = front_with(points, placed, sums, most_labels)
            count, is_proven = count + more, is_proven and was_proven
    if not points:
        raise no_choice_fits(placement(bare, choices, 0), sums, choices.steps)
    bound_pj = (int(energies.min()) + arithmetic) / FEMTO
    found = (
        replace(
            one.found,
            bound_pj=min(bound_pj, points[0].found.price.energy_pj),
            bound_cycles=int(steps[fitting].min()),
            is_proven=is_proven,
            labels=count,
        )
        for one in points
    )
    return SpatialFront(tuple(found), len(choices), opened)


def _energy_below(points: Sequence[FrontPoint], cycles: int, arithmetic: int) -> int:
    """How much energy a mapping of so many cycles must be below to be on the front, without arithmetic.

    Points are in ascending order of energy, and so in descending order of cycles.
    """
    at = bisect_right([-one.cycles for one in points], -cycles - 1)
    return NEVER if at == len(points) else points[at].energy_fj - arithmetic

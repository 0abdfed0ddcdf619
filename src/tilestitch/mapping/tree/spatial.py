"""The best mapping of a nest on a tree, of all choices of what it spreads over the units.

Choices are opened in the order of a bound: of every operand the least that it costs alone on this choice. They end
where the bound is not below the best mapping that is known.
"""

from dataclasses import replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from tilestitch.base.errors import DoesNotFit, InputError
from tilestitch.ir.choices import Objective
from tilestitch.mapping.tree import labels
from tilestitch.mapping.tree.choices import Choices, Ragged, SpatialSpace, choices_of
from tilestitch.mapping.tree.floor import above_floor, least_of_all, of_some
from tilestitch.mapping.tree.found import FoundMapping, SpatialSearch, no_choice_fits
from tilestitch.mapping.tree.least_room import expect_room
from tilestitch.mapping.tree.no_choice import no_choice
from tilestitch.mapping.tree.opener import Opener
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.search import MOST_LABELS, best_mapping, least_below
from tilestitch.mapping.tree.sliding import needs_tables, with_slides
from tilestitch.mapping.tree.spread_task import (
    SpreadTask,
    bounds_fj,
    in_turn_fj,
    stores_evenly,
    task_of,
    together_fj,
    units_fj,
)
from tilestitch.mapping.tree.tables import FEMTO, Sums
from tilestitch.mapping.tree.timed_spread import best_spread_in_time, placement

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

BATCH = 256  # choices whose bounds are made together


def best_spread(
    bare: PlacedNest,
    space: SpatialSpace = SpatialSpace(),
    sums: Sums = Sums.FULL,
    most_labels: int = MOST_LABELS,
    objective: Objective = Objective.ENERGY,
) -> SpatialSearch:
    """The best mapping of all choices, proven unless labels run out or there are too many choices.

    Of too many some are searched, and what nothing comes below is said of all. Raises `DoesNotFit` where no choice has
    a mapping that fits, or none uses as many units as is asked, `TooLarge` where none fits of those that are searched,
    and `InputError` for a front, which is not searched over choices.
    """
    if objective is Objective.PARETO:
        raise InputError(f"{bare.nest.name}: a front has several mappings; ask free_front for it")
    choices = choices_of(bare, space)
    if len(choices) == 0:
        raise no_choice(bare, space)
    expect_room(bare)
    task = task_of(bare, sums)
    if not choices.more_than:
        return _best_of(task, choices, most_labels, objective)
    with of_some(bare, choices):
        searched = _best_of(task, choices, most_labels, objective)
    found = above_floor(searched.found, least_of_all(task, space))
    return replace(searched, found=found, more_than=choices.more_than)


def _best_of(task: SpreadTask, choices: Choices, most_labels: int, objective: Objective) -> SpatialSearch:
    """The best mapping of these choices."""
    bare, sums = task.bare, task.sums
    units = units_fj(task, choices)
    bounds = np.minimum(units + bounds_fj(task, choices, loose=True), labels.NEVER)
    if objective is not Objective.ENERGY:
        return best_spread_in_time(task, choices, bounds, most_labels, objective)
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


def _best_by_tables(task: SpreadTask, choices: Choices, bounds: NDArray[np.int64], most_labels: int) -> SpatialSearch:
    """Choices by their bounds, each with the tables of its placement."""
    best: FoundMapping | None = None
    if stores_evenly(task.bare):
        bounds = np.maximum(bounds, np.minimum(units_fj(task, choices) + together_fj(task, choices), labels.NEVER))
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
        below_pj = inf if best is None else best.price.energy_pj
        found, more = least_below(with_slides([placed]), task.sums, most_labels, below_pj)
        count += more
        if found is None:
            continue
        left_pj = min(left_pj, found.bound_pj)
        if best is None or found.price.energy_pj < best.price.energy_pj:
            best = found
    if best is None:
        raise no_choice_fits(placement(task.bare, choices, 0), task.sums, choices.steps)
    bound_pj = min(left_pj, best.price.energy_pj)
    proven = replace(best, bound_pj=bound_pj, is_proven=bound_pj >= best.price.energy_pj, labels=count)
    return SpatialSearch(proven, len(choices), opened)

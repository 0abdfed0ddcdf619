"""The mapping of a nest on a tree that is best, by exhaustive search of the lattice of cuts.

The least energy has a search of its own, which knows nothing of time.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, inf

import numpy as np

from tilestitch.base.errors import DoesNotFit, TooLarge
from tilestitch.ir.choices import Objective
from tilestitch.mapping.tree import labels
from tilestitch.mapping.tree.chain import price
from tilestitch.mapping.tree.found import FoundMapping, mapping_of, why_nothing_fits
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.problem import MOST_STATES, numbered, problem_of, states_of
from tilestitch.mapping.tree.sliding import with_slides
from tilestitch.mapping.tree.tables import FEMTO, Sums, tables_of
from tilestitch.mapping.tree.timed_search import FEW_LABELS, best_in_time, pareto_front

__all__ = ["MOST_LABELS", "FoundMapping", "best_mapping", "best_of", "pareto_front"]

MOST_LABELS = 20_000_000


def best_mapping(
    placed: PlacedNest,
    sums: Sums = Sums.FULL,
    most_labels: int = MOST_LABELS,
    objective: Objective = Objective.ENERGY,
) -> FoundMapping:
    """The mapping that is least in an objective, proven unless there are more labels than `most_labels`.

    The front of `pareto` is `pareto_front`'s. Raises `DoesNotFit` where no mapping fits the memories.
    """
    placements = with_slides([placed])
    if len(placements) > 1:
        return best_of(placements, sums, most_labels, objective)
    if objective is not Objective.ENERGY:
        return best_in_time([placed], sums, most_labels, objective)
    found, _ = _least_of(placed, sums, most_labels, inf)
    if found is None:
        raise DoesNotFit(f"{placed.nest.name}: {why_nothing_fits(tables_of(placed, sums))}")
    return found


def _least_of(placed: PlacedNest, sums: Sums, most_labels: int, below_pj: float) -> tuple[FoundMapping | None, int]:
    """`least_below` of one placement."""
    tables = tables_of(placed, sums)
    problem = problem_of(tables)
    if states_of(problem) > MOST_STATES:
        raise TooLarge(
            f"{placed.nest.name}: {states_of(problem):,} states of the search; at most {MOST_STATES:,} are kept"
        )
    ceiling = labels.NEVER
    if below_pj < inf:  # each cut of a chain is rounded by itself
        arithmetic_pj = placed.tree.mac_pj * placed.nest.macs
        ceiling = ceil((below_pj - arithmetic_pj) * FEMTO) - tables.fixed_fj + int(problem.first[-1]) + 1
    ended, value, count, chain = labels.least_chain(problem._replace(ceiling=ceiling), 1, most_labels)
    bound = int(value)
    if ended == labels.STOPPED:
        for weight in (2, 8, 64):
            found, _, more, chain = labels.least_chain(problem, weight, max(most_labels, FEW_LABELS))
            count += more
            if found == labels.FOUND:
                break
        else:
            raise TooLarge(f"{placed.nest.name}: no mapping among {count:,} labels; allow more")
    if ended == labels.NOTHING:
        return None, int(count)
    mapping = mapping_of(tables, numbered(tables), chain)
    priced = price(placed, mapping)
    proven = ended == labels.FOUND
    bound_pj = priced.energy_pj if proven else (bound + tables.fixed_fj) / FEMTO + priced.mac_pj
    found = FoundMapping(
        placed,
        sums,
        mapping,
        priced,
        bound_pj,
        proven,
        int(count),
        tables.lattice.points,
        bound_cycles=placed.total_steps,
    )
    return found, int(count)


def best_of(
    placements: Sequence[PlacedNest],
    sums: Sums = Sums.FULL,
    most_labels: int = MOST_LABELS,
    objective: Objective = Objective.ENERGY,
) -> FoundMapping:
    """The mapping of all of several placements of a nest that is least in an objective.

    Those whose root bound is not below the best known are not searched. Raises `DoesNotFit` where none fits.
    """
    placements = with_slides(placements)
    if objective is not Objective.ENERGY:
        return best_in_time(placements, sums, most_labels, objective)
    found, _ = least_below(placements, sums, most_labels, inf)
    return best_mapping(placements[0], sums, most_labels) if found is None else found  # which says what does not fit


def least_below(
    placements: Sequence[PlacedNest], sums: Sums, most_labels: int, below_pj: float
) -> tuple[FoundMapping | None, int]:
    """Of placements whose windows are chosen the mapping of least energy, and how many labels it took.

    None where all mappings that fit have `below_pj` or more; one that has as much, but for rounding, may be found too.
    """
    if len(placements) == 1:
        return _least_of(placements[0], sums, most_labels, below_pj)
    bounds = [_root_bound_pj(placed, sums) for placed in placements]
    best: FoundMapping | None = None
    least_bound, count = below_pj, 0
    for number in sorted(range(len(placements)), key=lambda at: (bounds[at], at)):
        limit_pj = below_pj if best is None else min(below_pj, best.price.energy_pj)
        if bounds[number] == inf or bounds[number] >= limit_pj:
            break
        found, more = _least_of(placements[number], sums, most_labels, limit_pj)
        count += more
        if found is None:
            continue
        least_bound = min(least_bound, found.bound_pj)
        if best is None or found.price.energy_pj < best.price.energy_pj:
            best = found
    if best is None:
        return None, count
    proven = least_bound >= best.price.energy_pj
    steps = min(placed.total_steps for placed in placements)
    bound_pj = min(least_bound, best.price.energy_pj)
    return replace(best, bound_pj=bound_pj, is_proven=proven, labels=count, bound_cycles=steps), count


def _root_bound_pj(placed: PlacedNest, sums: Sums) -> float:
    """What no mapping of a placement costs less than: of every operand alone the least."""
    tables = tables_of(placed, sums)
    problem = problem_of(tables)
    side = np.where(np.arange(len(problem.first) - 1) == problem.write, int(problem.starts_partial), 0)
    least = problem.togo[problem.first[:-1], side, 0]
    if (least >= labels.NEVER).any():
        return inf
    return (int(least.sum()) + tables.fixed_fj) / FEMTO + placed.tree.mac_pj * placed.nest.macs

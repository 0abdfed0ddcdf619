"""The mapping of the least latency, or of the least energy and latency together, and the whole front of both."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilestitch.base.errors import DoesNotFit, TooLarge
from tilestitch.ir.choices import Objective
from tilestitch.mapping.optimum import value_of
from tilestitch.mapping.tree import labels, timed_labels
from tilestitch.mapping.tree.chain import latency_cycles, price
from tilestitch.mapping.tree.found import FoundMapping, Front, mapping_of, why_nothing_fits
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.problem import MOST_STATES, numbered, states_of
from tilestitch.mapping.tree.sliding import with_slides
from tilestitch.mapping.tree.tables import FEMTO, Sums, Tables, tables_of
from tilestitch.mapping.tree.timed_labels import TimedProblem, least_chains
from tilestitch.mapping.tree.timed_pace import least_latency
from tilestitch.mapping.tree.timed_problem import fixed_fj, timed_problem

FEW_LABELS = 200_000  # enough for some mapping, where what is left counts more than once
NUMBERS = {
    Objective.PARETO: timed_labels.FRONT,
    Objective.LATENCY: timed_labels.FASTEST,
    Objective.EDP: timed_labels.EDP,
    Objective.ED2P: timed_labels.ED2P,
}


@dataclass(frozen=True, slots=True)
class _Searched:
    """What came of one placement: mappings, and how far the search went."""

    found: tuple[FoundMapping, ...]
    energies_fj: tuple[int, ...]  # of these, those of every cut rounded before they are added
    is_proven: bool
    bound: float  # of the objective, for all mappings that are not below what was known before
    labels: int


class Bounded(NamedTuple):
    """A placement with what no mapping of it comes below, and its rank among those that are as good."""

    placed: PlacedNest
    value: float
    rank: int
    energy_pj: float = 0.0  # below which no mapping comes that is no worse than the value


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """A mapping on a front, and its energy in whole femtojoules, by which points are compared."""

    found: FoundMapping
    energy_fj: int

    @property
    def cycles(self) -> int:
        return self.found.price.latency_cycles


@dataclass(frozen=True, slots=True)
class _Task:
    """One placement with what its search asks."""

    placed: PlacedNest
    sums: Sums
    tables: Tables
    timed: TimedProblem

    @property
    def least_fj(self) -> int:
        """Below what no energy comes: of every operand alone the least."""
        base = self.timed.base
        side = np.where(np.arange(len(base.first) - 1) == base.write, int(base.starts_partial), 0)
        return min(int(base.togo[base.first[:-1], side, 0].sum()), labels.NEVER) + fixed_fj(self.tables)

    @property
    def least_cycles(self) -> int:
        """Below what no latency comes, simulated or estimated: every iteration takes a turn, if only results moved.

        Of first sums that are not read the model has the time all the same, and the simulator has not.
        """
        steps = self.placed.total_steps
        return least_latency(self.timed.start, steps) if self.placed.tree.reads_first_sums else steps

    def found(self, objective: Objective, chain: NDArray[np.int64]) -> FoundMapping:
        mapping = mapping_of(self.tables, numbered(self.tables), chain)
        return FoundMapping(
            placed=self.placed,
            sums=self.sums,
            mapping=mapping,
            price=price(self.placed, mapping),
            bound_pj=self.least_fj / FEMTO,
            is_proven=True,
            labels=0,
            points=self.tables.lattice.points,
            objective=objective,
            bound_cycles=self.least_cycles,
        )


def best_in_time(placements: Sequence[PlacedNest], sums: Sums, most_labels: int, objective: Objective) -> FoundMapping:
    """The mapping of the least latency, EDP or ED2P of all placements of a nest; any objective but energy and pareto.

    Raises `DoesNotFit` where no mapping fits the memories.
    """
    placements = with_slides(placements)
    ordered = (
        Bounded(placed, least, rank) for rank, (placed, least) in enumerate(_in_order(placements, sums, objective))
    )
    best, _ = best_in_order(ordered, sums, most_labels, objective)
    if best is None:
        raise DoesNotFit(f"{placements[0].nest.name}: {why_nothing_fits(tables_of(placements[0], sums))}")
    if len(placements) == 1:
        return best
    return replace(
        best,
        bound_pj=min(_least_pj(placed, sums) for placed in placements),
        bound_cycles=min(placed.total_steps for placed in placements),
    )


def best_in_order(
    ordered: Iterable[Bounded],
    sums: Sums,
    most_labels: int,
    objective: Objective,
    ceiling: float = inf,
) -> tuple[FoundMapping | None, int]:
    """The best mapping of placements that come with bounds, the least first, and how many of them were searched.

    Of equal mappings that of the placement with the least rank is taken, which comes with the bounds. Its bounds of
    energy and of cycles alone are those of its placement. No value above the `ceiling` is looked for; energies of that
    are femtojoules. None where no mapping fits the memories.
    """
    best: FoundMapping | None = None
    bound, count, opened, first = inf, 0, 0, 0
    for placed, least, rank, least_pj in ordered:
        if best is not None and least > best.value:
            break
        if best is not None and least == best.value and least_pj > best.price.energy_pj:
            continue
        if count > most_labels:
            bound = min(bound, least)
            break
        opened += 1
        task = _task(placed, sums)
        searched = _search(task, objective, best, most_labels, ceiling=ceiling)
        count, bound = count + searched.labels, min(bound, searched.bound)
        for found in searched.found:
            if best is None or _key(found, rank) < _key(best, first):
                best, first = found, rank
    if best is None:
        return None, opened
    proven = bound >= best.value
    return replace(best, is_proven=proven, labels=count, bound_value=best.value if proven else bound), opened


def _key(found: FoundMapping, rank: int) -> tuple[float, float, int]:
    return found.value, found.price.energy_pj, rank


def pareto_front(placements: Sequence[PlacedNest], sums: Sums, most_labels: int) -> Front:
    """Every mapping of all placements of a nest that none beats in both energy and latency.

    Raises `DoesNotFit` where no mapping fits the memories.
    """
    placements = with_slides(placements)
    points: list[FrontPoint] = []
    count, proven = 0, True
    for placed, _ in _in_order(placements, sums, Objective.PARETO):
        points, was_proven, more = front_with(points, placed, sums, most_labels)
        count, proven = count + more, proven and was_proven
    if not points:
        raise DoesNotFit(f"{placements[0].nest.name}: {why_nothing_fits(tables_of(placements[0], sums))}")
    return Front(tuple(replace(one.found, is_proven=proven, labels=count) for one in points), proven, count)


def front_with(
    points: Sequence[FrontPoint], placed: PlacedNest, sums: Sums, most_labels: int
) -> tuple[list[FrontPoint], bool, int]:
    """A front with what one placement adds, whether it was searched to the end, and its labels."""
    searched = _search(_task(placed, sums), Objective.PARETO, None, most_labels, points)
    added = map(FrontPoint, searched.found, searched.energies_fj)
    return _merged([*points, *added]), searched.is_proven, searched.labels


def _merged(points: Sequence[FrontPoint]) -> list[FrontPoint]:
    """Those that no other beats, in ascending order of energy; of equal ones the first."""
    kept: list[FrontPoint] = []
    for one in sorted(points, key=lambda one: (one.energy_fj, one.cycles)):
        if not kept or one.cycles < kept[-1].cycles:
            kept.append(one)
    return kept


def _in_order(placements: Sequence[PlacedNest], sums: Sums, objective: Objective) -> list[tuple[PlacedNest, float]]:
    """Placements with what no mapping of theirs comes below, the least first; those that fit nowhere left out."""
    if len(placements) == 1:
        return [(placements[0], 0.0)]
    bounds = [(value_of(objective, _least_pj(one, sums), one.total_steps), at) for at, one in enumerate(placements)]
    return [(placements[at], bound) for bound, at in sorted(bounds) if bound < inf]


def _least_pj(placed: PlacedNest, sums: Sums) -> float:
    task = _task(placed, sums)
    return task.least_fj / FEMTO if task.least_fj < labels.NEVER else inf


def _task(placed: PlacedNest, sums: Sums) -> _Task:
    tables = tables_of(placed, sums)
    task = _Task(placed, sums, tables, timed_problem(tables))
    states = states_of(task.timed.base)
    if states > MOST_STATES:
        raise TooLarge(f"{placed.nest.name}: {states:,} states of the search; at most {MOST_STATES:,} are kept")
    return task


def _search(
    task: _Task,
    objective: Objective,
    best: FoundMapping | None,
    most_labels: int,
    points: Sequence[FrontPoint] = (),
    ceiling: float = inf,
) -> _Searched:
    """Search one placement for what is not worse than `best`, or than points of a front."""
    number = NUMBERS[objective]
    first = _first_value(task, objective) if ceiling == inf else ceiling
    cutoff = min(_ceiling(task, objective, best), first) * (1 + timed_labels.SLACK)
    fixed, bound = fixed_fj(task.tables), inf
    known = np.array([[one.energy_fj - fixed, one.cycles] for one in points], np.int64).reshape(-1, 2)
    ended, left, count, values, chains = least_chains(task.timed, number, cutoff, known, 1, most_labels)
    if ended == labels.STOPPED:
        bound = left[0] if objective is Objective.LATENCY else left[0] / FEMTO
    if ended == labels.STOPPED and len(values) == 0:
        for weight in (2, 8, 64):
            _, _, more, values, chains = least_chains(
                task.timed, max(number, timed_labels.FASTEST), inf, known[:0], weight, max(most_labels, FEW_LABELS)
            )
            count += more
            if len(values):
                break
        else:
            raise TooLarge(f"{task.placed.nest.name}: no mapping among {count:,} labels; allow more")
    energies: tuple[int, ...] = ()
    if objective is Objective.PARETO:
        found = tuple(task.found(objective, chain) for chain in chains)
        energies = tuple(spent + fixed for spent, _ in values.tolist())
    else:
        power = {Objective.LATENCY: 1, Objective.EDP: 1, Objective.ED2P: 2}[objective]
        factor = 0 if objective is Objective.LATENCY else 1
        keys = [((int(fj) + fixed) ** factor * int(cycles) ** power, int(fj)) for fj, cycles in values.tolist()]
        found = (task.found(objective, chains[keys.index(min(keys))]),) if keys else ()
    bound = min([bound, *(one.value for one in found)])
    return _Searched(found, energies, ended != labels.STOPPED, bound, int(count))


def _first_value(task: _Task, objective: Objective) -> float:
    """The value of the mapping of the least energy, which the least of all does not exceed; energies in femtojoules."""
    if objective not in (Objective.EDP, Objective.ED2P):
        return inf
    ended, spent, _, chain = labels.least_chain(task.timed.base, 1, FEW_LABELS)
    if ended != labels.FOUND:
        return inf
    cycles = latency_cycles(task.placed, mapping_of(task.tables, numbered(task.tables), chain))
    return value_of(objective, float(spent + fixed_fj(task.tables)), cycles)


def _ceiling(task: _Task, objective: Objective, best: FoundMapping | None) -> float:
    """What the value of a mapping is at most where a search counts it in whole femtojoules."""
    return inf if best is None else value_of(objective, float(_most_fj(best, task)), best.price.latency_cycles)


def _most_fj(found: FoundMapping, task: _Task) -> int:
    """The energy of a mapping in femtojoules, rounded up at each cut."""
    return int(np.ceil(found.price.energy_pj * FEMTO)) + len(numbered(task.tables)) + 1

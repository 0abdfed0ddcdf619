"""The best mappings of operators that all run together, as far as they may be part of the best of a chain."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations, product
from math import inf

from tilestitch.base.errors import TooLarge
from tilestitch.hardware.tree import TreeMemory
from tilestitch.ir.choices import Objective
from tilestitch.mapping.fused.cells import all_cells
from tilestitch.mapping.fused.chain import Chain, axes_outside, homes_of
from tilestitch.mapping.fused.drawn import fused_mapping
from tilestitch.mapping.fused.group import GroupSearch, Joined, Point
from tilestitch.mapping.fused.mapping import FusedMapping
from tilestitch.mapping.fused.price import FusedPrice, fused_price
from tilestitch.mapping.fused.shapes import Group
from tilestitch.mapping.fused.timed_inner import Clock
from tilestitch.mapping.fused.timed_sweep import Aim, is_above, most_cycles_of
from tilestitch.mapping.optimum import value_of
from tilestitch.mapping.tree import labels
from tilestitch.mapping.tree.choices import SpatialSpace
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.tables import FEMTO, Sums

# budgets, of the least that operators cost by themselves
STEPS = (1.0, 1.02, 1.06, 1.15, 1.35, 1.55, 1.8, 2.1, 2.5, 3.0, 4.0)
CLOSE = 1.35  # a budget of so much more than the least takes little longer than those before it
FEW = 8  # choices of each operator that are looked at first
IN_CELLS = 0.1  # of the labels of a group those of all ways to spread it over cells: there are many of these
POWERS = {Objective.LATENCY: (0, 1), Objective.EDP: (1, 1), Objective.ED2P: (1, 2)}  # of energy and of latency


@dataclass(frozen=True, slots=True)
class Task:
    """Operators that run together, in any order, what each may spread, and how far a search goes."""

    chain: Chain
    sums: Sums
    spaces: tuple[SpatialSpace | None, ...]
    most_labels: int
    is_met: bool = False  # whether something from outside meets what waits at home: it is read for it once


@dataclass(frozen=True, slots=True)
class Together:
    """A mapping of operators that run together, its price, and which of them in which order."""

    mapping: FusedMapping
    price: FusedPrice
    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Searched:
    """What was found, below what nothing else comes in the objective, and how many labels there were."""

    found: tuple[Together, ...]
    bound: float  # infinite where nothing is left; of energy in pJ, of latency in cycles
    labels: int


@dataclass(frozen=True, slots=True)
class Beside:
    """What the operators of a chain that are not searched add at least."""

    fj: int = 0
    cycles: int = 0


def groups_of(task: Task) -> list[Group]:
    """All orders of the operators, homes, axes along which windows may be shared, and whether rows may be kept.

    Where homes repeat, all ways to spread the operators over their cells. No windows are shared where something is done
    to an intermediate, or it leaves: with windows that are made again it would be done again; nor where operators are
    not in a row. And none are made again, but kept, where something from outside meets an intermediate.
    """
    found: list[Group] = []
    in_cells: list[Group] = []
    for order in orders_of(task):
        chain, spaces = task.chain.part(order), [task.spaces[number] for number in order]
        last = len(chain.operators) - 1
        is_bare = not any(link.passes or link.leaves for link in chain.links)
        axes = chain.window_axes() if is_bare and chain.is_row else ()
        kinds = (True,) if task.is_met else (False, True)
        along = [replace(chain, overlaps=frozenset({axis}), keeps=keeps) for axis in axes for keeps in kinds]
        ways = [chain, *(one for one in along if one.has_halo(0, last))]
        for homes in _all_homes(chain):
            repeated = axes_outside(chain.tree, homes)
            if not repeated:
                found += [Group(way, homes, task.sums, order) for way in ways]
            for cells in all_cells(chain, repeated, spaces) if repeated else ():
                in_cells.append(Group(replace(chain, cells=cells), homes, task.sums, order))
    return found + in_cells


def orders_of(task: Task) -> list[tuple[int, ...]]:
    """The orders in which operators can run; of those in which alike operators change places the first."""
    chain, found, known = task.chain, list[tuple[int, ...]](), list[object]()
    for order in permutations(range(len(chain.operators))):
        places = {number: place for place, number in enumerate(order)}
        if any(places[one.link] > places[one.reader] for one in chain.readings):
            continue
        part = chain.part(order)
        operators = [(without_names(part.operators[at]), task.spaces[one]) for at, one in enumerate(order)]
        if (one := (operators, part.links, part.readers, part.more)) not in known:
            known.append(one)
            found.append(order)
    return found


def without_names(placed: PlacedNest) -> PlacedNest:
    """An operator as its loops are: whatever it and its arrays are called."""
    nest = placed.nest
    reads = tuple(replace(one, name="") for one in nest.reads)
    return replace(placed, nest=replace(nest, name="", reads=reads, write=replace(nest.write, name="")))


def _all_homes(chain: Chain) -> Iterator[tuple[TreeMemory, ...]]:
    """The memory of every intermediate: results that meet have the same."""
    links = range(len(chain.links))
    firsts = [link for link in links if chain.meeting(link)[0] == link]
    for homes in product(*(homes_of(chain, link) for link in firsts)):
        known = dict(zip(firsts, homes, strict=True))
        yield tuple(known[chain.meeting(link)[0]] for link in links)


def _in_turn(searches: Sequence[GroupSearch]) -> Iterator[tuple[GroupSearch, bool]]:
    """Searches one after another, and whether labels are left: all that spread over cells share a part of those of one.

    So the last of them may be left out.
    """
    used = 0
    for search in searches:
        if not search.group.chain.cells.axes:
            yield search, True
            continue
        most, before = search.most, search.labels
        search.most = round(most * IN_CELLS) - used
        yield search, search.most > 0
        used, search.most = used + search.labels - before, most


def least_energy(task: Task, groups: Sequence[Group], below_pj: float) -> Searched:
    """The mapping of least energy if it costs less than so much."""
    searches = [GroupSearch(group, _spaces(task, group), task.most_labels) for group in groups]
    best_fj, best = round(below_pj * FEMTO), None
    left_fj = min((search.floor_fj() for search in searches if search.has_more()), default=labels.NEVER)
    for search, is_allowed in _in_turn(sorted(searches, key=lambda one: one.least_fj())):
        least = search.least_fj()
        if least >= best_fj:
            break
        if not is_allowed:
            left_fj = min(left_fj, least)
            continue
        proven = least
        try:
            for budget in _budgets(least, best_fj - 1):
                found = search.best(round(budget))
                if found is not None:
                    best_fj, best = found[0], (search.group, found[1])
                    break
                proven = round(budget) + 1
        except TooLarge:
            left_fj = min(left_fj, proven)
    bound = left_fj / FEMTO if left_fj < labels.NEVER else inf
    return Searched(_priced([] if best is None else [best]), bound, sum(search.labels for search in searches))


def _budgets(least: float, most: float) -> Iterator[float]:
    """Budgets in ascending order, from the least to the most; where these are close the most alone."""
    for step in STEPS if least * CLOSE < most else ():
        if least * step >= most:
            break
        yield least * step
    yield most


def _priced(found: Sequence[tuple[Group, Joined]]) -> tuple[Together, ...]:
    mappings = [(fused_mapping(group, joined), group.order) for group, joined in found]
    return tuple(Together(one, fused_price(one), order) for one, order in mappings)


def _spaces(task: Task, group: Group) -> tuple[SpatialSpace | None, ...]:
    return tuple(task.spaces[number] for number in group.order)


def least_latency(task: Task, groups: Sequence[Group], known_cycles: int, known_pj: float) -> Searched:
    """The fastest mapping if it is better than what is known: faster, or as fast and of less energy.

    Its energy is the least of all of the fastest unless labels run out.
    """
    most, best, left = known_cycles, None, labels.NEVER
    searches = sorted(_timed(task, groups, counts_energy=False), key=lambda one: one.bounds()[1])
    for search in searches:
        points = _of_a_few(search, (_aim(most_cycles=round(one)) for one in _budgets(search.bounds()[1], most - 1)))
        if points:
            most, best = points[0].cycles, (search.group, points[0].joined())
    for search, is_allowed in _in_turn(searches):
        least = search.bounds()[1]
        if least >= most:
            break
        if not is_allowed:
            left = min(left, least)
            continue
        proven = least
        try:
            for budget in _budgets(least, most - 1):
                points = search.points(_aim(most_cycles=round(budget)))
                if points:
                    most, best = points[0].cycles, (search.group, points[0].joined())
                    break
                proven = round(budget) + 1
        except TooLarge:
            left = min(left, proven)
    fast = None if best is None else _priced([best])[0]
    count = sum(search.labels for search in searches)
    if fast is None:
        cheaper, more = _cheapest(task, groups, known_cycles, known_pj)
    else:
        cheaper, more = _cheapest(task, groups, fast.price.latency_cycles, fast.price.energy_pj)
    found = cheaper or fast
    bound = left if left < labels.NEVER else inf
    return Searched(() if found is None else (found,), bound, count + more)


def _of_a_few(search: GroupSearch, aims: Iterable[Aim]) -> list[Point]:
    """What a search finds with a few choices of what is spread: it says early what is not worth to look at."""
    fj, cycles = search.bounds()
    for aim in aims:
        if is_above(aim, fj + aim.other_fj if search.counts_energy else 0, cycles + aim.other_cycles):
            continue
        try:
            points = search.points(aim, FEW)
        except TooLarge:
            return []
        if points:
            return points
    return []


def _cheapest(
    task: Task, groups: Sequence[Group], most_cycles: int, known_pj: float
) -> tuple[Together | None, int]:  # fmt: skip
    """A mapping of no more cycles that costs less than what is known: the least unless labels run out."""
    best, least_pj, count = None, known_pj, 0
    searches = sorted(_timed(task, groups, counts_energy=True), key=lambda one: one.bounds()[0])
    for search in searches:
        budgets = _budgets(search.bounds()[0], _below(round(least_pj * FEMTO)))
        points = _of_a_few(search, (_aim(most_cycles=most_cycles, most_fj=round(one)) for one in budgets))
        if points:
            (best,) = _priced([(search.group, points[0].joined())])
            least_pj = min(least_pj, best.price.energy_pj)
    for search, is_allowed in _in_turn(searches):
        least_fj, cycles = search.bounds()
        most_fj = _below(round(least_pj * FEMTO))
        if not is_allowed or least_fj > most_fj or cycles > most_cycles:
            continue
        try:
            for budget in _budgets(least_fj, most_fj):
                points = search.points(_aim(most_cycles=most_cycles, most_fj=round(budget)))
                if points:
                    (one,) = _priced([(search.group, points[0].joined())])
                    if one.price.energy_pj < least_pj:
                        best, least_pj = one, one.price.energy_pj
                    break
        except TooLarge:
            continue
        finally:
            count += search.labels
    return best, count


def _below(number: float) -> int:
    """What is less by more than sums of rounded numbers differ."""
    return int(number * (1 - 1e-9)) - 1


def best_product(
    task: Task,
    groups: Sequence[Group],
    objective: Objective,
    below: float,
    own_least: tuple[float, int],
    beside: Beside | None,
) -> Searched:
    """Mappings that may be the best in EDP or ED2P, with what others of the chain add; the bound is of that product.

    Values are below so much, in pJ x cycles; `own_least` are the least energy and the least latency of the operators.
    Where these are all of the chain (`beside` is none) the best one is enough; else all are wanted that no other beats
    in both energy and latency.
    """
    searches = _timed(task, groups, counts_energy=True)
    others = beside or Beside()
    most, left = below * FEMTO * (1 - 1e-12), inf
    found: list[tuple[Group, Joined]] = []

    most_fj, most_cycles = labels.NEVER, labels.NEVER
    if below < inf:
        least_fj, power = _below(own_least[0] * FEMTO) + others.fj, POWERS[objective][1]
        most_fj = int(min(labels.NEVER, most / max(1, own_least[1] + others.cycles) ** power * (1 + 1e-12)))
        most_cycles = most_cycles_of(_aim(objective, most), least_fj)

    def least_of(search: GroupSearch) -> float:
        fj, cycles = search.bounds()
        if fj + others.fj > most_fj or cycles + others.cycles > most_cycles:
            return inf
        if labels.NEVER in (fj, cycles):
            return inf
        return value_of(objective, float(fj + others.fj), cycles + others.cycles)

    def worth(one: Point) -> float:
        return value_of(objective, float(one.fj), one.cycles)

    searches.sort(key=least_of)
    for search in searches if beside is None else ():
        budgets = _budgets(least_of(search), most) if least_of(search) <= most else ()
        aims = (_aim(objective, one, others, most_cycles=most_cycles, most_fj=most_fj) for one in budgets)
        points = _of_a_few(search, aims)
        if points:
            best = min(points, key=worth)
            found.append((search.group, best.joined()))
            most = min(most, worth(best) * (1 - 1e-12))
    for search, is_allowed in _in_turn(searches):
        least = least_of(search)
        if least > most:
            break
        if not is_allowed:
            left = min(left, least)
            continue
        proven = least
        try:
            for budget in _budgets(least, most) if beside is None else [most]:
                points = search.points(
                    _aim(objective, budget, others, most_cycles=most_cycles, most_fj=most_fj)
                )  # fmt: skip
                if points and beside is None:
                    points = [min(points, key=worth)]
                    most = worth(points[0]) * (1 - 1e-12)
                if points:
                    found += [(search.group, one.joined()) for one in points]
                    break
                proven = budget
        except TooLarge:
            left = min(left, proven)
    return Searched(_priced(found), left / FEMTO, sum(search.labels for search in searches))


def _timed(task: Task, groups: Sequence[Group], *, counts_energy: bool) -> list[GroupSearch]:
    clocks = [Clock(group.chain.tree, group.ports_outside(), counts_energy) for group in groups]
    return [
        GroupSearch(group, _spaces(task, group), task.most_labels, clock)
        for group, clock in zip(groups, clocks, strict=True)
    ]


def _aim(
    objective: Objective = Objective.LATENCY,
    most_value: float = inf,
    beside: Beside = Beside(),
    *,
    most_cycles: int = labels.NEVER,
    most_fj: int = labels.NEVER,
) -> Aim:
    energy, cycles = POWERS[objective]
    return Aim(most_fj, most_cycles, most_value, energy, cycles, beside.fj, beside.cycles)

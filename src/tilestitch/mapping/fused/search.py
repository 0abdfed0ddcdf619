"""The best fused mapping of a chain: which neighbours run together, where intermediates wait, and all loops.

An intermediate in the outermost memory couples nothing: its two operators run as well one after the other, each with
all memories for itself. So a chain is divided into groups whose intermediates stay inside, and its energy is the sum of
theirs. Groups of one are mapped as `map` maps them; so nothing fused is above what is not.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from tilestitch.base.errors import InputError, TooLarge
from tilestitch.base.progress import Progress, quiet
from tilestitch.base.shown import Brief
from tilestitch.mapping.fused.chain import MOST_OPERATORS, Chain, chain_faults, homes_of
from tilestitch.mapping.fused.group import GroupSearch
from tilestitch.mapping.fused.mapping import FusedMapping, FusedPrice, fused_mapping, fused_price
from tilestitch.mapping.fused.shapes import Group, passes_pj
from tilestitch.mapping.tree import labels
from tilestitch.mapping.tree.choices import SpatialSpace
from tilestitch.mapping.tree.found import FoundMapping
from tilestitch.mapping.tree.search import best_of
from tilestitch.mapping.tree.spatial import best_spread
from tilestitch.mapping.tree.tables import FEMTO, Sums

MOST_LABELS = 10_000_000
STEPS = (1.0, 1.02, 1.06, 1.15, 1.35, 1.8, 2.5, 4.0)  # budgets, of the least that operators cost by themselves


@dataclass(frozen=True, slots=True, repr=False)
class FoundGroup(Brief):
    """Operators that run together, from the first to the last of a chain, and what they cost."""

    first: int
    last: int
    energy_pj: float
    bound_pj: float
    alone: FoundMapping | None  # of one operator
    mapping: FusedMapping | None  # of several
    price: FusedPrice | None

    @property
    def is_proven(self) -> bool:
        return self.bound_pj >= self.energy_pj


@dataclass(frozen=True, slots=True, repr=False)
class FoundChain(Brief):
    """The best mapping of a chain and what is proven of it, beside the best without fusion."""

    chain: Chain
    sums: Sums
    groups: tuple[FoundGroup, ...]
    unfused: tuple[FoundMapping, ...]
    passes_pj: tuple[float, ...]  # of each link, in the outermost memory
    bound_pj: float
    labels: int

    @property
    def energy_pj(self) -> float:
        return sum(group.energy_pj for group in self.groups) + self.outside_pj

    @property
    def outside_pj(self) -> float:
        """What is done to intermediates that go through the outermost memory."""
        return sum(self.passes_pj[group.last] for group in self.groups[:-1])

    @property
    def unfused_pj(self) -> float:
        return sum(one.price.energy_pj for one in self.unfused) + sum(self.passes_pj)

    @property
    def is_proven(self) -> bool:
        """Whether no fused mapping of the model costs less, to a femtojoule for each cut."""
        return self.bound_pj >= self.energy_pj * (1 - 1e-12)


def best_chain(
    chain: Chain,
    sums: Sums = Sums.FULL,
    spaces: Sequence[SpatialSpace | None] = (),
    most_labels: int = MOST_LABELS,
    progress: Progress = quiet,
    most: int = MOST_OPERATORS,
) -> FoundChain:
    """The fused mapping of a chain with the least energy.

    `spaces` say for each operator what may be spread; where there is none the spread of its nest is fixed. The result
    is proven unless labels run out or an operator has too many choices, over all divisions into groups of at most
    `most` operators: four or fewer.
    Raises `InputError` for operators that are no chain, and `DoesNotFit` where one has no mapping.
    """
    for fault in chain_faults(chain):
        raise InputError(f"{chain.name}: {fault}")
    if any(memory.has_even_storage for memory in chain.tree.memories):
        raise InputError(
            f"{chain.tree.name}: memories that store evenly hold no fused mappings; use a machine without even storage"
        )
    given = tuple(spaces) or (None,) * len(chain.operators)
    unfused: list[FoundMapping] = []
    for number, placed in enumerate(chain.operators):
        progress("map", number, len(chain.operators))
        space = given[number]
        unfused.append(best_of([placed], sums) if space is None else best_spread(placed, space, sums).found)
    outermost = [
        chain.operators[link].chain(len(chain.operators[link].nest.reads))[-1] for link in range(len(chain.links))
    ]
    passes = tuple(passes_pj(chain, link, memory) for link, memory in enumerate(outermost))
    groups: dict[tuple[int, int], FoundGroup] = {}
    count = 0
    for number, one in enumerate(unfused):
        groups[number, number] = FoundGroup(number, number, one.price.energy_pj, one.bound_pj, one, None, None)
    spans = [
        (first, first + length - 1)
        for length in range(2, min(most, len(chain.operators)) + 1)
        for first in range(len(chain.operators) - length + 1)
    ]
    for number, (first, last) in enumerate(spans):
        progress("fuse", number, len(spans))
        best = _least_division(groups, passes, first, last)
        found, more = _best_group(chain.part(first, last), sums, given[first : last + 1], best, most_labels)
        count += more
        if found is not None:
            groups[first, last] = FoundGroup(
                first, last, found.energy_pj, found.bound_pj, None, found.mapping, found.price
            )
    value, division = _division(groups, passes, 0, len(chain.operators) - 1)
    bound = _bound(groups, passes, len(chain.operators))
    return FoundChain(chain, sums, tuple(division), tuple(unfused), passes, min(bound, value), count)


@dataclass(frozen=True, slots=True)
class _Group:
    energy_pj: float
    bound_pj: float
    mapping: FusedMapping | None
    price: FusedPrice | None


def _best_group(
    chain: Chain, sums: Sums, spaces: Sequence[SpatialSpace | None], below_pj: float, most_labels: int
) -> tuple[_Group | None, int]:
    """The best of a group if it costs less than so much, or what it costs at least if that is not known; and labels."""
    last = len(chain.operators) - 1
    along = [replace(chain, overlaps=frozenset({axis})) for axis in chain.window_axes()]
    ways = [chain, *(one for one in along if one.has_halo(0, last))]
    homes = list(product(*(homes_of(chain, link) for link in range(len(chain.links)))))
    searches = [GroupSearch(Group(way, one, sums), tuple(spaces), most_labels) for one in homes for way in ways]
    best_fj, best, left_fj = round(below_pj * FEMTO), None, labels.NEVER
    some = [search for search in searches if search.has_more()]
    is_open, left_fj = bool(some), min([left_fj, *(search.floor_fj() for search in some)])
    for search in sorted(searches, key=lambda one: one.least_fj()):
        least = search.least_fj()
        if least >= best_fj:
            break
        proven = least
        try:
            for step in STEPS:
                budget = min(round(least * step), best_fj - 1)
                found = search.best(budget)
                if found is not None:
                    best_fj, best = found[0], (search.group, found[1])
                    proven = best_fj
                    break
                proven = budget + 1
                if budget >= best_fj - 1:
                    break
            else:
                found = search.best(best_fj - 1)
                if found is not None:
                    best_fj, best = found[0], (search.group, found[1])
                proven = best_fj
        except TooLarge:
            is_open = True
            left_fj = min(left_fj, proven)
    count = sum(search.labels for search in searches)
    if best is None:
        return (_Group(float("inf"), left_fj / FEMTO, None, None), count) if is_open else (None, count)
    mapping = fused_mapping(*best)
    price = fused_price(mapping)
    bound = price.energy_pj if not is_open else min(price.energy_pj, left_fj / FEMTO)
    return _Group(price.energy_pj, bound, mapping, price), count


def _least_division(groups: dict[tuple[int, int], FoundGroup], passes: Sequence[float], first: int, last: int) -> float:
    return _division(groups, passes, first, last)[0]


def _division(
    groups: dict[tuple[int, int], FoundGroup], passes: Sequence[float], first: int, last: int
) -> tuple[float, list[FoundGroup]]:
    """The division of some operators into groups that costs least."""
    best: list[tuple[float, list[FoundGroup]]] = [(0.0, [])]
    for end in range(first, last + 1):
        options: list[tuple[float, list[FoundGroup]]] = []
        for start in range(first, end + 1):
            group = groups.get((start, end))
            if group is not None and group.energy_pj < float("inf"):
                before, chosen = best[start - first]
                between = passes[start - 1] if start > first else 0.0
                options.append((before + between + group.energy_pj, [*chosen, group]))
        best.append(min(options, key=lambda one: (one[0], len(one[1]))))
    return best[-1]


def _bound(groups: dict[tuple[int, int], FoundGroup], passes: Sequence[float], count: int) -> float:
    """Below what no division into groups comes."""
    best = [0.0]
    for end in range(count):
        options: list[float] = []
        for start in range(end + 1):
            group = groups.get((start, end))
            if group is not None:
                options.append(best[start] + (passes[start - 1] if start else 0.0) + group.bound_pj)
        best.append(min(options))
    return best[-1]

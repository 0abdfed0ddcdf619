"""The best fused mapping of a chain: which operators run together, where intermediates wait, and all loops.

An intermediate in the outermost memory couples nothing: its two operators run as well one after the other, each with
all memories for itself. So a chain is divided into groups whose intermediates stay inside, and its energy and its
latency are the sums of theirs. Groups of one are mapped as `map` maps them; so nothing fused is above what is not.
Where operators are a tree or another graph, groups are those that hang together in it: whatever is made in one but the
result of its last operator is read in it, and goes out as well if others read it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import TypeAlias

from tilestitch.base.errors import InputError
from tilestitch.base.progress import Progress, quiet
from tilestitch.base.shown import Brief
from tilestitch.ir.choices import Objective
from tilestitch.mapping.fused.chain import MOST_OPERATORS, Chain, chain_faults
from tilestitch.mapping.fused.divisions import Span, divisions, in_turn, others_of, spans_of
from tilestitch.mapping.fused.latency import pass_latency
from tilestitch.mapping.fused.mapping import FusedMapping
from tilestitch.mapping.fused.met import Met, is_met_before_the_end, leaving_cycles, met_from_outside
from tilestitch.mapping.fused.price import FusedPrice
from tilestitch.mapping.fused.shapes import Group, passes_pj
from tilestitch.mapping.fused.spans import (
    Beside,
    Searched,
    Task,
    Together,
    best_product,
    groups_of,
    least_energy,
    least_latency,
    without_names,
)
from tilestitch.mapping.optimum import value_of
from tilestitch.mapping.tree.choices import SpatialSpace
from tilestitch.mapping.tree.found import FoundMapping
from tilestitch.mapping.tree.free_front import front_of_choices
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.search import MOST_LABELS as MOST_ALONE
from tilestitch.mapping.tree.search import best_of
from tilestitch.mapping.tree.spatial import best_spread
from tilestitch.mapping.tree.tables import FEMTO, Sums
from tilestitch.mapping.tree.timed_search import pareto_front

MOST_LABELS = 10_000_000


@dataclass(frozen=True, slots=True, repr=False)
class FoundGroup(Brief):
    """Operators of a chain that run together, in the order in which they do, and what they cost.

    Beside that `met` is what reading results from outside costs that meet theirs, or are added to them, and `passes`
    what is done to the result of all in the outermost memory before others read it. Results that stay and go out as
    well are `leaving`.
    """

    numbers: tuple[int, ...]
    energy_pj: float
    latency_cycles: int
    alone: FoundMapping | None  # of one operator
    mapping: FusedMapping | None  # of several
    price: FusedPrice | None
    met: Met
    passes: Met
    leaving: Met

    @property
    def all_pj(self) -> float:
        return self.energy_pj + self.outside_pj

    @property
    def all_cycles(self) -> int:
        return self.latency_cycles + self.outside_cycles

    @property
    def outside_pj(self) -> float:
        """What is done beside the mapping, as the model says."""
        return sum(one.energy_pj for one in (self.met, self.passes, self.leaving))

    @property
    def outside_cycles(self) -> int:
        return sum(one.cycles for one in (self.met, self.passes, self.leaving))

    @property
    def last(self) -> int:
        """The operator whose result is that of all."""
        return self.numbers[-1]


@dataclass(frozen=True, slots=True, repr=False)
class FoundChain(Brief):
    """The best mapping of a chain and what is proven of it, beside the best without fusion."""

    chain: Chain
    sums: Sums
    objective: Objective
    groups: tuple[FoundGroup, ...]
    unfused: tuple[FoundMapping, ...]
    passes_pj: tuple[float, ...]  # of each link, in the outermost memory
    passes_cycles: tuple[int, ...]
    bound: float  # of the objective, for every mapping of the chain
    labels: int
    met: tuple[Met, ...]  # of each operator by itself

    @property
    def energy_pj(self) -> float:
        return sum(group.all_pj for group in self.groups)

    @property
    def latency_cycles(self) -> int:
        """Of all operators, one group after another."""
        return sum(group.all_cycles for group in self.groups)

    @property
    def value(self) -> float:
        """Of the objective: pJ, cycles, or their products, of the whole chain."""
        return value_of(self.objective, self.energy_pj, self.latency_cycles)

    @property
    def outside_pj(self) -> float:
        """What is done to intermediates that go through the outermost memory."""
        return sum(one.outside_pj for one in self.groups)

    @property
    def outside_cycles(self) -> int:
        """What that takes, between groups."""
        return sum(one.outside_cycles for one in self.groups)

    @property
    def unfused_outside_pj(self) -> float:
        """The same if all intermediates go through the outermost memory."""
        return sum(self.passes_pj) + sum(one.energy_pj for one in self.met)

    @property
    def unfused_outside_cycles(self) -> int:
        return sum(self.passes_cycles) + sum(one.cycles for one in self.met)

    @property
    def unfused_pj(self) -> float:
        return sum(one.price.energy_pj for one in self.unfused) + self.unfused_outside_pj

    @property
    def unfused_cycles(self) -> int:
        return sum(one.price.latency_cycles for one in self.unfused) + self.unfused_outside_cycles

    @property
    def unfused_value(self) -> float:
        return value_of(self.objective, self.unfused_pj, self.unfused_cycles)

    @property
    def is_proven(self) -> bool:
        """Whether no fused mapping of the model is better, to a femtojoule for each cut: the search came to its end."""
        return self.bound >= self.value * (1 - 1e-12)


Spans: TypeAlias = dict[Span, list[FoundGroup]]
Bounds: TypeAlias = Mapping[Span, float]


@dataclass(frozen=True, slots=True)
class _Searches:
    """Chain and objective, and what every search may do; of each span of operators what is known of it."""

    chain: Chain
    sums: Sums
    spaces: tuple[SpatialSpace | None, ...]
    most_labels: int
    objective: Objective
    passes_pj: tuple[float, ...]
    passes_cycles: tuple[int, ...]
    kinds: tuple[int, ...]  # of each operator the first that is as it but for names, and may spread the same

    @property
    def every(self) -> Span:
        return tuple(range(len(self.chain.operators)))

    def task(self, span: Span) -> Task:
        spaces = tuple(self.spaces[number] for number in span)
        is_met = is_met_before_the_end(self.chain, span)
        return Task(self.chain.part(span), self.sums, spaces, self.most_labels, is_met)

    def met(self, span: Span) -> Met:
        """What is read of results from outside that meet those of a span, or are added to them."""
        return met_from_outside(self.chain, span)

    def passes(self, span: Span) -> Met:
        """What is done to the result of a span before others read it."""
        if span[-1] == len(self.chain.links):
            return Met(0.0, 0)
        return Met(self.passes_pj[span[-1]], self.passes_cycles[span[-1]])

    def beside(self, span: Span) -> Met:
        """What a span costs and takes beside its mapping, whatever that is: but for the energy of what leaves."""
        met, passes, leaving = self.met(span), self.passes(span), leaving_cycles(self.chain.part(span))
        return Met(met.energy_pj + passes.energy_pj, met.cycles + passes.cycles + leaving)

    def group(self, span: Span, one: FoundMapping | Together, numbers: Span) -> FoundGroup:
        """What was found of a span, in this order."""
        met, passes, price = self.met(span), self.passes(span), one.price
        if isinstance(one, FoundMapping):
            costs = price.energy_pj, price.latency_cycles
            return FoundGroup(numbers, *costs, one, None, None, met, passes, Met(0.0, 0))
        leaving = Met(sum(one.price.leaving_pj), leaving_cycles(self.chain.part(span)))
        costs = one.price.energy_pj - leaving.energy_pj, price.latency_cycles
        return FoundGroup(numbers, *costs, None, one.mapping, one.price, met, passes, leaving)

    def kind(self, span: Span) -> "Kind":
        """What is the same of spans that differ in nothing but names."""
        part = self.chain.part(span)
        numbers = tuple(self.kinds[number] for number in span)
        return numbers, part.links, part.readers, part.more, is_met_before_the_end(self.chain, span)


Kind: TypeAlias = tuple[object, ...]


@dataclass(slots=True, eq=False)
class _Twins:
    """What is known of spans that differ in nothing but names: their groups, and what was found in which search."""

    groups: dict[Kind, list[Group]] = field(default_factory=dict)
    found: dict[tuple[object, ...], Searched] = field(default_factory=dict)

    def groups_of(self, searches: _Searches, span: Span) -> list[Group]:
        """The groups of a span."""
        kind = searches.kind(span)
        if kind not in self.groups:
            self.groups[kind] = groups_of(searches.task(span))
        return self.groups[kind]

    def searched(self, searches: _Searches, span: Span, what: object, search: Callable[[], Searched]) -> Searched:
        """What a search of a span finds; if a twin was searched for the same that, without labels."""
        key = (searches.kind(span), what)
        if key not in self.found:
            self.found[key] = search()
            return self.found[key]
        before, operators = self.found[key], searches.chain.part(span).operators
        again = tuple(_renamed(one, searches.chain.name, operators) for one in before.found)
        return Searched(again, before.bound, 0)


def _renamed(one: Together, name: str, operators: Sequence[PlacedNest]) -> Together:
    """The same of operators with other names."""
    chain = replace(one.mapping.chain, name=name, operators=tuple(operators[at] for at in one.order))
    return replace(one, mapping=replace(one.mapping, chain=chain))


def _kinds(operators: Sequence[PlacedNest], spaces: Sequence[SpatialSpace | None]) -> tuple[int, ...]:
    every = [(without_names(one), space) for one, space in zip(operators, spaces, strict=True)]
    return tuple(every.index(one) for one in every)


def best_chain(
    chain: Chain,
    sums: Sums = Sums.FULL,
    spaces: Sequence[SpatialSpace | None] = (),
    most_labels: int = MOST_LABELS,
    progress: Progress = quiet,
    most: int = MOST_OPERATORS,
    objective: Objective = Objective.ENERGY,
) -> FoundChain:
    """The fused mapping of a chain with the least energy, latency, EDP or ED2P; products are of the whole chain.

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
    if objective is Objective.PARETO:
        raise InputError(f"{chain.name}: chains have no front; ask for energy, latency, edp or ed2p")
    tops = [chain.operators[link].chain(len(chain.operators[link].nest.reads))[-1] for link in range(len(chain.links))]
    every = tuple(spaces) or (None,) * len(chain.operators)
    searches = _Searches(
        chain,
        sums,
        every,
        most_labels,
        objective,
        tuple(passes_pj(chain, link, memory) for link, memory in enumerate(tops)),
        tuple(pass_latency(chain, link, memory) for link, memory in enumerate(tops)),
        _kinds(chain.operators, every),
    )
    alone: list[list[FoundMapping]] = []
    for number, kind in enumerate(searches.kinds):
        progress("map", number, len(chain.operators))
        nest = chain.operators[number].nest
        before = [replace(one, placed=replace(one.placed, nest=nest)) for one in alone[kind]] if kind < number else []
        alone.append(before or _alone(searches, number))
    spans: Spans = {(at,): [_single(searches, at, one) for one in own] for at, own in enumerate(alone)}
    unfused = _division(searches, spans, searches.every)
    twins = _Twins()
    groups = {span: twins.groups_of(searches, span) for span in spans_of(chain, most)}
    by = _by_sum if objective in (Objective.ENERGY, Objective.LATENCY) else _by_product
    bound, count = by(searches, spans, groups, alone, (twins, progress))
    division = _division(searches, spans, searches.every)
    each = tuple(one.alone for one in sorted(unfused, key=lambda one: one.last) if one.alone is not None)
    met = tuple(searches.met((number,)) for number in range(len(chain.operators)))
    passes = searches.passes_pj, searches.passes_cycles
    found = FoundChain(chain, sums, objective, tuple(division), each, *passes, bound, count, met)
    return replace(found, bound=min(bound, found.value))


def _alone(searches: _Searches, number: int) -> list[FoundMapping]:
    """The best mapping of an operator by itself; for products of energy and latency all that none beats in both."""
    placed, space, objective = searches.chain.operators[number], searches.spaces[number], searches.objective
    if objective in (Objective.ENERGY, Objective.LATENCY):
        if space is None:
            return [best_of([placed], searches.sums, objective=objective)]
        return [best_spread(placed, space, searches.sums, objective=objective).found]
    if space is None:
        return list(pareto_front([placed], searches.sums, MOST_ALONE).points)
    return list(front_of_choices(placed, space, searches.sums).points)


def _single(searches: _Searches, at: int, one: FoundMapping) -> FoundGroup:
    return searches.group((at,), one, (at,))


def _joined(searches: _Searches, span: Span, one: Together) -> FoundGroup:
    return searches.group(span, one, tuple(span[at] for at in one.order))


Groups = Mapping[Span, Sequence[Group]]
Alone = Sequence[Sequence[FoundMapping]]


def _by_sum(
    searches: _Searches, spans: Spans, groups: Groups, alone: Alone, told: tuple[_Twins, Progress]
) -> tuple[float, int]:
    """Search every span for its least energy or latency; a bound of the chain, and how many labels there were."""
    twins, progress = told
    is_energy = searches.objective is Objective.ENERGY
    bounds: dict[Span, float] = {}
    for at, own in enumerate(alone):
        beside = searches.beside((at,))
        bounds[at,] = own[0].bound + (beside.energy_pj if is_energy else beside.cycles)
    count = 0
    for number, (span, some) in enumerate(groups.items()):
        progress("fuse", number, len(groups))
        _, labels = _search(searches, twins, spans, bounds, span, some)
        count += labels
    return _least_sum(searches.chain, bounds, searches.every), count


def _search(
    searches: _Searches,
    twins: _Twins,
    spans: Spans,
    bounds: dict[Span, float],
    span: Span,
    some: Sequence[Group],
) -> tuple[float, int]:
    """Search a span for what is less than is known, and keep what was found.

    Below what its operators do not come together, or what is known where nothing is left, with what they cost beside
    their mapping; and how many labels there were.
    """
    division, task, more = _division(searches, spans, span), searches.task(span), searches.beside(span)
    energy = sum(one.all_pj for one in division) - more.energy_pj
    cycles = sum(one.all_cycles for one in division) - more.cycles
    is_energy = searches.objective is Objective.ENERGY
    known, beside = (energy, more.energy_pj) if is_energy else (cycles, more.cycles)

    def search() -> Searched:
        return least_energy(task, some, energy) if is_energy else least_latency(task, some, cycles, energy)

    searched = twins.searched(searches, span, (searches.objective, energy, cycles), search)
    least = searched.bound
    if searched.found:
        spans[span] = [_joined(searches, span, one) for one in searched.found]
        best = searched.found[0].price
        least = min(least, value_of(searches.objective, best.energy_pj, best.latency_cycles))
    if least == inf:
        return known + beside, searched.labels
    bounds[span] = least + beside
    return least + beside, searched.labels


def _by_product(
    searches: _Searches, spans: Spans, groups: Groups, alone: Alone, told: tuple[_Twins, Progress]
) -> tuple[float, int]:
    """Search for the least product: what is known and what others of the chain add at least say what may be part.

    The mappings of least energy and of least latency of every span say both, and are something to begin with.
    """
    twins, progress = told
    energies: Spans = {(at,): [_single(searches, at, own[0])] for at, own in enumerate(alone)}
    fastest: Spans = {(at,): [_single(searches, at, own[-1])] for at, own in enumerate(alone)}
    least_pj: dict[Span, float] = {}
    least_cycles: dict[Span, float] = {}
    left = inf
    for at, own in enumerate(alone):
        is_whole = own[0].is_proven  # its front has no gaps
        more = searches.beside((at,))
        least_pj[at,] = (own[0].price.energy_pj if is_whole else own[0].bound_pj) + more.energy_pj
        least_cycles[at,] = (own[-1].price.latency_cycles if is_whole else own[0].bound_cycles) + more.cycles
        if not is_whole:
            left = min(left, value_of(searches.objective, own[0].bound_pj, own[0].bound_cycles))
    own_least: dict[Span, tuple[float, int]] = {}  # of mappings in which all of a span run together
    by_energy = replace(searches, objective=Objective.ENERGY)
    by_latency = replace(searches, objective=Objective.LATENCY)
    count = 0
    for number, (span, some) in enumerate(groups.items()):
        progress("fuse", 2 * number, 3 * len(groups))
        energy, labels = _search(by_energy, twins, energies, least_pj, span, some)
        cycles, more = _search(by_latency, twins, fastest, least_cycles, span, some)
        count += labels + more
        beside = searches.beside(span)
        own_least[span] = energy - beside.energy_pj, int(cycles) - beside.cycles
        both = [*energies.get(span, []), *fastest.get(span, [])]
        if both:
            spans[span] = both
    for number, (span, some) in enumerate(groups.items()):
        progress("fuse", 2 * len(groups) + number, 3 * len(groups))
        known = _value(searches, _division(searches, spans, searches.every))
        beside = None if span == searches.every else _beside(searches, least_pj, least_cycles, span)
        searched = best_product(searches.task(span), some, searches.objective, known, own_least[span], beside)
        count, left = count + searched.labels, min(left, searched.bound)
        if searched.found:
            spans[span] = [*spans.get(span, []), *(_joined(searches, span, one) for one in searched.found)]
    return left, count


def _beside(searches: _Searches, least_pj: Bounds, least_cycles: Bounds, span: Span) -> Beside:
    """What the operators beside a span add at least, with what is done and read in between."""
    own = searches.beside(span)
    picojoules, cycles = own.energy_pj, float(own.cycles)
    for part in others_of(searches.chain, span):
        picojoules += _least_sum(searches.chain, least_pj, part)
        cycles += _least_sum(searches.chain, least_cycles, part)
    return Beside(max(0, int(picojoules * FEMTO * (1 - 1e-9)) - 1), int(cycles))


def _value(searches: _Searches, division: Sequence[FoundGroup]) -> float:
    energy_pj, cycles = sum(one.all_pj for one in division), sum(one.all_cycles for one in division)
    return value_of(searches.objective, energy_pj, cycles)


@dataclass(frozen=True, slots=True)
class _Way:
    """Operators from the first on as groups, with their sums."""

    energy_pj: float
    cycles: int
    groups: tuple[FoundGroup, ...]


def _division(searches: _Searches, spans: Spans, every: Span) -> list[FoundGroup]:
    """The division of some operators that hang together into groups that is best in the objective."""
    objective = searches.objective
    ways: dict[Span, list[_Way]] = {}  # of operators that hang together
    for part, choices in divisions(searches.chain, spans, every):
        options: list[_Way] = []
        for span, others in choices:
            before = [_Way(0.0, 0, ())]
            for other in others:
                before = [
                    _Way(one.energy_pj + way.energy_pj, one.cycles + way.cycles, (*one.groups, *way.groups))
                    for one in before
                    for way in ways[other]
                ]
            for group in spans[span]:
                options += [
                    _Way(way.energy_pj + group.all_pj, way.cycles + group.all_cycles, (*way.groups, group))
                    for way in before
                ]
        if objective is Objective.ENERGY:
            ways[part] = [min(options, key=lambda one: (one.energy_pj, len(one.groups)))]
        elif objective is Objective.LATENCY:
            ways[part] = [min(options, key=lambda one: (one.cycles, one.energy_pj, len(one.groups)))]
        else:
            ways[part] = _unbeaten(options)
    chosen = min(ways[every], key=lambda one: (value_of(objective, one.energy_pj, one.cycles), one.energy_pj))
    groups = {tuple(sorted(one.numbers)): one for one in chosen.groups}
    return [groups[span] for span in in_turn(searches.chain, groups)]


def _unbeaten(ways: Sequence[_Way]) -> list[_Way]:
    """Those that no other beats in both energy and latency."""
    kept: list[_Way] = []
    for one in sorted(ways, key=lambda one: (one.energy_pj, one.cycles, len(one.groups))):
        if not kept or one.cycles < kept[-1].cycles:
            kept.append(one)
    return kept


def _least_sum(chain: Chain, bounds: Bounds, every: Span) -> float:
    """Below what no division of some operators that hang together into groups comes."""
    best: dict[Span, float] = {}
    for part, choices in divisions(chain, bounds, every):
        best[part] = min(bounds[span] + sum(best[other] for other in others) for span, others in choices)
    return best[every]

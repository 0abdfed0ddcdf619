"""Cuts by dynamic programming: the cheapest way through the network, by what simulated candidates tell of its parts.

A simulated candidate tells of each of its sub-graphs by how many cycles it moved the end of all that came before. A
sub-graph that no candidate had is taken to cost what others, cut in the same way, told of its kernels. The sub-graphs
that cost least, all together, make the next candidate. It is simulated in its turn, and what it tells replaces what was
taken of it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from tilestitch.ir.graph import Graph
from tilestitch.ir.tile_rule import KernelRule
from tilestitch.pipeline.search.candidate import Candidate, Cut
from tilestitch.pipeline.search.evaluate import Evaluated
from tilestitch.pipeline.search.places import fits, narrow_places
from tilestitch.schedule.pieces import KernelIndex

KIND = "cuts"  # what the search calls such candidates
BORDERS = 24  # places of the network, the narrowest, where sub-graphs that no candidate had can begin and end
NEW = 0.002  # of the latency is added to what such a sub-graph is taken to cost: it may begin with a wait


class Part(NamedTuple):
    """A sub-graph as it runs behind others: operators are bits, by their place in the network."""

    before: int  # operators that have run by then
    cut: Cut
    kernels: tuple[tuple[str, ...], ...]
    rules: tuple[KernelRule, ...]  # of these kernels

    @property
    def like(self) -> tuple:
        """Equal for parts of the same operators that are cut in the same way."""
        return self.before, self.cut


@dataclass(frozen=True, slots=True)
class Recut:
    """A candidate of other cuts, and the parts of it that the best one has not."""

    candidate: Candidate
    parts: tuple[Part, ...]


_Costs: TypeAlias = dict[Part, int]


def cheapest_cuts(
    graph: Graph, best: Evaluated, simulated: Sequence[Evaluated], refused: Collection[Part]
) -> Recut | None:
    """The candidate of the least sum of what its sub-graphs cost, as the best one else; None where that one is it.

    Of two candidates that had the same sub-graph the one simulated last tells what it costs, and the best one what its
    own do. Parts that are `refused` are left out. Candidates at another batch or of other operators tell nothing.
    """
    bits = {op.name: 1 << at for at, op in enumerate(graph.operators)}
    like = [*(one for one in simulated if _tells(one.candidate, best.candidate)), best]
    own = _parts(best, bits)
    costs: _Costs = {}
    for one in like:
        costs.update(_parts(one, bits))
    known = {part.like for part in costs}
    surcharge = int(NEW * best.latency_cycles)
    for part, cycles in _composed(graph, best.candidate, like, _borders(graph, best.candidate, costs, bits)):
        if part.like not in known:
            costs[part] = cycles + surcharge
    path = _cheapest({part: cycles for part, cycles in costs.items() if part in own or part not in refused}, bits)
    others = tuple(part for part in path if part not in own)
    return Recut(_of_parts(best.candidate, path, graph), others) if others else None


def _tells(one: Candidate, best: Candidate) -> bool:
    """Whether it has the same samples and operators; how constants are packed is all the same."""
    same = replace(one, packed=best.packed).rewriting == best.rewriting
    return same and one.batch == best.batch and not one.refined


def _parts(one: Evaluated, bits: Mapping[str, int]) -> _Costs:
    """The sub-graphs of a candidate, each with the whole of every kernel that begins there, and what each added."""
    candidate, before = one.candidate, 0
    cut_of = {name: at for at, cut in enumerate(candidate.cuts) for name in cut.operators}
    kernels: list[list[tuple[str, ...]]] = [[] for _ in candidate.cuts]
    for kernel in candidate.kernels:
        kernels[min(cut_of[name] for name in kernel)].append(kernel)
    rules = {rule.sink: rule for rule in candidate.rules}
    found: _Costs = {}
    for cut, own in zip(candidate.cuts, kernels, strict=True):
        if own:
            names = sorted((name for kernel in own for name in kernel), key=bits.__getitem__)
            asked = tuple(rules[kernel[-1]] for kernel in own if kernel[-1] in rules)
            part = Part(before, replace(cut, operators=tuple(names)), tuple(own), asked)
            found[part] = sum(one.added_cycles.get(kernel[-1], 0) for kernel in own)
            before |= _bits_of(names, bits)
    return found


class _Borders(NamedTuple):
    """Where sub-graphs that no candidate had can begin and end."""

    kernels: Sequence[tuple[str, ...]]  # of the best candidate, in their order
    places: Sequence[tuple[int, int]]  # how many of them are before it, and their operators


def _borders(graph: Graph, candidate: Candidate, costs: _Costs, bits: Mapping[str, int]) -> _Borders:
    """The narrowest places of the network, and where known parts begin, as far as kernels end there."""
    whole, index = Cut(tuple(bits)), KernelIndex(graph, candidate.kernels)
    kernels = [tuple(op.name for op in kernel) for kernel in index.within(whole.operators)]
    masks = [0]
    for kernel in kernels:
        masks.append(masks[-1] | _bits_of(kernel, bits))
    wanted = {part.before for part in costs} | {0, masks[-1]}
    wanted.update(_bits_of(place.before, bits) for place in narrow_places(graph, index, whole)[:BORDERS])
    return _Borders(kernels, [(count, mask) for count, mask in enumerate(masks) if mask in wanted])


def _composed(
    graph: Graph, candidate: Candidate, like: Sequence[Evaluated], borders: _Borders
) -> Iterator[tuple[Part, int]]:
    """Sub-graphs between borders that are cut as others that had all of their kernels, and what these added there."""
    told: dict[Cut, dict[tuple[str, ...], tuple[int, KernelRule | None]]] = {}
    for one in like:
        rules = {rule.sink: rule for rule in one.candidate.rules}
        way_of = {name: replace(cut, operators=()) for cut in one.candidate.cuts for name in cut.operators}
        for kernel in one.candidate.kernels:
            told.setdefault(way_of[kernel[0]], {})[kernel] = one.added_cycles.get(kernel[-1], 0), rules.get(kernel[-1])
    for way, costs in told.items():
        for at, (first, before) in enumerate(borders.places):
            cycles = 0
            for (last, _), (end, _) in pairwise(borders.places[at:]):
                more = [costs.get(kernel) for kernel in borders.kernels[last:end]]
                if None in more:
                    break
                cycles += sum(one[0] for one in more if one is not None)
                own = borders.kernels[first:end]
                names = sorted((name for kernel in own for name in kernel), key=graph.position.__getitem__)
                cut = replace(way, operators=tuple(names))
                if fits(graph, cut):
                    asked = tuple(rule for kernel in own if (rule := costs[kernel][1]) is not None)
                    yield Part(before, cut, tuple(own), asked), cycles


def _cheapest(costs: _Costs, bits: Mapping[str, int]) -> list[Part]:
    """The parts of the least sum from the network's begin to its end; of equals the fewest, then those known first."""
    least: dict[int, tuple[int, int, Part | None]] = {0: (0, 0, None)}
    for part, added in sorted(costs.items(), key=lambda one: one[0].before.bit_count()):
        if part.before in least:
            cycles, count, _ = least[part.before]
            now, after = (cycles + added, count + 1), part.before | _bits_of(part.cut.operators, bits)
            if after not in least or now < least[after][:2]:
                least[after] = *now, part
    found: list[Part] = []
    end = (1 << len(bits)) - 1
    while (part := least[end][2]) is not None:
        found.append(part)
        end = part.before
    return found[::-1]


def _of_parts(candidate: Candidate, parts: Sequence[Part], graph: Graph) -> Candidate:
    """The candidate with these sub-graphs, their kernels and what is asked of them."""
    kernels = sorted((one for part in parts for one in part.kernels), key=lambda one: graph.position[one[-1]])
    rules = {rule.sink: rule for part in parts for rule in part.rules}
    asked = tuple(rules[kernel[-1]] for kernel in kernels if kernel[-1] in rules)
    return replace(candidate, cuts=tuple(part.cut for part in parts), kernels=tuple(kernels), rules=asked)


def _bits_of(names: Collection[str], bits: Mapping[str, int]) -> int:
    return sum(bits[name] for name in names)

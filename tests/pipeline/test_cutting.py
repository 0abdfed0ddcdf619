"""Cuts by dynamic programming: no other cuts cost less by what candidates tell, and their sums are the latency."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, pairwise, product
from math import inf
from random import Random

import pytest

from tests.helpers.graphs import Net
from tests.helpers.pairs import first
from tests.helpers.scenes import begun
from tests.helpers.verified import machine_named, model
from tilestitch import api
from tilestitch.hardware.accelerator import Level
from tilestitch.ir.graph import Graph
from tilestitch.ir.tile_rule import KernelRule
from tilestitch.pipeline.batches import latency
from tilestitch.pipeline.compilation import given
from tilestitch.pipeline.search import best as search
from tilestitch.pipeline.search import cutting
from tilestitch.pipeline.search.candidate import Candidate, Cut
from tilestitch.pipeline.search.cutting import cheapest_cuts
from tilestitch.pipeline.search.evaluate import Evaluated

LENGTH = 5  # products behind one another
WAYS = ((0, 1), (0, 2), (0, 4), (1, 2))
LATENCY = 100_000
NEW_CYCLES = int(cutting.NEW * LATENCY)


def chain() -> Graph:
    net = Net()
    x = net.input(8, 64)
    for number in range(LENGTH):
        x = net.op("MatMul", x, net.random(64, 64), name=f"op{number}")
    done = api.compile(net.model(x), machine_named("toy"), strategy="astitch", batch=8)
    return given(done.graph)


GRAPH = chain()
NAMES = tuple(op.name for op in GRAPH.operators)


def told(ends: Sequence[int], ways: Sequence[tuple[int, int]], added: Sequence[int], **other) -> Evaluated:
    """A candidate of sub-graphs that end behind so many products, with what each product added."""
    cuts = [Cut(NAMES[a:b], *way) for (a, b), way in zip(pairwise((0, *ends)), ways, strict=True)]
    candidate = Candidate(8, tuple((name,) for name in NAMES), tuple(cuts), **other)
    return evaluated(candidate, added)


def evaluated(candidate: Candidate, added: Sequence[int]) -> Evaluated:
    return Evaluated(candidate, LATENCY, LATENCY, LATENCY, {}, dict(zip(NAMES, added, strict=True)), 1, 1, False)


def all_cuts() -> Iterator[tuple[Cut, ...]]:
    """Every way to cut the chain."""
    for count in range(LENGTH):
        for inner in combinations(range(1, LENGTH), count):
            spans = list(pairwise((0, *inner, LENGTH)))
            for ways in product(WAYS, repeat=len(spans)):
                yield tuple(Cut(NAMES[a:b], *way) for (a, b), way in zip(spans, ways, strict=True))


def cost(cuts: Sequence[Cut], candidates: Sequence[Evaluated]) -> float:
    """What they cost by what the last candidates tell: of a sub-graph, or else of products that were cut so."""
    total = 0.0
    for cut in cuts:
        found: float = inf
        of_kernel: dict[str, int] = {}
        for one in candidates:
            for own in one.candidate.cuts:
                if own == cut:
                    found = sum(one.added_cycles[name] for name in cut.operators)
                if own.along == cut.along:
                    of_kernel.update({name: one.added_cycles[name] for name in own.operators})
        if found == inf and all(name in of_kernel for name in cut.operators):
            found = sum(of_kernel[name] for name in cut.operators) + NEW_CYCLES
        total += found
    return total


@pytest.mark.parametrize("case", range(20))
def test_no_other_cuts_cost_less(case):
    rng = Random(f"cuts {case}")
    candidates = []
    for _ in range(rng.randint(2, 5)):
        ends = [*sorted(rng.sample(range(1, LENGTH), rng.randint(0, LENGTH - 1))), LENGTH]
        ways = [rng.choice(WAYS) for _ in ends]
        candidates.append(told(ends, ways, [rng.randint(1, 2_000) for _ in NAMES]))
    *others, best = candidates
    least = min(cost(cuts, candidates) for cuts in all_cuts())
    found = cheapest_cuts(GRAPH, best, others, ())
    cuts = best.candidate.cuts if found is None else found.candidate.cuts
    assert cost(cuts, candidates) == least
    assert (found is None) == (cost(best.candidate.cuts, candidates) == least)
    if found is not None:
        assert [part.cut for part in found.parts] == [cut for cut in cuts if cut not in best.candidate.cuts]
        assert replace(found.candidate, cuts=best.candidate.cuts) == best.candidate


def test_the_best_of_both_candidates_is_taken_with_its_rules():
    """Where one is faster at the begin and the other one at the end."""
    rules = tuple(KernelRule(name, scope=Level.GB) for name in NAMES)
    best = told((2, 5), ((0, 2), (0, 2)), (10, 10, 500, 500, 500))
    other = told((2, 5), ((0, 1), (0, 4)), (900, 900, 20, 20, 20), rules=rules)
    found = given(cheapest_cuts(GRAPH, best, [other], ()))
    assert [cut.along for cut in found.candidate.cuts] == [((0, 2),), ((0, 4),)]
    assert found.candidate.rules == rules[2:]
    again = given(cheapest_cuts(GRAPH, best, [other], found.parts))
    assert not set(found.parts) & set(again.parts)


def test_what_took_place_otherwise_tells_nothing():
    best = told((5,), ((0, 2),), (500,) * 5)
    other = told((5,), ((0, 4),), (10,) * 5)
    assert cheapest_cuts(GRAPH, best, [other], ()) is not None
    packed = evaluated(replace(other.candidate, packed=True), (10,) * 5)
    assert cheapest_cuts(GRAPH, best, [packed], ()) is not None
    for changed in ({"batch": 4}, {"apart": True}, {"refined": True}):
        same = evaluated(replace(other.candidate, **changed), (10,) * 5)
        assert cheapest_cuts(GRAPH, best, [same], ()) is None, changed


def test_what_was_told_last_counts_but_the_best_knows_its_own():
    best = told((5,), ((0, 2),), (500,) * 5)
    cheap, dear = (told((5,), ((0, 4),), (cycles,) * 5) for cycles in (10, 900))
    assert cheapest_cuts(GRAPH, best, [dear, cheap], ()) is not None
    assert cheapest_cuts(GRAPH, best, [cheap, dear], ()) is None
    dearer = told((5,), ((0, 2),), (990,) * 5)
    assert cheapest_cuts(GRAPH, best, [dear, dearer], ()) is None


def test_a_kernel_belongs_to_the_sub_graph_in_which_it_begins():
    """As where it is lowered."""
    candidate = told((2, 5), ((0, 2), (0, 4)), (1,) * 5).candidate
    fused = replace(candidate, kernels=((NAMES[0],), (NAMES[1], NAMES[2]), (NAMES[3],), (NAMES[4],)))
    best = Evaluated(fused, LATENCY, LATENCY, LATENCY, {}, dict.fromkeys(NAMES, 500), 1, 1, False)
    whole = replace(fused, cuts=(Cut(NAMES),))
    other = replace(best, candidate=whole, added_cycles=dict.fromkeys(NAMES, 10))
    found = given(cheapest_cuts(GRAPH, best, [other], ()))
    assert found.candidate == whole
    assert [len(part.kernels) for part in found.parts] == [4]


@pytest.mark.parametrize("network", first(1, ("resnet18", "bert-base-128", "conformer")))
def test_what_kernels_add_is_the_latency(network):
    """Of all iterations together, in the faster order of instructions."""
    evaluator, begin = begun(model(network, small=True), "toy", batch=4)
    for candidate in (begin, begin.at(1), begin.at(2), replace(begin, ring=True)):
        one = given(evaluator.evaluate(candidate))
        assert sum(one.added_cycles.values()) == pytest.approx(one.latency_cycles, abs=1)
        assert one.added_cycles.keys() == set(candidate.sinks)


def test_a_search_that_finds_other_cuts_says_so():
    """And is as fast as the curve ends."""
    proto = model("unet", small=True)
    done = api.compile(proto, machine_named("toy"), strategy="best", batch=4)
    notes = given(done.schedule).notes
    assert any(note.startswith("  cuts: ") for note in notes)
    steps = given(given(done.report).searched).steps
    assert cutting.KIND in [step.by for step in steps]
    assert steps[-1].latency_cycles == latency(done)


def test_other_cuts_are_tried_of_the_fastest_of_a_line_and_of_the_fastest_of_all(monkeypatch):
    """Moves of their own made the latter of it: other kernels, so that other cuts are cheaper."""
    begun_with, try_cuts = [], search._try_cuts

    def noted(request, state, evaluator, line):
        begun_with.append((line.fastest, state.best))
        try_cuts(request, state, evaluator, line)

    monkeypatch.setattr(search, "_try_cuts", noted)
    api.compile(model("mobilenet-v2", small=True), machine_named("toy"), strategy="best", batch=4)
    (own, fastest), (then, fastest_then), _ = begun_with
    assert own.latency_cycles > fastest.latency_cycles
    assert then is fastest_then

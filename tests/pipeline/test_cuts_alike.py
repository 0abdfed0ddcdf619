"""Moves of the search make the same of all sub-graphs that are alike, before they change one of them alone."""

from dataclasses import replace
from itertools import pairwise

import pytest

from tests.helpers.graphs import Net
from tests.helpers.verified import machine_named
from tilestitch.hardware.accelerator import Level
from tilestitch.pipeline.compile import requested
from tilestitch.pipeline.networks import Networks
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.search.candidate import Candidate, Cut, in_running_order
from tilestitch.pipeline.search.evaluate import Evaluator
from tilestitch.pipeline.search.moves import MOVES
from tilestitch.pipeline.search.scene import Scene

LAYERS = 4
LAST = 2 * LAYERS  # the sub-graph behind all layers
EVEN, ODD = tuple(range(0, LAST, 2)), tuple(range(1, LAST, 2))


@pytest.fixture(scope="module")
def layers():
    """Layers of a narrow and a wide product, each with a ReLU, which are two sub-graphs; and a product at the end."""
    net = Net()
    x = net.input("N", 16, 32, name="x")
    for layer in range(LAYERS):
        for part, (read, made) in (("wide", (32, 64)), ("narrow", (64, 32))):
            x = net.op("MatMul", x, net.random(read, made), name=f"{layer}.{part}.product")
            x = net.op("Relu", x, name=f"{layer}.{part}.relu")
    proto, machine = net.model(net.op("MatMul", x, net.random(32, 8), name="end")), machine_named("toy")
    request = requested(proto, "layers", machine, Options(batch=16))
    evaluator = Evaluator(request, Networks(proto, "layers", fold_bn=True))
    graph = evaluator.graph(Candidate(4, (), ()))
    names = [op.name for op in graph.operators]
    cuts = tuple(Cut(tuple(names[at : at + 2])) for at in range(0, len(names), 2))
    candidate = Candidate(4, tuple((name,) for name in names), cuts)
    assert in_running_order(graph, cuts)
    return evaluator, Scene(candidate, graph, machine, dict.fromkeys(names, 1), (4,))


def changed(scene, candidate):
    """Which cuts of a scene another candidate does not have."""
    return tuple(at for at, cut in enumerate(scene.candidate.cuts) if cut not in candidate.cuts)


def test_sub_graphs_that_are_alike_come_together_and_then_alone(layers):
    _, scene = layers
    runs = scene.runs()
    assert runs[:3] == [EVEN, ODD, (LAST,)]
    assert sorted(runs[3:]) == [(at,) for at in range(LAST)]


def test_what_is_cut_or_grouped_otherwise_is_not_alike(layers):
    _, scene = layers
    own = scene.candidate
    cuts = list(own.cuts)
    cuts[2] = replace(cuts[2], pieces=2)
    assert scene.runs()[0] == EVEN
    assert replace(scene, candidate=replace(own, cuts=tuple(cuts))).runs()[0] == ODD
    kernels = (*own.kernels[:2], (*own.kernels[2], *own.kernels[3]), *own.kernels[4:])
    assert replace(scene, candidate=replace(own, kernels=kernels)).runs()[:2] == [EVEN, ODD[1:]]


def test_what_is_read_elsewhere_as_well_is_not_alike(layers):
    """There may be fewer ways to cut it: all that leaves it is cut."""
    _, scene = layers
    graph = replace(scene.graph, outputs=(*scene.graph.outputs, scene.graph.by_name["1.wide.product"].outputs[0]))
    assert replace(scene, graph=graph).runs()[:2] == [ODD, (EVEN[0], *EVEN[2:])]


def test_neighbours_that_overlap_others_come_alone(layers):
    _, scene = layers
    names = [name for cut in scene.candidate.cuts for name in cut.operators]
    cuts = tuple(Cut(tuple(names[at : at + 4])) for at in range(0, len(names), 4))
    runs = replace(scene, candidate=replace(scene.candidate, cuts=cuts)).runs(2)
    assert runs == [(0, 2), (3,), (0,), (1,), (2,)]


def test_runs_of_neighbours_do_not_overlap(layers):
    _, scene = layers
    runs = scene.runs(2)
    assert runs[:2] == [EVEN, ODD[:-1]]
    assert all(second - begin >= 2 for run in runs for begin, second in pairwise(run))


@pytest.mark.parametrize("kind", ["pieces", "axis", "places", "split", "order"])
def test_the_first_moves_change_all_that_are_alike(layers, kind):
    evaluator, scene = layers
    moves = list(MOVES[kind](scene))
    ways = [changed(scene, one) for one in moves]
    assert ways[0] == EVEN
    assert set(ways) >= {EVEN, ODD, (0,), (1,)}
    assert ways.index((0,)) > ways.index(ODD)
    assert all(in_running_order(scene.graph, one.cuts) for one in moves)
    made = [one for one in moves[0].cuts if one not in scene.candidate.cuts]
    assert len({(cut.along, cut.scope, cut.lag) for cut in made}) == len(made) // len(EVEN)
    assert any(evaluator.evaluate(one) is not None for one in moves[:4])


def test_neighbours_that_are_alike_become_one_everywhere(layers):
    _, scene = layers
    moves = list(MOVES["merge"](scene))
    assert [len(cut.operators) for cut in moves[0].cuts] == [4] * LAYERS + [1]
    assert [len(cut.operators) for cut in moves[1].cuts] == [2] + [4] * (LAYERS - 1) + [2, 1]
    assert any(len(one.cuts) == LAST for one in moves[2:])


def test_borders_between_sub_graphs_that_are_alike_move_together(layers):
    _, scene = layers
    cuts = tuple(replace(cut, pieces=1 + at % 2) for at, cut in enumerate(scene.candidate.cuts))
    other = replace(scene, candidate=replace(scene.candidate, cuts=cuts))
    moves = list(MOVES["borders"](other))
    ways = [changed(other, one) for one in moves]
    assert (*EVEN, *ODD) == tuple(sorted(ways[0], key=lambda at: (at % 2, at)))
    assert (0, 1) in ways
    assert ways.index((0, 1)) > ways.index(tuple(range(1, LAST - 1)))
    assert all(in_running_order(other.graph, one.cuts) for one in moves)


def test_where_one_of_several_cannot_change_the_others_do(layers):
    """The results of the last sub-graph are those of the network, and wait nowhere."""
    _, scene = layers
    graph = replace(scene.graph, outputs=(*scene.graph.outputs, scene.graph.by_name["3.narrow.relu"].outputs[0]))
    other = replace(scene, graph=graph)
    ways = [changed(other, one) for one in MOVES["places"](other)]
    assert ODD[:-1] in ways
    assert all(LAST not in way and LAST - 1 not in way for way in ways)
    assert {cut.scope for one in MOVES["places"](other) for cut in one.cuts} == {None, Level.GB, Level.DDR}

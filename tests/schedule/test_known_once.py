"""What several schedules of a network have in common is found once, and is one object."""

import pytest

from tests.helpers.graphs import Net
from tilestitch import zoo
from tilestitch.hardware.accelerator import Level
from tilestitch.hardware.load import load_machine
from tilestitch.ir.choices import Spill
from tilestitch.ir.graph import Graph
from tilestitch.ir.region import Region
from tilestitch.ir.rewriting import Rewriting
from tilestitch.ir.tile_rule import KernelRule, Once, TileRule
from tilestitch.passes.layouts import assign_layouts
from tilestitch.pipeline import networks as networks_module
from tilestitch.pipeline.networks import Networks
from tilestitch.schedule import tiling as tiling_module
from tilestitch.schedule.pieces import PieceTasks
from tilestitch.schedule.residency import Keeping, stay_on_chip
from tilestitch.schedule.tasks import Task
from tilestitch.schedule.tiling import Shapes
from tilestitch.schedule.tilings import Tilings


def chain(names: str) -> Graph:
    net = Net()
    last = net.input(16, 64)
    for name in names:
        last = net.op("Exp", last, name=name)
    return assign_layouts(net.graph(last))


def test_kernels_that_are_alike_have_one_nest_of_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, flattened = chain("abc"), []
    flatten = tiling_module.flatten
    monkeypatch.setattr(tiling_module, "flatten", lambda *given: flattened.append(given) or flatten(*given))
    shapes = Shapes(graph, load_machine("toy"))
    first, second, last = (shapes.nest((op,), 0) for op in graph.operators)
    assert first is second
    assert last is not second  # its result leaves the network
    assert Shapes(chain("de"), load_machine("toy"), shapes).nest((chain("de").by_name["d"],), 0) is first
    assert len(flattened) == 2


def test_kernels_of_one_tiling_under_one_name_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where they were planned under different rules, and what their parts make was asked for once."""
    graph, asked = chain("abcd"), []
    made_in_parts = tiling_module.made_in_parts
    monkeypatch.setattr(tiling_module, "made_in_parts", lambda *given: asked.append(given[2:]) or made_in_parts(*given))
    tasks, tilings = [Task((name,)) for name in "abcd"], Tilings(graph, load_machine("toy"))
    plans = [
        stay_on_chip(graph, tasks, load_machine("toy"), Keeping((Level.LB, Level.GB), spill=spill), tilings=tilings)
        for spill in (Spill.NEWEST, Spill.BELADY)
    ]
    for one, other in zip(*(kernels for kernels, _ in plans), strict=True):
        assert one is other
    assert [kernel.name for kernel in plans[0][0]] == ["k0", "k1", "k2", "k3"]
    assert len(asked) == 1  # b and c take the place of their operands, and the last result leaves the network


def test_tasks_of_pieces_are_made_once() -> None:
    graph = chain("ab")
    known = PieceTasks(graph)
    writes = {graph.outputs[0]: Region.whole((16, 64))}
    own = known.of((("a", "b"),), ("a", "b"), writes, Level.LB)
    pieces = [known.of_piece(own[0], number, None, launches=False) for number in (0, 1, 0)]
    assert pieces[0] is pieces[2]
    assert (pieces[0].piece, pieces[1].piece, pieces[0].launches) == (0, 1, False)
    rules = KernelRule("b"), KernelRule("b", tiles=TileRule(columns=True)), KernelRule("b", once=Once.KERNEL)
    found = [known.with_rule(pieces[0], rule, Level.GB, picks=False) for rule in (*rules, *rules)]
    assert all(one is other for one, other in zip(found[:3], found[3:], strict=True))
    assert [one.tiles for one in found[:3]] == [rules[0].tiles, rules[1].tiles, TileRule(whole=True)]
    assert {one.scope for one in found} == {Level.GB}


def test_views_are_resolved_once_for_all_rewritings(monkeypatch: pytest.MonkeyPatch) -> None:
    resolved, resolve = [], networks_module.resolve_views
    monkeypatch.setattr(networks_module, "resolve_views", lambda graph: resolved.append(graph) or resolve(graph))
    networks = Networks(zoo.build("densenet121", small=True), "net", fold_bn=True)
    machine = load_machine("toy")
    graphs = [networks.shared(1, machine, one).graph for one in (Rewriting(), Rewriting(joined=True))]
    assert len(graphs[0].operators) > len(graphs[1].operators)
    assert len(resolved) == 1
    networks.shared(2, machine)
    assert len(resolved) == 2


def test_kernels_have_the_names_of_their_own_network() -> None:
    """Though it shares tilings with another one, in which tensors have other names, and operators the same."""
    machine, tilings = load_machine("stcp920-paper"), None
    for others in range(2):
        net = Net()
        for _ in range(others):
            net.random(1)
        weights = net.random(1024, 1024)
        graph = assign_layouts(net.graph(net.op("MatMul", net.input(8192, 1024), weights, name="product")))
        tilings = Tilings(graph, machine, tilings)
        task = Task(("product",), tiles=TileRule(whole=True))
        kernels, _ = stay_on_chip(graph, [task], machine, Keeping((Level.LB, Level.GB)), tilings=tilings)
        assert kernels[0].tiling.resident == (weights,)

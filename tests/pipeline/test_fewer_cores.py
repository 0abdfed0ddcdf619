"""The search divides small kernels among fewer cores, where transfers to and from all of them take longest."""

from math import prod

import onnx
import pytest

from tests.helpers.graphs import Net
from tests.helpers.verified import machine_named
from tilestitch import api
from tilestitch.ir.choices import Effort
from tilestitch.pipeline.batches import latency
from tilestitch.pipeline.compile import requested
from tilestitch.pipeline.networks import Networks
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.search import best as search
from tilestitch.pipeline.search.beginnings import beginnings
from tilestitch.pipeline.search.best import Budget
from tilestitch.pipeline.search.candidate import Candidate, candidate_of
from tilestitch.pipeline.search.evaluate import Evaluator
from tilestitch.pipeline.search.moves import divide, divisions, divisions_among, with_fewer_cores
from tilestitch.pipeline.search.scene import Scene

MACHINE = "ascend910"  # 32 cores
CORES = 32


def small() -> onnx.ModelProto:
    """Kernels of a few kilobytes, one after another."""
    net = Net()
    x = net.op("Tanh", net.input(2, 8, 12, 16, name="x"))
    for _ in range(3):
        x = net.op("Softmax", net.op("MatMul", x, net.random(16, 16)), axis=3)
        x = net.op("Transpose", net.op("Add", x, net.random(16)), perm=[0, 2, 1, 3])
    return net.model(net.op("ReduceMean", x, [1]))


def begun(model: onnx.ModelProto) -> tuple[Evaluator, Candidate]:
    done = api.compile(model, MACHINE, strategy="graphturbo")
    evaluator = Evaluator(
        requested(model, "net", machine_named(MACHINE), done.options), Networks(model, "net", fold_bn=True)
    )
    begin = candidate_of(done)
    assert begin is not None
    return evaluator, begin


def cores_of(candidate: Candidate) -> list[int]:
    return [prod(rule.splits) for rule in candidate.rules if rule.splits]


def test_small_kernels_run_on_few_cores_and_mean_the_network(monkeypatch):
    """Before any move is tried."""
    monkeypatch.setitem(search.BUDGETS, Effort.LOW, Budget(0, 10**9))
    options = Options(effort=Effort.LOW)
    before = api.compile(small(), MACHINE, strategy="graphturbo")
    done = api.compile(small(), MACHINE, strategy="best", options=options, verify=True)
    assert done.report is not None
    assert done.schedule is not None
    assert done.report.verified
    assert 2 * latency(done) < latency(before)
    assert max(prod(kernel.tiling.splits) for kernel in done.schedule.kernels) < CORES


@pytest.mark.parametrize("most", [1, 2, 8, 24])
def test_every_kernel_has_as_many_cores_as_it_can_of_so_many(most):
    evaluator, begin = begun(small())
    graph = evaluator.graph(begin)
    fewer = with_fewer_cores(begin, graph, CORES, most)
    assert [rule.sink for rule in fewer.rules if rule.splits] == list(begin.sinks)
    for rule in fewer.rules:
        able = [prod(one) for one in divisions(graph.by_name[rule.sink], CORES) if prod(one) <= most]
        assert prod(rule.splits) == max(able)
    found, narrower = evaluator.evaluate(begin), evaluator.evaluate(fewer)
    assert found is not None
    assert narrower is not None
    assert latency(evaluator.compiled(fewer)) == narrower.latency_cycles


def test_fewer_cores_are_not_tried_where_arithmetic_alone_takes_longer(monkeypatch):
    """Products that keep all cores busy for more than half of the time; small kernels do not."""
    asked: list[int] = []

    def noted(candidate, graph, cores, most):
        asked.append(most)
        return with_fewer_cores(candidate, graph, cores, most)

    monkeypatch.setattr("tilestitch.pipeline.search.beginnings.with_fewer_cores", noted)
    net = Net()
    x = net.input(2048, 1024, name="x")
    for _ in range(2):
        x = net.op("MatMul", x, net.random(1024, 1024))
    for model, expected in ((net.model(x), []), (small(), [16, 8])):
        asked.clear()
        evaluator, begin = begun(model)
        beginnings(evaluator.request, evaluator, [begin], [begin.batch], 10**9)
        assert asked[:2] == expected


def test_kernels_on_few_cores_may_go_to_twice_and_half_as_many():
    evaluator, begin = begun(small())
    graph = evaluator.graph(begin)
    fewer = with_fewer_cores(begin, graph, CORES, 4)
    scene = Scene(fewer, graph, machine_named(MACHINE), {}, [fewer.batch])
    found = list(divide(scene))
    assert {2, 8} <= {number for one in found for number in cores_of(one)}
    first = scene.alike[0]
    assert prod(next(rule.splits for rule in found[0].rules if rule.sink == first[0])) == 8
    assert divisions_among(divisions(graph.by_name[first[0]], CORES), 0) == []

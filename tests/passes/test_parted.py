"""Element-wise operators behind a concatenation, one for each part: the same values, and no copies."""

from dataclasses import replace

import pytest

from tests.helpers.verified import machine_named, model
from tilestitch import api
from tilestitch.frontend.reader import read_onnx
from tilestitch.ir.choices import Stage
from tilestitch.ir.graph import Graph
from tilestitch.ir.verify import verify_graph
from tilestitch.passes import simplify
from tilestitch.passes.parted import in_parts
from tilestitch.pipeline.compile import resume_network
from tilestitch.pipeline.hand_schedule import hand_schedule_of
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.stage_files import stage_text, started
from tilestitch.pipeline.views import composed_graph


def composed(network: str) -> Graph:
    loaded = read_onnx(model(network, small=True), name=network, batch=2, weights={})
    return composed_graph(simplify(loaded, fold_bn=True))[0]


def copies(graph: Graph) -> list[str]:
    return [op.name for op in graph.operators if op.kind == "copy"]


def test_what_only_an_element_wise_operator_reads_is_not_copied():
    """DenseNet's concatenations are normalised part by part: what is normalised is as large as before."""
    graph = composed("densenet121")
    found, now = in_parts(graph)
    verify_graph(found)
    assert copies(graph)
    assert not copies(found)
    kinds = ("batch_norm", "relu")
    before, after = (
        {kind: sum(op.iterations for op in one.operators if op.kind == kind) for kind in kinds}
        for one in (graph, found)
    )
    assert before == after
    assert set(now) == {op.name for op in graph.operators}
    assert sorted(one for names in now.values() for one in names) == sorted(op.name for op in found.operators)


def test_what_others_read_too_stays():
    """A concatenation that is an output as well, or that a product reads."""
    graph = composed("densenet121")
    alone = composed("resnet18")
    assert in_parts(alone)[0] is alone
    joined = next(op.outputs[0] for op in graph.operators if op.kind == "copy")
    found, _ = in_parts(replace(graph, outputs=(*graph.outputs, joined)))
    parts = [op for op in graph.operators if op.outputs == (joined,)]
    assert [op for op in found.operators if op.outputs == (joined,)] == parts
    products = composed("googlenet")
    assert copies(in_parts(products)[0]) == copies(products)


@pytest.mark.slow
def test_a_schedule_of_parts_computes_the_same():
    """As onnxruntime does, in two pieces; and is read back from the text of a file."""
    network = "densenet121:small"
    begin = api.compile(network, "toy", strategy="graphturbo", batch=4)
    groups = [replace(one, axis=0, pieces=2) for one in hand_schedule_of(begin).groups[-1:]]
    schedule = replace(hand_schedule_of(begin), groups=groups, order="depth_first", apart=True)
    done = api.compile(network, "toy", strategy=schedule, batch=4, options=Options(batch_per_cluster=2), verify=True)
    assert done.report is not None
    assert done.report.outcome == "passed"
    assert done.schedule is not None
    assert not copies(done.schedule.graph)
    assert hand_schedule_of(done).apart
    start = started(stage_text(done, Stage.SCHEDULE), "file.json")
    again = resume_network(model("densenet121", small=True), start, machine_named("toy"), Options())
    assert again.schedule is not None
    assert again.schedule.kernels == done.schedule.kernels

"""Products whose reduction is divided among cores: the same values, and less time where results are few."""

from dataclasses import replace
from random import Random

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.helpers.pairs import first
from tests.helpers.perceptrons import perceptron
from tests.helpers.scenes import scene_of
from tests.helpers.verified import machine_named
from tilestitch import api
from tilestitch.base.dtypes import DType
from tilestitch.base.errors import InputError
from tilestitch.cost.bounds import bounds
from tilestitch.frontend.reader import read_onnx
from tilestitch.ir.by_hand import HandGroup, HandSchedule
from tilestitch.ir.choices import Stage
from tilestitch.ir.graph import Graph
from tilestitch.ir.rewriting import Across, Rewriting
from tilestitch.ir.verify import verify_graph
from tilestitch.passes import simplify
from tilestitch.passes.across import reduction_loop, with_reductions_across
from tilestitch.pipeline.compilation import Compilation, given
from tilestitch.pipeline.compile import resume_network
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.search.candidate import Candidate, candidate_of
from tilestitch.pipeline.search.dividing import across
from tilestitch.pipeline.search.scene import Scene
from tilestitch.pipeline.stage_files import stage_text, started
from tilestitch.pipeline.views import composed_graph

DRAWS = 12
NARROW = perceptron(rows=64, width=128, hidden=4096)  # its second product has few results, each of a long sum


def composed(model: onnx.ModelProto, *asked: Across) -> Graph:
    loaded = read_onnx(model, name="network", batch=1, weights={})
    return composed_graph(simplify(loaded, fold_bn=True), Rewriting(across=asked))[0]


def divided(model: onnx.ModelProto, *asked: Across, machine: str = "toy") -> Compilation:
    """All of a network in one piece with the reduction of some products in parts, verified."""
    schedule = HandSchedule("divided", (HandGroup("all"),), across=asked)
    return api.compile(model, machine, strategy=schedule, batch=1, verify=True)


def convolution(random: Random) -> tuple[onnx.ModelProto, str]:
    """With a bias, and perhaps padding, a stride and groups."""
    draw, groups = np.random.default_rng(random.randint(0, 99)), random.choice((1, 2))
    channels, results, size = 6 * random.randint(1, 4) * groups, random.randint(1, 5) * groups, random.randint(4, 9)
    weights = draw.normal(0, 0.3, (results, channels // groups, 3, 3)).astype(np.float32)
    stride, pad = random.choice((1, 2)), random.choice((0, 1))
    node = helper.make_node("Conv", ["x", "w", "b"], ["c"], "conv", group=groups, strides=[stride] * 2, pads=[pad] * 4)
    graph = helper.make_graph(
        [node, helper.make_node("Relu", ["c"], ["y"], "relu")],
        "convolution",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", channels, size, size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", results, None, None])],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(weights[:, 0, 0, 0].copy(), "b")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), "conv"


def assert_passed(done: Compilation) -> None:
    assert done.report is not None
    assert done.report.outcome == "passed", done.report.checks
    assert done.report.latency_cycles >= done.report.bound_cycles


@pytest.mark.parametrize("number", first(6, range(DRAWS)))
def test_divided_reductions_compute_what_whole_ones_do(number):
    """As onnxruntime does, within what rounding the whole may change; a bias is added once."""
    random = Random(number)
    if number % 2:
        model, product = convolution(random)
    else:
        hidden = random.choice((12, 24, 60))
        model = perceptron(rows=random.randint(1, 20), width=random.randint(1, 20), hidden=hidden)
        product = "second"
    graph = composed(model)
    loop = given(reduction_loop(graph, graph.by_name[product]))
    extent = graph.by_name[product].dims[loop].extent
    parts = random.choice([parts for parts in range(2, extent + 1) if extent % parts == 0])
    verify_graph(composed(model, Across(product, parts)))
    assert_passed(divided(model, Across(product, parts)))


@pytest.mark.parametrize("machine", first(3, ["ascend910", "tpu-v1", "goya", "stcp920-paper", "mlu100"]))
def test_other_machines_run_them_as_well(machine):
    """Without accumulators, weight areas or local buffers, with several clusters, or with cores that differ."""
    assert_passed(divided(perceptron(rows=8, hidden=96), Across("second", 4), Across("first", 2), machine=machine))


@pytest.mark.parametrize("machine", ["stcp920-paper", "mlu100", "tpu-v1", "toy"])
@pytest.mark.parametrize("parts", [2, 10])
def test_bounds_do_not_depend_on_parts(machine, parts):
    """What only the parts add is no part of what a network needs, and folds are those of whole products."""
    model = perceptron(width=40, hidden=100)
    found = [
        bounds(composed(model, *asked), machine_named(machine), iterations=1)
        for asked in ((), (Across("second", parts),))
    ]
    assert found[0] == found[1]


def test_cores_share_a_reduction_and_end_earlier():
    """Each of several adds up a part of it, in float32, and the sum over these is a kernel with what follows."""
    whole, parts = divided(NARROW, machine="ascend910"), divided(NARROW, Across("second", 4), machine="ascend910")
    made, total = [one for one in given(parts.schedule).kernels if any("second" in name for name in one.operators)]
    assert made.operators == ("second.parts",)
    assert made.tiling.splits[0] > 1
    assert total.operators == ("second", "second.bias")
    graph = given(parts.graph)
    assert graph.tensors[graph.by_name["second.parts"].outputs[0]].dtype is DType.FLOAT32
    assert given(parts.trace).latency_cycles < 0.8 * given(whole.trace).latency_cycles


def test_a_schedule_with_them_is_read_back_from_its_text():
    model = perceptron()
    done = divided(model, Across("second", 3))
    start = started(stage_text(done, Stage.SCHEDULE), "file.json")
    again = resume_network(model, start, machine_named("toy"), Options())
    assert given(again.schedule).kernels == given(done.schedule).kernels


def test_what_cannot_be_divided_is_refused():
    graph = composed(perceptron(hidden=48))
    for operator in ("relu", "nobody"):
        with pytest.raises(InputError, match=f"across of {operator}: expected a product of floats"):
            with_reductions_across(graph, (Across(operator, 2),))
    for parts in (1, 5, 49):
        with pytest.raises(InputError, match=f"{parts} parts; expected a divisor of the 48 iterations"):
            with_reductions_across(graph, (Across("second", parts),))
    with pytest.raises(InputError, match="expected a product"):
        with_reductions_across(graph, (Across("second", 2), Across("second.parts", 2)))


def test_the_search_divides_products_of_few_results():
    """A candidate takes the cycles of its full compilation, and others can be divided beside it."""
    evaluator, scene = scene_of(NARROW, "ascend910")
    found: list[Candidate] = list(across(scene))
    assert {one.across for one in found} >= {(Across("second", 16),), (Across("second", 4),)}
    assert all(one.across for one in found)
    fastest = min(
        (one for each in found if (one := evaluator.evaluate(each)) is not None), key=lambda o: o.latency_cycles
    )
    assert fastest.latency_cycles < given(evaluator.evaluate(scene.candidate)).latency_cycles
    again = evaluator.compiled(fastest.candidate, alone=True)
    assert given(again.trace).latency_cycles == fastest.latency_cycles


def test_products_can_be_divided_one_after_another():
    """What is divided is said in the order of the network, whichever came first."""
    evaluator, scene = scene_of(perceptron(rows=8, width=64, hidden=1024), "ascend910")
    begin = next(one for one in across(scene) if [asked.operator for asked in one.across] == ["second"])
    others = list(across(replace(scene, candidate=begin, graph=evaluator.graph(begin))))
    assert others
    for one in others:
        assert [asked.operator for asked in one.across] == ["first", "second"]
        assert evaluator.evaluate(one) is not None


def test_products_of_many_results_are_left_whole():
    _, scene = scene_of(NARROW)
    wide = perceptron(rows=512, width=64, hidden=64)
    done = api.compile(wide, "toy", strategy="graphturbo", batch=1)
    graph = given(done.graph)
    begin = given(candidate_of(done))
    assert not list(across(Scene(begin, graph, scene.machine, {}, (1,))))

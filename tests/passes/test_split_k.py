"""Products in parts of their reduction: the same values, of which no more than a part is there at a time."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

import onnx
import pytest

from tests.helpers.graphs import Net, weight
from tests.helpers.perceptrons import inverted_residual, perceptron
from tests.helpers.verified import machine_named
from tilestitch import api
from tilestitch.base.dtypes import DType
from tilestitch.base.errors import InputError
from tilestitch.cost.bounds import bounds
from tilestitch.frontend.reader import read_onnx
from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.hardware.preset_files import preset_text
from tilestitch.ir.by_hand import HandGroup, HandSchedule
from tilestitch.ir.choices import Effort, Stage
from tilestitch.ir.graph import Graph
from tilestitch.ir.rewriting import Rewriting, SplitK
from tilestitch.ir.tile_rule import KernelRule
from tilestitch.ir.verify import verify_graph
from tilestitch.ops.partial_sums import is_partial_sum
from tilestitch.passes import simplify
from tilestitch.passes.split_k import reduction_of, with_split_k
from tilestitch.pipeline.compilation import Compilation, given
from tilestitch.pipeline.compile import compile_network, resume_network
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.search.candidate import Candidate, candidate_of
from tilestitch.pipeline.search.splitting import in_parts_of, with_parts_that_fit
from tilestitch.pipeline.stage_files import stage_text, started
from tilestitch.pipeline.strategies import strategy_named
from tilestitch.pipeline.views import composed_graph

DRAWS = 12


def composed(model: onnx.ModelProto, *splits: SplitK, batch: int = 1) -> Graph:
    loaded = read_onnx(model, name="network", batch=batch, weights={})
    return composed_graph(simplify(loaded, fold_bn=True), Rewriting(split_k=splits))[0]


def in_parts(model: onnx.ModelProto, split: SplitK, machine: str | Accelerator = "toy", **asked) -> Compilation:
    """All of a network in one piece with a product in parts, verified."""
    schedule = HandSchedule("parts", (HandGroup("all"),), split_k=(split,))
    return api.compile(model, machine, strategy=replace(schedule, **asked), batch=1, verify=True)


def assert_passed(done: Compilation) -> None:
    assert done.report is not None
    assert done.report.outcome == "passed", done.report.checks
    assert done.report.latency_cycles >= done.report.bound_cycles


def drawn(number: int) -> tuple[onnx.ModelProto, SplitK]:
    """A network, and a product of it in some parts."""
    random = Random(number)
    hidden = random.randint(2, 60)
    if number % 3 == 2:
        size, width = random.randint(3, 9), random.randint(1, 12)
        model = inverted_residual(size=size, width=width, hidden=hidden, stride=random.choice((1, 2)))
        return model, SplitK("project", random.randint(2, hidden))
    model = perceptron(
        random.choice(("plain", "gated")),
        rows=random.randint(1, 40),
        width=random.randint(1, 40),
        hidden=hidden,
        residual=random.random() < 0.5,
    )
    return model, SplitK("second", random.randint(2, hidden))


@pytest.mark.parametrize("number", range(DRAWS))
def test_parts_of_any_size_compute_what_the_whole_does(number):
    """As onnxruntime does, within what rounding the whole may change."""
    model, split = drawn(number)
    assert_passed(in_parts(model, split))


@pytest.mark.parametrize("machine", ["stcp920-paper", "mlu100", "tpu-v1", "toy"])
@pytest.mark.parametrize("parts", [2, 3, 7])
@pytest.mark.parametrize(
    ("model", "product"),
    [
        (perceptron("gated", width=40, hidden=100), "second"),
        (inverted_residual(size=16, width=24, hidden=144), "project"),
    ],
    ids=["perceptron", "inverted-residual"],
)
def test_bounds_do_not_depend_on_parts(machine, parts, model, product):
    """What only the parts add is no part of what a network needs, and folds are those of whole products."""
    found = [
        bounds(composed(model, *splits), machine_named(machine), iterations=1)
        for splits in ((), (SplitK(product, parts),))
    ]
    assert found[0] == found[1]


def test_no_more_than_a_part_is_there_at_a_time():
    """Each part of the hidden channels, and the sum takes the place of the one before it."""
    done = in_parts(perceptron(hidden=64), SplitK("second", 4))
    schedule, graph = given(done.schedule), given(done.graph)
    hidden = [home for home in schedule.homes if home.tensor.startswith("h3.")]
    assert len(hidden) == 4
    assert all(one.last < other.first for one, other in pairwise(sorted(hidden, key=lambda home: home.first)))
    sums = [op for op in graph.operators if is_partial_sum(op)]
    instead = {home.tensor: home.instead_of for home in schedule.homes}
    assert [instead[op.outputs[0]] for op in sums[:-1]] == [op.inputs[0] for op in sums[:-1]]


@pytest.mark.parametrize("machine", ["toy", "stcp920-paper", "goya"])
@pytest.mark.parametrize("in_place", [False, True])
def test_sums_that_wait_in_gb_take_the_place_of_those_before_them(machine, in_place):
    """Where that is asked for: all of them then take as much of GB as one."""
    sinks = ("second.0", "second.sum.1", "second.sum.2")
    rules = [KernelRule(name, scope=Level.GB) for name in sinks]
    done = in_parts(
        perceptron(rows=40, width=48, hidden=64), SplitK("second", 4), machine, rules=rules, in_place=in_place
    )
    assert_passed(done)
    graph, schedule = given(done.graph), given(done.schedule)
    sums = [graph.by_name[name].outputs[0] for name in sinks]
    homes = {home.tensor: home for home in schedule.homes}
    assert [homes[name].level for name in sums] == [Level.GB] * 3
    assert [homes[name].instead_of for name in sums] == [None, *(sums[:-1] if in_place else (None, None))]
    assert len({homes[name].address for name in sums}) == (1 if in_place else 2)


@pytest.mark.parametrize("in_place", [False, True])
def test_a_sum_needs_no_room_beside_the_one_before_it(in_place):
    """In a GB that has room for one and a half of them; else every other one goes to DDR."""
    toy, sinks = machine_named("toy"), ("second.0", "second.sum.1", "second.sum.2")
    memories = tuple(replace(one, size_bytes=6 * 1024) if one.level is Level.GB else one for one in toy.memories)
    rules = [KernelRule(name, scope=Level.GB) for name in sinks]
    done = in_parts(
        perceptron(rows=40, width=48, hidden=64),
        SplitK("second", 4),
        replace(toy, memories=memories),
        rules=rules,
        in_place=in_place,
    )
    assert_passed(done)
    graph, kept = given(done.graph), {home.tensor for home in given(done.schedule).homes}
    assert [graph.by_name[name].outputs[0] in kept for name in sinks] == [True, in_place, True]


def test_what_is_added_at_once_is_not_rounded_before():
    """Of what a part comes to only the first waits for the next, in 16 bits."""
    graph = composed(perceptron(), SplitK("second", 3))
    sums = [op for op in graph.operators if is_partial_sum(op)]
    assert [graph.tensors[op.inputs[1]].dtype for op in sums] == [DType.FLOAT32, DType.FLOAT32]
    assert {graph.tensors[name].dtype for op in sums for name in (op.inputs[0], *op.outputs)} == {DType.FLOAT16}


def test_each_part_is_a_kernel_with_its_addition():
    done = in_parts(perceptron(residual=True), SplitK("second", 3))
    kernels = [kernel.operators for kernel in given(done.schedule).kernels]
    assert kernels == [
        ("first.0", "first.bias.0", "relu.0"),
        ("second.0",),
        ("first.1", "first.bias.1", "relu.1"),
        ("second.1", "second.sum.1"),
        ("first.2", "first.bias.2", "relu.2"),
        ("second.2", "second", "second.bias", "residual"),
    ]


@pytest.mark.parametrize("machine", ["stcp920-paper", "mlu100", "ipu-mk1", "tpu-v1", "goya"])
def test_other_machines_run_parts_as_well(machine):
    """Without accumulators, weight areas or local buffers, with several clusters."""
    assert_passed(in_parts(perceptron("gated", rows=32, hidden=96), SplitK("second", 3), machine))


def test_a_schedule_with_parts_is_read_back_from_its_text():
    model = perceptron()
    done = in_parts(model, SplitK("second", 3), ring=True)
    start = started(stage_text(done, Stage.SCHEDULE), "file.json")
    again = resume_network(model, start, machine_named("toy"), Options())
    assert given(again.schedule).kernels == given(done.schedule).kernels


def test_what_cannot_run_in_parts_is_refused():
    graph = composed(perceptron(hidden=48))
    for operator in ("first", "relu", "nobody"):
        with pytest.raises(InputError, match=f"split_k of {operator}: expected a product of floats that adds up"):
            with_split_k(graph, (SplitK(operator, 2),))
    for parts in (1, 49):
        with pytest.raises(InputError, match=f"{parts} parts; expected 2 to 48"):
            with_split_k(graph, (SplitK("second", parts),))
    with pytest.raises(InputError, match="expected a product"):
        with_split_k(graph, (SplitK("second", 2), SplitK("second", 2)))


def test_channels_that_others_read_are_made_whole():
    graph = composed(perceptron("read twice"))
    assert reduction_of(graph, graph.by_name["second"]) is None


def test_depthwise_convolutions_are_made_channel_by_channel():
    graph = composed(inverted_residual(hidden=24), SplitK("project", 4))
    verify_graph(graph)
    depthwise = [op for op in graph.operators if op.name.startswith("depthwise.") and op.kind == "conv"]
    assert [op.dims[1].extent for op in depthwise] == [6, 6, 6, 6]
    assert [read.offset for op in depthwise for read in op.reads[1].axes[:1]] == [0, 6, 12, 18]


def slow_ddr(tmp_path: Path) -> str:
    """A toy that waits for constants."""
    text = preset_text("toy").replace("bandwidth_bytes_per_cycle: 8 ", "bandwidth_bytes_per_cycle: 0.5 ")
    path = tmp_path / "slow.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("effort", [Effort.LOW, pytest.param(Effort.MEDIUM, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["plain", pytest.param("gated", marks=pytest.mark.slow)])
def test_hidden_channels_without_room_are_made_part_by_part_by_search(tmp_path, kind, effort):
    """So weights come once; with few samples at a time they come more often, and else hidden channels go to DDR.

    The plain one begins fastest with few samples, the gated one with all of them.
    """
    model = perceptron(kind, rows=64, width=128, hidden=2048, residual=kind == "gated")
    machine = slow_ddr(tmp_path)
    done, other = (
        api.compile(model, machine, strategy=strategy, batch=8, options=Options(effort=effort), verify=True)
        for strategy in ("best", "graphturbo")
    )
    assert_passed(done)
    assert any(map(is_partial_sum, given(done.schedule).graph.operators))
    assert done.report is not None
    assert other.report is not None
    assert done.report.ddr_bytes < 1.2 * done.report.compulsory_bytes
    assert done.report.latency_cycles < 0.5 * other.report.latency_cycles


def whole(model: onnx.ModelProto) -> tuple[Candidate, Graph]:
    """The network uncut, in the kernels of TVM on toy."""
    done = compile_network(model, "net", machine_named("toy"), strategy_named("tvm"), Options())
    begin, graph = candidate_of(done), given(done.graph)
    assert begin is not None
    return begin.uncut(graph), graph


def test_what_waits_for_the_last_part_does_so_in_gb():
    """The residual does; what is normalised of it is read by every part."""
    net = Net()
    x = net.op("MatMul", net.input(1, 24, 16), weight(net, 16, 16), name="before")
    y = net.op("LayerNormalization", x, net.random(16), net.random(16), name="norm")
    hidden = net.op("Relu", net.op("MatMul", y, weight(net, 16, 64), name="first"))
    model = net.model(net.op("Add", x, net.op("MatMul", hidden, weight(net, 64, 16), name="second")))
    begin, graph = whole(model)
    found = in_parts_of(begin, graph, machine_named("toy"), (SplitK("second", 4),))
    assert {rule.sink: rule.scope for rule in found.rules} == {"before": Level.GB}


def test_products_whose_weights_have_room_may_stay_whole():
    """Hidden channels have no room in either; two million weights have none."""
    machine = machine_named("toy")
    for rows, width, hidden, large in ((48, 8, 8192, False), (160, 512, 2048, True)):
        begin, graph = whole(perceptron(rows=rows, width=width, hidden=hidden))
        assert with_parts_that_fit(begin, graph, machine).split_k
        assert bool(with_parts_that_fit(begin, graph, machine, if_weights_do_not=True).split_k) is large


def test_twice_as_many_parts_leave_room_for_tiles():
    begin, graph = whole(perceptron(rows=160, width=512, hidden=2048))
    few, many = (with_parts_that_fit(begin, graph, machine_named("toy"), times).split_k[0] for times in (1, 2))
    assert many.parts == 2 * few.parts

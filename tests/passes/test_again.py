"""Operators that are computed again for later readers: the same values, and results that need not wait."""

import json
import re

import numpy as np
import onnx
import pytest

from tests.helpers.command import run
from tests.helpers.forks import outer_sum
from tests.helpers.graphs import Net, assert_same_meaning
from tests.helpers.pairs import first
from tests.helpers.verified import machine_named
from tilestitch import api
from tilestitch.base.errors import InputError
from tilestitch.cost.bounds import bounds
from tilestitch.frontend.reader import read_onnx
from tilestitch.ir.by_hand import HandGroup, HandSchedule
from tilestitch.ir.choices import Stage
from tilestitch.ir.graph import Graph
from tilestitch.ir.rewriting import Across, Again, Rewriting
from tilestitch.ir.verify import verify_graph
from tilestitch.passes import simplify
from tilestitch.passes.again import with_operators_again
from tilestitch.pipeline.compilation import Compilation, given
from tilestitch.pipeline.compile import resume_network
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.stage_files import stage_text, started
from tilestitch.pipeline.views import composed_graph

TWICE = Again("double", ("late",))
CHAIN = TWICE, Again("sum", ("double.again",))


def composed(model: onnx.ModelProto, *asked: Again, across: tuple[Across, ...] = ()) -> Graph:
    loaded = read_onnx(model, name="network", batch=1, weights={})
    return composed_graph(simplify(loaded), Rewriting(again=asked, across=across))[0]


def again(model: onnx.ModelProto, *asked: Again, machine: str = "toy", **options) -> Compilation:
    """All of a network in one piece with some operators computed again, verified."""
    schedule = HandSchedule("again", (HandGroup("all"),), again=asked, **options)
    return api.compile(model, machine, strategy=schedule, batch=1, verify=True)


def assert_passed(done: Compilation) -> None:
    assert done.report is not None
    assert done.report.outcome == "passed", done.report.checks
    assert done.report.latency_cycles >= done.report.bound_cycles


def test_later_readers_read_what_is_computed_again():
    """Right before them, in a tensor like the first; others go on reading that, and both have the same values."""
    graph = composed(outer_sum())
    found, became = with_operators_again(graph, CHAIN)
    verify_graph(found)
    names = [op.name for op in found.operators]
    assert names[-3:] == ["sum.again", "double.again", "late"]
    assert names[:-3] == [op.name for op in graph.operators[:-1]]
    assert found.by_name["late"].inputs[1] == "double.again"
    assert found.by_name["product0"].inputs[0] == "double"
    assert found.by_name["double.again"].inputs[0] == "sum.again"
    assert became == {name: (name,) for name in names[:-3]} | {"late": ("sum.again", "double.again", "late")}
    values = assert_same_meaning(graph, found)
    assert (values["double.again"] == values["double"]).all()


def test_readers_share_what_is_computed_again_for_them():
    """It comes before the first of them and does its work; one that is asked for alone has its own name and tensor."""
    net = Net()
    wide = net.op("Exp", net.input("N", 6), name="exp")
    ends = [net.op("Mul", wide, net.op("Relu", wide, name=f"relu{at}"), name=f"mul{at}") for at in range(3)]
    graph = composed(net.model(*ends))
    asked = Again("exp", ("mul2", "relu1")), Again("exp", ("mul1",))
    found, became = with_operators_again(graph, asked)
    readers = {name: [op.name for op in ops] for name, ops in found.consumers.items() if name.startswith("exp")}
    assert readers == {
        "exp": ["relu0", "mul0", "relu2"],
        "exp.again": ["relu1", "mul2"],
        "exp.again.1": ["mul1"],
    }
    assert became["relu1"] == ("exp.again", "relu1")
    assert became["mul1"] == ("exp.again.1", "mul1")
    assert became["mul2"] == ("mul2",)
    assert_same_meaning(graph, found)


def test_what_is_computed_again_is_part_of_the_kernel_that_reads_it():
    """So that nothing of it waits; programs compute what onnxruntime does."""
    done = again(outer_sum(), *CHAIN)
    assert_passed(done)
    kernels = [one.operators for one in given(done.schedule).kernels]
    assert kernels[-1][-3:] == ("sum.again", "double.again", "late")
    assert kernels[0] == ("sum", "double")


@pytest.mark.parametrize("machine", first(3, ["tpu-v1", "stcp920-paper", "ascend910", "goya", "mlu100"]))
def test_other_machines_run_it_as_well(machine):
    """Also a product, and beside a product whose reduction is in parts."""
    assert_passed(again(outer_sum(), *CHAIN, machine=machine, across=(Across("product1", 2),)))
    net = Net()
    wide = net.op("MatMul", net.input("N", 8, 16), net.random(16, 24), name="wide")
    early = net.op("MatMul", net.op("Relu", wide, name="relu"), net.random(24, 24), name="early")
    assert_passed(again(net.model(net.op("Add", early, wide, name="late")), Again("wide", ("late",)), machine=machine))


@pytest.mark.parametrize("machine", ["toy", "goya"])
def test_what_comes_to_its_reader_from_outside_is_a_kernel_of_its_own(machine):
    """The second operand of a product, and what rows are picked of."""
    net = Net()
    wide = net.op("Add", net.input("N", 16, 1), net.input("N", 1, 16), name="wide")
    soft = net.op("Softmax", net.op("MatMul", wide, net.random(16, 16), name="early"), name="soft")
    rows = net.op("Gather", wide, net.constant(np.array([3, 4, 15, 0])), axis=1, name="rows")
    model = net.model(net.op("MatMul", soft, wide, name="late"), rows)
    done = again(model, Again("wide", ("rows",)), Again("wide", ("late",)), machine=machine)
    assert_passed(done)
    kernels = {one.operators for one in given(done.schedule).kernels}
    assert kernels >= {("wide",), ("wide.again",), ("rows",), ("wide.again.1",), ("late",)}


@pytest.mark.parametrize("machine", ["stcp920-paper", "mlu100", "toy"])
def test_bounds_do_not_count_what_is_computed_again(machine):
    found = [
        bounds(composed(outer_sum(), *asked), machine_named(machine), iterations=1) for asked in ((), (TWICE,), CHAIN)
    ]
    assert found[0] == found[1] == found[2]


def test_a_schedule_with_it_is_read_back_from_its_text():
    model = outer_sum()
    done = again(model, *CHAIN)
    start = started(stage_text(done, Stage.SCHEDULE), "file.json")
    read = resume_network(model, start, machine_named("toy"), Options())
    assert given(read.schedule).kernels == given(done.schedule).kernels
    assert given(read.graph).by_name.keys() >= {"sum.again", "double.again"}


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (Again("nobody", ("late",)), "again of nobody: expected an operator with one result that it alone makes"),
        (Again("split", ("left",)), "again of split: expected an operator with one result that it alone makes"),
        (Again("joined.0", ("late",)), "again of joined.0: expected an operator with one result that it alone makes"),
        (Again("early", ("late",)), "again of early: for late; expected some of those that read its result: left"),
        (Again("early", ()), "again of early: for nobody; expected some of those that read its result: left"),
        (Again("early", ("left",)), "again of early: for all that read its result; expected that some of these go on"),
        (Again("end", ("late",)), "again of end: for late; expected some of those that read its result: none"),
    ],
    ids=lambda value: value.operator if isinstance(value, Again) else "",
)
def test_what_cannot_be_computed_again_is_refused(asked, message):
    net = Net()
    x = net.input("N", 8)
    early = net.op("Exp", x, name="early")
    left = net.op("Relu", early, name="left")
    values, places = net.ops(2, "TopK", x, [2], name="split")
    other = net.op("Cast", places, to=onnx.TensorProto.FLOAT)
    joined = net.op("Concat", left, values, other, axis=1, name="joined")
    end = net.op("Exp", net.op("Relu", joined, name="late"), name="end")
    graph = composed(net.model(end))
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        with_operators_again(graph, [asked])


def test_what_is_an_output_may_be_computed_again_for_all_that_read_it():
    net = Net()
    early = net.op("Exp", net.input("N", 8), name="early")
    graph = composed(net.model(early, net.op("Relu", early, name="left")))
    found, _ = with_operators_again(graph, [Again("early", ("left",))])
    verify_graph(found)
    assert_same_meaning(graph, found)


def test_a_file_with_what_cannot_be_computed_again_is_refused(tmp_path):
    """By one line, which says what would be right."""
    model = outer_sum()
    onnx.save(model, tmp_path / "net.onnx")
    value = json.loads(stage_text(again(model, TWICE), Stage.SCHEDULE))
    for readers, message in (
        (["product1"], "again of double: for product1; expected some of those that read its result: product0, late"),
        ("late", "again[0].readers: input should be a valid array, found 'late'"),
    ):
        value["partition"]["schedule"]["again"] = [{"operator": "double", "readers": readers}]
        (tmp_path / "file.json").write_text(json.dumps(value))
        result = run("compile", tmp_path / "net.onnx", "--machine", "toy", "--from", tmp_path / "file.json")
        assert result.exit_code == 2
        assert message in result.output
        assert "Traceback" not in result.output
        assert len(result.output.splitlines()) == 1

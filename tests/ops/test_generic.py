"""Generic operators: compiled, executed and reported for what they are, and refused where they cannot be."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.helpers.graphs import Net
from tilestitch import api
from tilestitch.base.errors import DoesNotFit, InputError
from tilestitch.frontend.composed.definitions import COMPOSED
from tilestitch.frontend.network import Node, Reading
from tilestitch.frontend.operators.elementwise import unary
from tilestitch.frontend.operators.handlers import HANDLERS
from tilestitch.frontend.reader import read_onnx
from tilestitch.ir.choices import Stage
from tilestitch.ir.graph import DimKind
from tilestitch.ir.program import Kind, Mode
from tilestitch.ops import generic
from tilestitch.pipeline.options import Options
from tilestitch.schedule.tiling import Shapes, tile_kernel

pytestmark = pytest.mark.quick

OPSET = 22


@pytest.fixture(autouse=True)
def without_rules(monkeypatch):
    """As if these had no rules, whatever rules there are."""
    for op in ("GRU", "LpNormalization", "Resize"):
        monkeypatch.delitem(HANDLERS, op, raising=False)
    for key in (("", "Det"), ("ai.onnx.ml", "Binarizer"), ("ai.onnx.preview.training", "Momentum")):
        monkeypatch.delitem(COMPOSED, key, raising=False)


def recurrent() -> onnx.ModelProto:
    """A GRU, which has no rule, between operators that have."""
    net = Net(OPSET)
    x = net.op("Relu", net.input(3, 2, 4))
    states = net.ops(2, "GRU", x, net.random(1, 15, 4), net.random(1, 15, 5), hidden_size=5)
    turned = net.op("Transpose", states[0], perm=[1, 3, 0, 2])
    return net.model(net.op("Tanh", turned), net.op("Relu", states[1]))


@pytest.mark.parametrize("machine", ["toy", "stcp920"])
@pytest.mark.parametrize("strategy", ["layerwise", "tvm"])
def test_a_network_with_a_generic_operator_means_what_onnxruntime_computes(machine, strategy):
    """Views around it are composed away as around any other; two results leave it."""
    done = api.compile(recurrent(), machine, strategy=strategy, verify=True)
    assert done.report.verified, done.report.checks
    assert [row.operator for row in done.report.generic_operators] == ["GRU"]
    assert done.report.own_operators == 3


def test_a_generic_operator_is_whole_on_one_core_and_reads_every_operand_from_ddr():
    done = api.compile(recurrent(), "toy", strategy="tvm")
    (op,) = (op for op in done.schedule.graph.operators if op.kind == generic.KIND)
    assert {dim.kind for dim in op.dims} == {DimKind.WHOLE}
    (row,) = (row for row in done.report.kernels if op.name in row.operators)
    tensors = done.schedule.graph.tensors
    assert row.operators == (op.name,)
    assert row.cores == 1
    assert row.ddr_read_bytes == sum(tensors[name].size_bytes for name in op.inputs)
    assert row.ddr_written_bytes == sum(tensors[name].size_bytes for name in op.outputs)
    assert row.vector_operations == 3 * 1 * 2 * 5 + 1 * 2 * 5


def test_a_generic_operator_of_16_bits_is_computed_in_float32_where_all_others_are():
    """Else its rounding would pass for an error of the program, three hundred times what is allowed."""
    net = Net(OPSET)
    x = net.input(3, 8, 8, dtype=TensorProto.FLOAT16)
    wide = api.compile(
        net.model(net.op("Tanh", net.op("LpNormalization", net.op("Relu", x)))), "toy", verify=True, strategy="tvm"
    )
    assert [row.operator for row in wide.report.generic_operators] == ["LpNormalization"]
    assert wide.report.verified, wide.report.checks


def test_the_page_says_that_nobody_has_verified_it():
    page = str(api.compile(recurrent(), "toy", verify=True, strategy="tvm"))
    assert "Operators: 3 by rules of their own, 1 generic" in page
    assert "Generic, not independently verified" in page
    assert "GRU   value from onnxruntime" in page


def test_constants_that_shapes_depend_on_are_settings_and_cost_no_traffic():
    """The scales of a Resize are as an attribute would be; the weights of a GRU are operands."""
    net = Net(OPSET)
    y = net.op("Resize", net.input(1, 2, 4, 4), "", np.array([1, 1, 1.5, 2], np.float32), mode="cubic")
    graph = read_onnx(net.model(y))
    (op,) = graph.operators
    assert op.inputs == ("in0",)
    assert graph.tensors[y].shape == (1, 2, 6, 8)
    assert [len(op.inputs) for op in read_onnx(recurrent()).operators if op.kind == generic.KIND] == [3]


def test_a_feature_that_a_rule_does_not_cover_is_generic(monkeypatch):
    """Nothing of what the rule wrote before it found out is left."""

    def half_a_rule(node: Node, network: Reading) -> None:
        unary("relu")(node, network)
        raise node.not_covered("only half of it.")

    monkeypatch.setitem(HANDLERS, "Det", half_a_rule)
    net = Net(OPSET)
    graph = read_onnx(net.model(net.op("Det", net.input(2, 3, 3))))
    assert [op.kind for op in graph.operators] == [generic.KIND]
    assert graph.tensors["det0"].shape == (2,)


def test_malformed_nodes_are_not_generic():
    net = Net(OPSET)
    with pytest.raises(InputError, match="do not broadcast"):
        read_onnx(net.model(net.op("Add", net.input(2, 3), net.input(2))))


def large() -> onnx.ModelProto:
    """Operands of 192 KiB, which no local buffer of toy holds, between views."""
    net = Net(OPSET)
    x = net.op("Transpose", net.op("Relu", net.input(64, 64, 24)), perm=[2, 0, 1])
    y = net.op("Det", net.op("Reshape", x, [24 * 16, 16, 16]))
    z = net.op("Resize", x, "", np.array([1, 1, 0.5], np.float32))
    return net.model(net.op("Exp", z), y)


@pytest.mark.parametrize("machine", ["toy", "goya"])
def test_a_generic_operator_that_does_not_fit_is_streamed(machine):
    """Its operands pass one core in pieces, all of them charged once; who reads its result waits for it."""
    done = api.compile(large(), machine, verify=True, strategy="tvm")
    report = done.report
    assert report.verified, report.checks
    assert report.latency_cycles >= report.bound_cycles
    assert [kernel.streamed for kernel in done.schedule.kernels] == [False, False, True, True, False]
    operand, results = 24 * 64 * 64 * 2, (24 * 16 * 2, 24 * 64 * 32 * 2)
    for row, result in zip(report.kernels[2:4], results, strict=True):
        assert (row.ddr_read_bytes, row.ddr_written_bytes) == (operand, result)
        assert row.cores == 1
        assert row.cycles == pytest.approx(row.estimated_cycles, rel=0.01)
    ddr = done.machine.ddr
    (port,) = (row.size_bytes for row in report.traffic if row.level == "ddr")
    assert ddr.read_pj_per_byte == ddr.write_pj_per_byte
    assert dict(report.energy_pj)["ddr"] == pytest.approx(ddr.read_pj_per_byte * port)


def test_operators_that_run_together_are_not_streamed():
    """What passes a core in pieces is one operator: with another in its kernel it does not fit."""
    done = api.compile(large(), "toy", strategy="tvm", options=Options(stop_after=Stage.SCHEDULE))
    graph = done.schedule.graph
    last = next(op for op in graph.operators if op.kind == generic.KIND)
    makers = tuple(op for op in graph.makers[last.name])
    assert makers
    shapes = Shapes(graph, done.machine)
    with pytest.raises(DoesNotFit, match="its smallest tile needs"):
        tile_kernel(shapes, (*makers, last), "k")
    assert tile_kernel(shapes, (last,), "k").streamed


def test_what_streams_out_is_not_there_before_it_has_passed():
    """Between the arithmetic and the end of the stream, the result is poison, and nothing runs that reads it."""
    done = api.compile(large(), "toy", strategy="tvm")
    program, trace = done.program, done.trace
    out = [one.number for one in program if one.kind is Kind.STREAM and one.operands[0].mode is Mode.WRITE]
    assert len(out) == 2
    for number in out:
        (compute,) = (
            one.number for one in program if one.kind is Kind.COMPUTE and one.kernel == program[number].kernel
        )
        assert trace.end_ticks[compute] <= trace.start_ticks[number]
        later = np.flatnonzero(program.kernel > program.kernel[number])
        assert trace.start_ticks[later].min() >= trace.end_ticks[number]


def extended(domain: str) -> onnx.ModelProto:
    node = helper.make_node("Binarizer", ["x"], ["y"], "node", domain=domain, threshold=0.5)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    graph = helper.make_graph([node], "net", [x], [onnx.ValueInfoProto(name="y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(domain, 1)], ir_version=8)


def test_other_domains_of_the_standard_are_generic_and_foreign_ones_are_refused():
    done = api.compile(extended("ai.onnx.ml"), "toy", verify=True, strategy="tvm")
    assert done.report.verified
    assert [row.operator for row in done.report.generic_operators] == ["Binarizer"]
    with pytest.raises(InputError, match=r"imports no version of the standard operators"):
        read_onnx(extended("com.example"))


def test_operators_that_changed_in_no_newer_opset_are_verified_as_of_an_older_one():
    """Opset 28 is newer than what onnxruntime reads; its Relu is that of opset 14."""
    net = Net(min(28, onnx.defs.onnx_opset_version()))
    assert api.compile(net.model(net.op("Relu", net.input(2, 3))), "toy", verify=True, strategy="tvm").report.verified


def test_an_operator_of_an_old_opset_that_never_changed_is_read():
    net = Net(1)
    model = net.model(net.op("Not", net.input(2, 3, dtype=TensorProto.BOOL)))
    assert [op.kind for op in read_onnx(model).operators] == ["not"]


def test_onnxs_reference_stands_in_where_onnxruntime_has_no_kernel():
    """Momentum has none in onnxruntime's builds for inference."""
    names = ["r", "t", "x", "g", "v"]
    node = helper.make_node(
        "Momentum",
        names,
        ["y", "w"],
        "node",
        domain="ai.onnx.preview.training",
        alpha=0.9,
        beta=1.0,
        norm_coefficient=0.0,
        mode="standard",
    )
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in names[2:]]
    weights = [numpy_helper.from_array(np.array(0.1, np.float32), "r"), numpy_helper.from_array(np.array(1), "t")]
    outputs = [onnx.ValueInfoProto(name=name) for name in ("y", "w")]
    graph = helper.make_graph([node], "net", inputs, outputs, weights)
    opsets = [helper.make_opsetid("ai.onnx.preview.training", 1)]
    done = api.compile(helper.make_model(graph, opset_imports=opsets, ir_version=8), "toy", strategy="tvm")
    assert [row.evaluator for row in done.report.generic_operators] == ["onnx.reference"]

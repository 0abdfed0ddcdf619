"""Quantised networks mean what onnxruntime computes, and multiply integers where that means the same."""

from collections import Counter
from dataclasses import replace

import numpy as np
import onnx
import pytest
import yaml
from onnx import TensorProto
from onnxruntime.quantization import QuantType

from tests.helpers.graphs import Net
from tests.helpers.onnx_nodes import QUANTISATION, as_array, interpreted, node_cases
from tests.helpers.pairs import each_once
from tests.helpers.quantised_networks import quantised, quantised_while_it_runs, residual_network, transformer_layer
from tests.helpers.saturation import expect_exact_bytes
from tilestitch.base.dtypes import DType
from tilestitch.frontend.reader import read_onnx
from tilestitch.hardware.load import load_machine
from tilestitch.hardware.preset_files import preset_text
from tilestitch.ir.choices import Effort
from tilestitch.ir.graph import Access, Axis, Tensor
from tilestitch.ir.region import Region
from tilestitch.ir.report import STEPS, CheckRow, Outcome
from tilestitch.ir.verify import verify_graph
from tilestitch.ops import is_contraction
from tilestitch.passes import simplify
from tilestitch.pipeline.compilation import Compilation
from tilestitch.pipeline.compile import compile_network
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.strategies import STRATEGIES, Strategy, strategy_named
from tilestitch.sim.chip.check import checked
from tilestitch.sim.chip.reference import Reference
from tilestitch.sim.chip.steps import Steps
from tilestitch.zoo.inputs import sample_inputs

BY_DEFINITION = {"DynamicQuantizeLinear": 3}


@pytest.mark.parametrize("operator", [*QUANTISATION, *BY_DEFINITION])
def test_an_operator_means_what_the_onnx_project_says(operator):
    """Integers are equal; so is what they stand for, but for the last bit."""
    cases = node_cases(operator)
    for case in cases:
        for arrays, expected in case.data_sets:
            found = interpreted(case, arrays)
            for name, value in zip(found, expected, strict=True):
                value = as_array(value)
                close = {"rtol": 0 if value.dtype.kind in "iu" else 1e-6, "atol": 0}
                as_declared = found[name].astype(value.dtype).astype(np.float64)
                np.testing.assert_allclose(as_declared, value.astype(np.float64), **close, err_msg=case.name)
    assert len(cases) == {**QUANTISATION, **BY_DEFINITION}[operator]


U8S8 = {"activations": QuantType.QUInt8, "per_channel": True}
S8S8 = {"activations": QuantType.QInt8, "per_channel": False}


@pytest.fixture(scope="module")
def networks(tmp_path_factory) -> dict[str, onnx.ModelProto]:
    """Per name a network as onnxruntime quantised it."""
    return {
        f"{make.__name__}-{name}": quantised(make(), tmp_path_factory.mktemp(name), **how)
        for make in (residual_network, transformer_layer)
        for name, how in (("u8s8-per-channel", U8S8), ("s8s8-per-tensor", S8S8))
    }


def compiled(model: onnx.ModelProto, machine: str, strategy: Strategy, batch: int = 2) -> Compilation:
    return compile_network(model, "net", load_machine(machine), strategy, Options(batch=batch, verify=True))


NETWORKS = [
    *("residual_network-u8s8-per-channel", "residual_network-s8s8-per-tensor"),
    *("transformer_layer-u8s8-per-channel", "transformer_layer-s8s8-per-tensor"),
]


@pytest.mark.parametrize(
    ("strategy", "name", "machine"),
    each_once([strategy.name for strategy in STRATEGIES], NETWORKS, ["toy", "stcp920"]),
)
def test_a_quantised_network_is_verified(networks, strategy, name, machine):
    """Every quantised tensor of the executed program is onnxruntime's, and so is what leaves the network."""
    report = compiled(networks[name], machine, strategy_named(strategy)).report
    rows = {row.precision: row for row in report.checks}
    assert set(rows) == {"steps", "float32", "float16"}
    assert report.verified, report.checks


@pytest.mark.parametrize("name", NETWORKS)
def test_every_product_is_one_of_bytes(networks, name):
    """With its bias, its ReLU and its quantisation; weights are stored as they are in the file."""
    graph = simplify(read_onnx(networks[name], batch=1))
    verify_graph(graph)
    products = [op for op in graph.operators if is_contraction(op)]
    assert len(products) == Counter(node.op_type for node in networks[name].graph.node)["Conv"] + sum(
        node.op_type in ("Gemm", "MatMul") for node in networks[name].graph.node
    )
    for op in products:
        stored = [graph.tensors[access.tensor].dtype for access in (*op.reads[:2], *op.writes)]
        assert all(dtype in (DType.INT8, DType.UINT8) for dtype in stored), op
    assert not any(op.kind == "relu" for op in graph.operators)
    moved = [op for op in graph.operators if op.kind in ("max_pool", "transpose", "reshape", "flatten")]
    assert moved
    assert all(graph.tensors[op.writes[0].tensor].dtype.size_bytes == 1 for op in moved)


@pytest.mark.parametrize("network", [residual_network, transformer_layer])
def test_a_network_that_finds_its_scales_while_it_runs_is_verified(network, tmp_path):
    """Sums of integers that float16 could not hold, and scales that it could hardly tell from zero.

    A scale is that of the whole batch, so the batch stays whole.
    """
    if network is transformer_layer:
        expect_exact_bytes()
    single = replace(load_machine("toy"), clusters=1)
    options = Options(batch=2, batch_per_cluster=2, verify=True)
    model = quantised_while_it_runs(network(), tmp_path)
    done = compile_network(model, "net", single, strategy_named("tvm"), options)
    assert done.report is not None
    assert done.report.verified, done.report.checks
    assert done.simplified is not None
    scales = [op.reads[1].tensor for op in done.simplified.operators if op.kind == "dequantize"]
    assert scales
    assert all(done.simplified.tensors[scale].dtype is DType.FLOAT32 for scale in scales)


def test_the_search_takes_numbers_that_are_one_for_all(tmp_path):
    """A scale of a whole batch is a tensor without axes, which no core divides."""
    single = replace(load_machine("toy"), clusters=1)
    options = Options(batch=2, batch_per_cluster=2, verify=True, effort=Effort.LOW)
    model = quantised_while_it_runs(residual_network(), tmp_path)
    done = compile_network(model, "net", single, strategy_named("best"), options)
    assert done.report is not None
    assert done.report.verified, done.report.checks


@pytest.mark.parametrize("machine", ["eyeriss", "dmazerunner-256"])
def test_an_array_without_a_rate_for_bytes_multiplies_them_one_by_one(networks, machine):
    """As everything else that it has no products for."""
    done = compiled(networks["residual_network-u8s8-per-channel"], machine, strategy_named("tvm"), batch=1)
    assert done.report is not None
    assert done.report.verified, done.report.checks


def test_what_is_stored_in_place_of_a_quantised_tensor_is_compared(networks):
    """A view of it, where the program writes that: each is known, and takes part in the check of steps."""
    model = networks["transformer_layer-u8s8-per-channel"]
    done = compiled(model, "toy", strategy_named("tvm"), batch=1)
    assert done.trace is not None
    graph = done.trace.program.graph
    stored = {write.tensor for op in graph.operators for write in op.writes}
    moved = {name for name in stored if name.endswith(".quantized")}
    assert moved
    inputs = [sample_inputs(model, batch=1)]
    assert moved <= Reference(model, graph, inputs, network=done.simplified).quantised[0].keys()


def test_nothing_passed_where_steps_prove_nothing():
    """Execution goes on with the integers expected, so what follows them says nothing of how they were made."""
    report = compiled(residual_network(), "toy", strategy_named("tvm"), batch=1).report
    assert report is not None
    assert report.verified
    doubtful = CheckRow(STEPS, 0.0, 1e-3, "x", compared=100, decided=0)
    assert replace(report, checks=(doubtful, *report.checks)).outcome is Outcome.INCONCLUSIVE


def test_a_machine_of_int8_alone_runs_a_quantised_network(networks):
    """Its products on the matrix units, everything else on vector units with lanes for int8 alone."""
    text = preset_text("toy").replace("rates: {float16: 1, int8: 2}", "rates: {int8: 1}")
    text = text.replace("lanes: {float16: 16, int8: 16}", "lanes: {int8: 16}")
    model = networks["residual_network-s8s8-per-tensor"]
    cycles = []
    for said in (text, text.replace("matrix: mme, ", "")):
        machine = load_machine(yaml.safe_load(said))
        done = compile_network(model, "net", machine, strategy_named("graphturbo"), Options(batch=2, verify=True))
        assert done.report is not None
        assert done.report.verified, done.report.checks
        assert done.report.latency_cycles >= done.report.bound_cycles
        cycles.append(done.report.latency_cycles)
    assert cycles[0] < cycles[1]


def test_a_computed_zero_point_leaves_a_product_of_bytes():
    """It is taken off the sums, with what it multiplies; constant zero points of weights count."""
    expect_exact_bytes()
    net = Net()
    a = net.input(4, 20, name="a", dtype=TensorProto.UINT8)
    least = net.op("ReduceMin", net.op("Cast", a, to=TensorProto.INT32), keepdims=0)
    zero = net.op("Cast", least, to=TensorProto.UINT8)
    weight = net.constant(np.random.default_rng(0).integers(-128, 128, (20, 6)).astype(np.int8))
    y = net.op("MatMulInteger", a, weight, zero, net.constant(np.int8(-5)))
    done = compiled(net.model(y), "toy", strategy_named("layerwise"), batch=4)
    assert done.report.verified, done.report.checks
    assert done.simplified is not None
    (product,) = [op for op in done.simplified.operators if is_contraction(op)]
    assert done.simplified.tensors[product.reads[0].tensor].dtype is DType.UINT8


def convolution(*, integers: bool, channels: int = 64) -> onnx.ModelProto:
    """A convolution in floating point, or with quantised operands and result."""
    net = Net()
    x, w = net.input(1, channels, 16, 16, name="x"), net.random(channels, channels, 3, 3)
    if not integers:
        return net.model(net.op("Conv", x, w, pads=[1] * 4))
    small, zero = net.constant(0.02), net.constant(np.int8(3))
    x = net.op("DequantizeLinear", net.op("QuantizeLinear", x, small, zero), small, zero)
    w = net.constant(np.random.default_rng(0).integers(-127, 128, (channels, channels, 3, 3)).astype(np.int8))
    w = net.op("DequantizeLinear", w, small)
    y = net.op("Conv", x, w, pads=[1] * 4)
    return net.model(net.op("QuantizeLinear", y, net.constant(0.9), zero))


def test_bytes_are_multiplied_at_the_rate_of_bytes():
    """Twice that of float16, on half of the bytes, so that the whole is faster."""
    tvm = strategy_named("tvm")
    real, integers = (
        compiled(convolution(integers=integers), "toy", tvm, batch=1).report for integers in (False, True)
    )
    assert real.verified
    assert integers.verified
    (in_floats,) = [kernel for kernel in real.kernels if kernel.macs]
    (in_bytes,) = [kernel for kernel in integers.kernels if kernel.macs]
    assert in_floats.macs == in_bytes.macs
    assert in_bytes.matrix_busy_cycles < 0.6 * in_floats.matrix_busy_cycles
    assert in_bytes.cycles < 0.75 * in_floats.cycles
    assert in_bytes.ddr_read_bytes < 0.6 * in_floats.ddr_read_bytes


def test_long_sums_of_integers_are_exact():
    """Beyond what float32 holds exactly, in several parts of a reduction, on either width."""
    expect_exact_bytes()
    net = Net()
    inner, draw = 3000, np.random.default_rng(0)
    a = net.input(4, inner, name="a", dtype=TensorProto.UINT8)
    b = draw.integers(-128, 128, (inner, 32)).astype(np.int8)
    b[:, 0] = 127  # sums of about 48 million
    y = net.op("MatMulInteger", a, net.constant(b), net.constant(np.uint8(1)), net.constant(np.int8(-1)))
    done = compiled(net.model(y), "toy", strategy_named("layerwise"), batch=4)
    assert done.report.verified
    assert done.schedule is not None
    (kernel,) = done.schedule.kernels
    assert kernel.tiling.reduction[-1] < inner  # in parts
    assert done.program is not None
    (op,) = done.program.graph.operators
    assert op.kind == "matmul"


def elementwise_network() -> onnx.ModelProto:
    """Two quantised inputs added and squashed; weights quantised in blocks; a result of bytes and one of floats."""
    net = Net(opset=21)
    step, zero, other = net.constant(0.05), net.constant(np.uint8(100)), net.constant(np.uint8(0))
    x = net.op("DequantizeLinear", net.input(4, 6, name="x", dtype=TensorProto.UINT8), step, zero)
    scales = net.constant(np.array([[0.1, 0.2, 0.3]] * 4, np.float32))
    w = net.constant(np.random.default_rng(1).integers(0, 256, (4, 6)).astype(np.uint8))
    blocked = net.op("DequantizeLinear", w, scales, axis=1, block_size=2)
    per_row = net.constant(np.array([0.01, 0.02, 0.03, 0.04], np.float32))
    y = net.op("Sigmoid", net.op("Add", x, blocked))
    return net.model(net.op("QuantizeLinear", y, per_row, axis=0), net.op("QuantizeLinear", x, step, other), y)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
def test_what_is_not_multiplied_stays_real(strategy):
    """Element by element between a dequantisation and a quantisation, per axis and per block."""
    done = compiled(elementwise_network(), "toy", strategy, batch=4)
    assert done.report.verified, done.report.checks
    assert done.simplified is not None
    kinds = [op.kind for op in done.simplified.operators]
    assert sorted(kinds) == ["add", "dequantize", "quantize", "quantize", "sigmoid"]


def test_integers_that_are_one_step_off_are_seen(networks):
    """The same program with another zero point of one product's result: all of that tensor is a step off."""
    done = compiled(networks[NETWORKS[0]], "toy", strategy_named("tvm"), batch=1)
    assert done.trace is not None
    graph = done.trace.program.graph
    first = next(op for op in graph.operators if is_contraction(op))
    attributes = tuple((name, value + 1 if name == "zero" else value) for name, value in first.attributes)
    assert attributes != first.attributes
    broken = [replace(op, attributes=attributes) if op is first else op for op in graph.operators]
    program = replace(done.trace.program, graph=replace(graph, operators=tuple(broken)))
    inputs = sample_inputs(networks[NETWORKS[0]], batch=1)
    reference = Reference(networks[NETWORKS[0]], graph, [inputs])
    assert all(row.passed for row in checked(done.trace, reference).rows)
    steps, *_ = checked(replace(done.trace, program=program), reference).rows
    assert (steps.precision, steps.output, steps.passed) == ("steps", first.writes[0].tensor, False)
    assert steps.error > 0.4  # the rest lies at the end of the range


def compared(found: list[int], expected: list[int]) -> tuple[float, str]:
    """What is said of one tensor beside another of 2,000 elements that are right."""
    known = {"x": np.array(expected, np.int8), "right": np.zeros(2000, np.int8)}
    steps = Steps([known], [{}])
    for name, value in (("x", np.array(found)), ("right", np.zeros(2000))):
        tensor, access = Tensor(name, value.shape, DType.INT8, (0,)), Access(name, (Axis(((0, 1),)),))
        steps.compare(tensor, 0, access, Region((0,), value.shape), value)
    return steps.worst()


def test_one_element_in_a_thousand_may_be_one_step_off():
    """Or one element of a small tensor; two of it, or two steps, are too many."""
    assert compared([1, 2, 3, 4], [1, 2, 3, 4])[0] == 0.0
    assert compared([1, 2, 3, 4], [1, 2, 3, 5]) == (1 / 2004, "x")
    assert compared([1, 2, 3, 4], [1, 2, 4, 5]) == (0.5, "x")
    assert compared([1, 2, 3, 4], [1, 2, 3, 6]) == (1.0, "x")
    assert compared([7] * 4000, [7] * 3997 + [6] * 3) == (3 / 6000, "x")
    assert compared([7] * 4000, [7] * 3995 + [6] * 5) == (5 / 4000, "x")

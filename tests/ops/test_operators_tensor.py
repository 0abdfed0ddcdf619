"""Operators that move, pick, count and contract: the ONNX project's own tests of single nodes, and tiled programs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.helpers.graphs import cramped
from tests.helpers.onnx_nodes import NODE_TESTS, node_cases
from tests.helpers.pairs import slow_for
from tilestitch.base.errors import InputError
from tilestitch.frontend.reader import read_onnx
from tilestitch.hardware.load import load_machine
from tilestitch.ir.graph import Graph
from tilestitch.ir.verify import verify_graph
from tilestitch.ops import generic
from tilestitch.passes import simplify
from tilestitch.passes.views import resolve_views
from tilestitch.pipeline.compile import compile_network
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.strategies import strategy_named
from tilestitch.sim.chip.check import checked
from tilestitch.sim.chip.interpret import interpret
from tilestitch.sim.chip.reference import Reference

Array = np.ndarray


@dataclass(frozen=True)
class NodeTest:
    """One data set of one of the ONNX project's tests."""

    name: str
    model: onnx.ModelProto
    inputs: Mapping[str, Array]
    expected: Mapping[str, Array]


def node_tests(operator: str) -> list[NodeTest]:
    """All of an operator, also those in which it is spelled out."""
    return [
        NodeTest(
            case.name,
            case.model,
            {value.name: np.asarray(x) for value, x in zip(case.model.graph.input, inputs, strict=True)},
            {value.name: np.asarray(x) for value, x in zip(case.model.graph.output, outputs, strict=True)},
        )
        for case in node_cases(operator, expanded=True)
        for inputs, outputs in case.data_sets or ()
    ]


def read(test: NodeTest) -> Graph | None:
    """By rules of our own, or None.

    Where the inputs alone do not suffice, short lists of integers (axes, shapes) are constants, or all but the first.
    """
    names = list(test.inputs)
    short = [name for name, x in test.inputs.items() if x.dtype.kind in "iu" and x.ndim <= 1]
    for settings in ([], short, names[1:]):
        known = onnx.ModelProto()
        known.CopyFrom(test.model)
        known.graph.initializer.extend(numpy_helper.from_array(test.inputs[name], name) for name in settings)
        try:
            graph = read_onnx(known)
        except InputError:
            continue
        if all(op.kind != generic.KIND for op in graph.operators):
            return graph
    return None


def assert_means(graph: Graph, test: NodeTest) -> None:
    verify_graph(graph)
    found = interpret(graph, {name: test.inputs[name] for name in graph.inputs}, wide=True)
    for name, expected in test.expected.items():
        assert found[name].shape == expected.shape, test.name
        if expected.dtype.kind in "iub":
            np.testing.assert_array_equal(found[name], expected, err_msg=test.name)
        else:
            rtol, atol = (1e-2, 1e-2) if expected.dtype.itemsize == 2 else (1e-4, 1e-6)  # float16 and bfloat16
            np.testing.assert_allclose(found[name], expected.astype(np.float64), rtol, atol, err_msg=test.name)


@pytest.mark.filterwarnings("ignore::RuntimeWarning:onnx")
@pytest.mark.parametrize("operator", slow_for(["Attention"], list(NODE_TESTS)))
def test_an_operator_means_what_the_onnx_project_says(operator):
    """As it is read, and without views; what is not understood is refused, or left to the generic path."""
    understood = 0
    for test in node_tests(operator):
        graph = read(test)
        if graph is None:
            continue
        assert_means(graph, test)
        assert_means(resolve_views(simplify(graph))[0], test)
        understood += 1
    assert understood >= NODE_TESTS[operator]


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def network(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Array],
    outputs: Sequence[str],
    weights: Mapping[str, Array] = {},
    *,
    opset: int = 24,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "net",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for name, x in inputs.items()
        ],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(x, name) for name, x in weights.items()],
    )
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=max(8, helper.find_min_ir_version_for(opsets)))
    return onnx.shape_inference.infer_shapes(model)


def assert_program_means(model: onnx.ModelProto, inputs: Mapping[str, Array], *, tiles: int = 2) -> int:
    """Executed on a toy of small local buffers, each program gives onnxruntime's values; its cycles by `tvm`.

    Some kernel is cut into at least so many tiles.
    """
    cycles = 0
    for strategy in ("layerwise", "tvm"):
        machine = cramped(load_machine("toy"), local_bytes=2048)
        done = compile_network(model, "net", machine, strategy_named(strategy), Options())
        assert done.trace is not None
        assert done.schedule is not None
        program = done.trace.program
        computed = np.unique(np.stack((program.operator, program.box), axis=1), axis=0)
        assert np.bincount(computed[computed[:, 0] >= 0, 0]).max() >= tiles
        checks = checked(done.trace, Reference(model, done.schedule.graph, [inputs])).rows
        assert all(row.passed for row in checks), checks
        cycles = done.trace.latency_cycles
    return cycles


def test_scattering_and_picking_is_executed():
    """A gather per element, a scatter of computed rows with repetitions, and new rows of a cache."""
    indices = np.random.default_rng(0).integers(-24, 24, (24, 20))
    inputs = {"x": floats(24, 20), "at": indices, "rows": np.array([[3], [0], [-1], [3]]), "values": floats(4, 20)}
    inputs |= {"cache": floats(2, 3, 16, 8), "new": floats(2, 3, 2, 8), "starts": np.array([5, 14])}
    nodes = [
        helper.make_node("GatherElements", ["x", "at"], ["picked"], axis=0),
        helper.make_node("ScatterND", ["picked", "rows", "values"], ["sums"], reduction="add"),
        helper.make_node("TensorScatter", ["cache", "new", "starts"], ["next"]),
    ]
    assert_program_means(network(nodes, inputs, ["sums", "next"]), inputs)


def test_a_scatter_of_constant_places_moves_data_only():
    """What frameworks write for x[:, 2:5] = v, and for x[[5, 0]] = v."""
    box = np.stack(np.meshgrid(np.arange(8), np.arange(2, 5), indexing="ij"), axis=-1)
    inputs = {"x": floats(8, 6), "v": floats(8, 3), "w": floats(2, 6, seed=1)}
    nodes = [
        helper.make_node("ScatterND", ["x", "box", "v"], ["a"]),
        helper.make_node("ScatterND", ["a", "rows", "w"], ["b"]),
    ]
    model = network(nodes, inputs, ["a", "b"], {"box": box, "rows": np.array([[5], [0]])})
    assert {op.kind for op in resolve_views(read_onnx(model))[0].operators} == {"copy", "gather"}
    assert_program_means(model, inputs, tiles=1)


def test_whole_axes_are_executed():
    """Places of extremes, the greatest elements in order, running sums and norms, on tiles of the other axes."""
    inputs = {"x": floats(16, 40, 24)}
    nodes = [
        helper.make_node("ArgMax", ["x"], ["most"], axis=1),
        helper.make_node("ArgMin", ["x"], ["least"], axis=2, keepdims=0),
        helper.make_node("TopK", ["x", "k"], ["values", "places"], axis=1),
        helper.make_node("CumSum", ["x", "axis"], ["sums"], reverse=1, exclusive=1),
        helper.make_node("ReduceLogSumExp", ["x", "axis"], ["total"], keepdims=0),
        helper.make_node("ReduceL2", ["x", "axis"], ["norm"]),
        helper.make_node("ReverseSequence", ["x", "lengths"], ["turned"], batch_axis=0, time_axis=1),
    ]
    weights = {"k": np.array([5]), "axis": np.array([2]), "lengths": np.arange(16) + 3}
    outputs = ["most", "least", "values", "places", "sums", "total", "norm", "turned"]
    assert_program_means(network(nodes, inputs, outputs, weights), inputs)


def test_masks_and_codes_are_executed():
    """A triangle, one-hot codes of classes and a repetition, then the bits of integers."""
    random = np.random.default_rng(0)
    inputs = {
        "x": floats(6, 24, 20),
        "class": random.integers(-9, 10, (8, 12)),
        "bits": random.integers(-99, 99, (40, 30)),
    }
    nodes = [
        helper.make_node("Trilu", ["x", "k"], ["lower"], upper=0),
        helper.make_node("Tile", ["lower", "twice"], ["tiled"]),
        helper.make_node("OneHot", ["class", "depth", "off_on"], ["codes"], axis=1),
        helper.make_node("Mod", ["bits", "seven"], ["rest"]),
        helper.make_node("BitwiseNot", ["bits"], ["inverse"]),
        helper.make_node("BitwiseXor", ["rest", "inverse"], ["mixed"]),
    ]
    weights = {"k": np.array(-2), "twice": np.array([1, 2, 3]), "depth": np.array(10), "seven": np.array(-7)}
    weights["off_on"] = np.array([-0.5, 2], np.float32)
    assert_program_means(network(nodes, inputs, ["tiled", "codes", "mixed"], weights), inputs)


def test_a_scatter_keeps_axes_of_one_element():
    """Where the indices name axes of extent 1, as many rows are written as there were, under fewer axes."""
    inputs = {"x": floats(6, 1, 2), "rows": np.array([[5, 0], [2, 0]]), "values": floats(2, 2, seed=1)}
    assert_program_means(network([helper.make_node("ScatterND", list(inputs), ["y"])], inputs, ["y"]), inputs, tiles=1)


@pytest.mark.parametrize(
    ("equation", "shapes", "kinds"),
    [
        ("bhid,bhjd->bhij", [(2, 3, 20, 8), (2, 3, 24, 8)], ["matmul"]),
        ("bij, kj", [(2, 20, 16), (24, 16)], ["matmul"]),
        ("...ij,...jk->k...i", [(3, 1, 20, 8), (1, 2, 8, 16)], ["matmul"]),
        ("ij,kj->jik", [(20, 16), (12, 16)], ["mul"]),
        ("ijk->kj", [(20, 16, 12)], ["reduce_sum"]),
        ("ijkl,jm->im", [(20, 16, 3, 5), (16, 12)], ["reduce_sum", "matmul"]),
        ("iij,jk->ki", [(16, 16, 12), (12, 20)], ["slice", "matmul"]),
        ("ab,bc,cd->ad", [(20, 16), (16, 12), (12, 24)], ["matmul", "matmul"]),
        ("ij->", [(20, 16)], ["reduce_sum"]),
        ("i...->...i", [(20, 16, 3)], ["transpose"]),
    ],
)
def test_a_sum_of_products_is_one_nest(equation, shapes, kinds):
    inputs = {f"x{i}": floats(*shape, seed=i) for i, shape in enumerate(shapes)}
    model = network([helper.make_node("Einsum", list(inputs), ["y"], equation=equation)], inputs, ["y"])
    assert [op.kind for op in read_onnx(model).operators] == kinds
    assert_program_means(model, inputs, tiles=1)


@pytest.mark.parametrize(
    ("op", "gates", "attributes"),
    [
        ("LSTM", 4, {"direction": "bidirectional"}),
        ("LSTM", 4, {"layout": 0, "activations": ["Sigmoid", "Softsign", "Relu"]}),
        ("GRU", 3, {"direction": "reverse"}),
        ("GRU", 3, {"direction": "bidirectional", "linear_before_reset": 1}),
        ("RNN", 1, {"activations": ["Relu"]}),
    ],
)
def test_a_recurrent_layer_is_its_steps(op, gates, attributes):
    """With states before and after, peepholes where there are any, and the input's product once for all steps."""
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    inputs = {"x": floats(3, 4, 12), "h": floats(directions, 4, 16), "c": floats(directions, 4, 16, seed=1)}
    weights = {
        "w": floats(directions, gates * 16, 12) / 3,
        "r": floats(directions, gates * 16, 16) / 3,
        "b": floats(directions, 2 * gates * 16),
        "p": floats(directions, 3 * 16),
    }
    operands = ["x", "w", "r", "b", "", "h", *(["c", "p"] if op == "LSTM" else [])]
    outputs = ["y", "y_h", *(["y_c"] if op == "LSTM" else [])]
    given = {name: x for name, x in inputs.items() if name in operands}
    node = helper.make_node(op, operands, outputs, hidden_size=16, **attributes)
    model = network([node], given, outputs, {name: x for name, x in weights.items() if name in operands})
    products = [op for op in read_onnx(model).operators if op.kind == "matmul"]
    assert len(products) == directions * (1 + 3 * (2 if op == "GRU" else 1))
    assert_program_means(model, given, tiles=1)


def test_a_long_recurrence_is_one_generic_operator():
    inputs = {"x": floats(300, 2, 4)}
    node = helper.make_node("RNN", ["x", "w", "r"], ["y"], hidden_size=4)
    model = network([node], inputs, ["y"], {"w": floats(1, 4, 4), "r": floats(1, 4, 4)})
    assert [op.kind for op in read_onnx(model).operators] == [generic.KIND]


def test_a_spectrogram_is_executed():
    """Frames are read where they lie, under a window that is evaluated while reading."""
    inputs = {"signal": floats(2, 600, 1)}
    nodes = [
        helper.make_node("HannWindow", ["length"], ["window"]),
        helper.make_node("STFT", ["signal", "step", "window"], ["frames"]),
        helper.make_node("ReduceSumSquare", ["frames", "last"], ["power"], keepdims=0),
        helper.make_node("Add", ["power", "floor"], ["above"]),
        helper.make_node("Log", ["above"], ["y"]),
    ]
    weights = {name: np.array(value) for name, value in {"length": 64, "step": 16, "last": [-1]}.items()}
    model = network(nodes, inputs, ["y"], {**weights, "floor": np.array([0.01], np.float32)})
    assert [op.kind for op in read_onnx(model).operators] == ["matmul", "mul", "reduce_sum", "add", "log"]
    assert_program_means(model, inputs)


@pytest.mark.parametrize("length", [6, 9, 12])
@pytest.mark.parametrize("attributes", [{}, {"inverse": 1}, {"onesided": 1}, {"inverse": 1, "onesided": 1}], ids=str)
def test_a_transform_of_any_length_is_one_product(length, attributes):
    """Of 9 places, of which some are left out, or to which zeros are added; real and complex."""
    parts = 2 if "inverse" in attributes else 1
    inputs = {"x": floats(3, 9, 4, parts)}
    node = helper.make_node("DFT", ["x", "length", "axis"], ["y"], **attributes)
    model = network([node], inputs, ["y"], {"length": np.array(length), "axis": np.array(1)})
    graph = read_onnx(model)
    assert [op.kind for op in graph.operators] == ["matmul"]
    found = interpret(graph, inputs, wide=True)["y"]
    x = inputs["x"][..., 0] if parts == 1 else inputs["x"].view(np.complex64)[..., 0]
    if attributes == {"inverse": 1, "onesided": 1}:
        expected = np.fft.irfft(x, length, 1)[..., np.newaxis]
    else:
        transform = np.fft.ifft if parts == 2 else np.fft.rfft if "onesided" in attributes else np.fft.fft
        complete = transform(x, length, 1)
        expected = np.stack((complete.real, complete.imag), axis=-1)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embedding_is_one_kernel(interleaved):
    """Products and a sum over the pairs, which `tvm` runs together, with either form of pairs."""
    inputs = {"x": floats(2, 4, 24, 16), "cos": floats(2, 24, 8), "sin": floats(2, 24, 8, seed=1)}
    node = helper.make_node("RotaryEmbedding", ["x", "cos", "sin"], ["y"], interleaved=interleaved)
    model = network([node], inputs, ["y"])
    assert_program_means(model, inputs)
    done = compile_network(model, "net", load_machine("toy"), strategy_named("tvm"), Options())
    assert done.schedule is not None
    assert len(done.schedule.kernels) == 1


def test_attention_with_a_cache_is_executed():
    """Two tokens more for a cache of 30: the new cache, and the result of grouped heads under a cap."""
    inputs = {
        "q": floats(2, 4, 2, 16),
        "k": floats(2, 2, 2, 16),
        "v": floats(2, 2, 2, 16),
        "past_k": floats(2, 2, 30, 16, seed=1),
        "past_v": floats(2, 2, 30, 16, seed=2),
    }
    node = helper.make_node(
        "Attention", ["q", "k", "v", "", "past_k", "past_v"], ["y", "new_k", "new_v"], is_causal=1, softcap=2.0
    )
    assert_program_means(network([node], inputs, ["y", "new_k", "new_v"]), inputs)


def test_attention_reads_as_much_of_a_cache_as_is_filled():
    inputs = {
        "q": floats(2, 3, 2, 16),
        "k": floats(2, 3, 40, 16),
        "v": floats(2, 3, 40, 16),
        "lengths": np.array([7, 33]),
    }
    node = helper.make_node("Attention", ["q", "k", "v", "", "", "", "lengths"], ["y"], is_causal=1)
    assert_program_means(network([node], inputs, ["y"]), inputs)


def chain(*nodes: tuple[str, str, str, dict[str, object]]) -> list[onnx.NodeProto]:
    """Nodes from (operator, operands separated by spaces, results likewise, attributes)."""
    return [
        helper.make_node(op, reads.split(), writes.split(), **attributes) for op, reads, writes, attributes in nodes
    ]


def test_the_masks_that_exporters_write_are_executed():
    """A causal mask and lengths of sequences as booleans, minus infinity where both forbid, and 0 for what is NaN.

    The second sequence has no token, so that its softmax has nothing to divide by.
    """
    inputs = {name: floats(2, 3, 20, 16, seed=i) for i, name in enumerate("qkv")} | {"length": np.array([13, 0])}
    nodes = chain(
        ("Transpose", "k", "kt", {"perm": [0, 1, 3, 2]}),
        ("MatMul", "q kt", "scores", {}),
        ("Mul", "scores scale", "scaled", {}),
        ("Range", "zero tokens one", "places", {}),
        ("Unsqueeze", "places last", "column", {}),
        ("LessOrEqual", "places column", "causal", {}),
        ("Reshape", "length spread", "lengths", {}),
        ("Less", "places lengths", "filled", {}),
        ("And", "causal filled", "both", {}),
        ("Expand", "both shape", "allowed", {}),
        ("Where", "allowed scaled never", "masked", {}),
        ("Softmax", "masked", "weights", {"axis": -1}),
        ("IsNaN", "weights", "nan", {}),
        ("Where", "nan nothing weights", "clean", {}),
        ("MatMul", "clean v", "context", {}),
        ("Equal", "length nobody", "empty", {}),
        ("Sum", "context context", "y", {}),
    )
    weights = {name: np.array(value) for name, value in {"zero": 0, "tokens": 20, "one": 1, "last": [-1]}.items()}
    weights |= {"spread": np.array([2, 1, 1, 1]), "shape": np.array([2, 3, 20, 20]), "nobody": np.array(0)}
    floating = {"scale": 0.25, "never": -np.inf, "nothing": 0.0}
    weights |= {name: np.array(value, np.float32) for name, value in floating.items()}
    assert_program_means(network(nodes, inputs, ["y", "empty"], weights), inputs)


def test_pieces_of_tensors_are_executed():
    """Backwards slices, unequal parts joined in another order, rows and elements that are picked, repeated halves."""
    inputs = {"x": floats(4, 30, 16), "row": np.array([[3, -1], [0, 7]]), "token": np.array([[5, 0, 29, -3]])}
    nodes = chain(
        ("Slice", "x starts ends axes steps", "backwards", {}),
        ("Split", "backwards parts", "a b c", {"axis": 1}),
        ("Concat", "c a b", "turned", {"axis": 1}),
        ("GatherND", "turned row", "rows", {}),
        ("Gather", "table token", "embedded", {}),
        ("Squeeze", "embedded first", "tokens", {}),
        ("Unsqueeze", "tokens second", "spread", {}),
        ("Greater", "turned spread", "greater", {}),
        ("Where", "greater turned spread", "y", {}),
        ("ReduceMax", "y second", "best", {"keepdims": 0}),
    )
    weights = {"starts": [-1, 15], "ends": [-100, -100], "axes": [1, 2], "steps": [-2, -1], "parts": [4, 9, 2]}
    weights = {name: np.array(value) for name, value in {**weights, "first": [0], "second": [1]}.items()}
    model = network(nodes, inputs, ["rows", "y", "best"], {**weights, "table": floats(30, 16, seed=1)})
    assert_program_means(model, inputs)

"""Scales and shifts of norms become part of the products behind them: the same values, and less for vector units."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.helpers.verified import model
from tilestitch.frontend.reader import read_onnx
from tilestitch.ir.graph import Graph
from tilestitch.ir.verify import verify_graph
from tilestitch.ops.work import vector_operations
from tilestitch.passes import simplify
from tilestitch.passes.folding import folded
from tilestitch.passes.norms import with_norms_in_products
from tilestitch.pipeline.views import composed_graph
from tilestitch.sim.chip.interpret import interpret

CHANNELS, COLUMNS = 8, 6


def network(nodes: list, arrays: dict[str, np.ndarray], outputs: tuple[str, ...] = ("y",)) -> Graph:
    """A network of one input x of 3 x 5 rows; what is made of it comes behind a norm."""
    constants = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, (3, 5, CHANNELS))]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    proto = helper.make_model(
        helper.make_graph(nodes, "norms", given, ends, constants), opset_imports=[helper.make_opsetid("", 23)]
    )
    return composed_graph(simplify(read_onnx(proto, name="norms"), fold_bn=True))[0]


def drawn(*shape: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32) + np.float32(0.5)


ARRAYS = {
    "scale": drawn(CHANNELS, seed=1),
    "shift": drawn(CHANNELS, seed=2),
    "weight": drawn(CHANNELS, COLUMNS, seed=3),
    "bias": drawn(COLUMNS, seed=4),
    "other": drawn(CHANNELS, COLUMNS, seed=5),
    "taps": drawn(COLUMNS, CHANNELS, 3, seed=6),
}


def arrays(*names: str) -> dict[str, np.ndarray]:
    return {name: ARRAYS[name] for name in names}


NORM = helper.make_node("LayerNormalization", ["x", "scale", "shift"], ["normed"], name="norm")
UNSHIFTED = helper.make_node("LayerNormalization", ["x", "scale"], ["normed"], name="norm")
RMS = helper.make_node("RMSNormalization", ["x", "scale"], ["normed"], name="norm")
PRODUCT = helper.make_node("MatMul", ["normed", "weight"], ["product"], name="product")
ADD = helper.make_node("Add", ["product", "bias"], ["y"], name="add")
TURNED = helper.make_node("Transpose", ["normed"], ["turned"], name="turned", perm=[0, 2, 1])


def convolution(pad: int) -> list:
    return [TURNED, helper.make_node("Conv", ["turned", "taps"], ["y"], name="product", pads=[pad, pad])]


FOLDED = {
    "a bias is added behind": ([NORM, PRODUCT, ADD], arrays("scale", "shift", "weight", "bias")),
    "the constant comes first": (
        [NORM, PRODUCT, helper.make_node("Add", ["bias", "product"], ["y"], name="add")],
        arrays("scale", "shift", "weight", "bias"),
    ),
    "the product has no bias": (
        [NORM, helper.make_node("MatMul", ["normed", "weight"], ["y"], name="product")],
        arrays("scale", "shift", "weight"),
    ),
    "two products read it": (
        [
            NORM,
            PRODUCT,
            helper.make_node("MatMul", ["normed", "other"], ["second"], name="second"),
            helper.make_node("Mul", ["product", "second"], ["y"], name="gate"),
        ],
        arrays("scale", "shift", "weight", "other"),
    ),
    "no shift": ([UNSHIFTED, PRODUCT, ADD], arrays("scale", "weight", "bias")),
    "a mean square": ([RMS, PRODUCT, ADD], arrays("scale", "weight", "bias")),
    "a convolution inside of the rows": ([NORM, *convolution(0)], arrays("scale", "shift", "taps")),
    "a convolution beyond them, no shift": ([UNSHIFTED, *convolution(1)], arrays("scale", "taps")),
    "a convolution with a bias": (
        [NORM, TURNED, helper.make_node("Conv", ["turned", "taps", "bias"], ["y"], name="product")],
        arrays("scale", "shift", "taps", "bias"),
    ),
}


@pytest.mark.parametrize("case", FOLDED)
def test_a_norm_has_no_parameters_where_products_alone_read_it(case):
    graph = network(*FOLDED[case])
    found = with_norms_in_products(graph)
    verify_graph(found)
    assert [op.name for op in found.operators] == [op.name for op in graph.operators]
    before, after = (next(op for op in one.operators if op.name == "norm") for one in (graph, found))
    assert len(before.reads) > len(after.reads) == 1
    given = len(before.reads) - 1
    assert vector_operations(before, before.whole) - vector_operations(after, after.whole) == given * 3 * 5 * CHANNELS
    x = drawn(3, 5, CHANNELS, seed=7)
    expected, values = (interpret(one, {"x": x}, wide=True)["y"] for one in (graph, found))
    np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-4)
    assert not np.array_equal(values, interpret(found, {"x": x + drawn(3, 5, CHANNELS, seed=8)}, wide=True)["y"])


LEFT = {
    "others read it too": (
        [NORM, PRODUCT, ADD, helper.make_node("Relu", ["normed"], ["also"], name="also")],
        arrays("scale", "shift", "weight", "bias"),
        ("y", "also"),
    ),
    "it is an output": ([NORM, PRODUCT, ADD], arrays("scale", "shift", "weight", "bias"), ("y", "normed")),
    "a convolution reads beyond the rows": ([NORM, *convolution(1)], arrays("scale", "shift", "taps"), ("y",)),
    "it is the second operand": (
        [
            NORM,
            TURNED,
            helper.make_node("MatMul", ["x", "turned"], ["y"], name="product"),
        ],
        arrays("scale", "shift"),
        ("y",),
    ),
}


@pytest.mark.parametrize("case", LEFT)
def test_a_norm_stays_where_its_parameters_have_no_place(case):
    graph = network(*LEFT[case])
    assert with_norms_in_products(graph) is graph
    assert folded(graph)[0] is graph


def test_every_norm_of_vit_that_a_product_reads_is_folded():
    loaded = read_onnx(model("vit-b16", small=True), name="vit", batch=2, weights={})
    graph, _ = composed_graph(simplify(loaded, fold_bn=True))
    found = with_norms_in_products(graph)
    left = [op.name for op in found.operators if op.kind == "layer_norm" and len(op.reads) > 1]
    assert len(left) < len([op for op in graph.operators if op.kind == "layer_norm"]) / 2
    assert not any(name.endswith(("norm1", "norm2")) for name in left)

"""Powers of two that multiply become part of weights: the same values, and less to compute."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.helpers.verified import model
from tilestitch.frontend.reader import read_onnx
from tilestitch.ir.graph import Graph
from tilestitch.ir.verify import verify_graph
from tilestitch.passes import simplify
from tilestitch.passes.factors import without_factors
from tilestitch.pipeline.views import composed_graph
from tilestitch.sim.chip.interpret import interpret


def composed(network: str) -> Graph:
    loaded = read_onnx(model(network, small=True), name=network, batch=2, weights={})
    return composed_graph(simplify(loaded, fold_bn=True))[0]


def scaled(kind: str, factor: float, *, also: bool = False) -> Graph:
    """A product with weights and a bias, times a factor; `also`: what is multiplied is an output as well."""
    values = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    constants = [
        numpy_helper.from_array(values, "weight"),
        numpy_helper.from_array(values[0], "bias"),
        numpy_helper.from_array(np.array(factor, np.float32), "factor"),
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "weight"], ["product"], name="product"),
        helper.make_node("Add", ["product", "bias"], ["sum"], name="sum"),
        helper.make_node(kind, ["sum", "factor"], ["scaled"], name="scaled"),
        helper.make_node("Relu", ["scaled"], ["y"], name="relu"),
    ]
    shapes = {"x": (3, 8), "y": (3, 4), **({"sum": (3, 4)} if also else {})}
    ends = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()}
    outputs = [ends[name] for name in shapes if name != "x"]
    proto = helper.make_model(helper.make_graph(nodes, "scaled", [ends["x"]], outputs, constants))
    return composed_graph(simplify(read_onnx(proto, name="scaled"), fold_bn=True))[0]


@pytest.mark.parametrize(("kind", "factor"), [("Mul", 0.5), ("Div", 8.0), ("Mul", -2.0)])
def test_a_power_of_two_behind_a_product_is_part_of_its_weights_and_bias(kind, factor):
    """To the bit: no digit changes."""
    graph = scaled(kind, factor)
    found, now = without_factors(graph)
    verify_graph(found)
    assert [op.name for op in found.operators] == [op.name for op in graph.operators if op.name != "scaled"]
    assert now["scaled"] == ()
    x = np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32)
    before, after = (interpret(one, {"x": x}, wide=True)["y"] for one in (graph, found))
    np.testing.assert_array_equal(before, after)


def test_what_would_lose_digits_or_change_what_others_read_stays():
    """A factor that is no power of two, one behind what is an output as well, and a division by what was made."""
    for graph in (scaled("Mul", 0.3), scaled("Mul", 0.5, also=True), scaled("Mul", 0.0)):
        assert without_factors(graph)[0] is graph


@pytest.mark.parametrize("network", ["bert-base-128", "conformer"])
def test_the_scale_of_attention_is_part_of_its_queries(network):
    """In Conformer two products share the queries, and each adds its own bias to them; both change."""
    graph = composed(network)
    found, now = without_factors(graph)
    verify_graph(found)
    left = {op.name for op in graph.operators} - {op.name for op in found.operators}
    assert any(name.endswith(("attention.scaled", "self.scaled")) for name in left)
    assert left == {name for name, names in now.items() if not names}
    assert not any("scaled" in op.name for op in found.operators)

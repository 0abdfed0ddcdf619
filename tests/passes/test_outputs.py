"""Outputs that no node computes: inputs and constants are copied to where the outputs belong."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from tests.hostile.inputs.making import RELU, model, node, weight
from tilestitch import api


def typed(network: onnx.ModelProto, **types: int) -> onnx.ModelProto:
    for output in network.graph.output:
        output.type.tensor_type.elem_type = types.get(output.name, TensorProto.FLOAT)
    return network


THREE = weight("w", [1, 2, 3])
NETWORKS = {
    "an input and nothing else": model(outputs=["x"]),
    "an input beside a result": model(RELU, outputs=["x", "y"]),
    "an input of any batch": model(RELU, inputs=["x:N,3"], outputs=["y", "x"]),
    "a weight that nobody reads": model(RELU, outputs=["y", "w"], weights=[THREE]),
    "a weight that is read": model(node("Add", "x w"), outputs=["y", "w"], weights=[THREE]),
    "the weight of a product": model(node("MatMul", "x w"), outputs=["y", "w"], weights=[weight("w", np.ones((3, 4)))]),
    "a scalar": model(RELU, outputs=["y", "w"], weights=[weight("w", 1)]),
    "a shape": typed(model(node("Shape")), y=TensorProto.INT64),
    "a shape beside a result": typed(model(RELU, node("Shape", "x", "s"), outputs=["y", "s"]), s=TensorProto.INT64),
    "what follows from a weight": model(node("Relu", "w"), inputs=[], weights=[THREE]),
    "one input twice": model(node("Identity", "x", "y"), node("Identity", "x", "z"), outputs=["y", "z", "x"]),
}


@pytest.mark.parametrize("strategy", ["layerwise", "tvm", "dlfusion", "exact", "one-block"])
@pytest.mark.parametrize("name", NETWORKS)
def test_an_output_that_no_node_computes_is_copied(name, strategy):
    """The program writes it like any other output, and onnxruntime agrees."""
    found = api.compile(NETWORKS[name], "toy", strategy=strategy, verify=True)
    assert found.report.verified
    assert len(found.program.outputs) == len(NETWORKS[name].graph.output)


def test_a_copied_input_has_a_name_of_its_own():
    """The file's own network is left as it is."""
    network = model(RELU, inputs=["x:2,3", "x.output:2,3"], outputs=["x", "y"])
    assert api.load_graph(network).outputs == ("x.output_", "y")
    assert [output.name for output in network.graph.output] == ["x", "y"]

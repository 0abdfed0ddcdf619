"""Two products with hidden channels between them, as networks."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def perceptron(
    kind: str = "plain", *, rows: int = 24, width: int = 16, hidden: int = 48, residual: bool = False
) -> onnx.ModelProto:
    """A perceptron of two products with biases; or "gated", with a third product that gates the hidden channels.

    Or "read twice": its hidden channels are an output too.
    """
    random = np.random.default_rng(3)

    def weights(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(random.normal(0, 0.3, shape).astype(np.float32), name)

    def value(name: str, *shape: int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", *shape])

    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["h1"], name="first"),
        helper.make_node("Add", ["h1", "b1"], ["h2"], name="first.bias"),
        helper.make_node("Relu", ["h2"], ["h3"], name="relu"),
    ]
    constants = [
        weights("w1", width, hidden),
        weights("b1", hidden),
        weights("w2", hidden, width),
        weights("b2", width),
    ]
    last = "h3"
    if kind == "gated":
        constants.append(weights("w3", width, hidden))
        nodes += [
            helper.make_node("MatMul", ["x", "w3"], ["g"], name="gate"),
            helper.make_node("Mul", ["h3", "g"], ["h4"], name="gated"),
        ]
        last = "h4"
    nodes += [
        helper.make_node("MatMul", [last, "w2"], ["s1"], name="second"),
        helper.make_node("Add", ["s1", "b2"], ["s2" if residual else "y"], name="second.bias"),
        *([helper.make_node("Add", ["s2", "x"], ["y"], name="residual")] if residual else []),
    ]
    outputs = [value("y", rows, width), *([value("h3", rows, hidden)] if kind == "read twice" else [])]
    graph = helper.make_graph(nodes, "perceptron", [value("x", rows, width)], outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def inverted_residual(*, size: int = 8, width: int = 8, hidden: int = 24, stride: int = 1) -> onnx.ModelProto:
    """Expand, a depthwise convolution, project; every one with a bias."""
    random = np.random.default_rng(5)

    def weights(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(random.normal(0, 0.3, shape).astype(np.float32), name)

    constants = [
        weights("w1", hidden, width, 1, 1),
        weights("b1", hidden),
        weights("w2", hidden, 1, 3, 3),
        weights("b2", hidden),
        weights("w3", width, hidden, 1, 1),
        weights("b3", width),
    ]
    around = {"pads": [1, 1, 1, 1], "strides": [stride, stride], "group": hidden}
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["h1"], name="expand"),
        helper.make_node("Relu", ["h1"], ["h2"], name="expand.relu"),
        helper.make_node("Conv", ["h2", "w2", "b2"], ["h3"], name="depthwise", **around),
        helper.make_node("Relu", ["h3"], ["h4"], name="depthwise.relu"),
        helper.make_node("Conv", ["h4", "w3", "b3"], ["y"], name="project"),
    ]
    shape = ["N", width, size, size]
    graph = helper.make_graph(
        nodes,
        "inverted-residual",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", width, None, None])],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)

"""The networks of the GPU case study, as ONNX: convolutions one after another, and a layer of BERT."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# [INFERRED] in the facts about the paper: it names 8 layers of convolution and ReLU, and no shapes.
TAILOR = (
    (64, 64, 1),
    (64, 64, 1),
    (64, 128, 2),
    (128, 128, 1),
    (128, 256, 2),
    (256, 256, 1),
    (256, 512, 2),
    (512, 512, 1),
)
IMAGE = 56


def tailor(channels: Sequence[tuple[int, int, int]] = TAILOR, image: int = IMAGE) -> onnx.ModelProto:
    """ResNet18-Tailor: 3x3 convolutions with ReLU, one after another; input and output channels and stride of each."""
    return _convolutions("resnet18-tailor", [(c, m, step, 3, 1) for c, m, step in channels], image)


def pair(image: int = IMAGE) -> onnx.ModelProto:
    """Convolutions of 3x3 and 1x1 with ReLU, 64 to 64 to 256 channels: what CUTLASS fuses in its example 13."""
    return _convolutions("conv-pair", ((64, 64, 1, 3, 1), (64, 256, 1, 1, 1)), image)


def bottleneck(channels: int, image: int) -> onnx.ModelProto:
    """The convolutions of a bottleneck of ResNet-50 with ReLU, of 1x1, 3x3 and 1x1; outside 4 times the channels."""
    outside = 4 * channels
    layers = ((outside, channels, 1, 1, 1), (channels, channels, 1, 3, 1), (channels, outside, 1, 1, 1))
    return _convolutions(f"bottleneck-{channels}", layers, image)


def inverted_residual(channels: int, image: int, expansion: int = 6) -> onnx.ModelProto:
    """The convolutions of an inverted residual of MobileNet-v2 with ReLU: expand, depthwise 3x3, project."""
    inside = expansion * channels
    layers = ((channels, inside, 1, 1, 1), (inside, inside, 1, 3, inside), (inside, channels, 1, 1, 1))
    return _convolutions(f"inverted-residual-{channels}", layers, image)


def perceptron(widths: Sequence[int], tokens: int = 128) -> onnx.ModelProto:
    """Matrix products with ReLU after each."""
    generator = np.random.default_rng(20)
    nodes, weights, last = [], [], "x"
    for number, (k, n) in enumerate(pairwise(widths)):
        w = generator.standard_normal((k, n)) * np.sqrt(2 / k)
        weights.append(numpy_helper.from_array(w.astype(np.float32), f"w{number}"))
        nodes.append(helper.make_node("MatMul", [last, f"w{number}"], [f"p{number}"]))
        nodes.append(helper.make_node("Relu", [f"p{number}"], [f"r{number}"], name=f"layer{number + 1}"))
        last = f"r{number}"
    return _model(f"perceptron-{'-'.join(map(str, widths))}", nodes, ["N", tokens, widths[0]], last, weights)


def _convolutions(name: str, layers: Sequence[tuple[int, int, int, int, int]], image: int) -> onnx.ModelProto:
    """Convolutions with ReLU, padded so that a stride of 1 keeps the size.

    Of each input and output channels, stride, window and groups.
    """
    generator = np.random.default_rng(18)
    nodes, weights, last = [], [], "x"
    for number, (c, m, step, side, groups) in enumerate(layers):
        each = c // groups
        w = generator.standard_normal((m, each, side, side)) * np.sqrt(2 / (side * side * each))
        bias = 0.1 * generator.standard_normal(m)
        weights.append(numpy_helper.from_array(w.astype(np.float32), f"w{number}"))
        weights.append(numpy_helper.from_array(bias.astype(np.float32), f"b{number}"))
        options: dict[str, Any] = {"kernel_shape": [side] * 2, "pads": [side // 2] * 4, "strides": [step] * 2}
        options["group"] = groups
        nodes.append(helper.make_node("Conv", [last, f"w{number}", f"b{number}"], [f"c{number}"], **options))
        nodes.append(helper.make_node("Relu", [f"c{number}"], [f"r{number}"], name=f"layer{number + 1}"))
        last = f"r{number}"
    return _model(name, nodes, ["N", layers[0][0], image, image], last, weights)


def bert_layer(tokens: int = 128, hidden: int = 768, heads: int = 12) -> onnx.ModelProto:
    """One layer of BERT-base's encoder on hidden states."""
    generator = np.random.default_rng(19)
    weights, nodes = [], []

    def constant(name: str, array: np.ndarray) -> str:
        weights.append(numpy_helper.from_array(array, name))
        return name

    def node(kind: str, inputs: Sequence[str], **options: Any) -> str:
        name = f"{kind.lower()}{len(nodes)}"
        nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **options))
        return name

    def linear(x: str, name: str, rows: int, columns: int) -> str:
        w = generator.standard_normal((rows, columns)) / np.sqrt(rows)
        product = node("MatMul", [x, constant(name, w.astype(np.float32))])
        bias = (0.1 * generator.standard_normal(columns)).astype(np.float32)
        return node("Add", [product, constant(f"{name}.bias", bias)])

    def norm(x: str, name: str) -> str:
        scale, bias = np.ones(hidden, np.float32), np.zeros(hidden, np.float32)
        parameters = [constant(f"{name}.scale", scale), constant(f"{name}.bias", bias)]
        return node("LayerNormalization", [x, *parameters], epsilon=1e-12)

    split = constant("split", np.array([0, tokens, heads, hidden // heads]))
    q, k, v = (
        node("Transpose", [node("Reshape", [linear("x", name, hidden, hidden), split])], perm=order)
        for name, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3]))
    )
    scores = node("Mul", [node("MatMul", [q, k]), constant("scale", np.array((hidden // heads) ** -0.5, np.float32))])
    context = node("Transpose", [node("MatMul", [node("Softmax", [scores], axis=-1), v])], perm=[0, 2, 1, 3])
    merged = node("Reshape", [context, constant("merge", np.array([0, tokens, hidden]))])
    first = norm(node("Add", [linear(merged, "out", hidden, hidden), "x"]), "norm1")
    inner = node("Gelu", [linear(first, "up", hidden, 4 * hidden)])
    last = norm(node("Add", [linear(inner, "down", 4 * hidden, hidden), first]), "norm2")
    return _model("bert-base-layer", nodes, ["N", tokens, hidden], last, weights)


def _model(name: str, nodes: list, shape: list, output: str, weights: list) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, name, inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    return onnx.shape_inference.infer_shapes(model)

"""Random chains of convolutions and of products, as ONNX."""

from itertools import pairwise
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ALWAYS = 1e9  # however often a product is computed
# Of every convolution of `chained`: channels made (0: depthwise), window, stride, and padding at each of the four ends.
INVERTED_RESIDUAL = ((96, (1, 1), (1, 1), (0,) * 4), (0, (3, 3), (2, 2), (1,) * 4), (24, (1, 1), (1, 1), (0,) * 4))
BOTTLENECK = ((64, (1, 1), (1, 1), (0,) * 4), (64, (3, 3), (1, 1), (1,) * 4), (128, (1, 1), (1, 1), (0,) * 4))


def convolutions(generator: np.random.Generator, count: int) -> onnx.ModelProto:
    """A chain of convolutions with random windows, strides, padding and dilation, on an image of a random size."""
    shape = [int(generator.integers(1, 9)), *(int(size) for size in generator.integers(9, 24, 2))]
    nodes, weights, last, channels = [], [], "x", shape[0]
    sizes = shape[1:]
    for number in range(count):
        window = [int(min(generator.choice([1, 2, 3, 5]), size)) for size in sizes]
        apart = [
            int(generator.integers(1, 3)) if size > 2 * one else 1 for one, size in zip(window, sizes, strict=True)
        ]
        strides = [int(step) for step in generator.integers(1, 3, 2)]
        pads = [int(generator.integers(0, one)) for one in (*window, *window)]
        made = int(generator.integers(2, 40))
        w = generator.standard_normal((made, channels, *window)) / np.sqrt(channels * np.prod(window))
        weights += [numpy_helper.from_array(w.astype(np.float32), f"w{number}")]
        weights += [numpy_helper.from_array(generator.standard_normal(made).astype(np.float32), f"b{number}")]
        options: dict[str, Any] = {"kernel_shape": window, "dilations": apart, "strides": strides, "pads": pads}
        nodes.append(helper.make_node("Conv", [last, f"w{number}", f"b{number}"], [f"c{number}"], **options))
        nodes.append(helper.make_node("Relu", [f"c{number}"], [f"r{number}"]))
        last, channels = f"r{number}", made
        reach = [(one - 1) * step + 1 for one, step in zip(window, apart, strict=True)]
        padded = [size + pads[axis] + pads[axis + 2] for axis, size in enumerate(sizes)]
        sizes = [(size - far) // step + 1 for size, far, step in zip(padded, reach, strides, strict=True)]
    return model_of(nodes, ["N", *shape], last, weights)


def products(generator: np.random.Generator, count: int) -> onnx.ModelProto:
    """A chain of matrix products of ragged sizes with GELU or a residual between them."""
    rows, width = (int(size) for size in generator.integers(3, 90, 2))
    nodes, weights, last, first = [], [], "x", width
    for number in range(count):
        made = first if number == count - 1 else int(generator.integers(3, 120))
        w = generator.standard_normal((width, made)) / np.sqrt(width)
        weights.append(numpy_helper.from_array(w.astype(np.float32), f"w{number}"))
        nodes.append(helper.make_node("MatMul", [last, f"w{number}"], [f"p{number}"]))
        nodes.append(helper.make_node("Tanh", [f"p{number}"], [f"t{number}"]))
        last, width = f"t{number}", made
    nodes.append(helper.make_node("Add", [last, "x"], ["y"]))
    return model_of(nodes, ["N", rows, first], "y", weights)


def chained(layers, size=(13, 18), channels=9) -> onnx.ModelProto:
    """Convolutions with a clip after each, as MobileNet has, and what came in added to what leaves, where that fits."""
    generator = np.random.default_rng([len(layers), *size])
    first, nodes, weights, last = channels, [], [], "x"
    for number, (made, window, strides, pads) in enumerate(layers):
        group, made = (channels, channels) if made == 0 else (1, made)
        w = generator.standard_normal((made, channels // group, *window)) / np.sqrt(channels / group * np.prod(window))
        weights.append(numpy_helper.from_array(w.astype(np.float32), f"w{number}"))
        weights.append(numpy_helper.from_array(generator.standard_normal(made).astype(np.float32), f"b{number}"))
        options = {"kernel_shape": window, "strides": strides, "pads": pads, "group": group}
        nodes.append(helper.make_node("Conv", [last, f"w{number}", f"b{number}"], [f"c{number}"], **options))
        nodes.append(helper.make_node("Clip", [f"c{number}", "low", "high"], [f"r{number}"]))
        last, channels = f"r{number}", made
    weights += [
        numpy_helper.from_array(np.array(value, np.float32), name) for name, value in (("low", -1.5), ("high", 6))
    ]
    if channels == first and all(strides == (1, 1) for _, _, strides, _ in layers):
        nodes.append(helper.make_node("Add", [last, "x"], ["y"]))
        last = "y"
    return model_of(nodes, ["N", first, *size], last, weights)


def perceptron(widths, rows=37) -> onnx.ModelProto:
    """Matrix products with GELU between them."""
    generator = np.random.default_rng(list(widths))
    nodes, weights, last = [], [], "x"
    for number, (k, n) in enumerate(pairwise(widths)):
        w = generator.standard_normal((k, n)) / np.sqrt(k)
        weights.append(numpy_helper.from_array(w.astype(np.float32), f"w{number}"))
        nodes.append(helper.make_node("MatMul", [last, f"w{number}"], [f"p{number}"]))
        nodes.append(helper.make_node("Gelu", [f"p{number}"], [f"g{number}"]))
        last = f"g{number}"
    return model_of(nodes, ["N", rows, widths[0]], last, weights, opset=20)


def model_of(nodes: list, shape: list, output: str, weights: list, opset: int = 17) -> onnx.ModelProto:
    """A network of one input x."""
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "chain", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)

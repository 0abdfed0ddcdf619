"""Small networks that onnxruntime quantises: a residual network of convolutions, and a transformer layer."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static


class _Writer:
    """A network while it is written; weights are the same in each run."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def constant(self, value) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def weight(self, *shape: int, deviation: float) -> str:
        drawn = np.random.default_rng(len(self.weights)).standard_normal(shape) * deviation
        return self.constant(drawn.astype(np.float32))

    def node(self, op_type: str, *operands: str, **attributes) -> str:
        name = f"{op_type.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, operands, [name], name=name, **attributes))
        return name

    def model(self, name: str, shape: tuple[int, ...], output: str, shape_out: tuple[int, ...]) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            name,
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *shape])],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["N", *shape_out])],
            self.weights,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def residual_network() -> onnx.ModelProto:
    """Convolutions with bias and ReLU, a pool, two residual additions, a mean and a product: [N, 3, 12, 12] to 10."""
    net = _Writer()

    def conv(x: str, inputs: int, outputs: int, kernel: int, *, stride: int = 1, relu: bool = True) -> str:
        weight = net.weight(outputs, inputs, kernel, kernel, deviation=(2 / inputs) ** 0.5 / kernel)
        bias = net.weight(outputs, deviation=0.1)
        settings = {"strides": [stride, stride], "pads": [kernel // 2] * 4, "kernel_shape": [kernel, kernel]}
        x = net.node("Conv", x, weight, bias, **settings)
        return net.node("Relu", x) if relu else x

    x = net.node("MaxPool", conv("x", 3, 16, 3), kernel_shape=[2, 2], strides=[2, 2])
    x = net.node("Relu", net.node("Add", x, conv(conv(x, 16, 16, 3), 16, 16, 3, relu=False)))
    y = conv(conv(x, 16, 32, 3, stride=2), 32, 32, 3, relu=False)
    x = net.node("Relu", net.node("Add", conv(x, 16, 32, 1, stride=2, relu=False), y))
    x = net.node("Flatten", net.node("GlobalAveragePool", x))
    x = net.node("Gemm", x, net.weight(10, 32, deviation=0.2), net.weight(10, deviation=0.1), transB=1)
    return net.model("residual", (3, 12, 12), x, (10,))


def transformer_layer(tokens: int = 8, width: int = 32, heads: int = 4) -> onnx.ModelProto:
    """Attention and two products with a GELU between them, each behind a layer norm and added to what it reads."""
    net = _Writer()
    split = net.constant(np.array([0, tokens, heads, width // heads], np.int64))
    merged = net.constant(np.array([0, tokens, width], np.int64))

    def product(x: str, inputs: int, outputs: int) -> str:
        weight, bias = net.weight(inputs, outputs, deviation=inputs**-0.5), net.weight(outputs, deviation=0.1)
        return net.node("Add", net.node("MatMul", x, weight), bias)

    def norm(x: str) -> str:
        return net.node("LayerNormalization", x, net.weight(width, deviation=1.0), net.weight(width, deviation=0.1))

    def head(x: str, order: list[int]) -> str:
        return net.node("Transpose", net.node("Reshape", product(x, width, width), split), perm=order)

    x = norm("x")
    scores = net.node("MatMul", head(x, [0, 2, 1, 3]), head(x, [0, 2, 3, 1]))
    scaled = net.node("Mul", scores, net.constant(np.float32((width // heads) ** -0.5)))
    mixed = net.node("MatMul", net.node("Softmax", scaled, axis=-1), head(x, [0, 2, 1, 3]))
    mixed = net.node("Reshape", net.node("Transpose", mixed, perm=[0, 2, 1, 3]), merged)
    x = net.node("Add", "x", product(mixed, width, width))
    y = product(norm(x), width, 2 * width)
    curve = net.node("Erf", net.node("Div", y, net.constant(np.float32(2**0.5))))
    y = net.node(
        "Mul", net.node("Mul", y, net.node("Add", curve, net.constant(np.float32(1)))), net.constant(np.float32(0.5))
    )
    x = net.node("Add", x, product(y, 2 * width, width))
    return net.model("transformer", (tokens, width), x, (tokens, width))


class _Calibration(CalibrationDataReader):
    """Three samples of two."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        draw = np.random.default_rng(0)
        self._feeds = iter([{"x": draw.standard_normal((2, *shape)).astype(np.float32)} for _ in range(3)])

    def get_next(self):
        return next(self._feeds, None)


def quantised_while_it_runs(model: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    """The network with int8 weights, as onnxruntime quantises it for scales that follow from each input."""
    onnx.save(model, folder / "real.onnx")
    quantize_dynamic(folder / "real.onnx", folder / "quantised.onnx", weight_type=QuantType.QInt8)
    return onnx.load(folder / "quantised.onnx")


def quantised(model: onnx.ModelProto, folder: Path, *, activations: QuantType, per_channel: bool) -> onnx.ModelProto:
    """The network as onnxruntime quantises it, with int8 weights, in its QDQ format."""
    shape = tuple(dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim[1:])
    onnx.save(model, folder / "real.onnx")
    quantize_static(
        folder / "real.onnx",
        folder / "quantised.onnx",
        _Calibration(shape),
        quant_format=QuantFormat.QDQ,
        per_channel=per_channel,
        activation_type=activations,
        weight_type=QuantType.QInt8,
    )
    return onnx.load(folder / "quantised.onnx")

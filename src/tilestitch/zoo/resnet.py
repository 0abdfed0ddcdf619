"""Residual networks for images, with convolution and batch normalisation as separate nodes."""

from dataclasses import dataclass, replace
from math import sqrt

import onnx

from tilestitch.zoo.builder import BATCH, GraphBuilder, Normal, Uniform

_OPSET = 20
_RESIDUAL_SCALE = 0.25  # on the last normalisation of each branch, so that 16 additions keep the activations small


@dataclass(frozen=True, slots=True)
class ResNet:
    """The size of a residual network."""

    name: str
    blocks: tuple[int, ...]  # per stage
    bottleneck: bool  # 1x1, 3x3, 1x1 convolutions with four times the channels out, instead of two 3x3
    channels: int = 64  # after the stem; each later stage has twice as many
    image_size: int = 224
    classes: int = 1000

    @property
    def expansion(self) -> int:
        """Output channels of a block per channel of its 3x3 convolution."""
        return 4 if self.bottleneck else 1

    def reduced(self) -> "ResNet":
        """The same blocks with an eighth of the channels, on images of 32x32, for fast tests."""
        return replace(self, name=f"{self.name}-small", channels=self.channels // 8, image_size=32, classes=10)


def resnet_graph(options: ResNet) -> GraphBuilder:
    """Write the network: `image` [N, 3, size, size] to `logits` [N, classes].

    Source: He et al., Deep Residual Learning, CVPR 2016, table 1; version 1.5, in which the 3x3 convolution of a
    bottleneck carries the stride. Names and padding are those of the common PyTorch implementation.
    """
    graph = GraphBuilder(options.name, network=options.name, opset=_OPSET)
    size = options.image_size
    x = graph.input("image", onnx.TensorProto.FLOAT, (BATCH, 3, size, size))
    x = _convolution(graph, "conv1", x, 3, options.channels, kernel=7, stride=2)
    x = graph.node("Relu", "relu", (_normalisation(graph, "bn1", x, options.channels),))
    pool = {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}
    x = graph.node("MaxPool", "maxpool", (x,), pool)
    inputs = options.channels
    for stage, blocks in enumerate(options.blocks):
        channels = options.channels << stage
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            x = _block(graph, f"layer{stage + 1}.{block}", x, inputs, channels, stride, options)
            inputs = channels * options.expansion
    x = graph.node("Flatten", "flatten", (graph.node("GlobalAveragePool", "avgpool", (x,)),), {"axis": 1})
    weight = graph.weight("fc.weight", (options.classes, inputs), Normal(0.0, 1 / sqrt(inputs)))
    bias = graph.weight("fc.bias", (options.classes,), Normal(0.0, 0.1))
    x = graph.node("Gemm", "fc", (x, weight, bias), {"transB": 1})
    graph.output("logits", x, (BATCH, options.classes))
    return graph


def _block(graph: GraphBuilder, name: str, x: str, inputs: int, channels: int, stride: int, options: ResNet) -> str:
    """One residual block; the shortcut is a 1x1 convolution where the shape changes."""
    outputs = channels * options.expansion
    kernels = (1, 3, 1) if options.bottleneck else (3, 3)
    strides = (1, stride, 1) if options.bottleneck else (stride, 1)
    widths = (channels, channels, outputs) if options.bottleneck else (channels, outputs)
    y, width = x, inputs
    for number, (kernel, step, wider) in enumerate(zip(kernels, strides, widths, strict=True), start=1):
        last = number == len(kernels)
        y = _convolution(graph, f"{name}.conv{number}", y, width, wider, kernel=kernel, stride=step)
        y = _normalisation(graph, f"{name}.bn{number}", y, wider, scale=_RESIDUAL_SCALE if last else 1.0)
        if not last:
            y = graph.node("Relu", f"{name}.relu{number}", (y,))
        width = wider
    if stride != 1 or inputs != outputs:
        x = _convolution(graph, f"{name}.downsample.0", x, inputs, outputs, kernel=1, stride=stride)
        x = _normalisation(graph, f"{name}.downsample.1", x, outputs)
    return graph.node("Relu", f"{name}.relu", (graph.node("Add", f"{name}.add", (y, x)),))


def _convolution(graph: GraphBuilder, name: str, x: str, inputs: int, outputs: int, *, kernel: int, stride: int) -> str:
    """A square convolution without bias, padded so that stride 1 keeps the size.

    Weights have variance 2 / fan-in, which keeps the variance of activations through convolution and ReLU.

    Source: He et al., Delving Deep into Rectifiers, ICCV 2015, equation 10.
    """
    deviation = sqrt(2 / (inputs * kernel * kernel))
    weight = graph.weight(f"{name}.weight", (outputs, inputs, kernel, kernel), Normal(0.0, deviation))
    attributes = {
        "kernel_shape": (kernel, kernel),
        "strides": (stride, stride),
        "pads": (kernel // 2,) * 4,
        "dilations": (1, 1),
        "group": 1,
    }
    return graph.node("Conv", name, (x, weight), attributes)


def _normalisation(graph: GraphBuilder, name: str, x: str, channels: int, *, scale: float = 1.0) -> str:
    """Batch normalisation with fixed statistics."""
    parameters = (
        graph.weight(f"{name}.weight", (channels,), Uniform(0.5 * scale, scale)),
        graph.weight(f"{name}.bias", (channels,), Normal(0.0, 0.1)),
        graph.weight(f"{name}.running_mean", (channels,), Normal(0.0, 0.1)),
        graph.weight(f"{name}.running_var", (channels,), Uniform(0.5, 1.5)),
    )
    return graph.node("BatchNormalization", name, (x, *parameters), {"epsilon": 1e-5})

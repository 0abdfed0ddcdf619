"""U-Net: down through convolutions and pools, up through transposed convolutions, joined at each level."""

from dataclasses import dataclass, replace
from math import sqrt

import onnx

from tilestitch.zoo.builder import BATCH, GraphBuilder, Normal
from tilestitch.zoo.layers import CENTRED, PLAIN, VARIANCE_KEPT, Conv, batch_norm, convolution, max_pool

_OPSET = 20


@dataclass(frozen=True, slots=True)
class UNet:
    """The size of a U-Net; the defaults are half of the published width."""

    name: str = "unet"
    levels: int = 4  # at which the image is halved
    features: int = 32  # channels of the first level; each deeper one has twice as many
    channels: int = 3
    classes: int = 1
    image_size: int = 256

    def reduced(self) -> "UNet":
        """The same levels with a quarter of the channels, on images of 32x32."""
        return replace(self, name=f"{self.name}-small", features=self.features // 4, image_size=32)

    def graph(self) -> GraphBuilder:
        """Write `image` [N, channels, size, size] to `mask` [N, classes, size, size], a probability per pixel.

        Source: Ronneberger et al., U-Net, MICCAI 2015, figure 1; with padded convolutions and batch normalisation, as
        in the common PyTorch implementation for brain images.
        """
        graph = GraphBuilder(self.name, network=self.name, opset=_OPSET)
        size = self.image_size
        x = graph.input("image", onnx.TensorProto.FLOAT, (BATCH, self.channels, size, size))
        inputs, kept = self.channels, []
        for level in range(self.levels):
            width = self.features << level
            x = _pair(graph, f"encoder{level + 1}", x, inputs, width)
            kept.append(x)
            x = max_pool(graph, f"pool{level + 1}", x, kernel=2, stride=2)
            inputs = width
        x = _pair(graph, "bottleneck", x, inputs, 2 * inputs)
        for level in reversed(range(self.levels)):
            width = self.features << level
            x = _doubled(graph, f"upconv{level + 1}", x, 2 * width, width)
            x = graph.node("Concat", f"concat{level + 1}", (x, kept[level]), {"axis": 1})
            x = _pair(graph, f"decoder{level + 1}", x, 2 * width, width)
        x = convolution(graph, "conv", x, self.features, self.classes, Conv(1), bias=True, filters=PLAIN)
        graph.output("mask", graph.node("Sigmoid", "sigmoid", (x,)), (BATCH, self.classes, size, size))
        return graph


def _pair(graph: GraphBuilder, name: str, x: str, inputs: int, outputs: int) -> str:
    """Two convolutions, each with batch normalisation and ReLU."""
    for number, width in ((1, inputs), (2, outputs)):
        x = convolution(graph, f"{name}.conv{number}", x, width, outputs, Conv(3), filters=CENTRED)
        x = graph.node(
            "Relu",
            f"{name}.relu{number}",
            (batch_norm(graph, f"{name}.norm{number}", x, outputs, scale=VARIANCE_KEPT),),
        )
    return x


def _doubled(graph: GraphBuilder, name: str, x: str, inputs: int, outputs: int) -> str:
    """A transposed convolution that doubles both sides: each pixel becomes four."""
    weight = graph.weight(f"{name}.weight", (inputs, outputs, 2, 2), Normal(0.0, 1 / sqrt(inputs)))
    bias = graph.weight(f"{name}.bias", (outputs,), Normal(0.0, 0.1))
    attributes = {"kernel_shape": (2, 2), "strides": (2, 2), "pads": (0,) * 4, "dilations": (1, 1), "group": 1}
    return graph.node("ConvTranspose", name, (x, weight, bias), attributes)

"""DenseNet: every layer reads the outputs of all earlier layers of its block."""

from dataclasses import dataclass, replace

import onnx

from tilestitch.zoo.builder import BATCH, GraphBuilder
from tilestitch.zoo.layers import CENTRED, VARIANCE_KEPT, Conv, batch_norm, convolution, max_pool, pooled_classifier

_OPSET = 20
_BOTTLENECK = 4  # channels of a layer's 1x1 convolution, in units of the growth


@dataclass(frozen=True, slots=True)
class DenseNet:
    """The size of a DenseNet."""

    name: str
    blocks: tuple[int, ...]  # layers of each
    growth: int = 32  # channels that each layer adds
    channels: int = 64  # after the stem
    image_size: int = 224
    classes: int = 1000

    def reduced(self) -> "DenseNet":
        """The same layers with an eighth of the channels, on images of 32x32."""
        name = f"{self.name}-small"
        return replace(self, name=name, growth=self.growth // 8, channels=self.channels // 8, image_size=32, classes=10)

    def graph(self) -> GraphBuilder:
        """Write `image` [N, 3, size, size] to `logits` [N, classes].

        Source: Huang et al., Densely Connected Convolutional Networks, CVPR 2017, table 1: with bottlenecks, and half
        of the channels after each block but the last. Names are those of the common PyTorch implementation.
        """
        graph = GraphBuilder(self.name, network=self.name, opset=_OPSET)
        x = graph.input("image", onnx.TensorProto.FLOAT, (BATCH, 3, self.image_size, self.image_size))
        x = convolution(graph, "conv0", x, 3, self.channels, Conv(7, stride=2))
        x = graph.node("Relu", "relu0", (batch_norm(graph, "norm0", x, self.channels, scale=VARIANCE_KEPT),))
        x = max_pool(graph, "pool0", x, kernel=3, stride=2, pad=1)
        channels = self.channels
        for number, layers in enumerate(self.blocks, start=1):
            x = _block(graph, f"denseblock{number}", x, channels, layers, self.growth)
            channels += layers * self.growth
            if number < len(self.blocks):
                x = _activated(graph, f"transition{number}.conv", x, channels, channels // 2, kernel=1)
                pool = {"kernel_shape": (2, 2), "strides": (2, 2)}
                x = graph.node("AveragePool", f"transition{number}.pool", (x,), pool)
                channels //= 2
        x = graph.node("Relu", "relu5", (batch_norm(graph, "norm5", x, channels, scale=VARIANCE_KEPT),))
        x = pooled_classifier(graph, x, channels, self.classes, name="classifier", filters=CENTRED)
        graph.output("logits", x, (BATCH, self.classes))
        return graph


def _block(graph: GraphBuilder, name: str, x: str, channels: int, layers: int, growth: int) -> str:
    """Layers that each add `growth` channels to all that is there; returns the concatenation of everything."""
    features = [x]
    for number in range(1, layers + 1):
        layer = f"{name}.denselayer{number}"
        y = x if number == 1 else graph.node("Concat", f"{layer}.concat", tuple(features), {"axis": 1})
        y = _activated(graph, f"{layer}.conv1", y, channels, _BOTTLENECK * growth, kernel=1)
        y = _activated(graph, f"{layer}.conv2", y, _BOTTLENECK * growth, growth, kernel=3)
        features.append(y)
        channels += growth
    return graph.node("Concat", f"{name}.concat", tuple(features), {"axis": 1})


def _activated(graph: GraphBuilder, name: str, x: str, inputs: int, outputs: int, *, kernel: int) -> str:
    """Batch normalisation and ReLU in front of a convolution."""
    x = graph.node("Relu", f"{name}.relu", (batch_norm(graph, f"{name}.norm", x, inputs, scale=VARIANCE_KEPT),))
    return convolution(graph, name, x, inputs, outputs, Conv(kernel), filters=CENTRED)

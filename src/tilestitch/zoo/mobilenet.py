"""MobileNet-v2: inverted residual blocks, with depthwise convolutions."""

from dataclasses import dataclass, replace

import onnx

from tilestitch.zoo.builder import BATCH, GraphBuilder
from tilestitch.zoo.layers import (
    CENTRED,
    PLAIN,
    VARIANCE_KEPT,
    Conv,
    Filters,
    batch_norm,
    convolution,
    pooled_classifier,
)

_OPSET = 20
_RESIDUAL_SCALE = 0.6  # on the last normalisation of a block that is added to its input
# expansion, output channels, blocks, stride of the first
_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
_STEM, _HEAD = 32, 1280


@dataclass(frozen=True, slots=True)
class MobileNetV2:
    """The size of a MobileNet-v2; all numbers of channels are divided by `divisor`."""

    name: str = "mobilenet-v2"
    divisor: int = 1
    image_size: int = 224
    classes: int = 1000

    def reduced(self) -> "MobileNetV2":
        """The same blocks with a quarter of the channels, on images of 32x32."""
        return replace(self, name=f"{self.name}-small", divisor=4, image_size=32, classes=10)

    def graph(self) -> GraphBuilder:
        """Write `image` [N, 3, size, size] to `logits` [N, classes].

        Source: Sandler et al., MobileNetV2, CVPR 2018, tables 1 and 2. Names and padding are those of the common
        PyTorch implementation.
        """
        graph = GraphBuilder(self.name, network=self.name, opset=_OPSET)
        x = graph.input("image", onnx.TensorProto.FLOAT, (BATCH, 3, self.image_size, self.image_size))
        channels = _STEM // self.divisor
        x = _layer(graph, "features.0", x, 3, channels, Conv(3, stride=2), filters=PLAIN)
        number = 0
        for expansion, width, blocks, first_stride in _STAGES:
            for block in range(blocks):
                number += 1
                stride = first_stride if block == 0 else 1
                name, outputs = f"features.{number}", width // self.divisor
                x = _block(graph, name, x, channels, outputs, expansion=expansion, stride=stride)
                channels = outputs
        x = _layer(graph, f"features.{number + 1}", x, channels, _HEAD // self.divisor, Conv(1), filters=PLAIN)
        x = pooled_classifier(graph, x, _HEAD // self.divisor, self.classes, name="classifier.1", filters=CENTRED)
        graph.output("logits", x, (BATCH, self.classes))
        return graph


def _block(graph: GraphBuilder, name: str, x: str, inputs: int, outputs: int, *, expansion: int, stride: int) -> str:
    """Expand, filter each channel, project without activation; added to the input where the shapes agree."""
    added = stride == 1 and inputs == outputs
    hidden, y = expansion * inputs, x
    if expansion > 1:
        y = _layer(graph, f"{name}.expand", y, inputs, hidden, Conv(1), filters=PLAIN)
    y = _layer(graph, f"{name}.depthwise", y, hidden, hidden, Conv(3, stride=stride, group=hidden))
    y = convolution(graph, f"{name}.project", y, hidden, outputs, Conv(1), filters=CENTRED)
    y = batch_norm(graph, f"{name}.project.bn", y, outputs, scale=_RESIDUAL_SCALE if added else VARIANCE_KEPT)
    return graph.node("Add", f"{name}.add", (x, y)) if added else y


def _layer(
    graph: GraphBuilder,
    name: str,
    x: str,
    inputs: int,
    outputs: int,
    conv: Conv,
    *,
    filters: Filters = CENTRED,
) -> str:
    """Convolution, batch normalisation and ReLU up to 6."""
    x = convolution(graph, name, x, inputs, outputs, conv, filters=filters)
    x = batch_norm(graph, f"{name}.bn", x, outputs, scale=VARIANCE_KEPT)
    return graph.node("Clip", f"{name}.relu6", (x, graph.scalar("zero", 0.0), graph.scalar("six", 6.0)))

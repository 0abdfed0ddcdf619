"""Residual networks for images, with convolution and batch normalisation as separate nodes."""

from dataclasses import dataclass, replace

import onnx

from tilestitch.zoo.builder import BATCH, GraphBuilder
from tilestitch.zoo.layers import Conv, batch_norm, convolution, max_pool, pooled_classifier

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

    def graph(self) -> GraphBuilder:
        """Write the network: `image` [N, 3, size, size] to `logits` [N, classes].

        Source: He et al., Deep Residual Learning, CVPR 2016, table 1; version 1.5, in which the 3x3 convolution of a
        bottleneck carries the stride. Names and padding are those of the common PyTorch implementation.
        """
        graph = GraphBuilder(self.name, network=self.name, opset=_OPSET)
        size = self.image_size
        x = graph.input("image", onnx.TensorProto.FLOAT, (BATCH, 3, size, size))
        x = convolution(graph, "conv1", x, 3, self.channels, Conv(7, stride=2))
        x = graph.node("Relu", "relu", (batch_norm(graph, "bn1", x, self.channels),))
        x = max_pool(graph, "maxpool", x, kernel=3, stride=2, pad=1)
        inputs = self.channels
        for stage, blocks in enumerate(self.blocks):
            channels = self.channels << stage
            for block in range(blocks):
                stride = 2 if stage > 0 and block == 0 else 1
                x = _block(graph, f"layer{stage + 1}.{block}", x, inputs, channels, stride, self)
                inputs = channels * self.expansion
        x = pooled_classifier(graph, x, inputs, self.classes)
        graph.output("logits", x, (BATCH, self.classes))
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
        y = convolution(graph, f"{name}.conv{number}", y, width, wider, Conv(kernel, stride=step))
        y = batch_norm(graph, f"{name}.bn{number}", y, wider, scale=_RESIDUAL_SCALE if last else 1.0)
        if not last:
            y = graph.node("Relu", f"{name}.relu{number}", (y,))
        width = wider
    if stride != 1 or inputs != outputs:
        x = convolution(graph, f"{name}.downsample.0", x, inputs, outputs, Conv(1, stride=stride))
        x = batch_norm(graph, f"{name}.downsample.1", x, outputs)
    return graph.node("Relu", f"{name}.relu", (graph.node("Add", f"{name}.add", (y, x)),))

"""Networks without branches: AlexNet and VGG."""

from dataclasses import dataclass, replace
from math import prod

import onnx

from tilestitch.zoo.builder import BATCH, GraphBuilder
from tilestitch.zoo.layers import CENTRED, Conv, classifier, convolution, local_response_norm, max_pool

_OPSET = 20


@dataclass(frozen=True, slots=True)
class AlexNet:
    """The size of an AlexNet: five convolutions, three fully connected layers."""

    name: str = "alexnet"
    channels: tuple[int, ...] = (96, 256, 384, 384, 256)
    hidden: int = 4096
    image_size: int = 227
    classes: int = 1000

    def reduced(self) -> "AlexNet":
        """The same layers with an eighth of the channels, on images of 67x67."""
        channels = tuple(number // 8 for number in self.channels)
        return replace(self, name=f"{self.name}-small", channels=channels, hidden=64, image_size=67, classes=10)

    def graph(self) -> GraphBuilder:
        """Write `image` [N, 3, size, size] to `logits` [N, classes].

        Source: Krizhevsky et al., ImageNet Classification with Deep CNNs, NIPS 2012, section 3.5 and figure 2: two
        groups in the second, fourth and fifth convolution, normalisation behind the first two. The paper says 224x224;
        its own arithmetic needs 227x227.
        """
        graph = GraphBuilder(self.name, network=self.name, opset=_OPSET)
        size, inputs = self.image_size, 3
        x = graph.input("image", onnx.TensorProto.FLOAT, (BATCH, 3, size, size))
        kernels, groups = (11, 5, 3, 3, 3), (1, 2, 1, 2, 2)
        for i, (outputs, kernel, group) in enumerate(zip(self.channels, kernels, groups, strict=True), start=1):
            stride, pad = (4, 0) if i == 1 else (1, None)
            size = (size - kernel) // stride + 1 if pad == 0 else size
            x = convolution(
                graph,
                f"conv{i}",
                x,
                inputs,
                outputs,
                Conv(kernel, stride=stride, pad=pad, group=group),
                bias=True,
                filters=CENTRED,
            )
            x = graph.node("Relu", f"relu{i}", (x,))
            if i <= 2:
                x = local_response_norm(graph, f"norm{i}", x)
            if i in (1, 2, 5):
                x = max_pool(graph, f"pool{i}", x, kernel=3, stride=2)
                size = (size - 3) // 2 + 1
            inputs = outputs
        x = _fully_connected(graph, x, (inputs, size, size), self.hidden, self.classes)
        graph.output("logits", x, (BATCH, self.classes))
        return graph


@dataclass(frozen=True, slots=True)
class Vgg:
    """The size of a VGG network: convolutions 3x3 in stages, with a pool behind each stage."""

    name: str
    layers: tuple[int, ...]  # per stage
    channels: tuple[int, ...] = (64, 128, 256, 512, 512)
    hidden: int = 4096
    image_size: int = 224
    classes: int = 1000

    def reduced(self) -> "Vgg":
        """The same layers with an eighth of the channels, on images of 32x32."""
        channels = tuple(number // 8 for number in self.channels)
        return replace(self, name=f"{self.name}-small", channels=channels, hidden=64, image_size=32, classes=10)

    def graph(self) -> GraphBuilder:
        """Write `image` [N, 3, size, size] to `logits` [N, classes].

        Source: Simonyan and Zisserman, Very Deep Convolutional Networks, ICLR 2015, table 1.
        """
        graph = GraphBuilder(self.name, network=self.name, opset=_OPSET)
        size, inputs = self.image_size, 3
        x = graph.input("image", onnx.TensorProto.FLOAT, (BATCH, 3, size, size))
        for stage, (layers, outputs) in enumerate(zip(self.layers, self.channels, strict=True), start=1):
            for layer in range(1, layers + 1):
                x = convolution(graph, f"conv{stage}_{layer}", x, inputs, outputs, Conv(3), bias=True, filters=CENTRED)
                x = graph.node("Relu", f"relu{stage}_{layer}", (x,))
                inputs = outputs
            x = max_pool(graph, f"pool{stage}", x, kernel=2, stride=2)
            size //= 2
        x = _fully_connected(graph, x, (inputs, size, size), self.hidden, self.classes)
        graph.output("logits", x, (BATCH, self.classes))
        return graph


def _fully_connected(graph: GraphBuilder, x: str, shape: tuple[int, ...], hidden: int, classes: int) -> str:
    """Three layers on the flattened tensor."""
    x = graph.node("Flatten", "flatten", (x,), {"axis": 1})
    x = graph.node("Relu", "relu6", (classifier(graph, "fc6", x, prod(shape), hidden, filters=CENTRED),))
    x = graph.node("Relu", "relu7", (classifier(graph, "fc7", x, hidden, hidden, filters=CENTRED),))
    return classifier(graph, "fc8", x, hidden, classes, filters=CENTRED)

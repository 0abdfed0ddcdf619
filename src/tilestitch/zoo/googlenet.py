"""GoogLeNet: parallel convolutions of several sizes, joined along the channels."""

from dataclasses import dataclass, replace

import onnx

from tilestitch.zoo.builder import BATCH, GraphBuilder
from tilestitch.zoo.layers import CENTRED, Conv, convolution, local_response_norm, max_pool, pooled_classifier

_OPSET = 20
# per module: channels of 1x1; 3x3 after its reduction; 5x5 after its reduction; 1x1 after the pool
_STAGES = (
    (("3a", 64, 96, 128, 16, 32, 32), ("3b", 128, 128, 192, 32, 96, 64)),
    (
        ("4a", 192, 96, 208, 16, 48, 64),
        ("4b", 160, 112, 224, 24, 64, 64),
        ("4c", 128, 128, 256, 24, 64, 64),
        ("4d", 112, 144, 288, 32, 64, 64),
        ("4e", 256, 160, 320, 32, 128, 128),
    ),
    (("5a", 256, 160, 320, 32, 128, 128), ("5b", 384, 192, 384, 48, 128, 128)),
)
_STEM = (64, 64, 192)


@dataclass(frozen=True, slots=True)
class GoogLeNet:
    """The size of a GoogLeNet; all numbers of channels are divided by `divisor`."""

    name: str = "googlenet"
    divisor: int = 1
    image_size: int = 224
    classes: int = 1000

    def reduced(self) -> "GoogLeNet":
        """The same modules with a quarter of the channels, on images of 32x32."""
        return replace(self, name=f"{self.name}-small", divisor=4, image_size=32, classes=10)

    def graph(self) -> GraphBuilder:
        """Write `image` [N, 3, size, size] to `logits` [N, classes], without the classifiers that only train.

        Source: Szegedy et al., Going Deeper with Convolutions, CVPR 2015, table 1. Pools that halve round up, which
        gives the sizes of that table.
        """
        graph = GraphBuilder(self.name, network=self.name, opset=_OPSET)
        x = graph.input("image", onnx.TensorProto.FLOAT, (BATCH, 3, self.image_size, self.image_size))
        first, reduced, channels = (number // self.divisor for number in _STEM)
        x = _layer(graph, "conv1", x, 3, first, Conv(7, stride=2))
        x = max_pool(graph, "pool1", x, kernel=3, stride=2, up=True)
        x = local_response_norm(graph, "norm1", x)
        x = _layer(graph, "conv2.reduce", x, first, reduced, Conv(1))
        x = _layer(graph, "conv2", x, reduced, channels, Conv(3))
        x = local_response_norm(graph, "norm2", x)
        for number, stage in enumerate(_STAGES, start=2):
            x = max_pool(graph, f"pool{number}", x, kernel=3, stride=2, up=True)
            for name, *sizes in stage:
                widths = tuple(size // self.divisor for size in sizes)
                x, channels = _module(graph, f"inception{name}", x, channels, widths)
        x = pooled_classifier(graph, x, channels, self.classes, filters=CENTRED)
        graph.output("logits", x, (BATCH, self.classes))
        return graph


def _module(graph: GraphBuilder, name: str, x: str, inputs: int, widths: tuple[int, ...]) -> tuple[str, int]:
    """Four branches and their concatenation, with its number of channels."""
    one, three_reduced, three, five_reduced, five, pooled = widths
    branches = (
        _layer(graph, f"{name}.1x1", x, inputs, one, Conv(1)),
        _reduced(graph, f"{name}.3x3", x, (inputs, three_reduced, three), kernel=3),
        _reduced(graph, f"{name}.5x5", x, (inputs, five_reduced, five), kernel=5),
        _layer(graph, f"{name}.pooled", _pool(graph, f"{name}.pool", x), inputs, pooled, Conv(1)),
    )
    return graph.node("Concat", f"{name}.concat", branches, {"axis": 1}), one + three + five + pooled


def _reduced(graph: GraphBuilder, name: str, x: str, widths: tuple[int, int, int], *, kernel: int) -> str:
    """A 1x1 convolution to fewer channels, then the convolution of the branch."""
    inputs, reduced, outputs = widths
    return _layer(
        graph, name, _layer(graph, f"{name}.reduce", x, inputs, reduced, Conv(1)), reduced, outputs, Conv(kernel)
    )


def _pool(graph: GraphBuilder, name: str, x: str) -> str:
    return max_pool(graph, name, x, kernel=3, stride=1, pad=1)


def _layer(graph: GraphBuilder, name: str, x: str, inputs: int, outputs: int, conv: Conv) -> str:
    """Convolution with bias, and ReLU."""
    x = convolution(graph, name, x, inputs, outputs, conv, bias=True, filters=CENTRED)
    return graph.node("Relu", f"{name}.relu", (x,))

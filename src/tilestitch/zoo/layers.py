"""Layers that several families of networks share: their nodes, and weights that keep activations at a natural size."""

from dataclasses import dataclass
from math import pi, prod, sqrt

from tilestitch.zoo.builder import GraphBuilder, Normal, Uniform


@dataclass(frozen=True, slots=True)
class Filters:
    """How the weights of an operator are drawn: with variance `gain` / fan-in, less a share of the mean per output."""

    gain: float
    centred: float = 0.0

    def values(self, fan_in: int) -> Normal:
        """The distribution for operators that add up `fan_in` products."""
        return Normal(0.0, sqrt(self.gain / fan_in), self.centred)


PLAIN = Filters(1.0)  # keep the variance of operands with mean 0
# Keep the mean square of what comes out of a ReLU. Source: He et al., Delving Deep into Rectifiers, ICCV 2015, eq. 10.
RECTIFIED = Filters(2.0)
# The same, but a quarter of a row's mean is taken out, and with it 7/16 of what the mean of its operand contributes: of
# x with variance 1, relu(x) has the mean square 1/2, of which 1/(2 pi) is its mean's. With nothing taken out, all
# inputs give nearly the same output after twenty layers; with all of it, rounding errors grow by a fifth in each layer.
CENTRED = Filters(2 * pi / (pi - 7 / 16), centred=0.25)

VARIANCE_KEPT = 1.25  # as the scale of a batch normalisation, whose weights have a mean square of 0.58


@dataclass(frozen=True, slots=True)
class Conv:
    """Attributes of a convolution: square where `kernel` is a number; without `pad`, stride 1 keeps the size."""

    kernel: int | tuple[int, ...]
    stride: int = 1
    pad: int | None = None
    group: int = 1


def convolution(
    graph: GraphBuilder,
    name: str,
    x: str,
    inputs: int,
    outputs: int,
    conv: Conv,
    *,
    bias: bool = False,
    filters: Filters = RECTIFIED,
) -> str:
    """A convolution with weights of its own."""
    window = (conv.kernel, conv.kernel) if isinstance(conv.kernel, int) else conv.kernel
    channels = inputs // conv.group
    values = filters.values(channels * prod(window))
    operands = (x, graph.weight(f"{name}.weight", (outputs, channels, *window), values))
    if bias:
        operands += (graph.weight(f"{name}.bias", (outputs,), Normal(0.0, 0.1)),)
    attributes = {
        "kernel_shape": window,
        "strides": (conv.stride,) * len(window),
        "pads": 2 * tuple(extent // 2 if conv.pad is None else conv.pad for extent in window),
        "dilations": (1,) * len(window),
        "group": conv.group,
    }
    return graph.node("Conv", name, operands, attributes)


def batch_norm(graph: GraphBuilder, name: str, x: str, channels: int, *, scale: float = 1.0) -> str:
    """Batch normalisation with fixed statistics."""
    parameters = (
        graph.weight(f"{name}.weight", (channels,), Uniform(0.5 * scale, scale)),
        graph.weight(f"{name}.bias", (channels,), Normal(0.0, 0.1)),
        graph.weight(f"{name}.running_mean", (channels,), Normal(0.0, 0.1)),
        graph.weight(f"{name}.running_var", (channels,), Uniform(0.5, 1.5)),
    )
    return graph.node("BatchNormalization", name, (x, *parameters), {"epsilon": 1e-5})


def max_pool(
    graph: GraphBuilder, name: str, x: str, *, kernel: int, stride: int, pad: int = 0, up: bool = False
) -> str:
    """The largest of each square window; `up` lets the last window hang over the edge."""
    attributes = {"kernel_shape": (kernel, kernel), "strides": (stride, stride), "pads": (pad,) * 4}
    return graph.node("MaxPool", name, (x,), {**attributes, "ceil_mode": 1} if up else attributes)


def local_response_norm(graph: GraphBuilder, name: str, x: str) -> str:
    """Divide by a power of the sum of squares over five neighbouring channels.

    Source: Krizhevsky et al., NIPS 2012, section 3.3; bias 1 as in the Caffe models. Alpha is 10,000 times theirs:
    inputs here deviate by 1, not by about 100, and the squares should count as much.
    """
    return graph.node("LRN", name, (x,), {"size": 5, "alpha": 1.0, "beta": 0.75, "bias": 1.0})


def classifier(graph: GraphBuilder, name: str, x: str, inputs: int, outputs: int, *, filters: Filters = PLAIN) -> str:
    """A linear operator on matrices, with bias; its weight is stored transposed."""
    weight = graph.weight(f"{name}.weight", (outputs, inputs), filters.values(inputs))
    bias = graph.weight(f"{name}.bias", (outputs,), Normal(0.0, 0.1))
    return graph.node("Gemm", name, (x, weight, bias), {"transB": 1})


def pooled_classifier(
    graph: GraphBuilder,
    x: str,
    inputs: int,
    classes: int,
    *,
    name: str = "fc",
    filters: Filters = PLAIN,
) -> str:
    """The mean over all pixels, then a linear operator."""
    x = graph.node("Flatten", "flatten", (graph.node("GlobalAveragePool", "avgpool", (x,)),), {"axis": 1})
    return classifier(graph, name, x, inputs, classes, filters=filters)


def linear(graph: GraphBuilder, name: str, x: str, inputs: int, outputs: int, *, gain: float = 0.7) -> str:
    """MatMul and bias; the output deviates by about `gain` where the input deviates by 1.

    The weight is stored [inputs, outputs], as MatMul reads it.
    """
    weight = graph.weight(f"{name}.weight", (inputs, outputs), Normal(0.0, gain / sqrt(inputs)))
    bias = graph.weight(f"{name}.bias", (outputs,), Normal(0.0, 0.02))
    return graph.node("Add", name, (graph.node("MatMul", f"{name}.matmul", (x, weight)), bias))


def layer_norm(graph: GraphBuilder, name: str, x: str, channels: int, *, epsilon: float) -> str:
    """Normalise each token over its channels, then scale and shift."""
    weight, bias = norm_parameters(graph, name, channels)
    return graph.node("LayerNormalization", name, (x, weight, bias), {"axis": -1, "epsilon": epsilon})


def norm_parameters(graph: GraphBuilder, name: str, channels: int) -> tuple[str, str]:
    """Scale and shift of a layer normalisation."""
    weight = graph.weight(f"{name}.weight", (channels,), Uniform(0.8, 1.2))
    return weight, graph.weight(f"{name}.bias", (channels,), Normal(0.0, 0.05))


def split_heads(graph: GraphBuilder, name: str, x: str, heads: int, size: int, *, transposed: bool = False) -> str:
    """[N, tokens, heads * size] to [N, heads, tokens, size], or with the last two axes exchanged."""
    split = graph.node("Reshape", f"{name}.split", (x, graph.integers(f"split_{heads}_heads", (0, 0, heads, size))))
    return graph.node(
        "Transpose", f"{name}.transposed", (split,), {"perm": (0, 2, 3, 1) if transposed else (0, 2, 1, 3)}
    )


def merge_heads(graph: GraphBuilder, name: str, x: str, channels: int) -> str:
    """[N, heads, tokens, size] to [N, tokens, heads * size]."""
    x = graph.node("Transpose", f"{name}.transposed", (x,), {"perm": (0, 2, 1, 3)})
    return graph.node("Reshape", f"{name}.merged", (x, graph.integers("merge_heads", (0, 0, channels))))

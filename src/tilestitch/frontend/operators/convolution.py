"""Conv: sums of products over channels and a window."""

from dataclasses import dataclass

import numpy as np

from tilestitch.frontend.network import Node, Reading, Target, text_of
from tilestitch.frontend.operators.accesses import FIXED, Nest, along, axis
from tilestitch.frontend.operators.windows import kernel_loops, read_windows, spatial_loops
from tilestitch.ir.graph import Access, Attribute, Operator


def convolution(node: Node, network: Reading) -> None:
    """X [N, C, ...] and W [M, C/group, ...] to Y [N, M, ...], over one to three spatial axes."""
    convolve(node, network, ConvolutionOperands(node.inputs[0], node.inputs[1], node.operand(2)), node.target)


@dataclass(frozen=True, slots=True)
class ConvolutionOperands:
    """What a convolution reads, by name, and the value around its input."""

    x: str
    w: str
    bias: str | None = None
    padding: float = 0.0


def convolve(
    node: Node,
    network: Reading,
    given: ConvolutionOperands,
    target: Target,
    *,
    element_type: np.dtype | None = None,
    attributes: tuple[tuple[str, Attribute], ...] = (),
) -> str:
    """Group g reads channels (C/group) * g + c and writes channels (M/group) * g + m.

    A depthwise convolution has one channel per group on either side, so its nest has neither m nor c.
    """
    x_shape, w_shape = network.shape(given.x), network.shape(given.w)
    group = node.integer("group", 1)
    _check(node, x_shape, w_shape, group)
    windows = read_windows(node, x_shape[2:], w_shape[2:])
    outputs, inputs = w_shape[0] // group, w_shape[1]

    nest = Nest()
    n = nest.parallel("n", x_shape[0])
    g = nest.parallel("g", group) if group > 1 else None
    m = nest.parallel("m", outputs) if group == 1 or outputs > 1 else None
    positions = spatial_loops(nest, windows)
    c = nest.reduction("c", inputs) if group == 1 or inputs > 1 else None
    elements = kernel_loops(nest, windows)

    out_channel = axis((g, outputs), (m, 1))
    touched = (window.axis(o, k) for window, o, k in zip(windows, positions, elements, strict=True))
    reads = [
        Access(given.x, (*along(n), axis((g, inputs), (c, 1)), *touched), given.padding),
        Access(given.w, (out_channel, FIXED if c is None else axis((c, 1)), *along(*elements))),
    ]
    if given.bias is not None:
        if network.shape(given.bias) != (w_shape[0],):
            raise node.fault(
                f"bias '{given.bias}' has shape {text_of(network.shape(given.bias))}; expected [{w_shape[0]}], one "
                "value per output channel."
            )
        reads.append(Access(given.bias, (out_channel,)))
    write = Access(target.tensor, (*along(n), out_channel, *along(*positions)))
    shape = (x_shape[0], w_shape[0], *(window.count for window in windows))
    op = Operator(target.operator, "conv", nest.dims, tuple(reads), (write,), attributes)
    return network.emit(node, op, shape, element_type=element_type)


def _check(node: Node, x_shape: tuple[int, ...], w_shape: tuple[int, ...], group: int) -> None:
    found = f"input of shape {text_of(x_shape)}, weights of shape {text_of(w_shape)}, group={group}"
    if len(x_shape) < 3 or len(w_shape) != len(x_shape):
        raise node.fault(f"{found}; expected both of one rank, 3 or more.")
    if len(x_shape) > 5:
        raise node.not_covered(f"{found}; expected at most three spatial axes.")
    if group < 1 or w_shape[0] % group or x_shape[1] != w_shape[1] * group:
        raise node.fault(f"{found}; expected group * weights[1] input channels, and weights[0] a multiple of group.")
    kernel = node.integers("kernel_shape")
    if kernel is not None and kernel != w_shape[2:]:
        raise node.fault(f"attribute kernel_shape={text_of(kernel)}, but the weights have shape {text_of(w_shape)}.")

"""MaxUnpool: elements go back to where a pool found them."""

from math import prod

import numpy as np

from tilestitch.frontend.network import Node, Reading, text_of
from tilestitch.frontend.operators.accesses import FIXED, Nest, along, axis
from tilestitch.frontend.operators.elementwise import apply
from tilestitch.frontend.operators.padding import surround
from tilestitch.frontend.operators.shapes import regroup
from tilestitch.ir.graph import Access, Operator


def max_unpool(node: Node, network: Reading) -> None:
    """Elements at the places that a MaxPool found them, zeros elsewhere; another output_shape adds zeros at the end.

    Source: ONNX operator MaxUnpool: places count the elements of the result that the attributes give.
    """
    x, indices = node.inputs[:2]
    shape, kernel = network.shape(x), node.integers("kernel_shape") or ()
    rank = len(shape) - 2
    strides, pads = node.integers("strides") or (1,) * rank, node.integers("pads") or (0,) * (2 * rank)
    if rank < 1 or not len(kernel) == len(strides) == rank or len(pads) != 2 * rank or network.shape(indices) != shape:
        raise node.fault(
            f"operands of shapes {text_of(shape)} and {text_of(network.shape(indices))}, kernel_shape="
            f"{text_of(kernel)}, strides={text_of(strides)}, pads={text_of(pads)}; expected equal shapes, an extent "
            "and a stride for each spatial axis."
        )
    sizes = tuple((shape[2 + i] - 1) * strides[i] + kernel[i] - pads[i] - pads[rank + i] for i in range(rank))
    wanted = (*shape[:2], *sizes) if node.operand(2) is None else network.integers(node, 2, "output_shape")
    if (
        len(wanted) != len(shape)
        or wanted[:2] != shape[:2]
        or any(a < b for a, b in zip(wanted[2:], sizes, strict=True))
    ):
        raise node.fault(f"output_shape {text_of(wanted)}: expected at least {text_of((*shape[:2], *sizes))}.")

    batch, channels = shape[:2]
    inside, count = prod(shape[2:]), prod(sizes)
    network.afford(node, batch * channels + count)
    first = np.arange(batch * channels).reshape(batch, channels, 1) * count
    flat = (batch, channels, inside)
    x = regroup(node, network, "reshape", x, flat, network.step(node, "elements"))
    indices = regroup(node, network, "reshape", indices, flat, network.step(node, "indices"))
    begin = network.new_constant(node, "first", first.astype(network.element_type(indices)))
    indices = apply(node, network, "sub", (indices, begin), network.step(node, "places"))
    zero = network.new_constant(node, "zero", np.zeros(1, network.element_type(x)))
    numbers = network.new_constant(node, "numbers", np.arange(count))
    nest = Nest()
    n, c, place = nest.parallel("n", batch), nest.parallel("c", channels), nest.parallel("p", count)
    element = nest.reduction("e", inside)
    reads = (
        Access(zero, (FIXED,)),
        Access(indices, along(n, c, element)),
        Access(x, along(n, c, element)),
        Access(numbers, (axis((place, 1)),)),
    )
    target = network.step(node, "scattered")
    attributes = (("reduction", "none"), ("size", count))
    op = Operator(
        target.operator, "scatter", nest.dims, reads, (Access(target.tensor, along(n, c, place)),), attributes
    )
    x = network.emit(node, op, (batch, channels, count))
    natural = (batch, channels, *sizes)
    if wanted == natural:
        regroup(node, network, "reshape", x, natural, network.last_step(node, "image"))
        return
    x = regroup(node, network, "reshape", x, natural, network.step(node, "image"))
    surround(node, network, x, (0,) * len(wanted), wanted, 0.0, network.last_step(node, "padded"))

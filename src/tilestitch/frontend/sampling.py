"""Elements at computed places of an image: AffineGrid and MaxUnpool."""

from math import prod

import numpy as np

from tilestitch.frontend.accesses import FIXED, Nest, Shape, along, axis
from tilestitch.frontend.elementwise import apply
from tilestitch.frontend.network import Network, Node, text_of
from tilestitch.frontend.padding import surround
from tilestitch.frontend.shapes import regroup
from tilestitch.ir.graph import Access


def affine_grid(node: Node, network: Network) -> None:
    """Places in [-1, 1] that matrices [N, r, r + 1] send the elements of an image to: a product with its own places."""
    theta = node.inputs[0]
    shape, size = network.shape(theta), network.integers(node, 1, "size")
    sizes = size[2:]
    rank = len(sizes)
    if rank not in (2, 3) or shape != (size[0], rank, rank + 1) or min(size) < 1:
        raise node.fault(
            f"theta of shape {text_of(shape)}, size={text_of(size)}; expected [N, 2, 3] and [N, C, H, W], or "
            "[N, 3, 4] and [N, C, D, H, W]."
        )
    places = _own_places(sizes, align_corners=node.flag("align_corners"))
    base = network.new_constant(node, "places", places.astype(network.element_type(theta)))
    nest = Nest()
    n = nest.parallel("n", size[0])
    spatial = [nest.parallel(f"d{number}", extent) for number, extent in enumerate(sizes)]
    i = nest.parallel("i", rank)
    k = nest.reduction("k", rank + 1)
    reads = (Access(theta, along(n, i, k)), Access(base, along(*spatial, k)))
    write = Access(node.outputs[0], along(n, *spatial, i))
    network.emit(node, node.target, "matmul", nest.dims, reads, write, (size[0], *sizes, rank))


def _own_places(sizes: Shape, *, align_corners: bool) -> np.ndarray:
    """[..., r + 1]: the place of every element between -1 and 1, the last axis first, and a 1."""
    along_axes = []
    for extent in sizes:
        if align_corners:
            along_axes.append(np.linspace(1.0, -1.0, extent)[::-1])  # the only element lies at 1, as in onnxruntime
        else:
            along_axes.append((2 * np.arange(extent) + 1) / extent - 1)
    found = np.meshgrid(*along_axes, indexing="ij")
    return np.stack([*found[::-1], np.ones(sizes)], axis=-1)


def max_unpool(node: Node, network: Network) -> None:
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
    x = network.emit(
        node,
        target,
        "scatter",
        nest.dims,
        reads,
        Access(target.tensor, along(n, c, place)),
        (batch, channels, count),
        attributes=attributes,
    )
    natural = (batch, channels, *sizes)
    if wanted == natural:
        regroup(node, network, "reshape", x, natural, network.last_step(node, "image"))
        return
    x = regroup(node, network, "reshape", x, natural, network.step(node, "image"))
    surround(node, network, x, (0,) * len(wanted), wanted, 0.0, network.last_step(node, "padded"))

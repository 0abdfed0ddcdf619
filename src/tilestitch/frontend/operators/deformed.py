"""DeformConv: a convolution whose windows see their image at coordinates that are moved by another operand."""

from itertools import product
from math import prod

import numpy as np

from tilestitch.frontend.element_types import INT64
from tilestitch.frontend.network import Node, Reading, text_of
from tilestitch.frontend.operators.accesses import FIXED, Nest, along, axis
from tilestitch.frontend.operators.sampling import add_up, fetch_elements, locate
from tilestitch.frontend.operators.shapes import regroup
from tilestitch.frontend.operators.windows import Window, read_windows
from tilestitch.ir.graph import Access, Attribute, Operator


def deformed_convolution(node: Node, network: Reading) -> None:
    """X [N, C, H, W], W [M, C/group, kh, kw], offsets [N, groups * kh * kw * 2, oh, ow], perhaps bias and mask.

    Each element of each window is seen between the four elements around it, then the windows are multiplied as in a
    convolution. Source: ONNX operator DeformConv, versions 19 to 22.
    """
    x, w, offset = node.inputs[:3]
    bias, mask = node.operand(3), node.operand(4)
    shape, weights = network.shape(x), network.shape(w)
    if len(shape) != 4:
        raise node.not_covered(f"input of shape {text_of(shape)}; expected two spatial axes.")
    group, parts = node.integer("group", 1), node.integer("offset_group", 1)
    node.ignore("kernel_shape")  # that of the weights
    fits = len(weights) == 4 and group > 0 and shape[1] == weights[1] * group and weights[0] % group == 0
    if not fits or parts < 1 or shape[1] % parts:
        raise node.fault(
            f"input of shape {text_of(shape)}, weights {text_of(weights)}, group={group}, offset_group={parts}; "
            "expected group * weights[1] channels, a multiple of offset_group."
        )
    windows = read_windows(node, shape[2:], weights[2:])
    counts = tuple(window.count for window in windows)
    elements = prod(weights[2:])
    for name, per in ((offset, 2), (mask, 1)):
        if name is not None and network.shape(name) != (shape[0], parts * elements * per, *counts):
            raise node.fault(
                f"operand '{name}' has shape {text_of(network.shape(name))}; expected "
                f"{text_of((shape[0], parts * elements * per, *counts))}."
            )
    if bias is not None and network.shape(bias) != weights[:1]:
        raise node.fault(f"bias '{bias}' has shape {text_of(network.shape(bias))}; expected {text_of(weights[:1])}.")
    seen = _seen(node, network, x, offset, mask, windows, parts)

    outputs, inputs = weights[0] // group, weights[1]
    nest = Nest()
    n = nest.parallel("n", shape[0])
    g, m = nest.parallel("g", group), nest.parallel("m", outputs)
    oh, ow = nest.parallel("oh", counts[0]), nest.parallel("ow", counts[1])
    c = nest.reduction("c", inputs)
    kh, kw = nest.reduction("kh", weights[2]), nest.reduction("kw", weights[3])
    channel = axis((g, outputs), (m, 1))
    reads = [
        Access(seen, (*along(n), axis((g, inputs), (c, 1)), *along(kh, kw, oh, ow))),
        Access(w, (channel, *along(c, kh, kw))),
    ]
    if bias is not None:
        reads.append(Access(bias, (channel,)))
    target = network.last_step(node, "products")
    write = Access(target.tensor, (*along(n), channel, *along(oh, ow)))
    op = Operator(target.operator, "matmul", nest.dims, tuple(reads), (write,))
    network.emit(node, op, (shape[0], weights[0], *counts))


def _seen(
    node: Node, network: Reading, x: str, offset: str, mask: str | None, windows: tuple[Window, ...], parts: int
) -> str:
    """What every element of every window sees: [N, C, kh, kw, oh, ow]."""
    shape = network.shape(x)
    kernel, counts = tuple(w.kernel for w in windows), tuple(w.count for w in windows)
    nest = Nest()
    n, part = nest.parallel("n", shape[0]), nest.parallel("g", parts)
    ks = [nest.parallel(name, extent) for name, extent in zip(("kh", "kw"), kernel, strict=True)]
    os = [nest.parallel(name, extent) for name, extent in zip(("oh", "ow"), counts, strict=True)]
    taps = np.asarray(list(product((0, 1), repeat=2)), np.int64)
    t = nest.parallel("t", len(taps))
    reads = []
    element = [(part, prod(kernel)), (ks[0], kernel[1]), (ks[1], 1)]
    for number, window in enumerate(windows):
        given = np.add.outer(window.dilation * np.arange(kernel[number]), window.stride * np.arange(counts[number]))
        base = network.new_constant(node, f"base{number}", given - window.pad_begin)
        moved = axis(*((dim, 2 * stride) for dim, stride in element), offset=number)
        reads += [
            Access(base, along(ks[number], os[number])),
            Access(offset, (*along(n), moved, *along(*os))),
            Access(network.new_constant(node, f"tap{number}", taps[:, number].copy()), along(t)),
        ]
    if mask is not None:
        reads.append(Access(mask, (*along(n), axis(*element), *along(*os))))
    attributes: tuple[tuple[str, Attribute], ...] = (("sizes", shape[2:]),)
    types = (INT64, network.element_type(x))
    numbers, shares = locate(node, network, "deformed_places", nest.dims, tuple(reads), types, attributes)
    data = regroup(node, network, "reshape", x, (*shape[:2], prod(shape[2:])), network.step(node, "elements"))

    nest = Nest()
    n, part = nest.parallel("n", shape[0]), nest.parallel("g", parts)
    c = nest.parallel("c", shape[1] // parts)
    rest = [nest.parallel(f"d{number}", extent) for number, extent in enumerate((*kernel, *counts))]
    t = nest.parallel("t", len(taps))
    channel = axis((part, shape[1] // parts), (c, 1))
    table = Access(data, (*along(n), channel, FIXED), indirect_axis=2)
    found = fetch_elements(node, network, nest, table, Access(numbers, along(n, part, *rest, t)))
    reads = (Access(found, along(n, part, c, *rest, t)), Access(shares, along(n, part, *rest, t)))
    written = (*along(n), channel, *along(*rest))
    return add_up(node, network, nest, reads, written, t, network.step(node, "seen"))

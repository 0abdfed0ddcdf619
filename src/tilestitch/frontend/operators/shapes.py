"""Views that keep every element: Reshape, Flatten, Transpose, Squeeze, Unsqueeze, Expand, Identity and Dropout."""

from math import prod

import numpy as np

from tilestitch.frontend.element_types import BOOL
from tilestitch.frontend.network import Node, Reading, Target, text_of
from tilestitch.frontend.operators.accesses import Nest, Shape, aligned, along, axis, broadcast, dims_of, straight
from tilestitch.frontend.rebatch import rebatched_extents
from tilestitch.ir.graph import Access, Axis, Operator


def identity(node: Node, network: Reading) -> None:
    """The same tensor under another name."""
    copy(node, network, node.inputs[0], node.target)


def copy(node: Node, network: Reading, x: str, target: Target, *, element_type: np.dtype | None = None) -> str:
    """An identity view, perhaps of another type that is stored alike."""
    shape = network.shape(x)
    reads, write = (straight(x, len(shape)),), straight(target.tensor, len(shape))
    op = Operator(target.operator, "identity", dims_of(shape), reads, (write,))
    return network.emit(node, op, shape, element_type=element_type)


def dropout(node: Node, network: Reading) -> None:
    """Nothing: only training drops anything. The mask is a constant: all is kept.

    Before opset 12 the standard leaves it unfilled, and onnxruntime gives zeros.
    """
    ratio = node.real("ratio", 0.5)
    node.ignore("seed")
    if node.operand(2) is not None and network.required_value(node, 2, "training_mode").any():
        if node.operand(1) is not None:
            ratio = network.scalar(node, 1, "ratio")
        if ratio != 0.0:
            raise node.fault("training_mode is true, and what is dropped is random; export the network for inference.")
    if node.needs(1):
        mask_type = network.element_type(node.inputs[0]) if node.opset < 10 else BOOL
        network.afford(node, prod(network.shape(node.inputs[0])))
        network.add_constant(node.outputs[1], np.full(network.shape(node.inputs[0]), node.opset >= 12, mask_type))
    if node.needs(0):
        identity(node, network)


def flatten(node: Node, network: Reading) -> None:
    """The axes before `axis` become one, and so do the others."""
    shape = network.shape(node.inputs[0])
    at = node.integer("axis", 1)
    if not -len(shape) <= at <= len(shape):
        raise node.fault(f"attribute axis={at} lies outside an operand of shape {text_of(shape)}.")
    at = at + len(shape) if at < 0 else at
    regroup(node, network, "flatten", node.inputs[0], (prod(shape[:at]), prod(shape[at:])), node.target)


def reshape(node: Node, network: Reading) -> None:
    """Other extents for the same elements in the same order: 0 keeps an extent, -1 takes what is left.

    In a network that is re-batched, the extents are those of the exported batch.
    """
    now = network.shape(node.inputs[0])
    shape = network.exported_shapes.get(node.inputs[0], now)
    wanted = network.integers(node, 1, "shape")
    zero_is_zero = node.flag("allowzero")
    asked = f"shape {text_of(wanted)} asked of an operand of shape {text_of(shape)}"
    extents = list(wanted)
    for number, extent in enumerate(wanted):
        if extent == 0 and not zero_is_zero:
            if number >= len(shape):
                raise node.fault(f"{asked}: there is no axis {number} whose extent the 0 could keep.")
            extents[number] = shape[number]
        if extent < -1:
            raise node.fault(f"{asked}: expected extents of at least 1, 0 to keep one, -1 for the remainder.")
    if wanted.count(-1) > 1:
        raise node.fault(f"{asked}: only one extent may be -1.")
    if -1 in wanted:
        others = -prod(extents)
        extents[wanted.index(-1)] = prod(shape) // others if others else 0
    if prod(extents) != prod(shape):
        raise node.fault(
            f"{asked}: {prod(shape):,} elements do not make {text_of(tuple(extents))}; the network may have been "
            "exported for another batch: export with a symbolic batch, or ask for the one it has."
        )
    result = rebatched_extents(tuple(extents), shape, now)
    regroup(node, network, "reshape", node.inputs[0], result, node.target)


def regroup(node: Node, network: Reading, kind: str, x: str, shape: Shape, target: Target) -> str:
    """The elements of `x` in the same order under another shape.

    The dims are the common refinement of both shapes. Where there is none ([6, 4] to [4, 6]), the axes that do not
    match are first merged into one, by a view of its own.
    """
    source = network.shape(x)
    if refinement(source, shape) is None:
        x = regroup(node, network, kind, x, merged(source, shape), network.step(node, "merged"))
        source = network.shape(x)
    found = refinement(source, shape)
    assert found is not None
    nest, read, written = found
    reads, write = (Access(x, read),), Access(target.tensor, written)
    op = Operator(target.operator, kind, nest.dims, reads, (write,))
    return network.emit(node, op, shape)


def refinement(source: Shape, result: Shape) -> tuple[Nest, tuple[Axis, ...], tuple[Axis, ...]] | None:
    """Dims of which each axis of both shapes is a product of consecutive ones, with the index of every axis.

    None where there are no such dims. Axes of extent 1 get a dim of their own where both shapes have one.
    """
    nest = Nest()
    read: list[list[int]] = [[] for _ in source]
    written: list[list[int]] = [[] for _ in result]
    i = j = 0
    while i < len(source) and j < len(result):
        left, right = source[i], result[j]  # what is still to cover of axes i and j
        if 1 in (left, right) and left != right:
            i, j = i + (left == 1), j + (right == 1)
            continue
        while True:
            extent = min(left, right)
            if left % extent or right % extent:
                return None
            dim = nest.parallel(f"d{len(nest.dims)}", extent)
            read[i].append(dim)
            written[j].append(dim)
            left, right = left // extent, right // extent
            if left == right == 1:
                break
            if left == 1:
                i = _next_axis(source, i)
                left = source[i]
            else:
                j = _next_axis(result, j)
                right = result[j]
        i, j = i + 1, j + 1

    def index(dims: list[int]) -> Axis:
        extents = [nest.dims[dim].extent for dim in dims]
        return axis(*((dim, prod(extents[number + 1 :])) for number, dim in enumerate(dims)))

    return nest, tuple(map(index, read)), tuple(map(index, written))


def _next_axis(shape: Shape, number: int) -> int:
    """The next axis of more than one element."""
    return next(i for i in range(number + 1, len(shape)) if shape[i] != 1)


def merged(source: Shape, result: Shape) -> Shape:
    """The finest shape of which both are refinements: equal groups of axes, each merged into one."""
    ends = {prod(result[: number + 1]) for number in range(len(result))}
    extents, product = [], 1
    for number, extent in enumerate(source):
        product *= extent
        if prod(source[: number + 1]) in ends:
            extents.append(product)
            product = 1
    return tuple(extents)


def transpose(node: Node, network: Reading) -> None:
    """The axes in another order, or reversed where none is given."""
    rank = len(network.shape(node.inputs[0]))
    order = node.integers("perm")
    order = tuple(reversed(range(rank))) if order is None else order
    if sorted(order) != list(range(rank)):
        raise node.fault(f"attribute perm={text_of(order)}: expected each of the {rank} axes once.")
    permute(node, network, node.inputs[0], order, node.target)


def permute(node: Node, network: Reading, x: str, order: tuple[int, ...], target: Target) -> str:
    """Axis i of the result is axis `order[i]` of `x`; the dims are in the order of the result."""
    source = network.shape(x)
    shape = tuple(source[number] for number in order)
    read = Access(x, along(*(order.index(number) for number in range(len(order)))))
    op = Operator(target.operator, "transpose", dims_of(shape), (read,), (straight(target.tensor, len(shape)),))
    return network.emit(node, op, shape)


def squeeze(node: Node, network: Reading) -> None:
    """Leave out axes of extent 1: those named, or all."""
    shape = network.shape(node.inputs[0])
    axes = _listed_axes(node, network)
    if not axes:  # an empty list is none, for onnxruntime too
        axes = tuple(number for number, extent in enumerate(shape) if extent == 1)
    axes = normalised_axes(node, axes, len(shape))
    for number in axes:
        if shape[number] != 1:
            raise node.fault(
                f"axis {number} of an operand of shape {text_of(shape)} cannot be removed: its extent is not 1."
            )
    result = tuple(extent for number, extent in enumerate(shape) if number not in axes)
    dims = iter(range(len(result)))
    read = Access(node.inputs[0], along(*(None if number in axes else next(dims) for number in range(len(shape)))))
    write = straight(node.outputs[0], len(result))
    op = Operator(node.name, "squeeze", dims_of(result), (read,), (write,))
    network.emit(node, op, result)


def unsqueeze(node: Node, network: Reading) -> None:
    """Insert axes of extent 1 at the places that they have in the result."""
    axes = _listed_axes(node, network) or ()
    axes = normalised_axes(node, axes, len(network.shape(node.inputs[0])) + len(axes))
    insert(node, network, node.inputs[0], axes, node.target)


def insert(node: Node, network: Reading, x: str, axes: tuple[int, ...], target: Target) -> str:
    """The same elements with axes of extent 1 at `axes` of the result."""
    shape = network.shape(x)
    extents, dims = iter(shape), iter(range(len(shape)))
    numbers = range(len(shape) + len(axes))
    result = tuple(1 if number in axes else next(extents) for number in numbers)
    write = Access(target.tensor, along(*(None if number in axes else next(dims) for number in numbers)))
    op = Operator(target.operator, "unsqueeze", dims_of(shape), (straight(x, len(shape)),), (write,))
    return network.emit(node, op, result)


def expand(node: Node, network: Reading) -> None:
    """Repeat axes of extent 1, as broadcasting against a tensor of that shape would."""
    shape = network.shape(node.inputs[0])
    wanted = network.integers(node, 1, "shape")
    result = broadcast(shape, wanted)
    if result is None:
        raise node.fault(f"an operand of shape {text_of(shape)} does not broadcast to {text_of(wanted)}.")
    stretch(node, network, node.inputs[0], result, node.target)


def stretch(node: Node, network: Reading, x: str, shape: Shape, target: Target) -> str:
    """`x` with axes of extent 1 repeated, and axes put in front, so that it has `shape`."""
    read, write = aligned(x, network.shape(x), shape), straight(target.tensor, len(shape))
    op = Operator(target.operator, "expand", dims_of(shape), (read,), (write,))
    return network.emit(node, op, shape)


def normalised_axes(node: Node, axes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Axes counted from the front, each within the rank and given once."""
    if not all(-rank <= number < rank for number in axes) or len({number % rank for number in axes}) < len(axes):
        raise node.fault(f"axes {text_of(axes)}: expected each once and within the {rank} axes of the operand.")
    return tuple(number % rank for number in axes)


def _listed_axes(node: Node, network: Reading) -> tuple[int, ...] | None:
    """The axes that a Squeeze or Unsqueeze names: an attribute before opset 13, an operand since."""
    if node.opset < 13:
        return node.integers("axes")
    return None if node.operand(1) is None else network.integers(node, 1, "axes")

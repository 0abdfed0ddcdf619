"""Pad and CenterCropPad: more elements around a tensor, or fewer."""

from collections.abc import Sequence
from math import prod

import numpy as np

from tilestitch.frontend.network import Node, Reading, Target, text_of
from tilestitch.frontend.operators.accesses import Shape, axis, dims_of, straight
from tilestitch.frontend.operators.elementwise import apply
from tilestitch.frontend.operators.rearranging import afford_picks, pick
from tilestitch.frontend.operators.shapes import normalised_axes
from tilestitch.ir.graph import Access, Operator

_MODES = ("constant", "edge", "reflect", "wrap")


def pad(node: Node, network: Reading) -> None:
    """Elements before and after each axis: a constant, or those of the tensor repeated, mirrored or wrapped round.

    Negative numbers take elements away.
    """
    x = node.inputs[0]
    shape = network.shape(x)
    mode = node.text("mode", "constant")
    if mode not in _MODES:
        raise node.fault(f"attribute mode={mode!r} is unknown; known: {', '.join(_MODES)}.")
    before, after = _amounts(node, network, shape)
    result = tuple(b + size + a for b, size, a in zip(before, shape, after, strict=True))
    if min(result, default=1) < 1:
        raise node.fault(f"pads {text_of((*before, *after))} leave {text_of(result)} of shape {text_of(shape)}.")
    if mode != "constant":
        afford_picks(node, network, sum(result))
        indices = [_indices(b, size, a, mode) for b, size, a in zip(before, shape, after, strict=True)]
        pick(node, network, x, indices, node.target)
        return
    value, computed = node.real("value", 0.0) if node.opset < 11 else 0.0, None
    if node.operand(2) is not None:
        if network.is_known(node.inputs[2]):
            value = float(network.scalar(node, 2, "value"))
        else:
            computed = node.inputs[2]
    if computed is None:
        surround(node, network, x, before, result, value, node.target)
        return
    network.afford(node, prod(result))
    padded = surround(node, network, x, before, result, 0.0, network.step(node, "padded"))
    inside = np.ones(result, np.bool_)
    for places, begin, size in zip(np.indices(result, sparse=True), before, shape, strict=True):
        inside &= (begin <= places) & (places < begin + size)
    names = (network.new_constant(node, "inside", inside), padded, computed)
    apply(node, network, "where", names, network.last_step(node, "filled"), element_type=network.element_type(x))


def surround(
    node: Node,
    network: Reading,
    x: str,
    before: Sequence[int],
    result: Shape,
    value: float,
    target: Target,
) -> str:
    """A tensor of shape `result` that holds `x` from index `before` on, and `value` elsewhere."""
    inside = tuple(axis((dim, 1), offset=-begin) for dim, begin in enumerate(before))
    write = straight(target.tensor, len(result))
    op = Operator(target.operator, "pad", dims_of(result), (Access(x, inside, value),), (write,))
    return network.emit(node, op, result)


def _amounts(node: Node, network: Reading, shape: Shape) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How many elements come before and after each axis."""
    rank = len(shape)
    if node.opset < 11:
        amounts, axes = node.integers("pads") or (), tuple(range(rank))
    else:
        amounts = network.integers(node, 1, "pads")
        axes = tuple(range(rank)) if node.operand(3) is None else network.integers(node, 3, "axes")
        axes = normalised_axes(node, axes, rank)
    if len(amounts) != 2 * len(axes):
        raise node.fault(f"pads {text_of(amounts)}: expected two numbers for each of {len(axes)} axes.")
    before, after = [0] * rank, [0] * rank
    for number, begin, end in zip(axes, amounts, amounts[len(axes) :], strict=False):
        before[number], after[number] = begin, end
    return tuple(before), tuple(after)


def _indices(before: int, size: int, after: int, mode: str) -> list[int]:
    """Which element of one axis stands where in the result; first elements are taken away, then others added."""
    inside = np.arange(max(0, -before), size + min(0, after))
    amounts = (max(0, before), max(0, after))
    return np.pad(inside, amounts, mode=mode).tolist()  # pyright: ignore[reportCallIssue, reportArgumentType]


def center_crop_pad(node: Node, network: Reading) -> None:
    """The middle of each named axis at another extent: the surplus is cut off, what is missing is 0."""
    x = node.inputs[0]
    shape = network.shape(x)
    wanted = network.integers(node, 1, "shape")
    axes = node.integers("axes")
    axes = normalised_axes(node, tuple(range(len(shape))) if axes is None else axes, len(shape))
    if len(wanted) != len(axes) or min(wanted, default=1) < 1:
        raise node.fault(f"shape {text_of(wanted)}: expected an extent of at least 1 for each of {len(axes)} axes.")
    before, result = [0] * len(shape), list(shape)
    for number, extent in zip(axes, wanted, strict=True):
        missing = extent - shape[number]
        before[number] = missing // 2 if missing > 0 else -(-missing // 2)
        result[number] = extent
    if all(extent <= size for extent, size in zip(result, shape, strict=True)):
        indices = [range(-begin, extent - begin) for begin, extent in zip(before, result, strict=True)]
        pick(node, network, x, indices, node.target)
        return
    surround(node, network, x, before, tuple(result), 0.0, node.target)

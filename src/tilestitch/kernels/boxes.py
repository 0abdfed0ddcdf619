"""What each operator of a kernel computes and each operand needs for a tile: `ir.tiles` and `ir.graph`, compiled.

All functions work on the arrays of a `Nest` and write their answers into arrays that the caller brings. Boxes are rows
of first and last index (the last excluded), by dim or axis. `tests/kernels/test_boxes.py` compares them with those
of `ir`.
"""

import numpy as np

from tilestitch.base.jit import borrowing, lending, tiered
from tilestitch.kernels.nest import (
    ANCHOR,
    DIMS,
    ELEMENT,
    END,
    END_READER,
    END_TERM,
    EXTENT,
    FIRST_READ,
    FIRST_READER,
    FIRST_TERM,
    FIRST_WRITE,
    INDIRECT,
    OFFSET,
    OWNER,
    RANK,
    REDUCED,
    SHAPE,
    TENSOR,
    TENSOR_OF,
    UNCUT,
    Nest,
)


@borrowing
def hull(nest: Nest, access: int, box: np.ndarray, found: np.ndarray) -> None:
    """The indices that an access touches in a box of iterations; see `Access.hull`."""
    for axis in range(nest.tensors[nest.accesses[access, TENSOR], RANK]):
        low = high = nest.axes[access, axis, OFFSET]
        for at in range(nest.axes[access, axis, FIRST_TERM], nest.axes[access, axis, END_TERM]):
            dim, stride = nest.terms[at, 0], nest.terms[at, 1]
            first, last = stride * box[0, dim], stride * (box[1, dim] - 1)
            low += min(first, last)
            high += max(first, last)
        found[0, axis], found[1, axis] = low, high + 1


@borrowing
def region(nest: Nest, access: int, box: np.ndarray, found: np.ndarray) -> None:
    """The part of its tensor that an access touches; see `Access.region`."""
    hull(nest, access, box, found)
    tensor, indirect = nest.accesses[access, TENSOR], nest.accesses[access, INDIRECT]
    inside = indirect < 0
    for axis in range(nest.tensors[tensor, RANK]):
        inside = inside and found[0, axis] >= 0 and found[1, axis] <= nest.places[tensor, axis, SHAPE]
    if inside:
        return
    for axis in range(nest.tensors[tensor, RANK]):
        size = nest.places[tensor, axis, SHAPE]
        if axis == indirect:
            found[0, axis], found[1, axis] = 0, size
        found[0, axis] = min(max(found[0, axis], 0), size - 1)
        found[1, axis] = max(min(found[1, axis], size), found[0, axis] + 1)


@lending
def widen(target: np.ndarray, other: np.ndarray, count: int, known: bool) -> None:
    """`target` becomes the smallest box that holds both, or `other` where nothing is known yet."""
    for at in range(count):
        target[0, at] = min(target[0, at], other[0, at]) if known else other[0, at]
        target[1, at] = max(target[1, at], other[1, at]) if known else other[1, at]


@lending
def iterations_for(nest: Nest, access: int, wanted: np.ndarray, found: np.ndarray) -> None:
    """The iterations of an operator that write a region; see `ir.tiles.box_for_region`."""
    op = nest.accesses[access, OWNER]
    for dim in range(nest.operators[op, DIMS]):
        found[0, dim], found[1, dim] = 0, nest.dims[op, dim, EXTENT]
    for axis in range(nest.tensors[nest.accesses[access, TENSOR], RANK]):
        low, high = wanted[0, axis] - nest.axes[access, axis, OFFSET], wanted[1, axis] - nest.axes[access, axis, OFFSET]
        for at in range(nest.axes[access, axis, FIRST_TERM], nest.axes[access, axis, END_TERM]):
            dim, stride = nest.terms[at, 0], nest.terms[at, 1]
            most = nest.dims[op, dim, EXTENT] - 1
            first, last = low // stride, (high - 1) // stride
            found[0, dim] = min(max(0, first), most)
            found[1, dim] = max(found[0, dim], min(most, last)) + 1
            if first != last:
                break
            low, high = low - first * stride, high - first * stride
    for dim in range(nest.operators[op, DIMS]):
        if nest.dims[op, dim, UNCUT]:
            found[0, dim], found[1, dim] = 0, nest.dims[op, dim, EXTENT]


@tiered
def boxes_of(nest: Nest, sink: np.ndarray, boxes: np.ndarray, needed: np.ndarray, known: np.ndarray) -> None:
    """Per operator the iterations that a box of the last one needs; see `ir.tiles.operator_boxes`.

    `needed` and `known` are room for the region that is read of each tensor and whether there is one.
    """
    boxes_into(nest, sink, boxes, needed, known, np.empty_like(boxes[0]), np.empty_like(needed[0]))


@lending
def boxes_into(
    nest: Nest,
    sink: np.ndarray,
    boxes: np.ndarray,
    needed: np.ndarray,
    known: np.ndarray,
    one: np.ndarray,
    part: np.ndarray,
) -> None:
    """As `boxes_of`, with room for a box of iterations and for a region."""
    for tensor in range(len(known)):
        known[tensor] = 0
    last = len(nest.operators) - 1
    for op in range(last, -1, -1):
        box = boxes[op]
        if op == last:
            widen(box, sink, nest.operators[op, DIMS], False)
        else:
            seen = False
            for access in range(nest.operators[op, FIRST_WRITE], nest.operators[op, END]):
                if known[nest.accesses[access, TENSOR]]:
                    iterations_for(nest, access, needed[nest.accesses[access, TENSOR]], one)
                    widen(box, one, nest.operators[op, DIMS], seen)
                    seen = True
        for access in range(nest.operators[op, FIRST_READ], nest.operators[op, FIRST_WRITE]):
            tensor = nest.accesses[access, TENSOR]
            region(nest, access, box, part)
            widen(needed[tensor], part, nest.tensors[tensor, RANK], known[tensor] != 0)
            known[tensor] = 1


@borrowing
def part_of(nest: Nest, boxes: np.ndarray, cut: np.ndarray, found: np.ndarray) -> None:
    """The first part of the anchor's box when its reduction is cut by `cut`; see `kernels.shape.part_box`."""
    anchor = nest.core[ANCHOR]
    for dim in range(nest.operators[anchor, DIMS]):
        start, stop = boxes[anchor, 0, dim], boxes[anchor, 1, dim]
        found[0, dim] = start
        found[1, dim] = min(stop, start + cut[dim]) if nest.dims[anchor, dim, REDUCED] else stop


@tiered
def operand_region(nest: Nest, operand: int, boxes: np.ndarray, part: np.ndarray, found: np.ndarray) -> None:
    """What a tile needs of an operand, of all of its readers; `part` is the anchor's part of a reduction."""
    operand_into(nest, operand, boxes, part, found, np.empty_like(found))


@lending
def operand_into(
    nest: Nest, operand: int, boxes: np.ndarray, part: np.ndarray, found: np.ndarray, one: np.ndarray
) -> None:
    """As `operand_region`, with room for a region."""
    count, known = nest.tensors[nest.operands[operand, TENSOR_OF], RANK], False
    for at in range(nest.operands[operand, FIRST_READER], nest.operands[operand, END_READER]):
        access = nest.readers[at, 0]
        region(nest, access, part if nest.readers[at, 1] else boxes[nest.accesses[access, OWNER]], one)
        widen(found, one, count, known)
        known = True


@lending
def made_region(nest: Nest, tensor: int, boxes: np.ndarray, found: np.ndarray, one: np.ndarray) -> None:
    """What a tile makes of a tensor: the hull over the operators that write it."""
    known = False
    for op in range(len(nest.operators)):
        for access in range(nest.operators[op, FIRST_WRITE], nest.operators[op, END]):
            if nest.accesses[access, TENSOR] == tensor:
                hull(nest, access, boxes[op], one)
                widen(found, one, nest.tensors[tensor, RANK], known)
                known = True


@borrowing
def bytes_of(nest: Nest, tensor: int, box: np.ndarray) -> float:
    """Of a region of a tensor; in floating point, so that nothing overflows."""
    size = float(nest.tensors[tensor, ELEMENT])
    for axis in range(nest.tensors[tensor, RANK]):
        size *= float(box[1, axis] - box[0, axis])
    return size

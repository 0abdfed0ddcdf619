"""Results that others read behind reshapes and transpositions: loops are split until both name the same indices.

A reshape that splits an index in two, such as that of all heads into heads and what each of them has, splits the loop
of the operator that makes it; one that joins two indices splits the loop of the operator that reads them. In a memory
that is read in any order a transposition is nothing but other names.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeAlias

from tilestitch.ir.graph import Access, Graph, Operator
from tilestitch.ir.loop_nest import Loop, LoopNest, LoopOperand

VIEWS = ("reshape", "transpose", "unsqueeze", "squeeze", "flatten")  # that move elements and keep every one

Digit: TypeAlias = tuple[int, int, int]  # of an index along an axis of a result: index // step % extent
View: TypeAlias = tuple[tuple[Digit, ...], ...]  # of each axis of a tensor the digits that make it, from the highest


def plain_view(shape: Sequence[int]) -> View:
    """A result as it is written."""
    return tuple(((axis, 1, size),) if size > 1 else () for axis, size in enumerate(shape))


def seen_through(graph: Graph, view: View, op: Operator, tensor: str) -> View | None:
    """What an operator makes of a tensor that it only moves; none where digits do not come out even, or it computes."""
    if op.kind not in VIEWS or len(op.reads) != 1 or len(op.writes) != 1 or op.reads[0].indirect_axis is not None:
        return None
    if any(
        list(graph.tensors[one].layout) != sorted(graph.tensors[one].layout) for one in (tensor, op.writes[0].tensor)
    ):
        return None
    found: dict[int, tuple[Digit, ...]] = {}  # by dim
    for digits, dims in zip(view, _dims_of(op, op.reads[0]) or (), strict=False):
        left = [*digits]
        for dim in dims:
            taken = _taken(left, op.dims[dim].extent)
            if taken is None or dim in found:
                return None
            found[dim] = taken
        if left:
            return None
    written = _dims_of(op, op.writes[0])
    if written is None or sorted(dim for dims in written for dim in dims) != sorted(found):
        return None
    return tuple(tuple(digit for dim in dims for digit in found[dim]) for dims in written)


def _dims_of(op: Operator, access: Access) -> list[list[int]] | None:
    """Of each axis the dims that index it, from the highest digit; none where it is more than digits."""
    found: list[list[int]] = []
    for axis in access.axes:
        terms = sorted((term for term in axis.terms if op.dims[term[0]].extent > 1), key=lambda term: -term[1])
        for at, (_, step) in enumerate(terms):
            if step != prod(op.dims[dim].extent for dim, _ in terms[at + 1 :]):
                return None
        found.append([dim for dim, _ in terms])
    return found


def _taken(left: list[Digit], extent: int) -> tuple[Digit, ...] | None:
    """Digits from the front that make so many; one of them may be divided. Those are gone from what is left."""
    found: list[Digit] = []
    while extent > 1:
        if not left:
            return None
        axis, step, size = left.pop(0)
        if extent % size == 0:
            found.append((axis, step, size))
            extent //= size
        elif size % extent == 0:
            found.append((axis, step * (size // extent), extent))
            left.insert(0, (axis, step, size // extent))
            extent = 1
        else:
            return None
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Split:
    """The loops of two operators that are split, and how the second one then reads what the first one makes."""

    maker: Mapping[int, tuple[int, ...]]  # by loop the extents of its parts, from the highest digit
    reader: Mapping[int, tuple[int, ...]]
    order: tuple[tuple[int, int], ...]  # of each axis that is left of the result a loop of the reader, and which part


def split_of(view: View, maker: LoopNest, reader: LoopNest, read: int) -> Split | None:
    """How loops are split for a result that is read in this way; none where an index is of more than one loop."""
    made, taken = maker.write, reader.reads[read]
    digits: list[Digit] = sorted((one for axis in view for one in axis), key=lambda one: (one[0], -one[1]))
    parts: tuple[dict[int, tuple[int, ...]], dict[int, tuple[int, ...]]] = ({}, {})
    places: dict[Digit, tuple[int, int]] = {}
    along = [tuple(one for one in digits if one[0] == axis) for axis in range(len(made.axes))]
    for own, nest, array, axes in ((parts[0], maker, made, along), (parts[1], reader, taken, view)):
        for its, terms, size in zip(axes, array.axes, array.shape, strict=True):
            if size == 1 and not its:
                continue
            sizes = tuple(one for _, _, one in its)
            if len(terms) != 1 or terms[0][1] != 1 or terms[0][0] in own:
                return None
            if not nest.extents[terms[0][0]] == size == prod(sizes):
                return None
            own[terms[0][0]] = sizes
            if nest is reader:
                places |= {digit: (terms[0][0], part) for part, digit in enumerate(its)}
    first, second = ({loop: sizes for loop, sizes in own.items() if len(sizes) > 1} for own in parts)
    return Split(first, second, tuple(places[one] for one in digits))


def split_nest(nest: LoopNest, parts: Mapping[int, tuple[int, ...]]) -> tuple[LoopNest, dict[int, list[int]]] | None:
    """A nest with some loops in several, and of each loop its numbers now; none where one is part of a larger index."""
    loops: list[Loop] = []
    numbers: dict[int, list[int]] = {}
    for number, loop in enumerate(nest.loops):
        numbers[number] = []
        for at, extent in enumerate(parts.get(number, (loop.extent,))):
            numbers[number].append(len(loops))
            loops.append(Loop(f"{loop.name}{at + 1}" if number in parts else loop.name, extent))
    operands: list[LoopOperand] = []
    for one in nest.operands:
        axes: list[tuple[tuple[int, int], ...]] = []
        shape: list[int] = []
        for terms, size in zip(one.axes, one.shape, strict=True):
            cut = [(loop, step) for loop, step in terms if loop in parts]
            if not cut:
                axes.append(tuple((numbers[loop][0], step) for loop, step in terms))
                shape.append(size)
                continue
            loop, step = cut[0]
            if len(terms) > 1 or step != 1 or size != nest.loops[loop].extent:
                return None
            axes += [((part, 1),) for part in numbers[loop]]
            shape += parts[loop]
        operands.append(replace(one, axes=tuple(axes), shape=tuple(shape)))
    found = replace(nest, loops=tuple(loops), reads=tuple(operands[:-1]), write=operands[-1])
    return found, numbers


def read_as_written(maker: LoopNest, reader: LoopNest, read: int, loops: Sequence[int]) -> tuple[LoopNest, LoopNest]:
    """Two operators of which the second reads the result with these loops along its axes, as the first one writes it.

    Axes of one element are left out.
    """
    write = maker.write
    kept = [axis for axis, size in enumerate(write.shape) if size > 1]
    write = replace(write, axes=tuple(write.axes[one] for one in kept), shape=tuple(write.shape[one] for one in kept))
    array = replace(reader.reads[read], axes=tuple(((loop, 1),) for loop in loops), shape=write.shape)
    reads = (*reader.reads[:read], array, *reader.reads[read + 1 :])
    return replace(maker, write=write), replace(reader, reads=reads)

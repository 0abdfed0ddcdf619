"""Loops are split where that lets an operator read what a view repeats in the place from which it repeats it.

Grouped attention repeats each head of keys: [groups, keys, size] becomes [groups * repeats, keys, size], and head h
reads group h // repeats. That is no affine index of h; it is one of two loops, over groups and over repeats.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tilestitch.ir.graph import Access, Axis, Dim, DimKind, Operator
from tilestitch.ops import RULES


def split_repeated(op: Operator, views: Mapping[str, Sequence[Operator]]) -> Operator:
    """`op` with a loop over each dim of a view that repeats its operand, where a single loop ran over several of them.

    `views` are the views by the tensor that they write. Only whole parallel loops are split, whose index is that of the
    tensor.
    """
    for read in op.reads:
        for view in views.get(read.tensor, ()):
            for number, axis in enumerate(view.writes[0].axes):
                dim = _own_loop(op, read.axes[number])
                if dim is not None and _repeats(view, axis) and _extent(view, axis) == op.dims[dim].extent:
                    parts = [part for part, _ in sorted(axis.terms, key=lambda term: -term[1])]
                    return split_repeated(_split(op, dim, [view.dims[part].extent for part in parts]), views)
    return op


def _own_loop(op: Operator, index: Axis) -> int | None:
    """The parallel loop that runs along an axis alone; None where there is none, or the arithmetic is not ours."""
    if op.kind not in RULES or len(index.terms) != 1 or index.offset != 0:
        return None
    ((dim, stride),) = index.terms
    return dim if stride == 1 and op.dims[dim].kind is DimKind.PARALLEL else None


def _repeats(view: Operator, axis: Axis) -> bool:
    """Whether one of several dims of an axis is one over which the view repeats its operand."""
    read = view.reads[0].dims
    return len(axis.terms) > 1 and any(dim not in read for dim, _ in axis.terms)


def _extent(view: Operator, axis: Axis) -> int:
    """Elements along an axis that the view writes, without gaps; 0 where it leaves gaps or others write a part."""
    reach = 1
    for dim, stride in sorted(axis.terms, key=lambda term: term[1]):
        if stride != reach or axis.offset != 0:
            return 0
        reach *= view.dims[dim].extent
    return reach


def _split(op: Operator, dim: int, extents: Sequence[int]) -> Operator:
    """`op` with nested loops of these extents, the outermost first, in the place of one."""
    old, more = op.dims[dim], len(extents) - 1
    parts = [Dim(f"{old.name}.{number}", extent, old.kind) for number, extent in enumerate(extents)]
    strides = [1] * len(extents)
    for number in reversed(range(more)):
        strides[number] = strides[number + 1] * extents[number + 1]

    def moved(access: Access) -> Access:
        axes = []
        for axis in access.axes:
            terms: list[tuple[int, int]] = []
            for d, stride in axis.terms:
                if d == dim:
                    terms += [(dim + number, stride * inner) for number, inner in enumerate(strides)]
                else:
                    terms.append((d + more if d > dim else d, stride))
            axes.append(replace(axis, terms=tuple(sorted(terms, key=lambda term: -abs(term[1])))))
        return replace(access, axes=tuple(axes))

    return replace(
        op,
        dims=(*op.dims[:dim], *parts, *op.dims[dim + 1 :]),
        reads=tuple(map(moved, op.reads)),
        writes=tuple(map(moved, op.writes)),
    )

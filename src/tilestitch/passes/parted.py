"""Element-wise operators behind a concatenation work on its parts, each as soon as it is there."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tilestitch.ir.graph import Access, Axis, Dim, DimKind, Graph, Operator, Tensor
from tilestitch.ops import is_elementwise
from tilestitch.passes.fold import fresh_name

# A network, and which of its operators do the work of each that was there before; of a copy that is left out none.
Parted: TypeAlias = tuple[Graph, Mapping[str, tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class _Part:
    """What one operator writes of a tensor: from `start` to `stop` along an axis, and all along the others."""

    maker: Operator
    axis: int
    start: int
    stop: int


def in_parts(graph: Graph) -> Parted:
    """The same network, of which views are composed away, with less to wait for, and which operators do whose work.

    Where several operators write a part each of a tensor that an element-wise operator alone reads, that operator
    becomes one for each part, which reads what the part is a copy of, or what is made of it. So nothing is copied, and
    what is made of one part need not wait for the others. The operators are named `<operator>.<number of the part>`.
    """
    done: dict[str, Operator] = {}
    tensors, makers = dict(graph.tensors), dict[str, list[str]]()  # of a tensor, the operators that write it
    became: dict[str, tuple[str, ...]] = {}
    taken = {op.name for op in graph.operators}
    for op in graph.operators:
        parts = _parts(graph, op, tensors, lambda name: [done[one] for one in makers.get(name, ())])
        fresh = [op]
        if parts:
            read = op.reads[_whole_read(op, parts)]
            fresh = []
            for number, part in enumerate(parts):
                name = fresh_name(f"{op.name}.{number}", taken)
                taken.add(name)
                fresh.append(_on_part(op, read, part, name, _source(part, read, tensors, done)))
                if part.maker.kind == "copy":
                    del done[part.maker.name]
                    became[part.maker.name] = ()
            del tensors[read.tensor], makers[read.tensor]
            became[op.name] = tuple(one.name for one in fresh)
        for one in fresh:
            done[one.name] = one
            for name in one.outputs:
                makers.setdefault(name, []).append(one.name)
    if not became:
        return graph, {op.name: (op.name,) for op in graph.operators}
    found = replace(graph, operators=tuple(done.values()), tensors=tensors)
    return found, {op.name: became.get(op.name, (op.name,)) for op in graph.operators}


def _parts(
    graph: Graph, op: Operator, tensors: Mapping[str, Tensor], makers: Callable[[str], Sequence[Operator]]
) -> list[_Part]:
    """The parts of the tensor for each of which there can be an operator instead of this one; none where it stays."""
    if not is_elementwise(op) or len(op.writes) != 1 or any(dim.kind is not DimKind.PARALLEL for dim in op.dims):
        return []
    write = op.writes[0]
    for read in op.reads:
        of = makers(read.tensor)
        alone = read.tensor not in graph.outputs and graph.consumers[read.tensor] == (op,)
        like = read.axes == write.axes and _is_plain(read) and all(one.terms for one in read.axes)
        if len(of) < 2 or not alone or not like or sum(one.tensor == read.tensor for one in op.reads) > 1:
            continue
        parts = [_part_of(tensors[read.tensor], one, read.tensor) for one in of]
        found = [part for part in parts if part is not None]
        if len(found) == len(parts) and len({part.axis for part in found}) == 1:
            return found
    return []


def _whole_read(op: Operator, parts: Sequence[_Part]) -> int:
    """The number of the access that reads what the makers of the parts write."""
    made = {write.tensor for part in parts for write in part.maker.writes}
    return next(number for number, read in enumerate(op.reads) if read.tensor in made)


def _is_plain(access: Access) -> bool:
    """Whether each axis has at most one loop, in steps of one, and no two have the same."""
    loops = [term for axis in access.axes for term in axis.terms]
    apart = len({dim for dim, _ in loops}) == len(loops)
    plain = all(len(axis.terms) <= 1 for axis in access.axes) and all(stride == 1 for _, stride in loops)
    return apart and plain and access.indirect_axis is None and access.pad_value == 0.0


def _part_of(tensor: Tensor, maker: Operator, name: str) -> _Part | None:
    """What an operator writes of a tensor, as a part along one axis; None where it is something else."""
    if len(maker.writes) != 1 or not _is_plain(maker.writes[0]):
        return None
    if maker.kind == "copy" and (not _is_plain(maker.reads[0]) or maker.reads[0].tensor == name):
        return None
    hull = maker.writes[0].hull(maker.whole)
    cut = [
        axis for axis, (a, b, n) in enumerate(zip(hull.start, hull.stop, tensor.shape, strict=True)) if (a, b) != (0, n)
    ]
    return _Part(maker, cut[0], hull.start[cut[0]], hull.stop[cut[0]]) if len(cut) == 1 else None


def _source(part: _Part, read: Access, tensors: dict[str, Tensor], done: dict[str, Operator]) -> Access:
    """How the operator of a part reads it: what it is a copy of, or a tensor of its own that its maker writes now.

    By the numbers of the loops that go along the axes of the whole tensor.
    """
    maker, write = part.maker, part.maker.writes[0]
    loop_of = {term[0]: axis for axis, one in enumerate(write.axes) for term in one.terms}
    along = [axis.terms[0][0] for axis in read.axes]
    if maker.kind == "copy":
        axes = tuple(
            Axis(tuple((along[loop_of[dim]], stride) for dim, stride in axis.terms), axis.offset)
            for axis in maker.reads[0].axes
        )
        return Access(maker.reads[0].tensor, axes)
    name = fresh_name(f"{read.tensor}.{maker.name}", tensors)
    whole = tensors[read.tensor]
    shape = tuple(part.stop - part.start if axis == part.axis else n for axis, n in enumerate(whole.shape))
    tensors[name] = replace(whole, name=name, shape=shape)
    axes = tuple(
        replace(axis, offset=axis.offset - part.start) if at == part.axis else axis
        for at, axis in enumerate(write.axes)
    )
    done[maker.name] = replace(maker, writes=(Access(name, axes),))
    return Access(name, read.axes)


def _on_part(op: Operator, read: Access, part: _Part, name: str, source: Access) -> Operator:
    """An element-wise operator for one part of what it reads."""
    dim = read.axes[part.axis].terms[0][0]

    def moved(access: Access) -> Access:
        axes = (
            replace(axis, offset=axis.offset + sum(stride * part.start for one, stride in axis.terms if one == dim))
            for axis in access.axes
        )
        return replace(access, axes=tuple(axes))

    dims = tuple(
        Dim(one.name, part.stop - part.start, one.kind) if at == dim else one for at, one in enumerate(op.dims)
    )
    reads = tuple(source if one == read else moved(one) for one in op.reads)
    return replace(op, name=name, dims=dims, reads=reads, writes=tuple(map(moved, op.writes)))

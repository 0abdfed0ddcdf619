"""How much of a network its outputs need: what slices, picked rows and gaps of strided reads leave out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from tilestitch.ir.graph import Access, Axis, DimKind, Graph, Operator
from tilestitch.ir.per_graph import once_per_graph
from tilestitch.ir.region import Region

MOST_SETS = 16  # of a tensor that are looked at
MOST_ROWS = 64  # of an axis that several loops write
Indices = tuple[np.ndarray, ...]  # per axis of a tensor or loop of an operator, ascending


@dataclass(frozen=True, slots=True)
class Needs:
    """What nothing that makes the outputs can leave out: elements of tensors, and iterations of operators."""

    elements: Mapping[str, int]
    rows: Mapping[str, tuple[int, int]]  # of tables whose rows are not known: how many are asked for, of how many
    iterations: Mapping[str, Region]  # as many as are needed, from 0 on; absent where none are


@once_per_graph
def needs(graph: Graph) -> Needs:
    """What is certainly needed of a graph without views.

    What several readers need is joined where the union is again one set of indices for each axis; else the one that
    needs the most counts. Where the indices that are needed are no such product (a diagonal), one index stands for
    them, and of an axis that several loops write, the largest product that is found of steps of these loops. Of rows
    that are picked by values, as many count as there are values, but no more than there are rows.
    """
    wanted: dict[str, list[Indices]] = {
        name: [tuple(np.arange(extent) for extent in graph.tensors[name].shape)] for name in graph.outputs
    }
    iterations: dict[str, Region] = {}
    for op in reversed(graph.operators):
        found: list[Indices] = []
        for write in op.writes:
            if write.tensor in wanted:
                loops = _loops(op, write, _certain(wanted[write.tensor]))
                found = found if loops is None else _joined(found, loops)
        if not found:
            continue
        loops = max(found, key=_size)
        iterations[op.name] = Region.whole(tuple(map(len, loops)))
        coupled = _coupled(op, wanted)
        for number, read in enumerate(op.reads):
            shape = graph.tensors[read.tensor].shape
            alone = [dim for dim in coupled if dim in read.dims]
            seen = tuple(coupled[dim] if [dim] == alone else loop for dim, loop in enumerate(loops))
            touched = _touched(read, seen, shape)
            if read.indirect_axis is not None and number == 0:
                touched = _picked(graph, op, seen, touched)
            wanted[read.tensor] = _joined(wanted.get(read.tensor, []), touched)
    elements = {name: _size(_certain(sets)) for name, sets in wanted.items()}
    return Needs(elements, _unknown_rows(graph, wanted), iterations)


def touched_elements(graph: Graph, read: Access, needed: Region, whole: Region) -> int:
    """Elements of a tensor that one read touches, padding left out; none where not all iterations are needed."""
    if needed != whole:
        return 0
    loops = tuple(np.arange(extent) for extent in whole.extents)
    return _size(_touched(read, loops, graph.tensors[read.tensor].shape))


def _unknown_rows(graph: Graph, wanted: Mapping[str, Sequence[Indices]]) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for name, sets in wanted.items():
        for axis, size in zip(max(sets, key=_size), graph.tensors[name].shape, strict=True):
            if len(axis) and axis[0] < 0:
                found[name] = (len(axis), size)
    return found


def _joined(sets: Sequence[Indices], new: Indices) -> list[Indices]:
    """Sets of indices and one more, those that are together one set for each axis as one; at most `MOST_SETS`."""
    rest = list(sets)
    at = 0
    while at < len(rest):
        both = _union(rest[at], new)
        if both is None:
            at += 1
        else:
            new = both
            del rest[at]
            at = 0  # what did not fit before may fit now
    return sorted([*rest, new], key=_size, reverse=True)[:MOST_SETS]


def _union(first: Indices, second: Indices) -> Indices | None:
    """The union of two products of sets if it is one: where one holds the other, or they differ in one axis only."""
    axes = [axis for axis, pair in enumerate(zip(first, second, strict=True)) if not np.array_equal(*pair)]
    if len(axes) > 1:
        for one, other in ((first, second), (second, first)):
            if all(np.isin(other[axis], one[axis], assume_unique=True).all() for axis in axes):
                return one
        return None
    if not axes:
        return first
    one, other = first[axes[0]], second[axes[0]]
    if (one < 0).any() != (other < 0).any():
        return None  # rows that are not known and some that are
    return (*first[: axes[0]], np.union1d(one, other), *first[axes[0] + 1 :])


def _certain(sets: Sequence[Indices]) -> Indices:
    """The largest of several sets. Rows that are not known are the first ones."""
    largest = max(sets, key=_size)
    return tuple(axis - axis[0] if len(axis) and axis[0] < 0 else axis for axis in largest)


def _size(indices: Indices) -> int:
    return prod(map(len, indices))


def _picked(graph: Graph, op: Operator, loops: Indices, touched: Indices) -> Indices:
    """What the iterations of `loops` read of a table, whose rows the values of the second operand name.

    Of constant values these rows; of others one for each value, numbered from -1 down, as nobody knows them.
    """
    table, names = op.reads[:2]
    assert table.indirect_axis is not None
    apart = {dim for number, axis in enumerate(table.axes) if number != table.indirect_axis for dim in _dims(axis)}
    alone = tuple(loop[:1] if dim in apart else loop for dim, loop in enumerate(loops))
    shape = graph.tensors[names.tensor].shape
    size = graph.tensors[table.tensor].shape[table.indirect_axis]
    if names.tensor in graph.constants:
        values = np.asarray(graph.constants[names.tensor])[np.ix_(*_touched(names, alone, shape))]
        rows = np.unique(np.where(values < 0, values + size, values).astype(np.int64))
        rows = rows[(rows >= 0) & (rows < size)]
    else:
        rows = np.arange(-min(size, _size(_touched(names, alone, shape))), 0)
    return (*touched[: table.indirect_axis], rows, *touched[table.indirect_axis + 1 :])


def _coupled(op: Operator, wanted: Mapping[str, Sequence[Indices]]) -> dict[int, np.ndarray]:
    """Loops that write a part of one axis together, each with all its steps that do.

    Such a part need not be a product of steps of these loops, and the largest one stands for it. But what moves with
    only one of them is read for all steps of that one.
    """
    if len(op.writes) != 1 or op.writes[0].tensor not in wanted:
        return {}
    found: dict[int, np.ndarray] = {}
    (write,) = op.writes
    for axis, indices in zip(write.axes, _certain(wanted[write.tensor]), strict=True):
        if len(axis.terms) < 2:
            continue
        if found or any(dim in _dims(other) for dim, _ in axis.terms for other in write.axes if other is not axis):
            return {}
        places, reach = _places(op, axis, indices)
        if 0 < len(places) < reach and _is_written_once(op, axis):
            left = _written(op, axis, places)
            for dim, stride in _by_stride(op, axis):
                found[dim], left = np.unique(left // stride), left % stride
    return found


def _loops(op: Operator, write: Access, wanted: Indices) -> Indices | None:
    """The iterations that write what is wanted of a tensor, or None where other operators write all of it."""
    loops = [np.arange(dim.extent) for dim in op.dims]
    for axis, indices in zip(write.axes, wanted, strict=True):
        places, reach = _places(op, axis, indices)
        if len(places) == reach:
            continue
        others = {dim for other in write.axes if other is not axis for dim in _dims(other)}
        once = _is_written_once(op, axis) and others.isdisjoint(_dims(axis))
        if once:
            places = _written(op, axis, places)
        if not len(places):
            return None
        terms = _by_stride(op, axis)
        found = _steps(op, terms, places) if once or len(terms) == 1 else _step(op, terms, int(places[0]))
        for dim, steps in found:
            loops[dim] = steps
    return tuple(
        np.arange(dim.extent) if dim.kind is DimKind.WHOLE else loop for dim, loop in zip(op.dims, loops, strict=True)
    )


def _by_stride(op: Operator, axis: Axis) -> list[tuple[int, int]]:
    """The terms of loops with more than one step, those with large strides first."""
    return sorted((term for term in axis.terms if op.dims[term[0]].extent > 1), key=lambda term: -term[1])


def _is_written_once(op: Operator, axis: Axis) -> bool:
    """Whether loops write every place of an axis once, as each steps over all that those with smaller strides reach."""
    reach = 1
    for dim, stride in reversed(_by_stride(op, axis)):
        if stride < reach or op.dims[dim].kind is DimKind.WHOLE:
            return False
        reach += stride * (op.dims[dim].extent - 1)
    return True


def _written(op: Operator, axis: Axis, places: np.ndarray) -> np.ndarray:
    """Those of some places that the loops of an axis write, each once, and do not step over."""
    left, is_written = places, np.ones(len(places), bool)
    for dim, stride in _by_stride(op, axis):
        is_written &= left // stride < op.dims[dim].extent
        left = left % stride
    return places[is_written & (left == 0)]


def _step(op: Operator, terms: Sequence[tuple[int, int]], place: int) -> list[tuple[int, np.ndarray]]:
    """A step of each loop, by falling stride, that together write a place."""
    found: list[tuple[int, np.ndarray]] = []
    for dim, stride in terms:
        step = min(place // stride, op.dims[dim].extent - 1)
        found.append((dim, np.array([step])))
        place -= stride * step
    return found


def _steps(op: Operator, terms: Sequence[tuple[int, int]], places: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """Steps of each loop, by falling stride, that together write none but the given places, each of which they can.

    The places are laid out in rows, one for each step of the first loop. Taken is the row that, with all that hold its
    places as well, has the most.
    """
    (dim, stride), *inner = terms
    if not inner:
        return [(dim, np.unique(places // stride))]
    rows = np.zeros((op.dims[dim].extent, stride), bool)
    rows.flat[places] = True
    kinds = np.unique(rows[rows.any(axis=1)], axis=0)[:MOST_ROWS]
    holders = [np.flatnonzero(rows[:, kind].all(axis=1)) for kind in kinds]
    kind, steps = max(zip(kinds, holders, strict=True), key=lambda pair: int(pair[0].sum()) * len(pair[1]))
    return [(dim, steps), *_steps(op, inner, np.flatnonzero(kind))]


def _places(op: Operator, axis: Axis, indices: np.ndarray) -> tuple[np.ndarray, int]:
    """Which of some indices an axis of a result reaches, counted from the first that it does; and how many it may."""
    reach = 1 + sum(stride * (op.dims[dim].extent - 1) for dim, stride in axis.terms)
    places = indices - axis.offset
    return places[(places >= 0) & (places < reach)], reach


def _touched(read: Access, loops: Indices, shape: tuple[int, ...]) -> Indices:
    """The indices that iterations read, padding left out; of an axis that values index, one row."""
    shared = [dim for dim in read.dims if sum(dim in _dims(axis) for axis in read.axes) > 1]
    loops = tuple(loop[:1] if dim in shared else loop for dim, loop in enumerate(loops))
    found = []
    for number, (axis, size) in enumerate(zip(read.axes, shape, strict=True)):
        indices = np.zeros(1, np.int64)
        if number != read.indirect_axis:
            indices += axis.offset
            for dim, stride in axis.terms:
                indices = _sums(indices, stride, loops[dim])
        found.append(indices[(indices >= 0) & (indices < size)])
    return tuple(found)


def _sums(indices: np.ndarray, stride: int, loop: np.ndarray) -> np.ndarray:
    """All `index + stride * step`, each once, in rising order; both are given so."""
    if 0 < stride <= len(indices) and _is_run(indices) and _is_run(loop):  # nearly always, and without sorting
        return np.arange(indices[0] + stride * loop[0], indices[-1] + stride * loop[-1] + 1)
    return np.unique(indices[:, np.newaxis] + stride * loop)


def _is_run(indices: np.ndarray) -> bool:
    """Whether no index is left out between the first and the last."""
    return len(indices) > 0 and int(indices[-1] - indices[0]) == len(indices) - 1


def _dims(axis: Axis) -> frozenset[int]:
    return frozenset(dim for dim, _ in axis.terms)

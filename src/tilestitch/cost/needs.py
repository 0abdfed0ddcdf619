"""How much of a network its outputs need: what slices, picked rows and gaps of strided reads leave out."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from tilestitch.ir.graph import Access, Axis, DimKind, Graph, Operator
from tilestitch.ir.region import Region

Indices = tuple[np.ndarray, ...]  # per axis of a tensor or loop of an operator


@dataclass(frozen=True, slots=True)
class Needs:
    """What nothing that makes the outputs can leave out: elements of tensors, and iterations of operators."""

    elements: Mapping[str, int]
    iterations: Mapping[str, Region]  # as many as are needed, from 0 on; absent where none are


def needs(graph: Graph) -> Needs:
    """What is certainly needed of a graph without views.

    Of several readers, the one that needs the most counts. Where the indices that are needed do not form a product of
    one set for each axis (a diagonal, a part of an axis that two loops write), one index stands for them.
    """
    elements: dict[str, Indices] = {
        name: tuple(np.arange(extent) for extent in graph.tensors[name].shape) for name in graph.outputs
    }
    iterations: dict[str, Region] = {}
    for op in reversed(graph.operators):
        loops = _most(_loops(op, write, elements[write.tensor]) for write in op.writes if write.tensor in elements)
        if loops is None:
            continue
        iterations[op.name] = Region.whole(tuple(map(len, loops)))
        for read in op.reads:
            found = _touched(read, loops, graph.tensors[read.tensor].shape)
            elements[read.tensor] = _most((found, elements.get(read.tensor))) or found
    return Needs({name: prod(map(len, indices)) for name, indices in elements.items()}, iterations)


def _most(candidates: Iterable[Indices | None]) -> Indices | None:
    """The one with the most elements, the first of several."""
    found: Indices | None = None
    for candidate in candidates:
        if candidate is not None and (found is None or _size(candidate) > _size(found)):
            found = candidate
    return found


def _size(indices: Indices) -> int:
    return prod(map(len, indices))


def _loops(op: Operator, write: Access, wanted: Indices) -> Indices | None:
    """The iterations that write what is wanted of a tensor, or None where other operators write all of it."""
    loops = [np.arange(dim.extent) for dim in op.dims]
    for axis, indices in zip(write.axes, wanted, strict=True):
        places = indices - axis.offset
        reach = 1 + sum(stride * (op.dims[dim].extent - 1) for dim, stride in axis.terms)
        places = places[(places >= 0) & (places < reach)]
        if not len(places):
            return None
        if len(places) == reach:
            continue
        if len(axis.terms) > 1:
            places = places[:1]
        for dim, stride in axis.terms:
            loops[dim], places = np.unique(places // stride), places % stride
    return tuple(
        np.arange(dim.extent) if dim.kind is DimKind.WHOLE else loop for dim, loop in zip(op.dims, loops, strict=True)
    )


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

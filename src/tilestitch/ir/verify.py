"""The invariants of our values, each stated once; breaking one is a bug of Tilestitch."""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from tilestitch.errors import InvalidIR
from tilestitch.ir.graph import Access, Dim, DimKind, Graph, Operator

# Kinds whose first operand may be indexed outside its tensor.
PADDED_KINDS = frozenset({"average_pool", "conv", "max_pool"})


def verify_graph(graph: Graph) -> None:
    """Raise `InvalidIR`, with every broken invariant on a line, unless `graph` holds them all.

    Names are known and unique, operators come after what they read, accesses have an index per axis and stay inside
    their tensors (padding excepted), and together the operators that write a tensor write each element once.
    """
    faults = [*_names(graph), *_operator_forms(graph)]
    if not faults:  # the rest may rely on names and forms
        faults = [*_order(graph), *_reads(graph), *_writes(graph)]
    if faults:
        raise InvalidIR("\n".join(f"graph {graph.name}: {fault}" for fault in faults))


def pair_dims(op: Operator, number: int) -> tuple[int, ...]:
    """The dims that matter to `writes[number]`: all, or those of its pair where several reads move to several writes.

    A concatenation has dims that move only one of its pairs; the others ignore them.
    """
    if len(op.writes) == 1 or len(op.writes) != len(op.reads):
        return tuple(range(len(op.dims)))
    return tuple(sorted(op.reads[number].dims | op.writes[number].dims))


def is_one_to_one(access: Access, dims: Sequence[Dim]) -> bool:
    """Whether no two iterations touch one element, as far as the strides show: each axis a mixed-radix number.

    Sufficient, not necessary: dims that move two axes, or strides that interleave, are left to enumeration.
    """
    if sum(len(axis.terms) for axis in access.axes) != len(access.dims):
        return False
    for axis in access.axes:
        reach = 0
        for dim, stride in reversed(axis.terms):
            if dims[dim].extent > 1 and abs(stride) <= reach:
                return False
            reach += abs(stride) * (dims[dim].extent - 1)
    return True


def _names(graph: Graph) -> Iterator[str]:
    yield from _unique_operators(graph)
    yield from _known_tensors(graph)
    yield from _tensor_entries(graph)
    yield from _constant_shapes(graph)


def _unique_operators(graph: Graph) -> Iterator[str]:
    for name, count in Counter(op.name for op in graph.operators).items():
        if count > 1:
            yield f"{count} operators have the name {name!r}"


def _known_tensors(graph: Graph) -> Iterator[str]:
    for op in graph.operators:
        for name in (*op.inputs, *op.outputs):
            if name not in graph.tensors:
                yield f"operator {op.name!r} uses {name!r}, which is no tensor of the graph"
    for role, names in (("input", graph.inputs), ("output", graph.outputs), ("constant", graph.constants)):
        for name in names:
            if name not in graph.tensors:
                yield f"{role} {name!r} is no tensor of the graph"


def _tensor_entries(graph: Graph) -> Iterator[str]:
    for name, tensor in graph.tensors.items():
        if tensor.name != name:
            yield f"tensor {tensor.name!r} is listed as {name!r}"
        if sorted(tensor.layout) != list(range(len(tensor.shape))):
            yield f"tensor {name!r} of {len(tensor.shape)} axes has layout {tensor.layout}, which is no permutation"
        if any(extent < 1 for extent in tensor.shape):
            yield f"tensor {name!r} has shape {tensor.shape}; every extent is at least 1"


def _constant_shapes(graph: Graph) -> Iterator[str]:
    for name, value in graph.constants.items():
        if name in graph.tensors and tuple(value.shape) != graph.tensors[name].shape:
            yield f"constant {name!r} of shape {value.shape} is declared with shape {graph.tensors[name].shape}"


def _operator_forms(graph: Graph) -> Iterator[str]:
    for op in graph.operators:
        yield from _dims_form(op)
        for access in (*op.reads, *op.writes):
            if access.tensor in graph.tensors:
                yield from _access_form(op, access, graph)
        if not op.writes:
            yield f"operator {op.name!r} writes nothing"


def _dims_form(op: Operator) -> Iterator[str]:
    for name, count in Counter(dim.name for dim in op.dims).items():
        if count > 1:
            yield f"operator {op.name!r} has {count} dims with the name {name!r}"
    for dim in op.dims:
        if dim.extent < 1:
            yield f"operator {op.name!r}: dim {dim.name!r} has extent {dim.extent}; at least 1 is right"


def _access_form(op: Operator, access: Access, graph: Graph) -> Iterator[str]:
    where = f"operator {op.name!r}: access to {access.tensor!r}"
    rank = len(graph.tensors[access.tensor].shape)
    if len(access.axes) != rank:
        yield f"{where} has {len(access.axes)} indices for {rank} axes"
    if access.indirect_axis is not None and not 0 <= access.indirect_axis < rank:
        yield f"{where} is indirect on axis {access.indirect_axis} of {rank}"
    for number, axis in enumerate(access.axes):
        dims, strides = [d for d, _ in axis.terms], [s for _, s in axis.terms]
        if any(not 0 <= d < len(op.dims) for d in dims) or len(set(dims)) < len(dims):
            yield f"{where}, axis {number}: terms {axis.terms} do not name each of {len(op.dims)} dims at most once"
        if 0 in strides or strides != sorted(strides, key=abs, reverse=True):
            yield f"{where}, axis {number}: terms {axis.terms} are not sorted by falling non-zero stride"


def _order(graph: Graph) -> Iterator[str]:
    """Inputs and constants are written by nobody, everything else before it is read."""
    waiting = {name: len(ops) for name, ops in graph.producers.items()}
    for name in (*graph.inputs, *graph.constants):
        for op in graph.producers.get(name, ()):
            yield f"operator {op.name!r} writes {name!r}, which comes from outside"
    given = {*graph.inputs, *graph.constants}
    for op in graph.operators:
        for name in op.inputs:
            if name not in given and name not in waiting:
                yield f"operator {op.name!r} reads {name!r}, which nobody writes"
            elif waiting.get(name, 0) > 0:
                yield f"operator {op.name!r} reads {name!r} before all of it is written"
        for name in op.outputs:
            waiting[name] -= 1
    for name in graph.outputs:
        if name not in given and name not in waiting:
            yield f"output {name!r} is written by nobody"


def _reads(graph: Graph) -> Iterator[str]:
    """Every index that is read lies inside the tensor, or is padding of a kind that has padding."""
    for op in graph.operators:
        for number, access in enumerate(op.reads):
            if op.kind in PADDED_KINDS and number == 0:
                continue
            hull, shape = access.hull(op.whole), graph.tensors[access.tensor].shape
            for axis, (low, high, extent) in enumerate(zip(hull.start, hull.stop, shape, strict=True)):
                if axis != access.indirect_axis and (low < 0 or high > extent):
                    yield (
                        f"operator {op.name!r} ({op.kind}) reads {access.tensor!r} at {low}:{high} of axis {axis}, "
                        f"which has {extent} elements; only {', '.join(sorted(PADDED_KINDS))} pad"
                    )


def _writes(graph: Graph) -> Iterator[str]:
    """Reductions end before the write; each element of a tensor is written once."""
    for op in graph.operators:
        yield from _reductions_end(op)
        yield from _everything_is_written(op)
        yield from _writes_stay_inside(op, graph)
    for name, ops in graph.producers.items():
        written = [(access, op) for op in ops for access in op.writes if access.tensor == name]
        shape = graph.tensors[name].shape
        if any(_outside(access, op, shape) for access, op in written):
            continue  # said already
        fault = _written_once(shape, written)
        if fault is not None:
            yield f"tensor {name!r} of shape {shape}, written by {', '.join(repr(op.name) for op in ops)}: {fault}"


def _reductions_end(op: Operator) -> Iterator[str]:
    for access in op.writes:
        for dim in sorted(access.dims):
            if op.dims[dim].kind is DimKind.REDUCTION:
                yield f"operator {op.name!r}: reduction dim {op.dims[dim].name!r} moves the write to {access.tensor!r}"


def _everything_is_written(op: Operator) -> Iterator[str]:
    """A loop that is no reduction moves the result; otherwise its iterations would write one element many times."""
    for number, access in enumerate(op.writes):
        for d in pair_dims(op, number):
            dim = op.dims[d]
            if dim.extent > 1 and dim.kind is not DimKind.REDUCTION and d not in access.dims:
                yield f"operator {op.name!r}: {dim.kind} dim {dim.name!r} does not move the write to {access.tensor!r}"


def _writes_stay_inside(op: Operator, graph: Graph) -> Iterator[str]:
    for access in op.writes:
        shape = graph.tensors[access.tensor].shape
        if _outside(access, op, shape):
            yield f"operator {op.name!r} writes {access.hull(op.whole)} of {access.tensor!r}, which has shape {shape}"


def _outside(access: Access, op: Operator, shape: tuple[int, ...]) -> bool:
    hull = access.hull(op.whole)
    return any(a < 0 or b > extent for a, b, extent in zip(hull.start, hull.stop, shape, strict=True))


def _written_once(shape: tuple[int, ...], writes: Sequence[tuple[Access, Operator]]) -> str | None:
    """What is wrong where the accesses, all inside `shape`, do not write each element exactly once."""
    counts = [prod(op.dims[d].extent for d in access.dims) for access, op in writes]
    hulls = [access.hull(op.whole) for access, op in writes]
    apart = all(not a.overlaps(b) for i, a in enumerate(hulls) for b in hulls[:i])
    if apart and all(is_one_to_one(access, op.dims) for access, op in writes):
        if sum(counts) == prod(shape):
            return None
        return f"{sum(counts):,} of {prod(shape):,} elements are written"
    times = np.zeros(prod(shape), np.int32)
    for access, op in writes:
        np.add.at(times, _flat_indices(access, op.dims, shape), 1)
    if (times == 1).all():
        return None
    often, never = np.count_nonzero(times > 1), np.count_nonzero(times == 0)
    return f"{often:,} elements are written more than once, {never:,} never"


def _flat_indices(access: Access, dims: Sequence[Dim], shape: tuple[int, ...]) -> np.ndarray:
    """The row-major number of every element that the access touches, one per iteration of the dims that move it."""
    moving = sorted(access.dims)
    flat = np.zeros([dims[d].extent for d in moving], np.int64)
    for axis, extent in zip(access.axes, shape, strict=True):
        flat *= extent
        flat += axis.offset
        for dim, stride in axis.terms:
            steps = stride * np.arange(dims[dim].extent)
            flat += steps.reshape([-1 if d == dim else 1 for d in moving])
    return flat.ravel()

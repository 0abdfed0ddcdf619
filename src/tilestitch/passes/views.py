"""Views disappear: their neighbours read and write where the elements already are, or will be.

A view moves x[R(v)] to y[W(v)] for every v in a box, R and W affine. A reader of y at index a can read x instead where
W(v) = a has an affine solution v: it reads x[R(v)]. Likewise whoever writes x can write y, where R(v) = a has one.
What is left is copied, element by element.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from math import prod

from tilestitch.ir.graph import Access, Axis, Dim, DimKind, Graph, Operator, Tensor
from tilestitch.ir.region import Region
from tilestitch.ir.verify import fills_box, pair_dims
from tilestitch.ops import RULES, is_view
from tilestitch.ops.views import moved
from tilestitch.passes.fold import drop_unused, fold_constants, fresh_name
from tilestitch.passes.repeats import split_repeated


def resolve_views(graph: Graph) -> tuple[Graph, dict[str, tuple[str, ...]]]:
    """The network without view operators, and for each of its operators the names of those that now do the work.

    That is the operator itself; nothing for a view that its neighbours took in, or for what only led to parts that
    nobody reads; and for any other view one "copy" per pair that is left, named like the view, or `concat.0`,
    `concat.1`, ... where it had several pairs. Copies of one concatenation write disjoint parts of one tensor, which
    then has several producers.

    Views of constants are applied to the values. Every write stays one-to-one, but an axis may be indexed by several
    dims (64 * head + channel). A reader that pads reads through a view only where outside stays outside.
    """
    folded = fold_constants(graph)
    work, origins = _separate_pairs(folded)
    before = None
    while work != before:
        before = dict(work)
        _read_through(work, folded.tensors)
        _drop_dead(work, folded.outputs)
        _write_through(work, folded)
    constants = dict(folded.constants)
    operators = []
    for op in work.values():
        if not is_view(op):
            operators.append(op)
        elif _constant_again(op, folded, work, constants):
            constants.update(moved(op, constants, folded.tensors))
        else:
            operators.append(replace(op, kind="copy", attributes=()))
    resolved = drop_unused(replace(folded, operators=tuple(operators), constants=constants))
    done: dict[str, tuple[str, ...]] = {op.name: () for op in graph.operators}
    for op in resolved.operators:
        done[origins[op.name]] += (op.name,)
    return resolved, done


def _separate_pairs(graph: Graph) -> tuple[dict[str, Operator], dict[str, str]]:
    """Operators by name, each view cut into views of one pair; and the operator that each of them comes from."""
    names = {op.name for op in graph.operators}
    work: dict[str, Operator] = {}
    origins: dict[str, str] = {}
    for op in graph.operators:
        for number in range(len(op.writes) if is_view(op) else 1):
            one = op if len(op.writes) == 1 or not is_view(op) else _pair(op, number, names)
            names.add(one.name)
            work[one.name] = one
            origins[one.name] = op.name
    return work, origins


def _pair(view: Operator, number: int, names: set[str]) -> Operator:
    """One pair of a view as a view of its own, with only the dims that move it."""
    kept = pair_dims(view, number)
    position = {dim: i for i, dim in enumerate(kept)}

    def renumbered(access: Access) -> Access:
        axes = (replace(axis, terms=tuple((position[dim], s) for dim, s in axis.terms)) for axis in access.axes)
        return replace(access, axes=tuple(axes))

    return Operator(
        fresh_name(f"{view.name}.{number}", names),
        view.kind,
        tuple(view.dims[dim] for dim in kept),
        (renumbered(view.reads[number]),),
        (renumbered(view.writes[number]),),
    )


def _read_through(work: dict[str, Operator], tensors: Mapping[str, Tensor]) -> None:
    """Let every operator read past all views that allow it; one pass, as earlier views have been read past already."""
    views: dict[str, list[Operator]] = {}
    for op in work.values():
        if op.kind not in RULES:
            continue  # its arithmetic may depend on where its operands lie
        op = split_repeated(op, views)
        reads = []
        for read in op.reads:
            past: Access | None = read
            while past is not None:
                read = past
                past = _past_one(op, read, views.get(read.tensor, ()), tensors)
            reads.append(read)
        work[op.name] = op = replace(op, reads=tuple(reads))
        if is_view(op):
            views.setdefault(op.writes[0].tensor, []).append(op)


def _past_one(op: Operator, read: Access, views: Sequence[Operator], tensors: Mapping[str, Tensor]) -> Access | None:
    """`read` through the first view that allows it."""
    combined = frozenset(d for d, dim in enumerate(op.dims) if dim.kind is not DimKind.PARALLEL and dim.extent > 1)
    for view in views:
        found = _through(read, op.dims, view.writes[0], view.reads[0], view.dims, tensors)
        # a reduction over repeated elements needs the loop that repeats them
        if found is not None and read.dims & combined <= found.dims:
            return found
    return None


def _drop_dead(work: dict[str, Operator], outputs: Sequence[str]) -> None:
    """Remove operators that no output needs any more."""
    needed = set(outputs)
    for op in reversed(list(work.values())):
        if needed.isdisjoint(op.outputs):
            del work[op.name]
        else:
            needed.update(op.inputs)


def _write_through(work: dict[str, Operator], graph: Graph) -> None:
    """Let the operators that write a view's operand write its result, where it is a rearrangement of all elements.

    Each tensor is touched at most once; the caller repeats.
    """
    writers: dict[str, list[str]] = {}
    readers: dict[str, list[str]] = {}
    for op in work.values():
        for name in op.outputs:
            writers.setdefault(name, []).append(op.name)
        for name in op.inputs:
            readers.setdefault(name, []).append(op.name)
    touched: set[str] = set()
    for view in [op for op in work.values() if is_view(op)]:
        x, y = view.reads[0].tensor, view.writes[0].tensor
        if x in graph.outputs or x not in writers or {x, y} & touched or not covers(view.reads[0], view, graph):
            continue
        alone = readers[x] == [view.name]
        views = all(is_view(work[name]) for name in writers[x])
        if not covers(view.writes[0], view, graph) and not (alone and views):
            continue
        around = [*writers[x], *(name for name in readers[x] if name != view.name)]
        changed = [moved_to(view, work[name], graph.tensors) for name in around]
        if None in changed:
            continue
        work.update((op.name, op) for op in changed if op is not None)
        del work[view.name]
        touched |= {x, y}


def covers(access: Access, view: Operator, graph: Graph) -> bool:
    """Whether one side of a view touches each element of its tensor once, forwards, and each iteration another."""
    size = prod(graph.tensors[access.tensor].shape)
    forwards = all(stride > 0 for axis in access.axes for _, stride in axis.terms)
    return forwards and fills_box(access, view.dims) and access.hull(view.whole).size == view.iterations == size


def moved_to(view: Operator, op: Operator, tensors: Mapping[str, Tensor]) -> Operator | None:
    """`op` with every access to the operand of `view` turned into one to its result; None where one cannot be."""
    if op.kind not in RULES:
        return None
    here, there = view.reads[0], view.writes[0]

    def moved_access(access: Access) -> Access | None:
        return _through(access, op.dims, here, there, view.dims, tensors) if access.tensor == here.tensor else access

    reads, writes = tuple(map(moved_access, op.reads)), tuple(map(moved_access, op.writes))
    if None in reads or any(write is None or not fills_box(write, op.dims) for write in writes):
        return None
    return replace(op, reads=reads, writes=writes)


def _constant_again(view: Operator, graph: Graph, work: Mapping[str, Operator], constants: Container[str]) -> bool:
    """Whether a view that repeats a constant must be applied to its value after all, and can be."""
    source, result = view.reads[0].tensor, view.writes[0].tensor
    if source not in constants or result in graph.outputs:
        return False
    return sum(result in op.outputs for op in work.values()) == 1


def _through(
    access: Access,
    dims: Sequence[Dim],
    here: Access,
    there: Access,
    view_dims: Sequence[Dim],
    tensors: Mapping[str, Tensor],
) -> Access | None:
    """An access to `here.tensor` as one to `there.tensor`, the other side of a view; None where there is none.

    Solves here(v) = access for v and gives there(v). An index that leaves the tensor is padding, and must leave the
    other tensor at the same loop iterations.
    """
    hull = access.hull(Region.whole(tuple(dim.extent for dim in dims)))
    values: dict[int, Axis] = {}
    indirect = None
    for number, (index, axis) in enumerate(zip(access.axes, here.axes, strict=True)):
        found = _solve(index, axis, dims, view_dims)
        if found is None:
            return None
        low, high, extent = hull.start[number], hull.stop[number], tensors[here.tensor].shape[number]
        if number == access.indirect_axis or low < 0 or high > extent:
            image = _image(axis, extent, there, view_dims)
            if image is None:
                return None
            other, stride = image
            size = tensors[there.tensor].shape[other]
            outside = [-1] * (low < 0) + [extent] * (high > extent)
            if any(0 <= there.axes[other].offset + stride * value < size for value in outside):
                return None
            if number == access.indirect_axis:
                if stride != 1 or size != extent:
                    return None  # the rows have other numbers there
                indirect = other
        elif any(not _within(value, view_dims[dim].extent, dims) for dim, value in found.items()):
            return None
        values.update(found)
    axes = tuple(_substituted(axis, values) for axis in there.axes)
    return replace(access, tensor=there.tensor, axes=axes, indirect_axis=indirect)


def _solve(index: Axis, axis: Axis, dims: Sequence[Dim], view_dims: Sequence[Dim]) -> dict[int, Axis] | None:
    """The view dims of `axis` as affine functions of the loops of `index`, so that both are equal.

    `axis`, with positive strides, is read as a mixed-radix number: the largest stride takes what it divides, and so on.
    Only a candidate: each value must still lie within the extent of its dim. As a view is one-to-one, it is then the
    only solution.
    """
    left, constant = list(index.terms), index.offset - axis.offset
    values: dict[int, Axis] = {}
    for dim, stride in sorted(axis.terms, key=lambda term: (-term[1], -view_dims[term[0]].extent)):
        quotient, constant = divmod(constant, stride)
        values[dim] = Axis(tuple((d, s // stride) for d, s in left if s % stride == 0), quotient)
        left = [(d, s) for d, s in left if s % stride]
    exact = constant == 0 and all(dims[d].extent == 1 for d, _ in left)
    return values if exact else None


def _within(value: Axis, extent: int, dims: Sequence[Dim]) -> bool:
    low = value.offset + sum(min(0, s * (dims[d].extent - 1)) for d, s in value.terms)
    high = value.offset + sum(max(0, s * (dims[d].extent - 1)) for d, s in value.terms)
    return low >= 0 and high < extent


def _image(axis: Axis, extent: int, there: Access, view_dims: Sequence[Dim]) -> tuple[int, int] | None:
    """The one axis of `there` that the dim behind the whole of `axis` moves alone, and its stride there."""

    def movers(other: Axis) -> Sequence[tuple[int, int]]:
        return other.terms if len(other.terms) == 1 else [t for t in other.terms if view_dims[t[0]].extent > 1]

    if len(movers(axis)) != 1:
        return None
    ((dim, stride),) = movers(axis)
    places = [(n, movers(other)) for n, other in enumerate(there.axes) if any(d == dim for d, _ in movers(other))]
    if stride != 1 or view_dims[dim].extent != extent or len(places) != 1 or len(places[0][1]) != 1:
        return None
    ((number, ((_, there_stride),)),) = places
    return number, there_stride


def _substituted(axis: Axis, values: Mapping[int, Axis]) -> Axis:
    """`axis` with each dim of the view replaced by its value; dims without one have extent 1 and are 0."""
    strides: dict[int, int] = {}
    offset = axis.offset
    for dim, stride in axis.terms:
        value = values.get(dim, Axis(()))
        offset += stride * value.offset
        for d, s in value.terms:
            strides[d] = strides.get(d, 0) + stride * s
    terms = sorted(((d, s) for d, s in strides.items() if s), key=lambda term: (-abs(term[1]), term[0]))
    return Axis(tuple(terms), offset)

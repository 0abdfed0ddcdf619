"""How every tensor lies in memory: channels innermost in feature maps, one run per output channel in weights."""

from dataclasses import replace

from tilestitch.ir.graph import Access, DimKind, Graph, Operator
from tilestitch.ops import is_contraction
from tilestitch.ops.contraction import roles

Layout = tuple[int, ...]

_WINDOWED = frozenset({"average_pool", "conv", "max_pool"})
_REDUCTIONS = frozenset({"reduce_max", "reduce_mean", "reduce_min", "reduce_sum"})


def assign_layouts(graph: Graph) -> Graph:
    """Give every tensor of a graph without views its layout; shapes and accesses stay as they are.

    Feature maps (operands and results of convolutions, pools, and reductions over the axes after the channels) have
    their channels innermost: axes 0, 2, 3, 1 of [N, C, H, W]. Tensors whose axes correspond one to one, as those of
    element-wise operators and copies do, share a layout; where two operators ask differently, the earlier one wins.

    A constant second operand of a contraction has the axes of its output channels outermost and those of the
    reduction innermost, so that a slice of output channels is one contiguous run.

    Everything else lies in natural order. Inputs and outputs of the network are tensors like any other: the host
    delivers and takes them in their layout.
    """
    layouts = _weight_layouts(graph)
    leaders = _sharing(graph)
    wishes: dict[str, Layout] = {}
    for op in graph.operators:
        for access in _feature_maps(op):
            wishes.setdefault(leaders[access.tensor], _channels_last(access, op))
    tensors = {}
    for name, tensor in graph.tensors.items():
        natural = tuple(range(len(tensor.shape)))
        layout = layouts.get(name) or wishes.get(leaders[name], natural)
        tensors[name] = replace(tensor, layout=layout)
    return replace(graph, tensors=tensors)


def _weight_layouts(graph: Graph) -> dict[str, Layout]:
    """Constants that are the second operand of a contraction; the first contraction that reads one decides."""
    layouts: dict[str, Layout] = {}
    for op in graph.operators:
        if not is_contraction(op) or op.reads[1].tensor not in graph.constants:
            continue
        summed = frozenset(roles(op).k)
        axes = [frozenset(dim for dim, _ in axis.terms) for axis in op.reads[1].axes]
        if not any(dims & summed and dims - summed for dims in axes):
            inner = tuple(number for number, dims in enumerate(axes) if dims & summed)
            layouts.setdefault(op.reads[1].tensor, _innermost(inner, len(axes)))
    return layouts


def _sharing(graph: Graph) -> dict[str, str]:
    """Per tensor, one that stands for all that share its layout."""
    leaders = {name: name for name in graph.tensors}

    def leader(name: str) -> str:
        while leaders[name] != name:
            leaders[name] = name = leaders[leaders[name]]  # the way is half as long next time
        return name

    for op in graph.operators:
        for write in op.writes:
            for read in op.reads:
                moves = [axis.terms for axis in read.axes]
                if moves == [axis.terms for axis in write.axes] and all(len(terms) <= 1 for terms in moves):
                    leaders[leader(read.tensor)] = leader(write.tensor)
    return {name: leader(name) for name in graph.tensors}


def _feature_maps(op: Operator) -> tuple[Access, ...]:
    """The operand and the result of an operator on images."""
    spatial = sum(dim.kind is DimKind.REDUCTION for dim in op.dims)
    pools_all = op.kind in _REDUCTIONS and spatial == len(op.dims) - 2 >= 2 and op.dims[1].kind is DimKind.PARALLEL
    return (op.reads[0], op.writes[0]) if op.kind in _WINDOWED or pools_all else ()


def _channels_last(access: Access, op: Operator) -> Layout:
    """The axes that only channels move innermost; natural order below rank 3."""
    rank, channels = len(access.axes), _channels(op)
    if rank < 3:
        return tuple(range(rank))
    moved = [frozenset(dim for dim, _ in axis.terms) for axis in access.axes]
    return _innermost(tuple(number for number, dims in enumerate(moved) if dims and dims <= channels), rank)


def _channels(op: Operator) -> frozenset[int]:
    """The dims of an operator on images that are channels, of its operand or of its result."""
    axes = [frozenset(dim for dim, _ in axis.terms) for axis in op.reads[0].axes]
    summed = frozenset(d for d, dim in enumerate(op.dims) if dim.kind is DimKind.REDUCTION)
    if is_contraction(op):
        found = roles(op)
        spatial = frozenset(found.m).union(*(dims for dims in axes if dims.intersection(found.m)))
        return (summed - spatial).union(found.n, found.batch)
    spatial = summed.union(*(dims for dims in axes if dims & summed))
    return frozenset([d for d in range(len(op.dims)) if d not in spatial][1:])  # the first is the batch


def _innermost(axes: tuple[int, ...], rank: int) -> Layout:
    return tuple(axis for axis in range(rank) if axis not in axes) + axes

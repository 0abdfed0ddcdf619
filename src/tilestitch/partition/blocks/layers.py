"""A network as layers for block fusion: anchors, and what rides with the anchor before it.

An anchor is a product, a window, a mean over the image, an operator of two computed tensors, or a concatenation; all
else (batch normalisation, activations, softmax, views, bias) rides with the anchor whose result it changes. Each result
is divided along one axis: the rows of an image, the positions of a sequence, or, where there is neither, the channels.
"""

from dataclasses import dataclass
from math import prod

from tilestitch.ir.graph import Access, Graph, Operator
from tilestitch.ops import is_contraction, is_view
from tilestitch.ops.contraction import product_shape
from tilestitch.partition.blocks.model import FusionLayer, FusionNetwork, Read, filled

WINDOWS = ("max_pool", "average_pool", "lp_pool")
VECTOR_UTILIZATION = 1 / 32  # INFERRED: pools and sums, of the peak of a core


@dataclass(frozen=True, slots=True)
class _Value:
    """Where a tensor comes from, and along which of its axes it is divided (None: it is needed whole)."""

    source: int  # layer; below zero: -1 - number of an input
    axis: int | None


def layers_of(graph: Graph, *, granule: int) -> FusionNetwork:
    """The layers of a network. `granule` is how many channels a core multiplies at once."""
    values: dict[str, _Value] = {}
    inputs: list[tuple[int, int]] = []
    for name in graph.inputs:
        shape = graph.tensors[name].shape
        axis = _first_axis(shape)
        values[name] = _Value(-1 - len(inputs), axis)
        inputs.append((1 if axis is None else shape[axis], graph.tensors[name].size_bytes))
    builders: list[_Builder] = []
    for op in graph.operators:
        computed = [read for read in op.reads if read.tensor in values]
        sources = {values[read.tensor].source for read in computed}
        if not computed:  # made of constants alone
            weights = sum(graph.tensors[name].size_bytes for name in op.inputs)
            builders.append(_Builder([op.name], 0, VECTOR_UTILIZATION, (), weights, op.outputs[0]))
        elif _is_anchor(op, sources):
            builders.append(_anchor(graph, op, computed, values, granule))
        elif min(sources) < 0:  # the first to touch an input
            builders.append(_plain(graph, op, computed, values))
        else:
            (source,) = sources
            builder = builders[source]
            builder.operators.append(op.name)
            builder.weight_bytes += _constant_bytes(graph, op)
            builder.result = op.outputs[0]
            for name in op.outputs:
                values[name] = _Value(source, _moved(graph, op, computed[0], values[computed[0].tensor].axis, name))
            continue
        for name in op.outputs:
            axis = _own_axis(graph, op, values, name)
            values[name] = _Value(len(builders) - 1, axis)
            if name == op.outputs[0] and axis is not None:
                builders[-1].rows = graph.tensors[name].shape[axis]
    return _finished(graph, values, inputs, builders)


@dataclass
class _Builder:
    operators: list[str]
    operations: int
    utilization: float
    reads: tuple[tuple[int, int, int, bool], ...]  # source, kernel, stride, whole
    weight_bytes: int
    result: str
    rows: int = 1


def _is_anchor(op: Operator, sources: set[int]) -> bool:
    if len(sources) > 1:
        return True
    return is_contraction(op) or op.kind in WINDOWS or op.kind.startswith("reduce_")


def _anchor(graph: Graph, op: Operator, computed: list[Access], values: dict[str, _Value], granule: int) -> _Builder:
    if is_contraction(op):
        shape = product_shape(op, op.whole)
        operations = 2 * op.iterations
        utilization = filled(shape.k if op.kind == "matmul" else _depth(graph, op), granule) * filled(shape.n, granule)
        if shape.groups > 1 and shape.n == 1:
            utilization = 1 / granule  # depthwise
    else:
        operations, utilization = _elements(graph, op), VECTOR_UTILIZATION
    reads = tuple(_read(graph, op, read, values) for read in computed)
    return _Builder([op.name], operations, utilization, reads, _constant_bytes(graph, op), op.outputs[0])


def _depth(graph: Graph, op: Operator) -> int:
    """Input channels that one output channel of a convolution sums over."""
    return graph.tensors[op.reads[1].tensor].shape[1]


def _plain(graph: Graph, op: Operator, computed: list[Access], values: dict[str, _Value]) -> _Builder:
    reads = tuple(_read(graph, op, read, values) for read in computed)
    return _Builder(
        [op.name], _elements(graph, op), VECTOR_UTILIZATION, reads, _constant_bytes(graph, op), op.outputs[0]
    )


def _elements(graph: Graph, op: Operator) -> int:
    """Operations of a vector unit: one an iteration, or of a view one an element that moves."""
    return sum(prod(graph.tensors[name].shape) for name in op.outputs) if is_view(op) else op.iterations


def _constant_bytes(graph: Graph, op: Operator) -> int:
    """Weights; of a table that is gathered from, the rows that are read."""
    gathered = {read.tensor for read in op.reads if read.indirect_axis is not None}
    constants = [name for name in op.inputs if name in graph.constants]
    return sum(
        graph.tensors[op.outputs[0]].size_bytes if name in gathered else graph.tensors[name].size_bytes
        for name in constants
    )


def _read(graph: Graph, op: Operator, read: Access, values: dict[str, _Value]) -> tuple[int, int, int, bool]:
    """How many rows of an operand some rows of the result need."""
    value = values[read.tensor]
    out = _own_axis(graph, op, values, op.outputs[0])
    if value.axis is None or out is None:
        return value.source, 1, 1, True
    (dim,) = (dim for dim, _ in op.writes[0].axes[out].terms) if len(op.writes[0].axes[out].terms) == 1 else (None,)
    terms = read.axes[value.axis].terms
    strides = dict(terms)
    if dim is None or dim not in strides or (is_view(op) and len(op.writes) > 1 and len(terms) != 1):
        return value.source, 1, 1, True
    kernel = 1 + sum((op.dims[other].extent - 1) * abs(stride) for other, stride in terms if other != dim)
    return value.source, kernel, max(1, abs(strides[dim])), False


def _own_axis(graph: Graph, op: Operator, values: dict[str, _Value], name: str) -> int | None:
    """The axis along which an anchor's result is divided: where its first divided operand's axis goes, or channels."""
    for read in op.reads:
        value = values.get(read.tensor)
        if value is not None and value.axis is not None:
            axis = _moved(graph, op, read, value.axis, name)
            if axis is not None:
                return axis
    shape = graph.tensors[name].shape
    rows = _first_axis(shape)
    return rows if rows is not None else _channels(shape)


def _moved(graph: Graph, op: Operator, read: Access, axis: int | None, name: str) -> int | None:
    """The axis of a result that moves with an axis of an operand; None where none does alone, or it has one row."""
    if axis is None:
        return None
    number = op.reads.index(read)
    writes = [op.writes[number]] if is_view(op) else [write for write in op.writes if write.tensor == name]
    for dim, _ in read.axes[axis].terms:
        for place, target in enumerate(writes[0].axes):
            if target.terms == ((dim, 1),) and graph.tensors[name].shape[place] > 1:
                return place
    return None


def _first_axis(shape: tuple[int, ...]) -> int | None:
    """Rows of an image (N, C, H, W), positions of a sequence (N, S, C), rows of a matrix; None where there is one."""
    axis = {4: 2, 3: 1, 2: 0}.get(len(shape), 0)
    return axis if shape and shape[axis] > 1 else None


def _channels(shape: tuple[int, ...]) -> int | None:
    axis = 1 if len(shape) > 1 else 0
    return axis if shape and shape[axis] > 1 else None


def _finished(
    graph: Graph, values: dict[str, _Value], inputs: list[tuple[int, int]], builders: list[_Builder]
) -> FusionNetwork:
    """Layers with the results that leave them: those of the last operator that rides."""
    count = len(builders)
    layers = []
    for builder in builders:
        tensor = graph.tensors[builder.result]
        layers.append(
            FusionLayer(
                name=builder.operators[0],
                operators=tuple(builder.operators),
                operations=builder.operations,
                utilization=builder.utilization,
                channels=tensor.shape[1] if len(tensor.shape) == 4 else tensor.shape[-1] if tensor.shape else 1,
                rows=builder.rows,
                result_bytes=tensor.size_bytes,
                weight_bytes=builder.weight_bytes,
                reads=tuple(
                    Read(source if source >= 0 else count - 1 - source, kernel, stride, whole)
                    for source, kernel, stride, whole in builder.reads
                ),
            )
        )
    outputs = {values[name].source for name in graph.outputs if name in values}
    return FusionNetwork(
        graph.name, tuple(layers), tuple(inputs), frozenset(number for number in outputs if number >= 0)
    )

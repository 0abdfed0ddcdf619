"""Scales and shifts of norms become part of the weights and biases of the products that alone read the norms.

With the normalised rows x, the scale s and the shift t, (x s + t) W + b is x (s W) + (t W + b). Vector units then have
two operations less for each element, or one where there is no shift. The constants are computed in float64 and stored
in the type of those that they replace, as with a batch normalisation that is folded.
"""

from dataclasses import dataclass, replace

import numpy as np

from tilestitch.base.storage import STORAGE
from tilestitch.ir.graph import Access, Axis, DimKind, Graph, Operator, Tensor
from tilestitch.passes.fold import drop_unused, fresh_name
from tilestitch.passes.split_k import is_plain_product

_NORMS = ("layer_norm", "rms_norm")
_SCALE, _SHIFT = 1, 2  # reads of a norm
_WEIGHT, _BIAS = 1, 2  # reads of a product
_ROWS = 64  # of a weight that are float64 at a time


@dataclass(frozen=True, slots=True)
class _Reader:
    """A product that reads a norm, and where the norm's shift can go: to its bias, or to what is added behind it."""

    product: Operator
    channel: Axis  # of the norm, in the loops of the product
    column: Axis | None  # of the result, in the loops of the product; None: there is not one alone
    add: Operator | None  # the only reader of the product, which adds a constant to each column
    constant: int  # which read of that it is


def with_norms_in_products(graph: Graph) -> Graph:
    """The same network, of which views are composed away, with norms that have no scale and no shift where they can.

    That is where all readers of a norm are products that add up its rows, with constant weights.
    """
    for norm in graph.operators:
        readers = _readers(graph, norm)
        if readers:
            graph = _applied(graph, graph.by_name[norm.name], readers)
    return graph


def _readers(graph: Graph, norm: Operator) -> list[_Reader]:
    """The products that read a norm; none where its parameters cannot all become part of theirs."""
    if norm.kind not in _NORMS or len(norm.reads) == 1 or len(norm.writes) != 1 or norm.outputs[0] in graph.outputs:
        return []
    whole = [number for number, dim in enumerate(norm.dims) if dim.kind is DimKind.WHOLE]
    if len(whole) != 1:
        return []
    row = Axis(((whole[0], 1),), 0)
    constant = all(one.axes == (row,) and one.tensor in graph.constants for one in norm.reads[1:])
    if not constant or norm.writes[0].axes.count(row) != 1:
        return []
    at = norm.writes[0].axes.index(row)
    found = [_reader(graph, norm.outputs[0], at, op) for op in graph.consumers.get(norm.outputs[0], ())]
    readers = [one for one in found if one is not None]
    shifted = len(norm.reads) > _SHIFT and bool(np.any(graph.constants[norm.reads[_SHIFT].tensor]))
    possible = not shifted or all(one.column is not None and not _pads(graph, one.product) for one in readers)
    return readers if len(readers) == len(found) and possible else []


def _reader(graph: Graph, normed: str, at: int, op: Operator) -> _Reader | None:
    """A reader of a norm that multiplies its rows, which lie along axis `at`, by constants; None of others."""
    if not is_plain_product(graph, op) or op.reads[0].tensor != normed or normed in op.inputs[1:]:
        return None
    channel, weight = op.reads[0].axes[at], op.reads[_WEIGHT]
    loops = [dim for dim, _ in channel.terms]
    if len(loops) != 1 or channel != Axis(((loops[0], 1),), 0) or op.dims[loops[0]].kind is not DimKind.REDUCTION:
        return None
    extent = graph.tensors[normed].shape[at]
    if op.dims[loops[0]].extent != extent or weight.tensor not in graph.constants or weight.axes.count(channel) != 1:
        return None
    if any(len(axis.terms) != 1 or axis != Axis(((axis.terms[0][0], 1),), 0) for axis in weight.axes):
        return None
    columns = [axis for axis in weight.axes if axis in op.writes[0].axes]
    column = columns[0] if len(columns) == 1 else None
    biased = len(op.reads) > _BIAS
    if biased and (len(op.reads) != _BIAS + 1 or op.reads[_BIAS].tensor not in graph.constants):
        return None
    if biased and op.reads[_BIAS].axes != (column,):
        column = None
    add, constant = (None, 0) if biased or column is None else _added(graph, op, column)
    return _Reader(op, channel, column, add, constant)


def _added(graph: Graph, product: Operator, column: Axis) -> tuple[Operator | None, int]:
    """What adds a constant to each column of a product, and is all that reads it, with the read of the constant."""
    result = product.outputs[0]
    readers = graph.consumers.get(result, ())
    if len(readers) != 1 or readers[0].kind != "add" or len(readers[0].reads) != 2 or result in graph.outputs:
        return None, 0
    add = readers[0]
    for read in (0, 1):
        own, other = add.reads[read], add.reads[1 - read]
        if own.tensor == result and other.tensor in graph.constants:
            along = own.axes[product.writes[0].axes.index(column)]
            return (add, 1 - read) if other.axes == (along,) else (None, 0)
    return None, 0


def _pads(graph: Graph, product: Operator) -> bool:
    """Whether a product reads beyond the end of a norm, where there is no shift."""
    read = product.reads[0]
    hull, shape = read.hull(product.whole), graph.tensors[read.tensor].shape
    return any(low < 0 or high > size for low, high, size in zip(hull.start, hull.stop, shape, strict=True))


def _times(shift: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The sum over the first axis of a weight, each index times its shift, in float64; some rows at a time in cache."""
    found = np.zeros(weight.shape[1:], np.float64)
    for begin in range(0, len(shift), _ROWS):
        rows = slice(begin, begin + _ROWS)
        found += np.tensordot(shift[rows], weight[rows].astype(np.float64), axes=(0, 0))
    return found


def _applied(graph: Graph, norm: Operator, readers: list[_Reader]) -> Graph:
    """The network with the parameters of a norm in the constants of its readers."""
    tensors, constants = dict(graph.tensors), dict(graph.constants)
    scale = constants[norm.reads[_SCALE].tensor].astype(np.float64)
    shift = constants[norm.reads[_SHIFT].tensor].astype(np.float64) if len(norm.reads) > _SHIFT else None
    changed: dict[str, Operator] = {norm.name: replace(norm, reads=norm.reads[:1])}

    def added(wanted: str, value: np.ndarray, layout: tuple[int, ...] = (0,)) -> str:
        name = fresh_name(wanted, tensors)
        constants[name] = value
        tensors[name] = Tensor(name, value.shape, STORAGE[value.dtype], layout)
        return name

    def with_more(read: Access, more: np.ndarray) -> Access:
        value = constants[read.tensor]
        return replace(read, tensor=added(f"{read.tensor}.shifted", (value + more).astype(value.dtype)))

    for reader in readers:
        product = reader.product
        reads = list(product.reads)
        weight = constants[reads[_WEIGHT].tensor]
        at = reads[_WEIGHT].axes.index(reader.channel)
        along = scale.reshape([-1 if axis == at else 1 for axis in range(weight.ndim)])
        scaled = np.multiply(weight, along, dtype=np.float64, casting="same_kind", out=np.empty_like(weight))
        if shift is not None and np.any(shift):
            assert reader.column is not None
            keep = reads[_WEIGHT].axes.index(reader.column)
            moved = _times(shift, np.moveaxis(weight, at, 0))
            column = keep - (keep > at)
            more = moved.sum(axis=tuple(axis for axis in range(moved.ndim) if axis != column))
            if reader.add is not None:
                own = list(reader.add.reads)
                own[reader.constant] = with_more(own[reader.constant], more)
                changed[reader.add.name] = replace(reader.add, reads=tuple(own))
            elif len(reads) > _BIAS:
                reads[_BIAS] = with_more(reads[_BIAS], more)
            else:
                reads.append(Access(added(f"{product.name}.shift", more.astype(weight.dtype)), (reader.column,)))
        name = added(f"{reads[_WEIGHT].tensor}.scaled", scaled, tensors[reads[_WEIGHT].tensor].layout)
        reads[_WEIGHT] = replace(reads[_WEIGHT], tensor=name)
        changed[product.name] = replace(product, reads=tuple(reads))
    operators = tuple(changed.get(op.name, op) for op in graph.operators)
    return drop_unused(replace(graph, operators=operators, tensors=tensors, constants=constants))

"""Networks that find out scales and zero points while they run: what can be done for them beforehand.

Such a network quantises what comes by its smallest and largest element (DynamicQuantizeLinear), multiplies integers
(MatMulInteger, ConvInteger), and makes the sums real by a cast and a product with the scales.
"""

from dataclasses import replace

import numpy as np

from tilestitch.base.dtypes import DType
from tilestitch.ir.graph import Access, Axis, DimKind, Graph, Operator, Tensor
from tilestitch.ir.region import Region
from tilestitch.ops import is_contraction, is_elementwise, is_view
from tilestitch.ops.views import by_dims
from tilestitch.passes.fold import drop_unused, fresh_name


def dynamic_quantisation(graph: Graph) -> Graph:
    """The graph with bytes multiplied as bytes, and with sums and scales in types that can hold them."""
    return exact_scales(dequantised_sums(drop_unused(_corrected_sums(graph))))


def _corrected_sums(graph: Graph) -> Graph:
    """A zero point z that is computed is subtracted from sums: sum (a - z) b = sum a b - z sum b, b a constant.

    Not so where A is padded, since there the padding is z.
    """
    tensors, constants, operators = dict(graph.tensors), dict(graph.constants), []
    for op in graph.operators:
        centring = _centring(op, graph)
        if centring is None:
            operators.append(op)
            continue
        zeros = op.attribute("zeros")
        assert isinstance(zeros, tuple)
        weight = op.reads[1]
        values = by_dims(constants[weight.tensor].astype(np.int64), weight, op.whole, (0,) * len(weight.axes))
        summed = tuple(number for number, dim in enumerate(op.dims) if dim.kind is DimKind.REDUCTION)
        repeats = np.prod([op.dims[d].extent for d in summed if d not in weight.dims], dtype=np.int64)
        sums = (values - zeros[1]).sum(axis=summed, keepdims=True) * repeats
        kept = tuple(sorted(weight.dims.difference(summed)))
        name = fresh_name(f"{op.name}.weight_sums", tensors)
        constants[name] = sums.transpose(*kept, *(d for d in range(sums.ndim) if d not in kept)).reshape(
            [op.dims[d].extent for d in kept]
        )
        tensors[name] = Tensor(name, constants[name].shape, DType.INT32, tuple(range(len(kept))))
        reads = (
            replace(op.reads[0], tensor=centring.reads[0].tensor),
            weight,
            centring.reads[1],
            Access(name, tuple(Axis(((d, 1),)) for d in kept)),
            *op.reads[2:],
        )
        operators.append(replace(op, reads=reads, attributes=(*op.attributes, ("corrected", 1))))
    return replace(graph, operators=tuple(operators), tensors=tensors, constants=constants)


def _centring(op: Operator, graph: Graph) -> Operator | None:
    """The subtraction of one zero point that makes the first operand of a product of integers."""
    if not is_contraction(op) or not op.attribute("zeros", "") or op.reads[1].tensor not in graph.constants:
        return None
    first = graph.tensors[op.reads[0].tensor]
    found = next(iter(graph.producers.get(first.name, ())), None)
    if found is None or found.kind != "sub" or found.reads[0].axes != found.writes[0].axes or found.reads[1].dims:
        return None
    bytes_only = graph.tensors[found.reads[0].tensor].dtype in (DType.INT8, DType.UINT8)
    inside = Region.whole(first.shape).contains(op.reads[0].hull(op.whole))
    return found if bytes_only and inside else None


def dequantised_sums(graph: Graph) -> Graph:
    """A cast of an int32 tensor and the product with its scale, as dynamic quantisation writes them, are one operator.

    The integers may be beyond the range of float16; times the scale they are not.
    """
    replaced: dict[str, Operator | None] = {}
    for op in graph.operators:
        if op.kind != "mul":
            continue
        for number, read in enumerate(op.reads):
            cast = next(iter(graph.producers.get(read.tensor, ())), None)
            alone = len(graph.consumers[read.tensor]) == 1 and read.tensor not in graph.outputs
            if cast is None or cast.kind != "cast" or not alone or cast.reads[0].axes != cast.writes[0].axes:
                continue
            source = graph.tensors[cast.reads[0].tensor]
            if source.dtype is DType.INT32 and read.axes == op.writes[0].axes:
                reads = (replace(read, tensor=source.name), op.reads[1 - number])
                replaced[op.name] = replace(op, kind="dequantize", reads=reads)
                replaced[cast.name] = None
                break
    kept = (replaced.get(op.name, op) for op in graph.operators)
    return replace(graph, operators=tuple(op for op in kept if op is not None))


def exact_scales(graph: Graph) -> Graph:
    """Scales that are computed while the network runs, and what they are computed from, are stored in float32.

    They are few, and float16 has hardly any bits for the products of two of them.
    """
    tensors = dict(graph.tensors)
    waiting = [op.reads[1].tensor for op in graph.operators if op.kind in ("dequantize", "quantize") and op.reads[1:]]
    while waiting:
        tensor = tensors[waiting.pop()]
        if tensor.dtype is not DType.FLOAT16 or tensor.name in (*graph.inputs, *graph.outputs):
            continue
        tensors[tensor.name] = replace(tensor, dtype=DType.FLOAT32)
        for op in graph.producers.get(tensor.name, ()):
            if is_view(op) or is_elementwise(op):
                waiting += [read.tensor for read in op.reads if tensors[read.tensor].size_bytes <= tensor.size_bytes]
    return replace(graph, tensors=tensors)

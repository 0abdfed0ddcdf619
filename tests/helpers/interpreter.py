"""A graph on arrays, untiled, operator by operator: what every program must mean."""

from collections.abc import Mapping

import numpy as np

from tilestitch.base.dtypes import DType
from tilestitch.base.storage import STORAGE
from tilestitch.ir.graph import Access, Graph, Operator
from tilestitch.ops import RULES, is_view
from tilestitch.ops.views import by_dims, padded


def interpret(graph: Graph, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every tensor of the graph: floats as float32, integers as int64."""
    known = {**graph.constants, **{name: inputs[name] for name in graph.inputs}}
    values = {name: np.asarray(array).astype(wide_type(STORAGE[array.dtype])) for name, array in known.items()}
    for op in graph.operators:
        for name in op.outputs:
            if name in values:
                continue  # another operator has written its part
            tensor = graph.tensors[name]
            values[name] = np.zeros(tensor.shape, wide_type(tensor.dtype))
        if op.kind == "gather":
            results = [gathered(op, values)]
        else:
            results = RULES[op.kind].evaluate(op, [read(op, access, values[access.tensor]) for access in op.reads])
        for access, result in zip(op.writes, results, strict=True):
            written = by_dims(values[access.tensor], access, op.whole, (0,) * len(access.axes))
            written[...] = result if is_view(op) or result.dtype == written.dtype else result.astype(written.dtype)
    return values


def wide_type(dtype: DType) -> type:
    """The type of all arithmetic on elements of `dtype`."""
    return np.float32 if dtype.is_float else np.bool_ if dtype is DType.BOOL else np.int64


def read(op: Operator, access: Access, array: np.ndarray) -> np.ndarray:
    """An operand with one axis per dim, padding included."""
    hull, region = access.hull(op.whole), access.region(op.whole, array.shape)
    return by_dims(padded(array[region.slices], region, hull, access.pad_value), access, op.whole, hull.start)


def gathered(op: Operator, values: Mapping[str, np.ndarray]) -> np.ndarray:
    """The rows of the first operand that the second names, with one axis per dim."""
    data, indices = values[op.reads[0].tensor], read(op, op.reads[1], values[op.reads[1].tensor])
    steps = np.ix_(*(np.arange(dim.extent) for dim in op.dims))
    index = [sum((stride * steps[dim] for dim, stride in axis.terms), axis.offset) for axis in op.reads[0].axes]
    assert op.reads[0].indirect_axis is not None
    index[op.reads[0].indirect_axis] = indices
    return data[tuple(index)]

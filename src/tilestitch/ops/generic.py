"""Operators of the ONNX standard without a rule of our own: their value comes from elsewhere, and is not verified.

Such an operator keeps its node. Every tile of it is the whole: the dims only give each operand its footprint, and the
`i`-th read has its axes along the dims that attribute `read.i` lists, the `i`-th write likewise.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import onnx

from tilestitch.base.errors import InputError
from tilestitch.ir.graph import Operator
from tilestitch.ir.region import Region
from tilestitch.ops.onnx_node import evaluate_node
from tilestitch.ops.widening import in_float32

KIND = "generic"


def onnx_operator(op: Operator) -> str:
    """The name of the ONNX operator: `GRU`."""
    return str(op.attribute("op_type"))


def value_source(op: Operator) -> str:
    """Who evaluates it: onnxruntime, or onnx.reference."""
    return str(op.attribute("evaluator"))


def operations(op: Operator, box: Region) -> int:
    """One for each element of each result."""
    return sum(write.hull(box).size for write in op.writes)


def evaluate(op: Operator, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of the stored node; operands and results have one axis per dim, extent 1 where it does not move.

    Where operands come wider than the node says, in float32 instead of 16 bits, it is evaluated in float32.
    """
    model = op.attribute("model")
    assert isinstance(model, bytes)
    declared = (dtype for _, dtype in _inputs(model))
    if any(array.dtype == np.float32 != dtype for array, dtype in zip(operands, declared, strict=True)):
        model = _widened(model)
    extents = [dim.extent for dim in op.dims]
    feeds = {}
    for number, (value, array) in enumerate(zip(_inputs(model), operands, strict=True)):
        dims = _dims(op, f"read.{number}")
        name, dtype = value
        full = np.broadcast_to(array, [extents[d] if d in dims else 1 for d in range(len(extents))])
        ordered = full.transpose(*dims, *(d for d in range(len(extents)) if d not in dims))
        feeds[name] = ordered.reshape([extents[d] for d in dims]).astype(dtype)
    results = []
    for number, array in enumerate(evaluate_node(model, feeds)):
        dims = _dims(op, f"write.{number}")
        expected = tuple(extents[d] for d in dims)
        if array.shape != expected:
            raise InputError(
                f"generic operator '{op.name}' ({onnx_operator(op)}): {value_source(op)} gives a result of shape "
                f"{list(array.shape)}, and the standard's shape inference {list(expected)}."
            )
        shape = [extents[d] if d in dims else 1 for d in range(len(extents))]
        results.append(np.asarray(array).transpose(np.argsort(dims)).reshape(shape))
    return results


def _dims(op: Operator, name: str) -> tuple[int, ...]:
    found = op.attribute(name)
    assert isinstance(found, tuple)
    return tuple(int(dim) for dim in found)


@lru_cache(maxsize=256)
def _inputs(model: bytes) -> list[tuple[str, np.dtype]]:
    """Names and element types of what a model of one node reads, settings left out."""
    inputs = onnx.ModelProto.FromString(model).graph.input
    return [
        (value.name, np.dtype(onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)))
        for value in inputs
    ]


@lru_cache(maxsize=256)
def _widened(model: bytes) -> bytes:
    return in_float32(onnx.ModelProto.FromString(model)).SerializeToString()

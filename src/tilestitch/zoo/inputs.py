"""Inputs for any network: the same network, batch and seed give the same arrays."""

import zlib
from collections.abc import Mapping

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper

from tilestitch.base.dtypes import STORAGE, DType
from tilestitch.base.errors import InputError

_SAME_VALUES = ("Cast", "Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Expand", "Split")
_SAME_SHAPE = ("Cast", "Identity", "DequantizeLinear")


def sample_inputs(
    model: onnx.ModelProto, *, batch: int, shapes: Mapping[str, tuple[int, ...]] = {}, seed: int = 0
) -> dict[str, np.ndarray]:
    """Draw one array per input of `model`; a symbolic dim 0 becomes `batch`, `shapes` gives other symbolic dims.

    Floats are standard normal, their magnitudes where a type has no sign. Integers that index a table through a Gather
    lie below the size of the smallest one. Others of at most 16 bits are any value of their type, those of 32 and 64
    bits are 0 and 1. An integer input whose name ends in "mask" is ones, with up to an eighth of each row (at least one
    element, if the row has two) zero at its end.

    Raises `InputError` for elements that are no numbers, and for a dim other than 0 that has no size.
    """
    if batch < 1:
        raise InputError(f"batch: expected at least 1, found {batch}.")
    graph = model.graph
    constants = {tensor.name for tensor in graph.initializer}
    table_sizes = _table_sizes(graph)
    inputs: dict[str, np.ndarray] = {}
    for value in graph.input:
        if value.name in constants:
            continue  # older files list their weights among the inputs
        shape = _bound_shape(graph.name, value, batch, shapes.get(value.name))
        element_type = value.type.tensor_type.elem_type
        generator = np.random.Generator(np.random.PCG64([zlib.crc32(value.name.encode()), seed]))
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(element_type))
        stored = STORAGE.get(dtype)
        if stored is None:
            raise InputError(
                f"network '{graph.name}': input '{value.name}' has elements of type "
                f"{TensorProto.DataType.Name(element_type)}; expected numbers or booleans."
            )
        if stored.is_float:
            drawn = generator.standard_normal(shape)
            inputs[value.name] = (np.abs(drawn) if stored is DType.FLOAT8E8M0 else drawn).astype(dtype)
        elif stored is not DType.BOOL and value.name.endswith("mask") and shape:
            inputs[value.name] = _mask(generator, shape).astype(dtype)
        elif value.name in table_sizes:
            inputs[value.name] = generator.integers(0, table_sizes[value.name], shape).astype(dtype)
        else:
            inputs[value.name] = generator.integers(*_range(dtype), shape).astype(dtype)
    return inputs


def _range(dtype: np.dtype) -> tuple[int, int]:
    """From where to below where integers are drawn that index no table that is known."""
    if dtype == np.bool_ or dtype.itemsize > 2:
        return 0, 2
    limits = ml_dtypes.iinfo(dtype)
    return int(limits.min), int(limits.max) + 1


def _bound_shape(
    network: str, value: onnx.ValueInfoProto, batch: int, known: tuple[int, ...] | None
) -> tuple[int, ...]:
    where = f"network '{network}': input '{value.name}'"
    if not value.type.HasField("tensor_type"):
        raise InputError(f"{where} is not a tensor; export the network with tensors for inputs.")
    if not value.type.tensor_type.HasField("shape"):
        raise InputError(f"{where} has no shape; export the network with the shape of its inputs.")
    shape: list[int] = []
    for axis, dim in enumerate(value.type.tensor_type.shape.dim):
        if dim.HasField("dim_value"):
            shape.append(dim.dim_value)
        elif axis == 0:
            shape.append(batch)
        elif known is not None:
            shape.append(known[axis])
        else:
            raise InputError(
                f"{where}: dim {axis} is {dim.dim_param or 'unnamed'!r} and has no size; only dim 0, the batch, may "
                "be symbolic. Export the network with a fixed size there."
            )
    return tuple(shape)


def is_batched(value: onnx.ValueInfoProto) -> bool:
    """Whether dim 0 of an input is symbolic: the batch."""
    dims = value.type.tensor_type.shape.dim
    return len(dims) > 0 and not dims[0].HasField("dim_value")


def iteration_inputs(
    model: onnx.ModelProto,
    shapes: Mapping[str, tuple[int, ...]],
    *,
    batch: int,
    iterations: int,
    exported_batch: int | None,
) -> list[dict[str, np.ndarray]]:
    """Inputs of every iteration: slices of one batch where the network has a symbolic batch.

    A network that was exported for `exported_batch` samples gets inputs for so many drawn anew, side by side along
    axis 0.
    """
    if exported_batch is not None:
        count = batch // exported_batch
        return [
            _side_by_side(
                [sample_inputs(model, batch=1, shapes=shapes, seed=count * i + n) for n in range(count)],
                exported_batch,
            )
            for i in range(iterations)
        ]
    inputs = sample_inputs(model, batch=batch * iterations, shapes=shapes)
    batched = {value.name for value in model.graph.input if is_batched(value)}
    return [
        {name: value[i * batch : (i + 1) * batch] if name in batched else value for name, value in inputs.items()}
        for i in range(iterations)
    ]


def _side_by_side(parts: list[dict[str, np.ndarray]], exported_batch: int) -> dict[str, np.ndarray]:
    """Inputs whose axis 0 is the batch joined along it; others, which all samples share, are those of the first."""
    return {
        name: np.concatenate([part[name] for part in parts]) if value.shape[:1] == (exported_batch,) else value
        for name, value in parts[0].items()
    }


def _table_sizes(graph: onnx.GraphProto) -> dict[str, int]:
    """How many rows the smallest table has that each network input indexes, directly or in another shape or type."""
    carried = {value.name: value.name for value in graph.input}  # tensor to the network input with the same values
    shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    sizes: dict[str, int] = {}
    for node in graph.node:
        attributes = {attribute.name: attribute for attribute in node.attribute}
        if node.op_type == "Constant" and "value" in attributes:
            shapes[node.output[0]] = tuple(attributes["value"].t.dims)
        if node.op_type in _SAME_SHAPE and node.input[0] in shapes:
            shapes[node.output[0]] = shapes[node.input[0]]
        if node.op_type in _SAME_VALUES and node.input[0] in carried:
            carried.update(dict.fromkeys(node.output, carried[node.input[0]]))
        if node.op_type == "Gather" and node.input[0] in shapes and node.input[1] in carried:
            name = carried[node.input[1]]
            rows = shapes[node.input[0]][attributes["axis"].i if "axis" in attributes else 0]
            sizes[name] = min(rows, sizes.get(name, rows))
    return sizes


def _mask(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    length = shape[-1]
    zeros = np.minimum(generator.integers(1, max(1, length // 8), shape[:-1], endpoint=True), length - 1)
    return np.arange(length) < length - zeros[..., np.newaxis]

"""Inputs for any network: the same network, batch and seed give the same arrays."""

import zlib
from collections.abc import Mapping
from dataclasses import replace

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper

from tilestitch.base.dtypes import DType
from tilestitch.base.errors import InputError
from tilestitch.base.storage import STORAGE
from tilestitch.zoo.uses import Use, uses

BITS = (31, 23, 15, 7, 0)  # of the largest numbers that inputs of 32 and 64 bits take, from the boldest draw on
_DRAW = 1_000_003  # seeds of one draw
_EDGES = 4  # one integer in so many lies at an edge of its range, or is 1, 0 or -1


def sample_inputs(
    model: onnx.ModelProto,
    *,
    batch: int,
    shapes: Mapping[str, tuple[int, ...]] = {},
    seed: int = 0,
    bits: int = BITS[0],
) -> dict[str, np.ndarray]:
    """Draw one array per input of `model`; a symbolic dim 0 becomes `batch`, `shapes` gives other symbolic dims.

    Floats are standard normal, their magnitudes where a type has no sign. Integers that index a table, are lengths,
    divisors or counts of bits take any value that is valid there, see `zoo.uses`. Others have both signs and magnitudes
    of all sizes, edges of their range among them: of at most 16 bits any value of their type, else up to `bits` bits.
    An integer input whose name ends in "mask" is ones, with up to an eighth of each row (at least one element, if the
    row has two) zero at its end.

    Raises `InputError` for elements that are no numbers, and for a dim other than 0 that has no size.
    """
    if batch < 1:
        raise InputError(f"batch: expected at least 1, found {batch}.")
    graph = model.graph
    constants = {tensor.name for tensor in graph.initializer}
    values = [value for value in graph.input if value.name not in constants]  # older files list their weights there
    bound = {value.name: _bound_shape(graph.name, value, batch, shapes.get(value.name)) for value in values}
    limits = uses(graph, {**shapes, **bound}, {value.name: _item_bytes(value) for value in values})
    inputs: dict[str, np.ndarray] = {}
    for value in values:
        shape = bound[value.name]
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
        elif stored is DType.BOOL:
            inputs[value.name] = generator.integers(0, 2, shape).astype(dtype)
        elif value.name.endswith("mask") and shape:
            inputs[value.name] = _mask(generator, shape).astype(dtype)
        else:
            use = _range(dtype, bits)
            if value.name in limits:
                use = use.both(limits[value.name]) if limits[value.name].zero else replace(use, zero=False)
            inputs[value.name] = _integers(generator, use, shape).astype(dtype)
    return inputs


def integer_inputs(model: onnx.ModelProto) -> bool:
    """Whether a network has an input of integers."""
    constants = {tensor.name for tensor in model.graph.initializer}
    kinds = {value.type.tensor_type.elem_type for value in model.graph.input if value.name not in constants}
    stored = [STORAGE.get(np.dtype(helper.tensor_dtype_to_np_dtype(kind))) for kind in kinds if kind]
    return any(one is not None and not one.is_float and one is not DType.BOOL for one in stored)


def _item_bytes(value: onnx.ValueInfoProto) -> int:
    kind = value.type.tensor_type.elem_type
    return np.dtype(helper.tensor_dtype_to_np_dtype(kind)).itemsize if kind else 1


def _range(dtype: np.dtype, bits: int) -> Use:
    """Which integers of a type are drawn: all of one of at most 16 bits, and of the 32 that the machine stores."""
    limits = ml_dtypes.iinfo(dtype)
    least, largest = int(limits.min), int(limits.max)
    if dtype.itemsize <= 2:
        return Use(least, largest)
    if bits == 0:
        return Use(0, 1)
    if least == 0:
        return Use(0, 2**32 - 1 if bits >= 31 else 2**bits)
    return Use(-(2**bits), 2**bits - 1)


def _integers(generator: np.random.Generator, use: Use, shape: tuple[int, ...]) -> np.ndarray:
    """Where the range is short each value as often; else signs and magnitudes; edges besides."""
    if use.largest - use.least < 2**16:
        drawn = generator.integers(use.least, use.largest + 1, shape)
    else:
        drawn = np.floor(2.0 ** generator.uniform(0, np.log2(use.largest), shape)).astype(np.int64)
        drawn = np.where(generator.integers(0, 2, shape) == 1, drawn, -drawn)
    edges = [use.least, use.least + 1, -1, 0, 1, use.largest - 1, use.largest]
    valid = np.array([one for one in edges if use.least <= one <= use.largest])
    at_edge = generator.integers(0, _EDGES, shape) == 0
    drawn = np.clip(np.where(at_edge, generator.choice(valid, shape), drawn), use.least, use.largest)
    return drawn if use.zero else np.where(drawn == 0, 1, drawn)


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
    draw: int = 0,
    bits: int = BITS[0],
) -> list[dict[str, np.ndarray]]:
    """Inputs of every iteration: slices of one batch where the network has a symbolic batch.

    A network that was exported for `exported_batch` samples gets inputs for so many drawn anew, side by side along
    axis 0. Each `draw` gives others.
    """
    first = _DRAW * draw
    if exported_batch is not None:
        count = batch // exported_batch
        return [
            _side_by_side(
                [
                    sample_inputs(model, batch=1, shapes=shapes, seed=first + count * i + n, bits=bits)
                    for n in range(count)
                ],
                exported_batch,
            )
            for i in range(iterations)
        ]
    inputs = sample_inputs(model, batch=batch * iterations, shapes=shapes, seed=first, bits=bits)
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


def _mask(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    length = shape[-1]
    zeros = np.minimum(generator.integers(1, max(1, length // 8), shape[:-1], endpoint=True), length - 1)
    return np.arange(length) < length - zeros[..., np.newaxis]

"""Shapes of a network's inputs: symbolic dims get their sizes from the batch and from named dims."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from tilestitch.dtypes import STORAGE
from tilestitch.errors import InputError
from tilestitch.frontend.accesses import Shape
from tilestitch.frontend.element_types import known_types, numpy_type, type_name


def bind_shapes(
    where: str, inputs: Sequence[onnx.ValueInfoProto], *, batch: int | None, dims: Mapping[str, int]
) -> dict[str, Shape]:
    """The shape of every input.

    A symbolic dim 0 is the batch. Other symbolic dims are found in `dims` by name; one without a name is called
    `<input>.<axis>`. `dims` may bind a dim 0 as well, if the batch does not bind it to something else.
    """
    for name, size in (*(() if batch is None else (("batch", batch),)), *dims.items()):
        if size < 1:
            raise InputError(f"{where}: {name}: expected at least 1, found {size}.")
    symbols = {value.name: _symbols(where, value) for value in inputs}
    known = {symbol for axes in symbols.values() for symbol in axes if isinstance(symbol, str)}
    for name in dims:
        if name not in known:
            found = ", ".join(sorted(known)) or "none"
            raise InputError(f"{where}: no input has a dim named '{name}'; symbolic dims: {found}.")
    sizes = dict(dims)
    batched = False
    for name, axes in symbols.items():
        if batch is None or not axes or not isinstance(axes[0], str):
            continue
        if sizes.setdefault(axes[0], batch) != batch:
            raise InputError(
                f"{where}: input '{name}': dim 0, '{axes[0]}', is bound to {sizes[axes[0]]} by name and to {batch} as "
                "the batch; give one of them."
            )
        batched = True
    if batch is not None and not batched:
        raise InputError(f"{where}: no input has a symbolic dim 0, so there is no batch to be {batch}; leave it out.")
    return {name: _sized(where, name, axes, sizes) for name, axes in symbols.items()}


def exported_batch(inputs: Sequence[onnx.ValueInfoProto]) -> int | None:
    """The batch that a network was exported with: axis 0 of its first input that has one, else 1.

    None where an axis 0 is symbolic, so that any batch will do. Inputs without elements do not count.
    """
    shapes = [value.type.tensor_type.shape.dim for value in inputs]
    found = [dims for dims in shapes if not any(dim.HasField("dim_value") and dim.dim_value == 0 for dim in dims)]
    first = [dims[0] for dims in found if dims]
    if any(not dim.HasField("dim_value") for dim in first):
        return None
    return first[0].dim_value if first else 1


def exported_batch_of(model: onnx.ModelProto) -> int | None:
    """`exported_batch` of a model, whose inputs may be listed together with its weights."""
    weights = {tensor.name for tensor in model.graph.initializer}
    return exported_batch([value for value in model.graph.input if value.name not in weights])


def element_type(where: str, value: onnx.ValueInfoProto) -> np.dtype:
    """The element type of an input, which must be one that has a place in memory."""
    number = value.type.tensor_type.elem_type
    found = numpy_type(number)
    if found is None or found not in STORAGE:
        raise InputError(
            f"{where}: input '{value.name}' has elements of type {type_name(number)}; supported: {known_types()}."
        )
    return found


def _symbols(where: str, value: onnx.ValueInfoProto) -> tuple[int | str, ...]:
    """Per axis its size, or the name of its symbolic dim."""
    if not value.type.HasField("tensor_type"):
        raise InputError(f"{where}: input '{value.name}' is not a tensor; export with tensors for inputs.")
    if not value.type.tensor_type.HasField("shape"):
        raise InputError(f"{where}: input '{value.name}' has no shape; export with the shapes of inputs.")
    axes: list[int | str] = []
    for number, dim in enumerate(value.type.tensor_type.shape.dim):
        if not dim.HasField("dim_value"):
            axes.append(dim.dim_param or f"{value.name}.{number}")
        elif dim.dim_value < 0:
            raise InputError(
                f"{where}: input '{value.name}': dim {number} has size {dim.dim_value}; expected at least 0."
            )
        else:
            axes.append(dim.dim_value)
    return tuple(axes)


def _sized(where: str, name: str, axes: tuple[int | str, ...], sizes: Mapping[str, int]) -> Shape:
    shape = []
    for number, symbol in enumerate(axes):
        if isinstance(symbol, int):
            shape.append(symbol)
        elif symbol in sizes:
            shape.append(sizes[symbol])
        else:
            way_out = f"--dim {symbol}=SIZE" + (" or --batch SIZE" if number == 0 else "")
            raise InputError(f"{where}: input '{name}': dim {number}, '{symbol}', has no size; give it: {way_out}.")
    return tuple(shape)

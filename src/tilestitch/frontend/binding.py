"""Shapes of a network's inputs: symbolic dims get their sizes from the batch and from named dims."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from tilestitch.base.errors import InputError
from tilestitch.base.storage import STORAGE
from tilestitch.frontend.element_types import known_types, numpy_type, type_name
from tilestitch.frontend.operators.accesses import Shape


def with_sizes(where: str, model: onnx.ModelProto, dims: Mapping[str, int]) -> onnx.ModelProto:
    """The model with the symbolic dims of its inputs that `dims` names written as sizes; itself where it names none.

    A symbolic dim without a name is called `<input>.<axis>`. An axis 0 that got its size so is not the batch.
    """
    if not dims:
        return model
    for name, size in dims.items():
        if size < 1:
            raise InputError(f"{where}: {name}: expected at least 1, found {size}.")
    sized = onnx.ModelProto()
    sized.CopyFrom(model)
    weights = {tensor.name for tensor in sized.graph.initializer}
    known: set[str] = set()
    for value in sized.graph.input:
        if value.name in weights:
            continue
        for axis, symbol in zip(value.type.tensor_type.shape.dim, _symbols(where, value), strict=True):
            if isinstance(symbol, str):
                known.add(symbol)
                if symbol in dims:
                    axis.dim_value = dims[symbol]
    for name in dims:
        if name not in known:
            found = ", ".join(sorted(known)) or "none"
            raise InputError(f"{where}: no input has a dim named '{name}'; symbolic dims: {found}.")
    return sized


def bind_shapes(where: str, inputs: Sequence[onnx.ValueInfoProto], *, batch: int | None) -> dict[str, Shape]:
    """The shape of every input; a symbolic dim 0 is the batch."""
    if batch is not None and batch < 1:
        raise InputError(f"{where}: batch: expected at least 1, found {batch}.")
    symbols = {value.name: _symbols(where, value) for value in inputs}
    sizes: dict[str, int] = {}
    if batch is not None:
        sizes = {axes[0]: batch for axes in symbols.values() if axes and isinstance(axes[0], str)}
        if not sizes:
            raise InputError(f"{where}: no input has a symbolic dim 0, so the batch cannot be {batch}; leave it out.")
    return {name: _sized(where, name, axes, sizes) for name, axes in symbols.items()}


def faults_of_inputs(where: str, inputs: Sequence[onnx.ValueInfoProto], *, batch: int | None) -> list[str]:
    """Everything that is wrong with inputs: types, and each dim without a size, which is said of its first input."""
    found: list[str] = []
    said: set[str] = set()
    for value in inputs:
        try:
            axes = _symbols(where, value)
            element_type(where, value)
        except InputError as error:
            found.append(str(error))
            continue
        for number, symbol in enumerate(axes):
            if isinstance(symbol, str) and symbol not in said and not (number == 0 and batch is not None):
                said.add(symbol)
                found.append(_without_size(where, value.name, number, symbol))
    return found


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
            raise InputError(_without_size(where, name, number, symbol))
    return tuple(shape)


def _without_size(where: str, name: str, number: int, symbol: str) -> str:
    way_out = f"--dim {symbol}=SIZE" + (" or --batch SIZE" if number == 0 else "; the batch is dim 0")
    return f"{where}: input '{name}': dim {number}, '{symbol}', has no size; give it: {way_out}."

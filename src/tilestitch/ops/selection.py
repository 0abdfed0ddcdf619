"""Arithmetic of operators that compare places: which element of a result another one goes to, or comes from."""

from collections.abc import Sequence

import numpy as np

from tilestitch.ir.graph import DimKind, Operator

_COMBINED = {
    "none": lambda old, new: new,
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def scatter(op: Operator, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Operands: data, the number of the place of each update, updates, and the number of each place.

    The one reduction dim runs over the updates; places that a negative number names are counted from the end.
    """
    data, indices, updates, places = operands
    update = _reduced(op)
    combined, size = _COMBINED[str(op.attribute("reduction"))], op.attribute("size")
    indices = np.where(indices < 0, indices + size, indices)
    found = data
    for number in range(indices.shape[update]):
        here = indices.take([number], update) == places
        found = np.where(here, combined(found, updates.take([number], update)), found)
    return [np.broadcast_to(found, np.broadcast_shapes(found.shape, places.shape))]


def _reduced(op: Operator) -> int:
    """The one reduction dim."""
    (found,) = (number for number, dim in enumerate(op.dims) if dim.kind is DimKind.REDUCTION)
    return found


def arg(op: Operator, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The place of the greatest (`arg_max`) or least element along the reduction dim."""
    (x,), axis = operands, _reduced(op)
    find = np.argmax if op.kind == "arg_max" else np.argmin
    if op.attribute("select_last_index"):
        return [x.shape[axis] - 1 - find(np.flip(x, axis), axis=axis, keepdims=True)]
    return [find(x, axis=axis, keepdims=True)]


def cumulative(op: Operator, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The running sum (`cum_sum`) or product along the whole dim; `exclusive` leaves out the place itself."""
    (x,) = operands
    (axis,) = (number for number, dim in enumerate(op.dims) if dim.kind is DimKind.WHOLE)
    add = op.kind == "cum_sum"
    x = np.flip(x, axis) if op.attribute("reverse") else x
    if op.attribute("exclusive"):
        first = np.full_like(x.take([0], axis), 0 if add else 1)
        x = np.concatenate((first, x.take(range(x.shape[axis] - 1), axis)), axis)
    found = (np.cumsum if add else np.cumprod)(x, axis=axis, dtype=x.dtype)
    return [np.flip(found, axis) if op.attribute("reverse") else found]


def top_k(op: Operator, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The greatest or least elements along the reduction dim, which move to the whole dim, and their places."""
    (x,), axis = operands, _reduced(op)
    (count,) = (dim.extent for dim in op.dims if dim.kind is DimKind.WHOLE)
    to = next(number for number, dim in enumerate(op.dims) if dim.kind is DimKind.WHOLE)
    if op.attribute("largest"):  # a stable sort of the flipped axis, flipped back: equal elements by falling place
        order = x.shape[axis] - 1 - np.flip(np.flip(x, axis).argsort(axis=axis, kind="stable"), axis)
    else:
        order = x.argsort(axis=axis, kind="stable")
    order = order.take(range(count), axis)
    found = {"values": np.take_along_axis(x, order, axis), "indices": order}
    return [np.swapaxes(found[name], axis, to) for name in str(op.attribute("results")).split()]

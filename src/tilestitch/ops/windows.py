"""Arithmetic of pools other than the largest and the mean element: their dims of reduction are the window."""

from collections.abc import Sequence

import numpy as np

from tilestitch.ir.graph import DimKind, Operator
from tilestitch.ops.functions import real


def _window(op: Operator) -> tuple[int, ...]:
    return tuple(i for i, dim in enumerate(op.dims) if dim.kind is DimKind.REDUCTION)


def lp_pool(op: Operator, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """(sum |x|^p)^(1/p)."""
    p = real(op, "p")
    total = np.power(np.abs(operands[0]), p).sum(axis=_window(op), keepdims=True)
    return [np.power(total, 1 / p)]


def place_of_largest(op: Operator, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Operands: elements, their places, and what is added to the place: that of the largest, the first of several."""
    x, places, first = operands
    axes = _window(op)
    last = tuple(range(-len(axes), 0))
    x, places = (np.moveaxis(array, axes, last) for array in np.broadcast_arrays(x, places))
    x, places = (array.reshape(*array.shape[: -len(axes)], -1) for array in (x, places))
    found = np.take_along_axis(places, x.argmax(axis=-1)[..., None], axis=-1)[..., 0]
    return [np.expand_dims(found, axes) + first]

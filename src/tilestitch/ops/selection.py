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
    (update,) = (number for number, dim in enumerate(op.dims) if dim.kind is DimKind.REDUCTION)
    combined, size = _COMBINED[str(op.attribute("reduction"))], op.attribute("size")
    indices = np.where(indices < 0, indices + size, indices)
    found = data
    for number in range(indices.shape[update]):
        here = indices.take([number], update) == places
        found = np.where(here, combined(found, updates.take([number], update)), found)
    return [np.broadcast_to(found, np.broadcast_shapes(found.shape, places.shape))]

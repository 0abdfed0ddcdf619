"""Sums whose rounding does not depend on how an operand lies in memory.

numpy adds in pairs only along the axis that is contiguous; along others it adds one by one, and the error of a mean
over a whole image would grow with the layout. The summed axes are therefore made contiguous first.
"""

import numpy as np


def total(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """The sum over `axes`, which keep extent 1."""
    kept = tuple(axis for axis in range(x.ndim) if axis not in axes)
    ordered = x.transpose(*kept, *axes)
    flat = np.ascontiguousarray(ordered).reshape(*ordered.shape[: len(kept)], -1)
    return np.expand_dims(flat.sum(axis=-1), axes)


def mean(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """The mean over `axes`, which keep extent 1."""
    count = int(np.prod([x.shape[axis] for axis in axes]))
    return total(x, axes) / x.dtype.type(count)


def variance(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """The mean square of what is left without the mean."""
    centred = x - mean(x, axes)
    return mean(centred * centred, axes)

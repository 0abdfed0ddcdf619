"""Arithmetic that needs all of some axes at once (whole dims), or of a window: softmax, norms, local responses."""

from collections.abc import Sequence

import numpy as np

from tilestitch.ir.graph import DimKind, Operator
from tilestitch.ops.functions import real
from tilestitch.ops.sums import mean, total


def _whole(op: Operator) -> tuple[int, ...]:
    return tuple(i for i, dim in enumerate(op.dims) if dim.kind is DimKind.WHOLE)


def softmax(op: Operator, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """exp(x) over the sum of all, without overflow; NaN where all are minus infinity."""
    x, axes = operands[0], _whole(op)
    exponential = np.exp(x - x.max(axis=axes, keepdims=True))
    return [exponential / total(exponential, axes)]


def log_softmax(op: Operator, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The logarithm of a softmax."""
    x, axes = operands[0], _whole(op)
    shifted = x - x.max(axis=axes, keepdims=True)
    return [shifted - np.log(total(np.exp(shifted), axes))]


def hardmax(op: Operator, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """One where the largest element lies, the first of several; zero elsewhere."""
    x, axes = operands[0], _whole(op)
    last = tuple(range(-len(axes), 0))
    moved = np.moveaxis(x, axes, last)
    rows = moved.reshape(*moved.shape[: x.ndim - len(axes)], -1)
    found = np.zeros_like(rows)
    np.put_along_axis(found, rows.argmax(axis=-1)[..., None], 1, axis=-1)
    return [np.moveaxis(found.reshape(moved.shape), last, axes)]


def layer_norm(op: Operator, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Mean 0 and variance 1 over the whole axes, then a scale and a bias where there are."""
    x, axes = operands[0], _whole(op)
    centred = x - mean(x, axes)
    variance = mean(centred * centred, axes)
    return [_affine(centred / np.sqrt(variance + real(op, "epsilon")), operands[1:])]


def rms_norm(op: Operator, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Mean square 1 over the whole axes, then a scale where there is one."""
    x, axes = operands[0], _whole(op)
    mean_square = mean(x * x, axes)
    return [_affine(x / np.sqrt(mean_square + real(op, "epsilon")), operands[1:])]


def lp_norm(op: Operator, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Divided by the sum of magnitudes (p = 1) or the root of the sum of squares (p = 2); zeros stay zeros."""
    x, axes = operands[0], _whole(op)
    if op.attribute("p") == 1:
        norm = total(np.abs(x), axes)
    else:
        norm = np.sqrt(total(x * x, axes))
    return [x / np.where(norm == 0, np.float32(1), norm)]


def local_response(op: Operator, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """x / (bias + alpha * mean w^2)^beta; `operands[0]` is the window w of channels around `operands[1]`, x."""
    window, x = operands
    axes = tuple(i for i, dim in enumerate(op.dims) if dim.kind is DimKind.REDUCTION)
    squares = (window * window).mean(axis=axes, keepdims=True)
    return [x / np.power(real(op, "bias") + real(op, "alpha") * squares, real(op, "beta"))]


def _affine(x: np.ndarray, parameters: Sequence[np.ndarray]) -> np.ndarray:
    """Times the first parameter, plus the second, as far as there are any."""
    if len(parameters) > 0:
        x = x * parameters[0]
    return x + parameters[1] if len(parameters) > 1 else x

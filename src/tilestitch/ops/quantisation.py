"""From real numbers to quantised ones and back, as ONNX defines it: a step (scale) and the number that stands for zero.

Operands come as float32 and int64; all real arithmetic is float32, each operation rounded by itself.
"""

import numpy as np

from tilestitch.base.dtypes import DType
from tilestitch.ir.graph import Operator
from tilestitch.ops.conversion import FORMATS, clamped, convert


def quantise(x: np.ndarray, scale: np.ndarray, zero: np.ndarray, to: DType, *, saturate: bool = True) -> np.ndarray:
    """`x / scale` to nearest, ties to even, plus `zero`, and no further than the ends of the type."""
    steps = np.divide(x, scale, dtype=np.float32)
    if to in FORMATS:
        return convert(steps + zero, to, saturate=saturate)
    return clamped(np.rint(steps) + zero, to)


def dequantise(x: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
    """`(x - zero) * scale`, the difference exact where both are integers."""
    return (x - zero).astype(np.float32) * scale.astype(np.float32)


def apply_quantise(op: Operator, x: np.ndarray, *steps: np.ndarray) -> np.ndarray:
    """The function of a `quantize` operator."""
    scale, zero = _steps(op, steps)
    to, saturate = DType(str(op.attribute("to"))), op.attribute("saturate", 1) != 0
    return quantise(x.astype(np.float32), scale, zero, to, saturate=saturate)


def apply_dequantise(op: Operator, x: np.ndarray, *steps: np.ndarray) -> np.ndarray:
    """The function of a `dequantize` operator."""
    return dequantise(x, *_steps(op, steps))


def _steps(op: Operator, steps: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Scale and zero point: attributes where they are one number each, else operands, of which zero may be absent."""
    if steps:
        return steps[0], steps[1] if len(steps) > 1 else np.zeros((), np.int64)
    scale, zero = op.attribute("scale"), op.attribute("zero")
    assert isinstance(scale, int | float)
    return np.asarray(scale, np.float32), np.asarray(zero)

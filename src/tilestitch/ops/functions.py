"""Arithmetic of element-wise operators, and how many primitive vector operations each element costs."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from tilestitch.base.dtypes import DType
from tilestitch.ir.graph import Operator
from tilestitch.ops.conversion import convert, reinterpreted, wrapped
from tilestitch.ops.quantisation import apply_dequantise, apply_quantise
from tilestitch.ops.streaming import exp_difference


@dataclass(frozen=True, slots=True)
class Function:
    """An element-wise function: `operations` counts the primitive steps of its decomposed form."""

    operations: int
    apply: Callable[..., np.ndarray]  # (operator, *operands) -> array


def real(op: Operator, name: str, default: float | None = None) -> np.float32:
    """The value of a floating attribute, in the type of all arithmetic."""
    value = op.attribute(name, default)
    assert isinstance(value, int | float), (op.name, name)
    return np.float32(value)


@cache
def _erf_ufunc():  # noqa: ANN202  (numba's ufunc type has no public name)
    from numba import vectorize  # numba takes most of a second to import, and few networks need it here

    return vectorize(["float32(float32)", "float64(float64)"], cache=True)(_erf)


def _erf(x: float) -> float:
    return math.erf(x)  # numba compiles functions of Python only


def erf(x: np.ndarray) -> np.ndarray:
    """The error function, element by element."""
    return _erf_ufunc()(x)


def _gelu(op: Operator, x: np.ndarray) -> np.ndarray:
    if op.attribute("approximate", "none") == "tanh":
        inner = np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x * x * x)
        return np.float32(0.5) * x * (1 + np.tanh(inner))
    return np.float32(0.5) * x * (1 + erf(x * np.float32(math.sqrt(0.5))))


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _hard_sigmoid(op: Operator, x: np.ndarray) -> np.ndarray:
    return np.clip(real(op, "alpha", 0.2) * x + real(op, "beta", 0.5), 0, 1)


def _celu(op: Operator, x: np.ndarray) -> np.ndarray:
    alpha = real(op, "alpha")
    return np.maximum(x, 0) + np.minimum(alpha * np.expm1(x / alpha), 0)


def _selu(op: Operator, x: np.ndarray) -> np.ndarray:
    return real(op, "gamma") * np.where(x > 0, x, real(op, "alpha") * np.expm1(np.minimum(x, 0)))


def _shrink(op: Operator, x: np.ndarray) -> np.ndarray:
    """Zero within `lambd` of zero; the rest moves towards zero by `bias`."""
    limit, bias = real(op, "lambd"), real(op, "bias")
    return np.where(x < -limit, x + bias, np.where(x > limit, x - bias, np.zeros_like(x)))


def _batch_norm(op: Operator, x: np.ndarray, scale, bias, mean, variance) -> np.ndarray:
    return scale * (x - mean) / np.sqrt(variance + real(op, "epsilon")) + bias


def _pow(op: Operator, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Of integers in float64, as onnxruntime: exponents may be negative, and zero then gives an infinity."""
    return np.power(x, y) if x.dtype.kind == "f" else wrapped(np.power(x.astype(np.float64), y), DType.INT32)


def _div(op: Operator, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if np.issubdtype(np.result_type(x, y), np.integer):
        safe = np.where(y == 0, 1, y)
        return np.sign(x) * np.sign(safe) * (np.abs(x) // np.abs(safe))  # ONNX rounds towards zero
    return x / y


def _cast(op: Operator, x: np.ndarray) -> np.ndarray:
    saturate, round_mode = op.attribute("saturate", 1) != 0, str(op.attribute("round_mode", "up"))
    return convert(x, DType(str(op.attribute("to"))), saturate=saturate, round_mode=round_mode)


def _is_inf(op: Operator, x: np.ndarray) -> np.ndarray:
    negative, positive = bool(op.attribute("detect_negative")), bool(op.attribute("detect_positive"))
    return (np.isneginf(x) & negative) | (np.isposinf(x) & positive)


def _mod(op: Operator, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The remainder, with the sign of the divisor, or with `fmod` that of the dividend."""
    return np.fmod(x, y) if op.attribute("fmod") else np.mod(x, y)


def _bits(op: Operator, x: np.ndarray) -> np.ndarray:
    """Integers as the type of the result holds them: the lowest `bits` of an unsigned type, all of a signed one."""
    bits = op.attribute("bits")
    assert isinstance(bits, int)
    return x & ((1 << bits) - 1) if bits < 63 else x


def _shift(op: Operator, x: np.ndarray, by: np.ndarray) -> np.ndarray:
    return np.right_shift(x, by) if op.attribute("direction") == "RIGHT" else _bits(op, np.left_shift(x, by))


FUNCTIONS: dict[str, Function] = {
    "abs": Function(1, lambda op, x: np.abs(x)),
    "acos": Function(1, lambda op, x: np.arccos(x)),
    "acosh": Function(5, lambda op, x: np.arccosh(x)),  # log(x + sqrt(x * x - 1))
    "add": Function(1, lambda op, x, y: x + y),
    "and": Function(1, lambda op, x, y: np.logical_and(x, y)),
    "asin": Function(1, lambda op, x: np.arcsin(x)),
    "asinh": Function(5, lambda op, x: np.arcsinh(x)),  # log(x + sqrt(x * x + 1))
    "atan": Function(1, lambda op, x: np.arctan(x)),
    "atanh": Function(5, lambda op, x: np.arctanh(x)),  # log((1 + x) / (1 - x)) / 2
    "batch_norm": Function(2, _batch_norm),  # scale and shift: the statistics are constants
    "bit_cast": Function(1, lambda op, x: reinterpreted(x, str(op.attribute("from")), str(op.attribute("to")))),
    "bit_and": Function(1, lambda op, x, y: x & y),
    "bit_not": Function(1, lambda op, x: _bits(op, ~x)),
    "bit_or": Function(1, lambda op, x, y: x | y),
    "bit_shift": Function(1, _shift),
    "bit_xor": Function(1, lambda op, x, y: x ^ y),
    "cast": Function(1, _cast),
    "ceil": Function(1, lambda op, x: np.ceil(x)),
    "celu": Function(4, _celu),
    "clip": Function(2, lambda op, x: np.clip(x, real(op, "min"), real(op, "max"))),
    "copy": Function(1, lambda op, x: x),
    "cos": Function(1, lambda op, x: np.cos(x)),
    "cosh": Function(4, lambda op, x: np.cosh(x)),  # (exp x + 1 / exp x) / 2
    "dequantize": Function(2, apply_dequantise),  # difference, product
    "div": Function(1, _div),
    "elu": Function(3, lambda op, x: np.where(x > 0, x, real(op, "alpha") * np.expm1(np.minimum(x, 0)))),
    "equal": Function(1, lambda op, x, y: x == y),
    "erf": Function(1, lambda op, x: erf(x)),
    "exp": Function(1, lambda op, x: np.exp(x)),
    "exp_difference": Function(2, lambda op, x, y: exp_difference(x, y)),
    "floor": Function(1, lambda op, x: np.floor(x)),
    "gelu": Function(5, _gelu),
    "greater": Function(1, lambda op, x, y: x > y),
    "greater_or_equal": Function(1, lambda op, x, y: x >= y),
    "hard_sigmoid": Function(3, _hard_sigmoid),
    "hard_swish": Function(4, lambda op, x: x * np.clip(x * np.float32(1 / 6) + np.float32(0.5), 0, 1)),
    "is_inf": Function(1, _is_inf),
    "is_nan": Function(1, lambda op, x: np.isnan(x)),
    "leaky_relu": Function(2, lambda op, x: np.where(x < 0, real(op, "alpha") * x, x)),
    "less": Function(1, lambda op, x, y: x < y),
    "less_or_equal": Function(1, lambda op, x, y: x <= y),
    "log": Function(1, lambda op, x: np.log(x)),
    "max": Function(1, lambda op, x, y: np.maximum(x, y)),
    "min": Function(1, lambda op, x, y: np.minimum(x, y)),
    "mish": Function(5, lambda op, x: x * np.tanh(np.logaddexp(x, 0))),  # a softplus is 3, then tanh and product
    "mod": Function(1, _mod),
    "mul": Function(1, lambda op, x, y: x * y),
    "neg": Function(1, lambda op, x: -x),
    "not": Function(1, lambda op, x: np.logical_not(x)),
    "or": Function(1, lambda op, x, y: np.logical_or(x, y)),
    "pow": Function(1, _pow),
    "prelu": Function(2, lambda op, x, slope: np.where(x < 0, slope * x, x)),
    "quantize": Function(4, apply_quantise),  # quotient, rounding, sum, clamp
    "reciprocal": Function(1, lambda op, x: 1 / x),
    "relu": Function(1, lambda op, x: np.maximum(x, 0)),
    "round": Function(1, lambda op, x: np.rint(x)),
    "selu": Function(4, _selu),
    "shrink": Function(4, _shrink),
    "sigmoid": Function(4, lambda op, x: _sigmoid(x)),
    "sign": Function(1, lambda op, x: np.sign(x)),
    "sin": Function(1, lambda op, x: np.sin(x)),
    "sinh": Function(4, lambda op, x: np.sinh(x)),  # (exp x - 1 / exp x) / 2
    "softplus": Function(3, lambda op, x: np.logaddexp(x, 0)),
    "softsign": Function(3, lambda op, x: x / (1 + np.abs(x))),
    "sqrt": Function(1, lambda op, x: np.sqrt(x)),
    "sub": Function(1, lambda op, x, y: x - y),
    "swish": Function(5, lambda op, x: x * _sigmoid(real(op, "alpha", 1.0) * x)),
    "tan": Function(3, lambda op, x: np.tan(x)),  # sine, cosine, quotient
    "tanh": Function(1, lambda op, x: np.tanh(x)),
    "thresholded_relu": Function(2, lambda op, x: np.where(x > real(op, "alpha"), x, np.zeros_like(x))),
    "where": Function(1, lambda op, condition, x, y: np.where(condition, x, y)),
    "xor": Function(1, lambda op, x, y: np.logical_xor(x, y)),
}

"""Conversions between element types as ONNX defines them, on arrays of float32, int64 or bool."""

from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from tilestitch.base.dtypes import DType


@dataclass(frozen=True, slots=True)
class Format:
    """A floating type of at most 8 bits; `beyond` is what a value beyond the largest becomes without saturation."""

    fraction_bits: int
    least_exponent: int  # of the normal numbers
    largest: float
    beyond: float


# Source: the operator Cast of the ONNX standard, and OCP Microscaling Formats 1.0, section 5.3. The types of less than
# 8 bits have neither infinity nor NaN and always saturate.
FORMATS = MappingProxyType(
    {
        DType.FLOAT8E4M3FN: Format(3, -6, 448.0, np.nan),
        DType.FLOAT8E4M3FNUZ: Format(3, -7, 240.0, np.nan),
        DType.FLOAT8E5M2: Format(2, -14, 57344.0, np.inf),
        DType.FLOAT8E5M2FNUZ: Format(2, -15, 57344.0, np.nan),
        DType.FLOAT6E2M3: Format(3, 0, 7.5, 7.5),
        DType.FLOAT6E3M2: Format(2, -2, 28.0, 28.0),
        DType.FLOAT4E2M1: Format(1, 0, 6.0, 6.0),
    }
)
_WITHOUT_NAN = frozenset({DType.FLOAT6E2M3, DType.FLOAT6E3M2, DType.FLOAT4E2M1})
_E8M0_EXPONENTS = -127, 127  # of the type that has no fraction and no sign


def convert(x: np.ndarray, to: DType, *, saturate: bool = True, round_mode: str = "up") -> np.ndarray:
    """The values of `x` in another element type, in the type of all arithmetic.

    Integers lose their fraction and then their higher bits; floats of at most 8 bits round to nearest, ties to even,
    and beyond their range saturate or not. float16 and bfloat16 round where they are stored. `round_mode` is that of
    float8e8m0.
    """
    if to is DType.BOOL:
        return x != 0
    if to is DType.FLOAT8E8M0:
        return _power_of_two(x, saturate=saturate, round_mode=round_mode)
    if to in FORMATS:
        return _rounded(x, FORMATS[to], saturate=saturate, nan=0.0 if to in _WITHOUT_NAN else np.nan)
    if to.is_float:
        return x.astype(np.float32, copy=False)
    return wrapped(x, to)


def wrapped(x: np.ndarray, to: DType) -> np.ndarray:
    """Whole numbers without the bits that an integer type lacks.

    The standard leaves open what becomes of NaN and of floats beyond the type. Here they become what x86 processors,
    and so onnxruntime there, make of them: the least integer of 32 bits, of 64 for uint32, without its higher bits.
    """
    if x.dtype.kind == "f":
        limit = 2.0 ** (63 if to is DType.UINT32 else 31)
        x = np.where((x >= -limit) & (x < limit), x, -limit)
    low, high = to.limits
    return (x.astype(np.int64) - low) % (high - low + 1) + low


def clamped(x: np.ndarray, to: DType) -> np.ndarray:
    """Whole numbers in float32, at the ends of an integer type where they lie beyond it."""
    return np.nan_to_num(np.clip(x, *to.limits)).astype(np.int64)


def _rounded(x: np.ndarray, form: Format, *, saturate: bool, nan: float) -> np.ndarray:
    """To nearest, ties to even: the distance of neighbours follows from the exponent, and is exact in float64."""
    x = x.astype(np.float64)
    exponent = np.maximum(np.frexp(x)[1] - 1, form.least_exponent)
    step = np.ldexp(1.0, exponent - form.fraction_bits)
    found = np.rint(x / step) * step
    beyond = np.copysign(form.largest if saturate else form.beyond, x)
    found = np.where(np.abs(found) > form.largest, beyond, found)
    return np.where(np.isnan(x), nan, found).astype(np.float32)


def _power_of_two(x: np.ndarray, *, saturate: bool, round_mode: str) -> np.ndarray:
    """A magnitude as a power of two; what lies outside of the range, zero among it, saturates or is NaN."""
    lowest, highest = _E8M0_EXPONENTS
    magnitude = np.abs(x.astype(np.float64))
    fraction, exponent = np.frexp(magnitude)  # magnitude = fraction * 2**exponent, fraction from 0.5 to below 1
    limit = {"up": 0.5, "nearest": np.nextafter(0.75, 0.0), "down": 1.0}[round_mode]
    exponent = exponent - 1 + (fraction > limit)
    outside = (magnitude == 0) | np.isinf(magnitude) | (exponent < lowest) | (exponent > highest)
    found = np.ldexp(1.0, np.clip(np.where(magnitude == 0, lowest, exponent), lowest, highest))
    found = np.where(np.isinf(magnitude), np.ldexp(1.0, highest), found)
    found = np.where(np.isnan(magnitude) | (outside & (not saturate)), np.nan, found)
    return found.astype(np.float32)


def reinterpreted(x: np.ndarray, source: str, target: str) -> np.ndarray:
    """The bits of `x`, as numpy's type `source` has them, read as `target`."""
    kind = np.dtype(target)
    found = x.astype(source).view(kind)
    if kind == np.bool_:
        return found
    return found.astype(np.int64 if kind.kind in "iu" else np.float32)

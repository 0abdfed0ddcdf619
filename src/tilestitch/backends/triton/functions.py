"""Element-wise operators as expressions of Triton, in float32; of integers where that is the same."""

import math
from collections.abc import Callable, Sequence

from tilestitch.base.dtypes import DType
from tilestitch.ir.graph import Operator

Write = Callable[..., str]  # (operator, *operands) -> an expression


def number(value: float) -> str:
    """A number as Triton reads it."""
    return f'float("{value}")' if math.isinf(value) or math.isnan(value) else repr(float(value))


def quantised(x: str, scale: str, zero: str, to: DType) -> str:
    """`x / scale` to nearest, ties to even, plus `zero`, and no further than the ends of an integer type."""
    low, high = (f"({end} - {zero})" if zero.isidentifier() else number(end - int(zero)) for end in to.limits)
    text = f"to_nearest(tl.minimum(tl.maximum(tl.div_rn({x}, {scale}), {low}), {high})).to(tl.int32)"
    return text if zero == "0" else f"{text} + {zero}"


def _real(op: Operator, name: str, default: float | None = None) -> float:
    value = op.attribute(name, default)
    assert isinstance(value, int | float), (op.name, name)
    return float(value)


def _tanh(x: str) -> str:
    return f"2.0 * tl.sigmoid(2.0 * ({x})) - 1.0"


def _gelu(op: Operator, x: str) -> str:
    if op.attribute("approximate", "none") == "tanh":
        inner = f"{math.sqrt(2 / math.pi)!r} * ({x} + 0.044715 * {x} * {x} * {x})"
        return f"{x} * tl.sigmoid(2.0 * {inner})"  # (1 + tanh y) / 2 is the sigmoid of 2 y
    return f"0.5 * {x} * (1.0 + tl.erf({x} * {math.sqrt(0.5)!r}))"


def _clip(op: Operator, x: str) -> str:
    low, high = _real(op, "min"), _real(op, "max")
    text = x if low == -math.inf else f"tl.maximum({x}, {number(low)})"
    return text if high == math.inf else f"tl.minimum({text}, {number(high)})"


def _hard_sigmoid(op: Operator, x: str) -> str:
    slope, shift = number(_real(op, "alpha", 0.2)), number(_real(op, "beta", 0.5))
    return f"tl.minimum(tl.maximum({x} * {slope} + {shift}, 0.0), 1.0)"


def _elu(op: Operator, x: str) -> str:
    return f"tl.where({x} > 0.0, {x}, {number(_real(op, 'alpha'))} * (tl.exp({x}) - 1.0))"


def _batch_norm(op: Operator, x: str, scale: str, bias: str, mean: str, variance: str) -> str:
    return f"{scale} * ({x} - {mean}) / tl.sqrt({variance} + {number(_real(op, 'epsilon'))}) + {bias}"


def _selu(op: Operator, x: str) -> str:
    gamma, alpha = number(_real(op, "gamma")), number(_real(op, "alpha"))
    return f"{gamma} * tl.where({x} > 0.0, {x}, {alpha} * (tl.exp({x}) - 1.0))"


def _softplus(x: str) -> str:
    return f"tl.maximum({x}, 0.0) + tl.log(1.0 + tl.exp(-tl.abs({x})))"


FLOATS: dict[str, Write] = {
    "abs": lambda op, x: f"tl.abs({x})",
    "add": lambda op, x, y: f"{x} + {y}",
    "batch_norm": _batch_norm,
    "ceil": lambda op, x: f"tl.ceil({x})",
    "clip": _clip,
    "cos": lambda op, x: f"tl.cos({x})",
    "div": lambda op, x, y: f"{x} / {y}",
    "elu": _elu,
    "equal": lambda op, x, y: f"{x} == {y}",
    "erf": lambda op, x: f"tl.erf({x})",
    "exp": lambda op, x: f"tl.exp({x})",
    "floor": lambda op, x: f"tl.floor({x})",
    "gelu": _gelu,
    "greater": lambda op, x, y: f"{x} > {y}",
    "greater_or_equal": lambda op, x, y: f"{x} >= {y}",
    "hard_sigmoid": _hard_sigmoid,
    "hard_swish": lambda op, x: f"{x} * tl.minimum(tl.maximum({x} / 6.0 + 0.5, 0.0), 1.0)",
    "leaky_relu": lambda op, x: f"tl.where({x} < 0.0, {number(_real(op, 'alpha'))} * {x}, {x})",
    "less": lambda op, x, y: f"{x} < {y}",
    "less_or_equal": lambda op, x, y: f"{x} <= {y}",
    "log": lambda op, x: f"tl.log({x})",
    "max": lambda op, x, y: f"tl.maximum({x}, {y})",
    "min": lambda op, x, y: f"tl.minimum({x}, {y})",
    "mul": lambda op, x, y: f"{x} * {y}",
    "neg": lambda op, x: f"-{x}",
    "prelu": lambda op, x, slope: f"tl.where({x} < 0.0, {slope} * {x}, {x})",
    "reciprocal": lambda op, x: f"1.0 / {x}",
    "round": lambda op, x: f"tl.where(tl.abs({x}) < 4194304.0, to_nearest({x}), {x})",  # others have no fraction
    "relu": lambda op, x: f"tl.maximum({x}, 0.0)",
    "selu": _selu,
    "sigmoid": lambda op, x: f"tl.sigmoid({x})",
    "sin": lambda op, x: f"tl.sin({x})",
    "softplus": lambda op, x: _softplus(x),
    "softsign": lambda op, x: f"{x} / (1.0 + tl.abs({x}))",
    "sqrt": lambda op, x: f"tl.sqrt({x})",
    "sub": lambda op, x, y: f"{x} - {y}",
    "swish": lambda op, x: f"{x} * tl.sigmoid({number(_real(op, 'alpha', 1.0))} * {x})",
    "tanh": lambda op, x: _tanh(x),
}
INTEGERS = frozenset(("abs", "add", "equal", "greater", "greater_or_equal", "less", "less_or_equal", "max", "min"))
INTEGERS |= frozenset(("mul", "neg", "sub"))
NARROW = ("int8", "uint8", "int16")  # integers that are computed in 32 bits
BOOLEANS: dict[str, Write] = {
    "and": lambda op, x, y: f"{x} & {y}",
    "not": lambda op, x: f"{x} == 0",
    "or": lambda op, x, y: f"{x} | {y}",
    "xor": lambda op, x, y: f"{x} ^ {y}",
}
COMPARISONS = frozenset(("equal", "greater", "greater_or_equal", "less", "less_or_equal"))
MOVES = frozenset(("cast", "copy", "dequantize", "pad", "quantize", "where"))
_POWERS = {2.0: "{x} * {x}", 3.0: "{x} * {x} * {x}", 0.5: "tl.sqrt({x})", -0.5: "tl.rsqrt({x})", 1.0: "{x}"}
ELEMENTWISE = frozenset((*FLOATS, *BOOLEANS, *MOVES, "pow"))


def expression(op: Operator, operands: Sequence[str], kinds: Sequence[str]) -> tuple[str, str] | None:
    """What an operator computes of operands of these kinds, and the kind of the result; None where it cannot be said.

    Operands are names or numbers, so that no brackets are needed.
    """
    if op.kind in ("copy", "pad"):
        return operands[0], kinds[0]
    if op.kind == "cast":
        return _cast(str(op.attribute("to")), operands[0], kinds[0])
    if op.kind == "quantize":
        return _quantize(op, operands, kinds)
    if op.kind == "dequantize":
        return _dequantize(op, operands, kinds)
    if op.kind == "where":
        kind = "float" if "float" in kinds[1:] else kinds[1]
        return f"tl.where({', '.join(operands)})", kind
    if op.kind == "pow":
        return _power(operands[0], operands[1], kinds[0])
    if op.kind in BOOLEANS:
        return (BOOLEANS[op.kind](op, *operands), "bool") if set(kinds) == {"bool"} else None
    if op.kind not in FLOATS:
        return None
    if "float" not in kinds and (op.kind not in INTEGERS or "bool" in kinds):
        return None
    kind = "bool" if op.kind in COMPARISONS else "float" if "float" in kinds else "int"
    return FLOATS[op.kind](op, *operands), kind


def _cast(to: str, x: str, kind: str) -> tuple[str, str] | None:
    if to == "bool":
        return f"{x} != 0", "bool"
    if to in ("float16", "float32", "bfloat16"):
        return (x if kind == "float" else f"{x}.to(tl.float32)"), "float"
    if to not in ("int32", *NARROW):
        return None
    text = x if kind == "int" else f"{x}.to(tl.int32)"
    return (text if to == "int32" else wrapped(text, to)), "int"


def wrapped(x: str, to: str) -> str:
    """Integers without the bits that a narrower type lacks."""
    return f"{x}.to(tl.{to}).to(tl.int32)"


def _quantize(op: Operator, operands: Sequence[str], kinds: Sequence[str]) -> tuple[str, str] | None:
    to = str(op.attribute("to"))
    if to not in NARROW or kinds[0] != "float":
        return None
    scale, zero = _steps(op, operands)
    return quantised(operands[0], scale, zero, DType(to)), "int"


def _dequantize(op: Operator, operands: Sequence[str], kinds: Sequence[str]) -> tuple[str, str] | None:
    if kinds[0] != "int":
        return None
    scale, zero = _steps(op, operands)
    text = operands[0] if zero == "0" else f"({operands[0]} - {bracketed(zero)})"
    return f"{text}.to(tl.float32) * {scale}", "float"


def _steps(op: Operator, operands: Sequence[str]) -> tuple[str, str]:
    """Scale and zero point: operands, of which the second may be absent, or attributes."""
    if len(operands) > 1:
        return operands[1], operands[2] if len(operands) > 2 else "0"
    return number(_real(op, "scale")), str(op.attribute("zero", 0))


def bracketed(text: str) -> str:
    """A number with brackets where a sign stands before it."""
    return f"({text})" if text.startswith("-") else text


def _power(x: str, exponent: str, kind: str) -> tuple[str, str] | None:
    """A power whose exponent is one of few numbers: of others Triton would need a logarithm of `x`."""
    try:
        text = _POWERS.get(float(exponent))
    except ValueError:
        return None
    return None if text is None or kind != "float" else (text.format(x=x), "float")

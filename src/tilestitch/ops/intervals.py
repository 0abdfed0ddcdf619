"""Between which bounds the integers of a network lie whatever its inputs are: interval arithmetic, kind by kind.

A rule gets the intervals of an operator's operands, padding included, and gives one per result that contains every
value there can be; None says that nothing is known, as of floats. What leaves an integer type wraps around, so that the
whole type is possible then.
"""

from collections.abc import Callable, Sequence
from math import ceil, floor, inf, isfinite, prod
from typing import NamedTuple

from tilestitch.base.dtypes import DType
from tilestitch.ir.graph import DimKind, Operator
from tilestitch.ops.functions import real

_MOST_BITS = 128  # a power of more is beyond every type
_EXACT = 2**53  # up to here float64 holds every integer


class Interval(NamedTuple):
    """All integers from `least` to `largest`."""

    least: int
    largest: int

    def hull(self, other: "Interval") -> "Interval":
        return Interval(min(self.least, other.least), max(self.largest, other.largest))

    def within(self, other: "Interval") -> bool:
        return other.least <= self.least and self.largest <= other.largest

    @property
    def magnitude(self) -> int:
        return max(-self.least, self.largest)


Known = Interval | None
BIT = Interval(0, 1)


def type_interval(dtype: DType) -> Interval:
    """What an element of an integer type in memory can be."""
    return BIT if dtype is DType.BOOL else Interval(*dtype.limits)


def result_intervals(op: Operator, operands: Sequence[Known]) -> list[Known]:
    """An interval for each result of an operator."""
    if op.kind in _BOOLEAN:
        return [BIT]
    if op.kind in _MOVING:
        return list(operands)
    if op.kind == "gather":  # whatever is fetched is there
        return [operands[0]]
    if op.kind == "place_of_largest":
        operands = operands[1:]
    if op.kind == "top_k":
        found = {"values": operands[0], "indices": Interval(0, _reduced(op) - 1)}
        return [found[name] for name in str(op.attribute("results")).split()]
    rule, several = _ALWAYS.get(op.kind), _RULES.get(op.kind)
    if rule is not None:
        return [rule(op)]
    known = [one for one in operands if one is not None]
    if several is None or len(known) < len(operands):
        return [None] * len(op.writes)
    return [several(op, *known)]


def _spanned(*numbers: int) -> Interval:
    return Interval(min(numbers), max(numbers))


def _reduced(op: Operator) -> int:
    """How many iterations come to one result."""
    return prod(dim.extent for dim in op.dims if dim.kind is DimKind.REDUCTION)


def _times(x: Interval, y: Interval) -> Interval:
    return _spanned(*(a * b for a in x for b in y))


def _plus(x: Interval, y: Interval) -> Interval:
    return Interval(x.least + y.least, x.largest + y.largest)


def _minus(x: Interval, y: Interval) -> Interval:
    return Interval(x.least - y.largest, x.largest - y.least)


def _quotient(op: Operator, x: Interval, y: Interval) -> Interval:
    """Towards zero: monotonous in both on each side of zero; by zero as by one, since the file means nothing by it."""
    sides = _common(y, Interval(y.least, -1)), _common(y, Interval(0, y.largest))
    divisors = [end or 1 for side in sides if side is not None for end in side]
    return _spanned(*(_towards_zero(a, b) for a in x for b in divisors))


def _common(x: Interval, y: Interval) -> Known:
    least, largest = max(x.least, y.least), min(x.largest, y.largest)
    return Interval(least, largest) if least <= largest else None


def _towards_zero(a: int, b: int) -> int:
    found = abs(a) // abs(b)
    return found if (a < 0) == (b < 0) else -found


def _remainder(op: Operator, x: Interval, y: Interval) -> Interval:
    """Smaller than the divisor, with its sign, or with that of the dividend, which it does not exceed then."""
    most = max(y.magnitude - 1, 0)
    if op.attribute("fmod"):
        return Interval(max(-most, min(x.least, 0)), min(most, max(x.largest, 0)))
    if x.least >= 0 and y.least > 0:
        return Interval(0, min(most, x.largest))
    return Interval(-most if y.least < 0 else 0, most if y.largest > 0 else 0)


def _power(op: Operator, x: Interval, y: Interval) -> Known:
    """Of integers; zero to a negative power is no integer, one or minus one stay, and the rest becomes zero."""
    if y.least < 0 and x.least <= 0 <= x.largest:
        return None
    found = _powers(x, max(y.least, 0), y.largest) if y.largest >= 0 else Interval(0, 0)
    if found is None or found.magnitude > _EXACT:
        return None
    return found if y.least >= 0 else found.hull(Interval(-1, 1))


def _powers(x: Interval, least: int, largest: int) -> Known:
    """`x` to the powers from `least` to `largest`, none of which is negative."""
    if x.magnitude > 1 and largest * x.magnitude.bit_length() > _MOST_BITS:
        return None
    if x.least >= 0:
        return _spanned(x.least**least, x.least**largest, x.largest**least, x.largest**largest)
    most = max(x.magnitude, 1) ** largest
    return Interval(-most, max(most, 1))


def _product(op: Operator, x: Interval) -> Known:
    return _powers(x, _reduced(op), _reduced(op))


def _sum(op: Operator, x: Interval) -> Interval:
    return _times(x, Interval(_reduced(op), _reduced(op)))


def _running(op: Operator, x: Interval) -> Known:
    """From the first element, or none, to all of them."""
    count = prod(dim.extent for dim in op.dims if dim.kind is DimKind.WHOLE)
    first, last = (0, count - 1) if op.attribute("exclusive") else (1, count)
    if op.kind == "cum_sum":
        return _times(x, Interval(first, last))
    return _powers(x, first, last)


def _contraction(op: Operator, first: Interval, second: Interval, *others: Interval) -> Known:
    """Sums of products, less what the numbers that stand for zero add to them; rescaled sums are no integers."""
    if op.attribute("rescaled", 0):
        to = str(op.attribute("to", ""))
        return type_interval(DType(to)) if to and not DType(to).is_float else None
    zeros = op.attribute("zeros", (0, 0))
    assert isinstance(zeros, tuple)
    a, b = (Interval(*(end - int(zero) for end in one)) for one, zero in zip((first, second), zeros, strict=True))
    total = _sum(op, _times(a, b))
    if op.attribute("corrected", 0):
        total = _minus(total, _times(others[0], others[1]))
        others = others[2:]
    return _plus(total, others[0]) if others else total


def _sloped(op: Operator, x: Interval, slope: Interval) -> Interval:
    """What is negative is multiplied, the rest stays."""
    negative, rest = _common(x, Interval(x.least, -1)), _common(x, Interval(0, x.largest))
    found = [one for one in (rest, None if negative is None else _times(negative, slope)) if one is not None]
    return found[0].hull(found[-1])


def _magnitude(op: Operator, x: Interval) -> Interval:
    return Interval(0 if x.least <= 0 <= x.largest else min(abs(x.least), abs(x.largest)), x.magnitude)


def _clipped(op: Operator, x: Interval) -> Known:
    """The ends are float32 and may have a fraction, which the result loses."""
    low, high = float(real(op, "min")), float(real(op, "max"))
    least, largest = x
    if not (low < inf and high > -inf and x.magnitude <= _EXACT):
        return None
    if isfinite(low):
        least, largest = max(least, floor(low)), max(largest, ceil(low))
    if isfinite(high):
        least, largest = min(least, floor(high)), min(largest, ceil(high))
    return Interval(least, largest)


def _cast(op: Operator, x: Interval) -> Known:
    """An integer that the type cannot hold loses its higher bits."""
    to = DType(str(op.attribute("to")))
    if to is DType.BOOL:
        return BIT
    return None if to.is_float else x


def _bits_of(*intervals: Interval) -> int:
    return max((number if number >= 0 else ~number).bit_length() for one in intervals for number in one)


def _all_bits(op: Operator, x: Interval, y: Interval) -> Interval:
    """Of `or` and `xor`: no bit is above the highest of the operands."""
    most = 2 ** _bits_of(x, y)
    return Interval(0 if min(x.least, y.least) >= 0 else -most, most - 1)


def _common_bits(op: Operator, x: Interval, y: Interval) -> Interval:
    """Of `and`: what is not negative limits the result."""
    whole = [one.largest for one in (x, y) if one.least >= 0]
    return Interval(0, min(whole)) if whole else _all_bits(op, x, y)


def _inverted(op: Operator, x: Interval) -> Interval:
    bits = op.attribute("bits")
    assert isinstance(bits, int)
    end = 2**bits - 1
    return Interval(end - x.largest, end - x.least) if bits < 63 else Interval(~x.largest, ~x.least)


def _shifted(op: Operator, x: Interval, by: Interval) -> Known:
    """By 64 and more, and by less than nothing, is not defined."""
    if by.least < 0 or by.largest > 63:
        return None
    if op.attribute("direction") == "RIGHT":
        return _spanned(*(end >> count for end in x for count in by))
    return _spanned(*(end << count for end in x for count in by))


def _scattered(op: Operator, data: Interval, indices: Interval, updates: Interval, places: Interval) -> Known:
    """Each place takes none of the updates, or up to all of them."""
    match str(op.attribute("reduction")):
        case "add":
            return _plus(data, _times(updates, Interval(0, _reduced(op))))
        case "mul":
            return None
        case _:
            return data.hull(updates)


def _averaged(op: Operator, x: Interval) -> Known:
    """A mean that loses its fraction."""
    return x if _sum(op, x).magnitude < 2**63 else None


# Results are 0 or 1, whatever the operands are.
_BOOLEAN = frozenset(
    ("and", "equal", "greater", "greater_or_equal", "is_inf", "is_nan", "less", "less_or_equal", "not", "or", "xor")
)
# Each result has the values of the operand of its number.
_MOVING = frozenset(
    ("concat", "copy", "expand", "flatten", "identity", "pad", "rearrange", "reshape", "slice", "split", "squeeze")
    + ("tile", "transpose", "unsqueeze")
)
# Kinds whose operands, or some of them, may be floats.
_ALWAYS: dict[str, Callable[[Operator], Known]] = {
    "arg_max": lambda op: Interval(0, _reduced(op) - 1),
    "arg_min": lambda op: Interval(0, _reduced(op) - 1),
    "quantize": lambda op: type_interval(DType(str(op.attribute("to")))),
}
_RULES: dict[str, Callable[..., Known]] = {
    "abs": _magnitude,
    "add": lambda op, x, y: _plus(x, y),
    "average_pool": lambda op, x, *shares: None if shares else _averaged(op, x),
    "bit_and": _common_bits,
    "bit_not": _inverted,
    "bit_or": _all_bits,
    "bit_shift": _shifted,
    "bit_xor": _all_bits,
    "cast": _cast,
    "clip": _clipped,
    "conv": _contraction,
    "cum_prod": _running,
    "cum_sum": _running,
    "div": _quotient,
    "matmul": _contraction,
    "max": lambda op, x, y: Interval(max(x.least, y.least), max(x.largest, y.largest)),
    "max_pool": lambda op, x: x,
    "min": lambda op, x, y: Interval(min(x.least, y.least), min(x.largest, y.largest)),
    "mod": _remainder,
    "mul": lambda op, x, y: _times(x, y),
    "neg": lambda op, x: Interval(-x.largest, -x.least),
    "place_of_largest": lambda op, places, first: _plus(places, first),
    "pow": _power,
    "prelu": _sloped,
    "reduce_max": lambda op, x: x,
    "reduce_mean": _averaged,
    "reduce_min": lambda op, x: x,
    "reduce_prod": _product,
    "reduce_sum": _sum,
    "relu": lambda op, x: Interval(max(x.least, 0), max(x.largest, 0)),
    "scatter": _scattered,
    "sign": lambda op, x: Interval((x.least > 0) - (x.least < 0), (x.largest > 0) - (x.largest < 0)),
    "sub": lambda op, x, y: _minus(x, y),
    "where": lambda op, condition, x, y: x.hull(y),
}

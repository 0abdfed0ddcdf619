"""How far rounding alone may move each value of a network: a running error analysis of the network untiled.

Beside every value goes a bound. An operator makes its own from those of its operands, each moved by its bound, and from
the rounding that it adds itself. What is independent adds up as squares do. What follows from the same numbers element
by element, as x and relu(x) do, has the same errors, which add up as they are. All is `FACTOR` times what one rounding
of each step gives, so that two right implementations, each in an order of its own, differ by less.

Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, section 3.3 (running error analysis); for
sums Higham and Mary, A New Approach to Probabilistic Rounding Error Analysis, SIAM J. Sci. Comput. 41(5), 2019: the
roundings of n terms add up to about sqrt(n) of them, not n.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite, prod

import numpy as np

from tilestitch.ir.graph import DimKind, Operator
from tilestitch.ops import RULES, VIEWS, contraction, is_contraction, is_elementwise
from tilestitch.ops.views import by_dims, padded
from tilestitch.sim.chip.compare import gaps
from tilestitch.sim.chip.values import ReadPlan, gathered

FACTOR = 4.0
UNIT = FACTOR * 2.0**-24  # of arithmetic in float32
SAMPLES = 8  # of the signs of moved operands, where an operator has no formula of its own

Bound = np.ndarray | None  # None: exact

# What these give is one of their operands, an integer or a truth value: nothing is rounded.
EXACT = frozenset(
    {
        *VIEWS,
        *("abs", "and", "bit_and", "bit_cast", "bit_not", "bit_or", "bit_shift", "bit_xor", "cast", "ceil", "clip"),
        *("copy", "equal", "floor", "gather", "greater", "greater_or_equal", "hardmax", "is_inf", "is_nan", "less"),
        *("less_or_equal", "max", "max_pool", "min", "neg", "not", "or", "pad", "place_of_largest", "reduce_max"),
        *("reduce_min", "relu", "round", "sign", "thresholded_relu", "top_k", "where", "xor"),
    }
)
_ONE_ROUNDING = frozenset({"add", "div", "mul", "reciprocal", "sqrt", "sub"})
_ABSOLUTE = frozenset({"celu", "elu", "erf", "selu", "sigmoid", "softplus", "tanh"})  # computed beside numbers of 1
_PROPORTIONAL = frozenset({"gelu", "mish", "swish"})  # their operand times one of those
_MONOTONE = frozenset({"max_pool", "reduce_max", "reduce_min"})
_SUMS = frozenset({"average_pool", "reduce_mean", "reduce_sum"})


class Computed:
    """An operator and all its iterations: operands as the units compute with them, and results, one axis per dim.

    Here lies what the bounds of both widths are made from, so that it is computed once.
    """

    def __init__(
        self, op: Operator, plans: Sequence[ReadPlan], stored: Sequence[np.ndarray], results: Sequence[np.ndarray]
    ) -> None:
        self.op, self.plans, self.results = op, plans, results
        self.stored = stored  # the region that each plan names

    def seen(self, number: int, array: np.ndarray, pad: float = 0.0) -> np.ndarray:
        """An array of the shape of a stored operand with one axis per dim, a view where possible."""
        plan = self.plans[number]
        if plan.access.indirect_axis is not None:
            index = self.seen(1, self.stored[1])
            return gathered(array, plan.access, self.op.whole, index, plan.region)
        return by_dims(padded(array, plan.region, plan.hull, pad), plan.access, self.op.whole, plan.hull.start)

    def operand(self, number: int) -> np.ndarray:
        return self.seen(number, self.stored[number], self.plans[number].access.pad_value)

    @cached_property
    def operands(self) -> list[np.ndarray]:
        """All of them, floats in float64."""
        return [_wide(self.operand(number)) for number in range(len(self.stored))]

    @cached_property
    def own(self) -> np.ndarray:
        """Squares of what an element-wise operator rounds itself."""
        return np.square(_own(self.op, self.operands, self.results[0]))

    @cached_property
    def factors(self) -> tuple["Factor", "Factor"]:
        """What a contraction multiplies."""
        zeros = self.op.attribute("zeros", (0, 0))
        assert isinstance(zeros, tuple)
        first, second = (
            _factor(x.astype(np.float32) - np.float32(zero) if zero else x.astype(np.float32, copy=False))
            for x, zero in zip(self.stored, zeros, strict=False)
        )
        return first, second


@dataclass(frozen=True, slots=True)
class Factor:
    """Squares of a stored operand over that of its largest magnitude, in float32."""

    squares: np.ndarray
    scale: float  # that magnitude


@dataclass(frozen=True, slots=True)
class Moved:
    """The operands of an operator, and how far each element of them may be off."""

    computed: Computed
    bounds: Sequence[Bound]  # of the shapes in which they are stored
    related: Sequence[int]  # of each operand the first that has errors in common with it: itself where none has

    def bound(self, number: int) -> Bound:
        found = self.bounds[number]
        return None if found is None else self.computed.seen(number, found)

    def moved(self, number: int, sign: int) -> np.ndarray:
        """An operand of floats that is off by its bound."""
        computed, bound = self.computed, self.bounds[number]
        stored = computed.stored[number].astype(np.float64)
        return computed.seen(
            number, stored if bound is None else stored + sign * bound, computed.plans[number].access.pad_value
        )

    @property
    def exact(self) -> bool:
        return all(bound is None for bound in self.bounds)


def bounds_of(moved: Moved) -> list[Bound]:
    """The bounds of an operator's results, without that of storing them; one axis per dim."""
    computed = moved.computed
    op, stored, results = computed.op, computed.stored, computed.results
    if op.kind == "max_pool" and np.isnan(stored[0]).any():
        return [_pooled_beside_nan(moved)]
    if moved.exact and (op.kind in EXACT or not _rounds(op, stored, results)):
        return [None] * len(results)
    if op.kind in VIEWS or op.kind in ("pad", "copy"):
        return [moved.bound(number) for number in range(len(stored))]
    if op.kind == "gather":
        return [_gathered(moved)]
    if is_contraction(op):
        return [_contraction(moved) if stored[0].dtype.kind == "f" else _integer_contraction(moved)]
    if op.kind in _SUMS and results[0].dtype.kind == "f":
        return [_sum(moved)]
    if op.kind in _MONOTONE and stored[0].dtype.kind == "f":
        return [_monotone(moved)]
    if op.kind in ("arg_max", "arg_min"):
        return [_place(op, computed.operand(0), moved.bound(0))]
    if is_elementwise(op):
        return [_elementwise(moved)]
    return _sampled(op, computed.operands, [moved.bound(number) for number in range(len(stored))])


def _elementwise(moved: Moved) -> np.ndarray:
    """The change with each operand, and the operator's own rounding."""
    computed = moved.computed
    reads, squares = computed.op.reads, computed.own
    together: dict[int, np.ndarray] = {}  # the changes with operands that have errors in common
    for access in dict.fromkeys(reads):  # what is read twice moves together: x - x is zero
        alike = [number for number, read in enumerate(reads) if read == access]
        bound = moved.bound(alike[0])
        if bound is None:
            continue
        change = _moved_by(computed, alike, bound)
        first = moved.related[alike[0]]
        together[first] = together[first] + change if first in together else change
    for change in together.values():
        squares = squares + np.square(change, dtype=np.float64)
    return np.sqrt(squares)


def _monotone(moved: Moved) -> np.ndarray:
    """What becomes of the operand when all of it is larger, and smaller."""
    computed = moved.computed
    sides = [RULES[computed.op.kind].evaluate(computed.op, [moved.moved(0, sign)])[0] for sign in (1, -1)]
    return np.maximum(*(gaps(side, computed.results[0]) for side in sides))


def _pooled_beside_nan(moved: Moved) -> np.ndarray:
    """Anything where a window has a NaN: the standard says nothing of it, and onnx's evaluator has two ways."""
    axes = tuple(number for number, dim in enumerate(moved.computed.op.dims) if dim.kind is DimKind.REDUCTION)
    return np.where(np.isnan(moved.computed.operand(0)).any(axis=axes, keepdims=True), np.inf, _monotone(moved))


def _wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64) if x.dtype.kind == "f" else x


def _rounds(op: Operator, operands: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> bool:
    """Whether an operator that computes does so in floating point."""
    return any(x.dtype.kind == "f" for x in (*operands, *results)) or op.attribute("rescaled", 0) != 0


def _gathered(moved: Moved) -> Bound:
    """That of the elements, and anything where it is not certain which ones they are."""
    bound, index = moved.bound(0), moved.bound(1)
    if index is None:
        return bound
    return np.where(index > 0, np.inf, 0.0 if bound is None else bound)


def _contraction(moved: Moved) -> Bound:
    """sum of a b: b moves what a may be off by, and a what b may; each of n partial sums is rounded.

    A partial sum is part of the whole, and what random terms add to that: n/3 and n/6 of their squares on average.
    Everything is in roundings of the largest a times the largest b, so that squares of small numbers stay in float32.
    Where a and b have errors in common, both add up: the square of a sum of two is at most twice that of both.
    """
    computed = moved.computed
    result, terms = computed.results[0], _terms(computed.op)
    a, b = computed.factors
    largest = a.scale * b.scale
    twice = 2.0 if moved.related[1] == 0 else 1.0
    total = max(terms / 6, 2.0) * _products(computed, _and_its_own(moved, terms, twice), b.squares)
    if moved.bounds[1] is not None:
        off = _factor(moved.bounds[1])
        total += twice * (off.scale / b.scale / UNIT) ** 2 * _products(computed, a.squares, off.squares)
    added = computed.operand(2) if len(computed.stored) > 2 else None
    whole = (result if added is None else np.subtract(result, added, dtype=np.float32)) / largest
    total += terms / 3 * np.square(whole, out=whole)
    total += np.square(np.divide(result, largest, out=whole), out=whole)
    bound = None if added is None else moved.bound(2)
    if bound is not None:
        total += np.square(bound / (largest * UNIT))
    return np.sqrt(total, out=total) * (largest * UNIT)


def _and_its_own(moved: Moved, terms: int, times: float) -> np.ndarray:
    """Squares of what the first factor may be off by, and of what multiplying with it rounds, the latter being 1.

    The former counts so many times.
    """
    a = moved.computed.factors[0]
    bound = moved.bounds[0]
    if bound is None:
        return a.squares
    found = np.square(bound * np.float32(times**0.5 / (a.scale * UNIT * max(terms / 6, 2.0) ** 0.5)))
    found += a.squares
    return found


def _integer_contraction(moved: Moved) -> Bound:
    """The same of integers, which only what follows the sum may round."""
    computed = moved.computed
    op, result, terms = computed.op, computed.results[0], _terms(computed.op)
    rounded = op.attribute("rescaled", 0) != 0
    a, b = computed.factors
    total = np.zeros(result.shape)
    if rounded:
        total += UNIT**2 * max(terms / 6, 2.0) * _products(computed, a.squares, b.squares)
    if moved.bounds[0] is not None:
        off = _factor(moved.bounds[0])
        total += (off.scale / a.scale) ** 2 * _products(computed, off.squares, b.squares)
    if moved.bounds[1] is not None:
        off = _factor(moved.bounds[1])
        total += (off.scale / b.scale) ** 2 * _products(computed, a.squares, off.squares)
    total *= (a.scale * b.scale) ** 2
    others = [computed.operand(number) for number in range(2, len(computed.stored))]
    bounds = [moved.bound(number) for number in range(2, len(computed.stored))]
    whole = contraction.multiply(op, computed.operand(0), computed.operand(1)).astype(np.float64)
    by = np.sqrt(total + (UNIT**2 * (terms / 3 + 2) * whole**2 if rounded else 0.0))
    found = np.zeros(result.shape)
    for sign in (1, -1):
        given = [_perturbed(x, bound, sign) for x, bound in zip(others, bounds, strict=True)]
        found = np.maximum(found, gaps(contraction.finished(op, whole + sign * by, given), result))
    return found + (UNIT * np.abs(result) if result.dtype.kind == "f" else 0.0)


def _factor(x: np.ndarray) -> Factor:
    size = np.abs(x)
    scale = float(size.max(initial=0.0))
    if not isfinite(scale):
        scale = float(size.max(initial=0.0, where=np.isfinite(size)))
    scale = scale or 1.0
    size /= scale
    return Factor(np.square(size, out=size), scale)


def _square(x: np.ndarray) -> np.ndarray:
    return np.square(x, dtype=np.float64)


def _products(computed: Computed, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Sums of products of what takes the place of two stored operands, in float32."""
    return contraction.multiply(computed.op, computed.seen(0, first), computed.seen(1, second))


def _terms(op: Operator) -> int:
    """How many terms each sum has."""
    return prod(dim.extent for dim in op.dims if dim.kind is DimKind.REDUCTION)


def _sum(moved: Moved) -> Bound:
    """As of a contraction with ones, or with the share of each term."""
    computed = moved.computed
    op, result, terms = computed.op, computed.results[0], _terms(computed.op)
    axes = tuple(number for number, dim in enumerate(op.dims) if dim.kind is DimKind.REDUCTION)
    share = 1.0 if op.kind == "reduce_sum" else computed.operand(1) if len(computed.stored) > 1 else 1.0 / terms
    squares = UNIT**2 * max(terms / 6, 2.0) * _square(computed.stored[0])
    if moved.bounds[0] is not None:
        squares += _square(moved.bounds[0])
    total = computed.seen(0, squares).sum(axis=axes, keepdims=True)
    return np.sqrt(total * np.square(share) + UNIT**2 * (terms / 3 + 1) * _square(result))


def _place(op: Operator, x: np.ndarray, bound: Bound) -> Bound:
    """Zero where one element alone may be the greatest (least), as many as there are where several may."""
    if bound is None:
        return None
    (axis,) = (number for number, dim in enumerate(op.dims) if dim.kind is DimKind.REDUCTION)
    x = x if op.kind == "arg_max" else -x
    candidates = (x + bound >= np.max(x - bound, axis=axis, keepdims=True)).sum(axis=axis, keepdims=True)
    return np.where(candidates > 1, float(x.shape[axis]), 0.0)


def _moved_by(computed: Computed, alike: Sequence[int], bound: Bound) -> np.ndarray:
    """The most that the result changes when one operand, read once or more, moves by its bound, up or down."""
    op = computed.op
    if len(alike) == 1 and bound is not None and computed.stored[alike[0]].dtype.kind == "f":
        if op.kind in ("add", "sub"):
            return bound
        if op.kind == "relu":
            x = computed.operand(0)
            return np.where(x <= 0, np.maximum(x + bound, 0), bound)
    apply, operands = RULES[op.kind].evaluate, computed.operands
    (there,) = apply(op, operands)
    found = np.zeros(there.shape)
    for sign in (1, -1):
        given = [_perturbed(x, bound, sign) if number in alike else x for number, x in enumerate(operands)]
        found = np.maximum(found, gaps(apply(op, given)[0], there))
    return found


def _perturbed(x: np.ndarray, bound: Bound, sign: "int | np.ndarray") -> np.ndarray:
    """An operand that is off by its bound."""
    if bound is None:
        return x
    if x.dtype.kind == "b":
        return x ^ (bound > 0)
    if x.dtype.kind != "f":
        return x + (sign * np.rint(np.minimum(bound, 2.0**31))).astype(np.int64)
    return x + sign * bound.astype(np.float64)


def _finite(x: np.ndarray) -> np.ndarray:
    """Magnitudes; infinities and NaN are what they are, without rounding."""
    return np.where(np.isfinite(x), np.abs(x), 0.0)


def _own(op: Operator, operands: Sequence[np.ndarray], result: np.ndarray) -> np.ndarray:
    """What an element-wise operator rounds itself; functions by a few units, some of them beside numbers of 1."""
    if op.kind in EXACT or result.dtype.kind != "f":
        return np.zeros(result.shape)
    size = _finite(result.astype(np.float64))
    if op.kind in _ONE_ROUNDING:  # of nothing, where float32 holds the result
        return np.where(RULES[op.kind].evaluate(op, operands)[0] == result, 0.0, UNIT * size)
    if op.kind in _ABSOLUTE:
        size = np.maximum(size, 1.0)
    elif op.kind in _PROPORTIONAL:
        size = np.maximum(size, np.abs(operands[0]))
    return 4 * UNIT * size


def _sampled(op: Operator, operands: Sequence[np.ndarray], moved: Sequence[Bound]) -> list[Bound]:
    """The most that results change when all operands move at once, by signs that are drawn anew each time.

    An operand moves by its bound and by a rounding of its own, which stands for those inside the operator.
    """
    apply: Callable[[Operator, Sequence[np.ndarray]], list[np.ndarray]] = RULES[op.kind].evaluate
    there = apply(op, operands)
    own = op.kind not in EXACT
    amounts: list[Bound] = []
    for x, bound in zip(operands, moved, strict=True):
        rounded = 2 * UNIT * _finite(x) if own and x.dtype.kind == "f" else None
        if bound is None or rounded is None:
            amounts.append(rounded if bound is None else bound)
        else:
            amounts.append(np.hypot(bound, rounded))
    found = [np.zeros(result.shape) for result in there]
    generator = np.random.Generator(np.random.PCG64(zlib.crc32(op.name.encode())))
    for _ in range(SAMPLES):
        given = [
            x if bound is None else _perturbed(x, bound, generator.choice((-1, 1), x.shape))
            for x, bound in zip(operands, amounts, strict=True)
        ]
        for number, result in enumerate(apply(op, given)):
            found[number] = np.maximum(found[number], gaps(result, there[number]))
    return [
        one + 4 * UNIT * _finite(result) if own and result.dtype.kind == "f" else one
        for one, result in zip(found, there, strict=True)
    ]

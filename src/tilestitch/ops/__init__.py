"""The vocabulary of operators: for each kind its arithmetic in numpy, its vector work, and its fusion pattern.

`RULES` is the whole vocabulary. An operator's loop nest lives in the operator itself (`ir.graph`); a rule says only
what one iteration computes. Element-wise kinds come from `functions`, contractions from `contraction`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from tilestitch.ir.graph import DimKind, Operator
from tilestitch.ops import contraction, generic, normalise, sampling, selection, streaming, sums, windows
from tilestitch.ops.functions import FUNCTIONS


class Pattern(IntEnum):
    """TVM's classes of operators for fusion, in the order in which they absorb one another."""

    ELEMENTWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    REDUCE = 3
    OUT_ELEMENTWISE_FUSABLE = 4
    OPAQUE = 8


Evaluate = Callable[[Operator, Sequence[np.ndarray]], list[np.ndarray]]


@dataclass(frozen=True, slots=True)
class Rule:
    """What one kind of operator computes.

    `evaluate(operator, operands)` gets one array per read, with one axis per dim (extent 1 where the dim does not move
    it), and returns one array of the same form per write, reduction dims at extent 1. Floating operands come as
    float32 and all arithmetic is float32. Infinities and NaNs are values like others: who evaluates tells numpy not to
    warn of them. `operations` is the number of primitive vector operations an iteration, `each` what any further
    operand adds to it: the scale and the bias of a norm.
    """

    pattern: Pattern
    operations: int
    evaluate: Evaluate
    each: int = 0


def _reduced(op: Operator) -> tuple[int, ...]:
    return tuple(i for i, dim in enumerate(op.dims) if dim.kind is DimKind.REDUCTION)


def _contract(op: Operator, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    product = contraction.multiply(op, operands[0], operands[1])
    return [contraction.finished(op, product, operands[2:])]


def _reduce(function: Callable[..., np.ndarray]) -> Evaluate:
    def evaluate(op: Operator, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [function(operands[0], axis=_reduced(op), keepdims=True)]

    return evaluate


def _add_up(function: Callable[[np.ndarray, tuple[int, ...]], np.ndarray]) -> Evaluate:
    return lambda op, operands: [function(operands[0], _reduced(op))]


def _average(op: Operator, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Mean over the window; a second operand, where padding does not count, is one over the elements that do."""
    if len(operands) == 1:
        return [operands[0].mean(axis=_reduced(op), keepdims=True)]
    return [operands[0].sum(axis=_reduced(op), keepdims=True) * operands[1]]


def _gather(op: Operator, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """`operands[0]` already holds the rows that the indices name: the machine fetches no others."""
    return [operands[0]]


def _moved(op: Operator, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    return list(operands)


# Views compute nothing: `reads[i]` moves to `writes[i]`. `passes.views` composes them into their neighbours' accesses.
VIEWS: dict[str, Pattern] = {
    "concat": Pattern.INJECTIVE,
    "expand": Pattern.BROADCAST,
    "flatten": Pattern.INJECTIVE,
    "identity": Pattern.ELEMENTWISE,
    "rearrange": Pattern.INJECTIVE,  # elements picked along each axis by indices that are affine piece by piece
    "reshape": Pattern.INJECTIVE,
    "slice": Pattern.ELEMENTWISE,
    "split": Pattern.INJECTIVE,
    "squeeze": Pattern.BROADCAST,
    "tile": Pattern.INJECTIVE,
    "transpose": Pattern.INJECTIVE,
    "unsqueeze": Pattern.BROADCAST,
}

RULES: dict[str, Rule] = {
    "conv": Rule(Pattern.OUT_ELEMENTWISE_FUSABLE, 1, _contract),
    "matmul": Rule(Pattern.OUT_ELEMENTWISE_FUSABLE, 1, _contract),
    "max_pool": Rule(Pattern.OUT_ELEMENTWISE_FUSABLE, 1, _reduce(np.fmax.reduce)),  # of the numbers: NaN is none
    "average_pool": Rule(Pattern.OUT_ELEMENTWISE_FUSABLE, 1, _average),
    "lp_pool": Rule(Pattern.OUT_ELEMENTWISE_FUSABLE, 3, windows.lp_pool),  # magnitude, power, sum
    "place_of_largest": Rule(Pattern.OUT_ELEMENTWISE_FUSABLE, 2, windows.place_of_largest),  # compare, select
    "reduce_mean": Rule(Pattern.OUT_ELEMENTWISE_FUSABLE, 1, _add_up(sums.mean)),
    "reduce_prod": Rule(Pattern.REDUCE, 1, _reduce(np.prod)),
    "reduce_sum": Rule(Pattern.REDUCE, 1, _add_up(sums.total)),
    "reduce_max": Rule(Pattern.REDUCE, 1, _reduce(np.max)),
    "reduce_min": Rule(Pattern.REDUCE, 1, _reduce(np.min)),
    "reduce_variance": Rule(Pattern.REDUCE, 4, _add_up(sums.variance)),  # sum, subtract, square, sum
    "softmax": Rule(Pattern.OUT_ELEMENTWISE_FUSABLE, 5, normalise.softmax),  # max, subtract, exp, sum, divide
    "log_softmax": Rule(Pattern.OUT_ELEMENTWISE_FUSABLE, 5, normalise.log_softmax),
    "hardmax": Rule(Pattern.OUT_ELEMENTWISE_FUSABLE, 3, normalise.hardmax),  # max, compare, select
    "layer_norm": Rule(Pattern.OUT_ELEMENTWISE_FUSABLE, 5, normalise.layer_norm, each=1),  # sum, -, square, sum, divide
    "rms_norm": Rule(Pattern.OUT_ELEMENTWISE_FUSABLE, 3, normalise.rms_norm, each=1),  # square, sum, divide
    "lp_norm": Rule(Pattern.OUT_ELEMENTWISE_FUSABLE, 3, normalise.lp_norm),  # magnitude or square, sum, scale
    streaming.CARRY: Rule(Pattern.OPAQUE, 2, streaming.carry),  # rescale what was, add
    "lrn": Rule(Pattern.OUT_ELEMENTWISE_FUSABLE, 3, normalise.local_response),  # square, sum, and a share of the rest
    "gather": Rule(Pattern.OPAQUE, 1, _gather),
    generic.KIND: Rule(Pattern.OPAQUE, 1, generic.evaluate),
    "arg_max": Rule(Pattern.OUT_ELEMENTWISE_FUSABLE, 2, selection.arg),  # compare, select
    "arg_min": Rule(Pattern.OUT_ELEMENTWISE_FUSABLE, 2, selection.arg),
    "cum_prod": Rule(Pattern.OPAQUE, 1, selection.cumulative),
    "cum_sum": Rule(Pattern.OPAQUE, 1, selection.cumulative),
    "top_k": Rule(Pattern.OPAQUE, 1, selection.top_k),  # an iteration compares one element with one of those kept
    "scatter": Rule(Pattern.OPAQUE, 2, selection.scatter),  # compare, select
    "grid_places": Rule(Pattern.OPAQUE, 20, sampling.grid_places),  # for two axes: scale, floor, share, number
    "region_places": Rule(Pattern.OPAQUE, 20, sampling.region_places),
    "deformed_places": Rule(Pattern.OPAQUE, 20, sampling.deformed_places),
    "pad": Rule(Pattern.INJECTIVE, 1, _moved),  # padding is in the access
    **{name: Rule(pattern, 0, _moved) for name, pattern in VIEWS.items()},
    **{
        name: Rule(
            Pattern.ELEMENTWISE,
            function.operations,
            lambda op, operands, apply=function.apply: [apply(op, *operands)],
        )
        for name, function in FUNCTIONS.items()
    },
}


def is_view(op: Operator) -> bool:
    return op.kind in VIEWS


def is_contraction(op: Operator) -> bool:
    return op.kind in contraction.KINDS


def is_elementwise(op: Operator) -> bool:
    return op.kind in FUNCTIONS


def pattern(op: Operator) -> Pattern:
    """The fusion class; an element-wise operator none of whose operands has the result's own shape is a broadcast."""
    if is_elementwise(op):
        every = frozenset(range(len(op.dims)))
        return Pattern.ELEMENTWISE if any(read.dims == every for read in op.reads) else Pattern.BROADCAST
    return RULES[op.kind].pattern

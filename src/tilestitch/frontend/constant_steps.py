"""The value of a step whose operands are all constants."""

from collections.abc import Sequence

import numpy as np

from tilestitch.ir.graph import Operator
from tilestitch.ops import RULES
from tilestitch.ops.views import by_dims

_ARITHMETIC = {"f": np.float32, "i": np.int64, "u": np.int64, "b": np.bool_}


def step_value(
    op: Operator, values: Sequence[np.ndarray], shape: tuple[int, ...], element_type: np.dtype
) -> np.ndarray:
    """What an operator with one result computes from arrays, in the arithmetic of the machine; nothing is padded."""
    operands = [
        by_dims(value.astype(_ARITHMETIC[value.dtype.kind]), read, op.whole, (0,) * value.ndim)
        for read, value in zip(op.reads, values, strict=True)
    ]
    found = np.empty(shape, element_type)
    target = by_dims(found, op.writes[0], op.whole, (0,) * found.ndim)
    target[...] = RULES[op.kind].evaluate(op, operands)[0]
    return found

"""The value of a step whose operands are all constants."""

from collections.abc import Sequence

import numpy as np

from tilestitch.base.dtypes import DType
from tilestitch.base.storage import STORAGE
from tilestitch.ir.graph import Operator
from tilestitch.ops import RULES, is_view
from tilestitch.ops.views import by_dims


@np.errstate(all="ignore")  # an infinity or a NaN is a value like others
def step_value(
    op: Operator, values: Sequence[np.ndarray], shape: tuple[int, ...], element_type: np.dtype
) -> np.ndarray:
    """What an operator with one result computes from arrays, in the arithmetic of the machine; nothing is padded."""
    operands = [
        by_dims(value if is_view(op) else _arithmetic(value), read, op.whole, (0,) * value.ndim)
        for read, value in zip(op.reads, values, strict=True)
    ]
    found = np.empty(shape, element_type)
    target = by_dims(found, op.writes[0], op.whole, (0,) * found.ndim)
    target[...] = RULES[op.kind].evaluate(op, operands)[0]
    return found


def _arithmetic(value: np.ndarray) -> np.ndarray:
    """Floats as float32, integers as int64."""
    dtype = STORAGE[value.dtype]
    if dtype is DType.BOOL:
        return value
    return value.astype(np.float32 if dtype.is_float else np.int64)

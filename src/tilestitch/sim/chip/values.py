"""Arithmetic on arrays as the machine stores them: one box of iterations of one operator."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tilestitch.base.dtypes import FLOAT16_MAX, DType
from tilestitch.base.storage import array_type
from tilestitch.ir.graph import Access, Graph, Operator
from tilestitch.ir.region import Region
from tilestitch.ops import RULES
from tilestitch.ops.views import by_dims, padded

Reader = Callable[[int], np.ndarray]  # number of a read -> its stored values, in logical axis order


def to_arithmetic(array: np.ndarray, dtype: DType) -> np.ndarray:
    """Stored values as the units compute with them: float32, int64 or bool."""
    if dtype is DType.BOOL:
        return array != 0
    return array.astype(np.float32 if dtype.is_float else np.int64, copy=False)


def to_storage(array: np.ndarray, dtype: DType, *, wide: bool) -> np.ndarray:
    """Values as the memories store them: floats round to nearest and overflow to infinity, integers wrap around.

    Integers wrap to their own width also where they are stored in twice that.
    """
    if wide and not dtype.is_float:
        array = np.asarray(array).astype(array_type(dtype, wide=False), copy=False)
    return np.asarray(array).astype(array_type(dtype, wide=wide), copy=False)


def constant_to_storage(array: np.ndarray, dtype: DType, *, wide: bool) -> np.ndarray:
    """A constant of the network in memory: float16 clamps to its largest finite value what is not infinite."""
    if dtype.has_float16 and not wide:
        array = np.where(np.isinf(array), array, np.clip(array, -FLOAT16_MAX, FLOAT16_MAX))
    return to_storage(array, dtype, wide=wide)


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """One operand of a box of iterations: what is read, and what that is extended to by padding."""

    access: Access
    dtype: DType
    region: Region
    hull: Region


def read_plans(graph: Graph, op: Operator, box: Region) -> tuple[ReadPlan, ...]:
    """Everything about the reads of a box that does not depend on values."""
    plans = []
    for access in op.reads:
        tensor = graph.tensors[access.tensor]
        plans.append(ReadPlan(access, tensor.dtype, access.region(box, tensor.shape), access.hull(box)))
    return tuple(plans)


def evaluate(op: Operator, box: Region, plans: Sequence[ReadPlan], read: Reader) -> list[np.ndarray]:
    """Results of the iterations in `box`, one array per write, with one axis per dim (reductions at extent 1).

    `read(number)` gives the stored values of the region that `plans[number]` names.
    """
    return RULES[op.kind].evaluate(op, [operand(number, box, plans, read) for number in range(len(plans))])


def operand(number: int, box: Region, plans: Sequence[ReadPlan], read: Reader) -> np.ndarray:
    """One operand of the iterations in `box`, with one axis per dim, padding filled in."""
    plan = plans[number]
    access, region, hull = plan.access, plan.region, plan.hull
    values = to_arithmetic(read(number), plan.dtype)
    if access.indirect_axis is not None:
        return gathered(values, access, box, operand(1, box, plans, read), region)
    return by_dims(padded(values, region, hull, access.pad_value), access, box, hull.start)


def gathered(table: np.ndarray, access: Access, box: Region, indices: np.ndarray, region: Region) -> np.ndarray:
    """Elements of `table` whose index along the indirect axis is a value of `indices`; NaN where it names no row."""
    rank = len(box.start)
    places: list[np.ndarray] = []
    wrong = np.zeros((1,) * rank, bool)
    for number, axis in enumerate(access.axes):
        if number == access.indirect_axis:
            size = table.shape[number]
            index = np.where(indices < 0, indices + size, indices)
            wrong = (index < 0) | (index >= size)
            places.append(np.where(wrong, 0, index))
            continue
        place = np.full((1,) * rank, axis.offset - region.start[number])
        for dim, factor in axis.terms:
            shape = [1] * rank
            shape[dim] = -1
            place = place + factor * np.arange(box.start[dim], box.stop[dim]).reshape(shape)
        places.append(place)
    found = table[tuple(places)]
    if wrong.any() and found.dtype.kind == "f":
        found = np.where(wrong, np.float32(np.nan), found)
    return found


def store(target: np.ndarray, access: Access, box: Region, origin: tuple[int, ...], values: np.ndarray) -> None:
    """Write stored values of the iterations in `box` where `access` says; `target[0, ...]` is tensor index `origin`."""
    by_dims(target, access, box, origin)[...] = values

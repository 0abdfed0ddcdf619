"""The time of one tile on one unit, used by cost estimates and by the chip simulator alike."""

from collections.abc import Sequence
from fractions import Fraction

from tilestitch.dtypes import DType
from tilestitch.hardware.accelerator import Dataflow, MatrixUnit, VectorUnit
from tilestitch.units import ceil_div


def matrix_rate(unit: MatrixUnit, dtype: DType) -> Fraction | None:
    """How many times the float16 rate the unit reaches for `dtype`; None where it cannot multiply it.

    uint8 has the rate of int8 where it has none of its own: quantised networks multiply one by the other.
    """
    rates = dict(unit.rates)
    return rates.get(dtype, rates.get(DType.INT8) if dtype is DType.UINT8 else None)


def matrix_tile_cycles(unit: MatrixUnit, dtype: DType, *, m: int, k: int, n: int, groups: int = 1) -> int:
    """Cycles of `groups` independent m x k x n products on one matrix unit, see `product_cycles`."""
    rate = matrix_rate(unit, dtype)
    if rate is None:
        raise KeyError(f"{unit.name} has no rate for {dtype}")
    return product_cycles(array_of(unit), (rate.numerator, rate.denominator), m, k, n, groups)


def array_of(unit: MatrixUnit) -> tuple[int, int, int, int, int, int]:
    """What of a matrix unit fixes its time: m, k, n, load, 1 where folds overlap, cycles to fill and drain it."""
    load = unit.k if unit.dataflow is Dataflow.WEIGHT_STATIONARY else 1
    fill = unit.k + unit.n - 1 if unit.systolic else 0
    return unit.m, unit.k, unit.n, load, int(unit.overlapped_folds), fill


def product_cycles(array: Sequence[int], rate: Sequence[int], m: int, k: int, n: int, groups: int) -> int:
    """Cycles of products, in plain arithmetic for compiled and interpreted callers.

    `ceil(K/k) * ceil(N/n) * max(ceil(M/m), load)` a group: one fold per k x n block of the second operand, M rows
    stream through it. `load` is k for a weight-stationary unit, whose next weights load during this fold, else 1.
    Folds that do not overlap pay their own load. A systolic unit fills and drains once: k + n - 1 more. Element types
    with a rate other than 1, given as numerator and denominator, scale the whole. Source: this model's assumptions are
    in docs/model.md#matrix-unit.
    """
    rows = -(-m // array[0])
    fold = max(rows, array[3]) if array[4] else rows + array[3]
    cycles = groups * -(-k // array[1]) * -(-n // array[2]) * fold + array[5]
    return -(-cycles * rate[1] // rate[0])


def vector_tile_cycles(unit: VectorUnit, dtype: DType, *, operations: int) -> int:
    """Cycles of `operations` primitive element operations."""
    return ceil_div(operations, vector_lanes(unit, dtype))


def vector_lanes(unit: VectorUnit, dtype: DType) -> int:
    """Elements of a type that the unit takes each cycle; types without lanes of their own run as float16."""
    lanes = dict(unit.lanes)
    return lanes.get(dtype, lanes[DType.FLOAT16])

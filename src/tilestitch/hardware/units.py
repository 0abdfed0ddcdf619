"""The time of one tile on one unit, used by cost estimates and by the chip simulator alike."""

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
    """Cycles of `groups` independent m x k x n products on one matrix unit.

    `ceil(K/k) * ceil(N/n) * max(ceil(M/m), load)` a group: one fold per k x n block of the second operand, M rows
    stream through it. `load` is k for a weight-stationary unit, whose next weights load during this fold, else 1.
    Folds that do not overlap pay their own load. A systolic unit fills and drains once: k + n - 1 more. Element types
    with a rate other than 1 scale the whole. Source: this model's assumptions are in docs/model.md#matrix-unit.
    """
    load = unit.k if unit.dataflow is Dataflow.WEIGHT_STATIONARY else 1
    rows = ceil_div(m, unit.m)
    fold = max(rows, load) if unit.overlapped_folds else rows + load
    cycles = groups * ceil_div(k, unit.k) * ceil_div(n, unit.n) * fold
    if unit.systolic:
        cycles += unit.k + unit.n - 1
    rate = matrix_rate(unit, dtype)
    if rate is None:
        raise KeyError(f"{unit.name} has no rate for {dtype}")
    return ceil_div(cycles * rate.denominator, rate.numerator)


def vector_tile_cycles(unit: VectorUnit, dtype: DType, *, operations: int) -> int:
    """Cycles of `operations` primitive element operations; types without lanes of their own run as float16."""
    lanes = dict(unit.lanes)
    return ceil_div(operations, lanes.get(dtype, lanes[DType.FLOAT16]))

"""The time of one tile on one unit: estimates use it, and lowering writes it into programs."""

from collections.abc import Sequence
from fractions import Fraction

from tilestitch.base.dtypes import DType
from tilestitch.base.units import ceil_div
from tilestitch.hardware.accelerator import WORD_CYCLES, Accelerator, Dataflow, MatrixUnit, VectorUnit

MAPPED = 2  # in the place of overlap: an array of processing elements


def matrix_rate(unit: MatrixUnit, dtype: DType) -> Fraction | None:
    """How many times the float16 rate the unit reaches for `dtype`; None where it cannot multiply it.

    uint8 has the rate of int8 where it has none of its own: quantised networks multiply one by the other.
    """
    rates = dict(unit.rates)
    return rates.get(dtype, rates.get(DType.INT8) if dtype is DType.UINT8 else None)


def peak_macs_per_cycle(machine: Accelerator, dtype: DType) -> Fraction:
    """Multiply-accumulates a cycle of all matrix units of a cluster that can multiply `dtype`."""
    units = [core.matrix for core in machine.cores if core.matrix is not None]
    rates = [(unit.m * unit.k * unit.n, matrix_rate(unit, dtype)) for unit in units]
    return sum((size * rate for size, rate in rates if rate is not None), Fraction(0))


def matrix_tile_cycles(unit: MatrixUnit, dtype: DType, *, m: int, k: int, n: int, groups: int = 1) -> int:
    """Cycles of `groups` independent m x k x n products on one matrix unit, see `product_cycles`."""
    rate = matrix_rate(unit, dtype)
    if rate is None:
        raise KeyError(f"{unit.name} has no rate for {dtype}")
    return product_cycles(array_of(unit), (rate.numerator, rate.denominator), m, k, n, groups)


def array_of(unit: MatrixUnit, sharing: Fraction = Fraction(1)) -> tuple[int, int, int, int, int, int]:
    """What of a matrix unit fixes its time: m, k, n, load, 1 where folds overlap, cycles to fill and drain it.

    Of one that stands for an array: its elements, words of both operands and of the result in WORD_CYCLES cycles, and
    MAPPED, 0.
    `sharing` is how many elements of the first operand's M x K matrix each of its words stands for.
    """
    if unit.network_words is not None:
        first, second, result = unit.network_words
        return unit.m * unit.k * unit.n, max(1, int(first * sharing)), second, result, MAPPED, 0
    load = unit.k if unit.dataflow is Dataflow.WEIGHT_STATIONARY else 1
    fill = unit.k + unit.n - 1 if unit.systolic else 0
    return unit.m, unit.k, unit.n, load, int(unit.overlapped_folds), fill


def product_cycles(array: Sequence[int], rate: Sequence[int], m: int, k: int, n: int, groups: int) -> int:
    """Cycles of products, in plain arithmetic for compiled and interpreted callers.

    `ceil(K/k) * ceil(N/n) * max(ceil(M/m), load)` a group: one fold per k x n block of the second operand, M rows
    stream through it. `load` is k for a weight-stationary unit, whose next weights load during this fold, else 1.
    Folds that do not overlap pay their own load. A systolic unit fills and drains once: k + n - 1 more. Element types
    with a rate other than 1, given as numerator and denominator, scale the whole. Source: this model's assumptions are
    in docs/model.md#matrix-unit. An array of processing elements takes what its arithmetic or the busiest network does,
    if every word goes there once: docs/mapping.md#on-a-chip.
    """
    if array[4] == MAPPED:
        words = max(-(-m * k // array[1]), -(-k * n // array[2]), -(-m * n // array[3]))
        cycles = groups * max(-(-m * k * n // array[0]), words * WORD_CYCLES)
        return -(-cycles * rate[1] // rate[0])
    rows = -(-m // array[0])
    fold = max(rows, array[3]) if array[4] else rows + array[3]
    cycles = groups * -(-k // array[1]) * -(-n // array[2]) * fold + array[5]
    return -(-cycles * rate[1] // rate[0])


def vector_tile_cycles(unit: VectorUnit, dtype: DType, *, operations: int) -> int:
    """Cycles of `operations` primitive element operations."""
    return ceil_div(operations, vector_lanes(unit, dtype))


def vector_lanes(unit: VectorUnit, dtype: DType) -> int:
    """Elements of a type that the unit takes each cycle, see `VectorUnit.usual_lanes` for types without their own."""
    return dict(unit.lanes).get(dtype, unit.usual_lanes)

"""How long the units of a core compute, compiled: `ops.work.tile_cycles` on the arrays of a `Nest`."""

from collections.abc import Callable

import numpy as np

from tilestitch.base.jit import borrowing, lending
from tilestitch.base.units import ALIGNMENT_BYTES
from tilestitch.hardware.units import product_cycles
from tilestitch.kernels.nest import (
    ANCHOR,
    BATCH,
    COLUMNS,
    DEPTH,
    DIMS,
    FIRST_READ,
    LANES,
    MATRIX,
    OPERATIONS,
    RATE,
    ROLE,
    ROWS,
    UNIT,
    Nest,
)

_product_cycles: Callable[..., float] = borrowing(product_cycles)


@borrowing
def up(number: float, unit: float) -> float:
    """`number` divided by `unit`, rounded up."""
    return -(-number // unit)


@borrowing
def aligned(size: float) -> float:
    """Rounded up to whole lines; no more than a division by a power of two, which is exact, for a search does many."""
    return np.ceil(size / ALIGNMENT_BYTES) * ALIGNMENT_BYTES


@lending
def matrix_cycles(nest: Nest, op: int, box: np.ndarray) -> float:
    """Cycles of the products in a box, see `ops.contraction.product_shape`."""
    groups, m, k, n = 1.0, 1.0, 1.0, 1.0
    for dim in range(nest.operators[op, DIMS]):
        extent, role = float(box[1, dim] - box[0, dim]), nest.dims[op, dim, ROLE]
        if role == BATCH:
            groups *= extent
        elif role == ROWS:
            m *= extent
        elif role == DEPTH:
            k *= extent
        elif role == COLUMNS:
            n *= extent
    return _product_cycles(nest.core[:ANCHOR], nest.operators[op, RATE:FIRST_READ], m, k, n, groups)


@lending
def vector_cycles(nest: Nest, op: int, box: np.ndarray) -> float:
    operations = float(nest.operators[op, OPERATIONS])
    if operations < 0:  # of a generic operator, which is never cut
        return up(-operations, nest.operators[op, LANES])
    for dim in range(nest.operators[op, DIMS]):
        operations *= box[1, dim] - box[0, dim]
    return up(operations, nest.operators[op, LANES])


@borrowing
def busy_cycles(nest: Nest, op: int, box: np.ndarray) -> float:
    """Cycles of an operator on its unit for a box of its iterations; of one that movers bring, as if units moved it."""
    return matrix_cycles(nest, op, box) if nest.operators[op, UNIT] >= MATRIX else vector_cycles(nest, op, box)

"""Which unit runs an operator, and the time and the work of one tile there."""

from collections.abc import Sequence
from fractions import Fraction

from tilestitch.base.dtypes import DType
from tilestitch.hardware.accelerator import Accelerator, Core
from tilestitch.hardware.units import matrix_rate, matrix_tile_cycles, vector_tile_cycles
from tilestitch.ir.graph import Graph, Operator
from tilestitch.ir.region import Region
from tilestitch.ops import RULES, generic, is_contraction
from tilestitch.ops.contraction import ProductShape, product_shape
from tilestitch.ops.streaming import BLOCK_OF


def vector_operations(op: Operator, box: Region) -> int:
    """Primitive vector operations of the iterations in `box`: one a multiply-accumulate, see `Rule.operations`."""
    if op.kind == generic.KIND:
        return generic.operations(op, box)
    rule = RULES[op.kind]
    return box.size * max(1, rule.operations + rule.each * (len(op.reads) - 1))


def on_matrix_unit(op: Operator, dtype: DType, machine: Accelerator) -> bool:
    """Whether matrix units run `op` on this machine: they can, and vector units would take longer for the whole.

    Units of one class are compared by the group of alike cores that is fastest, one unit's time over its cores. A
    depthwise convolution is a product of 9 x 1 per channel: it fills a fold of the matrix unit with 9 weights, so on
    most machines the vector units are faster. An array of processing elements takes every product as such. A product
    that runs in blocks is one operator.
    """
    if not is_contraction(op):
        return False
    arrays = [core.matrix for core in machine.cores if core.matrix is not None and core.matrix.mapped]
    if any(matrix_rate(unit, dtype) is not None for unit in arrays):
        return True
    shape = whole_product(op)
    matrix, vector = class_cycles(shape, shape.macs * max(1, RULES[op.kind].operations), dtype, machine)
    return matrix is not None and (vector is None or matrix <= vector)


def whole_product(op: Operator) -> ProductShape:
    """All iterations of a product, or of that of which it is a block."""
    block = op.attribute(BLOCK_OF, ())
    assert isinstance(block, tuple), "it is a shape"
    return ProductShape(*map(int, block)) if block else product_shape(op, op.whole)


def class_cycles(
    shape: ProductShape, operations: int, dtype: DType, machine: Accelerator
) -> tuple[Fraction | None, Fraction | None]:
    """What a product takes of the matrix units and of the vector units of the group of alike cores that is fastest.

    One unit's time over the group's cores; None where no unit of the class can do it.
    """
    matrix, vector = [], []
    for group in machine.groups:
        units, core = len(group.numbers), group.core
        if core.matrix is not None and matrix_rate(core.matrix, dtype) is not None:
            cycles = matrix_tile_cycles(core.matrix, dtype, m=shape.m, k=shape.k, n=shape.n, groups=shape.groups)
            matrix.append(Fraction(cycles, units))
        if core.vector is not None:
            vector.append(Fraction(vector_tile_cycles(core.vector, dtype, operations=operations), units))
    return min(matrix, default=None), min(vector, default=None)


def can_run(core: Core, operators: Sequence[Operator], graph: Graph, machine: Accelerator) -> bool:
    """Whether a core has every unit that a kernel of these operators needs."""
    for op in operators:
        dtype = operand_dtype(op, graph)
        if not on_matrix_unit(op, dtype, machine):
            if core.vector is None:
                return False
        elif core.matrix is None or matrix_rate(core.matrix, dtype) is None:
            return False
    return True


def operand_dtype(op: Operator, graph: Graph) -> DType:
    """The element type that sets the rate: that of the first operand, of a product the wider of its two."""
    factors = op.reads[:2] if is_contraction(op) else op.reads[:1]
    return max((graph.tensors[read.tensor].dtype for read in factors), key=lambda dtype: dtype.size_bytes)


def tile_cycles(op: Operator, box: Region, dtype: DType, core: Core, *, matrix: bool) -> int:
    """Cycles of the iterations in `box` on the unit chosen by `on_matrix_unit`."""
    if not matrix:
        assert core.vector is not None
        return vector_tile_cycles(core.vector, dtype, operations=vector_operations(op, box))
    assert core.matrix is not None
    shape = product_shape(op, box)
    return matrix_tile_cycles(core.matrix, dtype, m=shape.m, k=shape.k, n=shape.n, groups=shape.groups)

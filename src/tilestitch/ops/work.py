"""Which unit runs an operator, and the time and the work of one tile there."""

from tilestitch.dtypes import DType
from tilestitch.hardware.accelerator import Core
from tilestitch.hardware.units import matrix_rate, matrix_tile_cycles, vector_tile_cycles
from tilestitch.ir.graph import Graph, Operator
from tilestitch.ir.region import Region
from tilestitch.ops import RULES, generic, is_contraction
from tilestitch.ops.contraction import product_shape


def vector_operations(op: Operator, box: Region) -> int:
    """Primitive vector operations of the iterations in `box`: one a multiply-accumulate, see `Rule.operations`."""
    if op.kind == generic.KIND:
        return generic.operations(op, box)
    return box.size * max(1, RULES[op.kind].operations)


def on_matrix_unit(op: Operator, dtype: DType, core: Core) -> bool:
    """Whether the matrix unit of `core` runs `op`: it can, and the vector unit would take longer for the whole.

    A depthwise convolution is a product of 9 x 1 per channel: it fills a fold of the matrix unit with 9 weights, so
    on most machines the vector unit is faster.
    """
    if core.matrix is None or not is_contraction(op) or matrix_rate(core.matrix, dtype) is None:
        return False
    shape = product_shape(op, op.whole)
    on_matrix = matrix_tile_cycles(core.matrix, dtype, m=shape.m, k=shape.k, n=shape.n, groups=shape.groups)
    return on_matrix <= vector_tile_cycles(core.vector, dtype, operations=vector_operations(op, op.whole))


def operand_dtype(op: Operator, graph: Graph) -> DType:
    """The element type that sets the rate: that of the first operand."""
    return graph.tensors[op.reads[0].tensor].dtype


def tile_cycles(op: Operator, box: Region, dtype: DType, core: Core, *, matrix: bool) -> int:
    """Cycles of the iterations in `box` on the unit chosen by `on_matrix_unit`."""
    if not matrix:
        return vector_tile_cycles(core.vector, dtype, operations=vector_operations(op, box))
    assert core.matrix is not None
    shape = product_shape(op, box)
    return matrix_tile_cycles(core.matrix, dtype, m=shape.m, k=shape.k, n=shape.n, groups=shape.groups)

"""What an array takes for element-wise operators behind a product that it does by a mapping."""

from math import prod

from tilestitch.base.units import ceil_div
from tilestitch.ir.graph import Operator
from tilestitch.ir.loop_nest import LoopMapping
from tilestitch.ir.region import Region
from tilestitch.kernels.shape import KernelShape
from tilestitch.mapping.network import loop_dims
from tilestitch.ops import is_elementwise
from tilestitch.ops.work import vector_operations


def cycles_behind(shape: KernelShape, op: Operator, extents: tuple[int, ...], mapping: LoopMapping) -> int:
    """Cycles of one of a kernel's other operators on so many iterations, by the array of its core.

    An element-wise one acts on results where they are, in the elements that have added them up, and gets what it needs
    beside them over the network of results, as older sums come. docs/mapping.md#on-a-chip.
    """
    array, anchor = shape.core.array, shape.anchor
    made = {write.tensor for one in shape.operators for write in one.writes}
    inside = any(read.tensor in made for read in op.reads)
    if array is None or anchor is None or not (shape.core.only_array and is_elementwise(op) and inside):
        return shape.cycles(op, extents)
    moving = {dim for axis in anchor.writes[0].axes for dim, _ in axis.terms}
    elements = prod(mapping.spatial[loop] for loop, dim in enumerate(loop_dims(anchor)) if dim in moving)
    box, tensors = Region.whole(extents), shape.graph.tensors
    brought = sum(
        tensors[read.tensor].bytes_of(shape.graph.read_region(read, box))
        for read in op.reads
        if read.tensor not in made
    )
    rate = array.result_bytes_per_cycle
    return max(ceil_div(vector_operations(op, box), elements), ceil_div(brought * rate.denominator, rate.numerator))

"""What follows from mappings for the kernels that have them: units at work, what is behind a product, and where."""

from collections.abc import Collection
from dataclasses import dataclass
from math import prod

from tilestitch.base.errors import InputError
from tilestitch.base.units import ceil_div
from tilestitch.hardware.tree import MachineTree
from tilestitch.ir.graph import Graph, Operator
from tilestitch.ir.loop_nest import LoopMapping
from tilestitch.ir.region import Region
from tilestitch.kernels.shape import KernelShape, Operand
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
    from tilestitch.mapping.network import loop_dims  # the mapper, which cores without an array do not need

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


def units_at_most(graph: Graph, op: Operator, inside: MachineTree) -> int:
    """How many units of a core that is a tree work on an operator at a time at most, whatever its tiles.

    All of them where trees do not count its indices.
    """
    from tilestitch.mapping.network import nest_of_operator
    from tilestitch.mapping.tree.bound import bound, most_units

    nest = nest_of_operator(graph, op)
    try:
        return most_units(bound(nest, nest.write.element_bits, inside))
    except InputError:
        return inside.units


@dataclass(frozen=True, slots=True)
class Overlay:
    """Results behind a product in parts that need no place of their own: an operand's and that of the sums will do.

    Up to `operator` they lie where the sums were, which are complete; its own takes the place of `operand`.
    """

    operator: str
    operand: Operand


def overlay_of(shape: KernelShape, sources: Collection[str], *, stays: bool) -> Overlay | None:
    """The first element-wise operator behind the product that reads as much as it makes from outside, once.

    Its operand comes from DDR: it is none of the tensors in `sources`, which lie on chip and may be read there. None
    too where results of the kernel stay where the core works.
    """
    anchor = shape.anchor
    if anchor is None or stays:
        return None
    late = {one.tensor: one for one in shape.operands if not one.from_the_start and one.tensor not in sources}
    readers = [read.tensor for op in shape.operators for read in op.reads]
    made = anchor.writes[0].tensor
    for op in shape.operators:
        if shape.in_place.get(op.name) != made:
            continue
        write, tensors = op.writes[0], shape.graph.tensors
        made = write.tensor
        for read in op.reads:
            one, other = tensors[read.tensor], tensors[made]
            alike = (one.shape, one.dtype, one.layout) == (other.shape, other.dtype, other.layout)
            if read.tensor in late and alike and read.axes == write.axes and readers.count(read.tensor) == 1:
                return Overlay(op.name, late[read.tensor])
    return None

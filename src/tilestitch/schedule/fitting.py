"""Kernels that have room: cut where not even the smallest tile of all of their operators fits any core."""

from collections.abc import Iterator

from tilestitch.base.errors import DoesNotFit
from tilestitch.hardware.accelerator import Accelerator, Core
from tilestitch.ir.graph import Graph, Operator
from tilestitch.ir.region import Region
from tilestitch.ir.tiles import kernels_of, operator_boxes
from tilestitch.kernels.shape import kernel_shape, made_regions, operand_region
from tilestitch.ops.work import can_run
from tilestitch.schedule.tiling import Shapes, tile_kernel

EASY_SHARE = 0.25  # of a memory: what takes no more fits without a search


def with_room(graph: Graph, kernel: tuple[Operator, ...], machine: Accelerator) -> Iterator[tuple[Operator, ...]]:
    """The kernel, or pieces of it in running order where it has no tile that fits.

    Such as copies that read parts of a whole image each, which are the slices and joins that shift one. A piece has as
    many operators as have room together; an operator by itself is a piece whether it fits or not.
    """
    if _fits(graph, kernel, machine):
        yield kernel
        return
    begun: tuple[Operator, ...] = ()
    for op in kernel:
        longer = (*begun, op)
        if begun and not (kernels_of(graph, longer) == [longer] and _fits(graph, longer, machine)):
            yield begun
            longer = (op,)
        begun = longer
    yield begun


def _fits(graph: Graph, kernel: tuple[Operator, ...], machine: Accelerator) -> bool:
    able = (group.core for group in machine.groups if can_run(group.core, kernel, graph, machine))
    if len(kernel) == 1 or any(_easily_fits(graph, kernel, machine, core) for core in able):
        return True
    try:
        tile_kernel(Shapes(graph, machine), kernel, "")
    except DoesNotFit:
        return False
    return True


def _easily_fits(graph: Graph, kernel: tuple[Operator, ...], machine: Accelerator, core: Core) -> bool:
    """Whether all that the smallest tile needs and makes takes little of each memory: with second buffers it fits."""
    shape = kernel_shape(graph, kernel, machine, core)
    smallest = Region.whole(
        tuple(1 if block else step for step, block in zip(shape.cuts.steps, shape.cuts.inside, strict=True))
    )
    boxes = operator_boxes(graph, kernel, smallest)
    needed = dict.fromkeys((shape.home, *(operand.level for operand in shape.operands)), 0)
    for operand in shape.operands:
        region = operand_region(shape, operand, boxes, None)
        needed[operand.level] += region.size * graph.tensors[operand.tensor].dtype.size_bytes
    for name, region in made_regions(shape, boxes).items():
        needed[shape.home] += region.size * graph.tensors[name].dtype.size_bytes
    rooms = ((machine.memory(level), size) for level, size in needed.items())
    return all(memory is None or size <= EASY_SHARE * memory.size_bytes for memory, size in rooms)

"""The waves of a kernel: what each core does in each of them, and what it needs for that."""

from dataclasses import dataclass

from tilestitch.cost.shape import KernelShape, Operand, operand_region
from tilestitch.ir.graph import Graph
from tilestitch.ir.region import Region
from tilestitch.ir.schedule import Kernel
from tilestitch.ir.tiles import core_pieces, operator_boxes, reduction_parts, tiles_of

Needs = list[tuple[Operand, Region]]  # of one core in one wave


@dataclass(frozen=True, slots=True)
class Step:
    """What one core does in one wave."""

    tile: int
    boxes: dict[str, Region]
    part: Region | None
    first: bool
    last: bool


def steps_of_cores(graph: Graph, kernel: Kernel, shape: KernelShape) -> dict[int, list[Step]]:
    """Per core at work, its tiles, or the parts of their reductions, in execution order."""
    found = {}
    for core, piece in zip(kernel.cores, _pieces(shape, kernel), strict=False):
        steps = []
        for tile, box in enumerate(tiles_of(piece, kernel.tiling)):
            boxes = operator_boxes(graph, shape.operators, box)
            if shape.anchor is None:
                steps.append(Step(tile, boxes, None, True, True))
                continue
            parts = reduction_parts(shape.anchor, boxes[shape.anchor.name], kernel.tiling.reduction)
            for at, part in enumerate(parts):
                steps.append(Step(tile, boxes, part, at == 0, at == len(parts) - 1))
        found[core] = steps
    return found


def _pieces(shape: KernelShape, kernel: Kernel) -> list[Region]:
    box = shape.sink.whole if kernel.box is None else kernel.box
    return core_pieces(box, kernel.tiling.splits, kernel.tiling.steps)


def needs_of(shape: KernelShape, step: Step) -> Needs:
    """The operands of one step, each with the region that it needs."""
    return [
        (operand, operand_region(shape, operand, step.boxes, step.part))
        for operand in shape.operands
        if operand.from_the_start or step.last
    ]

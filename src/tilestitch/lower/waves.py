"""The waves of a kernel: what each core does in each of them, and what it needs for that."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tilestitch.ir.boxes import Boxes, all_operator_boxes, batched, hulls, read_regions
from tilestitch.ir.graph import Graph, Operator
from tilestitch.ir.region import Region
from tilestitch.ir.schedule import Kernel
from tilestitch.ir.tiles import core_parts, reduction_parts, tiles_of
from tilestitch.kernels.shape import KernelShape, Operand, readers_of

Needs = Mapping[Operand, Region]  # of one core in one wave


class Step(NamedTuple):
    """What one core does in one wave."""

    tile: int
    first: bool  # part of its tile
    last: bool
    part: Region  # iterations of the anchor, or of the last operator of a kernel without
    part_reads: Sequence[Region]  # what these of the anchor read, access by access
    boxes: Mapping[str, Region]  # operator -> iterations of the whole tile
    reads: Mapping[str, Sequence[Region]]  # operator but the anchor -> what these read, access by access
    writes: Mapping[str, Sequence[Region]]  # operator -> what it has written when the tile is finished
    made: Mapping[str, Region]  # tensor -> what the tile makes of it
    needs: Needs


def steps_of_cores(graph: Graph, kernel: Kernel, shape: KernelShape) -> dict[int, list[Step]]:
    """Per core at work, its tiles, or the parts of their reductions, in execution order."""
    sink, anchor, tiling = shape.sink, shape.anchor, kernel.tiling
    cores = core_parts(graph, kernel)
    pieces = [tiles_of(piece, tiling) for _, piece in cores]
    boxes = all_operator_boxes(graph, shape.operators, batched([tile for tiles in pieces for tile in tiles]))
    iterations = {op.name: boxes[op.name].regions() for op in shape.operators}
    touched = _Touched(graph, boxes)
    reads = {
        op.name: _rows([touched.read(op, number) for number in range(len(op.reads))], iterations[op.name])
        for op in shape.operators
        if op is not anchor
    }
    written = {op.name: [hulls(write, boxes[op.name]).regions() for write in op.writes] for op in shape.operators}
    writes = {name: _rows(found, iterations[name]) for name, found in written.items()}
    by_tensor: dict[str, list[list[Region]]] = {}
    for op in shape.operators:
        for write, found_regions in zip(op.writes, written[op.name], strict=True):
            by_tensor.setdefault(write.tensor, []).append(found_regions)
    made = {name: _joint(found) for name, found in by_tensor.items()}
    parts: list[list[Region]] = [[region] for region in iterations[sink.name]]
    if anchor is not None:
        parts = [reduction_parts(anchor, region, tiling.reduction) for region in iterations[anchor.name]]
    cut = batched([part for of_tile in parts for part in of_tile])
    part_reads: list[list[Region]] = [[] for of_tile in parts for _ in of_tile]
    of_parts = touched if anchor is None else _Touched(graph, {anchor.name: cut})
    if anchor is not None:
        part_reads = _rows([of_parts.read(anchor, number) for number in range(len(anchor.reads))], part_reads)
    needs = {
        operand: _joint(
            [(of_parts if operand.in_parts else touched).read(op, number) for op, number in readers_of(shape, operand)]
        )
        for operand in shape.operands
    }
    every = [(operand, regions, operand.in_parts and anchor is not None) for operand, regions in needs.items()]
    from_the_start = [one for one in every if one[0].from_the_start]
    found: dict[int, list[Step]] = {}
    tile = step = 0
    for (core, _), tiles in zip(cores, pieces, strict=True):
        found[core] = []
        for number in range(len(tiles)):
            own_boxes = {name: regions[tile] for name, regions in iterations.items()}
            own_reads = {name: rows[tile] for name, rows in reads.items()}
            own_writes = {name: rows[tile] for name, rows in writes.items()}
            own_made = {name: regions[tile] for name, regions in made.items()}
            for at, part in enumerate(parts[tile]):
                last = at == len(parts[tile]) - 1
                needed = {
                    operand: regions[step if in_parts else tile]
                    for operand, regions, in_parts in (every if last else from_the_start)
                }
                own = own_boxes, own_reads, own_writes, own_made
                found[core].append(Step(number, at == 0, last, part, part_reads[step], *own, needed))
                step += 1
            tile += 1
    return found


class _Touched:
    """What many boxes of operators read, each access looked at once."""

    def __init__(self, graph: Graph, boxes: Mapping[str, Boxes]) -> None:
        self.graph, self.boxes = graph, boxes
        self._known: dict[tuple[str, int], list[Region]] = {}

    def read(self, op: Operator, number: int) -> list[Region]:
        """By one of its accesses."""
        key = op.name, number
        if key not in self._known:
            self._known[key] = read_regions(self.graph, op.reads[number], self.boxes[op.name]).regions()
        return self._known[key]


def _joint(found: Sequence[list[Region]]) -> list[Region]:
    """The hulls of regions that belong together."""
    first, *others = found
    for other in others:
        first = [one.hull(also) for one, also in zip(first, other, strict=True)]
    return first


def _rows(columns: list[list[Region]], like: Sequence[object]) -> list[list[Region]]:
    """Lists of what belongs together, as many as `like` has entries, from lists of what is of one kind."""
    return [list(row) for row in zip(*columns, strict=True)] if columns else [[] for _ in like]

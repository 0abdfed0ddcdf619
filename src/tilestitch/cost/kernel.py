"""Estimated cycles of one kernel under one tiling, and whether it fits."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from tilestitch.hardware.accelerator import Accelerator, Core, Level
from tilestitch.ir.graph import DimKind, Graph, Operator
from tilestitch.ir.region import Region
from tilestitch.ir.schedule import Tiling
from tilestitch.ir.tiles import operator_boxes
from tilestitch.ir.transfers import burst_bytes, in_memory_order, runs
from tilestitch.ops import is_elementwise
from tilestitch.ops.work import on_matrix_unit, operand_dtype, tile_cycles
from tilestitch.units import aligned, ceil_div


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor that a kernel reads from outside, and into which area of a core it goes."""

    tensor: str
    level: Level  # LB or WEIGHTS
    in_parts: bool  # read by the anchor, so that its tile shrinks with the parts of a reduction


@dataclass(frozen=True)
class KernelShape:
    """What follows from a kernel's operators alone: its anchor, operands and results."""

    graph: Graph
    operators: tuple[Operator, ...]
    anchor: Operator | None
    operands: tuple[Operand, ...]
    results: tuple[str, ...]  # tensors that leave the kernel
    matrix: frozenset[str]  # operators on the matrix unit

    @property
    def sink(self) -> Operator:
        return self.operators[-1]

    @cached_property
    def movers(self) -> dict[str, frozenset[int]]:
        """Per operand's tensor, the dims of the sink that move what a tile needs of it."""
        return _movers(self)

    @cached_property
    def in_place(self) -> dict[str, str]:
        """Per operator that can write where an operand lay, that operand's tensor."""
        found = {op.name: _in_place_operand(self, op) for op in self.operators}
        return {name: tensor for name, tensor in found.items() if tensor is not None}


def kernel_shape(graph: Graph, operators: Sequence[Operator], machine: Accelerator, core: Core) -> KernelShape:
    """Sort the tensors of a kernel into operands, inner tensors and results."""
    produced = {name for op in operators for name in op.outputs}
    members = {op.name for op in operators}
    matrix = {op.name for op in operators if on_matrix_unit(op, operand_dtype(op, graph), core)}
    anchor = next((op for op in operators if op.name in matrix), None)
    operands: dict[tuple[str, Level], bool] = {}
    for op in operators:
        for number, read in enumerate(op.reads):
            if read.tensor in produced or read.indirect_axis is not None:
                continue
            second = number == 1 and op.name in matrix and machine.memory(Level.WEIGHTS) is not None
            key = (read.tensor, Level.WEIGHTS if second else Level.LB)
            operands[key] = operands.get(key, True) and op is anchor and number < 2
    results = tuple(
        name
        for op in operators
        for name in op.outputs
        if name in graph.outputs or any(c.name not in members for c in graph.consumers.get(name, ()))
    )
    return KernelShape(
        graph,
        tuple(operators),
        anchor,
        tuple(Operand(tensor, level, parts) for (tensor, level), parts in operands.items()),
        tuple(dict.fromkeys(results)),
        frozenset(matrix),
    )


def part_box(anchor: Operator, box: Region, extents: Sequence[int]) -> Region:
    """The first (and largest) part of `box` when the reduction dims of `anchor` are cut by `extents`."""
    stop = tuple(
        min(b, a + extent) if dim.kind is DimKind.REDUCTION else b
        for dim, a, b, extent in zip(anchor.dims, box.start, box.stop, extents, strict=True)
    )
    return Region(box.start, stop)


def operand_region(shape: KernelShape, operand: Operand, boxes: dict[str, Region], part: Region | None) -> Region:
    """What one tile needs of an operand: the hull over all of its readers in the kernel."""
    region = None
    for op in shape.operators:
        for number, read in enumerate(op.reads):
            if read.tensor != operand.tensor or read.indirect_axis is not None:
                continue
            second = number == 1 and op.name in shape.matrix
            if second != (operand.level is Level.WEIGHTS) and any(
                o.tensor == operand.tensor and o.level is not operand.level for o in shape.operands
            ):
                continue
            box = part if part is not None and operand.in_parts and op is shape.anchor else boxes[op.name]
            found = shape.graph.read_region(read, box)
            region = found if region is None else region.hull(found)
    assert region is not None
    return region


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated cycles of a kernel, or why it does not fit."""

    cycles: int
    ddr_bytes: int
    misfit: str | None = None


def estimate(shape: KernelShape, machine: Accelerator, core: Core, tiling: Tiling) -> Estimate:
    """Cycles of a kernel under `tiling`: the slowest engine or memory, plus what the first and last tile cannot hide.

    Takes the largest tile for every tile. Assumes that a tile's loads hide behind the tile before (two slots an
    operand); the simulator assumes nothing. Source: derived in docs/model.md#estimate.
    """
    graph, sink = shape.graph, shape.sink
    extents = tuple(dim.extent for dim in sink.dims)
    piece = tuple(
        min(e, step * ceil_div(ceil_div(e, step), s))
        for e, s, step in zip(extents, tiling.splits, tiling.steps, strict=True)
    )
    tile = tuple(map(min, tiling.tile, piece))
    counts = tuple(map(ceil_div, piece, tile))
    tiles, cores = prod(counts), prod(tiling.splits)
    middle = tuple(min(t, e - t) if c * s > 2 else 0 for t, e, c, s in zip(tile, extents, counts, tiling.splits, strict=True))
    box = Region(middle, tuple(map(int.__add__, middle, tile)))  # not at the border, where padding makes it smaller
    boxes = operator_boxes(graph, shape.operators, box)
    anchor, part, parts = shape.anchor, None, 1
    if anchor is not None:
        part = part_box(anchor, boxes[anchor.name], tiling.reduction)
        parts = prod(
            ceil_div(dim.extent, cut)
            for dim, cut in zip(anchor.dims, tiling.reduction, strict=True)
            if dim.kind is DimKind.REDUCTION
        )
    movers = shape.movers

    lb = weights = stream = resident = 0
    ddr = gb = link = dma_copies = mover_copies = 0
    first_load = 0
    gb_memory = machine.memory(Level.GB)
    ddr_burst, gb_burst = machine.ddr.burst_bytes, gb_memory.burst_bytes if gb_memory is not None else 1
    for operand in shape.operands:
        tensor = graph.tensors[operand.tensor]
        moving = movers[operand.tensor]
        region = operand_region(shape, operand, boxes, part)
        size = tensor.bytes_of(region)
        inner = max((i for i, d in enumerate(tiling.order) if d in moving and counts[d] > 1), default=-1)
        loads = prod(counts[d] for d in tiling.order[: inner + 1])
        if operand.in_parts and parts > 1:
            loads = tiles * parts
        distinct = prod(s for d, s in enumerate(tiling.splits) if d in moving)
        slots = 1 if loads == 1 else 2
        if operand.level is Level.WEIGHTS:
            weights += slots * aligned(size)
        else:
            lb += slots * aligned(size)
        run, descriptors = runs(
            in_memory_order(tensor, region.extents),
            in_memory_order(tensor, tensor.shape),
            in_memory_order(tensor, region.extents),
            tensor.dtype.size_bytes,
        )
        total = loads * distinct * size
        if operand.tensor in tiling.resident:
            whole = tensor.size_bytes
            resident += aligned(whole)
            ddr += whole
            dma_copies += min(16, loads)
            strided = burst_bytes(total, run, gb_burst)
            gb += whole + strided
            link += loads * burst_bytes(size, run, gb_burst)
            mover_copies += ceil_div(loads * distinct * descriptors, cores)
        elif gb_memory is not None:
            stream += slots * distinct * aligned(size)
            ddr += burst_bytes(total, run, ddr_burst)
            gb += burst_bytes(total, run, gb_burst) + total
            dma_copies += loads * distinct * descriptors
            link += loads * size
            mover_copies += ceil_div(loads * distinct, cores)
        else:
            ddr += burst_bytes(total, run, ddr_burst)
            link += loads * size
            mover_copies += ceil_div(loads * distinct * descriptors, cores)
        first_load += size
    for op in shape.operators:
        if op.kind == "gather":
            size = graph.tensors[op.writes[0].tensor].bytes_of(_written(op, boxes[op.name]))
            ddr += tiles * cores * size
            link += tiles * size
            mover_copies += tiles
    out_bytes = 0
    for name, (region, leaves) in _inner_regions(shape, boxes).items():
        tensor = graph.tensors[name]
        size = tensor.bytes_of(region)
        lb += aligned(size) * (2 if tiles > 1 else 1)
        if leaves:
            run, descriptors = runs(
                in_memory_order(tensor, region.extents),
                in_memory_order(tensor, region.extents),
                in_memory_order(tensor, tensor.shape),
                tensor.dtype.size_bytes,
            )
            out_bytes += size
            ddr += burst_bytes(tiles * cores * size, run, ddr_burst)
            link += tiles * size
            if gb_memory is not None:
                stream += aligned(size) * cores * (2 if tiles > 1 else 1)
                gb += tiles * cores * (size + burst_bytes(size, run, gb_burst))
                dma_copies += tiles * cores * descriptors
                mover_copies += tiles
            else:
                mover_copies += tiles * descriptors

    misfit = _misfit(shape, machine, boxes, lb, weights, resident + stream)
    matrix = vector = 0
    for op in shape.operators:
        if op.kind == "gather":
            continue
        dtype = operand_dtype(op, graph)
        if op.name in shape.matrix:
            assert part is not None
            box = part if op is anchor else boxes[op.name]
            cycles = tile_cycles(op, box, dtype, core, matrix=True)
            matrix += cycles * (parts if op is anchor else 1) + machine.setup.compute_cycles * parts
        else:
            vector += tile_cycles(op, boxes[op.name], dtype, core, matrix=False) + machine.setup.compute_cycles

    ddr_rate = machine.ddr.bandwidth_bytes_per_cycle
    # DMA in and out are two engines that share the port of DDR; half of the copies' set-ups fall on each.
    busy = [
        tiles * matrix,
        tiles * vector,
        int(link / machine.link.bandwidth_bytes_per_cycle) + mover_copies * machine.setup.mover_cycles,
        int(ddr / ddr_rate) + dma_copies * machine.setup.dma_cycles // 2,
    ]
    if gb_memory is not None:
        busy.append(int(gb / gb_memory.bandwidth_bytes_per_cycle))
    rim = int(first_load * min(cores, 4) / ddr_rate) + int((first_load + out_bytes) / machine.link.bandwidth_bytes_per_cycle)
    rim += int(out_bytes * cores / ddr_rate) + matrix + vector
    return Estimate(max(busy) + rim + machine.setup.launch_cycles, ddr, misfit)


def _movers(shape: KernelShape) -> dict[str, frozenset[int]]:
    """Per external tensor, the dims of the sink that move what a tile needs of it."""
    sink, graph = shape.sink, shape.graph
    ones = Region((0,) * len(sink.dims), (1,) * len(sink.dims))
    base = operator_boxes(graph, shape.operators, ones)
    moving: dict[str, set[int]] = {o.tensor: set() for o in shape.operands}
    for d, dim in enumerate(sink.dims):
        if dim.extent == 1:
            continue
        at = tuple(dim.extent - 1 if i == d else 0 for i in range(len(sink.dims)))
        boxes = operator_boxes(graph, shape.operators, Region(at, tuple(a + 1 for a in at)))
        for op in shape.operators:
            for read in op.reads:
                if read.tensor in moving and graph.read_region(read, boxes[op.name]) != graph.read_region(
                    read, base[op.name]
                ):
                    moving[read.tensor].add(d)
    return {tensor: frozenset(dims) for tensor, dims in moving.items()}


def _written(op: Operator, box: Region) -> Region:
    return op.writes[0].hull(box)


def _inner_regions(shape: KernelShape, boxes: dict[str, Region]) -> dict[str, tuple[Region, bool]]:
    """What the kernel makes of each tensor for one tile, and whether it leaves; in-place results share a place."""
    found: dict[str, tuple[Region, bool]] = {}
    for op in shape.operators:
        reused = shape.in_place.get(op.name)
        for write in op.writes:
            if reused is not None:
                found.pop(reused, None)
            found[write.tensor] = write.hull(boxes[op.name]), write.tensor in shape.results
    return found


def _in_place_operand(shape: KernelShape, op: Operator) -> str | None:
    """The inner tensor whose place the result of an element-wise operator can take: same box, and dead afterwards."""
    if not is_elementwise(op):
        return None
    graph, write = shape.graph, op.writes[0]
    produced = {name for other in shape.operators for name in other.outputs}
    for read in op.reads:
        if (
            read.tensor in produced
            and read.tensor not in shape.results
            and read.axes == write.axes
            and graph.tensors[read.tensor].dtype == graph.tensors[write.tensor].dtype
            and graph.tensors[read.tensor].layout == graph.tensors[write.tensor].layout
            and len(graph.consumers[read.tensor]) == 1
            and sum(other.tensor == read.tensor for other in op.reads) == 1
        ):
            return read.tensor
    return None


def _misfit(
    shape: KernelShape, machine: Accelerator, boxes: dict[str, Region], lb: int, weights: int, gb: int
) -> str | None:
    """Which memory a tile overflows, as an inequality; None where it fits."""
    needs = {Level.LB: lb, Level.WEIGHTS: weights, Level.GB: gb}
    if shape.anchor is not None and machine.memory(Level.ACCUMULATORS) is not None:
        out = shape.anchor.writes[0].hull(boxes[shape.anchor.name])
        needs[Level.ACCUMULATORS] = 4 * out.size
    for level, need in needs.items():
        memory = machine.memory(level)
        if memory is not None and need > memory.size_bytes:
            return f"{need:,} B in {level}, which holds {memory.size_bytes:,} B ({need - memory.size_bytes:,} B too much)"
    return None

"""Estimated cycles of one kernel under one tiling, and whether it fits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import TypeAlias

from tilestitch.cost.shape import KernelShape, Operand, made_regions, operand_region, part_box
from tilestitch.cost.surroundings import FROM_DDR, NOWHERE, Room, Shares, Surroundings
from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.ir.graph import DimKind, Tensor
from tilestitch.ir.region import Region
from tilestitch.ir.tiles import operator_boxes
from tilestitch.ir.transfers import in_memory_order, runs
from tilestitch.ops.work import operand_dtype, tile_cycles
from tilestitch.units import aligned, ceil_div

_Corner: TypeAlias = tuple[dict[str, Region], Region | None]


@dataclass(frozen=True, slots=True)
class OperandFigures:
    """What one tile needs of an operand."""

    tensor: str
    size_bytes: int  # of the largest tile
    whole_bytes: int  # of the tensor
    moving: frozenset[int]  # dims of the sink that change what a tile needs
    in_parts: bool
    in_gb: bool  # the units read it there, so nothing brings it to a core
    slots: int  # 2 where the next tile's can load while this one's is in use
    distinct: int  # different regions that the cores need at one time
    ddr_factor: float  # bytes that DDR moves for each byte, runs rounded up to bursts
    gb_factor: float  # likewise GB, when it holds the tensor whole
    descriptors: int
    shares: Shares  # where its bytes come from


@dataclass(frozen=True, slots=True)
class ResultFigures:
    """What one tile makes of a tensor that leaves the kernel."""

    size_bytes: int
    in_gb: bool  # where the units write it already
    level: Level  # where it stays
    slots: int
    ddr_factor: float
    gb_factor: float
    descriptors: int


@dataclass(frozen=True)
class TileFigures:
    """All that a cut into cores and tiles fixes, whatever the loop order and whatever stays in GB."""

    counts: tuple[int, ...]  # tiles of a core along each dim of the sink
    cores: int
    parts: int  # of the anchor's reduction
    operands: tuple[OperandFigures, ...]
    results: tuple[ResultFigures, ...]
    gathered_bytes: int
    matrix_cycles: int  # of one tile, all parts
    vector_cycles: int
    made_in_gb_bytes: int  # of one core, which has no LB for what its tiles make
    gb_bytes: int  # of GB that are free for the kernel
    misfit: str | None  # in the memories of a core

    @property
    def tiles(self) -> int:
        return prod(self.counts)


def measure(
    shape: KernelShape,
    machine: Accelerator,
    splits: tuple[int, ...],
    tile: tuple[int, ...],
    steps: tuple[int, ...],
    reduction: tuple[int, ...],
    around: Surroundings = NOWHERE,
    origins: Mapping[Operand, Shares] = MappingProxyType({}),
    kept_bytes: int = 0,
) -> TileFigures:
    """Figures of the largest tile of a cut, taken away from the border, where padding would make it smaller.

    `origins` says where the bytes of operands on chip come from, `kept_bytes` what the results take where they stay.
    """
    graph, sink, anchor, core = shape.graph, shape.sink, shape.anchor, shape.core
    whole = around.iterations(sink)
    extents = whole.extents
    piece = tuple(
        min(e, step * ceil_div(ceil_div(e, step), s)) for e, s, step in zip(extents, splits, steps, strict=True)
    )
    tile = tuple(map(min, tile, piece))
    counts = tuple(map(ceil_div, piece, tile))
    middle = tuple(
        a + (min(t, e - t) if c * s > 2 else 0)
        for a, t, e, c, s in zip(whole.start, tile, extents, counts, splits, strict=True)
    )
    corners = [_corner(shape, middle, tile, reduction)]
    if shape.padded and any(c * s == 2 and t < e for c, s, t, e in zip(counts, splits, tile, extents, strict=True)):
        far = tuple(
            a + min(t, e - t) if c * s == 2 else m
            for a, m, t, e, c, s in zip(whole.start, middle, tile, extents, counts, splits, strict=True)
        )
        corners.append(_corner(shape, far, tile, reduction))  # the second of two may have less padding than the first
    (boxes, part), parts = corners[0], 1
    if anchor is not None:
        parts = prod(
            ceil_div(dim.extent, cut)
            for dim, cut in zip(anchor.dims, reduction, strict=True)
            if dim.kind is DimKind.REDUCTION
        )
    gb = machine.memory(Level.GB)
    bursts = machine.ddr.burst_bytes, gb.burst_bytes if gb is not None else 1
    operands = tuple(
        _operand_figures(shape, operand, corners, parts, counts, splits, bursts, origins.get(operand, FROM_DDR))
        for operand in shape.operands
    )
    tiles, in_gb = prod(counts), shape.home is Level.GB
    results, made = [], 0
    written = set(around.kept) if around.results is shape.home else frozenset()  # where they stay, by the units
    in_place = {op.writes[0].tensor for op in shape.operators if op.name in shape.in_place}
    for name, region in made_regions(shape, boxes).items():
        tensor = graph.tensors[name]
        slots, size = 2 if tiles > 1 else 1, tensor.bytes_of(region)
        made += 0 if name in in_place or name in written else slots * aligned(size)
        if name in shape.results:
            factors, descriptors = _strides(tensor, region, bursts)
            level = around.results if name in around.kept else Level.DDR
            results.append(ResultFigures(size, in_gb, level, slots, *factors, descriptors))
    needs = {
        level: sum(
            o.slots * aligned(o.size_bytes)
            for o, which in zip(operands, shape.operands, strict=True)
            if which.level is level and not o.shares.direct
        )
        for level in (Level.LB, Level.WEIGHTS)
    }
    needs[Level.LB] += 0 if in_gb else made
    accumulators = machine.local(core, Level.ACCUMULATORS)
    if anchor is not None and accumulators is not None:
        needs[Level.ACCUMULATORS] = max(
            4 * op.writes[0].hull(boxes[op.name]).size for op in shape.operators if op.name in shape.matrix
        )
    matrix, vector = _compute_cycles(shape, machine, boxes, part, parts)
    gathered = sum(
        graph.tensors[op.writes[0].tensor].bytes_of(op.writes[0].hull(boxes[op.name]))
        for op in shape.operators
        if op.kind == "gather"
    )
    rooms = {
        memory.level: around.rooms.get(memory.level, Room(memory.size_bytes)).left(
            kept_bytes if memory.level is around.results else 0
        )
        for memory in machine.memories
    }
    misfit = _misfit(machine, needs, rooms)
    if misfit is None and rooms.get(Level.GB, 0) < 0:
        misfit = _misfit(machine, {Level.GB: kept_bytes}, rooms)
    if parts > 1 and accumulators is None:
        misfit = "a reduction in parts, and the core has no accumulators to keep partial sums in"
    return TileFigures(
        counts,
        prod(splits),
        parts,
        operands,
        tuple(results),
        gathered,
        matrix,
        vector,
        made if in_gb else 0,
        rooms.get(Level.GB, 0),
        misfit,
    )


def _operand_figures(
    shape: KernelShape,
    operand: Operand,
    corners: Sequence[_Corner],
    parts: int,
    counts: tuple[int, ...],
    splits: tuple[int, ...],
    bursts: tuple[int, int],
    shares: Shares,
) -> OperandFigures:
    tensor = shape.graph.tensors[operand.tensor]
    moving = shape.movers[operand.tensor]
    region = max((operand_region(shape, operand, boxes, part) for boxes, part in corners), key=tensor.bytes_of)
    once = prod(counts[d] for d in moving) == 1 and not (operand.in_parts and parts > 1)
    factors, descriptors = _strides(tensor, region, bursts)
    return OperandFigures(
        tensor=operand.tensor,
        size_bytes=tensor.bytes_of(region),
        whole_bytes=tensor.size_bytes,
        moving=moving,
        in_parts=operand.in_parts,
        in_gb=operand.level is Level.GB,
        slots=1 if once else 2,
        distinct=prod(s for d, s in enumerate(splits) if d in moving),
        ddr_factor=factors[0],
        gb_factor=factors[1],
        descriptors=descriptors,
        shares=shares,
    )


def _corner(shape: KernelShape, start: tuple[int, ...], tile: tuple[int, ...], reduction: tuple[int, ...]) -> _Corner:
    """The iterations of every operator for one tile of the sink, and the first part of the anchor's."""
    stop = tuple(a + t for a, t in zip(start, tile, strict=True))
    boxes = operator_boxes(shape.graph, shape.operators, Region(start, stop))
    return boxes, None if shape.anchor is None else part_box(shape.anchor, boxes[shape.anchor.name], reduction)


def _strides(tensor: Tensor, region: Region, bursts: tuple[int, int]) -> tuple[tuple[float, float], int]:
    """How much DDR and GB move for each byte when a dense buffer of `region` meets the whole tensor; descriptors."""
    extents = in_memory_order(tensor, region.extents)
    run, descriptors = runs(extents, in_memory_order(tensor, tensor.shape), extents, tensor.dtype.size_bytes)
    return (ceil_div(run, bursts[0]) * bursts[0] / run, ceil_div(run, bursts[1]) * bursts[1] / run), descriptors


def _compute_cycles(
    shape: KernelShape, machine: Accelerator, boxes: dict[str, Region], part: Region | None, parts: int
) -> tuple[int, int]:
    """Cycles of one tile on the matrix and on the vector unit."""
    matrix, vector, core = 0, 0, shape.core
    setup = machine.setup.compute_cycles
    for op in shape.operators:
        if op.kind == "gather":
            continue
        dtype = operand_dtype(op, shape.graph)
        if op is shape.anchor:
            assert part is not None
            matrix += parts * (tile_cycles(op, part, dtype, core, matrix=True) + setup)
        elif op.name in shape.matrix:
            matrix += tile_cycles(op, boxes[op.name], dtype, core, matrix=True) + setup
        else:
            vector += tile_cycles(op, boxes[op.name], dtype, core, matrix=False) + setup
    return matrix, vector


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated cycles of a kernel, or why it does not fit."""

    cycles: int
    ddr_bytes: int
    misfit: str | None = None


def estimate(figures: TileFigures, machine: Accelerator, order: tuple[int, ...], resident: frozenset[str]) -> Estimate:
    """Cycles of a kernel: the slowest engine or memory, plus what the first and last tile cannot hide behind.

    Takes the largest tile for every tile and assumes that a tile's loads hide behind the tile before; the simulator
    assumes neither. Source: derived in docs/model.md#estimate.
    """
    if figures.misfit is not None:
        return Estimate(0, 0, figures.misfit)
    gb_memory, setup = machine.memory(Level.GB), machine.setup
    tiles, cores, counts = figures.tiles, figures.cores, figures.counts
    ddr = gb = link = 0.0
    dma_copies = mover_copies = staged = first_load = 0
    exposed = 0.0  # bytes that come from other cores, after those have made them
    for operand in figures.operands:
        origin = operand.shares
        if origin.direct:
            continue
        inner = max((i for i, d in enumerate(order) if d in operand.moving and counts[d] > 1), default=-1)
        loads = prod(counts[d] for d in order[: inner + 1])
        if operand.in_parts and figures.parts > 1:
            loads = tiles * figures.parts
        total = loads * operand.distinct * operand.size_bytes
        copies = loads * operand.distinct
        if origin.ddr < 1:
            link += loads * operand.size_bytes * (1 - origin.ddr)
            mover_copies += ceil_div(copies * operand.descriptors, cores)
            gb += total * origin.gb * operand.gb_factor
            exposed += operand.size_bytes * (1 - origin.ddr)
            if operand.in_gb:
                staged += operand.slots * cores * aligned(operand.size_bytes)
                gb += total * (1 - origin.ddr)
            elif origin.ddr and gb_memory is not None:
                staged += operand.slots * operand.distinct * aligned(operand.size_bytes)
            ddr += total * origin.ddr * operand.ddr_factor
            dma_copies += copies * operand.descriptors if origin.ddr else 0
            continue
        first_load += operand.size_bytes
        if gb_memory is None:
            ddr += total * operand.ddr_factor
            link += loads * operand.size_bytes
            mover_copies += ceil_div(copies * operand.descriptors, cores)
        elif operand.tensor in resident:
            staged += aligned(operand.whole_bytes)
            ddr += operand.whole_bytes
            dma_copies += min(16, loads)
            gb += operand.whole_bytes
            if operand.in_gb:
                continue
            gb += total * operand.gb_factor
            link += loads * operand.size_bytes
            mover_copies += ceil_div(copies * operand.descriptors, cores)
        elif operand.in_gb:
            staged += operand.slots * cores * aligned(operand.size_bytes)
            ddr += total * operand.ddr_factor
            dma_copies += copies * operand.descriptors
            gb += loads * cores * operand.size_bytes
        else:
            staged += operand.slots * operand.distinct * aligned(operand.size_bytes)
            ddr += total * operand.ddr_factor
            dma_copies += copies * operand.descriptors
            gb += total * (1 + operand.gb_factor)
            link += loads * operand.size_bytes
            mover_copies += ceil_div(copies, cores)
    staged += cores * figures.made_in_gb_bytes
    last_store = last_setups = 0
    for result in figures.results:
        if result.level is Level.LB or (result.level is Level.GB and result.in_gb):
            continue
        if result.level is Level.GB:
            link += tiles * result.size_bytes
            gb += tiles * cores * result.size_bytes * result.gb_factor
            mover_copies += tiles * result.descriptors
            exposed += result.size_bytes
            continue
        last_store += result.size_bytes
        last_setups += cores * result.descriptors if gb_memory is not None else 0
        ddr += tiles * cores * result.size_bytes * result.ddr_factor
        if result.in_gb:
            gb += tiles * cores * result.size_bytes * result.gb_factor
            dma_copies += tiles * cores * result.descriptors
            continue
        link += tiles * result.size_bytes
        if gb_memory is None:
            mover_copies += tiles * result.descriptors
            continue
        staged += result.slots * cores * aligned(result.size_bytes)
        gb += tiles * cores * result.size_bytes * (1 + result.gb_factor)
        dma_copies += tiles * cores * result.descriptors
        mover_copies += tiles
    if figures.gathered_bytes:
        ddr += tiles * cores * figures.gathered_bytes
        if figures.made_in_gb_bytes:
            gb += tiles * cores * figures.gathered_bytes
        else:
            link += tiles * figures.gathered_bytes
    if gb_memory is not None and staged > figures.gb_bytes:
        return Estimate(0, 0, _misfit(machine, {Level.GB: staged}, {Level.GB: figures.gb_bytes}))

    ddr_rate = machine.channel_bytes_per_cycle if cores == 1 else machine.ddr.bandwidth_bytes_per_cycle
    link_rate = machine.link.bandwidth_bytes_per_cycle
    # What the first load and the last store take, and the arithmetic of one tile, is hidden by nothing; nor is what
    # comes from other cores, which have only just made it. An engine or a memory has its own part of that among its
    # total already.
    ddr_rim = int((first_load + last_store * cores) / ddr_rate)
    link_rim = int((first_load + last_store + exposed) / link_rate) if link else 0
    rim = ddr_rim + link_rim + figures.matrix_cycles + figures.vector_cycles + last_setups * setup.dma_cycles
    cycles = max(
        tiles * figures.matrix_cycles - figures.matrix_cycles,
        tiles * figures.vector_cycles - figures.vector_cycles,
        int(link / link_rate) + mover_copies * setup.mover_cycles - link_rim,
        # DMA in and out are two engines that share the port of DDR; half of the set-ups fall on each.
        int(ddr / ddr_rate) + dma_copies * setup.dma_cycles // 2 - ddr_rim,
        int(gb / gb_memory.bandwidth_bytes_per_cycle) if gb_memory is not None else 0,
    )
    return Estimate(cycles + rim + setup.launch_cycles, int(ddr))


def _misfit(machine: Accelerator, needs: Mapping[Level, int], rooms: Mapping[Level, int]) -> str | None:
    """Which memory overflows, as an inequality; None where everything fits. `rooms` is what is free of each."""
    for level, need in needs.items():
        memory = machine.memory(level)
        if memory is not None and need > rooms[level]:
            kept = memory.size_bytes - rooms[level]
            beside = f" beside {kept:,} B that stay there" if kept else ""
            return (
                f"{need:,} B in {level}, which holds {memory.size_bytes:,} B{beside} "
                f"({need - rooms[level]:,} B too much)"
            )
    return None

"""Estimated cycles of one kernel under one tiling, and whether it fits: compiled, because a search asks for thousands.

Numbers of bytes and cycles are in floating point: exact as far as they matter, and without overflow beyond.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tilestitch.base.jit import borrowing, lending, tiered
from tilestitch.cost.place import (
    ACCUMULATORS,
    DIRECT,
    FROM_DDR_SHARE,
    FROM_GB_SHARE,
    GB,
    LB,
    MEMORIES,
    UNSUMMED,
    WEIGHTS,
    Place,
    Rates,
)
from tilestitch.ir.transfers import contiguous_runs
from tilestitch.kernels.arithmetic import aligned, matrix_cycles, up, vector_cycles
from tilestitch.kernels.boxes import boxes_into, bytes_of, hull, made_region, operand_into, part_of
from tilestitch.kernels.nest import (
    ANCHOR,
    BRINGS,
    DIMS,
    ELEMENT,
    EXTENT,
    FIRST_MATRIX,
    FIRST_WRITE,
    HOME,
    IN_GB,
    IN_LB,
    IN_PARTS,
    IN_PLACE,
    IN_WEIGHTS,
    IS_RESULT,
    LAYOUT,
    MATRIX,
    ON_TREE,
    PADDED,
    RANK,
    REDUCED,
    SHAPE,
    SUMS,
    TENSOR,
    TENSOR_OF,
    UNIT,
    WHERE,
    Nest,
)

# Columns of what a tile needs of an operand.
(
    SIZE,  # bytes of the largest tile
    WHOLE,  # bytes of the tensor
    SLOTS,  # 2 where the next tile's can load while this one's is in use
    DISTINCT,  # different regions that the cores need at one time
    DDR_FACTOR,  # bytes that DDR moves for each byte, runs rounded up to bursts
    GB_FACTOR,  # likewise GB, when it holds the tensor whole
    DESCRIPTORS,
) = range(7)
# Columns of what is true of a whole cut into cores and tiles; from the last on, what it needs of each level.
TILES, CORES, PARTS, GATHERED, MATRIX_CYCLES, VECTOR_CYCLES, MADE_IN_GB, MISFIT, NEED, NEEDS = range(10)

_contiguous_runs: Callable[..., tuple[float, float]] = borrowing(contiguous_runs)


@tiered
def measure(
    nest: Nest,
    rates: Rates,
    place: Place,
    tile: np.ndarray,
    cut: np.ndarray,
    counts: np.ndarray,
    operands: np.ndarray,
    made: np.ndarray,
) -> np.ndarray:
    """Figures of the largest tile of a cut, taken away from the border, where padding would make it smaller.

    Where there are only two tiles along a dim, the second may have less padding than the first, so both are looked at.
    `tile` holds the extents of a tile by dim of the sink, `cut` those of a part of the anchor's reduction. Fills
    `counts` with the tiles of a core by dim, `operands` and `made` with what one tile needs and makes; gives the rest,
    which is true whatever the loop order and whatever stays in GB.
    """
    ops, width, tensors, rank = len(nest.operators), nest.dims.shape[1], len(nest.tensors), nest.places.shape[1]
    both, regions = np.zeros((2, ops, 2, width), np.int64), np.zeros((tensors, 2, rank), np.int64)
    iterations, found = np.zeros((5, 2, width), np.int64), np.zeros((3, 2, rank), np.int64)
    whole = np.zeros(NEEDS + MEMORIES)
    room = _Room(both, regions, np.zeros(tensors, np.int64), iterations, found, np.empty((2, rank)), np.zeros(MEMORIES))
    _measure(nest, rates, place, tile, cut, counts, operands, made, whole, room)
    return whole


class _Room(NamedTuple):
    """Arrays that `measure` needs, made by it: the work is done by code that makes none."""

    boxes: np.ndarray  # two, operator
    needed: np.ndarray  # tensor: a region
    known: np.ndarray  # tensor
    iterations: np.ndarray  # five boxes
    regions: np.ndarray  # three
    numbers: np.ndarray  # two, axis
    needs: np.ndarray  # memory


@lending
def _measure(
    nest: Nest,
    rates: Rates,
    place: Place,
    tile: np.ndarray,
    cut: np.ndarray,
    counts: np.ndarray,
    operands: np.ndarray,
    made: np.ndarray,
    whole: np.ndarray,
    room_for: _Room,
) -> None:
    """See `measure`."""
    dims, ops = len(place.extents), len(nest.operators)
    boxes, far_boxes, needed, known = room_for.boxes[0], room_for.boxes[1], room_for.needed, room_for.known
    sink, far, box = room_for.iterations[0], room_for.iterations[1], room_for.iterations[2]
    part, far_part, parts = room_for.iterations[3], room_for.iterations[4], 1.0
    found, other, region = room_for.regions[0], room_for.regions[1], room_for.regions[2]
    numbers, needs, two = room_for.numbers, room_for.needs, False
    tiles, cores = 1.0, place.cores
    for dim in range(dims):
        extent, piece, pieces = place.extents[dim], place.piece[dim], place.splits[dim]
        most = min(tile[dim], piece)
        counts[dim] = -(-piece // most)
        tiles *= counts[dim]
        inner = min(most * max(1, extent // most // 2), extent - most)  # several tiles may touch a wide border
        if inner == extent - most and counts[dim] * pieces > 2:  # parts overlap, and one may lie between both borders
            inner //= 2
        sink[0, dim] = place.start[dim] + (inner if counts[dim] * pieces > 2 else 0)
        far[0, dim] = place.start[dim] + (inner if counts[dim] * pieces > 1 else 0)
        sink[1, dim], far[1, dim] = sink[0, dim] + most, far[0, dim] + most
        two = two or (nest.core[PADDED] and counts[dim] * pieces == 2 and most < extent)
    boxes_into(nest, sink, boxes, needed, known, box, region)
    anchor = nest.core[ANCHOR]
    if two:
        boxes_into(nest, far, far_boxes, needed, known, box, region)
        if anchor >= 0:
            part_of(nest, far_boxes, cut, far_part)
    if anchor >= 0:
        part_of(nest, boxes, cut, part)
        for dim in range(nest.operators[anchor, DIMS]):
            if nest.dims[anchor, dim, REDUCED]:
                parts *= -(-nest.dims[anchor, dim, EXTENT] // cut[dim])

    for at in range(len(nest.operands)):
        tensor, where = nest.operands[at, TENSOR_OF], nest.operands[at, WHERE]
        operand_into(nest, at, boxes, part, found, region)
        if two:
            operand_into(nest, at, far_boxes, far_part, other, region)
            if bytes_of(nest, tensor, other) > bytes_of(nest, tensor, found):
                found, other = other, found
        once, distinct = not (nest.operands[at, IN_PARTS] and parts > 1), 1.0
        for dim in range(dims):
            if nest.moving[at, dim]:
                once = once and counts[dim] == 1
                distinct *= place.splits[dim]
        size = bytes_of(nest, tensor, found)
        slots = 1.0 if once else 2.0
        operands[at, SIZE], operands[at, SLOTS], operands[at, DISTINCT] = size, slots, distinct
        operands[at, WHOLE] = _whole_bytes(nest, tensor)
        _strides(nest, rates, tensor, found, operands[at], numbers)
        if not place.shares[at, DIRECT]:
            if where == IN_LB:
                needs[LB] += slots * aligned(size)
            elif where == IN_WEIGHTS:
                needs[WEIGHTS] += slots * aligned(size)
    in_gb = _home(nest) == IN_GB
    made_bytes = 0.0
    slots = 2.0 if tiles > 1 else 1.0
    for at in range(len(nest.made)):
        tensor, in_place = nest.made[at, TENSOR_OF], nest.made[at, IN_PLACE]
        made_region(nest, tensor, boxes, found, needed[tensor])
        size = room = bytes_of(nest, tensor, found)
        made[at, SIZE], made[at, SLOTS] = size, slots
        if two:
            made_region(nest, tensor, far_boxes, other, needed[tensor])
            room = _room(nest, tensor, found, other)
        if not in_place and not place.stays[at, 1]:
            made_bytes += slots * aligned(room)
        if nest.made[at, IS_RESULT]:
            _strides(nest, rates, tensor, found, made[at], numbers)
    needs[LB] += 0.0 if in_gb else made_bytes

    matrix, vector, gathered = 0.0, 0.0, 0.0
    for op in range(ops):
        if nest.operators[op, UNIT] == BRINGS:
            first = nest.operators[op, FIRST_WRITE]
            hull(nest, first, boxes[op], found)
            gathered += bytes_of(nest, nest.accesses[first, TENSOR], found)
        elif nest.operators[op, UNIT] == FIRST_MATRIX:
            matrix += parts * (matrix_cycles(nest, op, part) + rates.compute_cycles)
        elif nest.operators[op, UNIT] == MATRIX:
            matrix += matrix_cycles(nest, op, boxes[op]) + rates.compute_cycles
        else:
            vector += vector_cycles(nest, op, boxes[op]) + rates.compute_cycles
        if nest.operators[op, UNIT] >= MATRIX and nest.core[SUMS] and (parts > 1 or not nest.core[ON_TREE]):
            first = nest.operators[op, FIRST_WRITE]
            tensor = nest.accesses[first, TENSOR]
            hull(nest, first, boxes[op], found)
            room = bytes_of(nest, tensor, found)
            if two:
                hull(nest, first, far_boxes[op], other)
                room = _room(nest, tensor, found, other)
            needs[ACCUMULATORS] = max(needs[ACCUMULATORS], 4.0 / nest.tensors[tensor, ELEMENT] * room)

    whole[TILES], whole[CORES], whole[PARTS], whole[GATHERED] = tiles, cores, parts, gathered
    whole[MATRIX_CYCLES], whole[VECTOR_CYCLES] = matrix, vector
    whole[MADE_IN_GB] = made_bytes if in_gb else 0.0
    whole[MISFIT] = -1
    for level in (LB, WEIGHTS, ACCUMULATORS):
        room, whole[NEEDS + level] = place.rooms[level], needs[level]
        if whole[MISFIT] < 0 and room != -np.inf and needs[level] > room:
            whole[MISFIT], whole[NEED] = level, needs[level]
    if whole[MISFIT] < 0 and place.rooms[GB] != -np.inf and place.rooms[GB] < 0:
        whole[MISFIT], whole[NEED] = GB, place.kept
    if parts > 1 and not nest.core[SUMS]:
        whole[MISFIT] = UNSUMMED


@borrowing
def _home(nest: Nest) -> int:
    """Where a core has its operands and results."""
    return nest.core[HOME]


@lending
def _room(nest: Nest, tensor: int, one: np.ndarray, other: np.ndarray) -> float:
    """Bytes of a region that is as long along each axis as the longer of two."""
    size = float(nest.tensors[tensor, ELEMENT])
    for axis in range(nest.tensors[tensor, RANK]):
        size *= max(one[1, axis] - one[0, axis], other[1, axis] - other[0, axis])
    return size


@lending
def _whole_bytes(nest: Nest, tensor: int) -> float:
    size = float(nest.tensors[tensor, ELEMENT])
    for axis in range(nest.tensors[tensor, RANK]):
        size *= nest.places[tensor, axis, SHAPE]
    return size


@lending
def _strides(nest: Nest, rates: Rates, tensor: int, box: np.ndarray, row: np.ndarray, room: np.ndarray) -> None:
    """How much DDR and GB move for each byte when a dense buffer of `box` meets the whole tensor; descriptors.

    `room` is for two rows of as many numbers as the tensor has axes.
    """
    rank = nest.tensors[tensor, RANK]
    extents, shape = room[0], room[1]
    for at in range(rank):
        axis = nest.places[tensor, at, LAYOUT]
        extents[at], shape[at] = box[1, axis] - box[0, axis], nest.places[tensor, axis, SHAPE]
    run, descriptors = _contiguous_runs(extents, shape, extents, float(nest.tensors[tensor, ELEMENT]), rank)
    row[DDR_FACTOR] = up(run, rates.ddr_burst) * rates.ddr_burst / run
    row[GB_FACTOR] = up(run, rates.gb_burst) * rates.gb_burst / run
    row[DESCRIPTORS] = descriptors


@borrowing
def estimate(
    nest: Nest,
    rates: Rates,
    place: Place,
    whole: np.ndarray,
    operands: np.ndarray,
    made: np.ndarray,
    counts: np.ndarray,
    order: np.ndarray,
    resident: np.ndarray,
) -> tuple[float, float, float]:
    """Cycles of a kernel: the slowest engine or memory, plus what the first and last tile cannot hide behind.

    Takes the largest tile for every tile and assumes that a tile's loads hide behind the tile before; the simulator
    assumes neither. `whole`, `operands` and `made` are what `measure` found, `counts` are tiles of a core by dim,
    `resident` is 1 for operands that stay whole in GB. Gives cycles, bytes of DDR, and the bytes of GB that it takes.
    Source: derived in docs/model.md#estimate.
    """
    has_gb = rates.gb > 0
    tiles, cores, parts = whole[TILES], whole[CORES], whole[PARTS]
    ddr = gb = link = 0.0
    dma_copies = mover_copies = staged = first_load = 0.0
    exposed = 0.0  # bytes that come from other cores, after those have made them
    for at in range(len(operands)):
        if place.shares[at, DIRECT]:
            continue
        row = operands[at]
        size, in_gb = row[SIZE], nest.operands[at, WHERE] == IN_GB
        loads, run = 1.0, 1.0
        for dim in order:
            run *= counts[dim]
            if nest.moving[at, dim] and counts[dim] > 1:
                loads = run
        if nest.operands[at, IN_PARTS] and parts > 1:
            loads = tiles * parts
        total, copies = loads * row[DISTINCT] * size, loads * row[DISTINCT]
        from_ddr = place.shares[at, FROM_DDR_SHARE]
        if from_ddr < 1:
            link += loads * size * (1 - from_ddr)
            mover_copies += up(copies * row[DESCRIPTORS], cores)
            gb += total * place.shares[at, FROM_GB_SHARE] * row[GB_FACTOR]
            exposed += size * (1 - from_ddr)
            if in_gb:
                staged += row[SLOTS] * cores * aligned(size)
                gb += total * (1 - from_ddr)
            elif from_ddr > 0 and has_gb:
                staged += row[SLOTS] * row[DISTINCT] * aligned(size)
            ddr += total * from_ddr * row[DDR_FACTOR]
            dma_copies += copies * row[DESCRIPTORS] if from_ddr > 0 else 0.0
            continue
        first_load += size
        if not has_gb:
            ddr += total * row[DDR_FACTOR]
            link += loads * size
            mover_copies += up(copies * row[DESCRIPTORS], cores)
        elif resident[at]:
            staged += aligned(row[WHOLE])
            ddr += row[WHOLE]
            dma_copies += min(16.0, loads)
            gb += row[WHOLE]
            if in_gb:
                continue
            gb += total * row[GB_FACTOR]
            link += loads * size
            mover_copies += up(copies * row[DESCRIPTORS], cores)
        elif in_gb:
            staged += row[SLOTS] * cores * aligned(size)
            ddr += total * row[DDR_FACTOR]
            dma_copies += copies * row[DESCRIPTORS]
            gb += loads * cores * size
        else:
            staged += row[SLOTS] * row[DISTINCT] * aligned(size)
            ddr += total * row[DDR_FACTOR]
            dma_copies += copies * row[DESCRIPTORS]
            gb += total * (1 + row[GB_FACTOR])
            link += loads * size
            mover_copies += up(copies, cores)
    staged += cores * whole[MADE_IN_GB]
    last_store = last_setups = 0.0
    for at in range(len(made)):
        row, stays, in_gb = made[at], place.stays[at, 0], _home(nest) == IN_GB
        if not nest.made[at, IS_RESULT] or stays == LB or (stays == GB and in_gb):
            continue
        if stays == GB:
            link += tiles * row[SIZE]
            gb += tiles * cores * row[SIZE] * row[GB_FACTOR]
            mover_copies += tiles * row[DESCRIPTORS]
            exposed += row[SIZE]
            continue
        last_store += row[SIZE]
        last_setups += cores * row[DESCRIPTORS] if has_gb else 0.0
        ddr += tiles * cores * row[SIZE] * row[DDR_FACTOR]
        if in_gb:
            gb += tiles * cores * row[SIZE] * row[GB_FACTOR]
            dma_copies += tiles * cores * row[DESCRIPTORS]
            continue
        link += tiles * row[SIZE]
        if not has_gb:
            mover_copies += tiles * row[DESCRIPTORS]
            continue
        staged += row[SLOTS] * cores * aligned(row[SIZE])
        gb += tiles * cores * row[SIZE] * (1 + row[GB_FACTOR])
        dma_copies += tiles * cores * row[DESCRIPTORS]
        mover_copies += tiles
    if whole[GATHERED]:
        ddr += tiles * cores * whole[GATHERED]
        if whole[MADE_IN_GB]:
            gb += tiles * cores * whole[GATHERED]
        else:
            link += tiles * whole[GATHERED]

    numerator, denominator = rates.channel if cores == 1 else rates.ddr
    # What the first load and the last store take, and the arithmetic of one tile, is hidden by nothing; nor is what
    # comes from other cores, which have only just made it. An engine or a memory has its own part of that among its
    # total already.
    ddr_rim = (first_load + last_store * cores) * denominator // numerator
    link_rim = np.floor((first_load + last_store + exposed) / rates.link) if link else 0.0
    rim = ddr_rim + link_rim + whole[MATRIX_CYCLES] + whole[VECTOR_CYCLES] + last_setups * rates.dma_cycles
    cycles = max(
        tiles * whole[MATRIX_CYCLES] - whole[MATRIX_CYCLES],
        tiles * whole[VECTOR_CYCLES] - whole[VECTOR_CYCLES],
        np.floor(link / rates.link) + mover_copies * rates.mover_cycles - link_rim,
        # DMA in and out are two engines that share the port of DDR; half of the set-ups fall on each.
        np.floor(ddr / (numerator / denominator)) + np.floor(dma_copies * rates.dma_cycles / 2) - ddr_rim,
        np.floor(gb / rates.gb) if has_gb else 0.0,
    )
    return cycles + rim + rates.launch_cycles, np.floor(ddr), staged

"""The search of tiles under one split over cores, compiled: every tiling that fits, with its estimate."""

from typing import NamedTuple

import numpy as np

from tilestitch.base.jit import borrowing, inner, lending, tiered
from tilestitch.cost.kernel import (
    DESCRIPTORS,
    MATRIX_CYCLES,
    MISFIT,
    NEED,
    NEEDS,
    PARTS,
    TILES,
    VECTOR_CYCLES,
    estimate,
    measure,
)
from tilestitch.cost.place import ACCUMULATORS, GB, LB, MEMORIES, PLAIN, WEIGHTS, Place, Rates
from tilestitch.kernels.boxes import boxes_into, bytes_of, operand_into, part_of
from tilestitch.kernels.nest import (
    ANCHOR,
    ARRAY_DEPTH,
    CUT_BY,
    DIMS,
    END,
    END_TERM,
    EXTENT,
    FIRST_TERM,
    FIRST_WRITE,
    RANK,
    REDUCED,
    TENSOR,
    TENSOR_OF,
    Nest,
)

SIZES_KEPT = 4  # tile sizes tried for one cut of the second operand, from the largest that fits
CYCLES, NUMBER, ORDER = range(3)  # columns of a candidate: estimated cycles, tiles of a core, which order of loops


class Cuts(NamedTuple):
    """Which tiles are tried."""

    piece: np.ndarray  # extents of a core's part, by dim of the sink
    steps: np.ndarray
    blocks: np.ndarray  # see `ir.tiles.Cuts.inside`; 0: none
    grains: np.ndarray  # extents above this are multiples of it; 0: any
    second: np.ndarray  # dims of the second operand, cut first
    others: np.ndarray
    orders: np.ndarray  # of loops, one a row
    pruned: float  # tilings are left out whose arithmetic alone takes this factor more than the best so far; 0: none
    fewest: int  # a part of a reduction with fewer iterations is not halved so that a tile fits; 0: no part is


class Found(NamedTuple):
    """Tilings that fit, one a row of each array; where none does, what the last one lacked.

    With other rooms the same is found as long as all that was found to fit, or not to, still does or does not.
    """

    figures: np.ndarray
    tiles: np.ndarray
    parts: np.ndarray  # extents of a part of the reduction
    resident: np.ndarray  # 1 for operands that stay whole in GB
    level: int  # number of the memory, or -1
    need: float
    tested: np.ndarray  # bytes by level: the most that was found to fit, and the least that was not


@tiered
def search(nest: Nest, rates: Rates, place: Place, cuts: Cuts) -> Found:
    """For each cut of the second operand's dims, the largest tiles that fit, in every order of loops.

    In each, nothing is kept in GB, then each operand kept that saves traffic, one added after another.
    """
    dims, width, count = len(cuts.piece), nest.dims.shape[1], len(nest.operands)
    room = 256
    figures, tiles = np.zeros((room, ORDER + 1)), np.zeros((room, dims), np.int64)
    parts, residents = np.zeros((room, width), np.int64), np.zeros((room, count), np.int64)
    found, level, need, least = 0, -1, 0.0, 0.0
    counts, resident = np.zeros(dims, np.int64), np.zeros(count, np.int64)
    operands, made = np.zeros((count, DESCRIPTORS + 1)), np.zeros((len(nest.made), DESCRIPTORS + 1))
    tested = np.full((MEMORIES, 2), np.inf)
    tested[:, 0] = -np.inf
    _test(tested, GB, 0.0, place.rooms[GB])
    seconds = _halvings(cuts.piece, cuts.second, cuts)
    for first in range(len(seconds)):
        sizes = 0
        choices = _halvings(seconds[first], cuts.others, cuts)
        for choice in range(len(choices)):
            tile = choices[choice]
            if not _is_one_box(nest, tile):
                continue
            cut = _reduction(nest, place, tile, tested)
            whole = measure(nest, rates, place, tile, cut, counts, operands, made)
            _test_all(tested, whole, place)
            while whole[MISFIT] == LB and cuts.fewest and _halve(nest, cut, cuts.fewest):
                whole = measure(nest, rates, place, tile, cut, counts, operands, made)
                _test_all(tested, whole, place)
            busy = whole[TILES] * max(whole[MATRIX_CYCLES], whole[VECTOR_CYCLES])
            if cuts.pruned and least and busy > cuts.pruned * least:
                continue  # no order helps
            if whole[MISFIT] >= 0:
                level, need = int(whole[MISFIT]), whole[NEED]
                continue
            fits = False
            for order in range(len(cuts.orders)):
                for at in range(count):
                    resident[at] = 0
                best_ddr = -1.0  # of what fits in this order so far
                for at in range(-1, count):
                    if at >= 0:
                        if rates.gb == 0:
                            break
                        if not place.shares[at, PLAIN] or not _keep(nest, resident, at, 1):
                            continue
                    cycles, ddr, staged = estimate(
                        nest, rates, place, whole, operands, made, counts, cuts.orders[order], resident
                    )
                    if rates.gb > 0:
                        _test(tested, GB, staged, place.rooms[GB])
                    if rates.gb > 0 and staged > place.rooms[GB]:
                        if at < 0:
                            level, need = GB, staged
                        else:
                            _keep(nest, resident, at, 0)
                        continue
                    if at >= 0 and best_ddr >= 0 and ddr >= best_ddr:
                        _keep(nest, resident, at, 0)
                        continue
                    best_ddr, fits = ddr, True
                    least = cycles if least == 0 else min(least, cycles)
                    if found == room:
                        room *= 2
                        figures, tiles = _longer(figures, room), _longer(tiles, room)
                        parts, residents = _longer(parts, room), _longer(residents, room)
                    figures[found, CYCLES], figures[found, NUMBER] = cycles, whole[TILES] * whole[PARTS]
                    figures[found, ORDER] = order
                    _copy(tile, tiles[found])
                    _copy(cut, parts[found])
                    _copy(resident, residents[found])
                    found += 1
            sizes += fits
            if sizes == SIZES_KEPT:
                break
    return Found(figures[:found], tiles[:found], parts[:found], residents[:found], level, need, tested)


@lending
def _test(tested: np.ndarray, level: int, need: float, room: float) -> None:
    """Note whether something fits at a level."""
    if need <= room:
        tested[level, 0] = max(tested[level, 0], need)
    else:
        tested[level, 1] = min(tested[level, 1], need)


@lending
def _test_all(tested: np.ndarray, whole: np.ndarray, place: Place) -> None:
    """Note whether what was measured fits."""
    for level in (LB, WEIGHTS, ACCUMULATORS):
        _test(tested, level, whole[NEEDS + level], place.rooms[level])


@borrowing
def _copy(source: np.ndarray, target: np.ndarray) -> None:
    for at in range(len(source)):
        target[at] = source[at]


@inner
def _longer(rows: np.ndarray, room: int) -> np.ndarray:
    found = np.zeros((room, rows.shape[1]), rows.dtype)
    for at in range(len(rows)):
        _copy(rows[at], found[at])
    return found


@borrowing
def _keep(nest: Nest, resident: np.ndarray, operand: int, kept: int) -> bool:
    """Keep an operand's tensor in GB, or not; says whether it is the first operand of that tensor."""
    tensor = nest.operands[operand, TENSOR_OF]
    for at in range(operand):
        if nest.operands[at, TENSOR_OF] == tensor:
            return False
    for at in range(len(resident)):
        if nest.operands[at, TENSOR_OF] == tensor:
            resident[at] = kept
    return True


@inner
def _halvings(tile: np.ndarray, dims: np.ndarray, cuts: Cuts) -> np.ndarray:
    """Rows: `tile`, then with extents along `dims` halved one after another, the outermost dim first, down to steps.

    Where there are blocks, the extents go on inside a step, by the largest that divide its block. Extents above a grain
    become multiples of it, as long as they then are less than before.
    """
    steps, blocks, grains = cuts.steps, cuts.blocks, cuts.grains
    count, found = 1, np.zeros((8, len(tile)), np.int64)
    _copy(tile, found[0])
    for dim in dims:
        while True:
            extent = found[count - 1, dim]
            if extent > steps[dim]:
                pieces = -(-extent // steps[dim])
                half = steps[dim] * -(-pieces // 2)
                grain = steps[dim] * -(-grains[dim] // steps[dim])
                round_up = grain * -(-half // grain) if half > grain > 0 else half
                extent = round_up if round_up < extent else half
            elif blocks[dim] and extent > 1:
                extent //= 2
                while blocks[dim] % extent:
                    extent -= 1
            else:
                break
            if count == len(found):
                found = _longer(found, 2 * count)
            _copy(found[count - 1], found[count])
            found[count, dim] = extent
            count += 1
    return found[:count]


@lending
def _is_one_box(nest: Nest, tile: np.ndarray) -> bool:
    """Whether a tile of the sink writes a box; see `ir.tiles.is_one_box`."""
    sink = len(nest.operators) - 1
    for access in range(nest.operators[sink, FIRST_WRITE], nest.operators[sink, END]):
        for axis in range(nest.tensors[nest.accesses[access, TENSOR], RANK]):
            outer = False
            for at in range(nest.axes[access, axis, FIRST_TERM], nest.axes[access, axis, END_TERM]):
                dim = nest.terms[at, 0]
                if outer and tile[dim] < nest.dims[sink, dim, EXTENT]:
                    return False
                outer = outer or tile[dim] > 1
    return True


@tiered
def _reduction(nest: Nest, place: Place, tile: np.ndarray, tested: np.ndarray) -> np.ndarray:
    """The largest parts of the anchor's reduction whose second operand fits half of its area.

    Without accumulators nothing keeps partial sums, so a reduction is one part.
    """
    width, rank = nest.dims.shape[1], nest.places.shape[1]
    cut = np.zeros(width, np.int64)
    anchor, operand = nest.core[ANCHOR], nest.core[CUT_BY]
    if anchor < 0:
        return cut
    for dim in range(width):
        cut[dim] = nest.dims[anchor, dim, EXTENT]
    if operand < 0:
        return cut
    sink = np.zeros((2, width), np.int64)
    for dim in range(len(tile)):
        sink[1, dim] = tile[dim]
    boxes = np.zeros((len(nest.operators), 2, width), np.int64)
    needed, known = np.zeros((len(nest.tensors), 2, rank), np.int64), np.zeros(len(nest.tensors), np.int64)
    one, region = np.empty((2, width), np.int64), np.empty((2, rank), np.int64)
    boxes_into(nest, sink, boxes, needed, known, one, region)
    part, found = np.zeros((2, width), np.int64), np.zeros((2, rank), np.int64)
    while True:
        part_of(nest, boxes, cut, part)
        operand_into(nest, operand, boxes, part, found, region)
        need = 2.0 * bytes_of(nest, nest.operands[operand, TENSOR_OF], found)
        _test(tested, WEIGHTS, need, place.rooms[WEIGHTS])
        if need <= place.rooms[WEIGHTS]:
            return cut
        if not _halve(nest, cut, 2):
            return cut


@borrowing
def _halve(nest: Nest, cut: np.ndarray, least: int) -> bool:
    """Halve the longest dim of a part of the anchor's reduction; False where parts have fewer iterations than least.

    Multiples of the array's depth are kept as long as there are any.
    """
    anchor, depth, longest, size = nest.core[ANCHOR], nest.core[ARRAY_DEPTH], -1, 1
    for dim in range(nest.operators[anchor, DIMS]):
        if nest.dims[anchor, dim, REDUCED]:
            size *= cut[dim]
            if longest < 0 or cut[dim] > cut[longest]:
                longest = dim
    if longest < 0 or size < least:
        return False
    half = -(-cut[longest] // 2)
    cut[longest] = -(-half // depth) * depth if half > depth else half
    return True

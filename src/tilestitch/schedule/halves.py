"""Tiles at the ends of a kernel in two halves, so that it overlaps with the vector work before and behind it."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from tilestitch.base.units import aligned, ceil_div
from tilestitch.cost.kernel import DESCRIPTORS, MADE_IN_GB, NEEDS, estimate, measure
from tilestitch.cost.place import ACCUMULATORS, GB, LB, WEIGHTS, Place, Rates
from tilestitch.hardware.accelerator import Level
from tilestitch.ir.graph import DimKind
from tilestitch.ir.region import Region
from tilestitch.ir.schedule import Halves, Tiling
from tilestitch.ir.tile_rule import TileRule
from tilestitch.ir.tiles import is_one_box, largest_piece, operator_boxes, tiles_of
from tilestitch.kernels.nest import Nest
from tilestitch.kernels.shape import KernelShape
from tilestitch.kernels.surroundings import Surroundings

IN_GB = 3  # of what passes GB once for both halves of its tiles: as many times more room than for one tile beside it


def with_halves(
    shape: KernelShape, tiling: Tiling, rule: TileRule, around: Surroundings, direct: Collection[str]
) -> tuple[Tiling, int]:
    """A tiling with as many tiles in halves as a rule asks for, and what these need of GB.

    The rows are halved: the outermost dim along which the anchor's second operand stays the same. What that operand
    has for tiles in halves comes to GB once. As it was where no dim can be halved, or where what moves along it is not
    among the tensors that cores read where they lie: halves of others would come one after another, again and again.
    """
    box = around.iterations(shape.sink)
    piece = largest_piece(box.extents, tiling.steps, tiling.splits)
    dim = _rows(shape, tiling, piece)
    if dim is None or any(dim in moving and name not in direct for name, moving in shape.movers.items()):
        return tiling, 0
    region = Region.whole(piece)
    tiles = len(tiles_of(region, tiling))
    cycles = _tile_cycles(shape, tiling, box)
    first, last = (min(tiles, ceil_div(2 * wanted, cycles)) for wanted in (rule.first_cycles, rule.last_cycles))
    if first + last >= tiles:
        first, last = tiles, 0
    halved = replace(tiling, halves=Halves(dim, first, last))
    if tiles_of(region, halved) == tiles_of(region, tiling):
        return tiling, 0
    second = None if shape.anchor is None else shape.anchor.reads[1].tensor
    passes = second is not None and second not in around.sources and Level.WEIGHTS in shape.core.levels
    return halved, _second_bytes(shape, tiling, box) * (max(first, last) + IN_GB) if passes else 0


def have_room(
    shape: KernelShape, nest: Nest, rates: Rates, place: Place, tiling: Tiling, tested: np.ndarray
) -> bool:  # fmt: skip
    """Whether the halves of tiles have room where whole tiles have; notes which rooms were `tested`, as `Found` has it.

    A tile that is the only one of a core makes its results in one place, and its halves in two, of the larger half.
    """
    assert tiling.halves is not None, "in halves"
    dim, tile, part = tiling.halves.dim, np.array(tiling.tile), np.array(tiling.reduction, np.int64)
    if any(tile < place.piece):
        return True
    units = ceil_div(int(place.piece[dim]), tiling.steps[dim])
    tile[dim] = place.piece[dim] - tiling.steps[dim] * (units // 2)
    counts = np.zeros(len(tile), np.int64)
    operands, made = np.zeros((len(nest.operands), DESCRIPTORS + 1)), np.zeros((len(nest.made), DESCRIPTORS + 1))
    whole = measure(nest, rates, place, tile, part, counts, operands, made)
    needs = {level: whole[NEEDS + level] for level in (LB, WEIGHTS, ACCUMULATORS)}
    if whole[MADE_IN_GB]:
        resident = np.array([operand.tensor in tiling.resident for operand in shape.operands], np.int64)
        order = np.array(tiling.order)
        needs[GB] = estimate(nest, rates, place, whole, operands, made, counts, order, resident)[2]
    for level, need in needs.items():
        if need <= place.rooms[level]:
            tested[level, 0] = max(tested[level, 0], need)
        else:
            tested[level, 1] = min(tested[level, 1], need)
    return all(need <= place.rooms[level] or place.rooms[level] == -np.inf for level, need in needs.items())


def _rows(shape: KernelShape, tiling: Tiling, piece: Sequence[int]) -> int | None:
    """The dim that is halved; None where there is none."""
    sink = shape.sink
    second = () if shape.anchor is None else shape.movers.get(shape.anchor.reads[1].tensor, ())
    for dim, extent in enumerate(piece):
        if sink.dims[dim].kind is not DimKind.PARALLEL or dim in second or extent < 2 * tiling.steps[dim]:
            continue
        half = [min(one, extent // 2) if at == dim else one for at, one in enumerate(tiling.tile)]
        return dim if is_one_box(sink, half) else None
    return None


def _tile_cycles(shape: KernelShape, tiling: Tiling, box: Region) -> int:
    """Of the busier unit on a tile."""
    boxes = operator_boxes(shape.graph, shape.operators, _tile(tiling, box))
    units = {True: 0, False: 0}
    for op in shape.operators:
        if op.kind != "gather":
            units[op.name in shape.matrix] += shape.cycles(op, boxes[op.name].extents)
    return max(1, *units.values())


def _tile(tiling: Tiling, box: Region) -> Region:
    stop = tuple(
        start + min(tile, extent) for start, tile, extent in zip(box.start, tiling.tile, box.extents, strict=True)
    )
    return Region(box.start, stop)


def _second_bytes(shape: KernelShape, tiling: Tiling, box: Region) -> int:
    """What a tile needs of the anchor's second operand."""
    assert shape.anchor is not None, "who has a second operand"
    boxes = operator_boxes(shape.graph, shape.operators, _tile(tiling, box))
    read = shape.anchor.reads[1]
    region = shape.graph.read_region(read, boxes[shape.anchor.name])
    return aligned(shape.graph.tensors[read.tensor].bytes_of(region))

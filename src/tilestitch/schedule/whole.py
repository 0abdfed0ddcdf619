"""Constants that pass GB as a whole, in a few transfers instead of one for each part that a tile needs."""

from typing import NamedTuple

import numpy as np

from tilestitch.base.units import ceil_div
from tilestitch.cost.kernel import DESCRIPTORS, SIZE, WHOLE, estimate, measure
from tilestitch.cost.place import GB, PLAIN, Place, Rates
from tilestitch.ir.transfers import whole_transfers
from tilestitch.kernels.nest import Nest
from tilestitch.kernels.shape import KernelShape


class Tiled(NamedTuple):
    """A tiling as arrays: extents of tiles and of parts of the reduction, loops in order, 1 for what GB holds whole."""

    tile: np.ndarray
    part: np.ndarray
    order: np.ndarray
    resident: np.ndarray


def with_whole_constants(
    shape: KernelShape, nest: Nest, rates: Rates, place: Place, tiled: Tiled, tested: np.ndarray
) -> tuple[np.ndarray, int]:
    """What GB holds whole with such constants added, one after another as far as there is room, and estimated cycles.

    Those are added that then come in fewer bytes from DDR, or in as many and fewer transfers than they have parts.
    Notes which rooms of GB were `tested`, as `search.Found` has them.
    """
    count = len(nest.operands)
    counts = np.zeros(len(place.extents), np.int64)
    operands, made = np.zeros((count, DESCRIPTORS + 1)), np.zeros((len(nest.made), DESCRIPTORS + 1))
    whole = measure(nest, rates, place, tiled.tile, tiled.part, counts, operands, made)

    def figures(resident: np.ndarray) -> tuple[float, float, float]:
        return estimate(nest, rates, place, whole, operands, made, counts, tiled.order, resident)

    found = tiled.resident.copy()
    cycles, ddr, _ = figures(found)
    for at, operand in enumerate(shape.operands):
        size_bytes, part_bytes = int(operands[at, WHOLE]), max(1, int(operands[at, SIZE]))
        fewer = whole_transfers(size_bytes) < ceil_div(size_bytes, part_bytes)
        if found[at] or not place.shares[at, PLAIN] or operand.tensor not in shape.graph.constants:
            continue
        more = found.copy()
        more[[number for number, other in enumerate(shape.operands) if other.tensor == operand.tensor]] = 1
        then, bytes_then, need = figures(more)
        if bytes_then > ddr or (bytes_then == ddr and not fewer):
            continue
        if need <= place.rooms[GB]:
            tested[GB, 0] = max(tested[GB, 0], need)
            found, cycles, ddr = more, then, bytes_then
        else:
            tested[GB, 1] = min(tested[GB, 1], need)
    return found, int(cycles)

"""Which tiles of the scratchpad fit, and what they move at least: tables of exact tiles, and a count of tilings."""

import numpy as np

from tilestitch.base.arrays import copy_row
from tilestitch.base.jit import inner, tiered
from tilestitch.mapping.bounds import traffic
from tilestitch.mapping.parts import transfer, words_of
from tilestitch.mapping.space import Space
from tilestitch.mapping.tables import BITS, ROOM, ROOM_OF_PARTS, MachineTable, NestTable


@inner
def register_factors(space: Space, extent: int, left: int) -> tuple[int, int]:
    """Where a loop's factors for the register file begin and end.

    Exact ones divide what space leaves. A ragged one matters by the passes and by the slices that it leaves, so all
    are there that leave another number of slices of the whole loop; docs/mapping.md proves that no other is better.
    """
    row = space.row[extent if space.ragged else left]
    end = space.first[row + 1]
    while space.items[end - 1] > left:
        end -= 1
    return int(space.first[row]), int(end)


@tiered
def register_bytes(nest: NestTable, rf: np.ndarray) -> float:
    """Bytes of one element's register file."""
    found = 0.0
    for k in range(len(nest.operands)):
        found += np.ceil(words_of(nest, k, rf) * nest.operands[k, BITS] / 8)
    return found


@tiered
def scratchpad_bytes(nest: NestTable, machine: MachineTable, tile: np.ndarray) -> float:
    """Bytes of a tile in the scratchpad, 0 where it does not fit."""
    banks = found = 0.0
    bits, written = ROOM, len(nest.operands) - 1
    for i in range(len(nest.extents)):
        if tile[i] < nest.extents[i] and nest.indexed[written, i] == 0:
            bits = ROOM_OF_PARTS
    for k in range(len(nest.operands)):
        size = np.ceil(words_of(nest, k, tile) * nest.operands[k, bits] / 8)
        banks += np.ceil(size / machine.bank_bytes)
        found += size
    return found if banks <= machine.banks and found <= machine.banks * machine.bank_bytes else 0.0


@tiered
def fitting_tiles(
    nest: NestTable, machine: MachineTable, space: Space, sizes: np.ndarray, divisors: np.ndarray
) -> None:
    """Fill what a space knows about tiles of the scratchpad."""
    loops, radix = len(space.radix), space.radix
    tile = np.empty(loops, np.int64)
    written = len(nest.operands) - 1
    below, busy, brought = space.below, space.busy, space.brought
    dram, moved = np.empty(loops, np.int64), np.empty((written + 1, 2))
    figures = np.empty(2)
    for place in range(len(below)):
        allowed, outer = True, 0
        for i in range(loops):
            tile[i] = divisors[i, place // radix[i] % sizes[i]]
            dram[i] = nest.extents[i] // tile[i]
            allowed = allowed and dram[i] <= space.dram_most[i]
            if dram[i] > 1:
                outer |= 1 << i
        room = scratchpad_bytes(nest, machine, tile)
        below[place] = allowed and room > 0 and room >= space.least_scratchpad
        busy[place] = brought[place] = np.inf
        if below[place]:
            transfer(nest, machine, space.published, tile, dram, moved)
            for order in range(space.outer_first[outer], space.outer_first[outer + 1]):
                traffic(nest, machine, space.published, space.outer_runs, order, space.compulsory, dram, moved, figures)
                busy[place] = min(busy[place], figures[0])
                brought[place] = min(brought[place], figures[1])
    copy_row(space.least_busy, busy)
    copy_row(space.least_brought, brought)
    for i in range(loops):
        for place in range(len(below)):
            mine = place // radix[i] % sizes[i]
            found = 0
            for other in range(mine, sizes[i]):
                if divisors[i, other] % divisors[i, mine] == 0:
                    there = place + (other - mine) * radix[i]
                    found += below[there]
                    space.least_busy[place] = min(space.least_busy[place], space.least_busy[there])
                    space.least_brought[place] = min(space.least_brought[place], space.least_brought[there])
            below[place] = found


@tiered
def count_tilings(nest: NestTable, machine: MachineTable, space: Space, spatials: np.ndarray) -> int:
    """Tilings with these spatial factors that fit, without looking at their time or energy."""
    loops = len(nest.extents)
    rf, left = np.ones(loops, np.int64), np.empty(loops, np.int64)
    at, end = np.zeros(loops, np.int64), np.zeros(loops, np.int64)
    total = 0
    for number in range(len(spatials)):
        spatial = spatials[number]
        for i in range(loops):
            left[i] = nest.extents[i] // spatial[i]
            rf[i] = 1
            row = space.row[left[i]]
            at[i], end[i] = space.first[row], space.first[row + 1]
        depth, fresh = loops - 1, True
        while True:
            if not fresh:
                while depth >= 0:
                    at[depth] += 1
                    if at[depth] < end[depth]:
                        rf[depth] = space.items[at[depth]]
                        if register_bytes(space.held, rf) <= machine.register_bytes:
                            break
                    at[depth] = space.first[space.row[left[depth]]]
                    rf[depth] = 1
                    depth -= 1
                if depth < 0:
                    break
            elif register_bytes(space.held, rf) > machine.register_bytes:
                break
            fresh = False
            depth = loops - 1
            if register_bytes(space.held, rf) < space.least_registers:
                continue
            place = 0
            for i in range(loops):
                place += space.radix[i] * space.place[i, rf[i] * spatial[i]]
            total += space.below[place]
    return total

"""Latency of a mapping in published mode: dMazeRunner's (TECS 2019) to the digit, as its released code computes."""

import numpy as np

from tilestitch.base.jit import inner, tiered
from tilestitch.mapping.parts import CYCLES
from tilestitch.mapping.tables import NETWORK, NestTable, Pass, Tiles
from tilestitch.mapping.timing import ALL, MEMORY, SCRATCHPAD


@tiered
def tile_cycles(nest: NestTable, work: Pass, passes: int, reuse: np.ndarray, skipped: np.ndarray) -> tuple[int, int]:
    """Cycles while one tile is in the scratchpad, and of them the networks' in a pass with all that moves every pass.

    `reuse` is in how many passes in a row an operand stays in
    the register files, `skipped` 1 where it stays in them for several tiles of the scratchpad. What is read comes while
    the array computes; taking results and adding their partial sums holds the array up. Source:
    section 4 of dMazeRunner (TECS 2019) and its released code, which differ: the paper has no such stall.
    """
    written = len(nest.operands) - 1
    compute, sums, exchanged = work.compute, work.sums, work.exchanged
    held = compute
    cycles = compute * passes
    if not skipped[written] and reuse[written] == 1:
        held = cycles = 0
    every_pass = 0
    last = 0
    while True:
        each = 0
        for k in range(written + 1):
            if not skipped[k] and reuse[k] > last and (each == 0 or reuse[k] < each):
                each = reuse[k]
        if each == 0:
            return cycles, every_pass
        busiest = 0
        for network in range(3):
            busy = 0
            for k in range(written + 1):
                if not skipped[k] and reuse[k] <= each and nest.operands[k, NETWORK] == network:
                    busy += int(exchanged[k, CYCLES])
            busiest = max(busiest, busy)
        if each == 1:
            every_pass = busiest
        if busiest > held:
            cycles += (busiest - held) * passes // each
            held = busiest
        if not skipped[written] and reuse[written] == each:
            cycles += (compute + sums) * passes // each
        last = each


@inner
def published_cycles(
    nest: NestTable,
    work: Pass,
    tiles: Tiles,
    stays: np.ndarray,
) -> int:
    """Cycles of all tiles of the scratchpad; begins and ends for free. `stays` as `timing` has it."""
    operands = len(nest.operands)
    written = operands - 1
    moved = tiles.moved
    spm_reuse, dram_reuse = stays[SCRATCHPAD, :operands, ALL], stays[MEMORY, :operands, ALL]
    skipped = np.zeros(operands, np.int64)
    for k in range(operands):
        skipped[k] = dram_reuse[k] > 1 and spm_reuse[k] == tiles.passes
    inside, every_pass = tile_cycles(nest, work, tiles.passes, spm_reuse, skipped)

    # DMA of a tile in which everything moves that moves at least every `each` tiles.
    always = 0
    for k in range(operands):
        if dram_reuse[k] == 1:
            always += int(moved[k, CYCLES]) * (2 if k == written else 1)
    one = max(always, inside)
    time = one * tiles.tiles
    loads, last, first, second = always, 1, one, one
    while True:
        each = 0
        for k in range(operands):
            if dram_reuse[k] > last and (each == 0 or dram_reuse[k] < each):
                each = dram_reuse[k]
        if each == 0:
            break
        before = loads
        stored = 0
        early, late = inside, inside
        for k in range(operands):
            if dram_reuse[k] == each:
                if k == written:
                    stored += int(moved[k, CYCLES])
                loads += int(moved[k, CYCLES])
                if skipped[k]:
                    late = max(late, inside + max(0, int(work.exchanged[k, CYCLES]) - every_pass))
                    if k == written:
                        early += work.sums + work.compute
        grown_first, grown_second = max(loads, early, first), max(before + stored, late, second)
        time += (grown_first - first + grown_second - second) * (tiles.tiles // each)
        first, second, last = grown_first, grown_second, each
    return time

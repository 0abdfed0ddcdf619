"""Time and energy of a mapping, put together from its parts.

Two modes. `published` is dMazeRunner (TECS 2019) to the digit, as its released code computes. The default mode charges
besides what that forgets: docs/mapping.md lists each difference with its effect.
"""

import numpy as np

from tilestitch.compiled import compiled
from tilestitch.mapping.parts import CYCLES, DELIVERED, SHARED, WORDS
from tilestitch.mapping.tables import BITS, NETWORK, MachineTable, NestTable

# Columns of a price: cycles, picojoules in all, then by component.
TIME, ENERGY, MAC, RF, NOC, SPM, DRAM, PRICED = range(8)
# Columns of how often an operand goes, by operand.
EXCHANGES, LOADS, STORES = range(3)


@compiled
def pass_cycles(
    nest: NestTable, exchanged: np.ndarray, sums: int, compute: int, passes: int, reuse: np.ndarray, skipped: np.ndarray
) -> tuple[int, int]:
    """Cycles while one tile is in the scratchpad, and of them the networks' in a pass with all that moves every pass.

    `passes` of the register files, each of `compute` cycles. `reuse` is in how many passes in a row an operand stays in
    the register files, `skipped` 1 where it stays in them for several tiles of the scratchpad. What is read comes while
    the array computes; taking results and their partial sums together (`sums` cycles) holds the array up. Source:
    section 4 of dMazeRunner (TECS 2019) and its released code, which differ: the paper has no such stall.
    """
    written = len(nest.operands) - 1
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


@compiled
def combine(
    nest: NestTable,
    machine: MachineTable,
    published: bool,
    compute: int,
    passes: int,
    tiles: int,
    exchanged: np.ndarray,
    sums: int,
    hops: float,
    moved: np.ndarray,
    spm_reuse: np.ndarray,
    dram_reuse: np.ndarray,
    exchanges: np.ndarray,
    first_passes: float,
    first_tiles: float,
    price: np.ndarray,
    counts: np.ndarray,
) -> None:
    """Fill `price` and `counts` for `tiles` of the scratchpad with `passes` of the register files each.

    `exchanges` is how often an operand is exchanged in all unless it is skipped, `first_passes` how many different
    tiles of the result the register files see, `first_tiles` how many the scratchpad does.
    """
    operands = len(nest.operands)
    written = operands - 1
    skipped = np.zeros(operands, np.int64)
    for k in range(operands):
        skipped[k] = dram_reuse[k] > 1 and spm_reuse[k] == passes
    inside, every_pass = pass_cycles(nest, exchanged, sums, compute, passes, spm_reuse, skipped)

    # DMA of a tile in which everything moves that moves at least every `each` tiles.
    comes_back = published or tiles // dram_reuse[written] > first_tiles
    returns = 2 if dram_reuse[written] == 1 and comes_back else 1
    always = 0
    for k in range(operands):
        if dram_reuse[k] == 1:
            always += int(moved[k, CYCLES]) * (returns if k == written else 1)
    one = max(always, inside)
    time = one * tiles
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
                if k < written or comes_back:
                    loads += int(moved[k, CYCLES])
                if skipped[k]:
                    late = max(late, inside + max(0, int(exchanged[k, CYCLES]) - every_pass))
                    if k == written:
                        early += sums + compute
        grown_first, grown_second = max(loads, early, first), max(before + stored, late, second)
        time += (grown_first - first + grown_second - second) * (tiles // each)
        first, second, last = grown_first, grown_second, each

    macs = 1.0
    for extent in nest.extents:
        macs *= extent
    touched = 0.0
    for k in range(operands):
        touched += nest.operands[k, BITS] / 8 * (2 if k == written else 1)
    mac, rf, noc, spm, dram = macs * machine.mac_pj, macs * touched * machine.register_pj, 0.0, 0.0, 0.0
    for k in range(operands):
        size = nest.operands[k, BITS] / 8
        visits = exchanges[k] if not skipped[k] else float(tiles // dram_reuse[k])
        moves = visits
        if k == written:
            if not published:
                moves = 2 * visits - first_passes  # the first of each result brings zeros
            elif not skipped[k]:
                moves = 2 * visits
        counts[k, EXCHANGES] = moves
        noc += moves * exchanged[k, DELIVERED] * size * machine.network_pj
        spm += moves * exchanged[k, SHARED] * size * machine.scratchpad_pj
        if not published:
            rf += moves * exchanged[k, DELIVERED] * size * machine.register_pj
        if k == written:
            rf += visits * hops * (3 * size * machine.register_pj)
            noc += visits * hops * (size * machine.network_pj)
            mac += visits * hops * machine.mac_pj
        changes = float(tiles // dram_reuse[k])
        counts[k, LOADS] = changes if k < written else changes - first_tiles
        counts[k, STORES] = 0.0 if k < written else changes
        transfers = (counts[k, LOADS] + counts[k, STORES]) * moved[k, WORDS] * size
        dram += transfers * machine.dram_pj
        if not published:
            spm += transfers * machine.scratchpad_pj
    if not published:
        # Nothing is there for the first tile and the first pass to work on, and the last result is still to be taken.
        first_load, first_fill = 0, 0
        for k in range(written):
            first_load += int(moved[k, CYCLES])
            first_fill = max(first_fill, int(exchanged[k, CYCLES]))
        time += first_load + first_fill + int(moved[written, CYCLES])
    price[TIME], price[MAC], price[RF], price[NOC], price[SPM], price[DRAM] = time, mac, rf, noc, spm, dram
    # A thousandth is less than any energy that is published, and hides in which order the parts were added.
    energy = mac + rf + noc + spm + dram
    price[ENERGY] = np.rint(energy) if published else np.rint(energy * 1000) / 1000


@compiled
def reuse_of(nest: NestTable, factors: np.ndarray, order: np.ndarray, reuse: np.ndarray, run: np.ndarray) -> None:
    """In how many iterations of a level's loops in a row an operand stays the same, and the loops of that run.

    From the innermost loop outwards until one that moves the operand; loops of one iteration do nothing. Source:
    section 4.1 of dMazeRunner (TECS 2019).
    """
    for k in range(len(nest.operands)):
        reuse[k] = 1
        run[k, :] = 0
        for at in range(len(order) - 1, -1, -1):
            loop = order[at]
            if factors[loop] > 1:
                if nest.indexed[k, loop]:
                    break
                reuse[k] *= factors[loop]
                run[k, loop] = 1


@compiled
def exchanges_of(nest: NestTable, pass_tile: np.ndarray, dram: np.ndarray, run: np.ndarray, found: np.ndarray) -> None:
    """How often each operand goes to or from the register files, unless it stays over tiles of the scratchpad."""
    for k in range(len(nest.operands)):
        found[k] = 1.0
        for i in range(len(nest.extents)):
            found[k] *= dram[i] if run[k, i] else -(-nest.extents[i] // pass_tile[i])

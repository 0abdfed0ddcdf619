"""Time and energy of a mapping, put together from its parts.

Two modes. `published` is dMazeRunner (TECS 2019) to the digit, as its released code computes. The default mode charges
besides what that forgets: docs/mapping.md lists each difference with its effect.
"""

import numpy as np

from tilestitch.base.jit import inner
from tilestitch.mapping.parts import DELIVERED, SHARED, WORDS
from tilestitch.mapping.published import published_cycles
from tilestitch.mapping.tables import BITS, MachineTable, NestTable, Pass, Tiles
from tilestitch.mapping.timing import ALL, MEMORY, OF_RESULT, SCRATCHPAD, layer_cycles

# Columns of a price: cycles, picojoules in all, then by component.
TIME, ENERGY, MAC, RF, NOC, SPM, DRAM, PRICED = range(8)
# Columns of how often an operand goes, by operand.
EXCHANGES, LOADS, STORES = range(3)


@inner
def combine(
    nest: NestTable,
    machine: MachineTable,
    published: bool,
    work: Pass,
    tiles: Tiles,
    stays: np.ndarray,
    exchanges: np.ndarray,
    price: np.ndarray,
    counts: np.ndarray,
) -> None:
    """Fill `price` and `counts` for all tiles of the scratchpad.

    `stays` is how long each operand stays, as `timing` has it; `exchanges` how often it is exchanged in all unless it
    is skipped.
    """
    operands = len(nest.operands)
    written = operands - 1
    if published:
        time = published_cycles(nest, work, tiles, stays)
    else:
        time = layer_cycles(nest, machine, work, tiles, stays)
    exchanged, hops = work.exchanged, work.hops
    macs = 1.0
    for extent in nest.extents:
        macs *= extent
    touched = 0.0
    for k in range(operands):
        touched += nest.operands[k, BITS] / 8 * (2 if k == written else 1)
    mac, rf, noc, spm, dram = macs * machine.mac_pj, macs * touched * machine.register_pj, 0.0, 0.0, 0.0
    for k in range(operands):
        size = nest.operands[k, BITS] / 8
        changes = float(tiles.tiles // stays[MEMORY, k, ALL])
        skipped = stays[MEMORY, k, ALL] > 1 and stays[SCRATCHPAD, k, ALL] == tiles.passes
        visits = changes if skipped else exchanges[k]
        moves = visits
        if k == written:
            if not published:
                moves = 2 * visits - tiles.first_passes  # the first of each result brings zeros
            elif not skipped:
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
        counts[k, LOADS] = changes if k < written else changes - tiles.first_tiles
        counts[k, STORES] = 0.0 if k < written else changes
        transfers = (counts[k, LOADS] + counts[k, STORES]) * tiles.moved[k, WORDS] * size
        dram += transfers * machine.dram_pj
        if not published:
            spm += transfers * machine.scratchpad_pj
    price[TIME], price[MAC], price[RF], price[NOC], price[SPM], price[DRAM] = time, mac, rf, noc, spm, dram
    # A thousandth is less than any energy that is published, and hides in which order the parts were added.
    energy = mac + rf + noc + spm + dram
    price[ENERGY] = np.rint(energy) if published else np.rint(energy * 1000) / 1000


@inner
def runs_of(nest: NestTable, factors: np.ndarray, order: np.ndarray, runs: np.ndarray, stays: np.ndarray) -> None:
    """How long operands stay while a level's loops run, as `timing` has it, and 1 for each loop of these runs.

    From the innermost loop outwards until one that moves the operand, or for the last row until one that leaves the
    result alone; loops of one iteration do nothing. Source: section 4.1 of dMazeRunner (TECS 2019).
    """
    operands = len(nest.operands)
    for k in range(operands + 1):
        stays[k, :] = 1
        runs[k, :] = 0
        for at in range(len(order) - 1, -1, -1):
            loop = order[at]
            if factors[loop] > 1:
                of_result = nest.indexed[operands - 1, loop] != 0
                if (not of_result) if k == operands else nest.indexed[k, loop] != 0:
                    break
                runs[k, loop] = 1
                stays[k, ALL] *= factors[loop]
                if of_result:
                    stays[k, OF_RESULT] *= factors[loop]


@inner
def exchanges_of(nest: NestTable, pass_tile: np.ndarray, dram: np.ndarray, runs: np.ndarray, found: np.ndarray) -> None:
    """How often each operand goes to or from the register files, unless it stays over tiles of the scratchpad."""
    for k in range(len(nest.operands)):
        found[k] = 1.0
        for i in range(len(nest.extents)):
            found[k] *= dram[i] if runs[k, i] else -(-nest.extents[i] // pass_tile[i])

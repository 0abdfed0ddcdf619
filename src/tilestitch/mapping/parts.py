"""What one pass of the register files exchanges, and what one tile of the scratchpad moves: the parts of a price.

Arrays go by operand, those that are read before the one that is written; sizes are words of that operand.
"""

import numpy as np

from tilestitch.base.jit import inner, tiered
from tilestitch.mapping.tables import (
    BITS,
    DECLARED,
    END_AXIS,
    END_TERM,
    FIRST_AXIS,
    FIRST_TERM,
    NETWORK,
    SERIAL,
    TREE,
    MachineTable,
    NestTable,
)

# Columns of what is exchanged, by operand.
CYCLES, DELIVERED, SHARED = range(3)  # of its network; words to or from elements; words of the scratchpad
# Columns of what is moved, by operand; CYCLES before it.
WORDS = 1
SUM_NETWORK = 3


@tiered
def words_of(nest: NestTable, operand: int, tile: np.ndarray) -> float:
    """Words that a tile of so many (or on average so many) iterations of each loop touches."""
    words = 1.0
    for axis in range(nest.operands[operand, FIRST_AXIS], nest.operands[operand, END_AXIS]):
        extent = 1.0
        for term in range(nest.axes[axis, FIRST_TERM], nest.axes[axis, END_TERM]):
            extent += nest.terms[term, 1] * (tile[nest.terms[term, 0]] - 1)
        words *= extent
    return words


@tiered
def fits(
    nest: NestTable, machine: MachineTable, rf: np.ndarray, spatial: np.ndarray, scratchpad: np.ndarray
) -> tuple[int, float]:
    """Which limit a tiling breaks (0: none, 1: elements, 2: register file, 3: banks, 4: scratchpad), and its need.

    `scratchpad` is the tile that it holds. Source: dMazeRunner (TECS 2019), as its released code checks mappings.
    """
    elements = 1.0
    for one in spatial:
        elements *= one
    if elements > machine.elements:
        return 1, elements
    registers = banks = room = 0.0
    for k in range(len(nest.operands)):
        registers += np.ceil(words_of(nest, k, rf) * nest.operands[k, BITS] / 8)
        size = np.ceil(words_of(nest, k, scratchpad) * nest.operands[k, BITS] / 8)
        banks += np.ceil(size / machine.bank_bytes)
        room += size
    if registers > machine.register_bytes:
        return 2, registers
    if banks > machine.banks:
        return 3, banks
    if room > machine.banks * machine.bank_bytes:
        return 4, room
    return 0, 0.0


@inner
def network_cycles(machine: MachineTable, network: int, words: float, bits: int) -> int:
    """Cycles of so many words on a network."""
    rate = machine.rates[network]
    size = int(words) * bits * rate[1]
    return -(-size // (8 * rate[0]))


@inner
def exchange(
    nest: NestTable,
    machine: MachineTable,
    published: bool,
    rf: np.ndarray,
    spatial: np.ndarray,
    exchanged: np.ndarray,
) -> tuple[int, float]:
    """What one pass of the register files brings or takes, by operand; cycles and words of partial sums.

    A word that several elements need goes over its network once, where there is multicast; neighbours that read
    overlapping windows share words. Partial sums of elements that work on the same result go from element to element:
    all on one network (serial), each result on its own (chain), or in pairs (tree); in default mode every hop takes an
    addition at least. Source: facts of dMazeRunner's released code for the serial network with multicast; the others
    follow from their description.
    """
    loops, written = len(nest.extents), len(nest.operands) - 1
    pass_tile = np.empty(loops)
    for i in range(loops):
        pass_tile[i] = rf[i] * spatial[i]
    for k in range(written + 1):
        delivered = words_of(nest, k, rf)
        for i in range(loops):
            if k < written or nest.indexed[k, i]:
                delivered *= spatial[i]
        shared = words_of(nest, k, pass_tile) if machine.multicast or k == written else delivered
        exchanged[k, CYCLES] = network_cycles(machine, nest.operands[k, NETWORK], shared, nest.operands[k, BITS])
        exchanged[k, DELIVERED] = delivered
        exchanged[k, SHARED] = shared
    together = apart = 1
    for i in range(loops):
        if nest.indexed[written, i]:
            apart *= spatial[i]
        else:
            together *= spatial[i]
    own = words_of(nest, written, rf)
    hops = own * (together - 1) * apart
    rounds = together - 1
    if machine.reduction == TREE:
        rounds = 0
        while 1 << rounds < together:
            rounds += 1
    steps = hops if machine.reduction == SERIAL else own * rounds
    sums = network_cycles(machine, SUM_NETWORK, steps, nest.operands[written, BITS])
    return sums if published else max(sums, rounds * machine.adder_stages), hops


@inner
def mean_exchange(
    nest: NestTable, rf: np.ndarray, spatial: np.ndarray, multicast: bool, exchanged: np.ndarray
) -> float:
    """Words of an average pass where last tiles are smaller, in the place of those of a whole one; sums' hops.

    Exact: sizes are products over axes of sums over loops, and the extents of a loop's tiles add up to the loop.
    """
    loops, written = len(nest.extents), len(nest.operands) - 1
    tile, own, active = np.empty(loops), np.empty(loops), np.empty(loops)
    for i in range(loops):
        passes = -(-nest.extents[i] // (rf[i] * spatial[i]))
        slices = -(-nest.extents[i] // rf[i])
        tile[i], own[i], active[i] = nest.extents[i] / passes, nest.extents[i] / slices, slices / passes
    together = apart = 1.0
    for i in range(loops):
        if nest.indexed[written, i]:
            apart *= active[i]
        else:
            together *= active[i]
    for k in range(written + 1):
        delivered = words_of(nest, k, own)
        for i in range(loops):
            if k < written or nest.indexed[k, i]:
                delivered *= active[i]
        exchanged[k, DELIVERED] = delivered
        exchanged[k, SHARED] = words_of(nest, k, tile) if multicast or k == written else delivered
    return words_of(nest, written, own) * (together - 1) * apart


@tiered
def transfer(
    nest: NestTable, machine: MachineTable, published: bool, scratchpad: np.ndarray, dram: np.ndarray, moved: np.ndarray
) -> None:
    """Cycles and words of bringing each operand's tile of the scratchpad, one start-up a contiguous run or descriptor.

    With `published` as the released code of dMazeRunner counts: where an input in memory is larger than what is read,
    it takes the extents of a tile from the address of its last element in an array of the size that is read, decoded by
    the size that is declared; wrong, but equal where both sizes are. Where tiles are ragged, words are those of an
    average tile.
    """
    loops = len(nest.extents)
    mean = np.empty(loops)
    for i in range(loops):
        mean[i] = nest.extents[i] / dram[i]
    for k in range(len(nest.operands)):
        first, end = nest.operands[k, FIRST_AXIS], nest.operands[k, END_AXIS]
        address = 0
        for axis in range(first, end):
            extent = read = 1
            for term in range(nest.axes[axis, FIRST_TERM], nest.axes[axis, END_TERM]):
                loop, step = nest.terms[term, 0], nest.terms[term, 1]
                extent += step * (scratchpad[loop] - 1)
                read += step * (nest.extents[loop] - 1)
            address = address * read + extent - 1
        words, runs, contiguous = 1, 1, True
        descriptors, loops_outside = 1, 0
        for axis in range(end - 1, first - 1, -1):
            declared = nest.axes[axis, DECLARED]
            if published:
                extent = address % declared + 1
                address //= declared
            else:
                extent = 1
                for term in range(nest.axes[axis, FIRST_TERM], nest.axes[axis, END_TERM]):
                    extent += nest.terms[term, 1] * (scratchpad[nest.terms[term, 0]] - 1)
            if contiguous:
                words *= extent
                contiguous = extent == declared
            else:
                runs *= extent
                loops_outside += extent > 1
                if loops_outside > machine.strides:
                    descriptors *= extent
        size = -(-words * nest.operands[k, BITS] // 8)
        size = -(-size // machine.burst_bytes) * machine.burst_bytes
        if machine.strides > 0:
            whole = machine.setup * descriptors + machine.per_byte * size * runs
            moved[k, CYCLES] = -(-whole // machine.parts)
        else:
            rounds = -(-runs // machine.channels)
            moved[k, CYCLES] = rounds * -(-(machine.setup + machine.per_byte * size) // machine.parts)
        moved[k, WORDS] = runs * words if published else words_of(nest, k, mean)

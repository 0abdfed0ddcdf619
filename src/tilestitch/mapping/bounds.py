"""What no mapping of a part of the space goes below, and how that compares with the best that is known."""

import numpy as np

from tilestitch.base.arrays import copy_row
from tilestitch.base.jit import inner, tiered
from tilestitch.mapping.parts import CYCLES, DELIVERED, SHARED, WORDS
from tilestitch.mapping.space import Space
from tilestitch.mapping.tables import BITS, DOUBLE, MachineTable, NestTable, Pass
from tilestitch.mapping.timing import ends_cycles, no_pass, slot_cycles

EDP, LEAST_ENERGY, LEAST_LATENCY, PARETO, ED2P = range(5)
SLACK = 1e-9  # of energies in bounds, for sums in another order


@tiered
def worse(objective: int, time: float, energy: float, best: np.ndarray, known: int, room: int) -> bool:
    """Whether something of at least this time and energy is not among the best that are known.

    `best` are rows of time and energy, ascending in what is searched for; of a front, in time.
    """
    if objective == PARETO:
        low, high = 0, known
        while low < high:
            middle = (low + high) // 2
            if best[middle, 0] <= time:
                low = middle + 1
            else:
                high = middle
        return low > 0 and best[low - 1, 1] <= energy
    if known < room:
        return False
    return not before(objective, time, energy, best[room - 1, 0], best[room - 1, 1])


@tiered
def before(objective: int, time: float, energy: float, other_time: float, other_energy: float) -> bool:
    """Whether the first is better."""
    if objective == LEAST_LATENCY:
        return time < other_time or (time == other_time and energy < other_energy)
    if objective == LEAST_ENERGY:
        return energy < other_energy or (energy == other_energy and time < other_time)
    if objective == ED2P:
        return time * time * energy < other_time * other_time * other_energy
    return time * energy < other_time * other_energy


@tiered
def keep(
    objective: int,
    time: float,
    energy: float,
    best: np.ndarray,
    kept: np.ndarray,
    chosen: np.ndarray,
    known: int,
    room: int,
) -> int:
    """Put something that is not worse in its place; how many are known now. On a front, it drives out what it beats."""
    at = known
    if objective == PARETO:
        at = 0
        while at < known and best[at, 0] < time:
            at += 1
        end = at
        while end < known and best[end, 1] >= energy:
            end += 1
        if end > at:
            for row in range(end, known):
                copy_row(best[row - (end - at) + 1], best[row])
                copy_row(kept[row - (end - at) + 1], kept[row])
            known -= end - at - 1
        else:
            if known == room:
                return -1
            for row in range(known, at, -1):
                copy_row(best[row], best[row - 1])
                copy_row(kept[row], kept[row - 1])
            known += 1
    else:
        at = min(known, room - 1)
        while at > 0 and before(objective, time, energy, best[at - 1, 0], best[at - 1, 1]):
            copy_row(best[at], best[at - 1])
            copy_row(kept[at], kept[at - 1])
            at -= 1
        known = min(known + 1, room)
    best[at, 0], best[at, 1] = time, energy
    copy_row(kept[at], chosen)
    return known


@inner
def fixed_energy(nest: NestTable, machine: MachineTable, space: Space) -> float:
    """Energy of all arithmetic, and of bringing what DRAM must move."""
    energy = arithmetic_energy(nest, machine)
    for k in range(len(nest.operands)):
        energy += space.compulsory[k] * nest.operands[k, BITS] / 8 * moving_pj(machine, space.published)
    return energy * (1 - SLACK) - 0.5  # a published energy is rounded


@inner
def moving_pj(machine: MachineTable, published: bool) -> float:
    """Energy of a byte between DRAM and the scratchpad."""
    return machine.dram_pj if published else machine.dram_pj + machine.scratchpad_pj


@inner
def arithmetic_energy(nest: NestTable, machine: MachineTable) -> float:
    """Of all iterations and their register files."""
    macs = 1.0
    for extent in nest.extents:
        macs *= extent
    touched = 0.0
    for k in range(len(nest.operands)):
        touched += nest.operands[k, BITS] / 8 * (2 if k == len(nest.operands) - 1 else 1)
    return macs * (machine.mac_pj + touched * machine.register_pj)


@inner
def bounds_of_registers(
    nest: NestTable,
    machine: MachineTable,
    published: bool,
    one_stays: bool,
    fixed: float,
    work: Pass,
    passes: float,
    own: np.ndarray,
    bounds: np.ndarray,
) -> int:
    """Time and energy below which no tiling of the scratchpad goes for these register files; how many bounds.

    Where at most one operand at a time can stay, all but one are exchanged in every pass: one bound for each that may
    be the exception, as row of `bounds`. Else one bound for all. `fixed` is the energy of arithmetic and of what DRAM
    must move. The time of the default mode is that of arithmetic, or of the busiest operand that is exchanged in every
    pass: `bounds_of_time` has more.
    """
    operands = len(nest.operands)
    written = operands - 1
    compute, sums, exchanged = work.compute, work.sums, work.exchanged
    each, least = np.empty(operands), np.empty(operands)
    for k in range(operands):
        size = nest.operands[k, BITS] / 8
        word = machine.network_pj * exchanged[k, DELIVERED] + machine.scratchpad_pj * exchanged[k, SHARED]
        if not published:
            word += machine.register_pj * exchanged[k, DELIVERED]
        sum_pj = 0.0
        if k == written:
            sum_pj = work.hops * (size * (3 * machine.register_pj + machine.network_pj) + machine.mac_pj)
        least[k] = own[k] * (word * size + sum_pj)
        each[k] = passes * (word * size + sum_pj)
        if k == written:
            each[k] = passes * sum_pj + word * size * (2 * passes - (0.0 if published else own[k]))
    if not one_stays:
        energy = 0.0
        for k in range(operands):
            energy += least[k]
        bounds[0, 0], bounds[0, 1] = passes * compute, fixed + energy * (1 - SLACK)
        return 1
    for stays in range(operands):
        energy, busy = 0.0, 0.0
        for k in range(operands):
            if k == stays:
                energy += least[k]
            else:
                energy += each[k]
                busy = max(busy, exchanged[k, CYCLES])
        bounds[stays, 1] = fixed + energy * (1 - SLACK)
        if not published:
            bounds[stays, 0] = passes * max(compute, busy)
            continue
        # Cycles of every pass, and of every exchange of what stays beyond those.
        if stays == written:
            each_pass = max(compute, busy)
            each_stay = compute + sums + max(0, exchanged[stays, CYCLES] - each_pass)
        else:
            each_pass = busy + compute + sums
            each_stay = max(0, exchanged[stays, CYCLES] - busy)
        bounds[stays, 0] = passes * each_pass + own[stays] * each_stay
    return operands


@inner
def bounds_of_time(
    nest: NestTable,
    machine: MachineTable,
    one_stays: bool,
    work: Pass,
    passes: float,
    own: np.ndarray,
    changes: np.ndarray,
    bounds: np.ndarray,
) -> None:
    """Cycles of the default mode below which no tiling goes, of each case of `bounds_of_registers`."""
    operands = len(nest.operands)
    written = operands - 1
    overlapped = nest.operands[written, DOUBLE] != 0
    compute = work.compute
    changes[:] = 1
    both = ends_cycles(nest, machine, work)
    both += slot_cycles(nest, machine, no_pass(work), changes, 1, False, False)
    drained = slot_cycles(nest, machine, work, changes, 0, True, False)
    last = compute if overlapped else drained  # results with two buffers go after it
    if not one_stays:
        bounds[0, 0] = both + (passes - 1) * compute + (own[written] - 1) * (drained - compute) + last
        return
    held = slot_cycles(nest, machine, work, changes, 1, False, False)
    full = slot_cycles(nest, machine, work, changes, 1, True, False)
    bounds[written, 0] = both + (passes - 1) * held + (own[written] - 1) * (full - held) + last
    for stays in range(written):
        changes[stays] = 2
        slot = slot_cycles(nest, machine, work, changes, 1, True, False)
        longer, begin = full - slot, slot
        if overlapped and passes > 1:  # nothing goes yet in the first
            begin = slot_cycles(nest, machine, work, changes, 1, False, False)
            longer = min(longer, held - begin)
        changes[stays] = 1
        if passes == 1:
            bounds[stays, 0] = both + last
        else:
            bounds[stays, 0] = both + begin + (passes - 2) * slot + (own[stays] - 1) * longer + drained


@tiered
def traffic(
    nest: NestTable,
    machine: MachineTable,
    published: bool,
    runs: np.ndarray,
    order: int,
    compulsory: np.ndarray,
    dram: np.ndarray,
    moved: np.ndarray,
    figures: np.ndarray,
) -> None:
    """Cycles of DMA of tiles of the scratchpad in this order, and energy beyond what DRAM must move: lower bounds.

    All DMA takes turns, whatever it hides behind.
    """
    tiles, first_tiles = 1, 1.0
    written = len(nest.operands) - 1
    for i in range(len(dram)):
        tiles *= dram[i]
        if nest.indexed[written, i]:
            first_tiles *= dram[i]
    figures[:] = 0.0
    for k in range(written + 1):
        reuse = 1
        for i in range(len(dram)):
            if runs[order, k] >> i & 1:
                reuse *= dram[i]
        changes = float(tiles // reuse)
        visits = changes
        if k == written:
            changes += changes - first_tiles
            # A result that went to DRAM unfinished comes back; published: every one does.
            visits = 2 * visits if published else changes
        figures[0] += visits * moved[k, CYCLES]
        figures[1] += max(0.0, changes * moved[k, WORDS] - compulsory[k]) * nest.operands[k, BITS] / 8
    figures[1] *= moving_pj(machine, published) * (1 - SLACK)

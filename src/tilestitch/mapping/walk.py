"""The compiled part of the search: a walk over all tilings that leaves out what cannot be among the best.

Tilings are visited by their spatial factors, those that use the most elements first, then by the factors of the
register file, then by those of the scratchpad; what is left goes to DRAM. At each of these a bound is compared with the
best that is known. docs/mapping.md proves the bounds.
"""

from typing import NamedTuple

import numpy as np

from tilestitch.compiled import compiled
from tilestitch.cost.array.parts import (
    CYCLES,
    DELIVERED,
    SHARED,
    WORDS,
    exchange,
    mean_exchange,
    transfer,
    words_of,
)
from tilestitch.cost.array.price import ENERGY, PRICED, TIME, combine
from tilestitch.cost.array.tables import BITS, MachineTable, NestTable

EDP, LEAST_ENERGY, LEAST_LATENCY, PARETO = range(4)
# What happened to tilings.
EVALUATED, BY_SPACE, BY_REGISTERS, BY_TILE, OUTCOMES = range(5)
SLACK = 1e-9  # of energies in bounds, for sums in another order


class Space(NamedTuple):
    """What a search may choose, as arrays; see `factors`."""

    published: bool
    ragged: bool
    one_stays: bool  # at most one operand at a time can stay while loops run
    values: np.ndarray
    first: np.ndarray
    items: np.ndarray
    row: np.ndarray
    order_first: np.ndarray
    order_rows: np.ndarray
    order_runs: np.ndarray
    compulsory: np.ndarray  # operand: words that DRAM moves at least
    dram_most: np.ndarray  # loop: tiles of the scratchpad
    stays: int  # the operand that stays while the scratchpad's loops run, -1 for any
    least_elements: int
    least_registers: float
    least_scratchpad: float
    below: (
        np.ndarray
    )  # tile of registers and space, in mixed radix: tilings of the scratchpad that fit; empty if ragged
    radix: np.ndarray  # loop: what one step of its factor's place counts
    place: np.ndarray  # loop, factor: its place among the loop's factors


@compiled
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


@compiled
def before(objective: int, time: float, energy: float, other_time: float, other_energy: float) -> bool:
    """Whether the first is better."""
    if objective == LEAST_LATENCY:
        return time < other_time or (time == other_time and energy < other_energy)
    if objective == LEAST_ENERGY:
        return energy < other_energy or (energy == other_energy and time < other_time)
    return time * energy < other_time * other_energy


@compiled
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
                best[row - (end - at) + 1] = best[row]
                kept[row - (end - at) + 1] = kept[row]
            known -= end - at - 1
        else:
            if known == room:
                return -1
            for row in range(known, at, -1):
                best[row] = best[row - 1]
                kept[row] = kept[row - 1]
            known += 1
    else:
        at = min(known, room - 1)
        while at > 0 and before(objective, time, energy, best[at - 1, 0], best[at - 1, 1]):
            best[at] = best[at - 1]
            kept[at] = kept[at - 1]
            at -= 1
        known = min(known + 1, room)
    best[at, 0], best[at, 1] = time, energy
    kept[at] = chosen
    return known


@compiled
def bound_of_space(nest: NestTable, machine: MachineTable, space: Space, spatial: np.ndarray) -> tuple[float, float]:
    """Time and energy below which no tiling with these spatial factors goes: arithmetic, and what DRAM must move."""
    time = 1.0
    for i in range(len(spatial)):
        time *= -(-nest.extents[i] // spatial[i])
    return time, fixed_energy(nest, machine, space)


@compiled
def fixed_energy(nest: NestTable, machine: MachineTable, space: Space) -> float:
    """Energy of all arithmetic, and of bringing what DRAM must move."""
    energy = arithmetic_energy(nest, machine)
    for k in range(len(nest.operands)):
        energy += space.compulsory[k] * nest.operands[k, BITS] / 8 * moving_pj(machine, space.published)
    return energy * (1 - SLACK) - 0.5  # a published energy is rounded


@compiled
def moving_pj(machine: MachineTable, published: bool) -> float:
    """Energy of a byte between DRAM and the scratchpad."""
    return machine.dram_pj if published else machine.dram_pj + machine.scratchpad_pj


@compiled
def arithmetic_energy(nest: NestTable, machine: MachineTable) -> float:
    """Of all iterations and their register files."""
    macs = 1.0
    for extent in nest.extents:
        macs *= extent
    touched = 0.0
    for k in range(len(nest.operands)):
        touched += nest.operands[k, BITS] / 8 * (2 if k == len(nest.operands) - 1 else 1)
    return macs * (machine.mac_pj + touched * machine.register_pj)


@compiled
def bounds_of_registers(
    nest: NestTable,
    machine: MachineTable,
    space: Space,
    compute: int,
    passes: float,
    own: np.ndarray,
    exchanged: np.ndarray,
    sums: int,
    hops: float,
    bounds: np.ndarray,
) -> int:
    """Time and energy below which no tiling of the scratchpad goes for these register files; how many bounds.

    Where at most one operand at a time can stay, all but one are exchanged in every pass: one bound for each that may
    be the exception, as row of `bounds`. Else one bound for all.
    """
    operands = len(nest.operands)
    written = operands - 1
    each, least = np.empty(operands), np.empty(operands)
    for k in range(operands):
        size = nest.operands[k, BITS] / 8
        word = machine.network_pj * exchanged[k, DELIVERED] + machine.scratchpad_pj * exchanged[k, SHARED]
        if not space.published:
            word += machine.register_pj * exchanged[k, DELIVERED]
        sum_pj = 0.0
        if k == written:
            sum_pj = hops * (size * (3 * machine.register_pj + machine.network_pj) + machine.mac_pj)
        least[k] = own[k] * (word * size + sum_pj)
        each[k] = passes * (word * size + sum_pj)
        if k == written:
            each[k] = passes * sum_pj + word * size * (2 * passes - (0.0 if space.published else own[k]))
    fixed = fixed_energy(nest, machine, space)
    if not space.one_stays:
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
        bounds[stays, 0] = passes * (max(compute, busy) if stays == written else busy + compute + sums)
    return operands


@compiled
def walk(
    nest: NestTable,
    machine: MachineTable,
    space: Space,
    objective: int,
    spatials: np.ndarray,
    best: np.ndarray,
    kept: np.ndarray,
    known: int,
    room: int,
    outcomes: np.ndarray,
) -> int:
    """Search the tilings with these spatial factors; how many are among the best then, -1 where a front is full.

    `kept` are rows of factors (DRAM, scratchpad, registers, space) and two orders, `outcomes` counts tilings.
    """
    loops, operands = len(nest.extents), len(nest.operands)
    written = operands - 1
    rf, spm, dram = np.ones(loops, np.int64), np.ones(loops, np.int64), np.ones(loops, np.int64)
    # What is left of each loop for the registers, and after them.
    left, rest = np.empty(loops, np.int64), np.empty(loops, np.int64)
    pass_tile, tile = np.empty(loops, np.int64), np.empty(loops, np.int64)
    at, begin, end = np.zeros(loops, np.int64), np.zeros(loops, np.int64), np.zeros(loops, np.int64)
    tile_at, tile_end = np.zeros(loops, np.int64), np.zeros(loops, np.int64)
    exchanged, moved = np.empty((operands, 3)), np.empty((operands, 2))
    own, exchanges = np.empty(operands), np.empty(operands)
    spm_reuse, dram_reuse = np.empty(operands, np.int64), np.empty(operands, np.int64)
    bounds = np.empty((operands, 2))
    price, counts = np.empty(PRICED), np.empty((operands, 3))
    top_price = np.empty(2)
    chosen, top = np.empty(4 * loops + 2, np.int64), np.empty(4 * loops + 2, np.int64)
    for number in range(len(spatials)):
        spatial = spatials[number]
        time, energy = bound_of_space(nest, machine, space, spatial)
        if worse(objective, time, energy, best, known, room):
            outcomes[BY_SPACE] += 1
            continue
        for i in range(loops):
            left[i] = -(-nest.extents[i] // spatial[i])
            rf[i] = 1
            begin[i], end[i] = register_factors(space, nest.extents[i], left[i])
            at[i] = begin[i]
        # An odometer over the register file's factors: the last loop turns fastest; a loop that no longer fits is
        # turned back, and the one before it goes on.
        depth = loops - 1
        fresh = True
        while True:
            if not fresh:
                while depth >= 0:
                    at[depth] += 1
                    if at[depth] < end[depth]:
                        rf[depth] = space.items[at[depth]]
                        if _registers(nest, rf) <= machine.register_bytes:
                            break
                    at[depth] = begin[depth]
                    rf[depth] = 1
                    depth -= 1
                if depth < 0:
                    break
            elif _registers(nest, rf) > machine.register_bytes:
                break
            fresh = False
            depth = loops - 1
            if space.least_registers > 0 and _registers(nest, rf) < space.least_registers:
                continue
            compute, passes = 1, 1.0
            first_passes = 1.0
            for i in range(loops):
                compute *= rf[i]
                pass_tile[i] = rf[i] * spatial[i]
                rest[i] = -(-left[i] // rf[i])
                passes *= rest[i]
                if nest.indexed[written, i]:
                    first_passes *= rest[i]
            for k in range(operands):
                own[k] = 1.0
                for i in range(loops):
                    if nest.indexed[k, i]:
                        own[k] *= rest[i]
            sums, hops = exchange(nest, machine, rf, spatial, exchanged)
            if space.ragged:
                hops = mean_exchange(nest, rf, spatial, machine.multicast, exchanged)
            many = bounds_of_registers(nest, machine, space, compute, passes, own, exchanged, sums, hops, bounds)
            hopeless = True
            for b in range(many):
                if not worse(objective, bounds[b, 0], bounds[b, 1], best, known, room):
                    hopeless = False
                    break
            if hopeless:
                if len(space.below) > 0:
                    place = 0
                    for i in range(loops):
                        place += space.radix[i] * space.place[i, pass_tile[i]]
                    outcomes[BY_REGISTERS] += space.below[place]
                continue
            for i in range(loops):
                spm[i] = 1
                row = space.row[rest[i]]
                tile_at[i], tile_end[i] = space.first[row], space.first[row + 1]
                tile[i] = min(pass_tile[i], nest.extents[i])
            inner, start = loops - 1, True
            while True:
                if not start:
                    while inner >= 0:
                        tile_at[inner] += 1
                        if tile_at[inner] < tile_end[inner]:
                            spm[inner] = space.items[tile_at[inner]]
                            tile[inner] = min(spm[inner] * pass_tile[inner], nest.extents[inner])
                            if _in_scratchpad(nest, machine, tile) > 0:
                                break
                        tile_at[inner] = space.first[space.row[rest[inner]]]
                        spm[inner] = 1
                        tile[inner] = min(pass_tile[inner], nest.extents[inner])
                        inner -= 1
                    if inner < 0:
                        break
                elif _in_scratchpad(nest, machine, tile) == 0:
                    break
                start = False
                inner = loops - 1
                tiles, tile_passes, first_tiles, allowed = 1, 1, 1.0, True
                present, outer = 0, 0
                for i in range(loops):
                    dram[i] = -(-rest[i] // spm[i])
                    allowed = allowed and dram[i] <= space.dram_most[i]
                    tiles *= dram[i]
                    tile_passes *= spm[i]
                    if nest.indexed[written, i]:
                        first_tiles *= dram[i]
                    if spm[i] > 1:
                        present |= 1 << i
                    if dram[i] > 1:
                        outer |= 1 << i
                if not allowed:
                    continue
                if space.least_scratchpad > 0 and _in_scratchpad(nest, machine, tile) < space.least_scratchpad:
                    continue
                outcomes[EVALUATED] += 1
                transfer(nest, machine, space.published, tile, dram, moved)
                improved = False
                for outside in range(space.order_first[outer], space.order_first[outer + 1]):
                    busy, brought = 0.0, 0.0
                    for k in range(operands):
                        dram_reuse[k] = 1
                        for i in range(loops):
                            if space.order_runs[outside, k] >> i & 1:
                                dram_reuse[k] *= dram[i]
                        changes = float(tiles // dram_reuse[k])
                        busy += changes * moved[k, CYCLES] if dram_reuse[k] == 1 else 0.0
                        if k == written:
                            changes += changes - first_tiles
                        brought += (
                            max(0.0, changes * moved[k, WORDS] - space.compulsory[k]) * nest.operands[k, BITS] / 8
                        )
                    more = brought * moving_pj(machine, space.published) * (1 - SLACK)
                    hopeless = True
                    for b in range(many):
                        if not worse(objective, max(bounds[b, 0], busy), bounds[b, 1] + more, best, known, room):
                            hopeless = False
                            break
                    if hopeless:
                        continue
                    for inside in range(space.order_first[present], space.order_first[present + 1]):
                        stays = True
                        for k in range(operands):
                            spm_reuse[k], exchanges[k] = 1, 1.0
                            for i in range(loops):
                                if space.order_runs[inside, k] >> i & 1:
                                    spm_reuse[k] *= spm[i]
                                    exchanges[k] *= dram[i]
                                else:
                                    exchanges[k] *= rest[i]
                                    if k == space.stays and spm[i] > 1 and not nest.indexed[k, i]:
                                        stays = False
                        if not stays:
                            continue
                        combine(
                            nest,
                            machine,
                            space.published,
                            compute,
                            tile_passes,
                            tiles,
                            exchanged,
                            sums,
                            hops,
                            moved,
                            spm_reuse,
                            dram_reuse,
                            exchanges,
                            first_passes,
                            first_tiles,
                            price,
                            counts,
                        )
                        if worse(objective, price[TIME], price[ENERGY], best, known, room):
                            continue
                        chosen[:loops], chosen[loops : 2 * loops] = dram, spm
                        chosen[2 * loops : 3 * loops], chosen[3 * loops : 4 * loops] = rf, spatial
                        chosen[4 * loops], chosen[4 * loops + 1] = outside, inside
                        if objective == PARETO:
                            known = keep(objective, price[TIME], price[ENERGY], best, kept, chosen, known, room)
                            if known < 0:
                                return -1
                        elif not improved or before(objective, price[TIME], price[ENERGY], top_price[0], top_price[1]):
                            improved = True
                            top_price[0], top_price[1] = price[TIME], price[ENERGY]
                            top[:] = chosen
                if improved:
                    known = keep(objective, top_price[0], top_price[1], best, kept, top, known, room)
    return known


@compiled
def register_factors(space: Space, extent: int, left: int) -> tuple[int, int]:
    """Where a loop's factors for the register file begin and end.

    Exact ones divide what space leaves. A ragged one matters by the passes and by the slices that it leaves, so all
    are there that leave another number of slices of the whole loop; docs/mapping.md proves that no other is better.
    """
    row = space.row[extent if space.ragged else left]
    end = space.first[row + 1]
    while space.items[end - 1] > left:
        end -= 1
    return space.first[row], end


@compiled
def _registers(nest: NestTable, rf: np.ndarray) -> float:
    """Bytes of one element's register file."""
    found = 0.0
    for k in range(len(nest.operands)):
        found += np.ceil(words_of(nest, k, rf) * nest.operands[k, BITS] / 8)
    return found


@compiled
def _in_scratchpad(nest: NestTable, machine: MachineTable, tile: np.ndarray) -> float:
    """Bytes of a tile in the scratchpad, 0 where it does not fit."""
    banks = found = 0.0
    for k in range(len(nest.operands)):
        size = np.ceil(words_of(nest, k, tile) * nest.operands[k, BITS] / 8)
        banks += np.ceil(size / machine.bank_bytes)
        found += size
    return found if banks <= machine.banks and found <= machine.banks * machine.bank_bytes else 0.0


@compiled
def fitting_tiles(
    nest: NestTable, machine: MachineTable, space: Space, sizes: np.ndarray, divisors: np.ndarray, below: np.ndarray
) -> None:
    """For every tile of registers and space, in mixed radix, how many exact tiles of the scratchpad around it fit."""
    loops, radix = len(space.radix), space.radix
    tile = np.empty(loops, np.int64)
    for place in range(len(below)):
        allowed = True
        for i in range(loops):
            tile[i] = divisors[i, place // radix[i] % sizes[i]]
            allowed = allowed and nest.extents[i] // tile[i] <= space.dram_most[i]
        room = _in_scratchpad(nest, machine, tile)
        below[place] = allowed and room > 0 and room >= space.least_scratchpad
    for i in range(loops):
        for place in range(len(below)):
            mine = place // radix[i] % sizes[i]
            found = 0
            for other in range(mine, sizes[i]):
                if divisors[i, other] % divisors[i, mine] == 0:
                    found += below[place + (other - mine) * radix[i]]
            below[place] = found


@compiled
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
                        if _registers(nest, rf) <= machine.register_bytes:
                            break
                    at[depth] = space.first[space.row[left[depth]]]
                    rf[depth] = 1
                    depth -= 1
                if depth < 0:
                    break
            elif _registers(nest, rf) > machine.register_bytes:
                break
            fresh = False
            depth = loops - 1
            if space.least_registers > 0 and _registers(nest, rf) < space.least_registers:
                continue
            place = 0
            for i in range(loops):
                place += space.radix[i] * space.place[i, rf[i] * spatial[i]]
            total += space.below[place]
    return total

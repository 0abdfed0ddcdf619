"""The compiled part of the search: a walk over all tilings that leaves out what cannot be among the best.

Tilings are visited by their spatial factors, those that use the most elements first, then by the factors of the
register file, then by those of the scratchpad; what is left goes to DRAM. At each of these a bound is compared with the
best that is known. docs/mapping.md proves the bounds.
"""

from typing import NamedTuple

import numpy as np

from tilestitch.base.arrays import copy_row
from tilestitch.base.jit import compiled, inner, tiered
from tilestitch.mapping.bounds import (
    PARETO,
    before,
    bounds_of_registers,
    bounds_of_time,
    fixed_energy,
    keep,
    traffic,
    worse,
)
from tilestitch.mapping.parts import exchange, mean_exchange, transfer
from tilestitch.mapping.price import ENERGY, PRICED, TIME, combine
from tilestitch.mapping.space import Space
from tilestitch.mapping.tables import MachineTable, NestTable, Pass, Tiles
from tilestitch.mapping.tiles import register_bytes, register_factors, scratchpad_bytes
from tilestitch.mapping.timing import ALL, MEMORY, OF_RESULT, SCRATCHPAD, pass_cycles

EVALUATED, BY_SPACE, BY_REGISTERS, BY_TILE, OUTCOMES = range(5)  # what became of tilings
KNOWN, ROOM, OBJECTIVE, STATE = range(4)


class Best(NamedTuple):
    """The best mappings that are known, as rows that are filled from the first."""

    figures: np.ndarray  # time and energy
    mappings: np.ndarray  # factors of DRAM, scratchpad, registers, space; the numbers of two orders
    state: np.ndarray  # how many are known (-1: a front that found no room), how many there is room for, objective


class Inner(NamedTuple):
    """One choice of space and registers, with what follows from it."""

    rf: np.ndarray
    spatial: np.ndarray
    tile: np.ndarray  # iterations of each loop in a pass of the registers
    rest: np.ndarray  # passes of each loop
    work: Pass
    first_passes: float  # different tiles of the result that the register files see
    bounds: np.ndarray
    cases: int  # rows of `bounds`


@inner
def hopeless(state: np.ndarray, figures: np.ndarray, time: float, energy: float) -> bool:
    """Whether something of at least this time and energy is not among the best; infinite time is no mapping."""
    return time == np.inf or worse(state[OBJECTIVE], time, energy, figures, state[KNOWN], state[ROOM])


@inner
def all_hopeless(
    state: np.ndarray, figures: np.ndarray, bounds: np.ndarray, many: int, busy: float, brought: float
) -> bool:
    """Whether no case of `bounds` can be among the best, with so many cycles and picojoules of DMA."""
    for case in range(many):  # noqa: SIM110 - numba compiles no generators
        if not hopeless(state, figures, max(bounds[case, 0], busy), bounds[case, 1] + brought):
            return False
    return True


@tiered
def place_of(radix: np.ndarray, places: np.ndarray, tile: np.ndarray) -> int:
    """Where an exact tile stands in the tables of tiles."""
    place = 0
    for i in range(len(tile)):
        place += radix[i] * places[i, tile[i]]
    return place


@compiled
def walk(
    nest: NestTable, machine: MachineTable, space: Space, spatials: np.ndarray, best: Best, outcomes: np.ndarray
) -> None:
    """Search the tilings with these spatial factors; stops where a front finds no room. `outcomes` counts tilings."""
    loops, operands = len(nest.extents), len(nest.operands)
    written = operands - 1
    state, figures = best.state, best.figures
    radix, places, least_busy, least_brought = space.radix, space.place, space.least_busy, space.least_brought
    items, ragged = space.items, space.ragged
    left, begin = np.empty(loops, np.int64), np.empty(loops, np.int64)
    at, end = np.empty(loops, np.int64), np.empty(loops, np.int64)
    own = np.empty(operands)
    published, one_stays, fixed = space.published, space.one_stays, fixed_energy(nest, machine, space)
    which = np.empty(loops, np.int64)
    rf, tile, rest = np.ones(loops, np.int64), np.empty(loops, np.int64), np.empty(loops, np.int64)
    exchanged, bounds = np.empty((operands, 3)), np.empty((operands, 2))
    changes = np.empty(operands, np.int64)
    for number in range(len(spatials)):
        spatial = spatials[number]
        time = 1.0
        for i in range(loops):
            left[i] = -(-nest.extents[i] // spatial[i])
            time *= left[i]
        busy = brought = 0.0
        if not ragged:
            place = place_of(radix, places, spatial)
            busy, brought = float(least_busy[place]), float(least_brought[place])
        if hopeless(state, figures, max(time, busy), fixed + brought):
            outcomes[BY_SPACE] += 1
            continue
        active = 0
        for i in range(loops):
            begin[i], end[i] = register_factors(space, nest.extents[i], left[i])
            at[i] = begin[i]
            rf[i] = 1
            if left[i] > 1:
                which[active] = i
                active += 1
        # An odometer over the factors: the last loop turns fastest, and where a factor no longer fits, its loop turns
        # back and the one before it goes on.
        depth, room = 0, register_bytes(space.held, rf)
        while depth >= 0:
            if space.least_registers <= room <= machine.register_bytes:
                compute, passes = pass_cycles(nest, machine, published, rf), 1.0
                for i in range(loops):
                    tile[i] = rf[i] * spatial[i]
                    rest[i] = -(-left[i] // rf[i])
                    passes *= rest[i]
                for k in range(operands):
                    own[k] = 1.0
                    for i in range(loops):
                        if nest.indexed[k, i]:
                            own[k] *= rest[i]
                sums, hops = exchange(nest, machine, published, rf, spatial, exchanged)
                if ragged:
                    hops = mean_exchange(nest, rf, spatial, machine.multicast, exchanged)
                work = Pass(compute, sums, hops, exchanged)
                many = bounds_of_registers(nest, machine, published, one_stays, fixed, work, passes, own, bounds)
                tilings = 0
                if not ragged:
                    place = place_of(radix, places, tile)
                    tilings = space.below[place]
                    busy, brought = float(least_busy[place]), float(least_brought[place])
                is_hopeless = all_hopeless(state, figures, bounds, many, busy, brought)
                if not is_hopeless and not published:  # closer bounds of time, which are dear
                    bounds_of_time(nest, machine, one_stays, work, passes, own, changes, bounds)
                    is_hopeless = all_hopeless(state, figures, bounds, many, busy, brought)
                if is_hopeless:
                    outcomes[BY_REGISTERS] += tilings
                else:
                    inner = Inner(rf, spatial, tile, rest, work, own[written], bounds, many)
                    evaluated = walk_tiles(nest, machine, space, inner, best)
                    outcomes[EVALUATED] += evaluated
                    outcomes[BY_TILE] += max(0, tilings - evaluated)
                    if state[KNOWN] < 0:
                        return
            depth = active - 1
            while depth >= 0:
                turned = which[depth]
                at[turned] += 1
                if at[turned] < end[turned]:
                    rf[turned] = items[at[turned]]
                    room = register_bytes(space.held, rf)
                    if room <= machine.register_bytes:
                        if ragged:  # passes that are not full take as long as those that are
                            wasted = 1.0
                            for i in range(loops):
                                wasted *= -(-left[i] // rf[i]) * rf[i]
                            if not hopeless(state, figures, wasted, fixed):
                                break
                            continue
                        for i in range(loops):
                            tile[i] = rf[i] * spatial[i]
                        place = place_of(radix, places, tile)
                        if not hopeless(state, figures, max(time, least_busy[place]), fixed + least_brought[place]):
                            break
                        continue
                at[turned] = begin[turned]
                rf[turned] = 1
                depth -= 1


@inner
def walk_tiles(
    nest: NestTable,
    machine: MachineTable,
    space: Space,
    inner: Inner,
    best: Best,
) -> int:
    """Search the tiles of the scratchpad around one choice of space and registers; how many were evaluated."""
    loops = len(nest.extents)
    spm, dram, tile = np.ones(loops, np.int64), np.ones(loops, np.int64), np.empty(loops, np.int64)
    at, begin, end = np.empty(loops, np.int64), np.empty(loops, np.int64), np.empty(loops, np.int64)
    moved, dma, top = np.empty((len(nest.operands), 2)), np.empty(2), np.empty(2)
    pass_tile, rest, bounds, many = inner.tile, inner.rest, inner.bounds, inner.cases
    state, figures = best.state, best.figures
    radix, places = space.radix, space.place
    least_busy, least_brought, busy, brought = space.least_busy, space.least_brought, space.busy, space.brought
    items, ragged = space.items, space.ragged
    published, outer_first, outer_runs = space.published, space.outer_first, space.outer_runs
    mapping = np.empty(4 * loops + 2, np.int64)
    copy_row(mapping[2 * loops :], inner.rf)
    copy_row(mapping[3 * loops :], inner.spatial)
    which, active = np.empty(loops, np.int64), 0
    for i in range(loops):
        row = space.row[rest[i]]
        begin[i], end[i] = space.first[row], space.first[row + 1]
        at[i] = begin[i]
        if rest[i] > 1:
            which[active] = i
            active += 1
        tile[i] = min(pass_tile[i], nest.extents[i])
    evaluated = 0
    room = scratchpad_bytes(nest, machine, tile)
    place = place_of(radix, places, tile) if not ragged else 0
    depth = 0 if room > 0 else -1
    while depth >= 0:
        if ragged:
            allowed = room >= space.least_scratchpad
        else:
            allowed = not all_hopeless(state, figures, bounds, many, busy[place], brought[place])
        outer = 0
        if allowed:
            for i in range(loops):
                dram[i] = -(-rest[i] // spm[i])
                allowed = allowed and dram[i] <= space.dram_most[i]
                if dram[i] > 1:
                    outer |= 1 << i
        if allowed:
            evaluated += 1
            transfer(nest, machine, published, tile, dram, moved)
            top[0] = np.inf
            for outside in range(outer_first[outer], outer_first[outer + 1]):
                traffic(nest, machine, published, outer_runs, outside, space.compulsory, dram, moved, dma)
                if not all_hopeless(state, figures, bounds, many, dma[0], dma[1]):
                    weigh_orders(nest, machine, space, inner, spm, dram, moved, outside, best, top, mapping)
                    if state[KNOWN] < 0:
                        return evaluated
            if top[0] < np.inf:
                keep_one(best, top[0], top[1], mapping)
        depth = active - 1
        while depth >= 0:
            i = which[depth]
            at[i] += 1
            if at[i] < end[i]:
                spm[i] = items[at[i]]
                if ragged:
                    tile[i] = min(spm[i] * pass_tile[i], nest.extents[i])
                    room = scratchpad_bytes(nest, machine, tile)
                    if room > 0:
                        break
                else:
                    place -= radix[i] * places[i, tile[i]]
                    tile[i] = spm[i] * pass_tile[i]
                    place += radix[i] * places[i, tile[i]]
                    if not all_hopeless(
                        state, figures, bounds, many, float(least_busy[place]), float(least_brought[place])
                    ):
                        break
                    continue
            at[i] = begin[i]
            spm[i] = 1
            if not ragged:
                place += radix[i] * (places[i, pass_tile[i]] - places[i, tile[i]])
            tile[i] = min(pass_tile[i], nest.extents[i])
            depth -= 1
    return evaluated


@inner
def weigh_orders(
    nest: NestTable,
    machine: MachineTable,
    space: Space,
    inner: Inner,
    spm: np.ndarray,
    dram: np.ndarray,
    moved: np.ndarray,
    outside: int,
    best: Best,
    top: np.ndarray,
    mapping: np.ndarray,
) -> None:
    """Price a tiling in one order of DRAM and all of the scratchpad; the best that is worth keeping goes to `top`.

    For a front every one that is worth keeping goes there at once.
    """
    loops, operands = len(nest.extents), len(nest.operands)
    state, figures, objective = best.state, best.figures, best.state[OBJECTIVE]
    order_first, runs, rest = space.order_first, space.order_runs, inner.rest
    stays, exchanges = np.empty((2, operands + 1, 2), np.int64), np.empty(operands)
    price, counts = np.empty(PRICED), np.empty((operands, 3))
    tiles, passes, first_tiles, fresh_passes, present = 1, 1, 1.0, 1, 0
    for i in range(loops):
        tiles *= dram[i]
        passes *= spm[i]
        if spm[i] > 1:
            present |= 1 << i
        if nest.indexed[operands - 1, i]:
            first_tiles *= dram[i]
            fresh_passes *= spm[i]
    for k in range(operands + 1):
        product_of_run(nest, space.outer_runs[outside, k], dram, stays[MEMORY, k])
    counted = Tiles(passes, tiles, inner.first_passes, fresh_passes, first_tiles, moved)
    for inside in range(order_first[present], order_first[present + 1]):
        stayed = True
        for k in range(operands):
            product_of_run(nest, runs[inside, k], spm, stays[SCRATCHPAD, k])
            exchanges[k] = 1.0
            for i in range(loops):
                if runs[inside, k] >> i & 1:
                    exchanges[k] *= dram[i]
                else:
                    exchanges[k] *= rest[i]
                    if k == space.stays and spm[i] > 1 and not nest.indexed[k, i]:
                        stayed = False
        if not stayed:
            continue
        combine(nest, machine, space.published, inner.work, counted, stays, exchanges, price, counts)
        if hopeless(state, figures, price[TIME], price[ENERGY]):
            continue
        if objective == PARETO or top[0] == np.inf or before(objective, price[TIME], price[ENERGY], top[0], top[1]):
            top[0], top[1] = price[TIME], price[ENERGY]
            copy_row(mapping, dram)
            copy_row(mapping[loops:], spm)
            mapping[4 * loops], mapping[4 * loops + 1] = outside, inside
            if objective == PARETO:
                keep_one(best, top[0], top[1], mapping)
                top[0] = np.inf
                if state[KNOWN] < 0:
                    return


@inner
def product_of_run(nest: NestTable, run: int, factors: np.ndarray, products: np.ndarray) -> None:
    """Of the factors of loops, as bits: of all, and of those that move the result."""
    every = of_result = 1
    for i in range(len(factors)):
        if run >> i & 1:
            every *= factors[i]
            if nest.indexed[len(nest.operands) - 1, i]:
                of_result *= factors[i]
    products[ALL], products[OF_RESULT] = every, of_result


@inner
def keep_one(best: Best, time: float, energy: float, mapping: np.ndarray) -> None:
    """Put a mapping among the best."""
    state = best.state
    state[KNOWN] = keep(state[OBJECTIVE], time, energy, best.figures, best.mappings, mapping, state[KNOWN], state[ROOM])

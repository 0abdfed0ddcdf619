"""The compiled part of checking a proof: an enumeration of its own, which shares the cost function with the search.

Other bounds than the search's, and in another order: what tiles of the scratchpad cost on an array without networks,
and what passes of the registers cost without DMA. Whatever both leave open is priced.
"""

from typing import NamedTuple

import numpy as np

from tilestitch.base.arrays import copy_rows
from tilestitch.base.jit import compiled, inner
from tilestitch.mapping.parts import CYCLES, DELIVERED, SHARED, exchange, transfer, words_of
from tilestitch.mapping.price import DRAM, ENERGY, LOADS, MAC, PRICED, RF, SPM, STORES, TIME, combine, runs_of
from tilestitch.mapping.tables import BITS, DOUBLE, MachineTable, NestTable, Pass, Tiles
from tilestitch.mapping.timing import MEMORY, SCRATCHPAD, pass_cycles
from tilestitch.mapping.whole import price_mapping

PRICED_TILINGS, TILINGS, BETTER, FIGURES = range(4)


class LevelOrders(NamedTuple):
    """Orders of a level's loops to try, by which loops have several iterations, as bits."""

    first: np.ndarray  # set of loops: the first of its rows
    rows: np.ndarray  # numbers of loops, the outermost first


@inner
def beats(objective: int, time: float, energy: float, claim: np.ndarray) -> bool:
    """Whether something of at least this time and energy may be better than what is claimed.

    Objectives are EDP, energy, latency and ED2P.
    """
    if objective == 0:
        return time * energy < claim[0] * claim[1]
    if objective == 1:
        return energy < claim[1] or (energy == claim[1] and time < claim[0])
    if objective == 3:
        return time * time * energy < claim[0] * claim[0] * claim[1]
    return time < claim[0] or (time == claim[0] and energy < claim[1])


@inner
def tile_floor(
    nest: NestTable,
    machine: MachineTable,
    published: bool,
    tile: np.ndarray,
    orders: np.ndarray,
    floor: np.ndarray,
) -> None:
    """Time and energy below which no mapping with this tile of the scratchpad goes: on networks that take nothing."""
    loops, operands = len(nest.extents), len(nest.operands)
    dram, iterations, tiles, first_tiles = np.empty(loops, np.int64), 1, 1, 1.0
    for i in range(loops):
        dram[i] = nest.extents[i] // tile[i]
        iterations *= tile[i]
        tiles *= dram[i]
        if nest.indexed[operands - 1, i]:
            first_tiles *= dram[i]
    moved, nothing = np.empty((operands, 2)), np.zeros((operands, 3))
    transfer(nest, machine, published, tile, dram, moved)
    stays, none = np.empty((2, operands + 1, 2), np.int64), np.zeros(operands)
    stays[SCRATCHPAD] = 1
    runs = np.empty((operands + 1, loops), np.int64)
    price, counts = np.empty(PRICED), np.empty((operands, 3))
    floor[0] = floor[1] = np.inf
    work = Pass(iterations // machine.elements, 0, 0.0, nothing)
    counted = Tiles(1, tiles, 0.0, 1, first_tiles, moved)
    for order in orders:
        runs_of(nest, dram, order, runs, stays[MEMORY])
        combine(nest, machine, published, work, counted, stays, none, price, counts)
        time = price[TIME]
        if not published:  # all DMA is one after the other, and beside the first load and the last store all passes are
            time = 0.0
            begin = 0.0
            for k in range(operands):
                time += (counts[k, LOADS] + counts[k, STORES]) * moved[k, CYCLES]
                begin += moved[k, CYCLES]
            time = max(time, begin + float(tiles) * work.compute)
        floor[0] = min(floor[0], time)
        floor[1] = min(floor[1], price[MAC] + price[RF] + price[SPM] + price[DRAM])


@inner
def pass_floor(
    nest: NestTable,
    machine: MachineTable,
    published: bool,
    one_stays: bool,
    rf: np.ndarray,
    spatial: np.ndarray,
    exchanged: np.ndarray,
    floor: np.ndarray,
) -> None:
    """Time, and energy of networks and scratchpad, below which no mapping with these registers and space goes.

    Where at most one operand stays at a time, all others go over their networks in every pass: the second slowest
    network at least is busy in each, and the energies of all but the most expensive operand are paid in each. In
    default mode every pass takes the slowest input, or takes results. Source: this follows from section 4.1 of
    dMazeRunner (TECS 2019).
    """
    operands = len(nest.operands)
    compute, passes = float(pass_cycles(nest, machine, published, rf)), 1.0
    for i in range(len(rf)):
        passes *= nest.extents[i] // (rf[i] * spatial[i])
    sums, _ = exchange(nest, machine, published, rf, spatial, exchanged)
    floor[0], floor[1] = passes * compute, 0.0
    if not one_stays:
        return
    slowest = second = dearest = 0.0
    for k in range(operands):
        cycles = exchanged[k, CYCLES]
        if cycles > slowest:
            slowest, second = cycles, slowest
        else:
            second = max(second, cycles)
        once = exchanged[k, DELIVERED] * machine.network_pj + exchanged[k, SHARED] * machine.scratchpad_pj
        if not published:
            once += exchanged[k, DELIVERED] * machine.register_pj
        once *= nest.operands[k, BITS] / 8
        floor[1] += once * passes
        dearest = max(dearest, once * passes)
    floor[1] -= dearest
    floor[0] = passes * max(compute, second)
    if not published:
        taken = machine.drain + sums + exchanged[operands - 1, CYCLES]
        if not nest.operands[operands - 1, DOUBLE]:
            taken += compute
        slowest = 0.0
        for k in range(operands - 1):
            slowest = max(slowest, exchanged[k, CYCLES])
        floor[0] = max(floor[0], passes * min(slowest, taken))


@compiled
def examine(
    nest: NestTable,
    machine: MachineTable,
    published: bool,
    one_stays: bool,
    objective: int,
    claim: np.ndarray,
    divisors: np.ndarray,
    sizes: np.ndarray,
    outer: LevelOrders,
    inner: LevelOrders,
    found: np.ndarray,
    better: np.ndarray,
) -> None:
    """Count all tilings that fit, and price those that may beat the claim; `better` is the first that does.

    `divisors` of every loop's extent, ascending; `outer` are orders of DRAM's loops, `inner` of the scratchpad's.
    """
    loops, operands = len(nest.extents), len(nest.operands)
    radix, places = np.ones(loops, np.int64), 1
    for i in range(loops - 1, -1, -1):
        radix[i] = places
        places *= sizes[i]
    # Tiles of the scratchpad that fit, with their floors; and how many pairs of registers and space make each tile.
    fitting, floors, pairs = np.zeros(places, np.bool_), np.empty((places, 2)), np.zeros(places)
    tile, at = np.empty(loops, np.int64), np.zeros(loops, np.int64)
    open_tiles, around, opened = np.empty(places, np.int64), np.empty(places, np.int64), 0
    for place in range(places):
        several = 0
        for i in range(loops):
            tile[i] = divisors[i, place // radix[i] % sizes[i]]
            several |= (1 << i) if tile[i] < nest.extents[i] else 0
        banks = room = 0.0
        for k in range(operands):
            size = np.ceil(words_of(nest, k, tile) * nest.operands[k, BITS] / 8)
            room += size
            banks += np.ceil(size / machine.bank_bytes)
        fitting[place] = banks <= machine.banks and room <= machine.banks * machine.bank_bytes
        if fitting[place]:
            rows = outer.rows[outer.first[several] : outer.first[several + 1]]
            tile_floor(nest, machine, published, tile, rows, floors[place])
            if beats(objective, floors[place, 0], floors[place, 1] * (1 - 1e-9) - 0.5, claim):
                open_tiles[opened] = place
                opened += 1
    rf, spatial = np.ones(loops, np.int64), np.ones(loops, np.int64)
    spm, dram = np.ones(loops, np.int64), np.ones(loops, np.int64)
    exchanged, floor = np.empty((operands, 3)), np.empty(2)
    factors, orders = np.empty((4, loops), np.int64), np.empty((2, loops), np.int64)
    price, counts, moved = np.empty(PRICED), np.empty((operands, 3)), np.empty((operands, 2))
    # Tiles of a pass in the outer loop, their spatial parts in the inner one.
    for place in range(places):
        for i in range(loops):
            tile[i] = divisors[i, place // radix[i] % sizes[i]]
            at[i] = 0
        many = 0
        for number in range(opened):
            inside = True
            for i in range(loops):
                if divisors[i, open_tiles[number] // radix[i] % sizes[i]] % tile[i] != 0:
                    inside = False
                    break
            if inside:
                around[many] = open_tiles[number]
                many += 1
        while True:
            elements, registers, whole = 1.0, 0.0, True
            for i in range(loops):
                spatial[i] = divisors[i, at[i]]
                whole = whole and tile[i] % spatial[i] == 0
                if whole:
                    rf[i] = tile[i] // spatial[i]
                    elements *= spatial[i]
            if whole and elements <= machine.elements:
                for k in range(operands):
                    registers += np.ceil(words_of(nest, k, rf) * nest.operands[k, BITS] / 8)
                if registers <= machine.register_bytes:
                    pairs[place] += 1
                    if many > 0:
                        pass_floor(nest, machine, published, one_stays, rf, spatial, exchanged, floor)
                    for number in range(many):
                        other = around[number]
                        time = max(floor[0], floors[other, 0])
                        energy = (floor[1] + floors[other, 1]) * (1 - 1e-9) - 0.5
                        if not beats(objective, time, energy, claim):
                            continue
                        present = several = 0
                        for i in range(loops):
                            large = divisors[i, other // radix[i] % sizes[i]]
                            spm[i], dram[i] = large // tile[i], nest.extents[i] // large
                            present |= (1 << i) if spm[i] > 1 else 0
                            several |= (1 << i) if dram[i] > 1 else 0
                        found[PRICED_TILINGS] += 1
                        factors[0], factors[1], factors[2], factors[3] = dram, spm, rf, spatial
                        for first in range(outer.first[several], outer.first[several + 1]):
                            orders[0] = outer.rows[first]
                            for second in range(inner.first[present], inner.first[present + 1]):
                                orders[1] = inner.rows[second]
                                price_mapping(
                                    nest, machine, published, factors, orders, price, counts, exchanged, moved
                                )
                                if found[BETTER] == 0 and beats(objective, price[TIME], price[ENERGY], claim):
                                    found[BETTER] = 1
                                    copy_rows(better, factors)
                                    copy_rows(better[4:], orders)
            depth = loops - 1
            while depth >= 0:
                at[depth] += 1
                if at[depth] < sizes[depth] and divisors[depth, at[depth]] <= tile[depth]:
                    break
                at[depth] = 0
                depth -= 1
            if depth < 0:
                break
    # A tile of the scratchpad goes with every pair whose tile divides it: sums over divisors, loop by loop.
    for i in range(loops):
        for place in range(places - 1, -1, -1):
            mine = place // radix[i] % sizes[i]
            for smaller in range(mine):
                if divisors[i, mine] % divisors[i, smaller] == 0:
                    pairs[place] += pairs[place - (mine - smaller) * radix[i]]
    for place in range(places):
        if fitting[place]:
            found[TILINGS] += int(pairs[place])

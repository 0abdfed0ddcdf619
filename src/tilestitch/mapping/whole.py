"""The price of one mapping of a nest on an array, with what it is made of."""

import numpy as np

from tilestitch.base.jit import tiered
from tilestitch.mapping.parts import exchange, fits, mean_exchange, transfer
from tilestitch.mapping.price import combine, exchanges_of, runs_of
from tilestitch.mapping.tables import MachineTable, NestTable, Pass, Tiles
from tilestitch.mapping.timing import MEMORY, SCRATCHPAD, pass_cycles


@tiered
def price_mapping(
    nest: NestTable,
    machine: MachineTable,
    published: bool,
    factors: np.ndarray,
    orders: np.ndarray,
    price: np.ndarray,
    counts: np.ndarray,
    exchanged: np.ndarray,
    moved: np.ndarray,
) -> tuple[int, float]:
    """Price a mapping, whether it fits or not; which limit it breaks and its need, as `fits` says.

    `factors` are rows of DRAM, scratchpad, register file and space by loop, `orders` rows of DRAM and scratchpad, the
    outermost loop first. Fills the columns of `price`, `counts`, and of what is exchanged and moved, by operand.
    """
    dram, spm, rf, spatial = factors[0], factors[1], factors[2], factors[3]
    loops, operands = len(nest.extents), len(nest.operands)
    pass_tile, tile = np.empty(loops, np.int64), np.empty(loops, np.int64)
    passes = tiles = fresh_passes = 1
    first_passes = first_tiles = 1.0
    exact = True
    for i in range(loops):
        pass_tile[i] = rf[i] * spatial[i]
        tile[i] = min(spm[i] * pass_tile[i], nest.extents[i])
        exact = exact and dram[i] * spm[i] * pass_tile[i] == nest.extents[i]
        passes *= spm[i]
        tiles *= dram[i]
        if nest.indexed[operands - 1, i]:
            first_passes *= -(-nest.extents[i] // pass_tile[i])
            first_tiles *= dram[i]
            fresh_passes *= spm[i]
    compute = pass_cycles(nest, machine, published, rf)
    sums, hops = exchange(nest, machine, published, rf, spatial, exchanged)
    if not exact:
        hops = mean_exchange(nest, rf, spatial, machine.multicast, exchanged)
    transfer(nest, machine, published, tile, dram, moved)
    stays = np.empty((2, operands + 1, 2), np.int64)
    runs, exchanges = np.empty((operands + 1, loops), np.int64), np.empty(operands)
    runs_of(nest, dram, orders[0], runs, stays[MEMORY])
    runs_of(nest, spm, orders[1], runs, stays[SCRATCHPAD])
    exchanges_of(nest, pass_tile, dram, runs, exchanges)
    work = Pass(compute, sums, hops, exchanged)
    counted = Tiles(passes, tiles, first_passes, fresh_passes, first_tiles, moved)
    combine(nest, machine, published, work, counted, stays, exchanges, price, counts)
    return fits(nest, machine, rf, spatial, tile)

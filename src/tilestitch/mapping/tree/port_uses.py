"""Which ports the crossings of operands occupy, and for how long, compiled: of memories, networks and DMA engines.

Cycles are those of `OperandOnTree.ways`, of both directions together.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tilestitch.base.jit import lending
from tilestitch.mapping.tree.crossings import OperandOnTree, PortNumber
from tilestitch.mapping.tree.quick_arrays import READ_FLOWS, RESULT_FLOWS, Arrays, Placed
from tilestitch.mapping.tree.quick_prices import around, held_elements


class PortUses(NamedTuple):
    """The ports of operands that move anything, the last of which is the result. Those that are none have -1."""

    number: np.ndarray  # [operand, level, side, 2] ports of memories; sides and directions are those of `Arrays.ports`
    cycles: np.ndarray  # [operand, level, side, 2] of an access of the whole width
    network: np.ndarray  # [operand, crossing, axis] networks of a stated bandwidth
    engine: np.ndarray  # [operand, crossing, engine]
    bits: np.ndarray  # [port] of networks and engines, in a cycle
    setup: np.ndarray  # [port] cycles of an engine for each transfer
    hides: np.ndarray  # [operand, crossing] whether the units may go on meanwhile

    @property
    def many(self) -> int:
        return len(self.bits)


def port_uses(operands: Sequence[OperandOnTree]) -> PortUses:
    """The ports of these operands."""
    tree, count = operands[0].placed.tree, len(operands)
    levels = max(len(one.memories) for one in operands)
    keys: dict[PortNumber, int] = {}
    found = PortUses(
        np.full((count, levels, 2, 2), -1, np.int64),
        np.zeros((count, levels, 2, 2)),
        np.full((count, levels, max(1, len(tree.axes))), -1, np.int64),
        np.full((count, levels, max(1, len(tree.engines))), -1, np.int64),
        np.empty(0),
        np.empty(0, np.int64),
        np.zeros((count, levels), np.bool_),
    )
    bits: dict[int, float] = {}
    setup: dict[int, int] = {}
    for at, one in enumerate(operands):
        home = one.placed.homes[one.number]
        for level, memory in enumerate(one.memories):
            found.hides[at, level] = not one.surely_stops(level)
            for side, flows in enumerate(RESULT_FLOWS if one.is_write else READ_FLOWS):
                for which, flow in enumerate(flows):
                    port = memory.port(home, flow)
                    if port is not None:
                        key = tree.memories.index(memory), memory.ports.index(port)
                        found.number[at, level, side, which] = keys.setdefault(key, len(keys))
                        found.cycles[at, level, side, which] = float(port.width_bits / port.bits_per_cycle)
            for axis, network in one.networks(level):
                if network.bits_per_cycle is not None:
                    number = keys.setdefault((-1 - tree.axes.index(axis), axis.networks.index(network)), len(keys))
                    found.network[at, level, tree.axes.index(axis)] = number
                    bits[number] = float(network.bits_per_cycle)
            for at_engine, engine in enumerate(tree.engines):
                if level > 0 and (engine.inner, engine.outer) == (one.memories[level - 1].name, memory.name):
                    number = keys.setdefault((len(tree.memories) + at_engine, 0), len(keys))
                    found.engine[at, level, at_engine] = number
                    bits[number], setup[number] = float(engine.count * engine.bits_per_cycle), engine.setup_cycles
    ports = range(len(keys))
    return found._replace(
        bits=np.array([bits.get(port, 1.0) for port in ports]),
        setup=np.array([setup.get(port, 0) for port in ports], np.int64),
    )


@lending
def occupy(
    arrays: Arrays, uses: PortUses, placed: Placed, cut: tuple[int, int], tile: np.ndarray, held: float, partial: bool,
    occupied: np.ndarray,
) -> None:  # fmt: skip
    """Write for how many cycles one crossing of an operand at a tile, once, occupies every port at least.

    `cut` are the operand and the crossing, `held` elements in each memory inside, before they are rounded.
    """
    operand, crossing = cut
    is_write = operand == len(arrays.axes) - 1
    occupied[:] = 0.0
    width = arrays.bits[operand, 1 if is_write and not partial else 0]
    ways = 2 if is_write and (partial or (crossing == 0 and not arrays.has_latches)) else 1
    inner = np.rint(held)
    shared = np.rint(held_elements(arrays, placed, operand, crossing + 1, tile))
    outer = around(arrays, placed, operand, crossing, inner, shared) * width
    inner *= width
    for end in range(2 if crossing > 0 else 1):
        level = crossing - end
        for which in range(ways):
            port = uses.number[operand, level, end, which]
            if port >= 0:
                granule, wide = arrays.ports[operand, level, end, 2 * which : 2 * which + 2]
                accesses = np.ceil(np.ceil((inner if end == 1 else outer) / granule) * granule / wide)
                occupied[port] += np.ceil(accesses * uses.cycles[operand, level, end, which] - 1e-9)
    for axis in range(uses.network.shape[2]):
        port = uses.network[operand, crossing, axis]
        if port >= 0:
            occupied[port] += ways * np.ceil(outer / uses.bits[port] - 1e-9)
    for engine in range(uses.engine.shape[2]):
        port = uses.engine[operand, crossing, engine]
        if port >= 0 and inner > 0:
            occupied[port] += ways * (uses.setup[port] + np.ceil(inner / uses.bits[port] - 1e-9))

"""The DRAM behind the DMA queue: how long a request takes there.

The simulator asks `dram_cycles` once for each contiguous run, in the order in which the runs are issued, with its
address and with the cycle in which DMA begins it. A model with banks keeps what it has to remember in `state`.
"""

import numpy as np

from tilestitch.base.jit import lending
from tilestitch.hardware.array_machine import ArrayMachine

# Columns of the table of a flat memory: the DMA's set-up and cycles a byte, in parts of a cycle, and the latency.
SETUP, PER_BYTE, PARTS, LATENCY = range(4)


def flat_dram(machine: ArrayMachine) -> np.ndarray:
    """Set-up once a run, a rate, and a latency, whatever the addresses."""
    latency = machine.micro.dram_latency_cycles
    setup = machine.dma_setup_cycles.limit_denominator(1000)
    rate = machine.dma_cycles_per_byte
    per_byte = 1 / (1 / rate).limit_denominator(1000) if 0 < rate < 1 else rate.limit_denominator(1000)
    parts = int(np.lcm(setup.denominator, per_byte.denominator))
    return np.array([int(setup * parts), int(per_byte * parts), parts, latency], np.int64)


@lending
def dram_cycles(table: np.ndarray, state: np.ndarray, address: int, size: int, stores: bool, now: int) -> int:
    """Cycles of one request of `size` bytes from byte `address` on that DMA begins in cycle `now`."""
    return -(-(table[SETUP] + table[PER_BYTE] * size) // table[PARTS]) + table[LATENCY]

"""The energy of a simulated mapping, from the events that were counted."""

from dataclasses import dataclass

import numpy as np

from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.sim.array.runner import ArrayRun
from tilestitch.sim.array.tally import COLLECTED, DELIVERED, HOPS, LOADED, READ, STORED, WRITTEN


@dataclass(frozen=True, slots=True)
class ArrayEnergy:
    """Picojoules by component."""

    mac_pj: float
    rf_pj: float
    noc_pj: float
    spm_pj: float
    dram_pj: float

    @property
    def total_pj(self) -> float:
        return self.mac_pj + self.rf_pj + self.noc_pj + self.spm_pj + self.dram_pj

    @property
    def components(self) -> dict[str, float]:
        return {
            "mac": self.mac_pj,
            "rf": self.rf_pj,
            "noc": self.noc_pj,
            "spm": self.spm_pj,
            "dram": self.dram_pj,
        }


def energy_of(run: ArrayRun, machine: ArrayMachine) -> ArrayEnergy:
    """What the counted events take.

    An iteration reads a register of every operand, writes one of the result, multiplies and adds. A word between
    scratchpad and elements takes a scratchpad access once, and a network and a register for each element that it
    reaches or comes from; a word of partial sums from element to element three registers, a network and an addition; a
    word of DMA an access of DRAM and one of the scratchpad.
    """
    size = np.array(run.geometry.element_bits) / 8

    def bytes_of(first: int) -> float:
        return float(run.counts[first : first + len(size)] @ size)

    macs, hops = float(run.macs), float(run.counts[HOPS])
    at_elements = bytes_of(DELIVERED) + bytes_of(COLLECTED)
    by_dma = bytes_of(LOADED) + bytes_of(STORED)
    summed = hops * size[-1]
    registers = macs * (size.sum() + size[-1]) + at_elements + 3 * summed
    return ArrayEnergy(
        (macs + hops) * machine.mac_pj,
        float(registers * machine.register_pj_per_byte),
        float((at_elements + summed) * machine.network_pj_per_byte),
        (bytes_of(READ) + bytes_of(WRITTEN) + by_dma) * machine.scratchpad_pj_per_byte,
        by_dma * machine.dram_pj_per_byte,
    )

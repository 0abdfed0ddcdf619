"""The price of one mapping: latency, energy by component, and how often every operand moves; all estimated."""

from dataclasses import dataclass

import numpy as np

from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.ir.choices import CostMode
from tilestitch.ir.loop_nest import LoopMapping, LoopNest
from tilestitch.mapping.parts import DELIVERED, SHARED, WORDS
from tilestitch.mapping.price import (
    DRAM,
    ENERGY,
    EXCHANGES,
    LOADS,
    MAC,
    NOC,
    PRICED,
    RF,
    SPM,
    STORES,
    TIME,
)
from tilestitch.mapping.tables import machine_table, nest_table
from tilestitch.mapping.whole import price_mapping


@dataclass(frozen=True, slots=True)
class Accesses:
    """Words of one operand that move in all; between elements and scratchpad a word may reach several elements."""

    operand: str
    network_words: float  # delivered to elements, or taken from them
    scratchpad_words: float  # read or written for them
    dram_load_words: float
    dram_store_words: float


@dataclass(frozen=True, slots=True)
class Priced:
    """What a mapping costs on a machine. `misfit` says why it does not fit, and is empty where it does."""

    cycles: int
    energy_pj: float
    mac_pj: float
    rf_pj: float
    noc_pj: float
    spm_pj: float
    dram_pj: float
    accesses: tuple[Accesses, ...]
    misfit: str

    @property
    def edp(self) -> float:
        return self.cycles * self.energy_pj

    @property
    def components(self) -> dict[str, float]:
        """Picojoules by component."""
        return {
            "mac": self.mac_pj,
            "rf": self.rf_pj,
            "noc": self.noc_pj,
            "spm": self.spm_pj,
            "dram": self.dram_pj,
        }


class Pricer:
    """Prices mappings of one nest on one machine; the tables that this needs are made once."""

    def __init__(self, nest: LoopNest, machine: ArrayMachine, mode: CostMode = CostMode.DEFAULT) -> None:
        self.nest, self.machine, self.mode = nest, machine, mode
        self._nest, self._machine = nest_table(nest, machine), machine_table(machine)
        operands = len(nest.operands)
        self._price, self._counts = np.empty(PRICED), np.empty((operands, 3))
        self._exchanged, self._moved = np.empty((operands, 3)), np.empty((operands, 2))

    def __call__(self, mapping: LoopMapping) -> Priced:
        """Price a mapping, whether it fits or not."""
        price, counts, exchanged, moved = self._price, self._counts, self._exchanged, self._moved
        limit, need = price_mapping(
            self._nest,
            self._machine,
            self.mode is CostMode.PUBLISHED,
            np.array([mapping.dram, mapping.spm, mapping.rf, mapping.spatial], np.int64),
            np.array([mapping.dram_order, mapping.spm_order], np.int64),
            price,
            counts,
            exchanged,
            moved,
        )
        accesses = tuple(
            Accesses(
                operand.name,
                float(counts[k, EXCHANGES] * exchanged[k, DELIVERED]),
                float(counts[k, EXCHANGES] * exchanged[k, SHARED]),
                float(counts[k, LOADS] * moved[k, WORDS]),
                float(counts[k, STORES] * moved[k, WORDS]),
            )
            for k, operand in enumerate(self.nest.operands)
        )
        return Priced(
            int(price[TIME]),
            float(price[ENERGY]),
            float(price[MAC]),
            float(price[RF]),
            float(price[NOC]),
            float(price[SPM]),
            float(price[DRAM]),
            accesses,
            _misfit(self.machine, int(limit), int(need)),
        )


def price(nest: LoopNest, machine: ArrayMachine, mapping: LoopMapping, mode: CostMode = CostMode.DEFAULT) -> Priced:
    """The price of one mapping."""
    return Pricer(nest, machine, mode)(mapping)


def _misfit(machine: ArrayMachine, limit: int, need: int) -> str:
    if limit == 0:
        return ""
    what, room = (
        ("elements", machine.elements),
        ("bytes of a register file", machine.register_bytes),
        ("banks of the scratchpad", machine.banks),
        ("bytes of the scratchpad", machine.scratchpad_bytes),
    )[limit - 1]
    return f"needs {need:,} {what}, has {room:,}"

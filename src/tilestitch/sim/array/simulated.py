"""A mapping simulated and its values checked: what the user of the simulator gets."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tilestitch.base.errors import InvalidIR
from tilestitch.base.shown import Brief
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.ir.choices import Values
from tilestitch.ir.loop_nest import LoopMapping, LoopNest
from tilestitch.sim.array.energy import ArrayEnergy, energy_of
from tilestitch.sim.array.plan import NETWORKS
from tilestitch.sim.array.runner import ArrayRun, run_mapping
from tilestitch.sim.array.tally import (
    CAUSES,
    COLLECTED,
    COMPUTE,
    DELIVERED,
    DMA_BUSY,
    DMA_REQUESTS,
    HOPS,
    LOADED,
    NETWORK_BUSY,
    NETWORK_CONFLICTS,
    NETWORK_FULL,
    NETWORK_WORDS,
    READ,
    REPEATED,
    SLOTS,
    STORED,
    WRITTEN,
)
from tilestitch.sim.array.values import computed, random_operands, rounding_bound

# What the array did or waited for, in the order of the counts.
CAUSE_NAMES = (
    "compute",
    "inputs",
    "drain",
    "partial_sums",
    "results",
    "dma_load",
    "dma_results",
    "first_load",
    "last_store",
)
NETWORK_NAMES = {
    3: ("first read", "other reads", "result"),
    2: ("", "reads", "result"),
    1: ("all", "", ""),
}


@dataclass(frozen=True, slots=True)
class NetworkUse:
    """One network: words, cycles with a word, cycles in which a bank or a full FIFO held words up."""

    name: str
    words: int
    busy_cycles: int
    conflict_cycles: int
    fifo_full_cycles: int


@dataclass(frozen=True, slots=True)
class OperandUse:
    """Words of one operand, by where they go."""

    operand: str
    read_words: int  # of the scratchpad, for the networks
    written_words: int
    delivered_words: int  # to elements; a word may reach several
    collected_words: int  # from elements
    loaded_words: int  # from DRAM
    stored_words: int


@dataclass(frozen=True, repr=False)
class SimulatedMapping(Brief):
    """A mapping on a machine, as the simulator ran it. Where values were computed they were right."""

    machine: ArrayMachine
    values: Values
    extrapolated: bool  # slots that repeat were not simulated again
    run: ArrayRun
    energy: ArrayEnergy

    @property
    def cycles(self) -> int:
        return self.run.cycles

    @property
    def utilization(self) -> float:
        """Of all elements of the machine."""
        return self.run.macs / self.machine.elements / self.cycles

    @property
    def cycles_by_cause(self) -> dict[str, int]:
        """Cycles of the whole array; they add up to all."""
        return dict(zip(CAUSE_NAMES, self.run.counts[:CAUSES].tolist(), strict=True))

    @property
    def element_busy_cycles(self) -> np.ndarray:
        """Of each element that the mapping uses: a multiply-accumulate each."""
        return self.run.busy

    @property
    def element_rest_cycles(self) -> np.ndarray:
        """Of each element: instructions are issued, and it has none to execute, or waits for its own adder."""
        return self.run.counts[COMPUTE] - self.run.busy

    @property
    def networks(self) -> tuple[NetworkUse, ...]:
        """Those that the machine has."""
        names = NETWORK_NAMES[self.machine.networks]
        firsts = (NETWORK_WORDS, NETWORK_BUSY, NETWORK_CONFLICTS, NETWORK_FULL)
        return tuple(
            NetworkUse(names[at], *(int(self.run.counts[first + at]) for first in firsts))
            for at in range(NETWORKS)
            if names[at]
        )

    def network_of(self, operand: int) -> int:
        """The number of the network that an operand goes over."""
        role = 2 if operand == len(self.run.geometry.nest.reads) else min(operand, 1)
        return {3: role, 2: 2 if role == 2 else 1, 1: 0}[self.machine.networks]

    @property
    def operands(self) -> tuple[OperandUse, ...]:
        firsts = (READ, WRITTEN, DELIVERED, COLLECTED, LOADED, STORED)
        return tuple(
            OperandUse(operand.name, *(int(self.run.counts[first + at]) for first in firsts))
            for at, operand in enumerate(self.run.geometry.nest.operands)
        )

    @property
    def hop_words(self) -> int:
        """Words of partial sums from element to element."""
        return int(self.run.counts[HOPS])

    @property
    def slots(self) -> int:
        return int(self.run.counts[SLOTS])

    @property
    def repeated_slots(self) -> int:
        """Those that were not simulated again."""
        return int(self.run.counts[REPEATED])

    @property
    def dma_busy_cycles(self) -> int:
        """Of all channels."""
        return int(self.run.counts[DMA_BUSY])

    @property
    def dma_requests(self) -> int:
        return int(self.run.counts[DMA_REQUESTS])

    @property
    def dma_occupancy(self) -> float:
        """The share of the time in which a channel moves something, over all channels."""
        return self.dma_busy_cycles / self.machine.dma_channels / self.cycles


def simulate_mapping(
    nest: LoopNest,
    machine: ArrayMachine,
    mapping: LoopMapping,
    *,
    values: Values = Values.INTEGERS,
    extrapolate: bool = False,
    window: tuple[int, int] = (0, 0),
    progress: Callable[[int, int], None] | None = None,
) -> SimulatedMapping:
    """Simulate one mapping on random values and compare what it computes with numpy.

    Integers must be equal, floats within the bound of rounding. With `extrapolate` passes that repeat are not simulated
    again and no values are computed. `window` is as for `run_mapping`. Raises InputError and DoesNotFit for what
    has no schedule, InvalidIR for a wrong result.
    """
    computes = values is not Values.NONE and not extrapolate
    operands = random_operands(nest, values) if computes else None
    run = run_mapping(nest, machine, mapping, operands, every_slot=not extrapolate, window=window, progress=progress)
    if operands is not None and run.result is not None:
        expected = computed(nest, operands)
        allowed = rounding_bound(nest, operands) if values is Values.FLOATS else np.zeros(expected.shape)
        _expect_right(nest, machine, mapping, run.result, expected, allowed)
    return SimulatedMapping(machine, values if computes else Values.NONE, extrapolate, run, energy_of(run, machine))


def _expect_right(
    nest: LoopNest,
    machine: ArrayMachine,
    mapping: LoopMapping,
    found: np.ndarray,
    expected: np.ndarray,
    allowed: np.ndarray,
) -> None:
    right = np.abs(found.astype(expected.dtype) - expected) <= allowed  # a NaN is not
    if not right.all():
        where = np.unravel_index(int(np.argmin(right)), right.shape)
        index = ", ".join(str(int(at)) for at in where)
        factors = "; ".join(
            f"{level} " + " ".join(f"{loop.name}={n}" for loop, n in zip(nest.loops, row, strict=True) if n > 1)
            for level, row in mapping.factors.items()
        )
        raise InvalidIR(
            f"nest {nest.name!r} on {machine.name}: the array computes {found[where]} for {nest.write.name}[{index}], "
            f"numpy {expected[where]} ({int((~right).sum()):,} of {right.size:,} results are wrong); its mapping: "
            f"{factors}; orders {mapping.dram_order} and {mapping.spm_order}"
        )

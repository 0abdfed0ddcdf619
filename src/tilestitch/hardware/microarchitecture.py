"""What a cycle-level simulation of an array of processing elements needs to know of it."""

from dataclasses import dataclass
from enum import StrEnum


class Controller(StrEnum):
    """How the controller of an array of processing elements lets passes overlap."""

    OVERLAPPED = "overlapped"  # the next pass and the next tile come while this one is worked on, across tiles as well
    DIRAC = "dirac"  # DiRAC's rules: every tile of the scratchpad has two passes more, to fill and to drain


class ScratchpadLayout(StrEnum):
    """Where the words of an operand lie in its banks."""

    INTERLEAVED = "interleaved"  # rows of a port go round the banks
    BLOCKED = "blocked"  # a bank is filled before the next


@dataclass(frozen=True, slots=True)
class Microarchitecture:
    """What an array of processing elements takes beyond its arithmetic and the words that it moves, cycle by cycle.

    The defaults are those of DiRAC's bundled tests, but for the controller; results are in one buffer, as dMazeRunner
    (TECS 2019) has it: while they go, the array stops.
    """

    controller: Controller = Controller.OVERLAPPED
    multiplier_stages: int = 2
    adder_stages: int = 1
    double_buffered: tuple[bool, bool, bool] = (True, True, False)  # registers of the first, other reads, result
    network_latency_cycles: int = 2  # of the row's and the column's controller; at least 1
    fifo_words: int = 2  # between a network and a register file
    register_writes_per_cycle: int | None = None  # that a FIFO empties; None: as many words as the network brings
    instruction_words: int | None = None  # of one element; None: loops in hardware, for passes of any length
    configuration_words: int = 4  # for each multicast controller, of which every row and every element has one
    scratchpad_ports: int = 2  # of a bank: one to read and one to write; 1: one for both
    scratchpad_port_bytes: int = 2
    scratchpad_layout: ScratchpadLayout = ScratchpadLayout.INTERLEAVED
    dram_latency_cycles: int = 0  # of each contiguous run, beside the set-up of its DMA

    @property
    def pipeline_stages(self) -> int:
        """Fetch, decode, register read, multiplier, adder, register write."""
        return 4 + self.multiplier_stages + self.adder_stages

    @property
    def drain_cycles(self) -> int:
        """From the cycle in which the last instruction is fetched until its sum is in the register file."""
        return self.pipeline_stages - 1

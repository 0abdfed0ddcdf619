"""What happened when: the result of simulating a program."""

from dataclasses import dataclass

import numpy as np

from tilestitch.base.shown import Brief
from tilestitch.ir.program import Program


@dataclass(frozen=True, repr=False)
class Trace(Brief):
    """Start and end of every instruction, in ticks of exactly 1/`ticks_per_cycle` cycle."""

    program: Program
    ticks_per_cycle: int
    start_ticks: np.ndarray  # int64
    end_ticks: np.ndarray  # int64
    resource_busy_ticks: np.ndarray  # int64, per resource of the program
    resource_bytes: np.ndarray  # int64, per resource, bursts included

    @property
    def latency_cycles(self) -> int:
        """Cycles until the last instruction has ended, rounded up."""
        return -(-int(self.end_ticks.max(initial=0)) // self.ticks_per_cycle)


@dataclass(frozen=True, repr=False)
class Sharing(Brief):
    """What other transfers at the same resources did to each transfer."""

    delay_ticks: np.ndarray  # int64, per instruction: by how much it would have been shorter without them
    behind: np.ndarray  # int64: the instruction that was served before it in the longest of these delays, or -1

    def of_cluster(self, number: int, clusters: int) -> "Sharing":
        """That of one of several copies of a program on one DDR; what other copies do has no instruction."""
        length = len(self.behind) // clusters
        own = slice(number * length, (number + 1) * length)
        behind = self.behind[own] - number * length
        return Sharing(self.delay_ticks[own], np.where((behind < 0) | (behind >= length), -1, behind))


def slowest(whole: Trace, clusters: int) -> int:
    """Which of several copies of a program on one DDR ends last, the first of several."""
    ends = whole.end_ticks.reshape(clusters, -1).max(axis=1)
    return int(ends.argmax())


def slowest_cluster(whole: Trace, program: Program) -> Trace:
    """Of a trace of several copies of `program` on one DDR, the copy that ends last.

    Bytes of the shared port are an equal share of all; its occupied time is that of all.
    """
    length = len(program)
    clusters = len(whole.program) // length
    last = slowest(whole, clusters)
    own = slice(last * length, (last + 1) * length)
    resources = len(program.resources) - 1
    kept = [0, *range(1 + last * resources, 1 + (last + 1) * resources)]
    size_bytes = whole.resource_bytes[kept]
    size_bytes[0] //= clusters
    return Trace(
        program,
        whole.ticks_per_cycle,
        whole.start_ticks[own],
        whole.end_ticks[own],
        whole.resource_busy_ticks[kept],
        size_bytes,
    )

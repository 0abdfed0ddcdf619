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


def slowest_cluster(whole: Trace, program: Program) -> Trace:
    """Of a trace of several copies of `program` on one DDR, the copy that ends last.

    Bytes of the shared port are an equal share of all; its occupied time is that of all.
    """
    length = len(program)
    clusters = len(whole.program) // length
    slowest = max(range(clusters), key=lambda c: (int(whole.end_ticks[c * length : (c + 1) * length].max()), -c))
    own = slice(slowest * length, (slowest + 1) * length)
    resources = len(program.resources) - 1
    kept = [0, *range(1 + slowest * resources, 1 + (slowest + 1) * resources)]
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

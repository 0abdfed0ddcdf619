"""A plan of fused blocks that was compiled and simulated, block by block."""

from dataclasses import dataclass

import numpy as np

from tilestitch.base.shown import Brief
from tilestitch.ir.report import Report
from tilestitch.partition.blocks.model import PICOSECONDS
from tilestitch.pipeline.compilation import Compilation


@dataclass(frozen=True, repr=False)
class Simulated(Brief):
    """What the program of a plan took; times in picoseconds."""

    report: Report
    latency_ps: int
    blocks_ps: tuple[int, ...]  # of each block of the plan, from its launch to its last instruction; of views alone 0


def simulated(done: Compilation, blocks: int) -> Simulated:
    """The times of a simulated compilation by a plan of so many blocks. They add up to the latency.

    A block waits for all that came before, so that none overlaps another; of several iterations the times are added.
    """
    assert done.schedule is not None
    assert done.trace is not None
    assert done.report is not None
    trace, program = done.trace, done.trace.program
    block_of = np.full(len(done.schedule.kernels), -1)
    for run in done.schedule.blocks:
        block_of[run.first : run.last + 1] = run.number
    ticks = np.zeros(blocks, np.int64)
    groups = program.iteration.astype(np.int64) * blocks + block_of[program.kernel]
    for group in np.unique(groups).tolist():
        inside = groups == group
        ticks[group % blocks] += trace.end_ticks[inside].max() - trace.start_ticks[inside].min()
    per_tick = PICOSECONDS / (done.machine.clock_hz * trace.ticks_per_cycle)
    latency = done.report.latency_cycles * PICOSECONDS // done.machine.clock_hz
    return Simulated(done.report, latency, tuple(round(count * per_tick) for count in ticks.tolist()))

"""What a simulated run waited for: its gap to the bound, and every idle time of its engines."""

from tilestitch.blame.gap import blame
from tilestitch.blame.idle import idle_times
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.ir.gap import Blame
from tilestitch.ir.idle import Idle
from tilestitch.ir.report import Report
from tilestitch.ir.schedule import Schedule
from tilestitch.ir.trace import Sharing, Trace, slowest
from tilestitch.lower.clusters import share_ddr
from tilestitch.sim.chip.timing import sharing, simulate


def blame_of(report: Report, schedule: Schedule, trace: Trace, machine: Accelerator) -> Blame:
    """All that the gap of a run is made of.

    Where clusters share a DDR, what they do to one another is in a simulation of all of them; a gap to the bound of
    that DDR is taken from there as a whole.
    """
    sharers = _sharers(schedule, machine)
    if sharers > 1 and report.traffic_bound_cycles == report.bound_cycles:
        every = share_ddr(trace.program, sharers)
        return blame(simulate(every), sharing(every), machine, sharers=sharers)
    return blame(trace, _sharing(schedule, trace, machine), machine, sharers=sharers)


def idle_of(schedule: Schedule, trace: Trace, machine: Accelerator) -> Idle:
    """Every idle time of every engine of a run, with its cause."""
    return idle_times(trace, _sharing(schedule, trace, machine))


def _sharers(schedule: Schedule, machine: Accelerator) -> int:
    return 1 if machine.private_ddr else schedule.clusters


def _sharing(schedule: Schedule, trace: Trace, machine: Accelerator) -> Sharing:
    """What other transfers did to those of the cluster that the trace is of, those of other clusters among them."""
    sharers = _sharers(schedule, machine)
    if sharers == 1:
        return sharing(trace.program)
    every = share_ddr(trace.program, sharers)
    return sharing(every).of_cluster(slowest(simulate(every), sharers), sharers)

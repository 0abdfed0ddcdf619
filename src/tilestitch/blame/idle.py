"""Every idle time of every engine with its cause."""

import numpy as np

from tilestitch.blame.purpose import MOVES, Purpose, purposes
from tilestitch.blame.waits import Critical, Tie, critical_waits
from tilestitch.blame.walk import Waited, engine_lanes, walked
from tilestitch.ir.idle import CAUSES, Cause, Idle
from tilestitch.ir.program import Kind
from tilestitch.ir.trace import Sharing, Trace


def idle_times(trace: Trace, sharing: Sharing) -> Idle:
    """Every idle time of every engine, from the start of the program to its end, cut where its cause changes.

    An engine waits for room where what it waits for still uses the memory, or is a transfer that began only when its
    place was free. It waits for a port where a transfer was delayed by others at its ports for more than half of the
    time in which its bytes flowed.
    """
    program = trace.program
    critical = critical_waits(trace)
    rows = walked(trace, critical, engine_lanes(trace, range(len(program.engines))))
    cause = _causes(trace, sharing, critical, purposes(program), rows)
    return Idle(program, rows.lane, rows.begin, rows.end, rows.waiting, rows.waited_for, rows.follower, cause)


def waits_for_room(trace: Trace, critical: Critical, inward: np.ndarray, rows: Waited) -> np.ndarray:
    """Which times would begin earlier if there were room: see `idle_times`."""
    tie = np.append(critical.tie, Tie.NONE)  # for the end of the program, which is -1
    moves = np.isin(trace.program.kind, MOVES)
    late = (critical.tie == Tie.ROOM) & moves & inward
    return (tie[rows.follower] == Tie.ROOM) | late[rows.waited_for]


def _causes(trace: Trace, sharing: Sharing, critical: Critical, purpose: Purpose, rows: Waited) -> np.ndarray:
    program, what = trace.program, rows.waited_for
    kind = program.kind[what]
    flow = trace.end_ticks - trace.start_ticks - program.cycles * trace.ticks_per_cycle
    moves = np.isin(kind, MOVES)
    cause = np.where(purpose.inward[what], CAUSES.index(Cause.LOAD), CAUSES.index(Cause.STORE)).astype(np.int8)
    cause[moves & (2 * sharing.delay_ticks[what] > flow[what])] = CAUSES.index(Cause.PORT)
    cause[kind == Kind.COMPUTE] = CAUSES.index(Cause.ENGINE)
    cause[kind == Kind.LAUNCH] = CAUSES.index(Cause.LAUNCH)
    cause[waits_for_room(trace, critical, purpose.inward, rows)] = CAUSES.index(Cause.ROOM)
    cause[rows.waiting < 0] = CAUSES.index(Cause.DONE)
    return cause

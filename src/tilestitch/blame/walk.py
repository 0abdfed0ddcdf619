"""Idle times walked back along the waits that were critical."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tilestitch.base.arrays import copy_rows
from tilestitch.base.jit import tiered
from tilestitch.blame.waits import Critical
from tilestitch.ir.trace import Trace


class Lanes(NamedTuple):
    """When some engines or ports were at work: for each lane disjoint times, in their order."""

    offsets: np.ndarray  # of the times of each lane, one more than lanes
    instruction: np.ndarray  # with which a time begins
    begin: np.ndarray
    end: np.ndarray


class Waited(NamedTuple):
    """Idle times, each cut into what ran meanwhile; by lane, then by time."""

    lane: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    waiting: np.ndarray  # the instruction with which the lane goes on, -1 behind its last time
    waited_for: np.ndarray
    follower: np.ndarray  # what waited for `waited_for`: an instruction, -1 for the end of the program


def engine_lanes(trace: Trace, engines: Sequence[int]) -> Lanes:
    """The instructions of some engines."""
    program = trace.program
    lane_of = np.full(len(program.engines), -1, np.int64)
    lane_of[list(engines)] = np.arange(len(engines))
    lane = lane_of[program.engine]
    order = np.argsort(lane, kind="stable")  # within an engine the program's order is that of time
    order = order[np.searchsorted(lane[order], 0) :]
    offsets = np.searchsorted(lane[order], np.arange(len(engines) + 1))
    return Lanes(offsets, order, trace.start_ticks[order], trace.end_ticks[order])


def port_lane(trace: Trace, transfers: np.ndarray, begin: np.ndarray) -> Lanes:
    """One lane of all times in which bytes of some transfers flow, the first of which is at `begin`."""
    order = np.lexsort((transfers, begin))
    first, last = begin[order], np.maximum.accumulate(trace.end_ticks[transfers[order]], dtype=np.int64)
    opens = np.ones(len(order), bool)
    opens[1:] = first[1:] > last[:-1]
    heads = np.flatnonzero(opens)
    tails = np.append(heads[1:], len(order)) - 1 if len(heads) else heads
    return Lanes(np.array([0, len(heads)]), transfers[order][heads], first[heads], last[tails])


def walked(trace: Trace, critical: Critical, lanes: Lanes) -> Waited:
    """Who ran in the idle times of lanes, from the start of the program to its end.

    From what ends an idle time, the walk goes to the instruction that it waited for, from there to the one that this
    one waited for, and so on, as long as they run in the idle time. Each wait begins when the next one ends, so the
    times that are found are without holes.
    """
    total = int(trace.end_ticks.max(initial=0))
    last = int(np.argmax(trace.end_ticks)) if len(trace.end_ticks) else -1
    rows = _walked(lanes, critical.instruction, trace.start_ticks, total, last)
    rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
    return Waited(*(np.ascontiguousarray(column) for column in rows.T))


@tiered
def _walked(lanes: Lanes, critical: np.ndarray, start: np.ndarray, total: int, last: int) -> np.ndarray:
    """Rows of `Waited`, the times of a gap from the last to the first."""
    rows, found = np.empty((1024, 6), np.int64), 0
    for lane in range(len(lanes.offsets) - 1):
        idle_from = 0
        for at in range(lanes.offsets[lane], lanes.offsets[lane + 1] + 1):
            behind = at == lanes.offsets[lane + 1]
            waiting = -1 if behind else lanes.instruction[at]
            until = total if behind else lanes.begin[at]
            now = last if behind else waiting
            follower = -1
            while until > idle_from and now >= 0:
                begin = max(idle_from, start[now])
                if begin < until:
                    if found == len(rows):
                        longer = np.empty((2 * found, 6), np.int64)
                        copy_rows(longer, rows)
                        rows = longer
                    rows[found, 0], rows[found, 1], rows[found, 2] = lane, begin, until
                    rows[found, 3], rows[found, 4], rows[found, 5] = waiting, now, follower
                    found += 1
                    until = begin
                follower, now = now, critical[now]
            if not behind:
                idle_from = lanes.end[at]
    return rows[:found]

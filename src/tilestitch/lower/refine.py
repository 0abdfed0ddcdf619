"""A program's order of instructions made better by its own simulation, back and forth.

Source: Valls, Ballestin and Quintanilla, Justification and RCPSP: a technique that pays, European Journal of
Operational Research 165, 2005. A schedule is moved to the right, from its end: of what could end next, backwards, an
engine takes what had ended last. Then it is moved to the left in the same way. What stands between two instructions
and is not needed there disappears. How long each takes is that of the last simulation, as transfers share ports.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from tilestitch.ir.program import Program
from tilestitch.ir.trace import Trace
from tilestitch.lower.dependences import Dependences
from tilestitch.lower.hazards import corners
from tilestitch.lower.moved import with_buffers_moved
from tilestitch.lower.reorder import Waiting, in_order, list_schedule, needs_of, scheduled, waiting


class Depth(NamedTuple):
    """How much is tried."""

    rounds: int  # back and forth, of each order that is begun with, at most
    moved: int  # how often buffers get other places at most


FULL = Depth(12, 5)
PATIENCE = 4  # rounds in which an order does not get faster, after which it is left
MOST_MOVED = 200_000  # instructions of all moves together, but for the first: in long programs they gain less
GLIMPSE = Depth(2, 1)  # a tenth of the time: which of several programs will be the fastest, it says nearly always
# How long gaps are looked for, in instructions that begin meanwhile on average: the next one where one finds nothing.
HORIZONS = (250, 32)


class _Found(NamedTuple):
    """The fastest program so far, with its trace, and the horizons that are left."""

    program: Program
    trace: Trace
    horizons: tuple[int, ...]

    @property
    def latency_cycles(self) -> int:
        """Of the program."""
        return self.trace.latency_cycles


def refined(
    program: Program,
    trace: Trace,
    run: Callable[[Program], Trace],
    boxes: tuple[np.ndarray, np.ndarray] | None = None,
    depth: Depth = FULL,
) -> tuple[Program, Trace] | None:
    """The program in the fastest order that was found, with its trace; None where none is faster than it is.

    `trace` is that of the program as it is, `run` simulates one in another order, and `boxes` are the corners of its
    regions, where known. As long as that helps, buffers get other places by the fastest order, and the program another
    order with these. An order that was made better for long may go too well with the first places to leave them: so
    what a glimpse finds is gone on from instead, where that is faster once buffers have moved.
    """
    boxes = corners(program.regions) if boxes is None else boxes
    known = needs_of(program, boxes)
    if known is None:
        return None
    length, moves = len(program) // program.iterations, min(depth.moved, max(1, MOST_MOVED // len(program)))
    horizons = tuple(int(trace.end_ticks[:length].max()) * count // length for count in HORIZONS)
    begun = list[_Found]()
    shorter = (GLIMPSE.rounds,) if moves else ()  # without moves they are the first steps of the longer ones
    for rounds in dict.fromkeys((depth.rounds, *shorter)):
        better = _in_better_order(program, trace, run, known, rounds)
        now = _Found(*(better or (program, trace)), horizons)
        begun.append(_moved(now, run, boxes, rounds, min(1, moves)))
    found = _moved(min(begun, key=attrgetter("latency_cycles")), run, boxes, depth.rounds, moves - 1)
    return (found.program, found.trace) if found.latency_cycles < trace.latency_cycles else None


def _moved(
    now: _Found, run: Callable[[Program], Trace], boxes: tuple[np.ndarray, np.ndarray], rounds: int, moves: int
) -> _Found:
    """What is faster with buffers at other places, so often: each time from what the one before found."""
    for _ in range(moves):
        if not now.horizons:
            break
        moved = with_buffers_moved(now.program, now.trace, now.horizons[0])
        known = None if moved is None else needs_of(moved, boxes)
        found = None
        if moved is not None and known is not None:
            found = _in_better_order(moved, now.trace, run, known, rounds)
        now = now._replace(horizons=now.horizons[1:]) if found is None else _Found(*found, now.horizons)
    return now


def _in_better_order(
    program: Program, trace: Trace, run: Callable[[Program], Trace], known: Dependences, rounds: int
) -> tuple[Program, Trace] | None:
    """The program in an order that is faster than `trace`, with its trace; None where none was found.

    Two orders are begun with: that of the longest paths, and the program's own, both as list schedules.
    """
    length = len(program) // program.iterations
    engine = program.engine[:length].astype(np.int64)
    ticks = (trace.end_ticks - trace.start_ticks)[:length]
    forward = waiting(known.needs, known.ends)
    backward = _reversed(known, forward)
    own, _ = scheduled(engine, ticks, forward, np.arange(length))
    best: tuple[Program, Trace] | None = None
    for order in (list_schedule(engine, ticks, known), own):
        least, since = np.iinfo(np.int64).max, 0
        for _ in range(rounds):
            other = in_order(program, known, order)
            found = run(other)
            if found.latency_cycles < (trace if best is None else best[1]).latency_cycles:
                best = other, found
            since = 0 if found.latency_cycles < least else since + 1
            if since == PATIENCE:
                break
            least = min(least, found.latency_cycles)
            starts, ends = np.empty(length, np.int64), np.empty(length, np.int64)
            starts[order], ends[order] = found.start_ticks[:length], found.end_ticks[:length]
            order = _back_and_forth(engine, starts, ends, forward, backward)
    return best


def _back_and_forth(
    engine: np.ndarray, starts: np.ndarray, ends: np.ndarray, forward: Waiting, backward: Waiting
) -> np.ndarray:
    """The order of a schedule that was moved to the right and to the left again."""
    ticks = ends - starts
    _, from_end = scheduled(engine, ticks, backward, np.argsort(-ends, kind="stable"))
    order, _ = scheduled(engine, ticks, forward, np.argsort(-(from_end + ticks), kind="stable"))
    return order


def _reversed(known: Dependences, forward: Waiting) -> Waiting:
    """What waits for what if time ran backwards."""
    first = np.concatenate([np.zeros(1, np.int64), known.ends])
    return Waiting(np.diff(forward.offsets), first, known.needs)

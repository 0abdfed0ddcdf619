"""A program's order of instructions made better by its own simulation, back and forth.

Source: Valls, Ballestin and Quintanilla, Justification and RCPSP: a technique that pays, European Journal of
Operational Research 165, 2005. A schedule is moved to the right, from its end: of what could end next, backwards, an
engine takes what had ended last. Then it is moved to the left in the same way. What stands between two instructions
and is not needed there disappears. How long each takes is that of the last simulation, as transfers share ports.
"""

from collections.abc import Callable, Iterator
from itertools import chain
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


FULL = Depth(12, 10)
PATIENCE = 4  # rounds in which an order does not get faster, after which it is left
MOST_MOVED = 800_000  # instructions of all moves together, but for the first: in long programs they gain less
GLIMPSE = Depth(2, 1)  # a tenth of the time: which of several programs will be the fastest, it says nearly always
# How long gaps are looked for, in instructions that begin meanwhile on average, by turns.
HORIZONS = (125, 32, 8)
WALKED = 8  # rounds back and forth of an order that is gone on from with buffers at other places
SLOWER = 0.005  # what takes longer than the fastest by this share is not gone on from


class _Found(NamedTuple):
    """A program and its trace."""

    program: Program
    trace: Trace

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
    regions, where known. Buffers get other places by the fastest order, and the program another order with these. An
    order that was made better for long may go too well with the first places to leave them: so what a glimpse finds is
    gone on from instead, where that is faster once buffers have moved.
    """
    boxes = corners(program.regions) if boxes is None else boxes
    known = needs_of(program, boxes)
    if known is None:
        return None
    begun = list[_Found]()
    shorter = (GLIMPSE.rounds,) if depth.moved else ()  # without moves they are the first steps of the longer ones
    for rounds in dict.fromkeys((depth.rounds, *shorter)):
        now = _in_better_order(_Found(program, trace), program, run, known, rounds)
        if depth.moved:
            now = _moved(now, run, boxes, rounds)
        begun.append(now)
    moves = min(depth.moved - 1, MOST_MOVED // len(program))
    found = _walked(min(begun, key=attrgetter("latency_cycles")), run, boxes, moves)
    return found if found.latency_cycles < trace.latency_cycles else None


def _moved(now: _Found, run: Callable[[Program], Trace], boxes: tuple[np.ndarray, np.ndarray], rounds: int) -> _Found:
    """What is faster with buffers at other places."""
    moved = with_buffers_moved(now.program, now.trace, _horizon_ticks(now, 0))
    known = None if moved is None else needs_of(moved, boxes)
    return now if moved is None or known is None else _in_better_order(now, moved, run, known, rounds)


def _walked(now: _Found, run: Callable[[Program], Trace], boxes: tuple[np.ndarray, np.ndarray], moves: int) -> _Found:
    """The fastest that was found while buffers moved and the order was improved, again and again.

    Each move starts from the one before, also where that made the program a little slower, and looks for gaps of
    another length.
    """
    best = now
    for number in range(1, moves + 1):
        moved = with_buffers_moved(now.program, now.trace, _horizon_ticks(now, number))
        known = None if moved is None else needs_of(moved, boxes)
        if moved is None or known is None:
            continue
        order = _own_order(moved, now.trace, known)
        now = min(_justified(moved, now.trace, run, known, order, WALKED), key=attrgetter("latency_cycles"))
        if now.latency_cycles < best.latency_cycles:
            best = now
        elif now.latency_cycles > (1 + SLOWER) * best.latency_cycles:
            now = best
    return best


def _horizon_ticks(now: _Found, number: int) -> int:
    """How long gaps are looked for; `number` says how often buffers have moved before."""
    length = len(now.program) // now.program.iterations
    return int(now.trace.end_ticks[:length].max()) * HORIZONS[number % len(HORIZONS)] // length


def _in_better_order(
    before: _Found, program: Program, run: Callable[[Program], Trace], known: Dependences, rounds: int
) -> _Found:
    """The program in a better order, or what was there before if no order makes it faster than that.

    Two orders are begun with: that of the longest paths, and the program's own, both as list schedules.
    """
    best, (engine, ticks) = before, _durations(program, before.trace)
    for order in (list_schedule(engine, ticks, known), _own_order(program, before.trace, known)):
        found = _justified(program, before.trace, run, known, order, rounds)
        best = min(chain((best,), found), key=attrgetter("latency_cycles"))
    return best


def _durations(program: Program, trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """The engine of each instruction of an iteration, and how long it takes."""
    length = len(program) // program.iterations
    return program.engine[:length].astype(np.int64), (trace.end_ticks - trace.start_ticks)[:length]


def _own_order(program: Program, trace: Trace, known: Dependences) -> np.ndarray:
    """A list schedule by the order of the program."""
    engine, ticks = _durations(program, trace)
    return scheduled(engine, ticks, waiting(known.needs, known.ends), np.arange(len(engine)))[0]


def _justified(
    program: Program, trace: Trace, run: Callable[[Program], Trace], known: Dependences, order: np.ndarray, rounds: int
) -> Iterator[_Found]:
    """The program in an order, then in what going back and forth makes of it, until that does not get faster."""
    engine, _ = _durations(program, trace)
    forward = waiting(known.needs, known.ends)
    backward = _reversed(known, forward)
    least, since, length = np.iinfo(np.int64).max, 0, len(engine)
    for _ in range(rounds):
        other = in_order(program, known, order)
        found = _Found(other, run(other))
        yield found
        since = 0 if found.latency_cycles < least else since + 1
        if since == PATIENCE:
            return
        least = min(least, found.latency_cycles)
        starts, ends = np.empty(length, np.int64), np.empty(length, np.int64)
        starts[order], ends[order] = found.trace.start_ticks[:length], found.trace.end_ticks[:length]
        order = _back_and_forth(engine, starts, ends, forward, backward)


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

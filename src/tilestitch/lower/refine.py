"""A program's order of instructions made better by its own simulation, back and forth.

Source: Valls, Ballestin and Quintanilla, Justification and RCPSP: a technique that pays, European Journal of
Operational Research 165, 2005. A schedule is moved to the right, from its end: of what could end next, backwards, an
engine takes what had ended last. Then it is moved to the left in the same way. What stands between two instructions
and is not needed there disappears. How long each takes is that of the last simulation, as transfers share ports.
"""

from collections.abc import Callable, Sequence
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


PATIENCE = 4  # rounds in which an order does not get faster, after which it is left
MOST_MOVED = 200_000  # instructions of all moves together, but for the first: in long programs they gain less
GLIMPSE = (Depth(2, 1),)  # a tenth of the time: which of several programs will be the fastest, it says nearly always
# Begins with the glimpse: an order that was made long for the first addresses may go too well with these to leave them.
FULL = (*GLIMPSE, Depth(12, 5))
# How long gaps are looked for, in instructions that begin meanwhile on average: the next one where one finds nothing.
HORIZONS = (250, 32)


def refined(
    program: Program,
    trace: Trace,
    run: Callable[[Program], Trace],
    boxes: tuple[np.ndarray, np.ndarray] | None = None,
    depths: Sequence[Depth] = FULL,
) -> tuple[Program, Trace] | None:
    """The program in the fastest order that was found, with its trace; None where none is faster than it is.

    `trace` is that of the program as it is, `run` simulates one in another order, and `boxes` are the corners of its
    regions, where known. Each depth goes on from what the one before found.
    """
    boxes = corners(program.regions) if boxes is None else boxes
    best: tuple[Program, Trace] | None = None
    for depth in depths:
        now = (program, trace) if best is None else best
        known = needs_of(now[0], boxes)
        if known is None:
            break
        best = _at_depth(*now, run, (known, boxes), depth) or best
    return best


def _at_depth(
    program: Program,
    trace: Trace,
    run: Callable[[Program], Trace],
    facts: tuple[Dependences, tuple[np.ndarray, np.ndarray]],
    depth: Depth,
) -> tuple[Program, Trace] | None:
    """The same with one depth, of a program with its needs and the corners of its regions.

    As long as that helps, buffers get other places by the fastest order, and the program another order with these.
    """
    known, boxes = facts
    best = _in_better_order(program, trace, run, known, depth.rounds)
    length = len(program) // program.iterations
    horizons = [int(trace.end_ticks[:length].max()) * count // length for count in HORIZONS]
    for _ in range(min(depth.moved, max(1, MOST_MOVED // len(program)))):
        now = (program, trace) if best is None else best
        moved = with_buffers_moved(*now, horizons[0])
        needs = None if moved is None else needs_of(moved, boxes)
        found = None
        if moved is not None and needs is not None:
            found = _in_better_order(moved, now[1], run, needs, depth.rounds)
        if found is not None:
            best = found
            continue
        del horizons[0]
        if not horizons:
            break
    return best


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

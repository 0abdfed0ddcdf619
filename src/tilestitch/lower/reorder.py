"""The order in which engines take their instructions, by list scheduling over the whole of a program.

INFERRED: Zhao et al., GraphTurbo, OSDI 2023, schedule instructions across layers and do not say how. Here the
instructions start in the order of a list schedule: of those that are ready, an engine takes the one with the longest
path to the end. How long each takes is given, by a simulation of the program as it was lowered.
"""

import heapq
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tilestitch.base.jit import inlined, inner, tiered
from tilestitch.ir.program import Kind, Program
from tilestitch.lower.dependences import Dependences, dependences
from tilestitch.lower.hazards import corners

MOST_NEEDS = 10_000_000  # of an iteration: beyond, a program keeps its order, because looking takes long


def reordered(
    program: Program, ticks: np.ndarray, boxes: tuple[np.ndarray, np.ndarray] | None = None
) -> Program | None:
    """The program with its instructions in the order of a list schedule, the same in every iteration.

    `ticks` says how long each instruction of an iteration takes, `boxes` the corners of its regions, where known.
    None as for `needs_of`.
    """
    known = needs_of(program, boxes)
    if known is None:
        return None
    engine = program.engine[: len(ticks)].astype(np.int64)
    return in_order(program, known, list_schedule(engine, ticks, known))


def needs_of(program: Program, boxes: tuple[np.ndarray, np.ndarray] | None = None) -> Dependences | None:
    """What the instructions of an iteration wait for, whatever their order.

    None where there is nothing to gain, in a program of many launches, which wait for everything before them; and where
    too much waits for too much.
    """
    length = len(program) // program.iterations
    launches = np.flatnonzero(program.kind[:length] == Kind.LAUNCH)
    if len(launches) != 1 or launches[0] != 0:
        return None
    known = dependences(program, length, corners(program.regions) if boxes is None else boxes, MOST_NEEDS)
    return known if len(known.needs) <= MOST_NEEDS else None


def in_order(program: Program, known: Dependences, order: np.ndarray) -> Program:
    """The program with the instructions of each iteration in some order in which they can run."""
    counts, waits = waits_of(program.engine[: len(order)].astype(np.int64), known, order)
    latest = np.zeros(len(program.engines), np.int64)
    latest[program.engine[order]] = np.arange(len(order))  # of each engine the last one counts
    return _rows_in(program, order, counts, waits, np.sort(latest[latest > 0]))


@tiered
def list_schedule(engine: np.ndarray, ticks: np.ndarray, known: Dependences) -> np.ndarray:
    """The instructions in the order in which they start, each engine taking the ready one of the longest path.

    Instruction 0 is waited for by all.
    """
    length = len(engine)
    needs, ends = known.needs, known.ends
    nodes = len(ends)
    lasts = np.zeros(nodes, np.int64)
    lasts[:length] = ticks
    paths = lasts.copy()
    birth = nodes - 1
    for number in range(length - 1, -1, -1):
        _lengthen(number, needs, ends, lasts, paths)
        while birth >= length and known.born[birth - length] >= number:
            _lengthen(birth, needs, ends, lasts, paths)
            birth -= 1
    ranked = np.argsort(-paths[:length], kind="mergesort")
    order, _ = scheduled(engine, ticks, waiting(needs, ends), ranked)
    return order


class Waiting(NamedTuple):
    """Nodes by what waits for them: those for node i are `following[offsets[i] : offsets[i + 1]]`."""

    missing: np.ndarray  # how many others each node waits for
    offsets: np.ndarray
    following: np.ndarray


@tiered
def waiting(needs: np.ndarray, ends: np.ndarray) -> Waiting:
    """The same needs, from the other end."""
    nodes = len(ends)
    missing, offsets = np.zeros(nodes, np.int64), np.zeros(nodes + 1, np.int64)
    for node in range(nodes):
        first = ends[node - 1] if node else 0
        missing[node] = ends[node] - first
        for at in range(first, ends[node]):
            offsets[needs[at] + 1] += 1
    offsets = offsets.cumsum()
    following, filled = np.empty(len(needs), np.int64), offsets[:-1].copy()
    for node in range(nodes):
        for at in range(ends[node - 1] if node else 0, ends[node]):
            following[filled[needs[at]]] = node
            filled[needs[at]] += 1
    return Waiting(missing, offsets, following)


@tiered
def scheduled(
    engine: np.ndarray, ticks: np.ndarray, known: Waiting, ranked: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A list schedule in which each engine takes the ready instruction that comes first in `ranked`.

    The instructions in the order in which they start, and when each starts.
    """
    length, engines, nodes = len(engine), engine.max() + 1, len(known.missing)
    missing, offsets, following = known.missing.copy(), known.offsets, known.following
    rank = np.empty(length, np.int64)
    for at in range(length):
        rank[ranked[at]] = at
    begins = np.zeros(engines + 1, np.int64)  # of the heap of each engine: ranks of what is ready
    for number in range(length):
        begins[engine[number] + 1] += 1
    begins = begins.cumsum()
    heaps, sizes, busy = np.empty(length, np.int64), np.zeros(engines, np.int64), np.zeros(engines, np.bool_)
    order, starts, started = np.empty(length, np.int64), np.empty(length, np.int64), 0
    running = [(0, 0) for _ in range(0)]  # a heap: when an instruction ends, and which
    changed, is_changed, count = np.empty(engines, np.int64), np.zeros(engines, np.bool_), 0
    ready, open_ = np.empty(length, np.int64), np.empty(nodes - length, np.int64)
    for node in range(nodes):
        if known.missing[node]:
            continue
        if node < length:
            one = int(engine[node])
            push(heaps, begins, sizes, one, int(rank[node]))
            count = _note(changed, is_changed, count, one)
            continue
        for at in range(_released(node, length, following, offsets, missing, ready, open_)):
            one = int(engine[ready[at]])
            push(heaps, begins, sizes, one, int(rank[ready[at]]))
            count = _note(changed, is_changed, count, one)
    now = 0
    while started < length:
        for at in range(count):
            one = int(changed[at])
            is_changed[one] = False
            if not busy[one] and sizes[one]:
                number = int(ranked[pop(heaps, begins, sizes, one)])
                order[started], starts[number], busy[one] = number, now, True
                started += 1
                heapq.heappush(running, (int(now + ticks[number]), number))
        count = 0
        now = int(running[0][0])
        while running and running[0][0] == now:
            _, number = heapq.heappop(running)
            one = int(engine[number])
            busy[one] = False
            count = _note(changed, is_changed, count, one)
            for at in range(_released(number, length, following, offsets, missing, ready, open_)):
                one = int(engine[ready[at]])
                push(heaps, begins, sizes, one, int(rank[ready[at]]))
                count = _note(changed, is_changed, count, one)
    return order, starts


@inlined
def _lengthen(node: int, needs: np.ndarray, ends: np.ndarray, lasts: np.ndarray, paths: np.ndarray) -> None:
    """Let the paths of what a node needs be as long as they are through it."""
    for at in range(ends[node - 1] if node else 0, ends[node]):
        paths[needs[at]] = max(paths[needs[at]], lasts[needs[at]] + paths[node])


@inlined
def _released(
    number: int,
    length: int,
    following: np.ndarray,
    offsets: np.ndarray,
    missing: np.ndarray,
    ready: np.ndarray,
    open_: np.ndarray,
) -> int:
    """How many instructions need nothing more once one has ended: they are then in `ready`, in rising order.

    `open_` has room for nodes that are no instructions.
    """
    count, waiting, node = 0, 0, number
    while True:
        for at in range(offsets[node], offsets[node + 1]):
            other = following[at]
            missing[other] -= 1
            if missing[other]:
                continue
            if other < length:
                count = _sort_in(ready, count, other)
            else:
                open_[waiting] = other
                waiting += 1
        if waiting == 0:
            return count
        waiting -= 1
        node = open_[waiting]


@inlined
def _sort_in(rows: np.ndarray, count: int, value: int) -> int:
    """Add to rows in rising order; gives their number."""
    at = count
    while at and rows[at - 1] > value:
        rows[at] = rows[at - 1]
        at -= 1
    rows[at] = value
    return count + 1


@inner
def _note(changed: np.ndarray, is_changed: np.ndarray, count: int, engine: int) -> int:
    """Add an engine to those that may start something, if it is not among them; gives their number."""
    if is_changed[engine]:
        return count
    changed[count], is_changed[engine] = engine, True
    return count + 1


@inner
def push(heaps: np.ndarray, begins: np.ndarray, sizes: np.ndarray, engine: int, value: int) -> None:
    """Add to the heap of an engine, the least first."""
    begin, at = begins[engine], sizes[engine]
    sizes[engine] += 1
    while at and heaps[begin + (at - 1) // 2] > value:
        heaps[begin + at] = heaps[begin + (at - 1) // 2]
        at = (at - 1) // 2
    heaps[begin + at] = value


@tiered
def pop(heaps: np.ndarray, begins: np.ndarray, sizes: np.ndarray, engine: int) -> int:
    """Take the least from the heap of an engine."""
    sizes[engine] -= 1
    begin, size, at = begins[engine], sizes[engine], 0
    found = int(heaps[begin])
    value = heaps[begin + size]
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and heaps[begin + child + 1] < heaps[begin + child]:
            child += 1
        if heaps[begin + child] >= value:
            break
        heaps[begin + at] = heaps[begin + child]
        at = child
    heaps[begin + at] = value
    return found


@tiered
def waits_of(engine: np.ndarray, known: Dependences, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """In the new order: how many places each instruction waits for, and which; the latest of every other engine."""
    length, engines = len(order), engine.max() + 1
    needs, ends = known.needs, known.ends
    place, counts = np.empty(length, np.int64), np.zeros(length, np.int64)
    for at in range(length):
        place[order[at]] = at
    latest, noted, started = np.full(engines, -1), np.empty(engines, np.int64), np.zeros(engines, np.bool_)
    # Of each node behind the instructions, the latest place of every engine that it needs: a run of rows.
    places, runs, filled = np.empty(1024, np.int64), np.zeros(len(ends) - length + 1, np.int64), 0
    for node in range(length, len(ends)):
        count = 0
        for row in range(ends[node - 1], ends[node]):
            if needs[row] < length:
                count = _keep_latest(latest, noted, count, int(engine[needs[row]]), int(place[needs[row]]))
                continue
            for at in range(runs[needs[row] - length], runs[needs[row] - length + 1]):
                count = _keep_latest(latest, noted, count, int(engine[order[places[at]]]), int(places[at]))
        places = _with_room(places, filled, count)
        filled = _move_latest(latest, noted, count, places, filled)
        runs[node - length + 1] = filled
    found, filled = np.empty(1024, np.int64), 0
    for at in range(length):
        number = order[at]
        own, count = engine[number], 0
        for row in range(ends[number - 1] if number else 0, ends[number]):
            node = needs[row]
            if node >= length:
                for run in range(runs[node - length], runs[node - length + 1]):
                    other = int(engine[order[places[run]]])
                    if other != own:
                        count = _keep_latest(latest, noted, count, other, int(places[run]))
            elif engine[node] != own and (node != 0 or not started[own]):
                count = _keep_latest(latest, noted, count, int(engine[node]), int(place[node]))
        found = _with_room(found, filled, count)
        filled = _move_latest(latest, noted, count, found, filled)
        _sort_last(found, filled, count)
        counts[at], started[own] = count, True
    return counts, found[:filled].copy()


@inner
def _with_room(rows: np.ndarray, filled: int, count: int) -> np.ndarray:
    """Rows with room for so many more."""
    if filled + count <= len(rows):
        return rows
    longer = np.empty(2 * (filled + count), np.int64)
    longer[:filled] = rows[:filled]
    return longer


@inlined
def _move_latest(latest: np.ndarray, noted: np.ndarray, count: int, rows: np.ndarray, filled: int) -> int:
    """Write what was noted behind rows, and forget it; gives how many rows there are."""
    for at in range(count):
        rows[filled + at] = latest[noted[at]]
        latest[noted[at]] = -1
    return filled + count


@inlined
def _sort_last(rows: np.ndarray, filled: int, count: int) -> None:
    """Put the last of some rows in rising order; there are few."""
    for end in range(filled - count + 1, filled):
        value, at = rows[end], end
        while at > filled - count and rows[at - 1] > value:
            rows[at] = rows[at - 1]
            at -= 1
        rows[at] = value


@inlined
def _keep_latest(latest: np.ndarray, noted: np.ndarray, count: int, engine: int, place: int) -> int:
    """Note a place of an engine, unless a later one is known; gives the number of engines of which one is."""
    if latest[engine] < 0:
        noted[count] = engine
        count += 1
    latest[engine] = max(latest[engine], place)
    return count


def _rows_in(program: Program, order: np.ndarray, counts: np.ndarray, waits: np.ndarray, last: np.ndarray) -> Program:
    """The program with its rows in that order in every iteration; `last` is what the next iteration waits for."""
    length, iterations = len(order), program.iterations
    rows = np.concatenate([order + length * i for i in range(iterations)])
    sizes = np.diff(program.operand_offsets)[rows]
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    operands = np.repeat(program.operand_offsets[:-1][rows] - offsets[:-1], sizes) + np.arange(offsets[-1])
    wait_counts = np.tile(counts, iterations)
    wait_counts[length::length] = len(last)
    every = [waits] + [np.concatenate([last + length * (i - 1), waits + length * i]) for i in range(1, iterations)]
    return replace(
        program,
        engine=program.engine[rows],
        kind=program.kind[rows],
        flags=program.flags[rows],
        kernel=program.kernel[rows],
        iteration=program.iteration[rows],
        operator=program.operator[rows],
        box=program.box[rows],
        cycles=program.cycles[rows],
        size_bytes=program.size_bytes[rows],
        run_bytes=program.run_bytes[rows],
        path=program.path[rows],
        operand_offsets=offsets,
        operand_buffer=program.operand_buffer[operands],
        operand_region=program.operand_region[operands],
        operand_mode=program.operand_mode[operands],
        wait_offsets=np.concatenate([np.zeros(1, np.int64), np.cumsum(wait_counts)]),
        waits=np.concatenate(every),
    )

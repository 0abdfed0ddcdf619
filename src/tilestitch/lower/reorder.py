"""The order in which engines take their instructions, by list scheduling over the whole of a program.

INFERRED: Zhao et al., GraphTurbo, OSDI 2023, schedule instructions across layers and do not say how. Here the
instructions start in the order of a list schedule: of those that are ready, an engine takes the one with the longest
path to the end. How long each takes is given, by a simulation of the program as it was lowered.
"""

import heapq
from dataclasses import replace

import numpy as np

from tilestitch.base.jit import inner, tiered
from tilestitch.ir.program import Kind, Mode, Program
from tilestitch.lower.hazards import Text, corners, find_waits

MOST_NEEDS = 10_000_000  # of an iteration: beyond, a program keeps its order, because looking takes long


def reordered(
    program: Program, ticks: np.ndarray, boxes: tuple[np.ndarray, np.ndarray] | None = None
) -> Program | None:
    """The program with its instructions in the order of a list schedule, the same in every iteration.

    `ticks` says how long each instruction of an iteration takes, `boxes` the corners of its regions, where known.
    None where there is nothing to gain, in a program of many launches, which wait for everything before them; and where
    too much waits for too much.
    """
    length = len(program) // program.iterations
    launches = np.flatnonzero(program.kind[:length] == Kind.LAUNCH)
    if len(launches) != 1 or launches[0] != 0:
        return None
    needs, ends = _dependences(program, length, corners(program.regions) if boxes is None else boxes)
    if len(needs) > MOST_NEEDS:
        return None
    order = list_schedule(program.engine[:length].astype(np.int64), ticks, needs, ends)
    counts, waits = waits_of(program.engine[:length].astype(np.int64), needs, ends, order)
    latest = np.zeros(len(program.engines), np.int64)
    latest[program.engine[order]] = np.arange(length)  # of each engine the last one counts
    return _rows_in(program, order, counts, waits, np.sort(latest[latest > 0]))


def _dependences(program: Program, length: int, boxes: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Of every instruction of an iteration, all before it that must end before it starts, whatever their engines.

    Incomplete where there are more than `MOST_NEEDS`.
    """
    counts = np.diff(program.operand_offsets[: length + 1])
    operands = slice(0, int(program.operand_offsets[length]))
    user = np.repeat(np.arange(length), counts)
    buffer, writes = program.operand_buffer[operands], program.operand_mode[operands] != Mode.READ
    written = np.zeros(len(program.buffers), np.bool_)
    written[buffer[writes]] = True
    kept = written[buffer]  # what nobody writes nobody waits for
    user, buffer, writes, region = user[kept], buffer[kept], writes[kept], program.operand_region[operands][kept]
    used, first = np.unique(buffer, return_index=True)
    by_birth = used[np.argsort(first, kind="stable")]
    number = np.zeros(len(program.buffers), np.int64)
    number[by_birth] = np.arange(len(by_birth))
    low, high = boxes
    rows = program.buffers
    found = find_waits(
        Text(
            engine=np.arange(length),
            launches=program.kind[:length] == Kind.LAUNCH,
            operand_ends=np.cumsum(np.bincount(user, minlength=length)),
            buffer=number[buffer],
            region=region.astype(np.int64),
            writes=writes,
            space=rows.space[by_birth].astype(np.int64),
            start=rows.address[by_birth],
            stop=rows.address[by_birth] + rows.size_bytes[by_birth],
            born=user[np.sort(first)],
            low=low,
            high=high,
            control=0,  # each instruction is an engine of its own, so that none is left out because another covers it
            engines=length,
            spaces=len(program.spaces),
        ),
        MOST_NEEDS,
    )
    return found.waits, np.cumsum(found.counts)


@tiered
def list_schedule(engine: np.ndarray, ticks: np.ndarray, needs: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The instructions in the order in which they start, each engine taking the ready one of the longest path.

    `needs` up to `ends` are what each waits for, all of them earlier; instruction 0 is waited for by all.
    """
    length, engines = len(engine), engine.max() + 1
    paths, missing = ticks.copy(), np.zeros(length, np.int64)
    offsets = np.zeros(length + 1, np.int64)  # of the list of those that wait for an instruction
    for number in range(length - 1, -1, -1):
        for at in range(ends[number - 1] if number else 0, ends[number]):
            paths[needs[at]] = max(paths[needs[at]], ticks[needs[at]] + paths[number])
            missing[number] += 1
            offsets[needs[at] + 1] += 1
    offsets = offsets.cumsum()
    following, filled = np.empty(len(needs), np.int64), offsets[:-1].copy()
    for number in range(length):
        for at in range(ends[number - 1] if number else 0, ends[number]):
            following[filled[needs[at]]] = number
            filled[needs[at]] += 1
    ranked = np.argsort(-paths, kind="mergesort")
    rank = np.empty(length, np.int64)
    for at in range(length):
        rank[ranked[at]] = at
    begins = np.zeros(engines + 1, np.int64)  # of the heap of each engine: ranks of what is ready
    for number in range(length):
        begins[engine[number] + 1] += 1
    begins = begins.cumsum()
    heaps, sizes, busy = np.empty(length, np.int64), np.zeros(engines, np.int64), np.zeros(engines, np.bool_)
    order, started = np.empty(length, np.int64), 0
    running = [(0, 0) for _ in range(0)]  # a heap: when an instruction ends, and which
    changed, is_changed, count = np.empty(engines, np.int64), np.zeros(engines, np.bool_), 0
    now, one = 0, int(engine[0])
    push(heaps, begins, sizes, one, int(rank[0]))
    count = _note(changed, is_changed, count, one)
    while started < length:
        for at in range(count):
            one = int(changed[at])
            is_changed[one] = False
            if not busy[one] and sizes[one]:
                number = int(ranked[pop(heaps, begins, sizes, one)])
                order[started], busy[one] = number, True
                started += 1
                heapq.heappush(running, (int(now + ticks[number]), number))
        count = 0
        now = int(running[0][0])
        while running and running[0][0] == now:
            _, number = heapq.heappop(running)
            one = int(engine[number])
            busy[one] = False
            count = _note(changed, is_changed, count, one)
            for at in range(offsets[number], offsets[number + 1]):
                other = following[at]
                missing[other] -= 1
                if missing[other] == 0:
                    one = int(engine[other])
                    push(heaps, begins, sizes, one, int(rank[other]))
                    count = _note(changed, is_changed, count, one)
    return order


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
def waits_of(
    engine: np.ndarray, needs: np.ndarray, ends: np.ndarray, order: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """In the new order: how many places each instruction waits for, and which; the latest of every other engine."""
    length = len(order)
    place, counts = np.empty(length, np.int64), np.zeros(length, np.int64)
    for at in range(length):
        place[order[at]] = at
    found, filled = np.empty(len(needs), np.int64), 0
    latest, started = np.full(engine.max() + 1, -1), np.zeros(engine.max() + 1, np.bool_)
    for at in range(length):
        number = order[at]
        own, begin = engine[number], filled
        first, last = ends[number - 1] if number else 0, ends[number]
        for row in range(first, last):
            other = engine[needs[row]]
            if other != own and (needs[row] != 0 or not started[own]):
                latest[other] = max(latest[other], place[needs[row]])
        for row in range(first, last):
            other = engine[needs[row]]
            if latest[other] >= 0:
                found[filled] = latest[other]
                filled += 1
                latest[other] = -1
        found[begin:filled].sort()
        counts[at], started[own] = filled - begin, True
    return counts, found[:filled].copy()


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

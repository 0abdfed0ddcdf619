"""Which bytes the instructions of a program touch, and in what order."""

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from tilestitch.ir.program import Flag, Mode, Program
from tilestitch.ir.region import Region
from tilestitch.ir.trace import Trace
from tilestitch.sim.chip.execute import event_order


def byte_numbers(program: Program, buffer: int, region: Region) -> np.ndarray:
    """Where the elements of a region lie in the memory of its buffer."""
    own = program.regions[program.buffers.region[buffer]]
    layout = program.graph.tensors[program.tensors[program.buffers.tensor[buffer]]].layout
    width = program.buffer_dtype(buffer).size_bytes
    extents = [own.extents[axis] for axis in layout]
    places = np.arange(own.size).reshape(extents).transpose(np.argsort(layout).tolist())
    first = places[region.relative_to(own).slices].reshape(-1) * width + int(program.buffers.address[buffer])
    return (first[:, None] + np.arange(width)).reshape(-1)


def conflicts(program: Program) -> Iterator[tuple[int, int]]:
    """Pairs of instructions, in program order, that touch a common byte which at least one of them writes."""
    touched: dict[int, list[tuple[int, bool, np.ndarray]]] = {}
    for one in program:
        for operand in one.operands:
            space = int(program.buffers.space[operand.buffer])
            places = byte_numbers(program, operand.buffer, operand.region)
            touched.setdefault(space, []).append((one.number, operand.mode is not Mode.READ, places))
    for uses in touched.values():
        marks = np.zeros(max(int(places.max()) for _, _, places in uses) + 1, bool)
        bounds = [(int(places.min()), int(places.max())) for _, _, places in uses]
        for (i, (a, writes, first)), (j, (b, also, second)) in combinations(enumerate(uses), 2):
            if a == b or not (writes or also) or bounds[i][0] > bounds[j][1] or bounds[j][0] > bounds[i][1]:
                continue
            marks[first] = True
            if marks[second].any():
                yield a, b
            marks[first] = False


def too_early(trace: Trace) -> list[tuple[int, int]]:
    """Conflicting pairs of which the second starts before the first has ended."""
    start, end = trace.start_ticks, trace.end_ticks
    return [(a, b) for a, b in conflicts(trace.program) if start[b] < end[a]]


def misread(trace: Trace) -> set[int]:
    """Instructions that find bytes, when they start, which were not last written for the buffer that they read."""
    program = trace.program
    ends = program.buffers.address + program.buffers.size_bytes
    spaces = program.buffers.space.tolist()
    owner = [np.full(int(ends[program.buffers.space == n].max(initial=0)), -1) for n in range(len(program.spaces))]

    def own(buffer: int, region: Region, tag: int) -> None:
        owner[spaces[buffer]][byte_numbers(program, buffer, region)] = tag

    for buffer in (*(buffer for _, buffer in program.constants), *(buffer for row in program.inputs for buffer in row)):
        own(buffer, whole_of(program, buffer), buffer)
    found = set()
    for event in event_order(trace).tolist():
        number, ending = divmod(event, 2)
        one = program[number]
        for o in one.operands:
            first = o.mode is Mode.ACCUMULATE and one.flags & Flag.FIRST
            if not ending and o.mode is not Mode.WRITE and not first:
                tags = owner[spaces[o.buffer]][byte_numbers(program, o.buffer, o.region)]
                if (tags != o.buffer).any():
                    found.add(number)
        for o in one.operands:
            if o.mode is not Mode.READ:
                own(o.buffer, o.region, o.buffer if ending else -1)
    return found


def whole_of(program: Program, buffer: int) -> Region:
    return program.regions[program.buffers.region[buffer]]

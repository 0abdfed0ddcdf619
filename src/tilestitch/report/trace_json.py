"""A trace in Chrome's trace format, which Perfetto (ui.perfetto.dev) opens: a process per core, a thread per engine.

Beside the instructions it has flows from what writes a buffer to what waits to read it, and counters.
"""

import json
from collections.abc import Iterator

import numpy as np

from tilestitch.ir.program import Kind, Mode, Program
from tilestitch.ir.trace import Trace
from tilestitch.report.counters import counters, edges
from tilestitch.report.work import transfers


def chrome_trace(trace: Trace, *, clock_hz: int, limit: int | None = None) -> str:
    """The instructions as complete events, an event a line; at most the first `limit` instructions.

    Times are microseconds of simulated time, rounded down to whole nanoseconds, which is what viewers count in; what
    takes less than one is left out. Events of one engine never overlap: viewers drop those that do.
    """
    program = trace.program
    shown = len(program) if limit is None else min(limit, len(program))
    names = [json.dumps(name) for name in (*program.operators, *program.kernels)]
    tensors = [json.dumps(program.tensors[tensor]) for tensor in program.buffers.tensor.tolist()]
    kernels = names[len(program.operators) :]
    tracks = [(_process(engine.core), number + 1) for number, engine in enumerate(program.engines)]
    last_operand = (program.operand_offsets[1:] - 1)[:shown].tolist()
    places = _places(program, shown)
    per_second = trace.ticks_per_cycle * clock_hz
    ends = zip(trace.start_ticks[:shown].tolist(), trace.end_ticks[:shown].tolist(), strict=True)
    spans = [_span(start, end, per_second) for start, end in ends]
    columns = (
        program.engine,
        program.kind,
        program.kernel,
        program.iteration,
        program.operator,
        program.size_bytes,
    )
    lines = _names_of_tracks(trace, tracks)
    rows = zip(*(column[:shown].tolist() for column in columns), strict=True)
    for number, (engine, kind, kernel, iteration, operator, size_bytes) in enumerate(rows):
        begin, length = spans[number]
        if length == 0:
            continue
        if kind == Kind.LAUNCH:
            name = kernels[kernel]
        elif operator >= 0:
            name = names[operator]
        else:
            name = tensors[program.operand_buffer[last_operand[number]]]
        pid, tid = tracks[engine]
        bytes_moved = f',"size_bytes":{size_bytes}' if size_bytes else ""
        lines.append(
            f'{{"ph":"X","pid":{pid},"tid":{tid},"ts":{_microseconds(begin)},"dur":{_microseconds(length)},'
            f'"name":{name},"cat":"{_CATEGORIES[kind]}","args":{{"instruction":{number},"kernel":{kernels[kernel]},'
            f'"iteration":{iteration}{bytes_moved}{places[number]}}}}}'
        )
    lines.extend(_flows(program, tracks, spans))
    lines.extend(_counted(trace, per_second))
    other = json.dumps({"instructions": len(program), "instructions_shown": shown, "clock_hz": clock_hz})
    return '{"displayTimeUnit":"ns","otherData":' + other + ',"traceEvents":[\n' + ",\n".join(lines) + "\n]}\n"


_CATEGORIES = {int(kind): kind.name.lower() for kind in Kind}


def _places(program: Program, shown: int) -> list[str]:
    """Per instruction, the tile that it computes, or where it moves bytes from and to, as further arguments."""
    found = [""] * shown
    for number, box in enumerate(program.box[:shown].tolist()):
        if box >= 0:
            found[number] = f',"tile":"{program.regions[box]}"'
    moves = transfers(program, np.arange(shown))
    rows = zip(*(column.tolist() for column in (moves.number, moves.source, moves.target)), strict=True)
    texts: dict[int, str] = {-1: '"units"'}
    for number, *ends in rows:
        for buffer in ends:
            if buffer not in texts:
                texts[buffer] = json.dumps(program.buffer_text(buffer))
        found[number] = f',"source":{texts[ends[0]]},"target":{texts[ends[1]]}'
    return found


def producers(program: Program) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of instructions: one that writes a buffer, and one that waits for it and reads that buffer."""
    count, width = len(program), len(program.buffers)
    users = np.repeat(np.arange(count), np.diff(program.operand_offsets))
    written = np.unique((users * width + program.operand_buffer)[program.operand_mode != Mode.READ])
    reads = np.flatnonzero(program.operand_mode != Mode.WRITE)
    first = np.searchsorted(users[reads], np.arange(count + 1))  # of the operands that each instruction reads
    waiting = np.repeat(np.arange(count), np.diff(program.wait_offsets))
    many = np.diff(first)[waiting]
    pair = np.repeat(np.arange(len(waiting)), many)
    place = np.arange(len(pair)) - np.repeat(np.cumsum(many) - many, many) + first[waiting[pair]]
    read = program.operand_buffer[reads[place]]
    found = np.unique(pair[np.isin(program.waits[pair] * width + read, written)])
    return program.waits[found], waiting[found]


def _flows(program: Program, tracks: list[tuple[int, int]], spans: list[tuple[int, int]]) -> Iterator[str]:
    """An arrow from each producer to its consumer, where both are drawn."""
    drawn = np.zeros(len(program), bool)
    drawn[: len(spans)] = [length > 0 for _, length in spans]
    producer, consumer = producers(program)
    both = drawn[producer] & drawn[consumer]
    engine = program.engine.tolist()
    for flow, pair in enumerate(zip(producer[both].tolist(), consumer[both].tolist(), strict=True)):
        for phase, number in zip(('"s"', '"f","bp":"e"'), pair, strict=True):
            pid, tid = tracks[engine[number]]
            yield (
                f'{{"ph":{phase},"id":{flow},"pid":{pid},"tid":{tid},"ts":{_microseconds(spans[number][0])},'
                '"name":"data","cat":"data"}'
            )


def _counted(trace: Trace, per_second: int) -> Iterator[str]:
    """The value of each counter where it changes, and zero at the end."""
    at = [begin * 10**9 // per_second for begin in edges(trace).tolist()]
    for counter in counters(trace):
        before, pid = None, _process(counter.core)
        name = json.dumps(f"{counter.name}, {counter.unit}")
        for when, value in zip(at, [*(round(value, 3) for value in counter.values.tolist()), 0.0], strict=True):
            if value != before:
                yield (
                    f'{{"ph":"C","pid":{pid},"ts":{_microseconds(when)},"name":{name},'
                    f'"args":{{{json.dumps(counter.unit)}:{value:g}}}}}'
                )
            before = value


def _process(core: int | None) -> int:
    """Viewers keep process 0 for themselves: 1 is the cluster, 2 its first core."""
    return 1 if core is None else core + 2


def _names_of_tracks(trace: Trace, tracks: list[tuple[int, int]]) -> list[str]:
    lines = []
    named = set()
    for engine, (pid, tid) in zip(trace.program.engines, tracks, strict=True):
        if pid not in named:
            named.add(pid)
            name = "cluster" if engine.core is None else f"core {engine.core}"
            lines.append(f'{{"ph":"M","pid":{pid},"name":"process_name","args":{{"name":"{name}"}}}}')
            lines.append(f'{{"ph":"M","pid":{pid},"name":"process_sort_index","args":{{"sort_index":{pid}}}}}')
        lines.append(
            f'{{"ph":"M","pid":{pid},"tid":{tid},"name":"thread_name","args":{{"name":{json.dumps(engine.name)}}}}}'
        )
    return lines


def _span(start_ticks: int, end_ticks: int, ticks_per_second: int) -> tuple[int, int]:
    """Begin and length in whole nanoseconds, both ends rounded down, so that what follows begins no earlier."""
    begin = start_ticks * 10**9 // ticks_per_second
    return begin, end_ticks * 10**9 // ticks_per_second - begin


def _microseconds(nanoseconds: int) -> str:
    """A number that viewers, who take `int(1000 * number)`, read as the same nanoseconds.

    1.001 would become 1000, overlap the event that ends at 1001, and be dropped; so it is written as 1.0011.
    """
    text = f"{nanoseconds // 1000}.{nanoseconds % 1000:03d}"
    return text if int(1000 * float(text)) == nanoseconds else text + "1"

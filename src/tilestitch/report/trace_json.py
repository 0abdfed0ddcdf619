"""A trace in Chrome's trace format, which Perfetto (ui.perfetto.dev) opens: a process per core, a thread per engine."""

import json

from tilestitch.ir.program import Kind
from tilestitch.ir.trace import Trace


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
    columns = (
        program.engine,
        program.kind,
        program.kernel,
        program.iteration,
        program.operator,
        program.size_bytes,
        trace.start_ticks,
        trace.end_ticks,
    )
    lines = _names_of_tracks(trace, tracks)
    rows = zip(*(column[:shown].tolist() for column in columns), strict=True)
    for number, (engine, kind, kernel, iteration, operator, size_bytes, start, end) in enumerate(rows):
        begin, length = _span(start, end, trace.ticks_per_cycle * clock_hz)
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
            f'"iteration":{iteration}{bytes_moved}}}}}'
        )
    other = json.dumps({"instructions": len(program), "instructions_shown": shown, "clock_hz": clock_hz})
    return '{"displayTimeUnit":"ns","otherData":' + other + ',"traceEvents":[\n' + ",\n".join(lines) + "\n]}\n"


_CATEGORIES = {int(kind): kind.name.lower() for kind in Kind}


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

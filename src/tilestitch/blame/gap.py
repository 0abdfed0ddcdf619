"""A trace taken apart: which units its bound is about, what they did, and what they waited for."""

from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from tilestitch.blame.idle import waits_for_room
from tilestitch.blame.purpose import MOVES, Purpose, purposes
from tilestitch.blame.waits import critical_waits
from tilestitch.blame.walk import Lanes, Waited, engine_lanes, port_lane, walked
from tilestitch.cost.bounds import Bounds, bounds, compulsory_bytes, operator_bounds
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.ir.gap import PARTS, PORT, Blame, Busy, Part, Rate, Waits
from tilestitch.ir.program import EngineKind, Kind, Program
from tilestitch.ir.trace import Sharing, Trace

DDR = 0  # the resource that is its port


class _Work(NamedTuple):
    """What the lanes are, and what they did."""

    unit: str
    names: tuple[str, ...]
    weights: tuple[Fraction, ...]
    lanes: Lanes
    busy: Busy
    rates: tuple[Rate, ...]


def blame(trace: Trace, sharing: Sharing, machine: Accelerator, *, sharers: int = 1) -> Blame:
    """All that the gap between the latency of a trace and its bound is made of.

    `sharers` clusters share one DDR. Where the bound is its traffic, the trace has to be that of all of them, see
    `share_ddr`; else that of one.
    """
    program = trace.program
    limits = bounds(program.graph, machine, iterations=program.iterations, sharers=sharers)
    purpose = purposes(program)
    work = _port_work(trace, machine, purpose, sharers) if limits.binding == "memory" else None
    if work is None:
        work = _unit_work(trace, machine, limits)
    critical = critical_waits(trace)
    rows = walked(trace, critical, work.lanes)
    total = int(trace.end_ticks.max(initial=0))
    began, ended = int(work.busy.begin_ticks.min(initial=total)), int(work.busy.end_ticks.max(initial=0))
    rows = _cut_at(_cut_at(rows, began), ended)
    inner = _parts(program, purpose, work, rows)
    outside = (rows.end <= began) | (rows.begin >= ended)
    setup, shared = _of_transfers(trace, sharing, rows)
    late = waits_for_room(trace, critical, purpose.inward, rows)
    waits = Waits(
        lane=rows.lane,
        begin_ticks=rows.begin,
        end_ticks=rows.end,
        waiting=rows.waiting,
        waited_for=rows.waited_for,
        part=np.where(outside, PARTS.index(Part.ENDS), inner),
        inner=inner,
        setup_ticks=setup,
        sharing_ticks=shared,
        room_ticks=np.where(late, rows.end - rows.begin, 0),
    )
    return Blame(
        program=program,
        unit=work.unit,
        lanes=work.names,
        weights=work.weights,
        ticks_per_cycle=trace.ticks_per_cycle,
        bound_cycles=limits.latency_cycles,
        rates=work.rates,
        busy=work.busy,
        waits=waits,
        owner=purpose.owner,
    )


def _cut_at(rows: Waited, ticks: int) -> Waited:
    """The same times, those that run over a moment in two."""
    over = (rows.begin < ticks) & (rows.end > ticks)
    if not over.any():
        return rows
    first = rows._replace(end=np.where(over, ticks, rows.end))
    second = Waited(*(column[over] for column in rows))
    second = second._replace(begin=np.full(len(second.begin), ticks, np.int64))
    joined = [np.concatenate(pair) for pair in zip(first, second, strict=True)]
    order = np.lexsort((joined[1], joined[0]))
    return Waited(*(column[order] for column in joined))


def _parts(program: Program, purpose: Purpose, work: _Work, rows: Waited) -> np.ndarray:
    """Which part each wait is; of what a unit waits for on its own core, the arithmetic is that of the other unit."""
    part = purpose.part[rows.waited_for]
    if work.unit == PORT:
        return np.where(part == PARTS.index(Part.OTHER_CORES), PARTS.index(Part.ARITHMETIC), part)
    engines = {engine.name: engine for engine in program.engines}
    cores = np.array([engines[name].core for name in work.names], np.int64)
    own = (program.kind[rows.waited_for] == Kind.COMPUTE) & (purpose.core[rows.waited_for] == cores[rows.lane])
    return np.where(own, PARTS.index(Part.OTHER_UNIT), part)


def _of_transfers(trace: Trace, sharing: Sharing, rows: Waited) -> tuple[np.ndarray, np.ndarray]:
    """Of each wait for a transfer, the ticks of its set-up, and of what others at its ports added.

    Such delays are spread evenly over the time in which the bytes flow, rounded down.
    """
    program, what = trace.program, rows.waited_for
    flows_from = trace.start_ticks + program.cycles * trace.ticks_per_cycle
    moves = np.isin(program.kind[what], MOVES)
    setup = np.where(moves, np.clip(np.minimum(rows.end, flows_from[what]) - rows.begin, 0, None), 0)
    flow = (trace.end_ticks - flows_from)[what]
    mine = np.where(moves, rows.end - rows.begin - setup, 0)
    delay = sharing.delay_ticks[what].astype(float) * mine / np.maximum(flow, 1)
    return setup, np.minimum(delay.astype(np.int64), mine)


def _unit_work(trace: Trace, machine: Accelerator, limits: Bounds) -> _Work:
    """Units of the class that takes longest at best, matrix units where both take the same."""
    program = trace.program
    known = operator_bounds(program.graph, machine)
    matrix = sum(one.least_cycles for one in known if one.matrix)
    vector = sum(one.least_cycles for one in known if not one.matrix)
    on_matrix = matrix >= vector
    kind = EngineKind.MATRIX if on_matrix else EngineKind.VECTOR
    numbers = [number for number, engine in enumerate(program.engines) if engine.kind is kind]
    if not numbers:  # arrays do everything
        kind = EngineKind.MATRIX
        numbers = [number for number, engine in enumerate(program.engines) if engine.kind is kind]
    weights = [_peak(program, machine, number, on_matrix=on_matrix) for number in numbers]
    lanes = engine_lanes(trace, numbers)
    rates, rate_of = _operator_rates(program, machine, on_matrix=on_matrix)
    lane = np.repeat(np.arange(len(numbers)), np.diff(lanes.offsets))
    sizes = np.array([region.size for region in program.regions] or [0], np.int64)
    computes = program.kind[lanes.instruction] == Kind.COMPUTE
    busy = Busy(
        instruction=lanes.instruction,
        lane=lane,
        begin_ticks=lanes.begin,
        end_ticks=lanes.end,
        rate=rate_of[program.operator[lanes.instruction]],
        work=sizes[program.box[lanes.instruction]],
        setup_ticks=np.where(computes, machine.setup.compute_cycles * trace.ticks_per_cycle, 0),
    )
    names = tuple(program.engines[number].name for number in numbers)
    unit = {EngineKind.MATRIX: "matrix units", EngineKind.VECTOR: "vector units"}[kind]
    total = sum(weights)
    return _Work(unit, names, tuple(Fraction(weight, total) for weight in weights), lanes, busy, rates)


def _peak(program: Program, machine: Accelerator, engine: int, *, on_matrix: bool) -> int:
    """What one unit does in a cycle at best, in its usual type."""
    core = program.engines[engine].core
    assert core is not None, "units belong to cores"
    parts = machine.cores[core]
    if on_matrix:
        assert parts.matrix is not None
        return parts.matrix.m * parts.matrix.k * parts.matrix.n
    assert parts.vector is not None
    return parts.vector.usual_lanes


def _operator_rates(program: Program, machine: Accelerator, *, on_matrix: bool) -> tuple[tuple[Rate, ...], np.ndarray]:
    """How fast each operator of a program could be computed; the last rate is for what the bound does not know.

    An iteration of an operator takes its share of the least cycles; of all iterations that are executed, the bound
    counts those that the outputs need.
    """
    executed = np.zeros(max(1, len(program.operators)), np.int64)
    computes = np.flatnonzero(program.kind == Kind.COMPUTE)
    sizes = np.array([region.size for region in program.regions] or [0], np.int64)
    np.add.at(executed, program.operator[computes], sizes[program.box[computes]])
    known = {one.operator: one for one in operator_bounds(program.graph, machine)}
    rates: list[Rate] = []
    for number, name in enumerate(program.operators):
        one = known.get(name)
        if one is None:
            rates.append(Rate(name, Fraction(0), Fraction(1), Part.UNNEEDED, Part.UNNEEDED))
        elif one.matrix is not on_matrix:
            rates.append(Rate(name, Fraction(0), Fraction(1), Part.OTHER_UNIT, Part.OTHER_UNIT))
        else:
            wanted = one.iterations * program.iterations
            needed = Fraction(wanted, int(executed[number])) if executed[number] else Fraction(1)
            rates.append(Rate(name, one.least_cycles / one.iterations, needed, Part.SHAPE, Part.UNNEEDED))
    rates.append(Rate("", Fraction(0), Fraction(1), Part.UNNEEDED, Part.UNNEEDED))
    return tuple(rates), np.arange(len(rates))


def _port_work(trace: Trace, machine: Accelerator, purpose: Purpose, sharers: int) -> _Work | None:
    """The port of DDR; None where nothing passes it."""
    program = trace.program
    passes = np.array([*(path.count(DDR) for path in program.paths), 0], np.int64)[program.path]  # the last is for -1
    moving = np.flatnonzero(np.isin(program.kind, MOVES) & (program.size_bytes > 0) & (passes > 0))
    if not len(moving):
        return None
    begin = trace.start_ticks[moving] + program.cycles[moving] * trace.ticks_per_cycle
    order = np.lexsort((moving, begin))
    moving, begin = moving[order], begin[order]
    size_bytes = _burst_rounded(program, moving) * passes[moving]
    compulsory = compulsory_bytes(program.graph, iterations=program.iterations, sharers=sharers)
    rates = _tensor_rates(program, purpose, moving, size_bytes, compulsory)
    end = trace.end_ticks[moving]
    before = np.maximum.accumulate(np.concatenate([[0], end[:-1]]))
    begins = np.minimum(np.maximum(begin, before), np.maximum(end, before))  # what flows beside another, after it
    busy = Busy(
        instruction=moving,
        lane=np.zeros(len(moving), np.int64),
        begin_ticks=begins,
        end_ticks=np.maximum(end, begins),
        rate=purpose.tensor[moving],
        work=size_bytes,
        setup_ticks=np.zeros(len(moving), np.int64),
    )
    return _Work(PORT, (program.resources[DDR].name,), (Fraction(1),), port_lane(trace, moving, begin), busy, rates)


def _tensor_rates(
    program: Program, purpose: Purpose, moving: np.ndarray, size_bytes: np.ndarray, compulsory: Mapping[str, int]
) -> tuple[Rate, ...]:
    """For each tensor of a program, how fast its bytes could pass DDR, and how many of them have to."""
    moved = np.zeros(len(program.tensors), np.int64)
    np.add.at(moved, purpose.tensor[moving], size_bytes)
    excess = {int(purpose.tensor[one]): PARTS[purpose.part[one]] for one in moving.tolist()}
    cycles = 1 / program.resources[DDR].bandwidth_bytes_per_cycle
    return tuple(
        Rate(
            name,
            cycles,
            Fraction(compulsory.get(name, 0), int(moved[number])) if moved[number] else Fraction(1),
            Part.WAY,
            excess.get(number, Part.SPILLS),
        )
        for number, name in enumerate(program.tensors)
    )


def _burst_rounded(program: Program, moving: np.ndarray) -> np.ndarray:
    """Bytes of some transfers at the port of DDR, where each run rounds up to a burst."""
    burst = program.resources[DDR].burst_bytes
    size = program.size_bytes[moving]
    run = np.where(program.run_bytes[moving] > 0, program.run_bytes[moving], size).astype(np.int64)
    runs = size // run
    return (runs * -(-run // burst) + -(-(size - runs * run) // burst)) * burst

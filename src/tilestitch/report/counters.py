"""Rates and amounts over the time of a run: what ports carry, what memories hold, what units multiply."""

from dataclasses import dataclass

import numpy as np

from tilestitch.base.shown import Brief
from tilestitch.ir.program import Kind, Program
from tilestitch.ir.trace import Trace
from tilestitch.ops import is_contraction
from tilestitch.ops.contraction import product_shape

WINDOWS = 1000  # equal parts of the run, of which each counter has a value


@dataclass(frozen=True, repr=False)
class Counter(Brief):
    """One quantity over the run, a value for each window."""

    name: str
    unit: str
    core: int | None  # None: of the cluster
    values: np.ndarray  # float64: the mean of a rate, the most of an amount


def edges(trace: Trace, windows: int = WINDOWS) -> np.ndarray:
    """Where the windows begin, and where the last one ends, in ticks; at least a tick each."""
    end = int(trace.end_ticks.max(initial=0))
    return np.unique(np.linspace(0, end, windows + 1).astype(np.int64))


def counters(trace: Trace, windows: int = WINDOWS) -> tuple[Counter, ...]:
    """Bytes a cycle of each port, multiply-accumulates a cycle of each core, bytes held by each memory.

    What an instruction moves or multiplies counts evenly from its start to its end. A buffer is held from the first
    instruction that uses it to the end of the last one.
    """
    program, at = trace.program, edges(trace, windows)
    if len(at) < 2:
        return ()
    found = []
    for number, resource in enumerate(program.resources):
        through = np.array([number in path for path in program.paths] + [False], bool)[program.path]
        rates = _mean_rates(trace, np.where(through, program.size_bytes, 0), at)
        found.append(Counter(resource.name, "bytes/cycle", None, rates))
    core_of = np.array([-1 if engine.core is None else engine.core for engine in program.engines])[program.engine]
    products = macs(program)
    for core in sorted({engine.core for engine in program.engines if engine.core is not None}):
        own = np.where(core_of == core, products, 0)
        if own.any():
            found.append(Counter("products", "MACs/cycle", core, _mean_rates(trace, own, at)))
    first, last = lives(trace)
    for number, space in enumerate(program.spaces):
        here = np.flatnonzero((program.buffers.space == number) & (first < last))
        held = _most_held(first[here], last[here], program.buffers.size_bytes[here], at)
        found.append(Counter(space.name, "bytes held", space.core, held))
    return tuple(found)


def macs(program: Program) -> np.ndarray:
    """Multiply-accumulates of each instruction, on any unit."""
    found = np.zeros(len(program), np.int64)
    computes = np.flatnonzero(program.kind == Kind.COMPUTE)
    sizes = (len(program.operators), len(program.regions))
    keys = np.ravel_multi_index((program.operator[computes], program.box[computes]), sizes)
    alike, which = np.unique(keys, return_inverse=True)
    each = []
    for operator, box in zip(*(column.tolist() for column in np.unravel_index(alike, sizes)), strict=True):
        op = program.graph.by_name[program.operators[operator]]
        each.append(product_shape(op, program.regions[box]).macs if is_contraction(op) else 0)
    found[computes] = np.array(each, np.int64)[which]
    return found


def lives(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """Per buffer, when its first user starts and its last one ends, in ticks; both 0 where it has none."""
    program = trace.program
    users = np.repeat(np.arange(len(program)), np.diff(program.operand_offsets))
    never = np.iinfo(np.int64).max
    first = np.full(len(program.buffers), never)
    last = np.zeros(len(program.buffers), np.int64)
    np.minimum.at(first, program.operand_buffer, trace.start_ticks[users])
    np.maximum.at(last, program.operand_buffer, trace.end_ticks[users])
    return np.where(first == never, 0, first), last


def _mean_rates(trace: Trace, amounts: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Per window, how much of the amounts of instructions falls into a cycle of it."""
    some = np.flatnonzero((amounts > 0) & (trace.end_ticks > trace.start_ticks))
    start, end = trace.start_ticks[some], trace.end_ticks[some]
    rate = amounts[some] / (end - start)
    when = np.concatenate((start, end))
    order = np.argsort(when, kind="stable")
    when, change = when[order], np.concatenate((rate, -rate))[order]
    done = np.concatenate(([0.0], np.cumsum(np.cumsum(change)[:-1] * np.diff(when)))) if len(when) else when
    total = np.interp(at, when, done) if len(when) else np.zeros(len(at))
    return np.maximum(np.diff(total) / np.diff(at) * trace.ticks_per_cycle, 0.0)


def _most_held(first: np.ndarray, last: np.ndarray, size_bytes: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Per window, the most bytes of buffers that are held at the same time."""
    when, which = np.unique(np.concatenate((first, last)), return_inverse=True)
    held = np.cumsum(np.bincount(which, np.concatenate((size_bytes, -size_bytes)), len(when)))
    most = np.zeros(len(at) - 1)
    window = np.clip(np.searchsorted(at, when, side="right") - 1, 0, len(most) - 1)
    np.maximum.at(most, window, held)
    before = np.searchsorted(when, at[:-1], side="right") - 1  # what a window begins with
    return np.maximum(most, np.where(before >= 0, held[before], 0.0)) if len(when) else most

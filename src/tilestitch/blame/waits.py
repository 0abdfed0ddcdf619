"""What each instruction waited for in the end: of all that had to end before it, one that ended last."""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from tilestitch.base.jit import inner, tiered
from tilestitch.ir.program import Kind, Mode, Program
from tilestitch.ir.trace import Trace


class Tie(IntEnum):
    """Why an instruction could not start before another had ended."""

    NONE = 0  # it started at the beginning
    QUEUE = 1  # they are neighbours on one engine
    DATA = 2  # it reads what the other wrote
    ROOM = 3  # it writes where the other still read or wrote
    LAUNCH = 4  # one of them starts a kernel


class Critical(NamedTuple):
    """Per instruction, the one that it waited for last, or -1, and why."""

    instruction: np.ndarray
    tie: np.ndarray


class Operands(NamedTuple):
    """The operands of instructions, and which instructions start kernels."""

    offsets: np.ndarray
    buffer: np.ndarray
    mode: np.ndarray
    launches: np.ndarray


def critical_waits(trace: Trace) -> Critical:
    """The critical wait of every instruction: of those that ended when it started, a wait before the engine's queue.

    An instruction of a trace starts when the last of its waits and the one before it on its engine have ended, so
    there is always one, but for those that start at once.
    """
    program = trace.program
    return Critical(
        *_critical(
            program.engine.astype(np.int64),
            program.wait_offsets,
            program.waits,
            trace.start_ticks,
            trace.end_ticks,
            _operands(program),
            len(program.engines),
        )
    )


def wait_ties(program: Program) -> np.ndarray:
    """Why there is each of the waits of a program: `Tie.DATA`, `ROOM` or `LAUNCH`."""
    return _wait_ties(program.wait_offsets, program.waits, _operands(program))


def _operands(program: Program) -> Operands:
    return Operands(
        program.operand_offsets,
        program.operand_buffer.astype(np.int64),
        program.operand_mode.astype(np.int64),
        program.kind == Kind.LAUNCH,
    )


@tiered
def _critical(
    engine: np.ndarray,
    wait_offsets: np.ndarray,
    waits: np.ndarray,
    start: np.ndarray,
    end: np.ndarray,
    operands: Operands,
    engines: int,
) -> tuple[np.ndarray, np.ndarray]:
    latest = np.full(engines, -1, np.int64)
    found = np.full(len(engine), -1, np.int64)
    ties = np.zeros(len(engine), np.int64)
    for i in range(len(engine)):
        before = latest[engine[i]]
        latest[engine[i]] = i
        for at in range(wait_offsets[i], wait_offsets[i + 1]):
            if end[waits[at]] == start[i]:
                found[i], ties[i] = waits[at], _tie(operands, i, waits[at])
                break
        if found[i] < 0 and before >= 0 and end[before] == start[i]:
            found[i], ties[i] = before, Tie.QUEUE
    return found, ties


@tiered
def _wait_ties(wait_offsets: np.ndarray, waits: np.ndarray, operands: Operands) -> np.ndarray:
    ties = np.zeros(len(waits), np.int64)
    for i in range(len(wait_offsets) - 1):
        for at in range(wait_offsets[i], wait_offsets[i + 1]):
            ties[at] = _tie(operands, i, waits[at])
    return ties


@inner
def _tie(operands: Operands, i: int, other: int) -> int:
    """Why instruction `i` waits for another. One that shares no buffer with it makes room for it."""
    if operands.launches[i] or operands.launches[other]:
        return Tie.LAUNCH
    for mine in range(operands.offsets[i], operands.offsets[i + 1]):
        if operands.mode[mine] == Mode.WRITE:
            continue
        for its in range(operands.offsets[other], operands.offsets[other + 1]):
            if operands.buffer[its] == operands.buffer[mine] and operands.mode[its] != Mode.READ:
                return Tie.DATA
    return Tie.ROOM

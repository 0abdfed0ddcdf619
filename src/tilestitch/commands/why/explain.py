"""What is shown of a gap: its parts, where each of the large ones is, and the longest waits."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tilestitch.commands.why.selection import Selection, labels_of, selected
from tilestitch.ir.gap import PARTS, Blame, Gap, Part
from tilestitch.ir.idle import Idle
from tilestitch.ir.program import Program
from tilestitch.ir.report import Report
from tilestitch.pipeline import waiting
from tilestitch.pipeline.compilation import Compilation, given

LARGE = Fraction(1, 20)  # of a gap


@dataclass(frozen=True, slots=True)
class Heavy:
    """How much of a part is at one operator, or in one sub-graph."""

    part: Part
    kind: str  # "operator" or "sub-graph"
    name: str
    cycles: Fraction


@dataclass(frozen=True, slots=True)
class LongWait:
    """A time in which one unit did nothing, and what ran meanwhile."""

    unit: str
    begin_cycle: int
    end_cycle: int
    part: Part
    waiting: str  # the operator that it goes on with
    waited_for: str
    waiting_instruction: int  # -1 behind the last one
    waited_for_instruction: int


@dataclass(frozen=True, repr=False)
class Explanation:
    """The gap of a run, or of what is selected of it."""

    report: Report
    blame: Blame
    gap: Gap
    heaviest: tuple[Heavy, ...]  # by part, the heaviest first
    waits: tuple[LongWait, ...]  # the longest first


def explanation(done: Compilation, select: str, top: int) -> Explanation:
    """Take the gap of a simulated compilation apart; raises `InputError` where there is nothing like `select`."""
    taken = blame_of(done)
    pieces = given(done.schedule).pieces
    chosen = selected(taken, pieces, select)
    parts = sorted(chosen.gap.parts, key=lambda one: -one.cycles)
    large = [one.part for one in parts if one.cycles >= LARGE * chosen.gap.gap_cycles]
    heaviest: list[Heavy] = []
    for kind in ("operator", "sub-graph"):
        labels, names = labels_of(kind, taken, pieces)
        if len(names) > 1:
            labels = np.where(chosen.instructions, labels, -1)
            found = taken.by(labels, names, chosen.cycles)
            heaviest += [heavy for part in large for heavy in _heaviest(part, kind, found, top)]
    return Explanation(given(done.report), taken, chosen.gap, tuple(heaviest), _longest(taken, chosen, top))


def blame_of(done: Compilation) -> Blame:
    """All that the gap of a simulated compilation is made of."""
    return waiting.blame_of(given(done.report), given(done.schedule), given(done.trace), done.machine)


def idle_of(done: Compilation) -> Idle:
    """Every idle time of every engine of a simulated compilation, with its cause."""
    return waiting.idle_of(given(done.schedule), given(done.trace), done.machine)


def _heaviest(part: Part, kind: str, gaps: tuple[Gap, ...], top: int) -> list[Heavy]:
    rows = [Heavy(part, kind, gap.what, gap.cycles(part)) for gap in gaps]
    return sorted((row for row in rows if row.cycles > 0), key=lambda row: -row.cycles)[:top]  # ties in program order


def _longest(taken: Blame, chosen: Selection, top: int) -> tuple[LongWait, ...]:
    """The longest waits before what is chosen, each for one instruction; ties by unit, then by time."""
    waits, ticks = taken.waits, taken.ticks_per_cycle
    begin, end = waits.begin_ticks, waits.end_ticks
    there = np.append(chosen.instructions, chosen.instructions.all())[waits.waiting]  # the last entry is for -1
    if chosen.cycles is not None:
        begin, end = np.maximum(begin, chosen.cycles[0] * ticks), np.minimum(end, chosen.cycles[1] * ticks)
    length = np.where(there, end - begin, 0)
    rows = np.argsort(-length, kind="stable")[:top]
    return tuple(
        LongWait(
            unit=taken.lanes[waits.lane[row]],
            begin_cycle=int(begin[row]) // ticks,
            end_cycle=int(end[row]) // ticks,
            part=PARTS[waits.part[row]],
            waiting=_operator(taken, int(waits.waiting[row])),
            waited_for=_instruction_text(taken.program, int(waits.waited_for[row])),
            waiting_instruction=int(waits.waiting[row]),
            waited_for_instruction=int(waits.waited_for[row]),
        )
        for row in rows.tolist()
        if length[row] > 0
    )


def _operator(taken: Blame, instruction: int) -> str:
    """The operator that an instruction is for, or its kernel."""
    if instruction < 0:
        return "the end"
    program, owner = taken.program, int(taken.owner[instruction])
    return program.operators[owner] if owner >= 0 else program.kernels[program.kernel[instruction]]


def _instruction_text(program: Program, number: int) -> str:
    """`conv1 on vector3`, or `conv1.weight from ddr to gb`."""
    one = program[number]
    if one.operator is not None:
        return f"{one.operator} on {one.engine}"
    if not one.operands:
        return f"launch of {program.kernels[one.kernel]}"
    buffers = program.buffers
    spaces = [program.spaces[buffers.space[operand.buffer]].name for operand in one.operands]
    tensor = program.tensors[buffers.tensor[one.operands[0].buffer]]
    if len(spaces) == 1:
        return f"{tensor} between {spaces[0]} and {one.engine}"
    return f"{tensor} from {spaces[0]} to {spaces[1] if len(spaces) == 2 else f'{len(spaces) - 1} memories'}"

"""A run beside the same run with one cause of waiting removed: what the gap says of it, and what it then is."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from tilestitch.blame.gap import blame
from tilestitch.blame.purpose import MOVES, purposes
from tilestitch.blame.waits import Tie, wait_ties
from tilestitch.hardware.load import Machine
from tilestitch.ir.gap import PARTS, PORT, Blame, Part
from tilestitch.ir.program import Kind, Program
from tilestitch.lower.program import lower
from tilestitch.pipeline.compilation import Compilation, given
from tilestitch.sim.chip.timing import sharing, simulate

FAST = 1024  # times as fast as before


@dataclass(frozen=True)
class Removal:
    """One cause: which share of the latency the gap says it is, and which share of that was saved without it."""

    name: str
    share: float
    ratio: float  # saved cycles / cycles that the gap says

    @property
    def text(self) -> str:
        """As docs/why.md has it."""
        return f"{self.share:.1%} | {self.ratio:.2f}".replace("%", " %")


def waited_cycles(found: Blame, chosen: np.ndarray) -> Fraction:
    """Of the mean unit, cycles of waits for the instructions that are chosen."""
    waits, sums = found.waits, np.zeros(len(found.lanes), np.int64)
    rows = chosen[waits.waited_for]
    np.add.at(sums, waits.lane[rows], (waits.end_ticks - waits.begin_ticks)[rows])
    weighted = (int(ticks) * weight for ticks, weight in zip(sums, found.weights, strict=True))
    return sum(weighted, Fraction(0)) / found.ticks_per_cycle


def without(program: Program, chosen: np.ndarray) -> Program:
    """The program in which some instructions take no time."""
    moved = chosen & (program.kind != Kind.COMPUTE)
    return replace(
        program,
        cycles=np.where(chosen, 0, program.cycles),
        size_bytes=np.where(moved, 0, program.size_bytes),
    )


def removals(done: Compilation) -> list[Removal]:
    """What is found when each kind of instruction that is no work of the bound takes no time, or DDR is very fast."""
    machine, schedule = done.machine, given(done.schedule)
    program = lower(schedule, machine)
    trace = simulate(program)
    found, purpose = blame(trace, sharing(program), machine), purposes(program)
    latency = trace.latency_cycles
    on_lane = np.array([engine.name in found.lanes for engine in program.engines])[program.engine]
    through_ddr = _touches(program, lambda path: 0 in path)
    rows: list[Removal] = []

    def add(name: str, chosen: np.ndarray, changed: Program) -> None:
        said = waited_cycles(found, chosen)
        saved = latency - simulate(changed).latency_cycles
        rows.append(Removal(name, float(said / latency), float(saved / said) if said else 0.0))

    for part in (Part.WEIGHTS, Part.SPILLS, Part.BORDERS, Part.SHARED, Part.CORE_TO_CORE, Part.LAUNCHES):
        chosen = purpose.part == PARTS.index(part)
        if found.unit == PORT:
            chosen &= ~through_ddr  # the work of the port
        add(f"no time for {part}", chosen, without(program, chosen))
    computes = (program.kind == Kind.COMPUTE) & ~on_lane
    add("no time for other units", computes, without(program, computes))
    if found.unit != PORT:
        assert isinstance(machine, Machine)
        path = "memories.ddr.bandwidth_bytes_per_cycle"
        fast = machine.with_(path, str(FAST * machine.ddr.bandwidth_bytes_per_cycle)).with_("setup.dma_cycles", 0)
        add("fast DDR", through_ddr, lower(schedule, fast))
    room = sum(part.room_cycles for part in found.whole().parts)
    saved = latency - simulate(with_room(program)).latency_cycles
    rows.append(Removal("room for everything", float(room / latency), float(saved / room) if room else 0.0))
    return rows


def with_room(program: Program) -> Program:
    """The program in which nothing waits until memory is free, as if there were as much as it takes."""
    kept = wait_ties(program) != Tie.ROOM
    return replace(
        program,
        waits=program.waits[kept],
        wait_offsets=np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])[program.wait_offsets],
    )


def _touches(program: Program, wanted: Callable[[tuple[int, ...]], bool]) -> np.ndarray:
    passes = np.array([*(wanted(path) for path in program.paths), False])[program.path]
    return passes & np.isin(program.kind, MOVES)

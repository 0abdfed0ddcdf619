"""What the instructions of one batch do, added up by what they are for: operators, pieces, nodes of a file."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

import numpy as np

from tilestitch.base.shown import Brief
from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.ir.program import Kind
from tilestitch.ir.schedule import Schedule
from tilestitch.ir.trace import Trace
from tilestitch.report.work import Work, bytes_at, occupied_cycles, operators_served, transfers, work

_Sum = TypeVar("_Sum", int, Fraction)


@dataclass(frozen=True, slots=True)
class Total:
    """What some instructions of one batch do, simulated; of several totals, all but cycles and cores add up."""

    macs: int  # on any unit
    matrix_macs: int  # on matrix units
    vector_operations: int  # on vector units; a contraction there counts as both
    peak_cycles: Fraction  # that the products on matrix units would take at the peak of all of them
    ddr_bytes: int  # payload that transfers read from and write to DDR
    gb_bytes: int
    occupied_cycles: int  # in which any of the instructions runs
    instructions: int
    cores: int  # that compute or gather


@dataclass(frozen=True, repr=False)
class OneBatch(Brief):
    """The instructions of the first batch of a run."""

    trace: Trace
    number: np.ndarray  # of these instructions
    served: np.ndarray  # per instruction of the program, the number of the operator that it is for, or -1
    rows: tuple[Work, ...]

    def by(self, label: np.ndarray, row_labels: Sequence[int], count: int) -> list[Total]:
        """Totals by labels below `count`, of each instruction of the program and of each of `rows`; -1 is none."""
        program, trace, first = self.trace.program, self.trace, self.number
        label = label[first]
        moves = transfers(program, first)
        place = np.full(len(program), -1, np.int64)
        place[first] = np.arange(len(first))
        of_moves = label[place[moves.number]].tolist()
        ddr, gb = (_summed(bytes_at(program, moves, level).tolist(), of_moves, count) for level in _LEVELS)
        start, end = trace.start_ticks[first], trace.end_ticks[first]
        rows = self.rows
        columns = (
            _summed([row.macs for row in rows], row_labels, count),
            _summed([row.matrix_macs for row in rows], row_labels, count),
            _summed([row.vector_operations for row in rows], row_labels, count),
            _summed([row.peak_cycles for row in rows], row_labels, count, Fraction(0)),
            ddr,
            gb,
            (occupied_cycles(start, end, label, count) // trace.ticks_per_cycle).tolist(),
            np.bincount(label[label >= 0], minlength=count).tolist(),
            self._cores(label, count),
        )
        return [Total(*values) for values in zip(*columns, strict=True)]

    def by_operator(self) -> list[Total]:
        """Totals of the program's operators."""
        return self.by(self.served, [row.operator for row in self.rows], len(self.trace.program.operators))

    def _cores(self, label: np.ndarray, count: int) -> list[int]:
        program, first = self.trace.program, self.number
        core = np.array([-1 if engine.core is None else engine.core for engine in program.engines], np.int64)
        on_core = core[program.engine[first]]
        computes = np.isin(program.kind[first], (Kind.COMPUTE, Kind.GATHER)) & (on_core >= 0)
        pairs = set(zip(label[computes].tolist(), on_core[computes].tolist(), strict=True))
        return _summed([1] * len(pairs), [pair[0] for pair in pairs], count)


_LEVELS = (Level.DDR, Level.GB)


def one_batch(schedule: Schedule, trace: Trace, machine: Accelerator, iterations: int) -> OneBatch:
    """The first batch of a run, which is so many iterations of its program."""
    program = trace.program
    first = np.flatnonzero(program.iteration < iterations)
    served = operators_served(program, [kernel.operators for kernel in schedule.kernels])
    return OneBatch(trace, first, served, work(program, machine, first))


def _summed(values: Iterable[_Sum], labels: Sequence[int], count: int, zero: _Sum = 0) -> list[_Sum]:
    total = [zero] * count
    for value, label in zip(values, labels, strict=True):
        if label >= 0:
            total[label] += value
    return total

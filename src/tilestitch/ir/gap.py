"""The gap between a latency and its bound, as a sum of named parts; for a run and for what is chosen of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction

import numpy as np

from tilestitch.base.html import Record
from tilestitch.base.shown import Brief, Shown
from tilestitch.ir.program import Program


class Part(StrEnum):
    """What the time beyond the bound goes to; "it" is the unit, or the port of DDR, that the bound is about."""

    OTHER_UNIT = "other unit"
    OTHER_CORES = "other cores"
    ARITHMETIC = "arithmetic"
    WEIGHTS = "weights"
    SPILLS = "results through DDR"
    BORDERS = "inputs and outputs"
    SHARED = "results through GB"
    CORE_TO_CORE = "core to core"
    LAUNCHES = "launches"
    SETUPS = "set-ups"
    SHAPE = "shape of the unit"
    UNNEEDED = "unneeded work"
    WAY = "slower ends"
    ENDS = "start and end"


PARTS = tuple(Part)
MEANINGS = {
    Part.OTHER_UNIT: "it waits for what the other unit of its core computes",
    Part.OTHER_CORES: "it waits for what other cores compute",
    Part.ARITHMETIC: "it waits for what cores compute",
    Part.WEIGHTS: "it waits for constants on their way from DDR",
    Part.SPILLS: "it waits for results that go to DDR or come from there",
    Part.BORDERS: "it waits for inputs and outputs of the network",
    Part.SHARED: "it waits for results that go to GB or come from there",
    Part.CORE_TO_CORE: "it waits for copies between the memories of cores",
    Part.LAUNCHES: "it waits for a kernel to start",
    Part.SETUPS: "it starts instructions",
    Part.SHAPE: "tiles do not fill it",
    Part.UNNEEDED: "it does more than the outputs need",
    Part.WAY: "bytes flow slower than it could pass them",
    Part.ENDS: "before its first and after its last work",
}


@dataclass(frozen=True, slots=True)
class GapPart:
    """One part of a gap, and how much of it is what; these may overlap."""

    part: Part
    cycles: Fraction
    setup_cycles: Fraction  # transfers that were being set up
    sharing_cycles: Fraction  # transfers that others at the same ports delayed
    room_cycles: Fraction  # what could have run earlier if there had been room in memory


@dataclass(frozen=True, repr=False)
class Gap(Shown):
    """A latency, its bound, and the parts of what lies between; the parts add up to it exactly.

    All are cycles of the mean unit of the class that the bound is about.
    """

    what: str
    latency_cycles: Fraction
    bound_cycles: Fraction
    parts: tuple[GapPart, ...]  # in the order of `Part`, those that are not zero
    ends: tuple[tuple[Part, Fraction], ...]  # what is waited for at start and end

    @property
    def gap_cycles(self) -> Fraction:
        return self.latency_cycles - self.bound_cycles

    def cycles(self, part: Part) -> Fraction:
        """One part, 0 where there is none of it."""
        return next((one.cycles for one in self.parts if one.part is part), Fraction(0))

    def __str__(self) -> str:
        """A line for the sum, and one for each part."""
        lines = [self.heading()]
        for one in self.parts:
            lines.append(f"  {one.part:20s} {float(one.cycles):14,.1f}")
        return "\n".join(lines)

    def heading(self) -> str:
        """What it is of, and the sum."""
        return (
            f"{self.what}: {float(self.latency_cycles):,.1f} cycles, bound {float(self.bound_cycles):,.1f}, "
            f"gap {float(self.gap_cycles):,.1f}"
        )

    def records(self) -> tuple[Record, ...]:
        """Every part."""
        return tuple(
            {
                "part": str(one.part),
                "cycles": float(one.cycles),
                "share": float(one.cycles / self.gap_cycles) if self.gap_cycles else None,
                "setup_cycles": float(one.setup_cycles),
                "sharing_cycles": float(one.sharing_cycles),
                "room_cycles": float(one.room_cycles),
                "meaning": MEANINGS[one.part],
            }
            for one in self.parts
        )


@dataclass(frozen=True, slots=True)
class Rate:
    """How fast work of one kind (of an operator, or bytes of a tensor) could be done, and how much of it is needed."""

    name: str
    cycles_per_work: Fraction  # of the mean unit, at best
    needed: Fraction  # of all its work, the share that the bound counts
    rest: Part  # what the time beyond the best one is
    excess: Part  # what the best time of work that is not needed is


@dataclass(frozen=True, repr=False)
class Busy(Brief):
    """Columns: when lanes were at work, one entry for each instruction and lane."""

    instruction: np.ndarray
    lane: np.ndarray
    begin_ticks: np.ndarray
    end_ticks: np.ndarray
    rate: np.ndarray  # number in `Blame.rates`
    work: np.ndarray
    setup_ticks: np.ndarray  # of it, to start the instruction


@dataclass(frozen=True, repr=False)
class Waits(Brief):
    """Columns: when lanes were not at work; see `ir.idle.Idle`."""

    lane: np.ndarray
    begin_ticks: np.ndarray
    end_ticks: np.ndarray
    waiting: np.ndarray
    waited_for: np.ndarray
    part: np.ndarray  # number in `PARTS`
    inner: np.ndarray  # the same, but for start and end what is waited for then
    setup_ticks: np.ndarray  # of it, as in `GapPart`
    sharing_ticks: np.ndarray
    room_ticks: np.ndarray


@dataclass(frozen=True, repr=False)
class Blame(Brief):
    """All that the gap of a program is made of, so that it can be added up for whatever is chosen.

    Lanes are the units of the class that the bound is about, or the port of DDR alone. Each lane is at work or waits
    at any time, and counts with its weight, its share of the peak of all.
    """

    program: Program
    unit: str  # what the lanes are
    lanes: tuple[str, ...]
    weights: tuple[Fraction, ...]
    ticks_per_cycle: int
    bound_cycles: int  # of the whole run
    rates: tuple[Rate, ...]
    busy: Busy
    waits: Waits
    owner: np.ndarray  # int32: per instruction, the number of the operator that it is for, or -1

    def whole(self) -> Gap:
        """The gap of the run: what the rounding of its bound adds is taken from the shape of the unit."""
        rest = Part.WAY if self.unit == PORT else Part.SHAPE
        every = np.arange(len(self.busy.lane)), np.arange(len(self.waits.lane))
        found = self._gap("the run", *every)
        rounding = self.bound_cycles - found.bound_cycles
        parts = {one.part: one for one in found.parts}
        old = parts.get(rest, GapPart(rest, Fraction(0), Fraction(0), Fraction(0), Fraction(0)))
        parts[rest] = replace(old, cycles=old.cycles - rounding)
        kept = tuple(parts[part] for part in PARTS if part in parts and parts[part].cycles != 0)
        return replace(found, bound_cycles=Fraction(self.bound_cycles), parts=kept)

    def of(self, what: str, chosen: np.ndarray) -> Gap:
        """The gap of some instructions, `chosen` being true for them: their work, and the waits before them."""
        waiting = self.waits.waiting
        return self._gap(
            what,
            np.flatnonzero(chosen[self.busy.instruction]),
            np.flatnonzero((waiting >= 0) & chosen[waiting]),
        )

    def by(self, labels: np.ndarray, names: Sequence[str], cycles: tuple[int, int] | None = None) -> tuple[Gap, ...]:
        """The gaps of instructions with the same label, a number in `names`; those with -1 are left out.

        What comes after the last instruction of each lane belongs to none, so these are less than the whole by that.
        Of a range of `cycles` where it is given, the second one left out.
        """
        waiting = self.waits.waiting
        busy_label = labels[self.busy.instruction]
        wait_label = np.where(waiting >= 0, labels[waiting], -1)
        begin = end = None
        if cycles is not None:
            begin, end = cycles[0] * self.ticks_per_cycle, cycles[1] * self.ticks_per_cycle
            busy_label = np.where(_inside(self.busy, begin, end), busy_label, -1)
            wait_label = np.where(_inside(self.waits, begin, end), wait_label, -1)
        every = np.arange(len(names) + 1)
        busy_order, wait_order = np.argsort(busy_label, kind="stable"), np.argsort(wait_label, kind="stable")
        busy_at = np.searchsorted(busy_label[busy_order], every)
        wait_at = np.searchsorted(wait_label[wait_order], every)
        return tuple(
            self._gap(
                name,
                busy_order[busy_at[n] : busy_at[n + 1]],
                wait_order[wait_at[n] : wait_at[n + 1]],
                begin=begin,
                end=end,
            )
            for n, name in enumerate(names)
        )

    def operators(self) -> tuple[Gap, ...]:
        """The gap of each operator."""
        return self.by(self.owner, self.program.operators)

    def kernels(self) -> tuple[Gap, ...]:
        """The gap of each kernel."""
        return self.by(self.program.kernel, self.program.kernels)

    def between(self, begin_cycle: int, end_cycle: int) -> Gap:
        """The gap of a range of cycles, the last one left out.

        Of what runs beyond it, it has the share of the work that it has of the cycles.
        """
        begin, end = begin_cycle * self.ticks_per_cycle, end_cycle * self.ticks_per_cycle
        what = f"cycles {begin_cycle:,} to {end_cycle - 1:,}"
        inside = [np.flatnonzero(_inside(rows, begin, end)) for rows in (self.busy, self.waits)]
        return self._gap(what, *inside, begin=begin, end=end)

    def _gap(
        self, what: str, busy: np.ndarray, waits: np.ndarray, *, begin: int | None = None, end: int | None = None
    ) -> Gap:
        """Add up some rows of both tables, cut off at the range where there is one."""
        parts = {part: [Fraction(0)] * 4 for part in PARTS}
        sums, ends = self._sums(waits, begin, end)
        for number, part in enumerate(PARTS):
            for which in range(4):
                parts[part][which] += self._mean(sums[number, :, which])
        latency, bound = self._mean(sums[:, :, 0].sum(axis=0)), Fraction(0)
        for rate, lane, ticks, setup, work in self._work(busy, begin, end):
            kind, weight = self.rates[rate], self.weights[lane] / self.ticks_per_cycle
            best = work * kind.cycles_per_work
            latency += ticks * weight
            bound += best * kind.needed
            parts[Part.SETUPS][0] += setup * weight
            parts[kind.rest][0] += (ticks - setup) * weight - best
            parts[kind.excess][0] += best * (1 - kind.needed)
        rows = tuple(GapPart(part, *values) for part, values in parts.items() if any(values))
        inner = tuple((part, self._mean(row)) for part, row in zip(PARTS, ends, strict=True) if row.any())
        return Gap(what, latency, bound, rows, inner)

    def _mean(self, ticks: np.ndarray) -> Fraction:
        """Cycles of the mean unit, from the ticks of each lane."""
        lanes = np.flatnonzero(ticks).tolist()
        return sum((int(ticks[lane]) * self.weights[lane] for lane in lanes), Fraction(0)) / self.ticks_per_cycle

    def _sums(self, rows: np.ndarray, begin: int | None, end: int | None) -> tuple[np.ndarray, np.ndarray]:
        """Ticks of waits by part, lane and column of `GapPart`; of those at start and end, by inner part and lane."""
        table = self.waits
        starts, stops = table.begin_ticks[rows], table.end_ticks[rows]
        whole = stops - starts
        columns = [whole, table.setup_ticks[rows], table.sharing_ticks[rows], table.room_ticks[rows]]
        if begin is not None and end is not None:
            inside = np.minimum(stops, end) - np.maximum(starts, begin)
            columns = [inside, *(column * inside // whole for column in columns[1:])]
        sums = np.zeros((len(PARTS), len(self.lanes), 4), np.int64)
        for number, column in enumerate(columns):
            np.add.at(sums[:, :, number], (table.part[rows], table.lane[rows]), column)
        ends = np.zeros((len(PARTS), len(self.lanes)), np.int64)
        outside = table.part[rows] == PARTS.index(Part.ENDS)
        np.add.at(ends, (table.inner[rows][outside], table.lane[rows][outside]), columns[0][outside])
        return sums, ends

    def _work(
        self, rows: np.ndarray, begin: int | None, end: int | None
    ) -> list[tuple[int, int, int, Fraction | int, Fraction | int]]:
        """Rate, lane, ticks, those of them to start instructions, and work of busy times, added up by rate and lane."""
        table = self.busy
        starts, stops = table.begin_ticks[rows], table.end_ticks[rows]
        setup, work = table.setup_ticks[rows], table.work[rows]
        found: list[tuple[int, int, int, Fraction | int, Fraction | int]] = []
        if begin is not None and end is not None:
            cut = (starts < begin) | (stops > end)
            for row in np.flatnonzero(cut).tolist():
                ticks = min(int(stops[row]), end) - max(int(starts[row]), begin)
                share = Fraction(ticks, int(stops[row] - starts[row]))
                which = int(table.rate[rows[row]]), int(table.lane[rows[row]])
                found.append((*which, ticks, int(setup[row]) * share, int(work[row]) * share))
            rows, starts, stops, setup, work = rows[~cut], starts[~cut], stops[~cut], setup[~cut], work[~cut]
        pairs = table.rate[rows].astype(np.int64) * len(self.lanes) + table.lane[rows]
        known, place = np.unique(pairs, return_inverse=True)
        sums = np.zeros((len(known), 3), np.int64)
        for number, column in enumerate((stops - starts, setup, work)):
            np.add.at(sums[:, number], place, column)
        for pair, (ticks, own, done) in zip(known.tolist(), sums.tolist(), strict=True):
            found.append((pair // len(self.lanes), pair % len(self.lanes), ticks, own, done))
        return found


def _inside(rows: Busy | Waits, begin: int, end: int) -> np.ndarray:
    """Which rows have a part in a range."""
    return (rows.end_ticks > begin) & (rows.begin_ticks < end)


PORT = "port of DDR"

"""What an operator of a group costs by itself in time and energy, up to the tile at which it is joined.

A visit is what the operator does inside the loops that it shares: a whole nest, from its first load to its last store.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tilestitch.base.errors import TooLarge
from tilestitch.hardware.tree import MachineTree
from tilestitch.mapping.fused.fastest import Fastest
from tilestitch.mapping.fused.inner import InnerSearch, Joint, Step, steps_to
from tilestitch.mapping.fused.laid import Laid, field_of, laid
from tilestitch.mapping.fused.sweep import Field, radix
from tilestitch.mapping.fused.timed_sweep import Aim, TimedSwept, Timing, is_above, most_cycles_of, timed_sweep
from tilestitch.mapping.fused.timing import own_loads, timing_of, units_loads
from tilestitch.mapping.fused.ways import Ways, merged
from tilestitch.mapping.tree import labels
from tilestitch.mapping.tree.crossings import PortNumber
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.problem import MOST_STATES
from tilestitch.mapping.tree.timed_pace import AHEAD, LATE, TURN, UNTIL, WORK, latencies_of

_KEPT = 128  # choices of which the arrays of the sweep are kept


@dataclass(frozen=True, slots=True)
class Clock:
    """The tree whose ports are counted, those that are kept to the end, and whether energy counts beside latency."""

    tree: MachineTree
    kept: tuple[PortNumber, ...]
    counts_energy: bool


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """The arrays of the sweep of one choice."""

    placed: PlacedNest
    one: Laid
    field: Field
    timing: Timing
    start: NDArray[np.int64]


@dataclass(slots=True, eq=False)
class TimedInner:
    """One operator of a group with every choice of what it spreads, in time; what it may spread is known by `base`."""

    base: InnerSearch
    clock: Clock
    beside: Mapping[PortNumber, int]  # of the ports that are kept for how long other operators use them at least
    stops: int  # for how long the units stop at least, beside steps that take a cycle each
    prepared: dict[int, Prepared] = field(default_factory=dict)  # by choice
    fastest: Fastest | None = None
    _cycles: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    _ways: tuple[tuple[Aim, int | None], Ways] | None = None
    least_cycles: int = 0  # that all visits take, of the ways that were found last

    def bounds(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Of every choice below which energy and which cycles inside shared loops it does not come.

        Raises `TooLarge` where there are too many choices to search all of them.
        """
        if self.base.has_more():
            raise TooLarge(
                f"{self.base.bare.nest.name}: too many choices of what to spread to fuse it in time; name loops for "
                "some axes, or ask for --objective energy"
            )
        energies = self.base.bounds_fj()
        if not self._cycles.size:
            step = self._step_cycles()
            self._cycles = self.base.steps() * step * self.base.times + np.where(step == 1, self.stops, 0)
            if self.fastest is not None:
                self.fastest.settle_least(np.flatnonzero(energies < labels.NEVER))
                self._cycles = np.maximum(self._cycles, self.fastest.cycles * self.base.times)
        return energies, np.where(energies < labels.NEVER, self._cycles, labels.NEVER)

    def _step_cycles(self) -> NDArray[np.int64]:
        """Of every choice for how long the results of a step keep their busiest port; at least a cycle."""
        bare, choices = self.base.bare, self.base.choices
        if choices is None:
            return np.array([_step_cycles(self.clock.tree, bare)], np.int64)
        if len(choices) == 0:  # as none uses as many units as are asked for
            return np.empty(0, np.int64)
        inside = [at for at, axis in enumerate(bare.tree.axes) if axis.name in bare.tree.fan_outs(bare.homes[-1])[0]]
        rows = np.concatenate([choices.over[:, inside], choices.under[:, inside]], axis=1).reshape(len(choices), -1)
        _, first, back = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        each = [_step_cycles(self.clock.tree, self.base.placement(number)) for number in first.tolist()]
        return np.array(each, np.int64)[back.reshape(-1)]

    def ways(self, aim: Aim, most: int, few: int | None = None) -> tuple[Ways, int]:
        """Ways to where the operator may be joined that may end within an aim, and how many labels it took.

        If asked for a few choices, of those that are the fastest by their bounds. Raises `TooLarge` where there are
        more labels than `most`.
        """
        if self._ways is not None and self._ways[0] == (aim, few):
            return self._ways[1], 0
        energies, cycles = self.bounds()
        found: list[Ways] = []
        count, self.least_cycles = 0, labels.NEVER
        for number in np.lexsort((energies, cycles))[:few].tolist():
            spent = int(energies[number]) if self.clock.counts_energy else 0
            if energies[number] >= labels.NEVER or _misses(aim, spent, int(cycles[number])):
                continue
            if self._is_too_slow(number, aim, spent):
                continue
            ways, more = self._swept(number, aim, most - count)
            count += more
            found.append(ways)
        both = merged(found, len(self.base.rooms.names), len(self.base.bare.operands), 1 + len(self.clock.kept))
        self._ways = (aim, few), both
        return both, count

    def _is_too_slow(self, choice: int, aim: Aim, spent: int) -> bool:
        """Whether a search says that no run of a choice ends within an aim."""
        if self.fastest is None:
            return False
        most = most_cycles_of(aim, spent + aim.other_fj) - aim.other_cycles
        is_above = self.fastest.is_above(choice, most // self.base.times)
        self._cycles[choice] = max(int(self._cycles[choice]), int(self.fastest.cycles[choice]) * self.base.times)
        return is_above

    def known_ways(self) -> tuple[Aim, Ways]:
        """The ways that were found last, and what they were found for."""
        assert self._ways is not None
        (aim, _), ways = self._ways
        return aim, ways

    def _prepare(self, choice: int) -> Prepared:
        if choice in self.prepared:
            return self.prepared[choice]
        base = self.base
        placed = base.placement(choice)
        one = laid(placed, base.sums, base.rooms, base.parts)
        found = field_of(one, base.rooms, base.times, base.outside)
        states = radix(found.first.tolist())[-1]
        if states * one.lattice.points > MOST_STATES:
            raise TooLarge(
                f"{placed.nest.name}: {states * one.lattice.points:,} states of the search; at most "
                f"{MOST_STATES:,} are kept"
            )
        tiles = one.lattice.tiles()
        left = placed.total_steps // tiles.prod(axis=1) * base.times
        timing, start = timing_of(
            own_loads(self.clock.tree, one),
            units_loads(self.clock.tree, placed),
            left,
            one.lattice.shape,
            self.beside,
            is_block=False,
            is_all=False,
            outside=base.outside,
        )
        made = Prepared(placed, one, found, timing, start)
        if len(self.prepared) < _KEPT:
            self.prepared[choice] = made
        return made

    def _sweep(self, made: Prepared, aim: Aim, most: int) -> tuple[int, TimedSwept]:
        states = radix(made.field.first.tolist())[-1]
        heads = np.full(states * made.one.lattice.points, -1, np.int64)
        fixed = made.one.fixed_fj * self.base.times if self.clock.counts_energy else 0
        count, swept = timed_sweep(
            made.field if self.clock.counts_energy else without_energy(made.field),
            made.timing,
            aim._replace(other_fj=aim.other_fj + fixed),
            np.zeros(1, np.int64),
            np.full(1, int(made.one.tables.partial_from_units), np.int64),
            np.zeros(1, np.int64),
            np.zeros((1, len(made.field.limit))),
            made.start[np.newaxis],
            heads,
            most,
        )
        if count < 0:
            raise TooLarge(f"{made.placed.nest.name}: more labels of the fused search than allowed; allow more")
        return count, swept

    def _swept(self, choice: int, aim: Aim, most: int) -> tuple[Ways, int]:
        made = self._prepare(choice)
        count, swept = self._sweep(made, aim, most)
        rows, points, placed_cuts = self.base.rows_at_joints(made.placed, made.one, made.field, swept.trail, count)
        fixed = made.one.fixed_fj * self.base.times if self.clock.counts_energy else 0
        cycles = visits(made.timing, swept.pace[rows])
        ways = Ways(
            points,
            placed_cuts,
            swept.trail.state[rows] % 2 == 1,
            swept.trail.spent[rows] + fixed,
            swept.trail.taken[rows][:, : len(self.base.rooms.names)],
            np.full(len(rows), choice, np.int64),
            cycles,
            rows,
        )
        least = made.timing.left[swept.trail.point[rows]] * cycles[:, 0]
        keep = within(aim, ways.spent, least)
        self.least_cycles = min(self.least_cycles, int(least[keep].min(initial=labels.NEVER)))
        return ways[keep], count

    def path(self, row: Joint, aim: Aim) -> tuple[PlacedNest, list[Step]]:
        """The cuts on the way to a joint, in the order in which they were placed."""
        made = self._prepare(row.choice)
        _, swept = self._sweep(made, aim, 2**62)
        return made.placed, steps_to(made.one, made.field, swept.trail, row.label)


def _step_cycles(tree: MachineTree, placed: PlacedNest) -> int:
    return max((int(cycles[0]) for cycles in units_loads(tree, placed).both.values()), default=1) or 1


def without_energy(found: Field) -> Field:
    """A field of which only says what fits."""
    cost, togo = (np.where(one >= labels.NEVER, labels.NEVER, 0) for one in (found.cost, found.togo))
    return found._replace(cost=cost, togo=togo)


def visits(timing: Timing, pace: NDArray[np.int64]) -> NDArray[np.int64]:
    """The time of each of some tiles as a whole nest, and for how long it keeps the ports busy that are kept."""
    whole = latencies_of(pace)
    busy = timing.columns.busy
    return np.column_stack([whole, pace[:, busy : busy + timing.outer]])


def paces_of(timing: Timing, cycles: NDArray[np.int64]) -> NDArray[np.int64]:
    """The paces of nests one after another, of which `visits` has told the times."""
    found = np.zeros((len(cycles), timing.columns.end), np.int64)
    found[:, [TURN, WORK, AHEAD, *range(LATE, UNTIL)]] = cycles[:, :1]
    found[:, timing.columns.busy : timing.columns.until] = cycles[:, 1:]
    return found


def within(aim: Aim, spent: NDArray[np.int64], cycles: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which energies and latencies, with those of what is not counted in them, are not above an aim."""
    energies, latencies = spent + aim.other_fj, cycles + aim.other_cycles
    value = energies.astype(np.float64) ** aim.energy_power * latencies.astype(np.float64) ** aim.cycles_power
    return (energies <= aim.most_fj) & (latencies <= aim.most_cycles) & (value <= aim.most_value)


def _misses(aim: Aim, fj: int, cycles: int) -> bool:
    return bool(is_above(aim, fj + aim.other_fj, cycles + aim.other_cycles))

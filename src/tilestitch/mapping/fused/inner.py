"""What an operator of a group costs by itself, up to the tile at which it is joined with its neighbours.

Everything outside of that tile lies in memories that all units share, and costs the same whatever is spread over the
units. So of all choices of what is spread only those ways to the tile are kept that none beats in cost and room.
"""

from dataclasses import dataclass, field, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilestitch.base.errors import DoesNotFit, TooLarge
from tilestitch.mapping.fused.chain import at_home
from tilestitch.mapping.fused.fastest import Fastest
from tilestitch.mapping.fused.laid import Laid, Rooms, all_times, field_of, laid
from tilestitch.mapping.fused.outer import Outer, first_shared
from tilestitch.mapping.fused.outside import Outside
from tilestitch.mapping.fused.sweep import Field, radix, sweep
from tilestitch.mapping.fused.ways import Ways, merged
from tilestitch.mapping.tree import labels
from tilestitch.mapping.tree.choices import Choices, SpatialSpace, choices_of
from tilestitch.mapping.tree.crossings import operands_on_tree
from tilestitch.mapping.tree.floor import least_of_all
from tilestitch.mapping.tree.labels import Trail
from tilestitch.mapping.tree.lattice import Lattice, lattice_of
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.problem import MOST_STATES, problem_of
from tilestitch.mapping.tree.search import MOST_LABELS
from tilestitch.mapping.tree.spatial import Opener, bounds_fj, placement, task_of, units_fj
from tilestitch.mapping.tree.tables import FEMTO, Sums, tables_of


@dataclass(frozen=True, slots=True)
class Step:
    """A cut of an operand placed at a tile of steps, on the way to where an operator is joined."""

    operand: int
    cut: int  # its number, of those of the operand
    tile: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Joint:
    """A row of `Ways`: which label of which choice."""

    choice: int
    label: int


@dataclass(slots=True, eq=False)
class InnerSearch:
    """One operator of a group, run `times` times, with every choice of what it spreads; best choices are known first.

    `rows` are the loops of which a tile may be joined: sets of loops that need not be whole; `whole` are the iterations
    of a whole tile, in each of the cells over which the operators of the group are spread. Where the operator runs
    window by window, `outside` says what its cuts cost at least outside of the loops over windows. Its bounds then are
    of what lies inside of memories that all units share, and of the least of the rest.
    """

    bare: PlacedNest
    rows: tuple[frozenset[int], ...]
    whole: tuple[int, ...]
    rooms: Rooms
    sums: Sums
    space: SpatialSpace | None
    times: int = 1
    parts: frozenset[int] = frozenset()  # loops along which it is one window of several
    outside: Outside | None = None
    _found: dict[int, int] = field(default_factory=dict)
    _budget: int = -1  # every choice that costs no more is known
    _opener: Opener | None = None
    _choices: Choices | None = None
    _bounds: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    _outer: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    _ways: tuple[int, Ways] | None = None

    def least_fj(self) -> int:
        """What the operator costs at least, with all memories for itself; NEVER where nothing fits."""
        budget = self.bound_fj()
        if self._choices is None:
            return budget
        while budget < labels.NEVER:
            known = self._known(budget)
            if known:
                return min(known.values())
            budget += budget // 8 + 1
        return labels.NEVER

    def floor_fj(self) -> int:
        """Below what it costs nothing with any choice, those that are not searched included."""
        self._prepare()
        if self.space is None or self._choices is None or not self._choices.more_than:
            return self.least_fj()
        return int(least_of_all(task_of(self._inside(), self.sums), self.space).energy_pj * FEMTO) * self.times

    def has_more(self) -> bool:
        """Whether there are choices that are not searched, as there are too many."""
        self._prepare()
        return self._choices is not None and self._choices.more_than > 0

    def bound_fj(self) -> int:
        """Below what it costs nothing, without a search."""
        return int(self.bounds_fj().min(initial=labels.NEVER))

    def bounds_fj(self) -> NDArray[np.int64]:
        """Of every choice below which energy it does not come; NEVER where it does not fit."""
        self._prepare()
        return self._bounds

    @property
    def choices(self) -> Choices | None:
        """All choices of what is spread; none where that is fixed."""
        self._prepare()
        return self._choices

    def steps(self) -> NDArray[np.int64]:
        """Of every choice how many steps the units take."""
        self._prepare()
        if self._choices is None:
            return np.array([self.bare.total_steps], np.int64)
        return self._choices.steps.prod(axis=1)

    def fastest(self) -> Fastest | None:
        """Below how many cycles no run of a choice comes; none where nothing may be chosen."""
        choices = self.choices
        return None if choices is None or len(choices) == 0 else Fastest(self._surely_inside(), self.sums, choices)

    def _known(self, budget: int) -> dict[int, int]:
        """Choices that cost no more than so much, each with what it costs at least."""
        self._prepare()
        if budget > self._budget and self._choices is not None:
            self._open(budget)
            self._budget = budget
        return {number: value for number, value in self._found.items() if value <= budget}

    def _inside(self) -> PlacedNest:
        """The operator as far as its bounds go: of one window, without what its cuts cost that may lie outside."""
        return self.bare if self.outside is None else self._surely_inside()

    def _surely_inside(self) -> PlacedNest:
        """The operator without what its cuts move that may lie outside of shared loops."""
        placed = self.bare
        for operand in operands_on_tree(self.bare):
            inner = first_shared(operand, self.rooms)
            if inner < len(operand.memories) - 1:
                placed = at_home(placed, operand.number, operand.memories[inner])
        return placed

    def _prepare(self) -> None:
        if self._choices is not None or self._bounds.size:
            return
        inside = self._inside()
        if self.space is None:
            try:
                value = _alone(inside, self.sums)
            except DoesNotFit:
                value = labels.NEVER
            self._outer = self._outside_of(np.array([inside.steps], np.int64))
            self._bounds = self._in_all(np.array([value], np.int64))
            if value < labels.NEVER:
                self._found[0] = int(self._bounds[0])
            return
        task = task_of(inside, self.sums)
        self._choices = choices_of(self.bare, self.space)
        self._outer = self._outside_of(self._choices.steps)
        units = units_fj(task, self._choices) + self._fixed_fj()
        loose = bounds_fj(task, self._choices, loose=True)
        tight = bounds_fj(task, self._choices, loose=False)
        self._bounds = self._in_all(np.minimum(np.maximum(loose, tight) + units, labels.NEVER))
        self._opener = Opener(task, self._choices)

    def _outside_of(self, steps: NDArray[np.int64]) -> NDArray[np.int64]:
        """What the rest costs at least, of each choice of so many steps; where all loops are divided that is alike."""
        if self.outside is None:
            return np.zeros(len(steps), np.int64)
        different, first, back = np.unique(steps, axis=0, return_index=True, return_inverse=True)
        is_even = (np.array(self.bare.nest.extents, np.int64) % different == 0).all(axis=1)
        outer = Outer(self.sums, self.rooms, self.times, self.parts, self.outside.fj)
        least = np.full(len(different), self.outside.least_fj)
        if self._choices is not None:
            least[~is_even] = outer.least_of_each(self.bare, self._choices[first[~is_even]])
        elif not is_even.all():
            least[:] = outer.least_fj(self.bare)
        return least[back.reshape(-1)]

    def _in_all(self, once: NDArray[np.int64]) -> NDArray[np.int64]:
        """Of every choice what all of its runs cost, of what one does."""
        all_ = all_times(once, self.times)
        return np.where(all_ >= labels.NEVER, labels.NEVER, np.minimum(all_ + self._outer, labels.NEVER))

    def _fixed_fj(self) -> int:
        return round(self.bare.tree.mac_pj * self.bare.nest.macs * FEMTO)

    def _open(self, budget: int) -> None:
        assert self._opener is not None
        fixed = self._fixed_fj()
        numbers = [
            number
            for number in np.argsort(self._bounds, kind="stable").tolist()
            if self._bounds[number] <= budget and number not in self._found
        ]
        for number in self._opener.each(np.array(numbers, np.int64)):
            outer = int(self._outer[number])
            below = (budget - outer) // self.times + 1
            ended, value, _ = self._opener.least(number, MOST_LABELS, below - fixed)
            if ended == labels.STOPPED:
                raise TooLarge(f"{self.bare.nest.name}: more than {MOST_LABELS:,} labels for one choice")
            if ended == labels.FOUND:
                self._found[number] = (value + fixed) * self.times + outer
            else:
                self._bounds[number] = max(int(self._bounds[number]), budget + 1)

    def placement(self, choice: int) -> PlacedNest:
        """The nest with one of the choices."""
        return self.bare if self._choices is None else placement(self.bare, self._choices, choice)

    def ways(self, budget: int, most: int) -> tuple[Ways, int]:
        """Ways to where the operator may be joined that end within a budget, and how many labels it took.

        Raises `TooLarge` where there are more labels than `most`.
        """
        if self._ways is not None and self._ways[0] >= budget:
            return self._ways[1], 0
        found: list[Ways] = []
        count = 0
        for choice in sorted(self._known(budget)):
            ways, more = self._swept(choice, budget, most - count)
            count += more
            found.append(ways)
        both = merged(found, len(self.rooms.names), len(self.bare.operands))
        self._ways = budget, both
        return both, count

    def known_ways(self) -> tuple[int, Ways]:
        """The ways that were found last, and their budget."""
        assert self._ways is not None
        return self._ways

    def _swept(self, choice: int, budget: int, most: int) -> tuple[Ways, int]:
        placed = self.placement(choice)
        one = laid(placed, self.sums, self.rooms, self.parts)
        field_, count, swept = swept_choice(one, self.rooms, self.times, budget, most, self.outside)
        rows, points, placed_cuts = self.rows_at_joints(placed, one, field_, swept, count)
        fixed = one.fixed_fj * self.times
        taken = swept.taken[rows][:, : len(self.rooms.names)]
        nothing = np.empty((len(rows), 0), np.int64)
        chosen = np.full(len(rows), choice, np.int64)
        spent = swept.spent[rows] + fixed
        return Ways(points, placed_cuts, swept.state[rows] % 2 == 1, spent, taken, chosen, nothing, rows), count

    def rows_at_joints(
        self, placed: PlacedNest, one: Laid, field_: Field, swept: Trail, count: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The labels at which the operator may be joined, the points of these tiles, and the outer cuts placed."""
        points, tiles = self.joints(placed, one.lattice)
        legal = np.full(one.lattice.points, -1, np.int64)
        legal[points] = tiles
        at = legal[swept.point[:count]]
        rows = np.flatnonzero((at >= 0) & ~swept.dead[:count])
        state = swept.state[rows]
        steps = radix(field_.first.tolist())
        placed_cuts = np.empty((len(rows), len(one.cuts)), np.int64)
        for operand in range(len(one.cuts)):
            placed_cuts[:, operand] = state // steps[operand] % (len(one.cuts[operand]) + 1)
        outer = np.array(one.outer, np.int64)
        keep = (placed_cuts >= outer).all(axis=1)
        rows = rows[keep]
        return rows, at[rows], placed_cuts[keep] - outer

    def joints(self, placed: PlacedNest, lattice: Lattice) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The tiles at which the operator may be joined: points of its lattice of steps, and of that of whole tiles."""
        tiles, steps = lattice.tiles(), np.array(placed.steps, np.int64)
        extents = np.array(self.whole, np.int64)
        even = np.array([self._is_even(placed, loop) for loop in range(len(steps))], np.bool_)
        whole = tiles == steps
        legal = np.zeros(len(tiles), np.bool_)
        for rows in self.rows:
            free = np.array([loop in rows for loop in range(len(steps))], np.bool_) & even
            legal |= (whole | free).all(axis=1)
        points = np.flatnonzero(legal)
        inside = np.where(whole[points], extents, tiles[points] * (extents // steps))
        return points, lattice_of(self.whole).points_of(inside)

    def _is_even(self, placed: PlacedNest, loop: int) -> bool:
        """Whether tiles of a loop are alike: what is spread of it divides."""
        extent, steps = placed.nest.extents[loop], placed.steps[loop]
        spread = prod((one.factor for one in placed.unrolled if one.loop == loop), start=1)
        return extent == steps * spread

    def path(self, row: Joint, budget: int) -> tuple[PlacedNest, list[Step]]:
        """The cuts on the way to a joint, in the order in which they were placed."""
        placed = self.placement(row.choice)
        one = laid(placed, self.sums, self.rooms, self.parts)
        field_, _, swept = swept_choice(one, self.rooms, self.times, budget, 2**62, self.outside)
        return placed, steps_to(one, field_, swept, row.label)


def steps_to(one: Laid, field_: Field, swept: Trail, label: int) -> list[Step]:
    """The cuts that a label has placed, in the order in which it did."""
    found: list[Step] = []
    all_tiles = one.lattice.tiles()
    while label >= 0:
        action = int(swept.action[label])
        if action >= 0:
            operand = int(np.searchsorted(field_.first, action, side="right")) - 1
            tile = tuple(all_tiles[swept.point[label]].tolist())
            found.append(Step(one.operands[operand], action - int(field_.first[operand]), tile))
        label = int(swept.parent[label])
    return found[::-1]


def swept_choice(
    one: Laid, rooms: Rooms, times: int, budget: int, most: int, outside: Outside | None
) -> tuple[Field, int, Trail]:
    """The labels of an operator with what it spreads fixed."""
    found = field_of(one, rooms, times, outside)
    states = radix(found.first.tolist())[-1]
    if states * one.lattice.points > MOST_STATES:
        raise TooLarge(
            f"{one.tables.placed.nest.name}: {states * one.lattice.points:,} states of the search; at most "
            f"{MOST_STATES:,} are kept"
        )
    heads = np.full(states * one.lattice.points, -1, np.int64)
    start = 1 if one.tables.partial_from_units else 0
    count, swept = sweep(
        found,
        np.zeros(1, np.int64),
        np.full(1, start, np.int64),
        np.zeros(1, np.int64),
        np.zeros((1, len(found.limit))),
        heads,
        budget - one.fixed_fj * times,
        most,
    )
    if count < 0:
        raise TooLarge(f"{one.tables.placed.nest.name}: more labels of the fused search than allowed; allow more")
    return found, count, swept


def _alone(placed: PlacedNest, sums: Sums) -> int:
    """The least that a nest whose spread is fixed costs, in femtojoules. Raises `DoesNotFit`."""
    tables = tables_of(replace(placed, slides=()), sums)
    ended, value, _, _ = labels.least_chain(problem_of(tables), 1, MOST_LABELS)
    if ended == labels.NOTHING:
        raise DoesNotFit(f"{placed.nest.name}: no mapping fits the memories")
    if ended == labels.STOPPED:
        raise TooLarge(f"{placed.nest.name}: more than {MOST_LABELS:,} labels")
    return int(value) + tables.fixed_fj + round(placed.tree.mac_pj * placed.nest.macs * FEMTO)

"""The least energy of a group of operators whose intermediates all stay in memories that the units share.

Blocks of neighbours grow by joins. At a join the loops outside are those that all operators of the block share; each
block before it has run up to there, one after another, and what lies in a memory is the most that any of them needs
at a time. From the join on cuts of all operators are placed on one chain of tiles.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tilestitch.base.errors import TooLarge
from tilestitch.mapping.fused.blocks import Block, Came, Rows, block_of, outside_of
from tilestitch.mapping.fused.cells import space_in_cells
from tilestitch.mapping.fused.chain import Chain
from tilestitch.mapping.fused.fold import Fold
from tilestitch.mapping.fused.inner import InnerSearch, Joint, Step
from tilestitch.mapping.fused.outside import Outside
from tilestitch.mapping.fused.shapes import Group, Kind, Place
from tilestitch.mapping.fused.sweep import radix, sweep
from tilestitch.mapping.fused.timed_inner import Clock, TimedInner, paces_of
from tilestitch.mapping.fused.timed_sweep import Aim, timed_sweep
from tilestitch.mapping.fused.ways import Ways
from tilestitch.mapping.tree import labels
from tilestitch.mapping.tree.choices import SpatialSpace
from tilestitch.mapping.tree.lattice import lattice_of
from tilestitch.mapping.tree.placed import PlacedNest

_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class Alone:
    """An operator on the way to a mapping: how it comes to where it is joined."""

    operator: int
    placed: PlacedNest
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Joined:
    """A block on the way to a mapping: the blocks or ways in it, and the cuts placed outside, with their tiles."""

    first: int
    last: int
    inside: tuple["Joined | Alone", ...]
    threads: tuple[tuple[int, ...], ...]
    joint: tuple[int, ...]  # the tile of the threads at which it is joined
    steps: tuple[tuple[int, int, int, tuple[int, ...]], ...]  # operator, operand, cut of those shared, tile of threads


@dataclass(frozen=True, slots=True)
class Point:
    """An energy and a latency of a group, and how it is made: to be asked before the group is searched again."""

    fj: int
    cycles: int
    joined: Callable[[], Joined]


@dataclass(slots=True, eq=False)
class GroupSearch:
    """The search of a group.

    Where windows overlap along a loop that its operators share, all of them are joined at one place.
    """

    group: Group
    spaces: tuple[SpatialSpace | None, ...]
    most: int
    clock: Clock | None = None  # for latency; and then what is looked for
    aim: Aim | None = None
    few: int | None = None  # choices of each operator that are looked at, where not all are
    labels: int = 0
    _inner: dict[Kind, InnerSearch] = field(default_factory=dict)
    _timed: dict[Kind, TimedInner] = field(default_factory=dict)
    _blocks: dict[tuple[int, int], Block] = field(default_factory=dict)
    _cycles: list[int] = field(default_factory=list)
    _whole: Block | None = None
    _least: tuple[int, ...] = ()

    def least_fj(self) -> int:
        """Below what the group does not come."""
        return sum(self.each_fj()) + self.group.fixed_fj

    def each_fj(self) -> tuple[int, ...]:
        """Below what no operator comes, each with all memories for itself."""
        if not self._least:
            self._least = tuple(self._least_of(number) for number in range(self.group.last + 1))
        return self._least

    def floor_fj(self) -> int:
        """Below what the group does not come with any choice of what its operators spread."""
        floors = (min(one.floor_fj() for one in self._searches(number)) for number in range(self.group.last + 1))
        return sum(floors) + self.group.fixed_fj

    def has_more(self) -> bool:
        """Whether there are choices of an operator that are not searched, as there are too many."""
        return any(one.has_more() for number in range(self.group.last + 1) for one in self._searches(number))

    def _searches(self, number: int) -> list[InnerSearch]:
        """The searches of an operator, of all its windows."""
        return [self._search(number, *kind) for kind in self._kinds(number)]

    def _least_of(self, number: int) -> int:
        """What an operator costs at least over all windows; those whose bound is above the least are not searched."""
        best = labels.NEVER
        for one in sorted(self._searches(number), key=lambda one: one.bound_fj()):
            if one.bound_fj() >= best:
                break
            best = min(best, one.least_fj())
        return best

    def _kinds(self, number: int) -> list[tuple[tuple[int, ...], int]]:
        """The nests of which an operator may make one at a time, and how often: by windows that overlap."""
        group = self.group
        if not group.has_halo:
            return [(group.bare[number].nest.extents, 1)]
        threads, lattice = group.chain.threads(0, group.last), lattice_of(group.extents(0, group.last))
        places = [group.visit(number, 0, threads, tile) for tile in lattice.tiles().tolist()]
        return sorted({(one.base, one.times) for one in places if one is not None})

    def _timed_of(self, number: int, base: tuple[int, ...], times: int) -> TimedInner:
        key = (number, base, times)
        if key not in self._timed:
            assert self.clock is not None
            others = [one for one in range(self.group.last + 1) if one != number]
            beside = self.group.least_busy(self.clock.kept, others)
            stops, prepared = self.group.least_stops(number), self.group.prepared.setdefault(key, {})
            search = self._search(*key)
            if key not in self.group.fastest:  # of too many choices none is asked for
                self.group.fastest[key] = None if search.has_more() else search.fastest()
            self._timed[key] = TimedInner(search, self.clock, beside, stops, prepared, self.group.fastest[key])
        return self._timed[key]

    def _search(self, number: int, base: tuple[int, ...], times: int) -> InnerSearch:
        key, group = (number, base, times), self.group
        known = group.inner if times == 1 else self._inner  # what lies outside of windows is known by the clock
        if key not in known:
            known[key] = InnerSearch(
                group.base(number, base),
                group.joints(number),
                replace(group.base(number, base), unrolled=group.chain.cells.unrolled(number)).steps,
                group.rooms,
                group.sums,
                space_in_cells(self.spaces[number], group.bare[number].nest, group.chain.cells, number),
                times,
                group.parts(number, base),
                self._outside(number, base, times) if times > 1 else None,
            )
        return known[key]

    def _outside(self, number: int, base: tuple[int, ...], times: int) -> Outside:
        """What an operator that makes so many windows costs at least outside of the loops over them."""
        if self._whole is None:
            self._whole = block_of(self.group, 0, self.group.last, self.clock)
        return outside_of(self.group, self._whole, number, base, times)

    def best(self, budget: int) -> tuple[int, Joined] | None:
        """The least energy within a budget, and how it is made; none where there is none.

        Raises `TooLarge` where there are more labels than allowed.
        """
        if self.least_fj() > budget:
            return None
        found = self._within_effort(lambda: self._all_joined(budget))
        if found is None:
            return None
        block, rows = found
        at = int(np.argmin(rows.spent))
        return int(rows.spent[at]) + self.group.fixed_fj, self._joined(block, int(rows.label[at]), budget)

    def _within_effort(self, search: Callable[[], _Found]) -> _Found:
        """What a search finds; one that has too many labels had as many as are allowed."""
        try:
            return search()
        except TooLarge:
            self.labels += self.most
            raise

    def points(self, aim: Aim, few: int | None = None) -> list[Point]:
        """Energies (0 if they do not count) and latencies within an aim, that none other beats.

        If asked for a few choices of each operator, they are of these alone. Raises `TooLarge` where there are more
        labels than allowed.
        """
        assert self.clock is not None
        self.aim, self.few = aim, few
        self._cycles = [int(self._bounds_of(number)[1]) for number in range(self.group.last + 1)]
        found = self._within_effort(lambda: self._all_joined(0) if self._tighten() else None)
        if found is None:
            return []
        block, rows = found
        spent = rows.spent + (self.group.fixed_fj if self.counts_energy else 0)
        points: list[Point] = []
        least = labels.NEVER
        for at in np.lexsort((rows.label, rows.cycles[:, 0], spent)).tolist():
            if rows.cycles[at, 0] < least:
                least = int(rows.cycles[at, 0])
                points.append(Point(int(spent[at]), least, partial(self._joined, block, int(rows.label[at]), 0)))
        return points

    def bounds(self) -> tuple[int, int]:
        """Below which energy and which latency the group does not come; without a search."""
        pairs = [self._bounds_of(number) for number in range(self.group.last + 1)]
        energy = sum(one for one, _ in pairs) + self.group.fixed_fj
        cycles = sum(one for _, one in pairs) + self.group.fixed_cycles
        if self.clock is not None:
            busy = self.group.least_busy(self.clock.kept, range(self.group.last + 1))
            cycles = max(cycles, max(busy.values(), default=0))
        return min(energy, labels.NEVER), min(cycles, labels.NEVER)

    @property
    def counts_energy(self) -> bool:
        return self.clock is not None and self.clock.counts_energy

    def _tighten(self) -> bool:
        """Find the ways of operators in turn, each within what the others leave; none may be without."""
        if self.group.has_halo:
            return True
        for number, placed in enumerate(self.group.bare):
            timed = self._timed_of(number, placed.nest.extents, 1)
            _, count = timed.ways(self._aim_of(number, number), self.most, self.few)
            self.labels += count
            if timed.least_cycles >= labels.NEVER:
                return False
            self._cycles[number] = max(self._cycles[number], timed.least_cycles)
        return True

    def _bounds_of(self, number: int) -> tuple[int, int]:
        """Below which energy, and which cycles in all its visits, an operator does not come."""
        pairs = [self._timed_of(number, *kind).bounds() for kind in self._kinds(number)]
        energies, cycles = (min(int(pair[at].min(initial=labels.NEVER)) for pair in pairs) for at in (0, 1))
        return energies, cycles

    def _aim_of(self, first: int, last: int) -> Aim:
        """What is looked for in a block, beside the least that all others add."""
        aim = self.aim
        assert aim is not None
        others = [number for number in range(self.group.last + 1) if not first <= number <= last]
        links = [link for link in range(self.group.last) if not first <= link < last]
        fj = sum(self._bounds_of(number)[0] for number in others) + self.group.fixed_fj if self.counts_energy else 0
        cycles = sum(self._cycles[number] for number in others) + sum(self.group.pass_cycles[link] for link in links)
        return aim._replace(other_fj=aim.other_fj + fj, other_cycles=aim.other_cycles + cycles)

    def _all_joined(self, budget: int) -> tuple[Block, Rows] | None:
        """The block of all operators, and its labels that are complete; none where there are none."""
        self._blocks.clear()
        last = self.group.last
        if self.group.has_halo:
            self._join(0, last, [[(at, at) for at in range(last + 1)]], budget)
        else:
            for length in range(2, last + 2):
                for first in range(last + 2 - length):
                    if self.group.chain.hangs_together(first, first + length - 1):
                        ways = list(_divided(self.group.chain, first, first + length - 1))
                        self._join(first, first + length - 1, ways, budget)
        block = self._blocks[0, last]
        rows = block.rows(block.lattice.points - 1)
        if rows is None:
            return None
        whole = (rows.placed == np.diff(block.cuts.first)).all(axis=1)
        return (block, rows[whole]) if whole.any() else None

    def _join(self, first: int, last: int, ways: Sequence[Sequence[tuple[int, int]]], budget: int) -> None:
        """Join the operators of a block in each of several ways, at every tile that they share."""
        block = block_of(self.group, first, last, self.clock)
        self._blocks[first, last] = block
        rest, aim = labels.NEVER, None
        if self.clock is None:
            others = (value for number, value in enumerate(self.each_fj()) if not first <= number <= last)
            rest = budget - sum(others) - self.group.fixed_fj
        else:
            aim = self._aim_of(first, last)
        points: list[NDArray[np.int64]] = []
        seeds: list[Rows] = []
        came: list[Came] = []
        for tile in block.lattice.tiles().tolist():
            begins = self.group.from_where(block.threads, tile)
            if self.group.chain.keeps and begins == tuple(tile):
                continue  # no loop over rows is shared, as in another group
            point = block.lattice.point(begins)
            for blocks in ways:
                rows_at = partial(self.rows_at, outer=block, tile=tile, budget=budget)
                found = Fold(self.group, self.clock, rows_at, block, tile, rest, aim).all_of(blocks)
                if found is None:
                    continue
                rows, origins = found
                keep = block.within(point, rows, rest)
                seeds.append(rows[keep])
                points.append(np.full(int(keep.sum()), point, np.int64))
                came.append(Came(tuple(blocks), origins[keep], tuple(tile)))
        if not any(map(len, seeds)):
            return
        states = radix(block.cuts.first.tolist())[-1] * block.lattice.points
        at, placed = np.concatenate(points), np.concatenate([block.states(rows) for rows in seeds])
        spent, taken = np.concatenate([rows.spent for rows in seeds]), np.concatenate([rows.taken for rows in seeds])
        pace, order = None, None
        if aim is None or block.timing is None:
            heads = np.full(states, -1, np.int64)
            count, swept = sweep(block.cuts, at, placed, spent, taken, heads, rest, self.most)
        else:
            heads = np.full(2 * states, -1, np.int64)
            cycles = np.concatenate([rows.cycles for rows in seeds])
            order = np.lexsort((taken.sum(axis=1), spent, cycles.sum(axis=1), at))  # what beats others goes first
            paces = paces_of(block.timing, cycles[order])
            at, placed, spent, taken = at[order], placed[order], spent[order], taken[order]
            count, (swept, pace) = timed_sweep(
                block.cuts, block.timing, aim, at, placed, spent, taken, paces, heads, self.most
            )  # fmt: skip
        if count < 0:
            raise TooLarge(f"{self.group.chain.name}: more than {self.most:,} labels of the fused search; allow more")
        self.labels += count
        if count:
            block.keep(swept, pace, count, came, order)

    def rows_at(self, start: int, end: int, outer: Block, tile: Sequence[int], budget: int) -> Rows | None:
        """The ways of operators to a tile of a larger block where all intermediates with others of it are at home."""
        if start == end:
            place = self.group.visit(start, outer.first, outer.threads, tile)
            rows = None if place is None else self._ways_at(place, start, budget)
        else:
            block = self._blocks[start, end]
            rows = block.rows(block.lattice.point(tile_inside(block, outer.first, outer.threads, tile)))
        if rows is None:
            return None
        keep = np.ones(len(rows), np.bool_)
        for at, (number, operand) in enumerate(self.group.operands(start, end)):
            if self.group.is_internal(number, operand, outer.first, outer.last):
                one = self.group.laid(number, self.group.bare[number].nest.extents)
                which = one.operands.index(operand)
                keep &= rows.placed[:, at] == len(one.cuts[which]) - one.outer[which]
        return rows[keep]

    def _ways_at(self, place: Place, number: int, budget: int) -> Rows | None:
        if self.clock is not None:
            timed = self._timed_of(number, place.base, place.times)
            known = timed.known_ways()[1] if not self.group.has_halo else None
            ways, count = (
                (known, 0) if known is not None else timed.ways(self._aim_of(number, number), self.most, self.few)
            )
            self.labels += count
            return _rows_of(ways, self.group.laid(number, place.base).lattice.point(place.tile))
        each = self.each_fj()
        own = budget - self.group.fixed_fj - sum(each) + each[number]
        search = self._search(number, place.base, place.times)
        if search.bound_fj() > own:
            return None
        ways, count = search.ways(own, self.most)
        self.labels += count
        return _rows_of(ways, self.group.laid(number, place.base).lattice.point(place.tile))

    def _joined(self, block: Block, label: int, budget: int) -> Joined:
        """How a label of a block came about."""
        swept = block.swept
        assert swept is not None
        tiles = block.lattice.tiles()
        steps: list[tuple[int, int, int, tuple[int, ...]]] = []
        while True:
            action = int(swept.action[label])
            if action >= 0:
                at = int(np.searchsorted(block.cuts.first, action, side="right")) - 1
                tile = tuple(tiles[swept.point[label]].tolist())
                steps.append((*block.operands[at], action - int(block.cuts.first[at]), tile))
            if swept.parent[label] < 0:
                break
            label = int(swept.parent[label])
        came, labels_there = block.origin(-1 - int(swept.parent[label]))
        joint = came.joint
        inside = tuple(
            self._alone(self.group.visit(start, block.first, block.threads, joint), start, one)
            if start == end
            else self._joined(self._blocks[start, end], one, budget)
            for (start, end), one in zip(came.blocks, labels_there, strict=True)
        )
        return Joined(block.first, block.last, inside, block.threads, joint, tuple(reversed(steps)))

    def _alone(self, place: Place | None, number: int, row: int) -> Alone:
        assert place is not None
        key = number, place.base, place.times
        if self.clock is None:
            search = self._search(*key)
            budget, ways = search.known_ways()
            placed, steps = search.path(_joint(ways, row), budget)
        else:
            timed = self._timed_of(*key)
            aim, ways = timed.known_ways()
            placed, steps = timed.path(_joint(ways, row), aim)
        return Alone(number, placed, tuple(steps))


def _joint(ways: Ways, row: int) -> Joint:
    return Joint(int(ways.choice[row]), int(ways.label[row]))


def _rows_of(ways: Ways, point: int) -> Rows | None:
    """The ways of an operator to one point."""
    rows = ways.at(point)
    if rows.start == rows.stop:
        return None
    numbers = np.arange(rows.start, rows.stop)
    return Rows(
        ways.placed[rows], ways.partial[rows], ways.spent[rows], ways.taken[rows], numbers, ways.cycles[rows]
    )  # fmt: skip


def tile_inside(
    block: "Block | Joined", first: int, threads: Sequence[tuple[int, ...]], tile: Sequence[int]
) -> list[int]:
    """The tile of a block's own threads at a tile of a larger block: others of its threads are whole."""
    known = {
        thread[block.first - first : block.last - first + 1]: some for thread, some in zip(threads, tile, strict=True)
    }
    return [known.get(thread, 0) for thread in block.threads]


def _divided(chain: Chain, first: int, last: int) -> Iterator[list[tuple[int, int]]]:
    """All ways to divide operators in a row of numbers into two blocks or more that each hang together."""
    for start in range(last, first, -1):
        if not chain.hangs_together(start, last):
            continue
        if chain.hangs_together(first, start - 1):
            yield [(first, start - 1), (start, last)]
        for before in _divided(chain, first, start - 1):
            yield [*before, (start, last)]

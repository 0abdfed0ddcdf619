"""Blocks of neighbours that are joined: their cuts on the lattice of the loops that go through all of them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilestitch.mapping.fused.laid import Laid
from tilestitch.mapping.fused.outer import Outer
from tilestitch.mapping.fused.outside import Outside
from tilestitch.mapping.fused.shapes import Group
from tilestitch.mapping.fused.sweep import Field, order_of_states, radix
from tilestitch.mapping.fused.timed_inner import Clock, visits, without_energy
from tilestitch.mapping.fused.timed_sweep import Timing
from tilestitch.mapping.fused.timing import TimedCut, timing_of
from tilestitch.mapping.tree import labels
from tilestitch.mapping.tree.crossings import PortCycles
from tilestitch.mapping.tree.labels import Trail
from tilestitch.mapping.tree.lattice import Lattice, lattice_of
from tilestitch.mapping.tree.loads import Loads
from tilestitch.mapping.tree.problem import least_from


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Ways to one tile of a block: how many cuts of each operand are placed, what they cost, and the rooms."""

    placed: NDArray[np.int64]
    partial: NDArray[np.bool_]
    spent: NDArray[np.int64]
    taken: NDArray[np.float64]
    label: NDArray[np.int64]  # which way of an operator, or which label of a block
    cycles: NDArray[np.int64]  # for latency the time of a visit, and how long ports are busy in it

    def __getitem__(self, chosen: NDArray[np.bool_] | NDArray[np.int64] | slice) -> "Rows":
        return Rows(
            self.placed[chosen],
            self.partial[chosen],
            self.spent[chosen],
            self.taken[chosen],
            self.label[chosen],
            self.cycles[chosen],
        )

    def __len__(self) -> int:
        return len(self.spent)

    @classmethod
    def of(cls, parts: Sequence["Rows"]) -> "Rows":
        """All of some, one after another."""
        return Rows(
            np.concatenate([one.placed for one in parts]),
            np.concatenate([one.partial for one in parts]),
            np.concatenate([one.spent for one in parts]),
            np.concatenate([one.taken for one in parts]),
            np.concatenate([one.label for one in parts]),
            np.concatenate([one.cycles for one in parts]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Came:
    """Where joins came from: blocks, and by join of each a way of its operator or one of its labels."""

    blocks: tuple[tuple[int, int], ...]
    labels: NDArray[np.int64]
    joint: tuple[int, ...]  # the tile of the threads at which they were joined


@dataclass(slots=True, eq=False)
class Block:
    """The labels of several operators that are joined."""

    first: int
    last: int
    threads: tuple[tuple[int, ...], ...]
    lattice: Lattice
    cuts: Field
    operands: tuple[tuple[int, int], ...]  # operator and operand, of each chain of cuts that is left
    timing: Timing | None = None
    swept: Trail | None = None
    paces: NDArray[np.int64] | None = None  # of these labels, in a search for latency
    came: list[Came] = field(default_factory=list)
    seeds: NDArray[np.int64] | None = None  # by seed of the sweep its number among all joins
    by_point: dict[int, NDArray[np.int64]] = field(default_factory=dict)

    def keep(
        self,
        swept: Trail,
        paces: NDArray[np.int64] | None,
        count: int,
        came: list[Came],
        seeds: NDArray[np.int64] | None,
    ) -> None:
        """Take the labels of a sweep, of all joins or of these in this order."""
        self.swept, self.paces, self.came, self.seeds = swept, paces, came, seeds
        alive = np.flatnonzero(~swept.dead[:count])
        order = alive[np.argsort(swept.point[alive], kind="stable")]
        points, starts = np.unique(swept.point[order], return_index=True)
        for point, labels_there in zip(points.tolist(), np.split(order, starts[1:]), strict=True):
            self.by_point[point] = labels_there

    def origin(self, seed: int) -> tuple[Came, list[int]]:
        """Where a seed of the sweep came from, and the way or label of each of its blocks."""
        number = seed if self.seeds is None else int(self.seeds[seed])
        for came in self.came:
            if number < len(came.labels):
                return came, came.labels[number].tolist()
            number -= len(came.labels)
        raise IndexError(seed)

    def rows(self, point: int) -> Rows | None:
        """The labels at a tile."""
        found = self.by_point.get(point)
        if found is None or self.swept is None:
            return None
        state = self.swept.state[found]
        cycles = np.empty((len(found), 0), np.int64)
        if self.timing is not None and self.paces is not None:
            cycles = visits(self.timing, self.paces[found])
        spent, taken = self.swept.spent[found], self.swept.taken[found]
        return Rows(self.counts(state), state % 2 == 1, spent, taken, found, cycles)

    def counts(self, state: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many cuts of each operand are placed."""
        steps, sizes = radix(self.cuts.first.tolist()), np.diff(self.cuts.first) + 1
        columns = [state // step % size for step, size in zip(steps, sizes.tolist(), strict=False)]
        return np.column_stack(columns) if columns else np.empty((len(state), 0), np.int64)

    def states(self, rows: Rows) -> NDArray[np.int64]:
        """The states of the sweep that rows are in."""
        steps = radix(self.cuts.first.tolist())
        return rows.placed @ np.array(steps[:-1], np.int64) + rows.partial

    def within(self, point: int, rows: Rows, budget: int) -> NDArray[np.bool_]:
        """Which rows at a tile could still end within a budget."""
        total, first = rows.spent.copy(), self.cuts.first
        for operand in range(len(first) - 1):
            cut = first[operand] + rows.placed[:, operand]
            left = cut < first[operand + 1]
            if left.any():
                side = np.where(rows.partial & (operand == self.cuts.write), 1, 0)[left]
                total[left] += self.cuts.togo[cut[left], side, point]
        return total <= budget


def block_of(group: Group, first: int, last: int, clock: Clock | None = None) -> Block:
    """A block with the cuts of its operators in memories that all units of a cell share, and without labels."""
    threads = group.chain.threads(first, last)
    lattice = lattice_of(group.extents(first, last))
    operands = group.operands(first, last)
    cuts: list[_Cut] = []
    starts = [0]
    togo: list[NDArray[np.int64]] = []
    at_tiles = {number: _at_tiles(group, number, first, threads, lattice) for number in range(first, last + 1)}
    for number, operand in operands:
        own = list(at_tiles[number].cuts(group, operand))
        cuts += own
        starts.append(len(cuts))
        if own:
            togo.append(least_from(own, [one.cost for one in own], lattice.shape))
    points, shape = lattice.points, lattice.shape
    nothing = np.empty((0, 2, points))
    result = (last, len(group.bare[last].nest.reads))
    made = Field(
        cost=np.stack([one.cost for one in cuts]) if cuts else nothing.astype(np.int64),
        room=np.stack([one.room for one in cuts]) if cuts else nothing,
        after=np.stack([one.is_partial for one in cuts]) if cuts else np.empty((0, points), np.bool_),
        shared=np.array([one.part for one in cuts], np.int64),
        stays=np.ones(len(group.rooms.names), np.bool_),
        limit=np.array(group.rooms.limit_bits, np.float64),
        first=np.array(starts, np.int64),
        write=operands.index(result) if result in operands else -1,
        togo=np.concatenate(togo) if togo else nothing.astype(np.int64),
        strides=np.array([np.prod(shape[at + 1 :], dtype=np.int64) for at in range(len(shape))], np.int64),
        shape=np.array(shape, np.int64),
        order=order_of_states(starts),
    )
    timing = None
    if clock is not None:
        left = prod(lattice.steps) // lattice.tiles().prod(axis=1)
        timed = [list(at_tiles[number].timed(group, number, operand)) for number, operand in operands]
        is_all = (first, last) == (0, group.last)
        beside = group.least_busy(clock.kept, [one for one in range(group.last + 1) if not first <= one <= last])
        timing, _ = timing_of(timed, Loads({}, {}, {}), left, shape, beside, is_block=True, is_all=is_all)
        if group.chain.keeps:  # the loop over rows lies between a joint and all cuts outside
            timing = timing._replace(waits=False)
        made = made if clock.counts_energy else without_energy(made)
    return Block(first, last, threads, lattice, made, tuple(operands), timing)


def outside_of(group: Group, block: Block, number: int, base: tuple[int, ...], times: int) -> Outside:
    """What an operator that makes so many windows costs at least outside of the loops over them.

    The block is that of all operators. Intermediates are at home there, so none of their cuts lies outside.
    """
    places = [group.place(number, 0, block.threads, tile) for tile in block.lattice.tiles().tolist()]
    here = np.array([(one.base, one.times) == (base, times) for one in places], np.bool_)
    if group.chain.keeps:  # from there on the loop over rows is whole
        tiles = block.lattice.tiles().tolist()
        here = np.array([group.from_where(block.threads, tile) == tuple(tile) for tile in tiles], np.bool_)
    one = group.laid(number, base)
    fj: list[NDArray[np.int64]] = []
    cycles: list[list[NDArray[np.int64]]] = [[] for _ in range(block.timing.outer if block.timing is not None else 0)]
    for operand, cuts, inner in zip(one.operands, one.cuts, one.outer, strict=True):
        never = np.full(len(cuts) - inner, labels.NEVER, np.int64)
        is_there = (number, operand) in block.operands
        at = block.operands.index((number, operand)) if is_there else 0
        rows = slice(int(block.cuts.first[at]), int(block.cuts.first[at + 1]))
        fj.append(block.cuts.togo[rows, 0][:, here].min(axis=1) if is_there else never)
        for port, found in enumerate(cycles):
            assert block.timing is not None
            found.append(block.timing.least[port, rows, 0][:, here].min(axis=1) if is_there else never)
    least = Outer(group.sums, group.rooms, times, group.parts(number, base), fj).least_fj(one.tables.placed)
    return Outside(tuple(fj), tuple(map(tuple, cycles)), least)


@dataclass(frozen=True, slots=True, eq=False)
class _Cut:
    """One cut at every tile of a block; of two rows the second is for partial sums from below."""

    cost: NDArray[np.int64]
    room: NDArray[np.float64]
    is_partial: NDArray[np.bool_]
    part: int


@dataclass(frozen=True, slots=True, eq=False)
class _AtTiles:
    """An operator at every tile of a block: its tables, the points in them, and how often it runs."""

    bases: tuple[Laid, ...]
    points: NDArray[np.int64]
    times: NDArray[np.int64]

    def cuts(self, group: Group, operand: int) -> Sequence[_Cut]:
        """The cuts of an operand in memories that all units share."""
        one = self.bases[0]
        at = one.operands.index(operand)
        memories = one.tables.placed.tree.memories
        found: list[_Cut] = []
        for number in range(one.outer[at], len(one.cuts[at])):
            cost = self._column(lambda base, number=number: base.cuts[at][number].cost_fj)
            memory = one.cuts[at][number].memory
            assert memory is not None
            found.append(
                _Cut(
                    np.where(cost >= labels.NEVER, labels.NEVER, cost * self.times),
                    self._column(lambda base, number=number: base.cuts[at][number].room_bits),
                    self._column(lambda base, number=number: base.cuts[at][number].is_partial),
                    group.rooms.names.index(memories[memory].name),
                )
            )
        return found

    def timed(self, group: Group, number: int, operand: int) -> Iterator[TimedCut]:
        """The same cuts with what their crossings do to ports."""
        one = self.bases[0]
        at = one.operands.index(operand)
        every = [group.loads(number, base.tables.placed.nest.extents)[at] for base in self.bases]
        for which, cut in enumerate(self.cuts(group, operand), one.outer[at]):
            loads = [own[which].loads for own in every]
            if all(own is every[0] for own in every):
                ways = [{port: found[self.points] for port, found in way.items()} for way in _ways_of(loads[0])]
            else:
                ways = [
                    {
                        port: np.array([own[port][point] for own, point in zip(way, self.points, strict=True)])
                        for port in way[0]
                    }
                    for way in zip(*map(_ways_of, loads), strict=True)
                ]
            inwards, outwards, stops = ways
            yield TimedCut(cut, cut.cost, Loads(inwards, outwards, stops), is_inside=False)

    def _column(self, of: Callable[[Laid], NDArray]) -> NDArray:
        if all(one is self.bases[0] for one in self.bases):
            return of(self.bases[0])[..., self.points]
        return np.stack([of(one)[..., at] for one, at in zip(self.bases, self.points, strict=True)], axis=-1)


def _ways_of(loads: Loads) -> tuple[PortCycles, ...]:
    return loads.inwards, loads.outwards, loads.least_stops


def _at_tiles(group: Group, number: int, first: int, threads: Sequence[tuple[int, ...]], lattice: Lattice) -> _AtTiles:
    places = [group.place(number, first, threads, tile) for tile in lattice.tiles().tolist()]
    bases = [group.laid(number, place.base) for place in places]
    points = [one.lattice.point(place.tile) for one, place in zip(bases, places, strict=True)]
    return _AtTiles(tuple(bases), np.array(points, np.int64), np.array([place.times for place in places], np.int64))

"""Blocks of operators that run one after another at a tile of a larger block: what they take together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilestitch.mapping.fused.blocks import Block, Rows
from tilestitch.mapping.fused.chain import Reading
from tilestitch.mapping.fused.shapes import Group
from tilestitch.mapping.fused.timed_inner import Clock, within
from tilestitch.mapping.fused.timed_sweep import Aim
from tilestitch.mapping.fused.unbeaten import unbeaten

PAIRS = 2**16  # ways of a block behind ways of those before it that are looked at together: most are let go


@dataclass(slots=True)
class Fold:
    """Blocks that run one after another at a tile of a larger one, within a rest of energy (fJ) or as an aim asks."""

    group: Group
    clock: Clock | None
    rows_at: Callable[[int, int], Rows | None]  # the ways of a block to the tile
    outer: Block
    tile: Sequence[int]
    rest: int
    aim: Aim | None

    def all_of(self, blocks: Sequence[tuple[int, int]]) -> tuple[Rows, NDArray[np.int64]] | None:
        """All ways to run them that no other beats, and by way which labels of the blocks it is of.

        Their rooms are the most that the blocks need of each memory, with the intermediates that are there then.
        """
        now, origins = None, np.zeros((0, 0), np.int64)
        for start, end in blocks:
            rows = self._ways(start, end)
            if rows is None or not len(rows):
                return None
            if now is None:
                now, origins = rows, rows.label[:, None]
            else:
                now, left = self._one_after_another(now, rows, end)
                origins = np.column_stack([origins[left], now.label])
            if not len(now):
                return None
        assert now is not None
        return now, origins

    def _ways(self, start: int, end: int) -> Rows | None:
        """The ways of a block that fit and may be part of the best, with all their visits and what lies around them."""
        rows = self.rows_at(start, end)
        if rows is None:
            return None
        taken, limit = rows.taken.copy(), np.array(self.group.rooms.limit_bits)
        for link, readings in self._at_home(start):
            waits = any(one.reader > start for one in readings)  # where others run before it is read, as it was written
            inside = [one for one in readings if one.reader <= end]
            views = [None if self.group.chain.is_added(one) else one for one in inside]
            found = [self._room(link, one) for one in (*views, *([None] if waits else []))]
            taken[:, found[0][1]] += max(room[0] for room, _ in found)
        if end < self.outer.last:
            room, part = self._room(end, None)
            taken[:, part] += np.where(rows.partial, room[1], room[0])
        for link in range(self.group.last if self.group.chain.keeps else 0):
            if link not in (start - 1, end):  # rows of other intermediates stay for their next windows
                room, part = self._kept(link)
                taken[:, part] += room
        cycles = self._visits(start) * rows.cycles
        if self.aim is not None and end < self.outer.last:
            cycles = cycles + self._between(end)
        owners = self.group.operands(start, end)
        outside = [at for at, owner in enumerate(owners) if owner in self.outer.operands]
        rows = Rows(rows.placed[:, outside], rows.partial, rows.spent, taken, rows.label, cycles)
        rows = rows[(taken <= limit).all(axis=1) & self._may_be_best(rows.spent, cycles[:, :1])]
        return rows[self._unbeaten(rows, end)]

    def _at_home(self, start: int) -> list[tuple[int, list[Reading]]]:
        """What was made before a block and is read in it or later: the link that stands for it, and those who read it.

        Results that meet are one from the last of them on, for those who read them as one.
        """
        made: dict[tuple[int, int], list[Reading]] = {}
        for link in range(self.outer.first, start):
            for one in self.group.chain.read_from(link):
                if one.reader >= start:
                    made.setdefault((one.reader, one.read), []).append(one)
        found: dict[tuple[int, ...], list[Reading]] = {}
        for readings in made.values():
            found.setdefault(tuple(one.link for one in readings), []).append(readings[-1])
        return [(links[-1], readings) for links, readings in found.items()]

    def _one_after_another(self, now: Rows, rows: Rows, end: int) -> tuple[Rows, NDArray[np.int64]]:
        """The ways of a block behind those before it, and which of those each is behind."""
        parts: list[Rows] = []
        lefts: list[NDArray[np.int64]] = []
        step = max(1, PAIRS // len(rows))
        for begin in range(0, len(now), step):
            some = now[slice(begin, begin + step)]
            spent = (some.spent[:, None] + rows.spent).ravel()
            cycles = np.vstack([one + rows.cycles[:, :1] for one in some.cycles[:, None, :1]])
            pairs = np.flatnonzero(self._may_be_best(spent, cycles))
            left, right = pairs // len(rows), pairs % len(rows)
            both = Rows(
                np.hstack([some.placed[left], rows.placed[right]]),
                rows.partial[right],
                spent[pairs],
                np.maximum(some.taken[left], rows.taken[right]),
                rows.label[right],
                some.cycles[left] + rows.cycles[right],
            )
            best = self._unbeaten(both, end)
            parts.append(both[best])
            lefts.append(begin + left[best])
        found, left = Rows.of(parts), np.concatenate(lefts)
        if len(parts) > 1:
            best = self._unbeaten(found, end)
            found, left = found[best], left[best]
        return found, left

    def _may_be_best(self, spent: NDArray[np.int64], cycles: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which energies and times (a column, if they count) may be those of a part of the best."""
        keep = spent <= self.rest
        if self.aim is not None:
            inside = self.group.from_where(self.outer.threads, self.tile)
            tiles = prod(self.outer.lattice.steps) // prod(inside)
            keep &= within(self.aim, spent, tiles * cycles[:, 0])
        return keep

    def _unbeaten(self, rows: Rows, end: int) -> NDArray[np.int64]:
        """The ways to run blocks up to the end of one that no other beats which goes on in the same way."""
        alike = [*rows.placed.T] + ([rows.partial] if end == self.outer.last else [])
        return unbeaten(alike, np.column_stack([rows.spent, rows.cycles]), rows.taken)

    def _between(self, link: int) -> NDArray[np.int64]:
        """The time of what is done to an intermediate, and for how long ports are busy with it."""
        assert self.clock is not None
        busy = self.group.between(link, self.group.place(link, self.outer.first, self.outer.threads, self.tile))
        return np.array([max(busy.values(), default=0), *(busy.get(port, 0) for port in self.clock.kept)], np.int64)

    def _visits(self, number: int) -> int:
        """How often an operator runs in the loop over rows that are kept, if there is one."""
        group = self.group
        found = 1
        for thread, some in zip(self.outer.threads, self.tile, strict=True):
            if group.from_where((thread,), (some,)) != (some,):
                found *= group.chain.chunks(number, thread[number:], some).visits
        return found

    def _kept(self, link: int) -> tuple[float, int]:
        """Bits of rows of an intermediate that are kept at home; and which of the rooms that is."""
        group = self.group
        place = group.visit(link, self.outer.first, self.outer.threads, self.tile)
        assert place is not None
        room, part = group.room(link, place, None)
        return group.kept(link, self.outer.threads, self.tile)[0] * float(room[0]), part

    def _room(self, link: int, reading: Reading | None) -> tuple[NDArray[np.float64], int]:
        group = self.group
        number = link if reading is None else reading.reader
        place = group.visit(number, self.outer.first, self.outer.threads, self.tile)
        assert place is not None
        room, part = group.room(link, place, reading)
        if group.chain.keeps:
            count, more = group.kept(link, self.outer.threads, self.tile)
            room = room + count * room[0] if reading is None else room * more
        return room, part

"""Blocks of operators that run one after another at a tile of a larger block: what they take together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilestitch.mapping.fused.blocks import Block, Rows
from tilestitch.mapping.fused.shapes import Group
from tilestitch.mapping.fused.timed_inner import Clock, within
from tilestitch.mapping.fused.timed_sweep import Aim

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

    def all_of(self, blocks: Sequence[tuple[int, int]]) -> tuple[Rows, list[tuple[int, ...]]] | None:
        """All ways to run them, and which labels of the blocks each is of."""
        limit = self._limit
        now: Rows | None = None
        # The most that the blocks so far need of each memory, with the intermediates at both of their ends.
        done, origins = np.zeros((1, len(limit))), [()]
        for start, end in blocks:
            rows = self.rows_at(start, end)
            if rows is None:
                return None
            if start > self.outer.first:
                room, part = self._room(start - 1, is_read=True)
                taken = rows.taken.copy()
                taken[:, part] += room[0]
                rows = Rows(rows.placed, rows.partial, rows.spent, taken, rows.label, rows.cycles)
            for link in range(self.group.last if self.group.chain.keeps else 0):
                if link not in (start - 1, end):  # rows of other intermediates stay for their next windows
                    room, part = self._kept(link)
                    rows = replace(rows, taken=rows.taken + room * (np.arange(len(limit)) == part))
            step = max(1, PAIRS // max(1, len(rows)))
            parts = [
                self._pairs((start, end), rows, now, done, np.arange(begin, min(begin + step, len(origins))))
                for begin in range(0, len(origins), step)
            ]
            now = Rows.of([part for part, _, _ in parts])
            done = np.concatenate([rooms for _, rooms, _ in parts])
            left = np.concatenate([places for _, _, places in parts])
            labels_there = now.label.tolist()
            origins = [(*origins[one], label) for one, label in zip(left.tolist(), labels_there, strict=True)]
            if not origins:
                return None
        assert now is not None
        owners = [owner for start, end in blocks for owner in self.group.operands(start, end)]
        kept = [at for at, owner in enumerate(owners) if owner in self.outer.operands]
        return Rows(now.placed[:, kept], now.partial, now.spent, done, now.label, now.cycles), origins

    def _pairs(
        self, block: tuple[int, int], rows: Rows, now: Rows | None, done: NDArray[np.float64], some: NDArray[np.int64]
    ) -> tuple[Rows, NDArray[np.float64], NDArray[np.int64]]:
        """The ways of a block behind some of those before it that fit and may be part of the best; their rooms, and
        which of those before each is behind.
        """
        (start, end), limit = block, self._limit
        left, right = np.repeat(some, len(rows)), np.tile(np.arange(len(rows)), len(some))
        spent = rows.spent[right] + (now.spent[left] if now is not None else 0)
        placed = rows.placed[right] if now is None else np.hstack([now.placed[left], rows.placed[right]])
        cycles = self._visits(start) * rows.cycles[right] + (now.cycles[left] if now is not None else 0)
        if self.aim is not None and end < self.outer.last:
            cycles = cycles + self._between(end)
        both = Rows(placed, rows.partial[right], spent, rows.taken[right], rows.label[right], cycles)
        after = both.taken.copy()
        if end < self.outer.last:
            room, part = self._room(end, is_read=False)
            after[:, part] += np.where(both.partial, room[1], room[0])
        after = np.maximum(done[left], after)
        keep = (spent <= self.rest) & (after <= limit).all(axis=1)
        if self.aim is not None:
            inside = self.group.from_where(self.outer.threads, self.tile)
            tiles = prod(self.outer.lattice.steps) // prod(inside)
            keep &= within(self.aim, spent, tiles * cycles[:, 0])
        return both[keep], after[keep], left[keep]

    @property
    def _limit(self) -> NDArray[np.float64]:
        return np.array(self.group.rooms.limit_bits)

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
        room, part = group.room(link, place, is_read=False)
        return group.kept(link, self.outer.threads, self.tile)[0] * float(room[0]), part

    def _room(self, link: int, *, is_read: bool) -> tuple[NDArray[np.float64], int]:
        number = link + 1 if is_read else link
        group = self.group
        place = group.visit(number, self.outer.first, self.outer.threads, self.tile)
        assert place is not None
        room, part = group.room(link, place, is_read=is_read)
        if group.chain.keeps:
            count, more = group.kept(link, self.outer.threads, self.tile)
            room = room * more if is_read else room + count * room[0]
        return room, part

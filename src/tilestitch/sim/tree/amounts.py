"""How much of an operand crosses a border with each of its tiles: less at the end of a loop that factors do not divide.

The factors of a loop may multiply to more than its iterations. What is behind its last one is no work: units there are
idle, and nothing is moved for them. Tiles that have equally much of every loop are of one kind.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from tilestitch.ir.loop_nest import LoopOperand
from tilestitch.sim.tree.run import TreeRun
from tilestitch.sim.tree.tiles import Digit, Digits, Indices, count_of, iterations_of

_ALL = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Amount:
    """Elements of one tile: the most in one memory, and in how many memories there are how many."""

    most: int
    memories: tuple[tuple[int, int], ...]  # elements, memories

    @property
    def total(self) -> int:
        return sum(elements * count for elements, count in self.memories)


@dataclass(frozen=True, slots=True)
class Kind:
    """Tiles of which equally much crosses: how many, and how many of them are the first of a sum."""

    count: int
    first: int
    inner: Amount  # at the memories, or units, inside
    outer: Amount


@dataclass(frozen=True, slots=True)
class LoopEnds:
    """A loop that its factors exceed, as the tiles of a border see it.

    `kinds[step]` says for the tile that has a step of the loop how much is left of the loop, as a number; the number of
    a tile's kind is the sum of those of all such loops.
    """

    loop: int
    kinds: Indices


@dataclass(frozen=True, slots=True)
class Crossed:
    """All kinds of tiles of a border, and of each loop that has an end which of them come when."""

    kinds: tuple[Kind, ...]
    ends: tuple[LoopEnds, ...]


@dataclass(frozen=True, slots=True)
class Border:
    """The digits of all loops, as they lie at a border between memories: each is in one of these."""

    inside: tuple[Digit, ...]  # of a tile in one memory inside, or at a unit
    together: tuple[Digit, ...]  # spread at the border: neighbours take what all of them need as one
    alike: tuple[Digit, ...]  # neighbours that need the same take it together
    apart: tuple[Digit, ...]  # every one takes its own
    beyond: tuple[Digit, ...]  # spread further out
    later: tuple[Digit, ...]  # of the nest, outside the tile, from the innermost


@dataclass(frozen=True, slots=True)
class _Counts:
    """Iterations of a loop that a tile has: in each memory inside, and of what lies around those together."""

    inner: Mapping[int, int]
    outer: Mapping[tuple[int, ...], int]  # for each memory outside the tiles along the border


def crossed(run: TreeRun, digits: Digits, number: int, place: int, border: Border) -> Crossed:
    """What crosses a border of one operand, at a place in the nest."""
    loops = range(len(run.nest.loops))
    over = {one.loop for one in border.inside if one.reach}  # there tiles are of whole windows
    with_end = [loop for loop in loops if run.padded[loop] > run.extents[loop] and loop not in over]
    lefts = {loop: _left(run, border, loop, place) for loop in with_end}
    steps = {loop: prod(one.factor for one in border.later if one.loop == loop) for loop in loops}
    is_write, moved = number == run.written, run.operands[number].indexed_by
    sums = [loop for loop in loops if not is_write or loop not in moved]  # of which the first tile begins
    size = _Sizes(run, number, border)
    whole = {loop: _counts(border, loop, _ALL) for loop in loops if loop not in lefts}
    every = prod(steps[loop] for loop in whole)
    begin = prod(1 if loop in sums else steps[loop] for loop in whole)
    kinds: list[Kind] = []
    ends: list[LoopEnds] = []
    found: list[list[tuple[_Counts, int, int]]] = []
    stride = prod(len(values) for values, _ in lefts.values())
    for loop, (values, at) in lefts.items():
        stride //= len(values)
        count = np.bincount(at, minlength=len(values)) * steps[loop] // len(at)
        first = [int(loop not in sums or at[0] == one) for one in range(len(values))]
        found.append(
            [
                (_counts(border, loop, int(left)), int(many), int(many) if loop not in sums else is_first)
                for left, many, is_first in zip(values, count, first, strict=True)
            ]
        )
        ends.append(LoopEnds(loop, at * stride))
    for chosen in product(*found):
        counts = whole | {loop: one[0] for loop, one in zip(lefts, chosen, strict=True)}
        kinds.append(
            Kind(
                every * prod(one[1] for one in chosen),
                begin * prod(one[2] for one in chosen),
                _amount(size.inner(counts)),
                _amount(size.outer(counts)),
            )
        )
    return Crossed(tuple(kinds), tuple(ends))


def _left(run: TreeRun, border: Border, loop: int, place: int) -> tuple[Indices, Indices]:
    """How much may be left of a loop where a tile begins, and by the step of the loop which of these it is.

    Where there is more than a tile takes in all memories together it counts as that. Of windows all are alike.
    """
    own = [one for one in border.later if one.loop == loop and not one.reach]
    inner = prod(factor for number, factor in run.loops[:place] if number == loop)
    begins = iterations_of(own, loop)
    others = (*border.inside, *border.together, *border.alike, *border.apart, *border.beyond)
    span = 1 + sum((one.factor - 1) * one.weight for one in others if one.loop == loop)
    values, at = np.unique(np.minimum(run.extents[loop] - begins, span), return_inverse=True)
    return values, np.repeat(at, inner)


def _counts(border: Border, loop: int, left: int) -> _Counts:
    """The iterations of a loop of which so many are left that lie in each tile of a border."""
    if left == _ALL:
        along = count_of(border.apart, loop) * count_of(border.alike, loop)
        beyond, copies = count_of(border.beyond, loop), count_of(border.together, loop) * along
        around = count_of((*border.inside, *border.together), loop)
        return _Counts({count_of(border.inside, loop): copies * beyond}, {(around,) * along: beyond})
    inside, beyond = np.sort(iterations_of(border.inside, loop)), iterations_of(border.beyond, loop)
    around = np.sort(iterations_of((*border.inside, *border.together), loop))
    alike, apart = iterations_of(border.alike, loop), iterations_of(border.apart, loop)
    along = (apart[:, None] + alike[None, :]).ravel()
    together = iterations_of(border.together, loop)
    copies = (beyond[:, None, None] + along[None, :, None] + together[None, None, :]).ravel()
    inner = Counter(np.searchsorted(inside, left - copies).tolist())
    outer = np.searchsorted(around, left - (beyond[:, None] + along[None, :]))
    return _Counts(inner, Counter(map(tuple, outer.tolist())))


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Elements of an operand that tiles with so many iterations of each loop have."""

    run: TreeRun
    number: int
    border: Border

    @property
    def array(self) -> LoopOperand:
        return self.run.operands[self.number]

    def inner(self, counts: Mapping[int, _Counts]) -> Counter[int]:
        """In each memory inside: one without work has nothing."""
        found = Counter({1: 1})
        for terms, size in zip(self.array.axes, self.array.shape, strict=True):
            known: dict[tuple[int, ...], int] = {}
            here: Counter[int] = Counter()
            for chosen in product(*(counts[loop].inner.items() for loop, _ in terms)):
                key = tuple(count for count, _ in chosen)
                if key not in known:
                    known[key] = self._indices(terms, size, self.border.inside, key)
                here[known[key]] += prod(many for _, many in chosen)
            found = _both(found, here)
        for loop in self._alone():
            found = _both(found, Counter({1: sum(many for count, many in counts[loop].inner.items() if count)}))
        return found

    def outer(self, counts: Mapping[int, _Counts]) -> Counter[int]:
        """In each memory outside, which is read or written once for what neighbours have in common."""
        found = Counter({1: 1})
        for terms, size in zip(self.array.axes, self.array.shape, strict=True):
            here: Counter[int] = Counter()
            for chosen in product(*(counts[loop].outer.items() for loop, _ in terms)):
                tiles = self._different(terms, size, [row for row, _ in chosen])
                here[tiles] += prod(many for _, many in chosen)
            found = _both(found, here)
        for loop in self._alone():
            here = Counter[int]()
            for row, many in counts[loop].outer.items():
                here[self._apart(loop, row)] += many
            found = _both(found, here)
        return found

    def _alone(self) -> Iterator[int]:
        """The loops that do not move the operand."""
        moved = self.array.indexed_by
        return (loop for loop in range(len(self.run.nest.loops)) if loop not in moved)

    def _apart(self, loop: int, row: Sequence[int]) -> int:
        """Of a loop that does not move the operand the places with work, but for those that take it together."""
        alike = prod(one.factor for one in self.border.alike if one.loop == loop)
        return sum(any(row[at : at + alike]) for at in range(0, len(row), alike))

    def _different(self, terms: Sequence[tuple[int, int]], size: int, rows: Sequence[Sequence[int]]) -> int:
        """Indices along an axis in all tiles along the border, those of tiles that begin at one index once."""
        around = (*self.border.inside, *self.border.together)
        if len(terms) == 1:
            counts = Counter(rows[0])
            return sum(many * self._indices(terms, size, around, (count,)) for count, many in counts.items())
        known: dict[tuple[int, ...], int] = {}
        found: dict[tuple[int, ...], int] = {}
        begins = [self._begins(loop, step) for loop, step in terms]
        for chosen in product(*(zip(begin, row, strict=True) for begin, row in zip(begins, rows, strict=True))):
            key = tuple(count for _, count in chosen)
            if key not in known:
                known[key] = self._indices(terms, size, around, key)
            at = (sum(begin for (_, begin), _ in chosen), *(apart for (apart, _), _ in chosen))
            found[at] = max(found.get(at, 0), known[key])
        return sum(found.values())

    def _begins(self, loop: int, step: int) -> list[tuple[int, int]]:
        """Of the tiles of a loop along the border: the number of each apart, and where each alike begins."""
        alike = iterations_of(self.border.alike, loop)
        apart = prod(one.factor for one in self.border.apart if one.loop == loop)
        return [(one, int(begin) * step) for one in range(apart) for begin in alike]

    def _indices(
        self, terms: Sequence[tuple[int, int]], size: int, digits: Sequence[Digit], counts: Sequence[int]
    ) -> int:
        """The different indices along an axis that the first so many iterations of each loop come to.

        Of a machine that moves boxes all between the first and the last; of one loop the steps of a tile are next to
        one another, whatever lies between. Padding that the array has not is not counted otherwise.
        """
        if not all(counts):
            return 0
        if len(terms) < 2:
            return 1 + sum(step for _, step in terms) * (counts[0] - 1) if self._boxes and terms else prod(counts)
        found = np.zeros(1, np.int64)
        for (loop, step), count in zip(terms, counts, strict=True):
            found = np.unique(found[:, None] + step * np.sort(iterations_of(digits, loop))[:count])
        return int(found[-1]) + 1 if self._boxes else min(len(found), size)

    @property
    def _boxes(self) -> bool:
        return self.run.tree.moves_boxes


def _both(one: Counter[int], other: Counter[int]) -> Counter[int]:
    """How often there are how many elements, along two axes together."""
    found: Counter[int] = Counter()
    for (a, many), (b, times) in product(one.items(), other.items()):
        found[a * b] += many * times
    return found


def _amount(found: Counter[int]) -> Amount:
    return Amount(max(found), tuple(sorted(found.items())))

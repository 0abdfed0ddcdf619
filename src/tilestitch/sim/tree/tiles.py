"""What tiles hold: how loops are counted over steps and units, where elements stand in a tile, how many they are."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilestitch.ir.loop_nest import LoopOperand
from tilestitch.sim.tree.run import TreeRun

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Digit:
    """A part of a loop: `weight` iterations of it are one step of the digit, which takes `factor` values.

    Where it goes over windows that overlap, `reach` is how many iterations a tile has with it and all inside it.
    """

    loop: int
    factor: int
    weight: int
    place: int | None  # in the nest, from the innermost; none where it is spread
    axis: str = ""
    reach: int = 0


@dataclass(frozen=True)
class Digits:
    """Every loop as digits, those of the nest in its order, then those that are spread.

    What is spread between two memories counts directly outside the tile of the inner one, where that makes windows of
    neighbours follow one another, or inside it where they are the same then: an index of two loops decides, as tiles of
    one loop are as large in any order.
    """

    run: TreeRun

    @cached_property
    def every(self) -> tuple[Digit, ...]:
        run = self.run
        parts: list[tuple[float, int, int, int | None, str]] = []
        for at, (loop, factor) in enumerate(run.loops):
            parts.append((at, loop, factor, at, ""))
        for number, (axis, loop, factor) in enumerate(run.spread):
            parts.append((self._directly_inside(axis, loop) - 0.5 + number * 1e-6, loop, factor, None, axis))
        done = [1] * len(run.nest.loops)
        found: list[Digit] = []
        for _, loop, factor, at, axis in sorted(parts, key=lambda part: part[0]):
            window = None if at is None else run.window_at(at)
            if window is not None:
                found.append(Digit(loop, factor, window.step, at, axis, window.reach))
                continue
            found.append(Digit(loop, factor, done[loop], at, axis))
            done[loop] *= factor
        temporal = sorted((one for one in found if one.place is not None), key=lambda one: one.place or 0)
        return (*temporal, *(one for one in found if one.place is None))

    def _directly_inside(self, axis: str, loop: int) -> int:
        """The place in the nest outside which a spread part of a loop counts."""
        found = 0
        for number, array in enumerate(self.run.operands):
            windows = {one for terms in array.axes if len(terms) > 1 for one, _ in terms}
            level = next((at for at, axes in enumerate(self.run.fan_outs[number]) if axis in axes), 0)
            if loop in windows and level > 0:
                place = self.run.places[number][min(level, len(self.run.places[number]) - 1)]
                if not self._meets(number, level, loop, place):
                    found = max(found, place)
        return found

    def _meets(self, number: int, level: int, loop: int, place: int) -> bool:
        """Whether tiles of neighbours are the same ones where a spread loop counts inside them.

        So it is if the other loop of the index is spread beside it, and has no steps in a tile: then its elements lie
        as far apart as the loop is spread, and tiles begin one element after another.
        """
        run = self.run
        others = {one for terms in run.operands[number].axes for one, _ in terms if loop in dict(terms)} - {loop}
        is_exact = run.padded[loop] == run.extents[loop] and not run.tree.moves_boxes
        has_steps = any(one in others for one, _ in run.loops[:place])
        beside = {one for axis, one, _ in run.spread if axis in run.fan_outs[number][level]}
        return is_exact and not has_steps and bool(others & beside)

    def inside(self, number: int, level: int) -> tuple[Digit, ...]:
        """The digits of a tile of an operand in one memory of a level; -1 is that at a unit."""
        run = self.run
        if level == len(run.chains[number]) - 1:
            loops = run.loops_of(number)
            return tuple(one for one in self.every if one.place is None or one.place < loops)
        axes = {axis for names in run.fan_outs[number][: level + 1] for axis in names}
        place = run.places[number][level + 1]
        return tuple(one for one in self.every if (one.axis in axes if one.place is None else one.place < place))

    def between(self, number: int, level: int) -> tuple[Digit, ...]:
        """The digits of the tile in a memory that are not in those of the next inner memory, or of the units."""
        inner = self.inside(number, level - 1)
        return tuple(one for one in self.inside(number, level) if one not in inner)


@dataclass(frozen=True)
class TileShape:
    """The elements of a tile of one operand, and where each stands: addresses are sums over the digits.

    What digits that are `near` tell apart stands next to one another, of each axis the rest in the order of the array.
    """

    digits: tuple[Digit, ...]
    axes: tuple[tuple[tuple[int, int], ...], ...]
    sizes: tuple[int, ...] | None = None  # of the axes, where the whole array is there as it is
    near: tuple[Digit, ...] = ()  # of loops that move an axis alone, the first moves fastest

    @cached_property
    def _extents(self) -> tuple[int, ...]:
        if self.sizes is not None:
            return self.sizes
        return tuple(
            1 + sum((one.factor - 1) * stride for one, stride in self._strides_along(terms)) for terms in self.axes
        )

    def _strides_along(self, terms: Sequence[tuple[int, int]]) -> Iterator[tuple[Digit, int]]:
        """The digits that move an axis, with how far: of one loop without the gaps that other digits leave.

        With a digit that goes over windows all others of its loop are there.
        """
        steps, done = dict(terms), 1
        others = (one for one in self.digits if one.loop in steps and one not in self.near)
        moving = sorted(others, key=lambda one: one.weight)
        is_packed = len(terms) == 1 and self.sizes is None
        if is_packed and any(one.reach for one in moving):
            yield from ((one, one.weight) for one in moving)
            return
        for one in moving:
            yield one, done if is_packed else one.weight * steps[one.loop]
            done *= one.factor

    @cached_property
    def strides(self) -> Mapping[Digit, int]:
        """By how much the address grows with each digit."""
        found, done = dict.fromkeys(self.digits, 0), 1
        for one in self.near:
            found[one] = done
            done *= one.factor
        behind = [done * prod(self._extents[at + 1 :]) for at in range(len(self._extents))]
        for terms, stride in zip(self.axes, behind, strict=True):
            for one, along in self._strides_along(terms):
                found[one] += along * stride
        return found

    @property
    def size(self) -> int:
        """Addresses."""
        return prod(self._extents) * prod(one.factor for one in self.near)


def addresses(digits: Sequence[Digit], strides: Mapping[Digit, int]) -> Indices:
    """The address that each value of some digits stands for; the first digit moves fastest."""
    found = np.zeros(1, np.int64)
    for one in digits:
        more = np.arange(one.factor, dtype=np.int64) * strides.get(one, 0)
        found = (more[:, None] + found[None, :]).ravel()
    return found


def iterations_of(digits: Sequence[Digit], loop: int) -> Indices:
    """The iterations of a loop that some digits come to; of windows all from the first to the last."""
    reach = max((one.reach for one in digits if one.loop == loop), default=0)
    if reach > 0:
        return np.arange(reach, dtype=np.int64)
    found = np.zeros(1, np.int64)
    for one in digits:
        if one.loop == loop:
            found = (np.arange(one.factor)[:, None] * one.weight + found[None, :]).ravel()
    return found


def count_of(digits: Sequence[Digit], loop: int) -> int:
    """How many iterations of a loop some digits come to."""
    reach = max((one.reach for one in digits if one.loop == loop), default=0)
    return reach or prod(one.factor for one in digits if one.loop == loop)


def distinct(array: LoopOperand, digits: Sequence[Digit], *, boxes: bool) -> int:
    """Elements of an operand that some digits come to; in boxes all between the first and the last of each axis."""
    found = 1
    for terms, size in zip(array.axes, array.shape, strict=True):
        at = np.zeros(1, np.int64)
        for loop, step in terms:
            at = np.unique(at[:, None] + step * iterations_of(digits, loop))
        found *= min(int(at[-1]) + 1 if boxes else len(at), size)
    return found

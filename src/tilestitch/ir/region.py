"""Half-open boxes of indices: what a scheduler decides, a DMA moves, a simulator counts and numpy slices."""

from itertools import pairwise, product
from math import prod
from operator import ge, sub
from types import EllipsisType
from typing import NamedTuple

from tilestitch.base.units import ceil_div


class Region(NamedTuple):
    """The indices `start[i] <= index[i] < stop[i]` of every axis i.

    A named tuple rather than a frozen dataclass: lowering makes and hashes half a million of them for one network, and
    both take half the time.
    """

    start: tuple[int, ...]
    stop: tuple[int, ...]

    @staticmethod
    def whole(shape: tuple[int, ...]) -> "Region":
        """Every index of a tensor of that shape."""
        return Region((0,) * len(shape), tuple(shape))

    @property
    def extents(self) -> tuple[int, ...]:
        return tuple(map(sub, self.stop, self.start))

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(map(sub, self.stop, self.start))

    @property
    def slices(self) -> tuple[slice | EllipsisType, ...]:
        """The index that selects this box of an array, as a view also where there are no axes."""
        return (*(slice(a, b) for a, b in zip(self.start, self.stop, strict=True)), ...)

    def overlaps(self, other: "Region") -> bool:
        """Whether an index lies in both; a region without axes (a scalar) overlaps every other."""
        for a, b, c, d in zip(self.start, self.stop, other.start, other.stop, strict=True):
            if a >= d or c >= b:
                return False
        return True

    def contains(self, other: "Region") -> bool:
        for a, b, c, d in zip(self.start, self.stop, other.start, other.stop, strict=True):
            if a > c or d > b:
                return False
        return True

    def intersect(self, other: "Region") -> "Region | None":
        """The common box, or None where there is none."""
        start = tuple(map(max, self.start, other.start))
        stop = tuple(map(min, self.stop, other.stop))
        return None if any(map(ge, start, stop)) else Region(start, stop)

    def hull(self, other: "Region") -> "Region":
        """The smallest box that holds both."""
        return Region(tuple(map(min, self.start, other.start)), tuple(map(max, self.stop, other.stop)))

    def slab(self, axis: int, start: int, stop: int) -> "Region":
        """The part between two indices of one axis."""
        return Region(
            (*self.start[:axis], start, *self.start[axis + 1 :]), (*self.stop[:axis], stop, *self.stop[axis + 1 :])
        )

    def relative_to(self, origin: "Region") -> "Region":
        """The same box in coordinates that begin at the start of `origin`."""
        return Region(tuple(map(sub, self.start, origin.start)), tuple(map(sub, self.stop, origin.start)))

    def __str__(self) -> str:
        return "[" + ", ".join(f"{a}:{b}" for a, b in zip(self.start, self.stop, strict=True)) + "]"


def pieces(start: int, stop: int, extent: int) -> tuple[tuple[int, int], ...]:
    """Cut `start..stop` into runs of `extent`, the last one ragged."""
    return tuple((at, min(at + extent, stop)) for at in range(start, stop, extent))


def even_pieces(extent: int, count: int, step: int = 1) -> tuple[tuple[int, int], ...]:
    """Cut `0..extent` into at most `count` contiguous runs whose lengths differ by at most one `step`."""
    units = ceil_div(extent, step)
    count = min(count, units)
    bounds = [min(extent, step * (units * i // count)) for i in range(count + 1)]
    bounds[-1] = extent
    return tuple((a, b) for a, b in pairwise(bounds) if a < b)


def split(shape: tuple[int, ...], extents: tuple[int, ...]) -> tuple[Region, ...]:
    """Cover `shape` by boxes of at most `extents`, row-major, each element once."""
    axes = [pieces(0, size, extent) for size, extent in zip(shape, extents, strict=True)]
    return tuple(Region(tuple(a for a, _ in box), tuple(b for _, b in box)) for box in product(*axes))

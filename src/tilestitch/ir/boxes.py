"""Many boxes at once, a column each: what `Access` and `ir.tiles` say of one box, for searches that ask it often.

The answers are the same, number by number; a test compares the two.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tilestitch.ir.graph import Access, DimKind, Graph, Operator
from tilestitch.ir.region import Region


class Boxes(NamedTuple):
    """Half-open boxes: `start[i, n] <= index[i] < stop[i, n]` for every axis i of box n."""

    start: np.ndarray  # int64: axes x boxes
    stop: np.ndarray

    @property
    def extents(self) -> np.ndarray:
        return self.stop - self.start

    @property
    def sizes(self) -> np.ndarray:
        """Number of elements of every box."""
        return np.prod(self.stop - self.start, axis=0)

    def hull(self, other: "Boxes") -> "Boxes":
        """The smallest boxes that hold both."""
        return Boxes(np.minimum(self.start, other.start), np.maximum(self.stop, other.stop))

    def __getitem__(self, number: int) -> Region:  # pyright: ignore[reportIncompatibleMethodOverride]
        """One of them."""
        return Region(tuple(self.start[:, number].tolist()), tuple(self.stop[:, number].tolist()))

    def regions(self) -> list[Region]:
        """All of them."""
        return list(map(Region, map(tuple, self.start.T.tolist()), map(tuple, self.stop.T.tolist())))


def batched(regions: Sequence[Region]) -> Boxes:
    """Regions of one rank, as columns."""
    both = np.array(regions, np.int64)
    return Boxes(both[:, 0].T, both[:, 1].T)


def overlapping(regions: Sequence[Region]) -> list[tuple[int, int]]:
    """The pairs of regions of one rank with an index in both, by number, in order of the second and then the first.

    Sorted along the axis on which most begin apart, so that parts that lie one behind the other are compared once.
    """
    if len(regions) < 2 or not regions[0].start:
        return [(first, second) for second in range(len(regions)) for first in range(second)]
    axis = max(range(len(regions[0].start)), key=lambda axis: len({region.start[axis] for region in regions}))
    found: list[tuple[int, int]] = []
    open_ones: list[int] = []  # those that have begun, but for some that have ended
    for number in sorted(range(len(regions)), key=lambda number: regions[number].start[axis]):
        open_ones = [other for other in open_ones if regions[other].stop[axis] > regions[number].start[axis]]
        found += [(other, number) for other in open_ones if regions[other].overlaps(regions[number])]
        open_ones.append(number)
    return sorted(((min(pair), max(pair)) for pair in found), key=lambda pair: (pair[1], pair[0]))


def hulls(access: Access, boxes: Boxes) -> Boxes:
    """See `Access.hull`."""
    count = boxes.start.shape[1]
    start, stop = np.empty((2, len(access.axes), count), np.int64)
    for number, axis in enumerate(access.axes):
        low = high = axis.offset
        for dim, stride in axis.terms:
            first, last = stride * boxes.start[dim], stride * (boxes.stop[dim] - 1)
            if stride < 0:
                first, last = last, first
            low, high = low + first, high + last
        start[number], stop[number] = low, high + 1
    return Boxes(start, stop)


def read_regions(graph: Graph, access: Access, boxes: Boxes) -> Boxes:
    """See `Graph.read_region`."""
    shape = graph.tensors[access.tensor].shape
    start, stop = hulls(access, boxes)
    for number, size in enumerate(shape):
        if number == access.indirect_axis:
            start[number], stop[number] = 0, size
        else:
            low = np.minimum(np.maximum(start[number], 0), size - 1)
            start[number], stop[number] = low, np.maximum(np.minimum(stop[number], size), low + 1)
    return Boxes(start, stop)


def boxes_for_regions(op: Operator, write: Access, regions: Boxes) -> Boxes:
    """See `ir.tiles.box_for_region`."""
    count = regions.start.shape[1]
    start = np.zeros((len(op.dims), count), np.int64)
    stop = np.repeat(np.array([[dim.extent] for dim in op.dims], np.int64).reshape(-1, 1), count, axis=1)
    for axis, low, high in zip(write.axes, *regions, strict=True):
        low, high = low - axis.offset, high - axis.offset
        going: np.ndarray | None = None  # boxes of which one value of the outer dims lets the inner be cut; None: all
        for number, (dim, stride) in enumerate(axis.terms, 1):
            most = op.dims[dim].extent - 1
            first, last = low // stride, (high - 1) // stride
            begin = np.minimum(np.maximum(first, 0), most)
            end = np.maximum(begin, np.minimum(most, last)) + 1
            if going is None:
                start[dim], stop[dim] = begin, end
            else:
                start[dim], stop[dim] = np.where(going, begin, start[dim]), np.where(going, end, stop[dim])
            if number == len(axis.terms):
                break
            going = first == last if going is None else going & (first == last)
            low, high = low - first * stride, high - first * stride
    for number, dim in enumerate(op.dims):
        if dim.kind is DimKind.WHOLE:
            start[number], stop[number] = 0, dim.extent
    return Boxes(start, stop)


def all_operator_boxes(graph: Graph, operators: Sequence[Operator], sink_boxes: Boxes) -> dict[str, Boxes]:
    """See `ir.tiles.operator_boxes`."""
    needed: dict[str, Boxes] = {}
    found: dict[str, Boxes] = {}
    for op in reversed(operators):
        boxes = sink_boxes if op is operators[-1] else None
        for write in op.writes:
            if write.tensor in needed and op is not operators[-1]:
                wanted = boxes_for_regions(op, write, needed[write.tensor])
                boxes = wanted if boxes is None else boxes.hull(wanted)
        assert boxes is not None, f"nothing in the kernel reads what {op.name} writes"
        found[op.name] = boxes
        if op is operators[0]:
            break  # nobody in the kernel makes what it reads
        for read in op.reads:
            regions = read_regions(graph, read, boxes)
            needed[read.tensor] = regions.hull(needed[read.tensor]) if read.tensor in needed else regions
    return found

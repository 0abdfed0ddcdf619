"""What lies around a kernel: where its operands come from, where its results go, and the room left for it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from tilestitch.base.units import ALIGNMENT_BYTES
from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.ir.boxes import batched
from tilestitch.ir.graph import Operator
from tilestitch.ir.region import Region
from tilestitch.ir.tiles import largest_piece
from tilestitch.kernels.division import IN_GB, IN_LB, NOT_HERE, Lying, made_by
from tilestitch.kernels.nest import Nest
from tilestitch.kernels.shape import KernelShape, Operand, local_names


class Source(NamedTuple):
    """A region of a tensor that lies on chip: in GB, or in the LB of a core.

    A named tuple for the reason that `Region` is one: searches make and hash a hundred thousand of them.
    """

    region: Region
    level: Level
    core: int | None


@dataclass(frozen=True)
class Room:
    """Free space of one memory: its largest gap, in which kernels have their own places, and the others."""

    bytes: int
    gaps: tuple[int, ...] = ()

    def left(self, size_bytes: int) -> int:
        """What the largest gap is once `size_bytes` in one piece are kept as well, in another gap if one holds them.

        Negative where there is no room.
        """
        if not size_bytes or any(gap >= size_bytes for gap in self.gaps):
            return self.bytes
        return self.bytes - size_bytes if self.bytes < size_bytes else max(self.bytes - size_bytes, *self.gaps, 0)

    def rounded(self, step: int) -> "Room":
        """The same room or a little less, in whole steps."""
        fine = max(1, step // 16)  # a gap often fits exactly
        gaps = [gap // fine * fine for gap in self.gaps if gap >= fine]
        return Room(self.bytes // step * step, (max(gaps),) if gaps else ())


@dataclass(frozen=True, slots=True)
class CoreMap:
    """Which cores a kernel runs on: in this order they take its parts, `parts` along the outermost dim in memory."""

    parts: int
    cores: tuple[int, ...]


@dataclass(frozen=True)
class Surroundings:
    """Operands that lie on chip, the level where the results stay, and the free room; without any: DDR, all of it."""

    sources: Mapping[str, tuple[Source, ...]] = field(default_factory=dict)  # the first that holds an element counts
    results: Level = Level.DDR
    kept: tuple[str, ...] = ()  # the results that stay there; the others go to DDR
    rooms: Mapping[Level, Room] = field(default_factory=dict)  # of LB (in every core) and GB; absent: the whole memory
    box: Region | None = None  # iterations of the sink; None: all
    instead: tuple[tuple[int, Region], ...] = ()  # cores and parts of an operand whose place the one result takes
    core_map: CoreMap | None = None
    splits: tuple[int, ...] = ()  # pieces per dim of the sink, where they are decided already
    strips: tuple[tuple[int, Region], ...] = ()  # cores with the iterations of each, which may overlap; none: by splits
    stored: frozenset[str] = frozenset()  # of the results that stay, those that go to DDR as well
    in_place: bool = False  # whether the one result takes the place of an operand in GB

    @cached_property
    def lying(self) -> tuple[Lying, Mapping[str, tuple[int, int]]]:
        """All sources as rows, and which rows are those of each tensor."""
        rank = max(len(found[0].region.start) for found in self.sources.values())
        ends = [0, *accumulate(map(len, self.sources.values()))]
        boxes = np.zeros((ends[-1], 2, max(1, rank)), np.int64)
        levels = {Level.GB: IN_GB, Level.LB: IN_LB}
        for (begin, end), found in zip(pairwise(ends), self.sources.values(), strict=True):
            if found[0].region.start:
                boxes[begin:end, :, : len(found[0].region.start)] = [source.region for source in found]
        every = [source for found in self.sources.values() for source in found]
        return Lying(
            boxes,
            np.array([levels[source.level] for source in every], np.int64),
            np.array([NOT_HERE if source.core is None else source.core for source in every], np.int64),
        ), dict(zip(self.sources, pairwise(ends), strict=True))

    @property
    def on_chip(self) -> bool:
        """Whether anything may stay on chip between this kernel and others."""
        return bool(self.rooms)

    def iterations(self, sink: Operator) -> Region:
        """The iterations of a kernel's last operator that the kernel covers."""
        return sink.whole if self.box is None else self.box

    def largest_piece(self, sink: Operator, splits: Sequence[int], steps: Sequence[int]) -> tuple[int, ...]:
        """Extents of the largest part of a core."""
        if self.strips:
            return tuple(map(max, zip(*(strip.extents for _, strip in self.strips), strict=True)))
        return largest_piece(self.iterations(sink).extents, steps, splits)

    def is_empty(self, machine: Accelerator) -> bool:
        """Whether nothing stays on chip beside this kernel, and none of its operands and results."""
        free = all(
            memory is not None and room.bytes >= memory.size_bytes // ALIGNMENT_BYTES * ALIGNMENT_BYTES
            for memory, room in ((machine.memory(level), room) for level, room in self.rooms.items())
        )
        return free and not self.sources and not self.kept


FEW = 8  # sources that are quicker to look at one by one
NOWHERE = Surroundings()


@dataclass(frozen=True, slots=True)
class Shares:
    """Which part of the bytes that the cores need of an operand comes from where."""

    direct: bool  # every core has its own part complete, and computes from it
    ddr: float = 1.0
    gb: float = 0.0
    lb: float = 0.0  # of other cores or, where more than the own part is needed, of all


FROM_DDR = Shares(False)
Bound = tuple[tuple[int, ...], Mapping[Operand, Shares]]  # cores in order, and where what they need comes from


class Sources:
    """Where one tensor lies, in the order in which it is looked for, to be asked about many regions of it."""

    def __init__(self, found: Iterable[Source]) -> None:
        self.all = tuple(found)
        self._places: dict[tuple[Level, int | None], list[Source]] = {}
        for source in self.all:
            core = None if source.level is Level.GB else source.core
            self._places.setdefault((source.level, core), []).append(source)
        self._boxes = batched([source.region for source in self.all])

    def read_directly(self, shape: KernelShape, operand: Operand, region: Region, core: int) -> Source | None:
        """The source from which a core's units can read `region` where it lies; None: it is copied first."""
        if operand.level is not shape.home:
            return None
        near = self._places.get((shape.home, None if shape.home is Level.GB else core), ())
        return next((source for source in near if source.region.contains(region)), None)

    def cover(self, region: Region) -> list[tuple[Region, Source | None]]:
        """See the function of this name."""
        if len(self.all) <= FEW:
            return cover(region, self.all)
        start, stop = (np.array(corner, np.int64)[:, None] for corner in region)
        meets = ((self._boxes.start < stop) & (start < self._boxes.stop)).all(axis=0)
        return cover(region, [self.all[number] for number in np.flatnonzero(meets).tolist()])


def cover(region: Region, sources: Sequence[Source]) -> list[tuple[Region, Source | None]]:
    """`region` cut into boxes, each with the first source that holds it; None is DDR."""
    found: list[tuple[Region, Source | None]] = []
    left = [region]
    for source in sources:
        still: list[Region] = []
        for box in left:
            common = box.intersect(source.region) if box.overlaps(source.region) else None
            if common is None:
                still.append(box)
            else:
                found.append((common, source))
                still.extend(without(box, common))
        left = still
        if not left:
            break
    return found + [(box, None) for box in left]


def without(box: Region, hole: Region) -> list[Region]:
    """`box` without `hole`, which lies inside it, as boxes: cut along one axis after another."""
    found: list[Region] = []
    start, stop = list(box.start), list(box.stop)
    for axis, (a, b) in enumerate(zip(hole.start, hole.stop, strict=True)):
        if start[axis] < a:
            found.append(Region(tuple(start), (*stop[:axis], a, *stop[axis + 1 :])))
        if b < stop[axis]:
            found.append(Region((*start[:axis], b, *start[axis + 1 :]), tuple(stop)))
        start[axis], stop[axis] = a, b
    return found


def made_in_parts(
    shape: KernelShape, nest: Nest, parts: np.ndarray, results: Sequence[str]
) -> list[list[tuple[Region, int]]]:
    """By part of the sink's iterations: per result the region that it makes, and its bytes."""
    names, tensors = local_names(shape.graph, shape.operators), [shape.graph.tensors[name] for name in results]
    made = made_by(nest, parts, np.array([names.index(name) for name in results], np.int64))
    ranks = [len(tensor.shape) for tensor in tensors]
    found = [
        [Region(tuple(start[:rank]), tuple(stop[:rank])) for start, stop in regions]
        for rank, regions in zip(ranks, made.tolist(), strict=True)
    ]
    sized = [[(one, tensor.bytes_of(one)) for one in of_one] for tensor, of_one in zip(tensors, found, strict=True)]
    return [list(of_part) for of_part in zip(*sized, strict=True)]


def free_gaps(size_bytes: int, taken: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The free intervals of a memory of which the intervals `taken` are occupied, the largest first."""
    top = size_bytes // ALIGNMENT_BYTES * ALIGNMENT_BYTES
    found, at = [], 0
    for start, stop in sorted(taken):
        if start > at:
            found.append((at, start))
        at = max(at, stop)
    if top > at or not found:
        found.append((at, max(at, top)))
    return sorted(found, key=lambda gap: (gap[0] - gap[1], gap[0]))


def room_of(size_bytes: int, taken: Iterable[tuple[int, int]]) -> Room:
    """The room of a memory of which the intervals `taken` are occupied."""
    largest, *others = (stop - start for start, stop in free_gaps(size_bytes, taken))
    return Room(largest, tuple(others))

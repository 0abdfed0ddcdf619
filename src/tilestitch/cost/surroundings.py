"""What lies around a kernel: where its operands come from, where its results go, and the room left for it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from tilestitch.cost.shape import KernelShape, Operand
from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.ir.boxes import Boxes, boxes_of
from tilestitch.ir.graph import Operator
from tilestitch.ir.region import Region
from tilestitch.ir.tiles import core_pieces
from tilestitch.units import ALIGNMENT_BYTES, aligned, ceil_div


@dataclass(frozen=True, slots=True)
class Source:
    """A region of a tensor that lies on chip: in GB, or in the LB of a core."""

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
    bound: "dict[tuple, Bound]" = field(
        default_factory=dict, compare=False
    )  # known under splits, of kernel and sources

    @cached_property
    def lying(self) -> dict[str, Boxes]:
        """The regions of the sources of each tensor."""
        return {tensor: boxes_of([source.region for source in found]) for tensor, found in self.sources.items()}

    @property
    def on_chip(self) -> bool:
        """Whether anything may stay on chip between this kernel and others."""
        return bool(self.rooms)

    def iterations(self, sink: Operator) -> Region:
        """The iterations of a kernel's last operator that the kernel covers."""
        return sink.whole if self.box is None else self.box

    def is_empty(self, machine: Accelerator) -> bool:
        """Whether nothing stays on chip beside this kernel, and none of its operands and results."""
        free = all(
            memory is not None and room.bytes >= memory.size_bytes // ALIGNMENT_BYTES * ALIGNMENT_BYTES
            for memory, room in ((machine.memory(level), room) for level, room in self.rooms.items())
        )
        return free and not self.sources and not self.kept


NOWHERE = Surroundings()


@dataclass(frozen=True, slots=True)
class Shares:
    """Which part of the bytes that the cores need of an operand comes from where."""

    direct: bool  # every core has its own part complete, and computes from it
    ddr: float = 1.0
    gb: float = 0.0
    lb: float = 0.0  # of other cores or, where more than the own part is needed, of all


FROM_DDR = Shares(False)
Bound = tuple[tuple[int, ...], dict[Operand, Shares]]  # cores in order, and where what they need comes from
MOST_MAPPED = 64  # cores of a cluster, up to which it is looked at which one holds what
SAMPLE = 16  # different regions of an operand that are looked at, of those that cores copy


def nearest_cores(
    shape: KernelShape, around: Surroundings, cores: tuple[int, ...], needs: Mapping[Operand, Boxes]
) -> tuple[int, ...]:
    """The cores in the order in which they take the pieces of one split, each near what it holds already.

    The core that holds the most bytes of what some piece needs takes that piece, and so on with the rest. So the new
    owners of a tensor are some of the old ones, and what they hold does not move. `needs` has what the pieces need of
    the operands on chip, a column each.
    """
    if shape.home is not Level.LB or len(cores) > MOST_MAPPED:
        return cores
    held: dict[tuple[int, int], int] = {}  # bytes by piece and core
    pieces = 0
    for operand, regions in needs.items():
        pieces = regions.start.shape[1]
        sources, width = around.sources[operand.tensor], shape.graph.tensors[operand.tensor].dtype.size_bytes
        common = _common(regions, around.lying[operand.tensor])
        for number, at in zip(*(found.tolist() for found in common.nonzero()), strict=True):
            core = sources[at].core
            if sources[at].level is Level.LB and core in cores:
                held[number, core] = held.get((number, core), 0) + width * int(common[number, at])
    if not held:
        return cores
    taken: dict[int, int] = {}
    for number, core in sorted(held, key=lambda pair: (-held[pair], pair)):
        if number not in taken and core not in taken.values():
            taken[number] = core
    left = iter([core for core in cores if core not in taken.values()])
    ordered = tuple(taken[number] if number in taken else next(left) for number in range(pieces))
    return (*ordered, *left)


def shares(
    shape: KernelShape, around: Surroundings, cores: Sequence[int], needs: Mapping[Operand, Boxes]
) -> dict[Operand, Shares]:
    """Per operand that lies on chip at least in part, where its bytes come from under one split over `cores`."""
    found = {}
    for operand, regions in needs.items():
        sources = around.sources[operand.tensor]
        at_work = min(len(cores), regions.start.shape[1])
        common, sizes = _common(regions, around.lying[operand.tensor])[:at_work], regions.sizes[:at_work]
        where = np.array(cores[:at_work] if shape.home is Level.LB else [-1] * at_work)
        near = np.array([-1 if source.core is None else source.core for source in sources]) == where[:, np.newaxis]
        here = (near & (common == sizes[:, np.newaxis])).any(axis=1) & (operand.level is shape.home)
        total, own = int(sizes.sum()), int(sizes[here].sum())
        copied: dict[Region, int] = {}  # with the number of cores that need it
        overlapping: dict[Region, np.ndarray] = {}
        for number in np.flatnonzero(~here).tolist():
            region = regions[number]
            copied[region] = copied.get(region, 0) + 1
            overlapping[region] = common[number]
        by_level = {Level.DDR: 0.0, Level.GB: 0.0, Level.LB: 0.0}
        sample = list(copied)[:: ceil_div(len(copied), SAMPLE)] if copied else []
        seen = sum(region.size * copied[region] for region in sample)
        for region in sample:
            holders = np.flatnonzero(overlapping[region]).tolist()
            whole = bool(holders) and overlapping[region][holders[0]] == region.size
            parts = [(region, sources[holders[0]])] if whole else cover(region, [sources[at] for at in holders])
            for part, source in parts:
                level = Level.DDR if source is None else source.level
                by_level[level] += part.size * copied[region] * (total - own) / seen
        by_level[shape.home] += own
        found[operand] = Shares(not copied, *(by_level[level] / total for level in (Level.DDR, Level.GB, Level.LB)))
    return found


def _common(some: Boxes, others: Boxes) -> np.ndarray:
    """How many elements each of some boxes has in common with each of others."""
    start = np.maximum(some.start[:, :, np.newaxis], others.start[:, np.newaxis])
    stop = np.minimum(some.stop[:, :, np.newaxis], others.stop[:, np.newaxis])
    return np.maximum(stop - start, 0).prod(axis=0)


def reads_directly(
    shape: KernelShape, operand: Operand, region: Region, sources: Sequence[Source], core: int
) -> int | None:
    """The number of the source from which a core's units can read `region` where it lies; None: it is copied first."""
    if operand.level is not shape.home:
        return None
    for number, source in enumerate(sources):
        near = source.level is shape.home and (source.level is Level.GB or source.core == core)
        if near and source.region.contains(region):
            return number
    return None


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


def kept_bytes(shape: KernelShape, around: Surroundings, splits: Sequence[int], steps: Sequence[int]) -> int:
    """What the results take where they stay: in GB their pieces, in LB the largest part of a core."""
    if not around.kept or around.instead:
        return 0
    box = around.iterations(shape.sink)
    pieces = [box] if around.results is Level.GB else core_pieces(box, splits, steps)
    return max(sum(aligned(size) for _, size in made_sizes(shape, piece, around.kept)) for piece in pieces)


def made_sizes(shape: KernelShape, piece: Region, results: Sequence[str]) -> list[tuple[Region, int]]:
    """Per result the region that a piece of the sink's iterations makes of it, and its bytes."""
    boxes = shape.boxes(piece)
    found = []
    for name in results:
        region: Region | None = None
        for op in shape.operators:
            for write in op.writes:
                if write.tensor == name:
                    hull = write.hull(boxes[op.name])
                    region = hull if region is None else region.hull(hull)
        assert region is not None
        found.append((region, shape.graph.tensors[name].bytes_of(region)))
    return found


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

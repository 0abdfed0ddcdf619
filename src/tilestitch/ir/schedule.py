"""Every decision about how a network runs on a machine, in execution order."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

from tilestitch.base.html import Record
from tilestitch.base.shown import Shown
from tilestitch.base.units import counted
from tilestitch.hardware.accelerator import Level
from tilestitch.ir.graph import Graph
from tilestitch.ir.loop_nest import LoopMapping
from tilestitch.ir.region import Region


@dataclass(frozen=True, slots=True)
class Halves:
    """Tiles at the ends of a core's part that are cut in two: all first halves run before all second ones.

    So who reads the first halves need not wait for the second ones, and who makes them need not have made all.
    """

    dim: int  # of the sink, at the middle of the core's part
    first: int  # tiles at the beginning, in the order of the loops
    last: int  # and at the end


@dataclass(frozen=True, slots=True)
class Tiling:
    """How one kernel's work is cut, over cores in space and over tiles in time.

    The kernel's last operator (its sink) is cut; every other operator computes what the sink's tile needs. All tuples
    have one entry per dim of the sink, except `reduction`: one per dim of the anchor.
    """

    splits: tuple[int, ...]  # pieces over the cores; their product is the number of cores at work, but for strips
    tile: tuple[int, ...]  # largest extent of a tile
    steps: tuple[int, ...]  # pieces and tiles begin at multiples of this
    order: tuple[int, ...]  # dims, outermost loop first
    reduction: tuple[int, ...]  # extent of one part of the anchor's loops; only reduction dims are cut
    resident: tuple[str, ...]  # tensors that stay whole in GB while the kernel runs
    halves: Halves | None = None


@dataclass(frozen=True, slots=True)
class Kernel:
    """Operators that run together, one tile after another, without their intermediate results leaving the core."""

    name: str
    operators: tuple[str, ...]
    anchor: str | None  # the operator on the matrix unit
    tiling: Tiling
    cores: tuple[int, ...]  # those that it may use, all alike
    estimated_cycles: int
    streamed: bool = False  # one operator, whose operands pass the core in pieces and are used as a whole
    box: Region | None = None  # the iterations of the sink that it covers; None: all
    launches: bool = True  # else it continues the kernel before, without a barrier
    strips: tuple[tuple[int, Region], ...] = ()  # cores with what each computes, overlapping; none: the tiling says
    mapping: LoopMapping | None = None  # of the anchor on an array: its tiles of the scratchpad are the kernel's
    ring: bool = False  # whether sums lie one behind the other in the accumulators; else all at the first address
    behind: bool = False  # whether its tiles lie behind those of the kernel before; else at the other end
    together: bool = False  # whether what it brings to GB comes in fewer, larger transfers, as far as there is room

    @property
    def sink(self) -> str:
        return self.operators[-1]


@dataclass(frozen=True, slots=True)
class Home:
    """Where what one kernel makes of a tensor waits for the kernels that read it: in GB, or in the cores' LB.

    In LB each core at work keeps the part that it made, all at the same address. What has no home lies in DDR.
    """

    tensor: str
    region: Region  # of the tensor
    level: Level
    parts: tuple[tuple[int, Region], ...]  # in LB: cores with their parts
    address: int
    size_bytes: int  # in GB; in LB of the largest part
    first: int  # number of the kernel that makes it
    last: int  # number of the last kernel that reads it
    instead_of: str | None = None  # the tensor, read for the last time by the kernel, whose place it takes
    stored: bool = False  # whether it goes to DDR as well, for others
    fetched: bool = False  # whether the kernel does not make it, but brings it from DDR, for itself and others


@dataclass(frozen=True, slots=True)
class PieceRun:
    """One piece of a sub-graph as it runs: kernels `first` to `last` of the schedule, and what leaves it."""

    group: int  # number of the sub-graph
    number: int  # of the piece, in the order of what it makes
    first: int
    last: int
    writes: tuple[tuple[str, Region], ...]
    producers: tuple[int, ...]  # places in the order of the pieces whose results it reads
    waits: bool  # whether another piece runs before one that reads its results

    @property
    def name(self) -> str:
        """`a8` is piece 8 of the first sub-graph."""
        letters, left = "", self.group + 1
        while left:
            left, letter = divmod(left - 1, 26)
            letters = chr(ord("a") + letter) + letters
        return f"{letters}{self.number + 1}"


@dataclass(frozen=True, slots=True)
class BlockRun:
    """A fused block as it runs: kernels `first` to `last` of the schedule, which one launch starts on so many cores."""

    number: int  # in the plan
    first: int
    last: int
    cores: int


@dataclass(frozen=True, repr=False)
class Schedule(Shown):
    """What each cluster does: `iterations` times the kernels, each on `batch` samples, kernel after kernel."""

    strategy: str
    graph: Graph  # for one iteration's batch, views composed away
    batch: int
    iterations: int
    clusters: int
    kernels: tuple[Kernel, ...]
    homes: tuple[Home, ...] = ()  # in the order of the kernels that make them
    notes: tuple[str, ...] = ()  # decisions that a reader should know of
    pieces: tuple[PieceRun, ...] = ()  # in the order of execution, where sub-graphs are cut
    blocks: tuple[BlockRun, ...] = ()  # of a plan of fused blocks, those that have anything to run

    def __str__(self) -> str:
        return "\n".join([self.title, *self.kernel_lines(), *(f"  {note}" for note in self.notes)])

    @property
    def title(self) -> str:
        return (
            f"schedule {self.strategy} of {self.graph.name}: {counted(self.clusters, 'cluster')} x "
            f"{counted(self.iterations, 'iteration')} x batch {self.batch}, {counted(len(self.kernels), 'kernel')}"
        )

    def heading(self) -> str:
        """As `title`."""
        return self.title

    def records(self) -> tuple[Record, ...]:
        """Every kernel, and what stays on chip after it."""
        homes: dict[int, list[str]] = {}
        for home in self.homes:
            homes.setdefault(home.first, []).append(f"{home.tensor} in {home.level.upper()} until {home.last}")
        return tuple(
            {
                "kernel": number,
                "operators": " + ".join(kernel.operators),
                "region": None if kernel.box is None else str(kernel.box),
                "cores": prod(kernel.tiling.splits) if not kernel.strips else len(kernel.strips),
                "tile": "x".join(map(str, kernel.tiling.tile)),
                "launches": kernel.launches,
                "estimated_cycles": kernel.estimated_cycles,
                "stays": ", ".join(homes.get(number, ())),
            }
            for number, kernel in enumerate(self.kernels)
        )

    def kernel_lines(self, limit: int | None = None) -> list[str]:
        """Two or more lines for each of the first `limit` kernels."""
        shown = len(self.kernels) if limit is None else min(limit, len(self.kernels))
        lines = self.lines_of(range(shown))
        if shown < len(self.kernels):
            lines.append(f"  ... {counted(len(self.kernels) - shown, 'kernel')} more")
        return lines

    def lines_of(self, numbers: Iterable[int]) -> list[str]:
        """Two or more lines for each of some kernels."""
        homes: dict[int, list[Home]] = {}
        for home in self.homes:
            homes.setdefault(home.first, []).append(home)
        unlike = len({kernel.cores for kernel in self.kernels}) > 1
        return [line for number in numbers for line in self._lines(number, homes.get(number, ()), unlike=unlike)]

    def _lines(self, number: int, homes: Sequence[Home], *, unlike: bool) -> list[str]:
        """What one kernel is, how its loops are cut, and what stays on chip after it."""
        kernel = self.kernels[number]
        sink = self.graph.by_name[kernel.sink]
        tiling = kernel.tiling
        extents = (sink.whole if kernel.box is None else kernel.box).extents
        splits = (1,) * len(extents) if kernel.strips else tiling.splits
        cut = " ".join(
            f"{dim.name}:{extent}" + (f"/{s}" if s > 1 else "") + (f" by {t}" if t * s < extent else "")
            for dim, extent, s, t in zip(sink.dims, extents, splits, tiling.tile, strict=True)
        )
        piece = "" if kernel.box is None else f" {kernel.box}"
        stitched = "" if kernel.launches else "; stitched to the kernel before"
        lines = [f"  {number:4d} {' + '.join(kernel.operators)}{piece}{stitched}"]
        parts = ""
        if kernel.anchor is not None:
            anchor = self.graph.by_name[kernel.anchor]
            cuts = [
                f"{dim.name}+{dim.extent} by {extent}"
                for dim, extent in zip(anchor.dims, tiling.reduction, strict=True)
                if extent < dim.extent
            ]
            parts = f"; reduction {', '.join(cuts)}" if cuts else ""
        if kernel.streamed:
            return [*lines, f"       operands and results streamed; about {kernel.estimated_cycles:,} cycles"]
        order = " ".join(sink.dims[d].name for d in tiling.order)
        cores = f"; on cores {_runs(kernel.cores)}" if unlike else ""
        if kernel.strips:
            done = sum(strip.size for _, strip in kernel.strips) / prod(extents)
            cores = f"; strips on cores {_runs(kernel.cores)}, {100 * (done - 1):.0f} % computed again"
        resident = f"; in GB {', '.join(tiling.resident)}" if tiling.resident else ""
        halves = ""
        if tiling.halves is not None:
            one = tiling.halves
            halves = f"; halves of {sink.dims[one.dim].name} in {counted(one.first, 'first tile')} and {one.last} last"
        lines.append(
            f"       loops {cut}; order {order}{halves}{parts}{cores}{resident}; "
            f"about {kernel.estimated_cycles:,} cycles (estimated)"
        )
        for home in homes:
            verb, where = ("brings", "to") if home.fetched else ("keeps", "in")
            lines.append(
                f"       {verb} {home.tensor}{home.region} {where} {home.level.upper()} until kernel {home.last}"
            )
        return lines


def _runs(numbers: tuple[int, ...]) -> str:
    """`(0, 1, 2, 5)` as `0-2, 5`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)

"""The buffers of what stays on chip between kernels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilestitch.hardware.accelerator import Level
from tilestitch.ir.graph import Graph
from tilestitch.ir.region import Region
from tilestitch.ir.schedule import Home, Kernel
from tilestitch.kernels.shape import local_names
from tilestitch.kernels.surroundings import Source, free_gaps
from tilestitch.lower.addresses import Ring, Surface
from tilestitch.lower.cluster import Cluster
from tilestitch.lower.link import Linker
from tilestitch.lower.staging import Staging

HomeBuffers = Mapping[int | None, int]  # core, or None for GB -> buffer


@dataclass(frozen=True, slots=True)
class Around:
    """What lies on chip while one kernel runs, with the buffers that hold it."""

    sources: Mapping[str, Mapping[Source, int]]  # tensor that it touches -> where it lies, the latest made first
    results: Mapping[str, HomeBuffers]  # of the results that stay on chip
    made: Mapping[str, Home]  # likewise
    fetched: tuple[str, ...] = ()  # of the sources, those that the kernel itself brings there first


class Homes:
    """Follows a schedule, kernel by kernel."""

    def __init__(self, linker: Linker, graph: Graph, homes: Sequence[Home]) -> None:
        self.linker, self.graph = linker, graph
        self.made: dict[int, list[Home]] = {}
        for home in homes:
            self.made.setdefault(home.first, []).append(home)
        self.live: list[tuple[Home, HomeBuffers]] = []
        self.of_tensor: dict[str, list[tuple[Home, HomeBuffers]]] = {}  # those that live and some that lived
        self.upper = False
        levels = {number: space.level for number, space in enumerate(linker.cluster.spaces)}
        gb_bytes = sum(space.size_bytes for space in linker.cluster.spaces if space.level is Level.GB)
        self.staging = Staging(gb_bytes)
        self.sums = {number: Ring() for number, level in levels.items() if level is Level.ACCUMULATORS}
        self.tiles = {number: Ring() for number, level in levels.items() if level in (Level.LB, Level.WEIGHTS)}

    def enter(self, number: int, kernel: Kernel) -> tuple[Around, Surface]:
        """What lies around kernel `number`, whose results get their buffers, and what is free for it.

        Stitched kernels take turns at both ends of the memories, so that one loads while the one before computes; or
        each lies behind the one before, so that more of them do.
        """
        if kernel.launches:
            self.staging = Staging(self.staging.size_bytes)
        self.upper = not kernel.launches and not self.upper
        self.live = [(home, buffers) for home, buffers in self.live if home.last >= number]
        fetched = [home for home in self.made.get(number, ()) if home.fetched]
        for home in fetched:
            self._keep(home, self._buffers(home))
        touched = local_names(self.graph, [self.graph.by_name[name] for name in kernel.operators])
        sources = {tensor: found for tensor in touched if (found := self._sources(tensor, number)) is not None}
        results: dict[str, HomeBuffers] = {}
        made = {home.tensor: home for home in self.made.get(number, ()) if not home.fetched}
        for home in made.values():
            results[home.tensor] = self._buffers(home) if home.instead_of is None else self._taken_over(home)
            self._keep(home, results[home.tensor])
        windows = free_windows(self.linker.cluster, [home for home, _ in self.live])
        around = Around(sources, results, made, tuple(home.tensor for home in fetched))
        return around, Surface(windows, self.staging, self.sums, self.tiles, self.upper)

    def _keep(self, home: Home, buffers: HomeBuffers) -> None:
        self.live.append((home, buffers))
        self.of_tensor.setdefault(home.tensor, []).append((home, buffers))

    def _sources(self, tensor: str, number: int) -> dict[Source, int] | None:
        """Where a tensor lies on chip before kernel `number`, with the buffers, the latest made first."""
        kept = [one for one in self.of_tensor.pop(tensor, ()) if one[0].last >= number]
        if not kept:
            return None
        self.of_tensor[tensor] = kept
        found: dict[Source, int] = {}
        for home, buffers in reversed(kept):
            regions: dict[int | None, Region] = {None: home.region, **dict(home.parts)}
            for core, buffer in buffers.items():
                found.setdefault(Source(regions[core], home.level, core), buffer)
        return found

    def _taken_over(self, home: Home) -> HomeBuffers:
        """The buffers of the operand whose place a result takes, so that readers and writers are told apart."""
        return next(
            buffers
            for old, buffers in self.live
            if (old.tensor, old.level, old.address) == (home.instead_of, home.level, home.address)
        )

    def _buffers(self, home: Home) -> HomeBuffers:
        return {core: self._buffer(home, core, region) for core, region in home_parts(home)}

    def _buffer(self, home: Home, core: int | None, region: Region) -> int:
        space = self.linker.cluster.space(home.level, core)
        size = self.graph.tensors[home.tensor].bytes_of(region)
        return self.linker.buffer(space, home.address, size, home.tensor, region)


def home_parts(home: Home) -> tuple[tuple[int | None, Region], ...]:
    """The parts of a home with the cores that hold them; None is GB."""
    return ((None, home.region),) if home.level is Level.GB else home.parts


def free_windows(cluster: Cluster, live: Sequence[Home]) -> dict[Level, tuple[int, int]]:
    """The largest free interval of each level at which something lies; in LB an address is kept in every core."""
    taken: dict[Level, list[tuple[int, int]]] = {}
    for home in live:
        taken.setdefault(home.level, []).append((home.address, home.address + home.size_bytes))
    sizes: Mapping[Level, int] = {memory.level: memory.size_bytes for memory in cluster.machine.memories}
    return {level: free_gaps(sizes[level], intervals)[0] for level, intervals in taken.items()}

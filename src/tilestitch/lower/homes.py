"""The buffers of what stays on chip between kernels."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from tilestitch.cost.surroundings import Source, free_gaps
from tilestitch.hardware.accelerator import Level
from tilestitch.ir.graph import Graph
from tilestitch.ir.region import Region
from tilestitch.ir.schedule import Home, Kernel
from tilestitch.lower.builder import Builder
from tilestitch.lower.cluster import Cluster
from tilestitch.units import aligned

HomeBuffers = dict[int | None, int]  # core, or None for GB -> buffer


class Ring:
    """Addresses of GB for what is on the way to the cores, one behind the other, so that loads can run far ahead.

    Each is read right after it is written, in program order, so that any address is free for the next.
    """

    def __init__(self) -> None:
        self.address = 0

    def take(self, size_bytes: int, low: int, high: int) -> int:
        """The next address of a buffer that lies within `low` and `high`."""
        if self.address < low or self.address + size_bytes > high:
            self.address = low
        found, self.address = self.address, self.address + aligned(size_bytes)
        return found


@dataclass(frozen=True, slots=True)
class Around:
    """What lies on chip while one kernel runs."""

    sources: dict[str, dict[Source, int]]  # tensor -> where it lies, the latest made first, with buffers
    results: dict[str, HomeBuffers]  # of the results that stay on chip
    levels: dict[str, Level]  # likewise
    windows: dict[Level, tuple[int, int]]  # of the levels at which something is kept: the largest free interval
    ring: Ring | None  # of staging in GB, where kernels are stitched
    upper: bool  # whether the kernel's own places lie at the upper end of those, rather than at the lower


class Homes:
    """Follows what one launch starts, kernel by kernel."""

    def __init__(self, builder: Builder, graph: Graph, live: Sequence[Home], tensors: Container[str]) -> None:
        """`live` is there before the launch; of it, what is of one of `tensors` gets the next buffers, in order."""
        self.builder, self.graph = builder, graph
        self.upper, self.ring = False, Ring()
        self.live = [(home, self._buffers(home) if home.tensor in tensors else {}) for home in live]
        self.made: list[HomeBuffers] = []  # of the homes that these kernels fill, in their order

    def enter(self, number: int, kernel: Kernel, made: Sequence[Home]) -> Around:
        """The surroundings of kernel `number`, whose results `made` get their buffers. Kernels come in order.

        Stitched kernels take turns at both ends of the memories, so that one loads while the one before computes.
        """
        self.upper = not kernel.launches and not self.upper
        self.live = [(home, buffers) for home, buffers in self.live if home.last >= number]
        sources: dict[str, dict[Source, int]] = {}
        for home, buffers in reversed(self.live):
            known = sources.setdefault(home.tensor, {}) if buffers else {}
            regions: dict[int | None, Region] = {None: home.region, **dict(home.parts)}
            for core, buffer in buffers.items():
                known.setdefault(Source(regions[core], home.level, core), buffer)
        results, levels = {}, {}
        for home in made:
            results[home.tensor] = self._buffers(home) if home.instead_of is None else self._taken_over(home)
            levels[home.tensor] = home.level
            self.made.append(results[home.tensor])
            self.live.append((home, results[home.tensor]))
        windows = free_windows(self.builder.cluster, [home for home, _ in self.live])
        return Around(sources, results, levels, windows, None if kernel.launches else self.ring, self.upper)

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
        space = self.builder.cluster.space(home.level, core)
        size = self.graph.tensors[home.tensor].bytes_of(region)
        return self.builder.buffer(space, home.address, size, home.tensor, region)


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

"""Where the places of a kernel lie in what others leave free of each memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from tilestitch.base.errors import DoesNotFit, InvalidIR
from tilestitch.base.units import ALIGNMENT_BYTES, aligned
from tilestitch.hardware.accelerator import Level
from tilestitch.ir.schedule import Kernel
from tilestitch.lower.builder import Base
from tilestitch.lower.cluster import Cluster
from tilestitch.lower.link import ADDRESS, BASE, SIZE, TENSOR, Section
from tilestitch.lower.staging import Staging


class Ring:
    """Addresses one behind the other, so that what comes need not wait for the end of what was there just before.

    Those are the sums of a core, so that its products may change places, and the tiles of kernels, so that more than
    the next one may load. Each is read for the last time before the next is written, in program order, so that any
    address is free for the next.
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
class Demand:
    """What a kernel needs of each memory."""

    own_bytes: tuple[int, ...]  # in one piece, by number of the memory
    whole: tuple[tuple[str, int], ...]  # tensors that a stitched kernel keeps whole in GB, with their bytes
    passing_bytes: int | None  # in one piece, of what passes GB; None: nothing does
    again: bool = False  # whether some of that is read again later

    def on(self, spaces: np.ndarray) -> "Demand":
        """The same where other memories stand for these."""
        own_bytes = np.zeros(len(spaces), np.int64)
        own_bytes[spaces] = self.own_bytes
        return replace(self, own_bytes=tuple(own_bytes.tolist()))


@dataclass(frozen=True, slots=True)
class Surface:
    """What is free for a kernel."""

    windows: Mapping[Level, tuple[int, int]]  # of the levels at which something is kept: the largest free interval
    staging: Staging  # in GB, for kernels that are stitched to the one before
    sums: Mapping[int, Ring]  # of accumulators, by number of the memory
    tiles: Mapping[int, Ring]  # of kernels behind one another, by number of the memory
    upper: bool  # whether the kernel's own places lie at the upper end of those, rather than at the lower


@dataclass(frozen=True, slots=True)
class Places:
    """Where a kernel has its places."""

    begins: tuple[int, ...]  # of its own, by number of the memory
    whole: Mapping[str, int]  # of the tensors that it keeps whole
    passing: tuple[int, int]  # what passes GB lies between these
    again: bool  # whether some of that is read again later


def place(cluster: Cluster, kernel: Kernel, demand: Demand, free: Surface) -> Places:
    """Everything of a kernel at the lower or upper end of what is free.

    What a stitched kernel keeps whole in GB lies where loads pass if it can, to load as early as they do.
    """
    own_bytes = list(demand.own_bytes)
    whole: dict[str, int] = {}
    span: tuple[int, int] | None = None
    beside: dict[str, int] = {}
    gb = cluster.space(Level.GB) if cluster.has(Level.GB) else None
    low, high = (0, 0) if gb is None else _beyond(cluster, gb, own_bytes[gb], free)
    free.staging.enter(low, high)
    if gb is not None and not kernel.launches:
        before = free.staging.copy()
        addresses_of_whole = free.staging.take([size for _, size in demand.whole], low, high)
        found = {name: address for (name, _), address in zip(demand.whole, addresses_of_whole, strict=True)}
        taken = sorted((found[name], found[name] + aligned(size)) for name, size in demand.whole)
        if all(stop <= high for _, stop in taken) and all(a[1] <= b[0] for a, b in pairwise(taken)):
            span = _widest(low, high, taken, demand.passing_bytes)
        if span is not None:
            whole = found
        else:
            free.staging.restore(before)
            for name, size in demand.whole:
                beside[name] = own_bytes[gb]
                own_bytes[gb] += aligned(size)
            span = _widest(*_beyond(cluster, gb, own_bytes[gb], free), [], demand.passing_bytes)
            if span is None:
                raise DoesNotFit(
                    f"kernel {kernel.name} ({' + '.join(kernel.operators)}): {demand.passing_bytes:,} B pass GB, in "
                    "which there is less room in one piece.",
                    "a machine with more of that memory",
                )
    begins = tuple(_begin(cluster, kernel, space, size, free) for space, size in enumerate(own_bytes))
    if gb is not None:
        whole.update({name: begins[gb] + at for name, at in beside.items()})
    return Places(begins, whole, span or (0, 0), demand.again)


def addresses(
    cluster: Cluster, block: Section, spaces: np.ndarray, places: Places, free: Surface, *, ring: bool
) -> np.ndarray:
    """Of the new buffers of a block, which lie in these spaces; `ring`: whether sums lie one behind the other."""
    rows = block.buffers
    bases = rows[:, BASE]
    begins = np.array(places.begins, np.int64)[spaces]
    found = rows[:, ADDRESS] + np.where(bases == Base.WINDOW, begins, 0)
    for row in np.flatnonzero(bases == Base.WHOLE).tolist():
        found[row] = places.whole[block.tensors[rows[row, TENSOR]]]
    passing = np.flatnonzero(bases == Base.PASSING)
    if len(passing):
        sizes = rows[passing, ADDRESS].tolist()
        found[passing] = free.staging.take(sizes, *places.passing, in_turn=places.again)
    if ring:
        summed = np.flatnonzero(bases == Base.SUMS)
        found[summed] = [
            free.sums[space].take(size_bytes, 0, cluster.spaces[space].size_bytes)
            for space, size_bytes in zip(spaces[summed].tolist(), rows[summed, SIZE].tolist(), strict=True)
        ]
    return found


def _widest(low: int, high: int, taken: Sequence[tuple[int, int]], need: int | None) -> tuple[int, int] | None:
    """Of what `taken` leaves between two addresses, the largest interval, where it holds what is needed."""
    free = [(a, b) for (_, a), (b, _) in pairwise([(low, low), *taken, (high, high)]) if a < b]
    fitting = [gap for gap in free if gap[1] - gap[0] >= (need or 0)]
    if not fitting:
        return (0, 0) if need is None else None
    return max(fitting, key=lambda gap: gap[1] - gap[0])


def _window(cluster: Cluster, space: int, free: Surface) -> tuple[int, int]:
    """The addresses among which a kernel has its own places."""
    where = cluster.spaces[space]
    return free.windows.get(where.level, (0, where.size_bytes))


def _beyond(cluster: Cluster, space: int, own_bytes: int, free: Surface) -> tuple[int, int]:
    """What a kernel's own places leave of its window."""
    low, high = _window(cluster, space, free)
    return (low, high - own_bytes) if free.upper else (low + own_bytes, high)


def _begin(cluster: Cluster, kernel: Kernel, space: int, own_bytes: int, free: Surface) -> int:
    """Where the own places of a kernel begin in its window: behind the kernel before it, or at one of the ends."""
    low, high = _window(cluster, space, free)
    if own_bytes > high - low:
        where = cluster.spaces[space]
        raise InvalidIR(
            f"kernel {kernel.name} ({' + '.join(kernel.operators)}): its tiling was chosen to fit, and takes "
            f"{own_bytes:,} B of {where.name}, which holds {where.size_bytes:,} B, of which {high - low:,} B are free "
            "in one piece"
        )
    if kernel.behind and space in free.tiles:
        return free.tiles[space].take(own_bytes, low, high)
    room = (high - low - own_bytes) // ALIGNMENT_BYTES * ALIGNMENT_BYTES
    return low + room if free.upper else low

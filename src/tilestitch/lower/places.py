"""Where everything lies while a kernel runs: slots for operands and results, and tensors kept whole in GB."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tilestitch.cost.shape import KernelShape, Operand
from tilestitch.cost.surroundings import Source, cover
from tilestitch.errors import InvalidIR
from tilestitch.hardware.accelerator import Level
from tilestitch.ir.graph import Graph, Operator, Tensor
from tilestitch.ir.region import Region, pieces
from tilestitch.ir.schedule import Kernel
from tilestitch.lower.builder import Builder
from tilestitch.lower.homes import Around, Ring
from tilestitch.lower.waves import Needs, Step
from tilestitch.units import ALIGNMENT_BYTES, aligned, ceil_div

SLABS = 16  # a tensor kept in GB is loaded in about so many pieces, in the order of first need
SLAB_BYTES = 32768  # and in pieces of at least this size


@dataclass(slots=True)
class Slots:
    """A place for a tensor's regions, rotated so that the next one can load while the last one is in use."""

    space: int
    address: int
    size_bytes: int
    count: int
    used: int = 0

    def next(self) -> int:
        address = self.address + (self.used % self.count) * self.size_bytes
        self.used += 1
        return address


@dataclass(slots=True)
class RingSlots:
    """Places one behind the other in what a kernel leaves free of GB."""

    space: int
    size_bytes: int
    ring: Ring
    low: int = 0
    high: int = 0

    def next(self) -> int:
        return self.ring.take(self.size_bytes, self.low, self.high)


class _Arena:
    """Hands out the addresses of one memory from the bottom up, for one kernel."""

    def __init__(self) -> None:
        self.top = 0

    def take(self, size_bytes: int) -> int:
        address, self.top = self.top, self.top + aligned(size_bytes)
        return address


class Places:
    """The addresses of one kernel, from the bottom of each memory up."""

    def __init__(
        self,
        builder: Builder,
        graph: Graph,
        kernel: Kernel,
        shape: KernelShape,
        steps: Mapping[int, Sequence[Step]],
        needs: Mapping[int, Sequence[Needs]],
        around: Around,
        sources: Mapping[str, tuple[Source, ...]],
    ) -> None:
        """`needs` are those that are copied to the cores, `around` and `sources` say what is kept on chip."""
        self.around, self.sources = around, sources
        self.builder, self.graph, self.kernel, self.shape = builder, graph, kernel, shape
        self.cluster = builder.cluster
        self.operands: dict[tuple[int, Operand], Slots] = {}  # by core
        self.staging: dict[Operand, Slots | RingSlots] = {}  # in GB
        self.resident: dict[str, tuple[int, list[Region]]] = {}  # tensor -> GB buffer, slabs not yet loaded
        self.inner: dict[tuple[int, str], Slots] = {}  # of what a tile makes, by core
        self.results: dict[tuple[int, str], Slots] = {}  # in GB, on the way to DDR
        self._whole: dict[str, None] = {}  # tensors to be kept whole in GB, of a stitched kernel
        self._kept_whole: dict[str, Slots] = {}
        self._taken: list[Slots] = []
        self._arenas = {space: _Arena() for space in range(len(self.cluster.spaces))}
        self._place_operands(needs)
        self._place_results(steps)
        self._place_whole()
        self._move_to_windows()
        for name, slots in self._kept_whole.items():
            tensor, whole = graph.tensors[name], Region.whole(graph.tensors[name].shape)
            buffer = builder.buffer(slots.space, slots.address, tensor.size_bytes, name, whole)
            self.resident[name] = buffer, _slabs(tensor)

    def _place_operands(self, needs: Mapping[int, Sequence[Needs]]) -> None:
        gb = self.cluster.has(Level.GB)
        waves = max(len(core_needs) for core_needs in needs.values())
        for operand in self.shape.operands:
            tensor = self.graph.tensors[operand.tensor]
            changes, biggest, groups = 0, 0, 0
            for core_needs in needs.values():
                loads = [region for wave in core_needs for which, region in wave if which is operand]
                changes = max(changes, sum(a != b for a, b in pairwise(loads)) + bool(loads))
                biggest = max([biggest, *(tensor.bytes_of(region) for region in loads)])
            for wave in range(waves):
                groups = max(groups, len(_wave_regions(needs, wave, operand)))
            count = 1 if changes == 1 else 2
            resident, in_gb = operand.tensor in self.kernel.tiling.resident, operand.level is Level.GB
            if not changes:
                continue  # every core finds it where it lies
            for core in () if resident and in_gb else needs:
                space = self.cluster.space(operand.level, core)
                self.operands[core, operand] = self._take(space, biggest, count)
            if gb and resident:
                if self.around.ring is not None:
                    self._whole[operand.tensor] = None
                elif operand.tensor not in self._kept_whole:
                    self._kept_whole[operand.tensor] = self._take(self.cluster.space(Level.GB), tensor.size_bytes, 1)
            elif gb and not in_gb and self._from_ddr(operand, needs):
                if self.around.ring is not None:
                    self.staging[operand] = RingSlots(self.cluster.space(Level.GB), biggest, self.around.ring)
                    continue
                self.staging[operand] = self._take(self.cluster.space(Level.GB), biggest, count * groups)

    def _from_ddr(self, operand: Operand, needs: Mapping[int, Sequence[Needs]]) -> bool:
        sources = self.sources.get(operand.tensor)
        if sources is None:
            return True
        wanted = dict.fromkeys(
            region for waves in needs.values() for wave in waves for which, region in wave if which is operand
        )
        return any(at is None for region in wanted for _, at in cover(region, sources))

    def _place_results(self, steps: Mapping[int, Sequence[Step]]) -> None:
        staged = self.cluster.has(Level.GB) and self.shape.home is not Level.GB
        tiles = max(core_steps[-1].tile for core_steps in steps.values()) + 1
        written = {name for name, level in self.around.levels.items() if level is self.shape.home}
        places = {op.writes[0].tensor: tensor for op in self.shape.operators for tensor in self._reused(op)}
        largest: dict[str, int] = {}
        for core_steps in steps.values():
            for step in core_steps:
                for name, region in step.made.items():
                    largest[name] = max(largest.get(name, 0), self.graph.tensors[name].bytes_of(region))
        count = 2 if tiles > 1 else 1
        for name, size in largest.items():
            if name in written:
                continue
            for core in steps:
                if name in places:
                    self.inner[core, name] = self.inner[core, places[name]]
                else:
                    self.inner[core, name] = self._take(self.cluster.space(self.shape.home, core), size, count)
                if staged and name in self.shape.results and name not in self.around.levels:
                    self.results[core, name] = self._take(self.cluster.space(Level.GB), size, count)

    def _reused(self, op: Operator) -> tuple[str, ...]:
        """The tensor whose place the result of `op` takes, if any."""
        return (self.shape.in_place[op.name],) if op.name in self.shape.in_place else ()

    def _take(self, space: int, size_bytes: int, count: int) -> Slots:
        address = self._arenas[space].take(aligned(size_bytes) * count)
        where = self.cluster.spaces[space]
        low, high = self._window(space)
        if self._arenas[space].top > high - low:
            raise InvalidIR(
                f"kernel {self.kernel.name} ({' + '.join(self.kernel.operators)}): its tiling was chosen to fit, and "
                f"takes {self._arenas[space].top:,} B of {where.name}, which holds {where.size_bytes:,} B, "
                f"of which {high - low:,} B are free in one piece"
            )
        self._taken.append(Slots(space, address, aligned(size_bytes), count))
        return self._taken[-1]

    def _place_whole(self) -> None:
        """What a stitched kernel keeps whole in GB lies in the ring if it can, to load as early as what passes it."""
        ring = self.around.ring
        if ring is None or not self.cluster.has(Level.GB) or self._place_in_ring(ring):
            return
        for name in self._whole:
            self._kept_whole[name] = self._take(self.cluster.space(Level.GB), self.graph.tensors[name].size_bytes, 1)
        self._open_ring(ring, [])

    def _place_in_ring(self, ring: Ring) -> bool:
        """Place them one behind the other, and what passes the ring beside them; False where there is no room."""
        space, begin = self.cluster.space(Level.GB), ring.address
        low, high = self._ring_window(space)
        found: dict[str, Slots] = {}
        for name in self._whole:
            size = self.graph.tensors[name].size_bytes
            found[name] = Slots(space, ring.take(size, low, high), aligned(size), 1)
        taken = sorted((slots.address, slots.address + slots.size_bytes) for slots in found.values())
        inside = all(stop <= high for _, stop in taken) and all(a[1] <= b[0] for a, b in pairwise(taken))
        if inside and self._open_ring(ring, taken):
            self._kept_whole.update(found)
            return True
        ring.address = begin
        return False

    def _open_ring(self, ring: Ring, taken: list[tuple[int, int]]) -> bool:
        """Let staging use all of GB that neither this kernel's other places nor what is kept occupy.

        Of what `taken` leaves of it, the interval in which the ring stands, else the largest.
        """
        low, high = self._ring_window(self.cluster.space(Level.GB))
        free = [(a, b) for (_, a), (b, _) in pairwise([(low, low), *taken, (high, high)]) if a < b]
        slots = [slots for slots in self.staging.values() if isinstance(slots, RingSlots)]
        need = max((one.size_bytes for one in slots), default=0)
        fitting = [gap for gap in free if gap[1] - gap[0] >= need]
        if not fitting:
            return not slots
        found = max(fitting, key=lambda gap: gap[1] - gap[0])
        for one in slots:
            one.low, one.high = found
        return True

    def _ring_window(self, space: int) -> tuple[int, int]:
        (low, high), top = self._window(space), self._arenas[space].top
        return (low, high - top) if self.around.upper else (low + top, high)

    def _window(self, space: int) -> tuple[int, int]:
        """The addresses among which the kernel has its own places."""
        return self.around.windows.get(self.cluster.spaces[space].level, (0, self.cluster.spaces[space].size_bytes))

    def _move_to_windows(self) -> None:
        """Move everything to the lower or upper end of what is free."""
        shifts = {}
        for space in range(len(self.cluster.spaces)):
            low, high = self._window(space)
            room = (high - low - self._arenas[space].top) // ALIGNMENT_BYTES * ALIGNMENT_BYTES
            shifts[space] = low + room if self.around.upper else low
        for slots in self._taken:
            slots.address += shifts[slots.space]


def _wave_regions(needs: Mapping[int, Sequence[Needs]], wave: int, operand: Operand) -> set[Region]:
    """The different regions of an operand that the cores need in one wave."""
    return {region for core in needs.values() if wave < len(core) for which, region in core[wave] if which is operand}


def _slabs(tensor: Tensor) -> list[Region]:
    """Cut a tensor into contiguous slabs along its outermost axes, in memory order."""
    wanted = max(1, min(SLABS, tensor.size_bytes // SLAB_BYTES))
    slabs = [Region.whole(tensor.shape)]
    for axis in tensor.layout:
        if len(slabs) >= wanted:
            break
        extent = tensor.shape[axis]
        length = ceil_div(extent * len(slabs), wanted)
        cut = pieces(0, extent, max(1, length))
        slabs = [
            Region((*slab.start[:axis], a, *slab.start[axis + 1 :]), (*slab.stop[:axis], b, *slab.stop[axis + 1 :]))
            for slab in slabs
            for a, b in cut
        ]
    return slabs

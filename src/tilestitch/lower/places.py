"""Where everything lies while a kernel runs: slots for operands and results, and tensors kept whole in GB."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from tilestitch.base.units import aligned, ceil_div
from tilestitch.hardware.accelerator import Level
from tilestitch.ir.graph import Graph, Operator, Tensor
from tilestitch.ir.region import Region, pieces
from tilestitch.ir.schedule import Kernel
from tilestitch.ir.transfers import SLAB_BYTES, SLABS
from tilestitch.kernels.mapped import overlay_of
from tilestitch.kernels.shape import KernelShape, Operand
from tilestitch.kernels.surroundings import Sources
from tilestitch.lower.addresses import Demand
from tilestitch.lower.builder import Address, Base, Builder
from tilestitch.lower.homes import Around
from tilestitch.lower.passing import together_bytes
from tilestitch.lower.sums import SUM_BYTES, sums_of
from tilestitch.lower.waves import Needs, Step


@dataclass(slots=True)
class Slots:
    """A place for a tensor's regions, rotated so that the next one can load while the last one is in use."""

    space: int
    offset: int
    size_bytes: int
    count: int
    used: int = 0

    def next(self) -> Address:
        offset = self.offset + (self.used % self.count) * self.size_bytes
        self.used += 1
        return Address(Base.WINDOW, offset)


@dataclass(frozen=True, slots=True)
class PassingSlots:
    """Places in what a kernel leaves free of GB, each read before the next is written unless it is needed again."""

    space: int
    size_bytes: int

    def next(self) -> Address:
        return Address(Base.PASSING, self.size_bytes)

    def holding(self, size_bytes: int) -> "PassingSlots":
        """The same, or for something larger."""
        return self if size_bytes <= self.size_bytes else PassingSlots(self.space, size_bytes)


class OwnPlaces:
    """The places of one kernel, from the bottom of each memory up."""

    def __init__(
        self,
        builder: Builder,
        graph: Graph,
        kernel: Kernel,
        shape: KernelShape,
        steps: Mapping[int, Sequence[Step]],
        needs: Mapping[int, Sequence[Needs]],
        around: Around,
        sources: Mapping[str, Sources],
    ) -> None:
        """`needs` are those that are copied to the cores, `around` and `sources` say what is kept on chip."""
        self.around, self.sources = around, sources
        self.builder, self.graph, self.kernel, self.shape = builder, graph, kernel, shape
        self.cluster = builder.cluster
        self.operands: dict[tuple[int, Operand], Slots] = {}  # by core
        self.staging: dict[Operand, Slots | PassingSlots] = {}  # in GB
        self.resident: dict[str, tuple[int, list[Region]]] = {}  # tensor -> GB buffer, slabs not yet loaded
        self.inner: dict[tuple[int, str], Slots] = {}  # of what a tile makes, by core
        self.results: dict[tuple[int, str], Slots] = {}  # in GB, on the way to DDR
        self.sums: dict[int, Slots] = {}  # of a product on an array, by core
        self._in_parts = bool(sums_of(graph, kernel))  # what comes and goes between the parts needs one place
        stays = any(home.level is shape.home for home in around.made.values())
        self.overlay = overlay_of(shape, self._read_on_chip(steps), stays=stays) if self._in_parts else None
        self._stitched = not kernel.launches
        self._whole: dict[str, Address] = {}  # of tensors that are kept whole in GB
        self._own_bytes = [0] * len(self.cluster.spaces)
        self.slab_bytes = max(SLAB_BYTES, together_bytes(self.cluster.machine)) if kernel.together else SLAB_BYTES
        self._place_operands(needs)
        self._place_results(steps)
        for name, address in self._whole.items():
            tensor, whole = graph.tensors[name], Region.whole(graph.tensors[name].shape)
            buffer = builder.buffer(self.cluster.space(Level.GB), address, tensor.size_bytes, name, whole)
            self.resident[name] = buffer, slabs(tensor, whole, least_bytes=self.slab_bytes)

    @property
    def demand(self) -> Demand:
        """What all of them take."""
        passing = [slots.size_bytes for slots in self.staging.values() if isinstance(slots, PassingSlots)]
        whole = [(name, self.graph.tensors[name].size_bytes) for name in self._whole] if self._stitched else []
        return Demand(tuple(self._own_bytes), tuple(whole), max(passing, default=None))

    def _place_operands(self, needs: Mapping[int, Sequence[Needs]]) -> None:
        gb = self.cluster.has(Level.GB)
        waves = max(len(core_needs) for core_needs in needs.values())
        for operand in self.shape.operands:
            tensor = self.graph.tensors[operand.tensor]
            changes, biggest = 0, 0
            for core_needs in needs.values():
                loads = [region for region, _ in groupby(wave[operand] for wave in core_needs if operand in wave)]
                changes = max(changes, len(loads))
                biggest = max([biggest, *map(tensor.bytes_of, loads)])
            count = 1 if changes == 1 or (self._in_parts and not operand.from_the_start) else 2
            resident, in_gb = operand.tensor in self.kernel.tiling.resident, operand.level is Level.GB
            if not changes:
                continue  # every core finds it where it lies
            for core in () if resident and in_gb else needs:
                space = self.cluster.space(operand.level, core)
                self.operands[core, operand] = self._take(space, biggest, count)
            if gb and resident:
                if self._stitched:
                    self._whole[operand.tensor] = Address(Base.WHOLE)
                elif operand.tensor not in self._whole:
                    self._whole[operand.tensor] = self._take(self.cluster.space(Level.GB), tensor.size_bytes, 1).next()
            elif gb and self.cluster.machine.has_dma and not in_gb and self._from_ddr(operand, needs):
                space = self.cluster.space(Level.GB)
                if self._stitched:
                    self.staging[operand] = PassingSlots(space, biggest)
                    continue
                groups = max(len(_wave_regions(needs, wave, operand)) for wave in range(waves))
                self.staging[operand] = self._take(space, biggest, count * groups)

    def _read_on_chip(self, steps: Mapping[int, Sequence[Step]]) -> set[str]:
        """The tensors that lie on chip, without those of which the kernel reads only other parts."""
        read: dict[str, Region] = {}
        for step in (step for core_steps in steps.values() for step in core_steps):
            for operand, region in step.needs.items():
                read[operand.tensor] = region.hull(read.get(operand.tensor, region))
        return {
            tensor
            for tensor, found in self.around.sources.items()
            if tensor in read and any(source.region.overlaps(read[tensor]) for source in found)
        }

    def _from_ddr(self, operand: Operand, needs: Mapping[int, Sequence[Needs]]) -> bool:
        sources = self.sources.get(operand.tensor)
        if sources is None:
            return True
        wanted = dict.fromkeys(wave[operand] for waves in needs.values() for wave in waves if operand in wave)
        return any(at is None for region in wanted for _, at in sources.cover(region))

    def _place_results(self, steps: Mapping[int, Sequence[Step]]) -> None:
        passes_gb = self.cluster.has(Level.GB) and self.cluster.machine.has_dma
        staged = passes_gb and self.shape.home is not Level.GB
        tiles = max(core_steps[-1].tile for core_steps in steps.values()) + 1
        written = {name for name, home in self.around.made.items() if home.level is self.shape.home}
        places = {op.writes[0].tensor: tensor for op in self.shape.operators for tensor in self._reused(op)}
        largest: dict[str, int] = {}
        for core_steps in steps.values():
            for step in (step for step in core_steps if step.first):  # all parts of a tile make the same
                for name, region in step.made.items():
                    largest[name] = max(largest.get(name, 0), self.graph.tensors[name].bytes_of(region))
        count = 2 if tiles > 1 and not self._in_parts else 1
        anchor = self.shape.anchor
        if self._in_parts and anchor is not None:
            sums = max(step.made[anchor.writes[0].tensor].size for one in steps.values() for step in one)
            for core in steps:
                self.sums[core] = self._take(self.cluster.space(self.shape.home, core), SUM_BYTES * sums, 1)
        for name, size in largest.items():
            home = self.around.made.get(name)
            for core in steps:
                if self.overlay is not None and anchor is not None and name == anchor.writes[0].tensor:
                    self.inner[core, name] = self.sums[core]
                elif name in places and name not in written:
                    self.inner[core, name] = self.inner[core, places[name]]
                elif name not in written:
                    self.inner[core, name] = self._take(self.cluster.space(self.shape.home, core), size, count)
                passes = home is None or (home.stored and home.level is Level.LB)
                if staged and name in self.shape.results and passes:
                    self.results[core, name] = self._take(self.cluster.space(Level.GB), size, count)

    def _reused(self, op: Operator) -> tuple[str, ...]:
        """The tensor whose place the result of `op` takes, if any."""
        return (self.shape.in_place[op.name],) if op.name in self.shape.in_place else ()

    def _take(self, space: int, size_bytes: int, count: int) -> Slots:
        found = Slots(space, self._own_bytes[space], aligned(size_bytes), count)
        self._own_bytes[space] += aligned(size_bytes) * count
        return found


def _wave_regions(needs: Mapping[int, Sequence[Needs]], wave: int, operand: Operand) -> set[Region]:
    """The different regions of an operand that the cores need in one wave."""
    return {core[wave][operand] for core in needs.values() if wave < len(core) and operand in core[wave]}


def slabs(tensor: Tensor, region: Region, most: int = SLABS, least_bytes: int = SLAB_BYTES) -> list[Region]:
    """Cut a region of a tensor into slabs along its outermost axes, in memory order."""
    wanted = max(1, min(most, tensor.bytes_of(region) // least_bytes))
    found = [region]
    for axis in tensor.layout:
        if len(found) >= wanted:
            break
        length = ceil_div(region.extents[axis] * len(found), wanted)
        cut = pieces(region.start[axis], region.stop[axis], max(1, length))
        found = [
            Region((*slab.start[:axis], a, *slab.start[axis + 1 :]), (*slab.stop[:axis], b, *slab.stop[axis + 1 :]))
            for slab in found
            for a, b in cut
        ]
    return found

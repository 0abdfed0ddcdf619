"""Where everything lies while a kernel runs: slots for operands and results, and tensors kept whole in GB."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tilestitch.cost.shape import KernelShape, Operand, made_regions
from tilestitch.errors import InvalidIR
from tilestitch.hardware.accelerator import Level
from tilestitch.ir.graph import Graph, Operator, Tensor
from tilestitch.ir.region import Region, pieces
from tilestitch.ir.schedule import Kernel
from tilestitch.lower.builder import Builder
from tilestitch.lower.waves import Needs, Step
from tilestitch.units import aligned, ceil_div

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
    ) -> None:
        self.builder, self.graph, self.kernel, self.shape = builder, graph, kernel, shape
        self.cluster = builder.cluster
        self.operands: dict[tuple[int, Operand], Slots] = {}  # by core
        self.staging: dict[Operand, Slots] = {}  # in GB
        self.resident: dict[str, tuple[int, list[Region]]] = {}  # tensor -> GB buffer, slabs not yet loaded
        self.inner: dict[tuple[int, str], Slots] = {}  # of what a tile makes, by core
        self.results: dict[tuple[int, str], Slots] = {}  # in GB, on the way to DDR
        self._arenas = {space: _Arena() for space in range(len(self.cluster.spaces))}
        self._place_operands(needs)
        self._place_results(steps)

    def _place_operands(self, needs: Mapping[int, Sequence[Needs]]) -> None:
        gb = self.cluster.has(Level.GB)
        waves = max(len(core_needs) for core_needs in needs.values())
        for operand in self.shape.operands:
            tensor = self.graph.tensors[operand.tensor]
            changes, biggest, groups = 0, 0, 0
            for core_needs in needs.values():
                loads = [region for wave in core_needs for which, region in wave if which == operand]
                changes = max(changes, 1 + sum(a != b for a, b in pairwise(loads)))
                biggest = max([biggest, *(tensor.bytes_of(region) for region in loads)])
            for wave in range(waves):
                groups = max(groups, len(_wave_regions(needs, wave, operand)))
            count = 1 if changes == 1 else 2
            resident, in_gb = operand.tensor in self.kernel.tiling.resident, operand.level is Level.GB
            for core in () if resident and in_gb else needs:
                space = self.cluster.space(operand.level, core)
                self.operands[core, operand] = self._take(space, biggest, count)
            if gb and resident:
                if operand.tensor not in self.resident:
                    self.resident[operand.tensor] = self._keep_in_gb(tensor)
            elif gb and not in_gb:
                self.staging[operand] = self._take(self.cluster.space(Level.GB), biggest, count * groups)

    def _place_results(self, steps: Mapping[int, Sequence[Step]]) -> None:
        staged = self.cluster.has(Level.GB) and self.shape.home is not Level.GB
        tiles = max(core_steps[-1].tile for core_steps in steps.values()) + 1
        places = {op.writes[0].tensor: tensor for op in self.shape.operators for tensor in self._reused(op)}
        largest: dict[str, int] = {}
        for core_steps in steps.values():
            for step in core_steps:
                for name, region in made_regions(self.shape, step.boxes).items():
                    largest[name] = max(largest.get(name, 0), self.graph.tensors[name].bytes_of(region))
        count = 2 if tiles > 1 else 1
        for name, size in largest.items():
            for core in steps:
                if name in places:
                    self.inner[core, name] = self.inner[core, places[name]]
                else:
                    self.inner[core, name] = self._take(self.cluster.space(self.shape.home, core), size, count)
                if staged and name in self.shape.results:
                    self.results[core, name] = self._take(self.cluster.space(Level.GB), size, count)

    def _reused(self, op: Operator) -> tuple[str, ...]:
        """The tensor whose place the result of `op` takes, if any."""
        return (self.shape.in_place[op.name],) if op.name in self.shape.in_place else ()

    def _take(self, space: int, size_bytes: int, count: int) -> Slots:
        address = self._arenas[space].take(aligned(size_bytes) * count)
        where = self.cluster.spaces[space]
        if self._arenas[space].top > where.size_bytes:
            raise InvalidIR(
                f"kernel {self.kernel.name} ({' + '.join(self.kernel.operators)}): its tiling was chosen to fit, and "
                f"takes {self._arenas[space].top:,} B of {where.name}, which holds {where.size_bytes:,} B"
            )
        return Slots(space, address, aligned(size_bytes), count)

    def _keep_in_gb(self, tensor: Tensor) -> tuple[int, list[Region]]:
        space = self.cluster.space(Level.GB)
        whole = Region.whole(tensor.shape)
        address = self._take(space, tensor.size_bytes, 1).address
        return self.builder.buffer(space, address, tensor.size_bytes, tensor.name, whole), _slabs(tensor)


def _wave_regions(needs: Mapping[int, Sequence[Needs]], wave: int, operand: Operand) -> set[Region]:
    """The different regions of an operand that the cores need in one wave."""
    return {region for core in needs.values() if wave < len(core) for which, region in core[wave] if which == operand}


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

"""Copies between the buffers of one kernel: what each takes is found once for all that are alike."""

from tilestitch.ir.graph import Tensor
from tilestitch.ir.program import EngineKind, Kind, Mode
from tilestitch.ir.region import Region
from tilestitch.ir.transfers import in_memory_order, runs
from tilestitch.lower.builder import Builder, Passage


class Copying:
    """Tells a builder the copies of one kernel; `alone`: it runs on a single core."""

    def __init__(self, builder: Builder, *, alone: bool) -> None:
        self.builder, self.alone = builder, alone
        self._transfers: dict[tuple, tuple[int, int, int]] = {}
        self._paths: dict[tuple[int, ...], tuple[int, ...]] = {}  # by the memories at their ends

    def copy(
        self,
        tensor: Tensor,
        region: Region,
        source: int,
        targets: tuple[int, ...],
        engine: EngineKind,
        core: int | None,
    ) -> None:
        """One region from one buffer to others."""
        size, run, descriptors = self._transfer(tensor, region, source, targets[0])
        setup = self.builder.cluster.machine.setup
        per_descriptor = setup.mover_cycles if engine is EngineKind.MOVER else setup.dma_cycles
        self.builder.emit(
            Kind.COPY,
            self.builder.cluster.engine(engine, core),
            ((source, region, Mode.READ), *((target, region, Mode.WRITE) for target in targets)),
            cycles=per_descriptor * descriptors,
            passage=Passage(size, self.path(source, targets), run),
        )

    def path(self, source: int, targets: tuple[int, ...]) -> tuple[int, ...]:
        """What the bytes from one buffer to others pass."""
        space_of = self.builder.space_of
        ends = space_of[source], *[space_of[target] for target in targets]
        if ends not in self._paths:
            self._paths[ends] = self.builder.cluster.path(ends[0], ends[1:], alone=self.alone)
        return self._paths[ends]

    def _transfer(self, tensor: Tensor, region: Region, source: int, target: int) -> tuple[int, int, int]:
        """Bytes of a copy, of one of its runs, and its descriptors; all targets of a broadcast have the same shape."""
        builder = self.builder
        extents = builder.extents_of[target] if region is builder.region_of[target] else region.extents
        key = tensor.name, extents, builder.extents_of[source], builder.extents_of[target]
        if key not in self._transfers:
            in_order = (in_memory_order(tensor, one) for one in key[1:])
            self._transfers[key] = tensor.bytes_of(region), *runs(*in_order, tensor.dtype.size_bytes)
        return self._transfers[key]

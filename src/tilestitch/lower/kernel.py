"""One kernel as instructions: loads one wave ahead, compute, stores.

A wave is one step of every core: one tile, or one part of a tile's reduction. The loads of wave w+1 come before the
stores of wave w in program order, so that an in-order mover never holds back the next tile for a result.
"""

from math import prod

from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.ir.graph import Graph, Operator, Tensor
from tilestitch.ir.program import EngineKind, Flag, Kind, Mode
from tilestitch.ir.region import Region
from tilestitch.ir.schedule import Kernel
from tilestitch.ir.tiles import operator_boxes
from tilestitch.ir.transfers import in_memory_order, runs
from tilestitch.kernels.shape import KernelShape, Operand, kernel_shape, made_regions
from tilestitch.kernels.surroundings import Source, Sources, without
from tilestitch.lower.addresses import Demand
from tilestitch.lower.builder import Address, Base, Builder, Iterations, Passage
from tilestitch.lower.cluster import Cluster
from tilestitch.lower.homes import Around
from tilestitch.lower.places import OwnPlaces, slabs
from tilestitch.lower.waves import Step, steps_of_cores


def lower_kernel(builder: Builder, graph: Graph, kernel: Kernel, ddr: dict[str, int], around: Around) -> Demand:
    """Tell a builder the instructions of one kernel; gives what its own places take.

    `ddr` maps every tensor that lives in DDR to its buffer; `around` says what of the others lies where.
    """
    lowering = _KernelLowering(builder, graph, kernel, ddr, around)
    lowering.run()
    return lowering.places.demand


class _KernelLowering:
    """The state of lowering one kernel: addresses, and which buffer holds what at this point of the program."""

    def __init__(self, builder: Builder, graph: Graph, kernel: Kernel, ddr: dict[str, int], around: Around) -> None:
        self.builder, self.graph, self.kernel, self.ddr, self.around = builder, graph, kernel, ddr, around
        self.cluster: Cluster = builder.cluster
        self.machine: Accelerator = self.cluster.machine
        operators = [graph.by_name[name] for name in kernel.operators]
        self.shape: KernelShape = kernel_shape(graph, operators, self.machine, self.machine.cores[kernel.cores[0]])
        self.steps = steps_of_cores(graph, kernel, self.shape)
        self.needs = {core: [step.needs for step in steps] for core, steps in self.steps.items()}
        self.read_from = {
            op.name: [self._operand_of(op, number) for number in range(len(op.reads))] for op in operators
        }
        self.waves = max(len(steps) for steps in self.steps.values())
        self.sources = {tensor: Sources(found) for tensor, found in around.sources.items()}
        # What must be loaded before what the kernel before makes, so that a mover need not wait to load it.
        self.loaded = sorted(self.shape.operands, key=lambda operand: operand.tensor in self.sources)
        loads = {
            core: [[need for need in wave if self._direct(core, *need) is None] for wave in waves]
            for core, waves in self.needs.items()
        }
        self.places = OwnPlaces(builder, graph, kernel, self.shape, self.steps, loads, around, self.sources)
        self.held: dict[tuple[int, Operand], tuple[Region, int]] = {}  # what a core's slot holds now
        self.partial: dict[int, int] = {}  # core -> the accumulator buffer of its current tile
        self.cycles: dict[tuple[str, tuple[int, ...]], int] = {}  # of an operator, by extents

    def run(self) -> None:
        """Emit the kernel: launch, unless it continues the one before, then waves with the loads one ahead."""
        if self.kernel.launches:
            self.builder.launch(self.machine.setup.launch_cycles)
        for name in self.around.fetched:
            self._fetch(name)
        self._load(0)
        for wave in range(self.waves):
            before = dict(self.held)
            if wave + 1 < self.waves:
                self._load(wave + 1)
            self._compute(wave, before)

    def _fetch(self, name: str) -> None:
        """Bring a tensor to where the kernel and others find it, piece by piece; what several cores hold, at once."""
        holders: dict[Region, list[tuple[int | None, int]]] = {}
        for source, buffer in self.around.sources[name].items():
            holders.setdefault(source.region, []).append((source.core, buffer))
        for region, held in holders.items():
            core, targets = held[0][0], tuple(buffer for _, buffer in held)
            engine = EngineKind.DMA_IN if core is None else EngineKind.MOVER
            for slab in slabs(self.graph.tensors[name], region):
                self._copy(self.graph.tensors[name], slab, self.ddr[name], targets, engine, core)

    def _load(self, wave: int) -> None:
        for operand in self.loaded:
            wanted: dict[Region, list[int]] = {}
            for core, needs in self.needs.items():
                if wave >= len(needs):
                    continue
                for which, region in needs[wave]:
                    held = self.held.get((core, operand))
                    if which is not operand or (held is not None and held[0] == region):
                        continue
                    buffer = self._direct(core, operand, region)
                    if buffer is not None:
                        self.held[core, operand] = region, buffer
                    else:
                        wanted.setdefault(region, []).append(core)
            for ordinal, (region, cores) in enumerate(wanted.items()):
                self._load_region(operand, region, cores, cores[(wave + ordinal) % len(cores)])

    def _direct(self, core: int, operand: Operand, region: Region) -> int | None:
        """The buffer in which a core's units find `region` already, if there is one."""
        sources = self.sources.get(operand.tensor)
        if sources is None:
            return None
        source = sources.read_directly(self.shape, operand, region, core)
        return None if source is None else self.around.sources[operand.tensor][source]

    def _load_region(self, operand: Operand, region: Region, cores: list[int], mover: int) -> None:
        """Bring one region to every core that needs it; a region that several need is broadcast."""
        tensor = self.graph.tensors[operand.tensor]
        source = self.ddr.get(operand.tensor, -1)  # a tensor that lies on chip as a whole has no place in DDR
        if operand.tensor in self.places.resident:
            buffer, missing = self.places.resident[operand.tensor]
            for slab in [slab for slab in missing if slab.overlaps(region)]:
                missing.remove(slab)
                self._copy(tensor, slab, source, (buffer,), EngineKind.DMA_IN, None)
            source = buffer
            if operand.level is Level.GB:  # where the units read it
                self.held.update({(core, operand): (region, buffer) for core in cores})
                return
        targets = []
        for core in cores:
            slots = self.places.operands[core, operand]
            target = self.builder.buffer(slots.space, slots.next(), tensor.bytes_of(region), tensor.name, region)
            self.held[core, operand] = region, target
            targets.append(target)
        for part, at in self._covered(operand.tensor, region):
            self._load_part(operand, part, source, at, tuple(targets), mover)

    def _covered(self, tensor: str, region: Region) -> list[tuple[Region, Source | None]]:
        """The parts of a region with where they lie; None is DDR."""
        return self.sources[tensor].cover(region) if tensor in self.sources else [(region, None)]

    def _load_part(
        self, operand: Operand, part: Region, source: int, at: Source | None, targets: tuple[int, ...], mover: int
    ) -> None:
        """Copy what lies in one place; `source` is the tensor's buffer in DDR, or in GB where it is kept whole."""
        tensor = self.graph.tensors[operand.tensor]
        if at is not None:
            self._copy(tensor, part, self.around.sources[operand.tensor][at], targets, EngineKind.MOVER, mover)
            return
        if operand in self.places.staging:
            slots = self.places.staging[operand]
            staged = self.builder.buffer(slots.space, slots.next(), tensor.bytes_of(part), tensor.name, part)
            self._copy(tensor, part, source, (staged,), EngineKind.DMA_IN, None)
            source = staged
        if operand.level is Level.GB:
            self._copy(tensor, part, source, targets, EngineKind.DMA_IN, None)
        else:
            self._copy(tensor, part, source, targets, EngineKind.MOVER, mover)

    def _copy(
        self,
        tensor: Tensor,
        region: Region,
        source: int,
        targets: tuple[int, ...],
        engine: EngineKind,
        core: int | None,
    ) -> None:
        builder = self.builder
        size = tensor.bytes_of(region)
        run, descriptors = size, 1
        for target in targets[:1]:  # every target of a broadcast has the same shape
            run, descriptors = runs(
                in_memory_order(tensor, region.extents),
                in_memory_order(tensor, self._extents(source)),
                in_memory_order(tensor, self._extents(target)),
                tensor.dtype.size_bytes,
            )
        setup = self.machine.setup
        per_descriptor = setup.mover_cycles if engine is EngineKind.MOVER else setup.dma_cycles
        builder.emit(
            Kind.COPY,
            self.cluster.engine(engine, core),
            ((source, region, Mode.READ), *((target, region, Mode.WRITE) for target in targets)),
            cycles=per_descriptor * descriptors,
            passage=Passage(size, self._path(source, targets), run),
        )

    def _path(self, source: int, targets: tuple[int, ...]) -> tuple[int, ...]:
        """What the bytes from one buffer to others pass."""
        spaces = tuple(self._space(target) for target in targets)
        return self.cluster.path(self._space(source), spaces, alone=len(self.steps) == 1)

    def _space(self, buffer: int) -> int:
        return self.builder.space_of[buffer]

    def _extents(self, buffer: int) -> tuple[int, ...]:
        return self.builder.region_of[buffer].extents

    def _compute(self, wave: int, held: dict[tuple[int, Operand], tuple[Region, int]]) -> None:
        """The wave's arithmetic on every core, and the stores of the tiles that it finishes."""
        for core, steps in self.steps.items():
            if wave >= len(steps):
                continue
            step = steps[wave]
            inner: dict[str, int] = {}
            for op in self.shape.operators:
                if op is self.shape.anchor or step.last:
                    self._compute_operator(op, core, step, held, inner)
            if step.last:
                for tensor in self.shape.results:
                    for region in self._own(core, tensor, step.made[tensor]):
                        self._store(core, tensor, inner[tensor], region)

    def _compute_operator(
        self,
        op: Operator,
        core: int,
        step: Step,
        held: dict[tuple[int, Operand], tuple[Region, int]],
        inner: dict[str, int],
    ) -> None:
        matrix = op.name in self.shape.matrix
        anchored = op is self.shape.anchor
        box, regions = step.boxes[op.name], step.reads[op.name]
        finishes = step.last or not anchored
        operands: list[tuple[int, Region, Mode]] = []
        for number, read in enumerate(op.reads):
            if number > 1 and matrix and not finishes:
                continue  # the bias joins at the end
            if read.indirect_axis is not None:
                operands.append((self.ddr[read.tensor], regions[number], Mode.READ))
                continue
            operand = self.read_from[op.name][number]
            buffer = inner[read.tensor] if operand is None else held[core, operand][1]
            operands.append((buffer, regions[number], Mode.READ))
        if matrix and self.cluster.has(Level.ACCUMULATORS, core):
            operands.append(self._accumulator(op, core, box, first=step.first or not anchored))
        if finishes:
            for write, region in zip(op.writes, step.writes[op.name], strict=True):
                if write.tensor not in inner:
                    inner[write.tensor] = self._make(op, core, write.tensor, step, inner)
                operands.append((inner[write.tensor], region, Mode.WRITE))
        if op.kind == "gather":
            self._gather(op, core, box, tuple(operands))
            return
        flags = 0
        if matrix:
            flags = Flag.MATRIX
            flags |= Flag.FIRST if step.first or not anchored else 0
            flags |= Flag.LAST if finishes else 0
        cycles = self.cycles.get((op.name, box.extents))
        if cycles is None:
            cycles = self.cycles[op.name, box.extents] = self.shape.cycles(op, box.extents)
        self.builder.emit(
            Kind.COMPUTE,
            self.cluster.engine(EngineKind.MATRIX if matrix else EngineKind.VECTOR, core),
            tuple(operands),
            cycles=self.machine.setup.compute_cycles + cycles,
            work=Iterations(op.name, box),
            flags=int(flags),
        )

    def _operand_of(self, op: Operator, number: int) -> Operand | None:
        """What a core holds for one of an operator's reads; None where the kernel makes it, or the rows are picked."""
        read = op.reads[number]
        if read.indirect_axis is not None or any(read.tensor in other.outputs for other in self.shape.operators):
            return None
        second = op.name in self.shape.matrix and number == 1 and Level.WEIGHTS in self.shape.core.levels
        level = Level.WEIGHTS if second and self.machine.memory(Level.WEIGHTS) is not None else self.shape.home
        return next(o for o in self.shape.operands if o.tensor == read.tensor and o.level is level)

    def _make(self, op: Operator, core: int, name: str, step: Step, inner: dict[str, int]) -> int:
        """A buffer for what a tile makes of a tensor: its next slot, or the place of an operand that ends here."""
        kept = self.around.results.get(name)
        if kept is not None and self.around.made[name].level is self.shape.home:
            return kept[core if self.shape.home is Level.LB else None]
        region = step.made[name]
        slots, size = self.places.inner[core, name], self.graph.tensors[name].bytes_of(region)
        reused = self.shape.in_place.get(op.name)
        address = slots.next() if reused is None else self.builder.address_of[inner[reused] - self.builder.given]
        return self.builder.buffer(slots.space, address, size, name, region)

    def _accumulator(self, op: Operator, core: int, box: Region, *, first: bool) -> tuple[int, Region, Mode]:
        """The partial sums of the tile: a new buffer for its first part, the same one for the others."""
        region = op.writes[0].hull(box)
        if first:
            space = self.cluster.space(Level.ACCUMULATORS, core)
            self.partial[core] = self.builder.buffer(
                space, Address(Base.MEMORY), 4 * region.size, op.writes[0].tensor, region
            )
        return self.partial[core], region, Mode.ACCUMULATE

    def _gather(self, op: Operator, core: int, box: Region, operands: tuple[tuple[int, Region, Mode], ...]) -> None:
        """Fetch the rows that the indices name, straight from DDR."""
        tensor = self.graph.tensors[op.writes[0].tensor]
        size = tensor.bytes_of(op.writes[0].hull(box))
        rows = prod(box.extents[dim] for dim in op.reads[1].dims)
        row_bytes = size // rows
        self.builder.emit(
            Kind.GATHER,
            self.cluster.engine(EngineKind.MOVER, core),
            operands,
            cycles=self.machine.setup.mover_cycles * rows,
            work=Iterations(op.name, box),
            passage=Passage(size, self._path(operands[0][0], (operands[-1][0],)), row_bytes),
        )

    def _own(self, core: int, name: str, region: Region) -> list[Region]:
        """What a core brings out of what it has made of a tensor: without what a core before it makes as well."""
        left = [region]
        for other, strip in self.kernel.strips:
            if other == core:
                break
            made = made_regions(self.shape, operator_boxes(self.graph, self.shape.operators, strip))[name]
            cut = ((box, box.intersect(made) if box.overlaps(made) else None) for box in left)
            left = [part for box, common in cut for part in ([box] if common is None else without(box, common))]
        return left

    def _store(self, core: int, name: str, buffer: int, region: Region) -> None:
        """Bring a part of a finished tile to DDR, through GB where there is one, unless it stays on chip only."""
        kept = self.around.results.get(name, {})
        stored = name in self.around.made and self.around.made[name].stored
        if buffer in kept.values() and not stored:
            return
        tensor = self.graph.tensors[name]
        if None in kept:
            if buffer != kept[None]:
                self._copy(tensor, region, buffer, (kept[None],), EngineKind.MOVER, core)
            if stored:
                self._copy(tensor, region, kept[None], (self.ddr[name],), EngineKind.DMA_OUT, None)
            return
        slots = self.places.results.get((core, name))
        if slots is not None:
            staged = self.builder.buffer(slots.space, slots.next(), tensor.bytes_of(region), name, region)
            self._copy(tensor, region, buffer, (staged,), EngineKind.MOVER, core)
            self._copy(tensor, region, staged, (self.ddr[name],), EngineKind.DMA_OUT, None)
        elif self.shape.home is Level.GB:
            self._copy(tensor, region, buffer, (self.ddr[name],), EngineKind.DMA_OUT, None)
        else:
            self._copy(tensor, region, buffer, (self.ddr[name],), EngineKind.MOVER, core)

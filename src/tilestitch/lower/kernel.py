"""One kernel as instructions: loads one wave ahead, compute, stores.

A wave is one step of every core: one tile, or one part of a tile's reduction. The loads of wave w+1 come before the
stores of wave w in program order, so that an in-order mover never holds back the next tile for a result.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

from tilestitch.base.errors import EVERY_OPERATOR_ALONE, DoesNotFit
from tilestitch.base.units import ceil_div
from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.ir.graph import Graph, Operator
from tilestitch.ir.program import EngineKind, Flag, Kind, Mode
from tilestitch.ir.region import Region
from tilestitch.ir.schedule import Kernel
from tilestitch.ir.tiles import operator_boxes
from tilestitch.kernels.mapped import cycles_behind
from tilestitch.kernels.runnable import picks_from_itself
from tilestitch.kernels.shape import KernelShape, Operand, kernel_shape, made_regions
from tilestitch.kernels.surroundings import Source, Sources, without
from tilestitch.lower.addresses import Demand
from tilestitch.lower.builder import Address, Base, Builder, Iterations, Passage
from tilestitch.lower.cluster import Cluster
from tilestitch.lower.copying import Copying
from tilestitch.lower.homes import Around
from tilestitch.lower.passing import Load, Passing, together_bytes
from tilestitch.lower.places import OwnPlaces, PassingSlots, slabs
from tilestitch.lower.sums import SUM_BYTES, sums_of
from tilestitch.lower.turns import turns_of_kernel, wave_cycles
from tilestitch.lower.waves import Needs, Step, steps_of_cores


def lower_kernel(builder: Builder, graph: Graph, kernel: Kernel, ddr: dict[str, int], around: Around) -> Demand:
    """Tell a builder the instructions of one kernel; gives what its own places take.

    `ddr` maps every tensor that lives in DDR to its buffer; `around` says what of the others lies where.
    """
    lowering = _KernelLowering(builder, graph, kernel, ddr, around)
    lowering.run()
    return lowering.passing.with_room(lowering.places.demand)


SPREAD_BYTES = 2048  # what comes and goes between the parts of a reduction does so in pieces of at least this size


class _Slab(NamedTuple):
    """A part of what one buffer of a core gets or gives."""

    tensor: str
    buffer: int
    region: Region
    operand: Operand | None = None  # of what it gets


class _Change(NamedTuple):
    """A core needs another region of an operand: the buffer in which it lies already, or None."""

    core: int
    region: Region
    buffer: int | None


def _parts_of_a_tile(steps: Mapping[int, Sequence[Step]]) -> int:
    """Waves from the first of a tile to its last, of which every tile has as many."""
    return next(number for number, step in enumerate(next(iter(steps.values())), 1) if step.last)


class _KernelLowering:
    """The state of lowering one kernel: addresses, and which buffer holds what at this point of the program."""

    def __init__(self, builder: Builder, graph: Graph, kernel: Kernel, ddr: dict[str, int], around: Around) -> None:
        self.builder, self.graph, self.kernel, self.ddr, self.around = builder, graph, kernel, ddr, around
        self.cluster: Cluster = builder.cluster
        self.machine: Accelerator = self.cluster.machine
        operators = [graph.by_name[name] for name in kernel.operators]
        self.shape: KernelShape = kernel_shape(graph, operators, self.machine, self.machine.cores[kernel.cores[0]])
        self.steps = steps_of_cores(graph, kernel, self.shape)
        self.copying = Copying(builder, alone=len(self.steps) == 1)
        self._copy = self.copying.copy
        self._expect_operands()
        self.needs = {core: [step.needs for step in steps] for core, steps in self.steps.items()}
        self.read_from = {
            op.name: [self._operand_of(op, number) for number in range(len(op.reads))] for op in operators
        }
        self.waves = max(len(steps) for steps in self.steps.values())
        self.sources = {tensor: Sources(found) for tensor, found in around.sources.items()}
        home = self.shape.home
        self.near = {one for one in self.shape.operands if one.level is home and one.tensor in self.sources}
        self._found_near: dict[tuple[int, Operand, Region], int | None] = {}  # buffers that cores read in place
        loads: Mapping[int, Sequence[Needs]] = self.needs
        if self.near:
            loads = {
                core: [
                    {which: region for which, region in wave.items() if self._direct(core, which, region) is None}
                    for wave in waves
                ]
                for core, waves in self.needs.items()
            }
        self.places = OwnPlaces(builder, graph, kernel, self.shape, self.steps, loads, around, self.sources)
        self.held: dict[tuple[int, Operand], tuple[Region, int]] = {}  # what a core's slot holds now
        self.partial: dict[int, int] = {}  # core -> the accumulator buffer of its current tile
        self.cycles: dict[tuple[str, tuple[int, ...]], int] = {}  # of an operator, by extents
        self.engines = {  # of products and of others, by core
            (core, matrix): self.cluster.engine(EngineKind.MATRIX if matrix else EngineKind.VECTOR, core)
            for core in self.steps
            for matrix in {op.name in self.shape.matrix for op in operators if op.kind != "gather"}
        }
        self.product_cycles: dict[int, list[int]] = {}  # of a mapped product by core, wave by wave
        if kernel.mapping is not None and self.shape.anchor is not None:
            turns = turns_of_kernel(self.shape, self.shape.anchor, kernel.mapping, self.machine)
            self.product_cycles = {
                core: wave_cycles(turns, self.shape.anchor, steps) for core, steps in self.steps.items()
            }
        self.sums = next(iter(sums_of(graph, kernel)), None)
        self.parts = 1 if self.sums is None else _parts_of_a_tile(self.steps)
        # The part of a tile from which on comes what only the last needs: before, its place may have results in it.
        self.late = 1 if self.places.overlay is None else max(1, self.parts // 2)
        self.coming: dict[int, deque[_Slab]] = {core: deque() for core in self.steps}  # for the last part of a tile
        self.leaving: dict[int, deque[_Slab]] = {core: deque() for core in self.steps}  # of the tile before
        # What must be loaded before what the kernel before makes, so that a mover need not wait to load it.
        operands = sorted(self.shape.operands, key=lambda operand: operand.tensor in self.sources)
        ahead = [operand for operand in operands if self.sums is None or operand.from_the_start]
        self.loaded = [(operand, self._changes(operand, loads)) for operand in ahead]
        self.passing = Passing()
        if kernel.tiling.halves is not None:
            self.passing.expect(self._loads([operand for operand, _ in self.loaded]))
        if kernel.together:
            passing = [one for one, slots in self.places.staging.items() if isinstance(slots, PassingSlots)]
            whole = [one for one in passing if one.tensor not in self.sources]
            self.passing.join(self._loads(whole), together_bytes(self.machine))

    def _changes(self, operand: Operand, loads: Mapping[int, Sequence[Needs]]) -> list[list[_Change]]:
        """Wave by wave, which cores need another region of an operand than before, and where it lies already."""
        found: list[list[_Change]] = [[] for _ in range(self.waves)]
        for core, waves in self.needs.items():
            held: Region | None = None
            for wave, needs in enumerate(waves):
                region = needs.get(operand)
                if region is None or region == held:
                    continue
                held = region
                buffer = None if operand in loads[core][wave] else self._direct(core, operand, region)
                found[wave].append(_Change(core, region, buffer))
        return found

    def _loads(self, operands: Sequence[Operand]) -> list[Load]:
        """What cores need next of some operands and do not have, in the order in which it is loaded."""
        loaded = [(operand, changes) for operand, changes in self.loaded if operand in operands]
        return [
            Load(operand, region, self.graph.tensors[operand.tensor].bytes_of(region))
            for wave in range(self.waves)
            for operand, changes in loaded
            for region in dict.fromkeys(one.region for one in changes[wave] if one.buffer is None)
        ]

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
        for core in self.steps:
            self._send(core, 0)

    def _expect_operands(self) -> None:
        """Refuse to pick rows of what the kernel itself makes, and to multiply that in parts: few would find it."""
        if picks_from_itself(self.shape.operators):
            raise DoesNotFit(
                f"kernel {' + '.join(self.kernel.operators)}: picks rows of what the kernel itself makes.",
                EVERY_OPERATOR_ALONE,
            )
        anchor, made = self.shape.anchor, {name for op in self.shape.operators for name in op.outputs}
        in_parts = any(not (step.first and step.last) for steps in self.steps.values() for step in steps)
        if anchor is not None and in_parts and made & set(anchor.inputs):
            raise DoesNotFit(
                f"kernel {' + '.join(self.kernel.operators)}: {anchor.name} multiplies in parts what the kernel makes.",
                EVERY_OPERATOR_ALONE,
            )

    def _fetch(self, name: str) -> None:
        """Bring a tensor to where the kernel and others find it, piece by piece; what several cores hold, at once."""
        holders: dict[Region, list[tuple[int | None, int]]] = {}
        for source, buffer in self.around.sources[name].items():
            holders.setdefault(source.region, []).append((source.core, buffer))
        for region, held in holders.items():
            core, targets = held[0][0], tuple(buffer for _, buffer in held)
            carrier = (
                self._carrier(EngineKind.DMA_IN, self.kernel.cores[0]) if core is None else (EngineKind.MOVER, core)
            )
            for slab in slabs(self.graph.tensors[name], region, least_bytes=self.places.slab_bytes):
                self._copy(self.graph.tensors[name], slab, self.ddr[name], targets, *carrier)

    def _load(self, wave: int) -> None:
        for operand, changes in self.loaded:
            wanted: dict[Region, list[int]] = {}
            for core, region, buffer in changes[wave]:
                if buffer is not None:
                    self.held[core, operand] = region, buffer
                else:
                    wanted.setdefault(region, []).append(core)
            for ordinal, (region, cores) in enumerate(wanted.items()):
                self._load_region(operand, region, cores, cores[(wave + ordinal) % len(cores)])
        if self.sums is not None:
            for core, needs in self.needs.items():
                self._load_late(core, needs, wave)

    def _load_late(self, core: int, needs: Sequence[Needs], wave: int) -> None:
        """A share of what only the last part of a tile's reduction needs, which comes between all of its parts.

        So it has one place: while the first part comes, the tile before may still use it. Where results of that tile
        take the place, they leave during the first half of the parts, and it comes during the second.
        """
        part, coming = wave % self.parts, self.coming[core]
        if part < self.late or wave >= len(needs):
            return
        for operand, region in needs[wave - part + self.parts - 1].items() if part == self.late else ():
            held = self.held.get((core, operand))
            if operand.from_the_start or (held is not None and held[0] == region):
                continue
            target = self._direct(core, operand, region)
            if target is None:
                tensor, slots = self.graph.tensors[operand.tensor], self.places.operands[core, operand]
                target = self.builder.buffer(slots.space, slots.next(), tensor.bytes_of(region), tensor.name, region)
                cut = slabs(tensor, region, self.parts - self.late, SPREAD_BYTES)
                coming.extend(_Slab(operand.tensor, target, slab, operand) for slab in cut)
            self.held[core, operand] = region, target
        for _ in range(ceil_div(len(coming), self.parts - part)):
            slab = coming.popleft()
            assert slab.operand is not None, "it comes for a core"
            for piece, at in self._covered(slab.tensor, slab.region):
                self._load_part(slab.operand, piece, self.ddr.get(slab.tensor, -1), at, (slab.buffer,), core)

    def _send(self, core: int, waves: int) -> None:
        """Store a share of what leaves a core, so that all of it is gone after as many more waves."""
        leaving = self.leaving[core]
        for _ in range(ceil_div(len(leaving), waves + 1)):
            slab = leaving.popleft()
            self._store(core, slab.tensor, slab.buffer, slab.region)

    def _direct(self, core: int, operand: Operand, region: Region) -> int | None:
        """The buffer in which a core's units find `region` already, if there is one."""
        if operand not in self.near:
            return None
        key = core, operand, region
        if key not in self._found_near:
            source = self.sources[operand.tensor].read_directly(self.shape, operand, region, core)
            self._found_near[key] = None if source is None else self.around.sources[operand.tensor][source]
        return self._found_near[key]

    def _load_region(self, operand: Operand, region: Region, cores: list[int], mover: int) -> None:
        """Bring one region to every core that needs it; a region that several need is broadcast."""
        tensor = self.graph.tensors[operand.tensor]
        source = self.ddr.get(operand.tensor, -1)  # a tensor that lies on chip as a whole has no place in DDR
        if operand.tensor in self.places.resident:
            buffer, missing = self.places.resident[operand.tensor]
            for slab in [slab for slab in missing if slab.overlaps(region)]:
                missing.remove(slab)
                self._copy(tensor, slab, source, (buffer,), *self._carrier(EngineKind.DMA_IN, mover))
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
            slots, brought = self.places.staging[operand], self.passing.brought(operand, part)
            staged = self.passing.staged(operand, brought)
            if staged is None:
                size_bytes = tensor.bytes_of(brought)
                slots = slots.holding(size_bytes) if isinstance(slots, PassingSlots) else slots
                staged = self.builder.buffer(slots.space, slots.next(), size_bytes, tensor.name, brought)
                self._copy(tensor, brought, source, (staged,), EngineKind.DMA_IN, None)
                if isinstance(slots, PassingSlots):
                    self.passing.passes(operand, brought, staged, slots.size_bytes)
            source = staged
        if operand.level is Level.GB:
            self._copy(tensor, part, source, targets, EngineKind.DMA_IN, None)
        else:
            self._copy(tensor, part, source, targets, EngineKind.MOVER, mover)

    def _carrier(self, dma: EngineKind, core: int) -> tuple[EngineKind, int | None]:
        """What carries a transfer between DDR and GB: a DMA engine of the cluster or, without these, a core."""
        return (dma, None) if self.machine.has_dma else (EngineKind.MOVER, core)

    def _compute(self, wave: int, held: dict[tuple[int, Operand], tuple[Region, int]]) -> None:
        """The wave's arithmetic on every core, and the stores of the tiles that it finishes."""
        for core, steps in self.steps.items():
            if wave >= len(steps):
                continue
            step = steps[wave]
            inner: dict[str, int] = {}
            for op in self.shape.operators:
                if op is self.shape.anchor or step.last:
                    self._compute_operator(op, core, wave, held, inner)
            if step.last:
                for tensor in self.shape.results:
                    for region in self._own(core, tensor, step.made[tensor]):
                        if self.sums is None:
                            self._store(core, tensor, inner[tensor], region)
                        else:
                            most = self.parts if self.places.overlay is None else self.late
                            cut = slabs(self.graph.tensors[tensor], region, most, SPREAD_BYTES)
                            self.leaving[core].extend(_Slab(tensor, inner[tensor], slab) for slab in cut)
            if self.sums is not None:  # all is gone when something of the next tile needs the place
                needed = self.parts if self.places.overlay is None else self.late
                self._send(core, (needed - 2 - wave) % self.parts)

    def _compute_operator(
        self,
        op: Operator,
        core: int,
        wave: int,
        held: dict[tuple[int, Operand], tuple[Region, int]],
        inner: dict[str, int],
    ) -> None:
        step = self.steps[core][wave]
        matrix = op.name in self.shape.matrix
        anchored = op is self.shape.anchor
        box, regions = (step.part, step.part_reads) if anchored else (step.boxes[op.name], step.reads[op.name])
        finishes = step.last or not anchored
        operands: list[tuple[int, Region, Mode]] = []
        read_from, mode = self.read_from[op.name], Mode.READ
        for number, read in enumerate(op.reads):
            if number > 1 and matrix and not finishes:
                continue  # the bias joins at the end
            region = regions[number]
            if read.indirect_axis is not None:
                operands.append((self._picked_from(read.tensor, region), region, mode))
                continue
            operand = read_from[number]
            buffer = inner[read.tensor] if operand is None else held[core, operand][1]
            operands.append((buffer, region, mode))
        if matrix and self._adds_up(core, step, anchored=anchored):
            operands.append(self._accumulator(op, core, step, first=step.first or not anchored))
        if finishes:
            for write, region in zip(op.writes, step.writes[op.name], strict=True):
                if write.tensor not in inner:
                    inner[write.tensor] = self._make(op, core, write.tensor, step, inner, held)
                operands.append((inner[write.tensor], region, Mode.WRITE))
        if op.kind == "gather":
            self._gather(op, core, box, tuple(operands))
            return
        flags = 0
        if matrix:
            flags = Flag.MATRIX
            flags |= Flag.FIRST if step.first or not anchored else 0
            flags |= Flag.LAST if finishes else 0
        if anchored and self.product_cycles:
            cycles = self.product_cycles[core][wave]
        else:
            extents = box.extents
            found = self.cycles.get((op.name, extents))
            if found is None:
                found = self.cycles[op.name, extents] = self._tile_cycles(op, extents)
            cycles = found
        self.builder.emit(
            Kind.COMPUTE,
            self.engines[core, matrix],
            tuple(operands),
            cycles=self.machine.setup.compute_cycles + cycles,
            work=Iterations(op.name, box),
            flags=int(flags),
        )

    def _adds_up(self, core: int, step: Step, *, anchored: bool) -> bool:
        """Whether sums of a product lie in a memory of their own, or are kept between parts of its reduction.

        On the units of a tree the mapping of a tile adds up what is not in parts.
        """
        if anchored and self.sums is not None:
            return True
        in_parts = anchored and not (step.first and step.last)
        return self.cluster.has(Level.ACCUMULATORS, core) and (in_parts or self.shape.core.inside is None)

    def _tile_cycles(self, op: Operator, extents: tuple[int, ...]) -> int:
        if self.kernel.mapping is None:
            return self.shape.cycles(op, extents)
        return cycles_behind(self.shape, op, extents, self.kernel.mapping)

    def _operand_of(self, op: Operator, number: int) -> Operand | None:
        """What a core holds for one of an operator's reads; None where the kernel makes it, or the rows are picked."""
        read = op.reads[number]
        if read.indirect_axis is not None or any(read.tensor in other.outputs for other in self.shape.operators):
            return None
        second = op.name in self.shape.matrix and number == 1 and Level.WEIGHTS in self.shape.core.levels
        level = Level.WEIGHTS if second and self.machine.memory(Level.WEIGHTS) is not None else self.shape.home
        same = (o for o in self.shape.operands if o.tensor == read.tensor and o.level is level)
        return next(o for o in same if o.is_read_by(op))

    def _make(
        self,
        op: Operator,
        core: int,
        name: str,
        step: Step,
        inner: dict[str, int],
        held: dict[tuple[int, Operand], tuple[Region, int]],
    ) -> int:
        """A buffer for what a tile makes of a tensor: its next slot, or the place of an operand that ends here."""
        kept = self.around.results.get(name)
        if kept is not None and self.around.made[name].level is self.shape.home:
            return kept[core if self.shape.home is Level.LB else None]
        region = step.made[name]
        slots, size = self.places.inner[core, name], self.graph.tensors[name].bytes_of(region)
        reused = self._reused(op, core, inner, held)
        address = slots.next() if reused is None else self.builder.address_of[reused - self.builder.given]
        return self.builder.buffer(slots.space, address, size, name, region)

    def _reused(
        self, op: Operator, core: int, inner: dict[str, int], held: dict[tuple[int, Operand], tuple[Region, int]]
    ) -> int | None:
        """The buffer in whose place an operator's result comes, if any: what lies there has had its last reader."""
        overlay, tensor = self.places.overlay, self.shape.in_place.get(op.name)
        if overlay is not None and op is self.shape.anchor:
            return self.partial[core]
        if overlay is not None and op.name == overlay.operator:
            return held[core, overlay.operand][1]
        return None if tensor is None else inner[tensor]

    def _accumulator(self, op: Operator, core: int, step: Step, *, first: bool) -> tuple[int, Region, Mode]:
        """The partial sums of the tile: a new buffer for its first part, the same one for the others."""
        region, name = step.writes[op.name][0], op.writes[0].tensor  # which no part of the reduction changes
        if first:
            if self.sums is None:
                space, address = self.cluster.space(Level.ACCUMULATORS, core), Address(Base.SUMS)
            else:
                slots, name = self.places.sums[core], self.sums
                space, address = slots.space, slots.next()
            self.partial[core] = self.builder.buffer(space, address, SUM_BYTES * region.size, name, region)
        return self.partial[core], region, Mode.ACCUMULATE

    def _gather(self, op: Operator, core: int, box: Region, operands: tuple[tuple[int, Region, Mode], ...]) -> None:
        """Fetch the rows that the indices name, straight from where they lie."""
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
            passage=Passage(size, self.copying.path(operands[0][0], (operands[-1][0],)), row_bytes),
        )

    def _picked_from(self, name: str, region: Region) -> int:
        """The buffer in GB that has all of what rows are picked from, or that in DDR."""
        held = self.around.sources.get(name, {})
        found = (buffer for one, buffer in held.items() if one.level is Level.GB and one.region.contains(region))
        buffer = next(found, None)
        return self.ddr[name] if buffer is None else buffer

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
                carrier = self._carrier(EngineKind.DMA_OUT, core)
                self._copy(tensor, region, kept[None], (self.ddr[name],), *carrier)
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

"""Kernels to be, in order, and what follows from their order: what each reads and makes, and who needs it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilestitch.hardware.accelerator import Level
from tilestitch.ir.graph import Graph, Operator
from tilestitch.ir.per_graph import once_per_graph
from tilestitch.ir.region import Region
from tilestitch.ir.tile_rule import BY_ESTIMATE, Once, TileRule
from tilestitch.ir.tiles import cuts_of, operator_boxes
from tilestitch.ir.transfers import SLAB_BYTES
from tilestitch.kernels.surroundings import CoreMap, Source, cover


@dataclass(frozen=True, slots=True)
class Task:
    """A kernel to be: operators, the part of the sink's iterations that it covers, and whether it is launched."""

    operators: tuple[str, ...]
    box: Region | None = None
    launches: bool = True
    scope: Level = Level.LB  # where its results may stay at best: not in LB where another instance runs in between
    core_map: CoreMap | None = None
    piece: int | None = None  # number of the instance that it belongs to
    splits: tuple[int, ...] = ()  # over how many cores each dim of the sink is divided; none: to be decided
    block: int | None = None  # fused block that it belongs to, out of which nothing stays on chip
    strips: tuple[tuple[int, Region], ...] = ()  # cores with what each computes, where that is given
    tiles: TileRule = BY_ESTIMATE
    once: Once = Once.NONE
    picks: bool = False  # whether rows may be picked of its results in GB


@dataclass(slots=True)
class Facts:
    """What follows from a task and its place in the order."""

    operators: tuple[Operator, ...]
    box: Region
    reads: dict[str, Region]  # what others make, and the hull of what is needed of it
    writes: dict[str, Region]
    kept: tuple[str, ...]  # results that may stay on chip
    picked: bool  # whether rows are picked of some of these, which then stay in GB at best
    leaving: frozenset[str]  # those of a block that go to DDR in any case
    shared: dict[str, tuple[tuple[int, Region], ...]]  # operands that others of its block read too: what cores need
    brought: dict[str, Region]  # constants and inputs that it brings for itself and others
    readers: dict[str, list[int]]  # of each result, and of what it brings, in order


class KernelBoxes:
    """What kernels of a graph compute, and need of others, for boxes of their last operators: each found once."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._iterations: dict[tuple[tuple[str, ...], Region], Mapping[str, Region]] = {}
        self._reads: dict[tuple[tuple[str, ...], Region], Mapping[str, Region]] = {}
        self._inputs: dict[tuple[tuple[str, ...], Region], Mapping[str, Region]] = {}
        self._results: dict[tuple[tuple[str, ...], Region], Mapping[str, Region]] = {}
        self._given: dict[tuple[tuple[str, ...], Region], Sequence[tuple[str, Region]]] = {}
        self._steps: dict[tuple[str, ...], tuple[int, ...]] = {}

    def iterations(self, kernel: Sequence[Operator], box: Region) -> Mapping[str, Region]:
        """See `operator_boxes`."""
        key = tuple(op.name for op in kernel), box
        if key not in self._iterations:
            self._iterations[key] = operator_boxes(self.graph, kernel, box)
        return self._iterations[key]

    def reads(self, kernel: Sequence[Operator], box: Region) -> Mapping[str, Region]:
        """What a kernel needs of tensors that others make."""
        key = tuple(op.name for op in kernel), box
        if key not in self._reads:
            boxes, inside = self.iterations(kernel, box), set(key[0])
            found: dict[str, Region] = {}
            for op in kernel:
                for read in op.reads:
                    if any(maker.name not in inside for maker in self.graph.producers.get(read.tensor, ())):
                        region = self.graph.read_region(read, boxes[op.name])
                        found[read.tensor] = region.hull(found[read.tensor]) if read.tensor in found else region
            self._reads[key] = found
        return self._reads[key]

    def inputs(self, kernel: Sequence[Operator], box: Region) -> Mapping[str, Region]:
        """What a kernel needs of tensors that it or others make."""
        key = tuple(op.name for op in kernel), box
        if key not in self._inputs:
            boxes, found = self.iterations(kernel, box), dict[str, Region]()
            for op in kernel:
                for read in op.reads:
                    if read.tensor in self.graph.producers:
                        region = self.graph.read_region(read, boxes[op.name])
                        found[read.tensor] = region.hull(found[read.tensor]) if read.tensor in found else region
            self._inputs[key] = found
        return self._inputs[key]

    def given(self, kernel: Sequence[Operator], box: Region) -> Sequence[tuple[str, Region]]:
        """What each of its accesses needs of tensors that nobody makes."""
        key = tuple(op.name for op in kernel), box
        if key not in self._given:
            boxes = self.iterations(kernel, box)
            self._given[key] = [
                (read.tensor, self.graph.read_region(read, boxes[op.name]))
                for op in kernel
                for read in op.reads
                if read.tensor not in self.graph.producers
            ]
        return self._given[key]

    def results(self, kernel: Sequence[Operator], box: Region) -> Mapping[str, Region]:
        """What it makes of tensors that others read, or that leave the network."""
        key = tuple(op.name for op in kernel), box
        if key not in self._results:
            boxes, inside, found = self.iterations(kernel, box), set(key[0]), dict[str, Region]()
            for op in kernel:
                for write in op.writes:
                    readers = self.graph.consumers.get(write.tensor, ())
                    if write.tensor in self.graph.outputs or any(reader.name not in inside for reader in readers):
                        region = write.hull(boxes[op.name])
                        found[write.tensor] = region.hull(found[write.tensor]) if write.tensor in found else region
            self._results[key] = found
        return self._results[key]

    def steps(self, kernel: Sequence[Operator]) -> tuple[int, ...]:
        """At whose multiples its last operator may be cut."""
        key = tuple(op.name for op in kernel)
        if key not in self._steps:
            self._steps[key] = cuts_of(self.graph, kernel).steps
        return self._steps[key]


def facts_of(graph: Graph, tasks: Sequence[Task], known: KernelBoxes | None = None) -> list[Facts]:
    """What every task reads and writes, and who reads what it makes."""
    known = KernelBoxes(graph) if known is None else known
    indirect = {read.tensor for op in graph.operators for read in op.reads if read.indirect_axis is not None}
    pieces: dict[str, list[Source]] = {}  # of a tensor, the latest first; the number of its task stands for the core
    apart: set[str] = set()  # of those that rows are picked of, those of which no task has all that one picks from
    found: list[Facts] = []
    for number, task in enumerate(tasks):
        operators = tuple(graph.by_name[name] for name in task.operators)
        box = operators[-1].whole if task.box is None else task.box
        reads, writes = dict(known.inputs(operators, box)), dict(known.results(operators, box))
        for tensor, region in reads.items():
            used = {one.core for _, one in cover(region, pieces.get(tensor, ())) if one is not None}
            if len(used) > 1:
                apart.add(tensor)
            for maker in used:
                assert maker is not None
                if tasks[maker].block == task.block:
                    found[maker].readers.setdefault(tensor, []).append(number)
        found.append(Facts(operators, box, reads, writes, (), False, frozenset(), {}, {}, {}))
        for tensor, region in writes.items():
            pieces.setdefault(tensor, []).insert(0, Source(region, Level.DDR, number))
    _share(graph, tasks, found, indirect)
    _bring(graph, tasks, found, indirect, known)
    block_of = {name: task.block for task in tasks for name in task.operators}
    for task, facts in zip(tasks, found, strict=True):
        if task.block is not None:
            facts.leaving = frozenset(
                tensor
                for tensor in facts.writes
                if tensor in graph.outputs
                or any(block_of[reader.name] != task.block for reader in graph.consumers.get(tensor, ()))
            )
        facts.kept = tuple(
            tensor
            for tensor in facts.writes
            if (tensor not in graph.outputs or tensor in facts.leaving)
            and (tensor not in indirect or (task.picks and tensor not in apart))
            and tensor in facts.readers
        )
        facts.picked = any(tensor in indirect for tensor in facts.kept)
    return found


def _share(graph: Graph, tasks: Sequence[Task], found: Sequence[Facts], indirect: set[str]) -> None:
    """What several tasks of a block read of others' results and of inputs: the first of them brings it for all."""
    readers: dict[tuple[int, str], list[int]] = {}
    made = {(task.block, tensor) for task, facts in zip(tasks, found, strict=True) for tensor in facts.writes}
    for number, (task, facts) in enumerate(zip(tasks, found, strict=True)):
        if task.block is None:
            continue
        read = dict.fromkeys(name for op in facts.operators for name in op.inputs)
        outside = [name for name in read if name not in graph.constants and (task.block, name) not in made]
        for name in (name for name in outside if name not in indirect):
            readers.setdefault((task.block, name), []).append(number)
    for (_, name), tasks_of in readers.items():
        if len(tasks_of) < 2:
            continue
        needs: dict[int, Region] = {}
        for number in tasks_of:
            operators = found[number].operators
            for core, strip in tasks[number].strips:
                boxes = operator_boxes(graph, operators, strip)
                for op in operators:
                    for read in (read for read in op.reads if read.tensor == name):
                        region = graph.read_region(read, boxes[op.name])
                        needs[core] = region.hull(needs[core]) if core in needs else region
                        whole = found[number].reads.get(name, region)
                        found[number].reads[name] = region.hull(whole)
        first = found[tasks_of[0]]
        first.shared[name] = tuple(sorted(needs.items()))
        first.readers[name] = tasks_of


def is_small_table(graph: Graph, table: str) -> bool:
    """Whether the rows that all operators pick of a tensor take at least as many bytes as the whole of it."""
    rows = sum(
        graph.tensors[op.writes[0].tensor].size_bytes
        for op in graph.consumers.get(table, ())
        if any(read.tensor == table and read.indirect_axis is not None for read in op.reads)
    )
    return rows >= graph.tensors[table].size_bytes


@once_per_graph
def packs_of(graph: Graph) -> frozenset[str]:
    """Small constants of which operators read several parts each, as of those that `passes.packed` packs together."""
    parts: dict[str, set[Region]] = {}
    for op in graph.operators:
        for read in op.reads:
            if read.tensor in graph.constants and read.indirect_axis is None:
                parts.setdefault(read.tensor, set()).add(read.hull(op.whole))
    vectors = (name for name, found in parts.items() if len(found) > 1 and len(graph.tensors[name].shape) == 1)
    return frozenset(name for name in vectors if graph.tensors[name].size_bytes <= SLAB_BYTES)


def _bring(graph: Graph, tasks: Sequence[Task], found: Sequence[Facts], indirect: set[str], known: KernelBoxes) -> None:
    """What tasks read of constants and inputs that are to come once: the first of them brings it for the others.

    What rows are picked from comes where they may be picked of GB, and it is no more than these rows. Packs come once
    in any case.
    """
    first: dict[str, Facts] = {}
    outside, packs = {*graph.constants, *graph.inputs}, packs_of(graph)
    for number, (task, facts) in enumerate(zip(tasks, found, strict=True)):
        asked = task.once in (Once.SMALL, Once.ALL)
        if task.block is not None or not (asked or packs):
            continue
        for name, region in known.given(facts.operators, facts.box):
            if name not in outside or not (asked or name in packs):
                continue
            if name in indirect and not (task.picks and is_small_table(graph, name)):
                continue
            if task.once is Once.SMALL and graph.tensors[name].size_bytes > SLAB_BYTES:
                continue
            facts.reads[name] = region.hull(facts.reads[name]) if name in facts.reads else region
            brings = first.setdefault(name, facts)
            brings.brought[name] = region.hull(brings.brought[name]) if name in brings.brought else region
            readers = brings.readers.setdefault(name, [])
            if number not in readers:
                readers.append(number)

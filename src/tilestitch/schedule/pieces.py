"""The kernels of instances: each instance's operators in kernels, each with the iterations that the instance needs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from tilestitch.base.units import ceil_div
from tilestitch.hardware.accelerator import Level
from tilestitch.ir.by_hand import HandItem
from tilestitch.ir.graph import Graph, Operator
from tilestitch.ir.instance import InstanceGraph
from tilestitch.ir.region import Region
from tilestitch.ir.schedule import PieceRun
from tilestitch.ir.tile_rule import KernelRule, Once
from tilestitch.ir.tiles import box_for_needs, kernels_of
from tilestitch.kernels.instances import PieceNeeds
from tilestitch.kernels.surroundings import CoreMap, Source, cover
from tilestitch.schedule.binding import Work, bind, pieces_of
from tilestitch.schedule.by_hand import core_map, scope_of
from tilestitch.schedule.orders import parked
from tilestitch.schedule.tasks import KernelBoxes, Task


def tasks_of_instances(
    graph: Graph,
    kernels: Sequence[tuple[str, ...]],
    instances: InstanceGraph,
    order: Sequence[int],
    *,
    stitched: bool,
    items: Mapping[int, HandItem] = MappingProxyType({}),
    cores: int = 0,
    known: "PieceTasks | None" = None,
) -> list[Task] | None:
    """The kernels of the instances in their order; None where pieces cannot be cut where they would have to be.

    `kernels` hold operators that may run together, in running order; an instance runs those of its own operators.
    The results of an instance that is parked stay in GB from the start. `stitched`: one launch starts
    all of them. `items` say otherwise for some instances, on a cluster of so many `cores`. What is `known` of the graph
    is used and added to.
    """
    scopes = dict.fromkeys(parked(instances, order), Level.GB)
    scopes.update({number: scope for number, item in items.items() if (scope := scope_of(item)) is not None})
    known = PieceTasks(graph) if known is None else known
    maps = {number: core_map(item, cores) for number, item in items.items()}
    kernels = tuple(kernels)
    tasks: list[Task] = []
    for number in order:
        instance = instances.instances[number]
        own = known.of(kernels, instance.operators, instance.writes, scopes.get(number, Level.LB))
        tasks += [
            known.of_piece(task, number, maps.get(number), launches=not stitched or len(tasks) + place == 0)
            for place, task in enumerate(own)
        ]
    return tasks if known.in_order(tasks) else None


def piece_runs(instances: InstanceGraph, order: Sequence[int], tasks: Sequence[Task]) -> tuple[PieceRun, ...]:
    """The instances in the order in which they run, with the numbers of their tasks."""
    numbers: dict[int, list[int]] = {}
    for at, task in enumerate(tasks):
        if task.piece is not None:
            numbers.setdefault(task.piece, []).append(at)
    ran = [number for number in order if number in numbers]
    place = {number: at for at, number in enumerate(ran)}
    first_of = {}
    for instance in reversed(instances.instances):
        first_of[instance.group] = instance.number
    waiting = set(parked(instances, order))
    return tuple(
        PieceRun(
            instances.instances[number].group,
            number - first_of[instances.instances[number].group],
            numbers[number][0],
            numbers[number][-1],
            tuple(instances.instances[number].writes.items()),
            tuple(sorted(place[one] for one in instances.producers[number] if one in place)),
            number in waiting,
        )
        for number in ran
    )


def bound(graph: Graph, tasks: Sequence[Task], cores: int) -> list[Task]:
    """The tasks with their kernels divided among so many cores as Algorithm 4 says, where nothing else is asked.

    Results stay where they were to stay. Only one result of each task is looked at.
    """
    works, boxes = [], KernelBoxes(graph)
    for task in tasks:
        kernel = [graph.by_name[name] for name in task.operators]
        sink = kernel[-1]
        box = sink.whole if task.box is None else task.box
        (write, *_) = sink.writes
        works.append(Work(task.operators, write.tensor, write.hull(box), boxes.reads(kernel, box)))
    found = []
    for task, work, one in zip(tasks, works, bind(pieces_of(graph, works), cores), strict=True):
        sink = graph.by_name[task.operators[-1]]
        splits = [1] * len(sink.dims)
        for axis, factor in zip(graph.tensors[work.result].layout, one.factors, strict=True):
            if factor > 1:
                splits[sink.writes[0].axes[axis].terms[0][0]] *= factor
        decided = task.core_map is not None or task.splits
        found.append(task if decided else replace(task, splits=tuple(splits)))
    return found


def with_whole_kernels(
    graph: Graph, groups: Sequence[tuple[str, ...]], kernels: Sequence[tuple[str, ...]]
) -> list[tuple[str, ...]]:
    """The groups with every kernel moved as a whole to the group in which it begins, where that group has any left.

    A sub-graph that ends with an addition takes the ReLU behind it, which costs nothing there.
    """
    group_of = {name: number for number, group in enumerate(groups) for name in group}
    moved = dict(group_of)
    for kernel in kernels:
        begin = min(group_of[name] for name in kernel)
        moved.update(dict.fromkeys(kernel, begin))
    found: list[list[str]] = [[] for _ in groups]
    for op in graph.operators:
        found[moved[op.name]].append(op.name)
    return [tuple(members) for members in found] if all(found) else [tuple(group) for group in groups]


class KernelIndex:
    """The kernels of a network, to be asked what sub-graphs have of them."""

    def __init__(self, graph: Graph, kernels: Sequence[tuple[str, ...]]) -> None:
        self.graph, self.kernels = graph, kernels
        self.numbers: dict[str, list[int]] = {}  # operator -> kernels that have it
        for number, kernel in enumerate(kernels):
            for name in kernel:
                self.numbers.setdefault(name, []).append(number)

    def within(self, operators: Sequence[str]) -> list[tuple[Operator, ...]]:
        """What some operators have of each kernel, cut into kernels with one end each, in running order."""
        inside = set(operators)
        found = []
        for number in sorted({number for name in operators for number in self.numbers.get(name, ())}):
            own = [self.graph.by_name[name] for name in self.kernels[number] if name in inside]
            found += kernels_of(self.graph, own)
        return sorted(found, key=lambda kernel: self.graph.position[kernel[-1].name])


class PieceTasks:
    """The tasks of pieces of one graph's operators, each found once."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.boxes, self.needs = graph, KernelBoxes(graph), PieceNeeds(graph)
        self._indices: dict[tuple[tuple[str, ...], ...], KernelIndex] = {}
        self._kernels: dict[tuple, list[tuple[Operator, ...]]] = {}
        self._tasks: dict[tuple, list[Task]] = {}
        self._in_order: dict[tuple, bool] = {}
        self._changed: dict[tuple, Task] = {}  # by the identity of a task that is kept here, and what it becomes

    def of(
        self,
        kernels: tuple[tuple[str, ...], ...],
        operators: tuple[str, ...],
        writes: Mapping[str, Region],
        scope: Level,
    ) -> list[Task]:
        """What some operators have of the kernels, in a piece that makes parts of their results: see `tasks_for`."""
        group = kernels, operators
        if group not in self._kernels:
            if kernels not in self._indices:
                self._indices[kernels] = KernelIndex(self.graph, kernels)
            self._kernels[group] = self._indices[kernels].within(operators)
        own = self._kernels[group]
        key = tuple(tuple(op.name for op in kernel) for kernel in own), tuple(writes.items()), scope
        if key not in self._tasks:
            self._tasks[key] = tasks_for(self.boxes, own, writes, scope)
        return self._tasks[key]

    def of_piece(self, task: Task, piece: int, core_map: CoreMap | None, *, launches: bool) -> Task:
        """A task that `of` gave, in a piece."""
        key = id(task), piece, core_map, launches
        if key not in self._changed:
            self._changed[key] = replace(task, launches=launches, core_map=core_map, piece=piece)
        return self._changed[key]

    def with_rule(self, task: Task, rule: KernelRule, scope: Level, *, picks: bool) -> Task:
        """A task that `of_piece` gave, with what a schedule asks of its kernel."""
        key = id(task), rule.tiles, rule.once, rule.splits, scope, picks
        if key not in self._changed:
            tiles = replace(rule.tiles, whole=True) if rule.once is Once.KERNEL else rule.tiles
            self._changed[key] = replace(
                task, tiles=tiles, scope=scope, once=rule.once, picks=picks, splits=rule.splits
            )
        return self._changed[key]

    def in_order(self, tasks: Sequence[Task]) -> bool:
        """See the function of this name."""
        key = tuple((task.operators, task.box) for task in tasks)
        if key not in self._in_order:
            self._in_order[key] = in_order(self.boxes, tasks)
        return self._in_order[key]


def tasks_for(
    boxes: KernelBoxes, kernels: Sequence[tuple[Operator, ...]], writes: Mapping[str, Region], scope: Level = Level.LB
) -> list[Task]:
    """Each kernel with the iterations of its end that parts of some results need, those stay at `scope` at best."""
    needed: dict[str, Region] = dict(writes)
    found: list[Task] = []
    for kernel in reversed(kernels):
        sink = kernel[-1]
        box = box_for_needs(sink, needed)
        if box is None:
            continue  # nobody needs any of it in this piece
        box = _whole_steps(sink, box, boxes.steps(kernel))
        for name, region in boxes.reads(kernel, box).items():
            needed[name] = region.hull(needed[name]) if name in needed else region
        leaves = any(name in writes for name in sink.outputs)
        found.append(Task(tuple(op.name for op in kernel), box, scope=scope if leaves else Level.LB))
    return found[::-1]


def _whole_steps(sink: Operator, box: Region, steps: Sequence[int]) -> Region:
    """`box` widened so that it begins and ends where tiles may."""
    start = tuple(a // step * step for a, step in zip(box.start, steps, strict=True))
    stop = tuple(
        min(dim.extent, ceil_div(b, step) * step) for b, step, dim in zip(box.stop, steps, sink.dims, strict=True)
    )
    return Region(start, stop)


def in_order(known: KernelBoxes, tasks: Sequence[Task]) -> bool:
    """Whether everything that a task reads is made before it, and every output as a whole."""
    graph = known.graph
    made: dict[str, list[Source]] = {}
    for task in tasks:
        kernel = [graph.by_name[name] for name in task.operators]
        assert task.box is not None
        for tensor, region in known.reads(kernel, task.box).items():
            own = [write.hull(op.whole) for op in kernel for write in op.writes if write.tensor == tensor]
            before = [*made.get(tensor, ()), *(Source(part, Level.DDR, None) for part in own)]
            if any(source is None for _, source in cover(region, before)):
                return False
        boxes = known.iterations(kernel, task.box)
        for op in kernel:
            for write in op.writes:
                made.setdefault(write.tensor, []).append(Source(write.hull(boxes[op.name]), Level.DDR, None))
    return all(
        source is not None
        for name in graph.outputs
        if name in graph.producers
        for _, source in cover(Region.whole(graph.tensors[name].shape), made.get(name, ()))
    )

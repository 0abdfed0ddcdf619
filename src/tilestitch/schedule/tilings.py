"""Tilings of tasks, each searched once: tasks that differ only in names and in where their boxes begin are one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilestitch.base.errors import DoesNotFit
from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.ir.graph import Graph
from tilestitch.ir.region import Region
from tilestitch.ir.schedule import Kernel
from tilestitch.kernels.surroundings import Room, Surroundings
from tilestitch.schedule.pieces import PieceTasks
from tilestitch.schedule.splits import CoreOrders
from tilestitch.schedule.steps import Steps
from tilestitch.schedule.tasks import Facts, Task
from tilestitch.schedule.tiling import Rooms, Shapes, tile_in_rooms, tile_kernel

_Tiled = tuple[Kernel, tuple[int, ...], int | None]  # with the places of its resident tensors and its anchor
# What tells kernels with one tiling apart: name, operators, box, whether it is launched, and the strips of cores.
_Apart = tuple[str, tuple[str, ...], Region | None, bool, tuple[tuple[int, Region], ...]]


@dataclass(slots=True)
class _Made:
    """How many searches were made, for all that know of one another."""

    searches: int = 0


class Tilings:
    """What was found for the tasks of a graph so far."""

    def __init__(self, graph: Graph, machine: Accelerator, like: "Tilings | None" = None) -> None:
        """`like` are those of another graph on the same machine: what either finds, both know."""
        self.graph = graph
        self.shapes = Shapes(graph, machine, None if like is None else like.shapes)
        self.pieces = PieceTasks(graph)
        self.steps = Steps()
        self.signatures = self.shapes.signatures
        # By what fixes a tiling; or why nothing fits.
        self._known: dict[tuple, _Tiled | DoesNotFit] = {}
        # By the identity of a tiling that is kept among those; of this graph alone: others have other names of tensors.
        self._kernels: dict[int, dict[_Apart, Kernel]] = {}
        self._in_rooms: dict[tuple, list[tuple[Rooms, _Tiled]]] = {}  # by the same but the rooms: likewise in any such
        self._alone: dict[int, tuple[Kernel, list[str]]] = {}
        self._made = _Made()
        if like is not None:
            self._known, self._in_rooms, self._alone = like._known, like._in_rooms, like._alone
            self._made = like._made

    @property
    def searches(self) -> int:
        """How many were made so far, for this graph and all that know what it knows."""
        return self._made.searches

    def alone(self, group: tuple[str, ...], name: str) -> Kernel:
        """The kernel of some operators under that name, with nothing on chip around it."""
        operators = tuple(self.graph.by_name[one] for one in group)
        signature, names = self.signatures.of(group)
        if signature not in self._alone:
            self._alone[signature] = tile_kernel(self.shapes, operators, name), names
        like, like_names = self._alone[signature]
        renamed = dict(zip(like_names, names, strict=True))
        tiling = replace(like.tiling, resident=tuple(renamed[t] for t in like.tiling.resident))
        anchor = None if like.anchor is None else group[like.operators.index(like.anchor)]
        return replace(like, name=name, operators=group, anchor=anchor, tiling=tiling)

    def tiled(self, task: Task, facts: Facts, around: Surroundings, orders: CoreOrders, name: str) -> Kernel:
        """The kernel of a task under that name; raises `DoesNotFit`, again each time that it is asked for.

        `orders` of cores are those of the task among the sources that lie around it.
        """
        signature, names = self.signatures.of(task.operators)
        alike = signature, task.tiles, bool(around.rooms), *_key(facts, around, names)
        key = *alike, tuple(around.rooms.items())
        if key not in self._known:
            like = self._in_rooms.setdefault(alike, [])
            machine = self.shapes.machine
            found = next((tiled for rooms, tiled in like if rooms.hold(around.rooms, machine)), None)
            if found is None:
                found, rooms = self._searched(task, facts, around, orders, name)
                like += [] if rooms is None or isinstance(found, DoesNotFit) else [(rooms, found)]
            self._known[key] = found
        known = self._known[key]
        if isinstance(known, DoesNotFit):
            raise known.unraised()
        kernel, resident, anchor = known
        strips = () if kernel.streamed else task.strips
        kernels, apart = (
            self._kernels.setdefault(id(known), {}),
            (name, task.operators, task.box, task.launches, strips),
        )
        if apart not in kernels:
            kernels[apart] = replace(
                kernel,
                name=name,
                operators=task.operators,
                anchor=None if anchor is None else task.operators[anchor],
                tiling=replace(kernel.tiling, resident=tuple(names[place] for place in resident)),
                box=task.box,
                launches=task.launches,
                strips=strips,
            )
        return kernels[apart]

    def _searched(
        self, task: Task, facts: Facts, around: Surroundings, orders: CoreOrders, name: str
    ) -> tuple[_Tiled | DoesNotFit, Rooms | None]:
        """What fixes the tiling of a task, and the rooms in which it is found; or why nothing fits."""
        operators = facts.operators
        self._made.searches += 1
        try:
            kernel, rooms = tile_in_rooms(
                self.shapes, operators, name, around, launches=task.launches, orders=orders, rule=task.tiles
            )
        except DoesNotFit as error:
            return error.unraised(), None
        at = {tensor: place for place, tensor in enumerate(self.signatures.of(task.operators)[1])}
        anchor = None if kernel.anchor is None else kernel.operators.index(kernel.anchor)
        return (kernel, tuple(at[t] for t in kernel.tiling.resident), anchor), rooms


def _key(facts: Facts, around: Surroundings, names: Sequence[str]) -> tuple:
    """Equal for tasks that differ in rooms and in where their boxes begin, and need as much of every operand."""
    place = {tensor: number for number, tensor in enumerate(names)}
    needs = tuple((place[tensor], region.extents) for tensor, region in facts.reads.items() if tensor in place)
    sources = tuple(
        (
            place[tensor],
            tuple((one.region.relative_to(facts.reads[tensor]), one.level, one.core) for one in found),
        )
        for tensor, found in around.sources.items()
    )
    return (
        facts.box.extents,
        () if around.box is None else needs,
        sources,
        around.results,
        tuple(place[tensor] for tensor in around.kept),
        around.core_map,
        around.splits,
        around.strips,
        tuple(place[tensor] for tensor in facts.writes if tensor in around.stored),
        tuple((core, part.relative_to(facts.writes[around.kept[0]])) for core, part in around.instead),
        around.in_place,
    )


def halved(around: Surroundings, machine: Accelerator) -> Surroundings:
    """With half of the room for what is loaded from GB and DDR."""
    rooms = dict(around.rooms)
    weights = machine.memory(Level.WEIGHTS)
    if weights is not None:
        rooms[Level.WEIGHTS] = Room(weights.size_bytes // 2)
    if Level.GB in rooms:
        rooms[Level.GB] = Room(rooms[Level.GB].bytes // 2, rooms[Level.GB].gaps)
    return replace(around, rooms=rooms)

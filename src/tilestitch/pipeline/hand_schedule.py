"""What a strategy decided, as a schedule that somebody may go on with by hand."""

from collections.abc import Sequence
from dataclasses import dataclass

from tilestitch.base.errors import InputError, printable
from tilestitch.hardware.accelerator import Level
from tilestitch.ir.by_hand import HandGroup, HandItem, HandSchedule
from tilestitch.ir.graph import Graph
from tilestitch.ir.partition import Blocks, ByHand, SubGraphs
from tilestitch.ir.schedule import Schedule
from tilestitch.partition.groups.fuse_ops import fuse_ops
from tilestitch.pipeline.compilation import Compilation, given
from tilestitch.pipeline.strategies import strategy_named
from tilestitch.pipeline.views import compose_views, composed_graph
from tilestitch.schedule.by_hand import group_members

NAME = "hand"


@dataclass(frozen=True, slots=True)
class RunPiece:
    """One piece of a group as it runs: kernels `first` to `last` of the schedule."""

    group: int
    number: int
    first: int
    last: int

    @property
    def name(self) -> str:
        """As a schedule by hand has it, where groups have the names that `hand_schedule_of` gives."""
        return f"{group_name(self.group)}[{self.number}]"


def group_name(number: int) -> str:
    """What a group is called here."""
    return f"g{number}"


def run_pieces(schedule: Schedule) -> tuple[RunPiece, ...]:
    """The pieces in the order in which they run; where there are none, every kernel is one."""
    if schedule.pieces:
        return tuple(RunPiece(one.group, one.number, one.first, one.last) for one in schedule.pieces)
    return tuple(RunPiece(number, 0, number, number) for number in range(len(schedule.kernels)))


def hand_schedule_of(done: Compilation) -> HandSchedule:
    """The groups, pieces, order and places of a compilation that was scheduled.

    Compiled with `batch_per_cluster` as in `done.schedule.batch` it has the kernels of that compilation. Raises
    `InputError` for fused blocks, which are divided into strips that a schedule by hand cannot say.
    """
    schedule, partition, graph = given(done.schedule), given(done.partition), given(done.graph)
    where = f"{printable(schedule.graph.name)} by {printable(done.run.strategy)}"
    if isinstance(partition, Blocks):
        raise InputError(
            f"{where}: is a plan of fused blocks, whose strips a schedule by hand cannot express; use another "
            "strategy, such as graphturbo, or write a plan (tilestitch fuse -o FILE)"
        )
    if isinstance(partition, ByHand):
        simplified = given(done.simplified)
        known = composed_graph(simplified, partition.schedule.rewriting)
        if partition.kernels != compose_views(simplified, fuse_ops(simplified), done.machine, known).kernels:
            raise InputError(
                f"{where}: runs other operators together than TVM's FuseOps would, which a schedule by hand cannot "
                "express; keep it in a file (tilestitch compile --stop-after schedule --json FILE)"
            )
        return partition.schedule
    pieces = run_pieces(schedule)
    members = _members(schedule, pieces)
    cuts = [(0, 1)] * len(members)
    if isinstance(partition, SubGraphs) and schedule.pieces:
        cuts = [(one.axis, one.pieces) for one in partition.sub_graphs]
    ends = [until(graph, names) for names in members]
    found = HandSchedule(
        NAME,
        tuple(
            HandGroup(group_name(number), () if number == len(members) - 1 else ends[number], *cuts[number])
            for number in range(len(members))
        ),
        tuple(HandItem(piece.name, _scope(done)) for piece in pieces),
        strategy_named(done.way.strategy).stitched,
    )
    if [set(names) for names in group_members(graph, found)] != [set(names) for names in members]:
        raise InputError(
            f"{where}: runs its groups in an order that a schedule by hand cannot express; use another strategy"
        )
    return found


def until(graph: Graph, members: Sequence[str]) -> tuple[str, ...]:
    """The operators of a group that no other of the group reads: all others are needed by them."""
    inside = set(members)
    return tuple(
        name
        for name in members
        if all(reader.name not in inside or reader.name == name for reader in graph.readers[name])
    )


def _members(schedule: Schedule, pieces: Sequence[RunPiece]) -> list[tuple[str, ...]]:
    """The operators of each group, in the order of the network."""
    found: list[set[str]] = [set() for _ in range(1 + max(piece.group for piece in pieces))]
    for piece in pieces:
        for kernel in schedule.kernels[piece.first : piece.last + 1]:
            found[piece.group].update(kernel.operators)
    return [tuple(op.name for op in schedule.graph.operators if op.name in names) for names in found]


def _scope(done: Compilation) -> Level | None:
    """Where results may stay at best; None where the order of the pieces decides, as in a schedule by hand."""
    if given(done.schedule).pieces:
        return None
    return next(iter(strategy_named(done.way.strategy).levels), Level.DDR)

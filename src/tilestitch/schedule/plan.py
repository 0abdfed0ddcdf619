"""From groups of operators to a schedule: one kernel a group, in order, kernel after kernel."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from tilestitch.base.errors import InputError, printable
from tilestitch.hardware.accelerator import Accelerator, Level, Sharing
from tilestitch.ir.by_hand import HandSchedule
from tilestitch.ir.graph import Graph, Operator
from tilestitch.ir.partition import FusedBlock
from tilestitch.ir.schedule import BlockRun, Home, Kernel, PieceRun, Schedule
from tilestitch.ir.tiles import kernels_of
from tilestitch.kernels.instances import split_into_instances
from tilestitch.kernels.shape import kernel_signature, local_names
from tilestitch.ops.work import can_run, on_matrix_unit, operand_dtype
from tilestitch.schedule.binding import BindingRule
from tilestitch.schedule.by_hand import group_members, hand_order
from tilestitch.schedule.fused import expect_alike, tasks_of_blocks
from tilestitch.schedule.orders import breadth_first, depth_first, waiting_bytes
from tilestitch.schedule.pieces import bound, piece_runs, tasks_of_instances, with_whole_kernels
from tilestitch.schedule.residency import stay_on_chip
from tilestitch.schedule.spilling import Spill
from tilestitch.schedule.tasks import Task
from tilestitch.schedule.tiling import tile_kernel


def expect_compilable(machine: Accelerator) -> None:
    """Refuse a machine that can be described but not yet scheduled for, with every reason at once."""
    reasons = []
    if all(group.core.vector is None for group in machine.groups):
        reasons.append("none of its cores has a vector unit")
    gb = machine.memory(Level.GB)
    if gb is None and any(machine.local(group.core, Level.LB) is None for group in machine.groups):
        reasons.append("it has cores with neither a local buffer (memories.lb) nor a global one (memories.gb)")
    if gb is not None and gb.sharing is Sharing.CHIP and machine.clusters > 1:
        reasons.append("its clusters share one global buffer (memories.gb per chip)")
    if reasons:
        raise InputError(
            f"{machine.name}: cannot be compiled for yet: {'; '.join(reasons)}; "
            "describe a vector unit, a buffer that each core works in, and a global buffer per cluster or none"
        )


def by_units(graph: Graph, kernel: tuple[Operator, ...], machine: Accelerator) -> list[tuple[Operator, ...]]:
    """Cut a kernel that no core can run whole where work passes from matrix to vector units or back.

    The pieces are in running order. Each runs on one class of units, so that some core can run it.
    """
    if any(can_run(group.core, kernel, graph, machine) for group in machine.groups):
        return [kernel]
    stages: dict[tuple[int, bool], list[Operator]] = {}  # by how often the class changed on the way there
    stage_of: dict[str, tuple[int, bool]] = {}  # of a tensor
    for op in kernel:
        matrix = on_matrix_unit(op, operand_dtype(op, graph), machine)
        before = [stage_of[name] for name in op.inputs if name in stage_of]
        stage = max((number + (other != matrix) for number, other in before), default=0), matrix
        for name in op.outputs:
            stage_of[name] = max(stage_of.get(name, stage), stage)
        stages.setdefault(stage, []).append(op)
    pieces = [piece for stage in sorted(stages) for piece in kernels_of(graph, stages[stage])]
    if pieces == [kernel]:  # products of types that no single core can multiply
        return [(op,) for op in kernel]
    return [part for piece in pieces for part in by_units(graph, piece, machine)]


def _on_chip(
    graph: Graph,
    groups: Sequence[tuple[str, ...]],
    machine: Accelerator,
    levels: Sequence[Level],
    coarse: Sequence[tuple[tuple[str, ...], tuple[int, int]]],
    by_hand: HandSchedule | None,
    blocks: Sequence[FusedBlock],
    *,
    stitched: bool,
    spill: Spill,
    binding: BindingRule,
    progress: Callable[[int, int], None],
) -> tuple[tuple[Kernel, ...], tuple[Home, ...], tuple[PieceRun, ...], tuple[BlockRun, ...]]:
    """Kernels, homes, and pieces or blocks: of `coarse` sub-graphs those of their instances, depth or breadth first.

    Or those of fused `blocks`, or those that are given `by_hand`.

    Of the two orders, the one in which fewer bytes of results wait at a time; depth first of equals. Where the pieces
    of instances cannot be cut as they would have to be, the kernels run whole.
    """
    tasks = [Task(group, None, not stitched or number == 0) for number, group in enumerate(groups)]
    pieces: tuple[PieceRun, ...] = ()
    runs: tuple[BlockRun, ...] = ()
    if blocks:
        expect_alike(machine)
        tasks, runs = tasks_of_blocks(graph, groups, blocks)
    elif by_hand is not None:
        tasks, pieces = _tasks_by_hand(graph, groups, machine, by_hand)
    elif coarse:
        names, splits = [members for members, _ in coarse], [split for _, split in coarse]
        for cut in (with_whole_kernels(graph, names, groups), names):
            instances = split_into_instances(graph, cut, splits)
            orders = depth_first(instances), breadth_first(instances)
            order = min(orders, key=lambda order: waiting_bytes(graph, instances, order))
            found = tasks_of_instances(graph, groups, instances, order, stitched=stitched)
            if found is not None:
                tasks, pieces = found, piece_runs(instances, order, found)
                break
    if binding is BindingRule.PAPER and not blocks:
        tasks = bound(graph, tasks, len(machine.cores))
    return *stay_on_chip(graph, tasks, machine, levels, spill=spill, progress=progress), pieces, runs


def _tasks_by_hand(
    graph: Graph, groups: Sequence[tuple[str, ...]], machine: Accelerator, by_hand: HandSchedule
) -> tuple[list[Task], tuple[PieceRun, ...]]:
    """The kernels and pieces of a schedule written by hand; its groups end with whole kernels, as far as they can."""
    names = group_members(graph, by_hand)
    for cut in (with_whole_kernels(graph, names, groups), names):
        found = hand_order(graph, by_hand, cut)
        tasks = tasks_of_instances(
            graph,
            groups,
            found.instances,
            found.order,
            stitched=by_hand.stitched,
            items=found.items,
            cores=len(machine.cores),
        )
        if tasks is not None:
            return tasks, piece_runs(found.instances, found.order, tasks)
    raise InputError(
        f"schedule {printable(by_hand.name)}: its pieces need parts of tensors that no piece makes as a whole; "
        "cut along an axis that the operators of the group carry through, such as the batch"
    )


def plan(
    graph: Graph,
    groups: Sequence[tuple[str, ...]],
    machine: Accelerator,
    levels: Sequence[Level] = (),
    coarse: Sequence[tuple[tuple[str, ...], tuple[int, int]]] = (),
    *,
    by_hand: HandSchedule | None = None,
    blocks: Sequence[FusedBlock] = (),
    stitched: bool = False,
    spill: Spill = Spill.NEWEST,
    binding: BindingRule = BindingRule.NEAREST,
    strategy: str,
    batch: int,
    iterations: int,
    clusters: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Schedule:
    """Tile every group; groups that differ only in names are tiled once.

    `groups` hold operator names of `graph` (views composed away) in an order in which they can run. Results stay at
    the first of `levels` at which there is room, else in DDR. `coarse` are sub-graphs that are split into instances,
    each with the axis of its outputs that is cut and the number of pieces, unless groups and pieces are given
    `by_hand`; `stitched` makes each instance one launch. `blocks` are fused blocks that have every operator once.
    Raises `DoesNotFit`, and `InputError` for a machine that cannot be compiled for yet.
    """
    expect_compilable(machine)
    given = bool(coarse or blocks) or by_hand is not None
    if given or stitched or any(machine.memory(level) is not None for level in levels):
        tiled, homes, pieces, runs = _on_chip(
            graph,
            groups,
            machine,
            levels,
            coarse,
            by_hand,
            blocks,
            stitched=stitched,
            spill=spill,
            binding=binding,
            progress=progress,
        )
        return Schedule(strategy, graph, batch, iterations, clusters, tiled, homes, pieces=pieces, blocks=runs)
    known: dict[tuple, tuple[Kernel, list[str]]] = {}
    kernels = []
    for number, group in enumerate(groups):
        operators = tuple(graph.by_name[name] for name in group)
        signature, names = kernel_signature(graph, operators), local_names(graph, operators)
        if signature in known:
            like, like_names = known[signature]
            renamed = dict(zip(like_names, names, strict=True))
            tiling = replace(like.tiling, resident=tuple(renamed[t] for t in like.tiling.resident))
            anchor = None if like.anchor is None else group[like.operators.index(like.anchor)]
            kernel = replace(like, name=f"k{number}", operators=group, anchor=anchor, tiling=tiling)
        else:
            kernel = tile_kernel(graph, operators, f"k{number}", machine)
            known[signature] = kernel, names
        kernels.append(kernel)
        progress(number + 1, len(groups))
    return Schedule(strategy, graph, batch, iterations, clusters, tuple(kernels))

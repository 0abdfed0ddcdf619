"""From a partition to a schedule: kernels with their tiles, in order, and what stays on chip between them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tilestitch.base.errors import InputError, printable
from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.hardware.compilable import expect_compilable
from tilestitch.ir.by_hand import HandSchedule
from tilestitch.ir.choices import BindingRule
from tilestitch.ir.graph import Graph
from tilestitch.ir.partition import Blocks, ByHand, Groups, Kernels, Partition, SubGraphs
from tilestitch.ir.run import Run
from tilestitch.ir.schedule import BlockRun, Kernel, PieceRun, Schedule
from tilestitch.ir.tile_rule import KernelRule
from tilestitch.kernels.instances import split_into_instances
from tilestitch.schedule.by_hand import expect_divisions, group_members, hand_order
from tilestitch.schedule.fused import expect_alike, tasks_of_blocks
from tilestitch.schedule.orders import breadth_first, can_run, depth_first, waiting_bytes
from tilestitch.schedule.pieces import PieceTasks, bound, piece_runs, tasks_of_instances, with_whole_kernels
from tilestitch.schedule.policy import Policy
from tilestitch.schedule.residency import Keeping, stay_on_chip
from tilestitch.schedule.tasks import Task
from tilestitch.schedule.tilings import Tilings
from tilestitch.schedule.twins import alternating


@dataclass(frozen=True, slots=True)
class Ordered:
    """Kernels to be, in order, and the pieces or blocks that they are of."""

    tasks: Sequence[Task]
    pieces: tuple[PieceRun, ...] = ()
    blocks: tuple[BlockRun, ...] = ()


def plan(
    graph: Graph,
    partition: Partition,
    machine: Accelerator,
    policy: Policy,
    run: Run,
    *,
    tilings: Tilings | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Schedule:
    """Tile every kernel of a partition of `graph` (views composed away), and keep results where the policy says.

    `tilings` are those found for other schedules of the same graph and machine: a search shares them among candidates.
    Raises `DoesNotFit`, and `InputError` for a machine that cannot be compiled for yet or a partition by hand that
    cannot run.
    """
    expect_compilable(machine)
    on_chip = policy.stitched or any(machine.memory(level) is not None for level in policy.levels)
    if isinstance(partition, Groups) and not on_chip:
        kernels = _one_by_one(partition.kernels, Tilings(graph, machine) if tilings is None else tilings, progress)
        return Schedule(run.strategy, graph, run.batch, run.iterations, run.clusters, kernels)
    found = ordered(graph, partition, machine, policy, None if tilings is None else tilings.pieces)
    return placed(graph, partition, found, machine, policy, run, tilings=tilings, progress=progress)


def placed(
    graph: Graph,
    partition: Partition,
    found: Ordered,
    machine: Accelerator,
    policy: Policy,
    run: Run,
    *,
    tilings: Tilings | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Schedule:
    """The schedule of a partition of which the kernels are in order: with tiles, and what stays on chip."""
    kernels, homes = stay_on_chip(
        graph,
        found.tasks,
        machine,
        Keeping(
            tuple(policy.levels),
            policy.spill,
            compact=isinstance(partition, ByHand) and partition.schedule.compact,
            in_place=isinstance(partition, ByHand) and partition.schedule.in_place,
        ),
        tilings=tilings,
        progress=progress,
    )
    if isinstance(partition, ByHand):
        by_hand = partition.schedule
        together = {rule.sink for rule in by_hand.rules if rule.together}
        if by_hand.ring or by_hand.behind or together:
            kernels = tuple(
                replace(kernel, ring=by_hand.ring, behind=by_hand.behind, together=kernel.sink in together)
                for kernel in kernels
            )
    return Schedule(
        run.strategy,
        graph,
        run.batch,
        run.iterations,
        run.clusters,
        kernels,
        homes,
        pieces=found.pieces,
        blocks=found.blocks,
    )


def ordered(
    graph: Graph, partition: Partition, machine: Accelerator, policy: Policy, known: PieceTasks | None = None
) -> Ordered:
    """The kernels of a partition in the order in which they run, each with the iterations that it covers.

    What is `known` of the same graph is used and added to.
    """
    known = PieceTasks(graph) if known is None else known
    match partition:
        case Blocks():
            expect_alike(machine)
            tasks, runs = tasks_of_blocks(graph, partition.kernels, partition.blocks)
            return Ordered(tasks, blocks=runs)
        case ByHand():
            found = _by_hand(graph, partition, machine, known)
        case SubGraphs():
            found = _in_pieces(graph, partition, policy, known)
        case Groups():
            found = _whole(partition.kernels, policy)
    if policy.binding is BindingRule.NEAREST:
        return found
    tasks = bound(graph, found.tasks, len(machine.cores))
    if policy.binding is BindingRule.EVEN:
        tasks = [
            task if one.splits else replace(task, tiles=replace(task.tiles, even=True))
            for one, task in zip(found.tasks, tasks, strict=True)
        ]
    return replace(found, tasks=tasks)


def _with_rules(tasks: Sequence[Task], schedule: HandSchedule, known: PieceTasks) -> list[Task]:
    """Tasks that are known with what a schedule written by hand asks of their kernels."""
    rules = {one.sink: one for one in schedule.rules}
    order = (Level.LB, Level.GB, Level.DDR)
    found = []
    for task in tasks:
        rule = rules.get(task.operators[-1], KernelRule(""))
        scope = max(task.scope, rule.scope, key=order.index)
        found.append(known.with_rule(task, rule, scope, picks=schedule.picks))
    return found


def _whole(kernels: Kernels, policy: Policy) -> Ordered:
    return Ordered([Task(kernel, None, not policy.stitched or number == 0) for number, kernel in enumerate(kernels)])


def _in_pieces(graph: Graph, partition: SubGraphs, policy: Policy, known: PieceTasks) -> Ordered:
    """The pieces of sub-graphs depth first or breadth first, whichever has fewer bytes waiting; depth first of equals.

    Where the pieces cannot be cut as they would have to be, the kernels run whole.
    """
    kernels = partition.kernels
    names = [one.operators for one in partition.sub_graphs]
    splits = [((one.axis, one.pieces),) for one in partition.sub_graphs]
    for cut in (with_whole_kernels(graph, names, kernels), names):
        instances = split_into_instances(graph, cut, splits, known=known.needs)
        if not can_run(instances):  # operators that moved with their kernel may make two sub-graphs wait for each other
            continue
        orders = depth_first(instances), breadth_first(instances)
        order = min(orders, key=lambda order: waiting_bytes(graph, instances, order))
        tasks = tasks_of_instances(graph, kernels, instances, order, stitched=policy.stitched, known=known)
        if tasks is not None:
            return Ordered(tasks, piece_runs(instances, order, tasks))
    return _whole(kernels, policy)


def _by_hand(graph: Graph, partition: ByHand, machine: Accelerator, known: PieceTasks) -> Ordered:
    """The kernels and pieces of a schedule written by hand; its groups end with whole kernels, as far as they can."""
    by_hand = partition.schedule
    expect_divisions(graph, by_hand, len(machine.cores))
    names = group_members(graph, by_hand)
    for cut in (with_whole_kernels(graph, names, partition.kernels), names):
        found = hand_order(graph, by_hand, cut, known.needs)
        tasks = tasks_of_instances(
            graph,
            partition.kernels,
            found.instances,
            found.order,
            stitched=by_hand.stitched,
            items=found.items,
            cores=len(machine.cores),
            known=known,
        )
        if tasks is not None:
            tasks = _with_rules(tasks, by_hand, known)
            lags = {one.number: by_hand.groups[one.group].lag for one in found.instances.instances}
            if any(lags.values()):
                return Ordered(alternating(tasks, lags))
            return Ordered(tasks, piece_runs(found.instances, found.order, tasks))
    raise InputError(
        f"schedule {printable(by_hand.name)}: its pieces need parts of tensors that no piece makes as a whole; "
        "cut along an axis that the operators of the group carry through, such as the batch"
    )


def _one_by_one(kernels: Kernels, tilings: Tilings, progress: Callable[[int, int], None]) -> tuple[Kernel, ...]:
    """Kernel after kernel, through DDR."""
    found = []
    for number, group in enumerate(kernels):
        found.append(tilings.alone(group, f"k{number}"))
        progress(number + 1, len(kernels))
    return tuple(found)

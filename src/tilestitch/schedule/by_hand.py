"""What a schedule written by hand says about a network: groups of operators, their pieces, and the order of these."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tilestitch.base.errors import InputError, printable
from tilestitch.hardware.accelerator import Level
from tilestitch.ir.by_hand import BREADTH_FIRST, DEPTH_FIRST, HandGroup, HandItem, HandSchedule
from tilestitch.ir.graph import Graph
from tilestitch.ir.instance import InstanceGraph
from tilestitch.kernels.instances import PieceNeeds, split_into_instances
from tilestitch.kernels.surroundings import CoreMap
from tilestitch.schedule.orders import breadth_first, depth_first
from tilestitch.schedule.splits import most_pieces


@dataclass(frozen=True, slots=True)
class HandOrder:
    """The pieces of the groups in the order of execution, and what is said about each."""

    instances: InstanceGraph
    order: tuple[int, ...]
    items: Mapping[int, HandItem]  # by the number of the instance


def group_members(graph: Graph, schedule: HandSchedule) -> list[tuple[str, ...]]:
    """The operators of each group, in the order of the graph.

    Raises `InputError` where a group names an operator that is not there, would be empty, or leaves some behind.
    """
    taken: set[str] = set()
    found = []
    for group in schedule.groups:
        where = f"schedule {printable(schedule.name)}: group {printable(group.name)}"
        wanted = _needed(graph, group, where) - taken
        if not wanted:
            raise InputError(f"{where}: has no operators of its own; the groups before it have them all; leave it out")
        taken |= wanted
        found.append(tuple(op.name for op in graph.operators if op.name in wanted))
    left = [op.name for op in graph.operators if op.name not in taken]
    if left:
        raise InputError(
            f"schedule {printable(schedule.name)}: operator {left[0]} is in no group; "
            "add a last group without `until`, which takes all remaining operators"
        )
    return found


def hand_order(
    graph: Graph, schedule: HandSchedule, groups: Sequence[tuple[str, ...]], known: PieceNeeds | None = None
) -> HandOrder:
    """The pieces of the groups in the order that the schedule gives; what is `known` of the graph is added to.

    Raises `InputError` where pieces do not add up to the results, are left out or run before what they read.
    """
    splits = [group.along for group in schedule.groups]
    for group, members in zip(schedule.groups, groups, strict=True):
        expect_pieces(graph, schedule, group, members)
    instances = split_into_instances(graph, groups, splits, lean=schedule.lean, known=known)
    if isinstance(schedule.order, str):
        orders = {DEPTH_FIRST: depth_first, BREADTH_FIRST: breadth_first}
        if schedule.order not in orders:
            raise InputError(
                f"schedule {printable(schedule.name)}: order {printable(schedule.order)!r}; "
                f"expected {', '.join(orders)}, or the pieces one by one"
            )
        return HandOrder(instances, orders[schedule.order](instances), {})
    numbers = {
        f"{schedule.groups[one.group].name}{one.name[one.name.index('[') :]}": one.number for one in instances.instances
    }
    order: list[int] = []
    for item in schedule.order:
        where = f"schedule {printable(schedule.name)}: piece {printable(item.instance)}"
        if item.instance not in numbers:
            raise InputError(f"{where}: there is no such piece; the pieces are {', '.join(numbers)}")
        number = numbers[item.instance]
        if number in order:
            raise InputError(f"{where}: runs twice; every piece runs once")
        early = [one for one in instances.producers[number] if one not in order]
        if early:
            name = next(name for name, known in numbers.items() if known == early[0])
            raise InputError(f"{where}: reads what {name} makes, which runs after it; put {name} before it")
        order.append(number)
    missing = [name for name, number in numbers.items() if number not in order]
    if missing:
        raise InputError(
            f"schedule {printable(schedule.name)}: does not run {', '.join(missing)}; every piece runs once"
        )
    items = {numbers[item.instance]: item for item in schedule.order}
    return HandOrder(instances, tuple(order), items)


def expect_divisions(graph: Graph, schedule: HandSchedule, cores: int) -> None:
    """Refuse rules that divide an operator among cores in a way in which it cannot be."""
    for rule in schedule.rules:
        if not rule.splits or rule.sink not in graph.by_name:
            continue
        op = graph.by_name[rule.sink]
        apart = most_pieces(op)
        even = len(rule.splits) == len(apart) and min(rule.splits) > 0 and cores % prod(rule.splits) == 0
        if not even or any(count > most for count, most in zip(rule.splits, apart, strict=True)):
            raise InputError(
                f"schedule {printable(schedule.name)}: rule of {printable(rule.sink)}: splits {rule.splits}; "
                f"expected one for each dim, at most {', '.join(map(str, apart))}, whose product divides {cores} cores"
            )


def core_map(item: HandItem, cores: int) -> CoreMap | None:
    """The cores that a piece names; None where it leaves them open.

    Raises `InputError` for cores that do not exist, are named twice, or are
    nested unevenly.
    """
    if item.cores is None:
        return None
    where = f"piece {printable(item.instance)}: cores {item.cores}"
    parts = [part if isinstance(part, tuple) else (part,) for part in item.cores]
    flat = tuple(core for part in parts for core in part)
    if not flat or len({len(part) for part in parts}) != 1:
        raise InputError(f"{where}; expected as many cores for every part, such as ((0, 1), (2, 3))")
    if len(set(flat)) != len(flat) or min(flat) < 0 or max(flat) >= cores:
        raise InputError(f"{where}; expected each core once, of 0 to {cores - 1}")
    return CoreMap(len(parts), flat)


def scope_of(item: HandItem) -> Level | None:
    """Where the results of a piece wait; None where the rule decides."""
    if item.scope is not None and item.scope not in (Level.LB, Level.GB, Level.DDR):
        raise InputError(f"piece {printable(item.instance)}: scope {item.scope}; expected lb, gb or ddr")
    return item.scope


def _needed(graph: Graph, group: HandGroup, where: str) -> set[str]:
    """All operators that the ends of a group depend on, and these."""
    if not group.until:
        return {op.name for op in graph.operators}
    for name in group.until:
        if name not in graph.by_name:
            raise InputError(
                f"{where}: there is no operator {printable(name)}; "
                "`tilestitch show schedule` lists those that run (views and folded operators do not)"
            )
    wanted = set(group.until)
    for op in reversed(graph.operators):
        if op.name in wanted:
            wanted.update(maker.name for maker in graph.makers[op.name])
    return wanted


def expect_pieces(graph: Graph, schedule: HandSchedule, group: HandGroup, members: Sequence[str]) -> None:
    """Refuse pieces that the results of a group do not have."""
    where = f"schedule {printable(schedule.name)}: group {printable(group.name)}"
    axes = [axis for axis, _ in group.along]
    if len(set(axes)) < len(axes):
        raise InputError(f"{where}: is cut along the axes {', '.join(map(str, axes))}; expected each once")
    inside = set(members)
    for name in members:
        for tensor in graph.by_name[name].outputs:
            readers = [reader for reader in graph.readers[name] if tensor in reader.inputs]
            if tensor not in graph.outputs and all(reader.name in inside for reader in readers):
                continue
            shape = graph.tensors[tensor].shape
            for axis, pieces in group.along:
                if not shape and (axis, pieces) == (0, 1):
                    continue  # a number is whole
                if not 0 <= axis < len(shape):
                    raise InputError(f"{where}: axis {axis}; its result {tensor} has axes 0 to {len(shape) - 1}")
                extent = shape[axis]
                count = pieces if isinstance(pieces, int) else len(pieces)
                total = extent if isinstance(pieces, int) else sum(pieces)
                smallest = 1 if isinstance(pieces, int) else min(pieces, default=0)
                if not 1 <= count <= extent or total != extent or smallest < 1:
                    raise InputError(
                        f"{where}: pieces {pieces} of {tensor}, which has {extent} along axis {axis}; "
                        f"expected 1 to {extent} pieces, or extents that add up to {extent}"
                    )

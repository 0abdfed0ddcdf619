"""From sets of operators to groups in an order in which they can run."""

from collections.abc import Iterable

from tilestitch.ir.graph import Graph
from tilestitch.ir.partition import Group


def in_order(graph: Graph, groups: Iterable[tuple[str, ...]]) -> tuple[Group, ...]:
    """Groups g0, g1, ..., sorted by their last operator, their operators in the order of the graph.

    That order can run where only the last operator of a group is read by other groups: whoever reads it comes later
    in the graph, and so does the last operator of that group.
    """
    sorted_groups = [tuple(sorted(group, key=graph.position.__getitem__)) for group in groups]
    sorted_groups.sort(key=lambda group: graph.position[group[-1]])
    return tuple(Group(f"g{number}", group) for number, group in enumerate(sorted_groups))

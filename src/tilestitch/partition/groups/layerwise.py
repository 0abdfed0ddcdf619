"""Every operator alone: the baseline in which each intermediate result goes through DDR."""

from tilestitch.ir.graph import Graph
from tilestitch.ir.partition import Group
from tilestitch.partition.groups.in_order import in_order


def layerwise(graph: Graph) -> tuple[Group, ...]:
    """One group per operator, in the order of the graph."""
    return in_order(graph, ((op.name,) for op in graph.operators))

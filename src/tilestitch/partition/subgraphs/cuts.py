"""GraphTurbo's sub-graphs as the partition of a network: which operators, along which axis, into how many pieces.

And whether they may better stay whole: what pieces make and read several times.
"""

from collections.abc import Sequence
from dataclasses import replace

from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.ir.choices import GroupingRule
from tilestitch.ir.graph import Graph
from tilestitch.ir.partition import Kernels, SubGraph, SubGraphs
from tilestitch.ir.region import Region
from tilestitch.kernels.instances import split_into_instances
from tilestitch.partition.subgraphs.coarse import coarse_groups
from tilestitch.partition.subgraphs.grouping import best_grouping
from tilestitch.partition.subgraphs.liveness import least_peak

MADE_AGAIN = 0.1  # of its work or its results, how much the pieces of a sub-graph may make several times at most


def without_repetition(graph: Graph, cuts: Sequence[SubGraph]) -> list[SubGraph]:
    """The same sub-graphs, those in one piece of which pieces would make too much several times.

    Halos are made by both neighbours, and what a piece needs whole by every piece, so that neither the work nor the
    local buffers gain by the cut. INFERRED: Zhao et al., OSDI 2023, section 3.1, mention a simple cost model for
    recomputation, and do not say which.
    """
    instances = split_into_instances(
        graph, [cut.operators for cut in cuts], [((cut.axis, cut.pieces),) for cut in cuts]
    )
    iterations, size_bytes = [0] * len(cuts), [0] * len(cuts)
    for instance in instances.instances:
        for name, box in instance.boxes.items():
            iterations[instance.group] += box.size
            size_bytes[instance.group] += _made_bytes(graph, name, box)
    found = []
    for number, cut in enumerate(cuts):
        once = sum(graph.by_name[name].whole.size for name in cut.operators)
        made = sum(_made_bytes(graph, name, graph.by_name[name].whole) for name in cut.operators)
        again = max(iterations[number] / once, size_bytes[number] / made) - 1
        found.append(cut if again <= MADE_AGAIN else replace(cut, axis=0, pieces=1))
    return found


def whole_may_be_better(graph: Graph, cuts: Sequence[SubGraph], machine: Accelerator) -> bool:
    """Whether to look at a schedule in which no sub-graph is cut, beside the one of the pieces.

    Every piece reads the weights of its sub-graph again; what such a sub-graph would need beyond LB and GB together if
    it stayed whole is written to DDR and read from it at least once. The second must not be more than the first. Which
    schedule is better is for their estimates to say: results of pieces also wait for one another in GB, as those of
    whole operators do not.
    """
    if len(cuts) == 1 and cuts[0].pieces == 1:
        return False
    shared = machine.memory(Level.GB)
    room = machine.local_capacity_bytes + (0 if shared is None else shared.size_bytes)
    again = sum((cut.pieces - 1) * _weight_bytes(graph, cut.operators) for cut in cuts)
    return again >= sum(2 * max(0, cut.peak_bytes - room) for cut in cuts if cut.pieces > 1)


def _made_bytes(graph: Graph, operator: str, box: Region) -> int:
    writes = graph.by_name[operator].writes
    return sum(graph.tensors[write.tensor].bytes_of(write.hull(box)) for write in writes)


def _weight_bytes(graph: Graph, operators: Sequence[str]) -> int:
    """Bytes of the constants that some operators read."""
    read = {name for operator in operators for name in graph.by_name[operator].inputs if name in graph.constants}
    return sum(graph.tensors[name].size_bytes for name in read)


def as_sub_graphs(graph: Graph, kernels: Kernels, machine: Accelerator, rule: GroupingRule) -> SubGraphs:
    """The sub-graphs of a network without views, each with the pieces that it is cut into."""
    if rule is GroupingRule.EXACT:
        best = best_grouping(graph, kernels, machine)
        found = [
            SubGraph(group, pieces.axis, pieces.count, _peak_bytes(graph, group))
            for group, pieces in zip(best.groups, best.pieces, strict=True)
        ]
    else:
        coarse = [
            SubGraph(one.operators, one.split.axis, one.split.factor if one.split.fits else 1, one.split.peak_bytes)
            for one in coarse_groups(graph, machine.local_capacity_bytes)
        ]
        found = without_repetition(graph, coarse)
    return SubGraphs(kernels, tuple(found), whole_may_be_better(graph, found, machine))


def _peak_bytes(graph: Graph, group: Sequence[str]) -> int:
    return least_peak(graph, [graph.by_name[name] for name in group]).peak_bytes

"""Whether sub-graphs may better stay whole than be cut into pieces: what pieces make and read several times."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.ir.graph import Graph
from tilestitch.ir.region import Region
from tilestitch.kernels.instances import split_into_instances

MADE_AGAIN = 0.1  # of its work or its results, how much the pieces of a sub-graph may make several times at most


@dataclass(frozen=True, slots=True)
class Cut:
    """A sub-graph that may be cut into pieces: its operators, along which axis, how many, and what it needs whole."""

    operators: tuple[str, ...]
    axis: int
    pieces: int
    peak_bytes: int


def without_repetition(graph: Graph, cuts: Sequence[Cut]) -> list[Cut]:
    """The same sub-graphs, those in one piece of which pieces would make too much several times.

    Halos are made by both neighbours, and what a piece needs whole by every piece, so that neither the work nor the
    local buffers gain by the cut. INFERRED: Zhao et al., OSDI 2023, section 3.1, mention a simple cost model for
    recomputation, and do not say which.
    """
    instances = split_into_instances(
        graph, [cut.operators for cut in cuts], [(cut.axis, cut.pieces) if cut.pieces > 1 else (0, 1) for cut in cuts]
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


def whole_may_be_better(graph: Graph, cuts: Sequence[Cut], machine: Accelerator) -> bool:
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

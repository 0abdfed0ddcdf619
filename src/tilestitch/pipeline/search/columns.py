"""Products column by column: moves of the search that run a kernel in pieces of its weights, each read once.

A result that is too large for the cores' memories then lies in these as far as there is room, and the rest in GB.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.ir.graph import Graph, Operator
from tilestitch.pipeline.search.candidate import Candidate, Cut, in_running_order
from tilestitch.pipeline.search.scene import Scene, Signature, signature

COUNTS = (2, 3, 4)  # pieces that are tried

Columns = dict[str, int]  # by the last operator of a kernel: the axis of its result along which its weights are cut
Kernel = tuple[str, ...]


def columns(scene: Scene) -> Iterator[Candidate]:
    """Kernels that are alike in pieces along the columns of their weights, the largest results first."""
    graph, candidate = scene.graph, scene.candidate
    cuttable = _cuttable(graph, candidate)
    alike: dict[Signature, list[str]] = {}
    for kernel in candidate.kernels:
        if kernel[-1] in cuttable:
            alike.setdefault(signature(graph, [graph.by_name[name] for name in kernel]), []).append(kernel[-1])
    for sinks in sorted(alike.values(), key=lambda sinks: -_result_bytes(graph, sinks[0])):
        for count in COUNTS:
            found = in_pieces(graph, candidate, {sink: (cuttable[sink], count) for sink in sinks})
            if found is not None:
                yield found


def with_columns(candidate: Candidate, graph: Graph, machine: Accelerator) -> Candidate:
    """The candidate with all results in pieces that take more than half of the cores' memories; itself without any."""
    memory = machine.memory(Level.LB)
    if memory is None:
        return candidate
    most = memory.size_bytes * len(machine.cores) // 2
    wanted = {
        sink: (axis, -(-_result_bytes(graph, sink) // most))
        for sink, axis in _cuttable(graph, candidate).items()
        if _result_bytes(graph, sink) > most
    }
    return in_pieces(graph, candidate, wanted) or candidate


def _result_bytes(graph: Graph, sink: str) -> int:
    return graph.tensors[graph.by_name[sink].writes[0].tensor].size_bytes


def _cuttable(graph: Graph, candidate: Candidate) -> Columns:
    """The kernels that run whole and multiply by weights, with the axis of the weights' columns."""
    whole = {name for cut in candidate.cuts if cut.pieces == 1 for name in cut.operators}
    found: Columns = {}
    for kernel in candidate.kernels:
        sink = graph.by_name[kernel[-1]]
        if kernel[-1] not in whole or len(sink.writes) != 1 or sink.writes[0].tensor in graph.outputs:
            continue
        shape = graph.tensors[sink.writes[0].tensor].shape
        for op in (graph.by_name[name] for name in kernel):
            axis = axis_of_weights(graph, op)
            if axis is not None and graph.tensors[op.writes[0].tensor].shape == shape:
                found[kernel[-1]] = axis
    return found


def axis_of_weights(graph: Graph, op: Operator) -> int | None:
    """The axis of a product's result along which only its second operand changes, where that is a constant."""
    if len(op.reads) < 2 or op.reads[1].tensor not in graph.constants:
        return None
    first, second = ({dim for axis in read.axes for dim, _ in axis.terms} for read in op.reads[:2])
    for number, axis in enumerate(op.writes[0].axes):
        if any(dim in second - first for dim, _ in axis.terms):
            return number
    return None


def in_pieces(
    graph: Graph,
    candidate: Candidate,
    wanted: Mapping[str, tuple[int, int]],
    members: Mapping[str, tuple[Kernel, ...]] | None = None,
) -> Candidate | None:
    """With kernels as sub-graphs of their own, cut along an axis into so many pieces; None where that cannot run.

    By the last operator of each; `members` are those that run in the same pieces, where there are more.
    """
    kernel_of = {kernel[-1]: kernel for kernel in candidate.kernels}
    groups = {sink: (members or {}).get(sink, (kernel_of[sink],)) for sink in wanted}
    cuts: list[Cut] = []
    for cut in candidate.cuts:
        cuts += _divided(cut, wanted, groups) if cut.pieces == 1 else [cut]
    if not wanted or not in_running_order(graph, tuple(cuts)):
        return None
    return replace(candidate, cuts=tuple(replace(cut, scope=cut.scope or Level.LB) for cut in cuts))


def _divided(cut: Cut, wanted: Mapping[str, tuple[int, int]], groups: Mapping[str, tuple[Kernel, ...]]) -> list[Cut]:
    """A whole sub-graph as what lies before, between and behind what runs in pieces, and that.

    `groups` has the kernels that run in the pieces of the last of them, by the last operator; they come where it began.
    """
    sink_of = {name: sink for sink, kernels in groups.items() for kernel in kernels for name in kernel}
    found: list[Cut] = []
    rest: list[str] = []
    done: set[str] = set()
    for name in cut.operators:
        sink = sink_of.get(name)
        if sink is None:
            rest.append(name)
        elif sink not in done and name in groups[sink][-1]:
            done.add(sink)
            found += _whole(cut, rest)
            rest = []
            own = tuple(one for one in cut.operators if sink_of.get(one) == sink)
            found.append(Cut(own, *wanted[sink], Level.LB))
    return [*found, *_whole(cut, rest)]


def _whole(cut: Cut, names: list[str]) -> list[Cut]:
    return [replace(cut, operators=tuple(names))] if names else []

"""Products column by column: moves of the search that run a kernel in pieces of its weights, each read once.

A result that is too large for the cores' memories then lies in these as far as there is room, and the rest in GB.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace

from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.ir.graph import Graph, Operator
from tilestitch.pipeline.search.candidate import Candidate, Cut, in_running_order
from tilestitch.pipeline.search.scene import Scene, Signature, signature

COUNTS = (2, 3, 4)  # pieces that are tried

Columns = dict[str, int]  # by the last operator of a kernel: the axis of its result along which its weights are cut


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
            found = _in_pieces(graph, candidate, {sink: (cuttable[sink], count) for sink in sinks})
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
    return _in_pieces(graph, candidate, wanted) or candidate


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
            axis = _axis_of_weights(graph, op)
            if axis is not None and graph.tensors[op.writes[0].tensor].shape == shape:
                found[kernel[-1]] = axis
    return found


def _axis_of_weights(graph: Graph, op: Operator) -> int | None:
    """The axis of a product's result along which only its second operand changes, where that is a constant."""
    if len(op.reads) < 2 or op.reads[1].tensor not in graph.constants:
        return None
    first, second = ({dim for axis in read.axes for dim, _ in axis.terms} for read in op.reads[:2])
    for number, axis in enumerate(op.writes[0].axes):
        if any(dim in second - first for dim, _ in axis.terms):
            return number
    return None


def _in_pieces(graph: Graph, candidate: Candidate, wanted: dict[str, tuple[int, int]]) -> Candidate | None:
    """With kernels as sub-graphs of their own, cut along an axis into so many pieces; None where that cannot run."""
    kernel_of = {name: kernel for kernel in candidate.kernels for name in kernel}
    cuts: list[Cut] = []
    for cut in candidate.cuts:
        cuts += _divided(cut, wanted, kernel_of) if cut.pieces == 1 else [cut]
    if not wanted or not in_running_order(graph, tuple(cuts)):
        return None
    return replace(candidate, cuts=tuple(replace(cut, scope=cut.scope or Level.LB) for cut in cuts))


def _divided(cut: Cut, wanted: dict[str, tuple[int, int]], kernel_of: dict[str, tuple[str, ...]]) -> list[Cut]:
    """A whole sub-graph as what lies before, between and behind the wanted kernels, and these."""
    found: list[Cut] = []
    rest: list[str] = []
    done: set[str] = set()
    for name in cut.operators:
        kernel = kernel_of[name]
        if kernel[-1] not in wanted:
            rest.append(name)
        elif kernel[-1] not in done:
            done.add(kernel[-1])
            found += _whole(cut, rest)
            rest = []
            axis, pieces = wanted[kernel[-1]]
            own: Collection[str] = set(kernel)
            found.append(Cut(tuple(one for one in cut.operators if one in own), axis, pieces, Level.LB))
    return [*found, *_whole(cut, rest)]


def _whole(cut: Cut, names: list[str]) -> list[Cut]:
    return [replace(cut, operators=tuple(names))] if names else []

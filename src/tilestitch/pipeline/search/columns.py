"""Products column by column: moves of the search that run a kernel in pieces of its weights, each read once.

A result that is too large for the cores' memories then lies in these as far as there is room, and the rest in GB.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.ir.graph import Graph, Operator
from tilestitch.ir.region import Region
from tilestitch.kernels.instances import PieceNeeds
from tilestitch.ops import is_contraction
from tilestitch.pipeline.search.candidate import Candidate, Cut, in_running_order
from tilestitch.pipeline.search.room import MOST_PARTS, room_for_results
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


def with_heads_in_turn(candidate: Candidate, graph: Graph, machine: Accelerator, more: int = 0) -> Candidate:
    """The candidate with attention and its projections some heads at a time; itself where they have room as a whole.

    Each piece reads its own columns of the weights. There are as few pieces as it takes for all that one makes to have
    room beside what all read and make; or the next number that divides all heads, so many times.
    """
    needs, room = PieceNeeds(graph), room_for_results(machine)
    known: dict[tuple, list[tuple[int, int]]] = {}
    wanted: dict[str, tuple[int, int]] = {}
    members: dict[str, tuple[Kernel, ...]] = {}
    taken = set[Kernel]()
    for sink, kernels in _attentions(graph, candidate):
        group = tuple(name for kernel in kernels for name in kernel)
        key = signature(graph, [graph.by_name[name] for name in group])
        if key not in known:
            known[key] = _pieces_that_fit(graph, needs, kernels, room)
        ways = known[key]
        if ways and taken.isdisjoint(kernels):
            wanted[sink], members[sink] = ways[min(more, len(ways) - 1)], kernels
            taken.update(kernels)
    return _in_pieces(graph, candidate, wanted, members) or candidate


def _attentions(graph: Graph, candidate: Candidate) -> Iterator[tuple[str, tuple[Kernel, ...]]]:
    """Kernels that multiply results by results and run whole, behind the products with weights for them alone.

    By their last operator. What lies between comes with them, such as the rotation of queries; all of one sub-graph.
    """
    kernel_of = {name: kernel for kernel in candidate.kernels for name in kernel}
    cut_of = {name: at for at, cut in enumerate(candidate.cuts) for name in cut.operators}
    whole = {kernel for kernel in candidate.kernels if candidate.cuts[cut_of[kernel[-1]]].pieces == 1}
    multiplying = {
        kernel for kernel in whole if any(_axis_of_weights(graph, graph.by_name[name]) is not None for name in kernel)
    }
    makers = {
        kernel: dict.fromkeys(kernel_of[maker.name] for name in kernel for maker in graph.makers[name])
        for kernel in candidate.kernels
    }
    readers = {kernel: set[Kernel]() for kernel in candidate.kernels}
    for kernel, found in makers.items():
        for maker in found.keys() - {kernel}:
            readers[maker].add(kernel)
    ends = {kernel_of[op.name] for name in graph.outputs for op in graph.producers.get(name, ())}
    for kernel in candidate.kernels:
        if kernel not in whole or not any(_multiplies_results(graph, graph.by_name[name]) for name in kernel):
            continue
        group, more = {kernel}, {kernel}
        while more:
            group |= more
            near = {
                maker for one in group - multiplying | {kernel} for maker in makers[one].keys() & whole - group - ends
            }
            more = {one for one in near if readers[one] <= group and cut_of[one[-1]] == cut_of[kernel[-1]]}
        while idle := {one for one in group - multiplying - {kernel} if not makers[one].keys() & (group - {one})}:
            group -= idle
        if len(group) > 1:
            yield kernel[-1], tuple(sorted(group, key=lambda one: graph.position[one[-1]]))


def _pieces_that_fit(graph: Graph, needs: PieceNeeds, kernels: Sequence[Kernel], room: float) -> list[tuple[int, int]]:
    """The axis of the last kernel's result and the pieces along it, the fewest first; none where all have room."""
    group = tuple(name for kernel in kernels for name in kernel)
    made = {tensor for kernel in kernels for tensor in graph.leaving([graph.by_name[name] for name in kernel])}
    results = graph.leaving([graph.by_name[name] for name in group])
    read = {name for op in group for name in graph.by_name[op].inputs if name in graph.producers} - {
        name for op in group for name in graph.by_name[op].outputs
    }
    outside, inside = (
        sum(graph.tensors[name].size_bytes for name in names) for names in ({*read, *results}, made - set(results))
    )
    if len(results) != 1 or outside + inside <= room:
        return []
    shape = graph.tensors[results[0]].shape
    counts = [count for count in range(2, MOST_PARTS + 1) if outside + inside / count <= room]
    for axis, extent in enumerate(shape):
        able = [one for one in counts if extent % one == 0 and _is_divided(graph, needs, group, results[0], axis, one)]
        if able:
            return [(axis, count) for count in able]
    return []


def _is_divided(graph: Graph, needs: PieceNeeds, group: Kernel, result: str, axis: int, count: int) -> bool:
    """Whether pieces of a result along an axis share neither work of the operators before it nor their constants."""
    whole = Region.whole(graph.tensors[result].shape)
    step = whole.stop[axis] // count
    operators = [graph.by_name[name] for name in group]
    weights = {op.name: op.reads[1] for op in operators if _axis_of_weights(graph, op) is not None}
    work, read = dict.fromkeys(group, 0), dict.fromkeys(weights, 0)
    for at in range(count):
        boxes, _ = needs.of(group, {result: whole.slab(axis, at * step, (at + 1) * step)})
        for name, box in boxes.items():
            work[name] += box.size
            if name in weights:
                read[name] += weights[name].hull(box).size
    once = {name: access.hull(graph.by_name[name].whole).size for name, access in weights.items()}
    return read == once and work == {op.name: op.whole.size for op in operators}


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


def _multiplies_results(graph: Graph, op: Operator) -> bool:
    return is_contraction(op) and not any(read.tensor in graph.constants for read in op.reads[:2])


def _axis_of_weights(graph: Graph, op: Operator) -> int | None:
    """The axis of a product's result along which only its second operand changes, where that is a constant."""
    if len(op.reads) < 2 or op.reads[1].tensor not in graph.constants:
        return None
    first, second = ({dim for axis in read.axes for dim, _ in axis.terms} for read in op.reads[:2])
    for number, axis in enumerate(op.writes[0].axes):
        if any(dim in second - first for dim, _ in axis.terms):
            return number
    return None


def _in_pieces(
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

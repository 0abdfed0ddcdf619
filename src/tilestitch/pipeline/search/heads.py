"""Attention some heads at a time, with its projections, where what these make has no room on the chip as a whole."""

from collections.abc import Iterator, Sequence

from tilestitch.hardware.accelerator import Accelerator
from tilestitch.ir.graph import Graph, Operator
from tilestitch.ir.region import Region
from tilestitch.kernels.instances import PieceNeeds
from tilestitch.ops import is_contraction
from tilestitch.pipeline.search.candidate import Candidate
from tilestitch.pipeline.search.columns import Kernel, axis_of_weights, in_pieces
from tilestitch.pipeline.search.room import MOST_PARTS, room_for_results
from tilestitch.pipeline.search.scene import signature


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
    return in_pieces(graph, candidate, wanted, members) or candidate


def _attentions(graph: Graph, candidate: Candidate) -> Iterator[tuple[str, tuple[Kernel, ...]]]:
    """Kernels that multiply results by results and run whole, behind the products with weights for them alone.

    By their last operator. What lies between comes with them, such as the rotation of queries; all of one sub-graph.
    """
    kernel_of = {name: kernel for kernel in candidate.kernels for name in kernel}
    cut_of = {name: at for at, cut in enumerate(candidate.cuts) for name in cut.operators}
    whole = {kernel for kernel in candidate.kernels if candidate.cuts[cut_of[kernel[-1]]].pieces == 1}
    multiplying = {
        kernel for kernel in whole if any(axis_of_weights(graph, graph.by_name[name]) is not None for name in kernel)
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
    weights = {op.name: op.reads[1] for op in operators if axis_of_weights(graph, op) is not None}
    work, read = dict.fromkeys(group, 0), dict.fromkeys(weights, 0)
    for at in range(count):
        boxes, _ = needs.of(group, {result: whole.slab(axis, at * step, (at + 1) * step)})
        for name, box in boxes.items():
            work[name] += box.size
            if name in weights:
                read[name] += weights[name].hull(box).size
    once = {name: access.hull(graph.by_name[name].whole).size for name, access in weights.items()}
    return read == once and work == {op.name: op.whole.size for op in operators}


def _multiplies_results(graph: Graph, op: Operator) -> bool:
    return is_contraction(op) and not any(read.tensor in graph.constants for read in op.reads[:2])

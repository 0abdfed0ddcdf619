"""Where a sub-graph can be divided, and into how many pieces it can be cut."""

from dataclasses import dataclass

from tilestitch.ir.graph import Graph, Operator
from tilestitch.pipeline.search.candidate import Cut
from tilestitch.schedule.pieces import KernelIndex


@dataclass(frozen=True, slots=True)
class Place:
    """Between two kernels of a sub-graph: the operators before it, and the results that are read behind it."""

    before: frozenset[str]
    crossing_bytes: int


def narrow_places(graph: Graph, index: KernelIndex, cut: Cut) -> list[Place]:
    """Where a sub-graph can be divided, the narrowest first, and of equals those nearest to the middle."""
    kernels = index.within(cut.operators)
    found, before = [], list[Operator]()
    inside = set(cut.operators)
    for kernel in kernels[:-1]:
        before += kernel
        names = {op.name for op in before}
        crossing = sum(
            graph.tensors[tensor].size_bytes
            for op in before
            for tensor in op.outputs
            if any(reader.name in inside and reader.name not in names for reader in graph.consumers.get(tensor, ()))
        )
        found.append(Place(frozenset(names), crossing))
    middle = len(cut.operators) / 2
    return sorted(found, key=lambda place: (place.crossing_bytes, abs(len(place.before) - middle)))


def extent(graph: Graph, cut: Cut, axis: int) -> int:
    """Of the shortest result along an axis; 1 where one has no such axis."""
    shapes = [graph.tensors[name].shape for name in graph.leaving([graph.by_name[name] for name in cut.operators])]
    return min((shape[axis] if axis < len(shape) else 1 for shape in shapes), default=1)


def fits(graph: Graph, cut: Cut) -> bool:
    """Whether its results have as many along each axis as it has pieces."""
    return all(pieces <= extent(graph, cut, axis) for axis, pieces in cut.along)


def recounted(graph: Graph, cut: Cut, up: int, down: int = 1) -> Cut:
    """In `up` pieces for every `down` that there are, as far as there is something to cut."""
    return cut.in_pieces(max(1, min(cut.pieces * up // down, extent(graph, cut, cut.axis))))

"""How a sub-graph may be split into pieces: along which dim of its output, and into how many.

Source: Zhao et al., GraphTurbo, OSDI 2023, section 3.1, Algorithm 1 and Equation (1).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tilestitch.base.units import ceil_div
from tilestitch.ir.following import axes_that_follow
from tilestitch.ir.graph import Graph, Operator
from tilestitch.partition.subgraphs.liveness import least_peak

UNSPLITTABLE = 1 << 30  # a factor larger than any: no split makes the sub-graph fit

Followers = Mapping[
    tuple[int, ...], int
]  # extents of an operator's outputs where they follow a split -> such operators


@dataclass(frozen=True, slots=True)
class Split:
    """The best way to split a sub-graph: `factor` pieces along axis `axis` of its outputs, which `operators` follow."""

    axis: int
    factor: int
    operators: int
    peak_bytes: int

    @property
    def fits(self) -> bool:
        return self.factor < UNSPLITTABLE


@dataclass(frozen=True, slots=True)
class AxisSplit:
    """One axis along which the outputs of a sub-graph may be split, and who follows."""

    extent: int  # the least of the outputs
    inputs: Mapping[str, int]  # tensor -> its axis that follows, those that are needed whole left out
    followers: Followers


def factors(extent: int) -> Iterator[int]:
    """Candidates for the number of pieces: 1, 2, 4, 8, 9, 10, ..., the extent.

    3, 5, 6 and 7 are left out: pieces that 8 cores cannot share evenly.
    """
    yield from (v for v in (1, 2, 4) if v <= extent)
    yield from range(8, extent + 1)


def best_split(graph: Graph, operators: Sequence[Operator], capacity_bytes: int) -> Split:
    """The split that most operators follow, then the one of fewest pieces, then along the outermost axis.

    Per axis the number of pieces is the smallest whose share of the peak fits in `capacity_bytes`, or a divisor of the
    extent that is little larger. An intermediate
    tensor follows a split where the operators from it to the output move one of its axes with the axis that is split,
    and the number of pieces divides its extent. Where no split fits, the factor is `UNSPLITTABLE`.
    """
    peak_bytes = least_peak(graph, operators).peak_bytes
    return choose(axis_splits(graph, operators), peak_bytes, capacity_bytes)


def choose(axes: Iterable[AxisSplit], peak_bytes: int, capacity_bytes: int) -> Split:
    """The best split along one of the axes of a sub-graph with that peak, as `best_split` says."""
    at_least = ceil_div(peak_bytes, capacity_bytes)
    found = [Split(0, UNSPLITTABLE, 0, peak_bytes)]
    for axis, along in enumerate(axes):
        factor = least_factor(along.extent, at_least)
        if factor is not None:
            moved = sum(
                count for extents, count in along.followers.items() if any(extent % factor == 0 for extent in extents)
            )
            found.append(Split(axis, factor, moved, peak_bytes))
    return max(found, key=lambda split: (split.fits, split.operators, -split.factor, -split.axis))


def axis_splits(graph: Graph, operators: Sequence[Operator]) -> list[AxisSplit]:
    """Every axis that all outputs of some operators have, and what follows a split along it."""
    outputs = results_of(graph, operators)
    made_by = [op.outputs for op in operators]
    made = {name for names in made_by for name in names}
    found = []
    for axis in range(min(len(graph.tensors[name].shape) for name in outputs)):
        extent = min(graph.tensors[name].shape[axis] for name in outputs)
        following = axes_that_follow(graph, operators, dict.fromkeys(outputs, axis))
        followers: Counter[tuple[int, ...]] = Counter()
        for names in made_by:
            extents = [graph.tensors[name].shape[following[name]] for name in names if name in following]
            followers[tuple(dict.fromkeys(extents))] += 1
        inputs = {name: axis for name, axis in following.items() if name not in made}
        found.append(AxisSplit(extent, inputs, followers))
    return found


def results_of(graph: Graph, operators: Sequence[Operator]) -> list[str]:
    """The tensors that some operators make for others, for the network's outputs, or for nobody, each once."""
    inside = {op.name for op in operators}

    def leaves(name: str) -> bool:
        readers = graph.consumers.get(name, ())
        return name in graph.outputs or not readers or any(op.name not in inside for op in readers)

    return list(dict.fromkeys(name for op in operators for name in op.outputs if leaves(name)))


def extended(first: Sequence[AxisSplit], second: Sequence[AxisSplit], tensor: str) -> list[AxisSplit]:
    """The axes of two sub-graphs together, where all that leaves the first is `tensor`, and only the second reads it.

    What follows among the inputs of the first is left out.
    """
    found = []
    for along in second:
        axis = along.inputs.get(tensor)
        followers = along.followers if axis is None else Counter(along.followers) + Counter(first[axis].followers)
        found.append(AxisSplit(along.extent, along.inputs, followers))
    return found


def least_factor(extent: int, at_least: int) -> int | None:
    """The least of `factors(extent)` that is not below `at_least`, but a divisor where less than twice as many is one.

    INFERRED: the paper takes the least, and counts only those operators as followers whose extent it divides. So 32
    images are cut into 16 pieces rather than into 10, of which some are larger than others.
    """
    least = next((factor for factor in (*factors(min(extent, 8)), at_least) if at_least <= factor <= extent), None)
    if least is None or extent % least == 0:
        return least
    if least <= extent // least:
        return next((factor for factor in range(least, 2 * least) if extent % factor == 0), least)
    parts = range(extent // least, (extent - 1) // (2 * least), -1)  # the sizes of parts, which are fewer
    return next((extent // part for part in parts if extent % part == 0), least)

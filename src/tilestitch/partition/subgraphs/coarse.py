"""Coarse sub-graphs: operators merged as long as their pieces use the local buffers as well as they did apart.

Source: Zhao et al., GraphTurbo, OSDI 2023, section 3.2, Algorithm 2. INFERRED where the paper leaves a choice: which
branch of an exit is merged (the latest whose only reader is the exit), that every path of a diamond is one sub-graph
between the same entry and exit, and that the copies of a concatenation are one node.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tilestitch.ir.graph import Graph, Operator
from tilestitch.partition.subgraphs.liveness import Arrangement, Arranger
from tilestitch.partition.subgraphs.splitting import AxisSplit, Split, axis_splits, choose, extended, results_of

_WIDE = 64  # operators side by side in groups to be merged; beyond, the largest group keeps its order


@dataclass(frozen=True, slots=True)
class CoarseGroup:
    """Operators, in the order of the graph, that become one sub-graph, and its best split."""

    operators: tuple[str, ...]
    split: Split


def coarse_groups(
    graph: Graph,
    capacity_bytes: int,
    *,
    peak_bytes: Callable[[Graph, Sequence[Operator]], int] | None = None,
) -> tuple[CoarseGroup, ...]:
    """Merge single operators until nothing changes; `capacity_bytes` is what the local buffers of a cluster hold.

    Groups come in an order in which they can run, by their last operators. The work grows with the operators and
    with the sizes of the groups that are merged other than one behind the other; with `peak_bytes`, another way to
    count what a sub-graph needs than by its best order, always with those sizes.
    """
    return _Merging(graph, capacity_bytes, peak_bytes).run()


@dataclass(slots=True)
class _Group:
    arrangement: Arrangement
    leaving: list[str]  # tensors that it makes for others
    axes: list[AxisSplit]
    split: Split
    grown: bool  # whether `axes` know only some of the inputs


class _Merging:
    """Groups that grow. A group has the number of its last node, so numbers are a running order."""

    def __init__(
        self, graph: Graph, capacity_bytes: int, peak_bytes: Callable[[Graph, Sequence[Operator]], int] | None
    ) -> None:
        self.graph, self.capacity_bytes, self.peak_bytes = graph, capacity_bytes, peak_bytes
        self.arranger = Arranger(graph, graph.operators)
        self.groups = {number: self._group([number]) for number in range(len(self.arranger.nodes))}
        self.producers: dict[int, set[int]] = {number: set() for number in self.groups}
        self.consumers: dict[int, set[int]] = {number: set() for number in self.groups}
        for number, tensors in enumerate(self.arranger.reads):
            for tensor in tensors:
                for maker in self.arranger.makers[tensor]:
                    self._connect(maker, number)
        self.refused: set[tuple[tuple[int, int], ...]] = set()  # number and size of each group of a merge

    def _connect(self, producer: int, consumer: int) -> None:
        self.producers[consumer].add(producer)
        self.consumers[producer].add(consumer)

    def _operators(self, arrangement: Arrangement) -> list[Operator]:
        return [op for number in sorted(arrangement.inside) for op in self.arranger.nodes[number]]

    def _group(self, nodes: Iterable[int]) -> _Group:
        arrangement = self.arranger.arrange(nodes)
        operators = self._operators(arrangement)
        axes = axis_splits(self.graph, operators)
        peak = arrangement.peak_bytes if self.peak_bytes is None else self.peak_bytes(self.graph, operators)
        split = choose(axes, peak, self.capacity_bytes)
        return _Group(arrangement, results_of(self.graph, operators), axes, split, grown=False)

    def run(self) -> tuple[CoarseGroup, ...]:
        sweeps: tuple[Callable[[int], bool], ...] = (self._straight, self._diamond, self._branch)
        before = -1
        while len(self.groups) != before:
            before = len(self.groups)
            for sweep in sweeps:
                for number in sorted(self.groups):
                    while number in self.groups and sweep(number):
                        pass
        found = []
        for _, group in sorted(self.groups.items()):
            operators = self._operators(group.arrangement)
            found.append(CoarseGroup(tuple(op.name for op in operators), group.split))
        return tuple(found)

    def _straight(self, number: int) -> bool:
        """Merge a group with its only producer, whose only consumer it is."""
        if len(self.producers[number]) != 1:
            return False
        (producer,) = self.producers[number]
        return len(self.consumers[producer]) == 1 and self._merge_pair(producer, number)

    def _branch(self, number: int) -> bool:
        """Merge an exit with one of its several producers that leads nowhere else, the latest that may be merged."""
        if len(self.producers[number]) < 2:
            return False
        only = [producer for producer in self.producers[number] if len(self.consumers[producer]) == 1]
        return any(self._merge_pair(producer, number) for producer in sorted(only, reverse=True))

    def _merge_pair(self, producer: int, consumer: int) -> bool:
        """Rule (i): the factor does not shrink from producer to consumer, and does not grow by merging."""
        factor = self.groups[consumer].split.factor
        return factor >= self.groups[producer].split.factor and self._merge((producer, consumer), factor)

    def _diamond(self, number: int) -> bool:
        """Merge an exit with all paths to it, each one group between the same entry and this exit.

        Rule (ii): the factor does not grow beyond the largest.
        """
        paths = self.producers[number]
        if len(paths) < 2 or not all(len(self.consumers[path]) == 1 for path in paths):
            return False
        entries = {frozenset(self.producers[path]) for path in paths}
        if len(entries) != 1 or len(next(iter(entries))) != 1:
            return False
        largest = max(self.groups[group].split.factor for group in (*paths, number))
        return self._merge((*sorted(paths), number), largest)

    def _merge(self, numbers: tuple[int, ...], most: int) -> bool:
        """Merge groups into the last of them where they fit together in at most that many pieces."""
        tried = tuple((number, len(self.groups[number].arrangement.inside)) for number in numbers)
        if tried in self.refused:
            return False
        groups = [self.groups[number] for number in numbers]
        merged = self._behind(groups[0], groups[1], most) if len(groups) == 2 else None
        if merged is None:
            merged = self._unsearched(groups, most)
        if merged is None:
            merged = self._group(number for group in groups for number in group.arrangement.inside)
        if not merged.split.fits or merged.split.factor > most:
            self.refused.add(tried)
            return False
        *others, kept = numbers
        for number in others:
            for producer in self.producers.pop(number):
                self.consumers[producer].discard(number)
                self._connect(producer, kept)
            for consumer in self.consumers.pop(number):
                if consumer in self.producers:
                    self.producers[consumer].discard(number)
                    if consumer != kept:
                        self._connect(kept, consumer)
            del self.groups[number]
        self.producers[kept] -= set(numbers)
        self.consumers[kept] -= set(numbers)
        self.groups[kept] = merged
        return True

    def _behind(self, first: _Group, second: _Group, most: int) -> _Group | None:
        """Both as one group where all of the second runs after the first and reads all that leaves it.

        None where that is not so. If they may be merged, `first` has grown to be the result.
        """
        if self.peak_bytes is not None or len(first.leaving) != 1 or first.leaving[0] in self.graph.outputs:
            return None
        tail = self.arranger.tail(first.arrangement, second.arrangement)
        if tail is None:
            return None
        if second.grown:
            second.axes = axis_splits(self.graph, self._operators(second.arrangement))
            second.grown = False
        axes = extended(first.axes, second.axes, first.leaving[0])
        split = choose(axes, tail.peak_bytes, self.capacity_bytes)
        if split.fits and split.factor <= most:
            self.arranger.append(first.arrangement, second.arrangement, tail)
        return _Group(first.arrangement, second.leaving, axes, split, grown=True)

    def _unsearched(self, groups: Sequence[_Group], most: int) -> _Group | None:
        """All as one group, the largest first and in the order that it has; the last reads all that leaves the others.

        For groups with many operators side by side, one of which is larger than the others together: so an operator is
        arranged again only where its group at least doubles. None for other groups. If they may be merged, the largest
        has grown to be the result.
        """
        *others, last = groups
        first = max(others, key=lambda group: len(group.arrangement.inside))
        wide = sum(group.arrangement.widest for group in groups) > _WIDE
        rest = [number for group in groups if group is not first for number in group.arrangement.inside]
        if self.peak_bytes is not None or not wide or len(rest) > len(first.arrangement.inside):
            return None
        if any(len(group.leaving) != 1 or group.leaving[0] in self.graph.outputs for group in others):
            return None
        axes = axis_splits(self.graph, self._operators(last.arrangement)) if last.grown else last.axes
        for group in others:
            axes = extended(group.axes, axes, group.leaving[0])
        behind = last.arrangement if len(others) == 1 else self.arranger.arrange(rest)
        tail = self.arranger.unsearched_tail(first.arrangement, behind)
        split = choose(axes, tail.peak_bytes, self.capacity_bytes)
        if split.fits and split.factor <= most:
            self.arranger.append(first.arrangement, behind, tail)
        return _Group(first.arrangement, last.leaving, axes, split, grown=True)

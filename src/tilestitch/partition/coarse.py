"""Coarse sub-graphs: operators merged as long as their pieces use the local buffers as well as they did apart.

Source: Zhao et al., GraphTurbo, OSDI 2023, section 3.2, Algorithm 2. INFERRED where the paper leaves a choice: which
branch of an exit is merged (the latest whose only reader is the exit), and that every path of a diamond is one
sub-graph between the same entry and exit.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tilestitch.ir.graph import Graph, Operator
from tilestitch.partition.splitting import Split, best_split


@dataclass(frozen=True, slots=True)
class CoarseGroup:
    """Operators, in the order of the graph, that become one sub-graph, and its best split."""

    operators: tuple[str, ...]
    split: Split


def coarse_groups(graph: Graph, capacity_bytes: int) -> tuple[CoarseGroup, ...]:
    """Merge single operators until nothing changes; `capacity_bytes` is what the local buffers of a cluster hold.

    Groups come in an order in which they can run, by their last operators.
    """
    return _Merging(graph, capacity_bytes).run()


class _Merging:
    """Groups that grow. A group has the number of its last operator, so numbers are a running order."""

    def __init__(self, graph: Graph, capacity_bytes: int) -> None:
        self.graph, self.capacity_bytes = graph, capacity_bytes
        self.position = {op.name: number for number, op in enumerate(graph.operators)}
        self.members: dict[int, tuple[Operator, ...]] = {n: (op,) for n, op in enumerate(graph.operators)}
        self.group_of = dict(self.position)
        self.producers: dict[int, set[int]] = {n: set() for n in self.members}
        self.consumers: dict[int, set[int]] = {n: set() for n in self.members}
        for op in graph.operators:
            for name in op.inputs:
                for writer in graph.producers.get(name, ()):
                    self._connect(self.position[writer.name], self.position[op.name])
        self.splits = {n: self._split(members) for n, members in self.members.items()}

    def _connect(self, producer: int, consumer: int) -> None:
        self.producers[consumer].add(producer)
        self.consumers[producer].add(consumer)

    def _split(self, members: Sequence[Operator]) -> Split:
        return best_split(self.graph, members, self.capacity_bytes)

    def run(self) -> tuple[CoarseGroup, ...]:
        sweeps: tuple[Callable[[int], bool], ...] = (self._straight, self._diamond, self._branch)
        before = -1
        while len(self.members) != before:
            before = len(self.members)
            for sweep in sweeps:
                for number in sorted(self.members):
                    while number in self.members and sweep(number):
                        pass
        found = (self.members[number] for number in sorted(self.members))
        return tuple(
            CoarseGroup(tuple(op.name for op in members), self.splits[number])
            for number, members in zip(sorted(self.members), found, strict=True)
        )

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
        if self.splits[consumer].factor < self.splits[producer].factor:
            return False
        return self._merge((producer, consumer), lambda split: split.factor <= self.splits[consumer].factor)

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
        largest = max(self.splits[group].factor for group in (*paths, number))
        return self._merge((*sorted(paths), number), lambda split: split.factor <= largest)

    def _merge(self, groups: Iterable[int], allowed: Callable[[Split], bool]) -> bool:
        groups = tuple(groups)
        members = tuple(
            sorted((op for group in groups for op in self.members[group]), key=lambda op: self.position[op.name])
        )
        split = self._split(members)
        if not split.fits or not allowed(split):
            return False
        kept = groups[-1]
        for group in groups[:-1]:
            for producer in self.producers.pop(group):
                self.consumers[producer].discard(group)
                self._connect(producer, kept)
            for consumer in self.consumers.pop(group):
                if consumer in self.producers:
                    self.producers[consumer].discard(group)
                    if consumer != kept:
                        self._connect(kept, consumer)
            del self.members[group], self.splits[group]
        self.producers[kept] -= set(groups)
        self.consumers[kept] -= set(groups)
        self.members[kept], self.splits[kept] = members, split
        return True

"""TVM's FuseOps: groups of at most one anchor (a convolution, a product, a pool) and the element-wise work after it.

Source: Chen et al., TVM, OSDI 2018, section 3, for the classes of operators; the rule itself as TVM 0.27 applies it,
whose groups for three networks are in tests/data/tvm.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilestitch.ir.graph import Graph
from tilestitch.ir.partition import Group
from tilestitch.ops import Pattern, pattern
from tilestitch.partition.groups.in_order import in_order

_MOST_OPERATORS = 256  # relax.FuseOps.max_depth


def fuse_ops(graph: Graph) -> tuple[Group, ...]:
    """Group the operators of a network, views included, as TVM's FuseOps does.

    Each operator is considered in order, and fused with its immediate post-dominator (the first operator through
    which everything that is made from its result must pass) and all operators between them, where their classes
    allow it. Anchors take what follows them in the first sweep, views and concatenations move in the second. (TVM's
    third sweep concerns tuples, and its parameters and constants are operators of their own; neither exists here.)

    A graph output leaves its group, so the operator that makes it has no post-dominator.
    """
    readers = _readers(graph)
    patterns = [pattern(op) for op in graph.operators]
    extern = [any(name in graph.outputs for name in op.outputs) for op in graph.operators]
    dominators = _post_dominators(readers, patterns, extern)
    fusion = _Fusion.start(readers, patterns)
    for sweep in (0, 1):
        for number, dominator in enumerate(dominators):
            if dominator is not None and fusion.allows(number, dominator, sweep):
                fusion.commit(number, dominator.node)
    groups: dict[int, list[str]] = {}
    for number, op in enumerate(graph.operators):
        groups.setdefault(fusion.root(number), []).append(op.name)
    return in_order(graph, map(tuple, groups.values()))


def _readers(graph: Graph) -> list[tuple[int, ...]]:
    """Per operator, the numbers of the operators that read what it writes, in order."""
    return [
        tuple(sorted({graph.position[reader.name] for name in op.outputs for reader in graph.consumers.get(name, ())}))
        for op in graph.operators
    ]


@dataclass(frozen=True, slots=True)
class _Dominator:
    """An immediate post-dominator, and the worst pattern on all paths to it, its own included."""

    node: int
    worst: Pattern


def _post_dominators(
    readers: Sequence[tuple[int, ...]], patterns: Sequence[Pattern], extern: Sequence[bool]
) -> list[_Dominator | None]:
    """Per operator its immediate post-dominator: the least common ancestor of its readers, found from the end."""
    found: list[_Dominator | None] = [None] * len(readers)
    depth = [1] * len(readers)

    def common(first: int, second: int, worst: Pattern) -> tuple[int | None, Pattern]:
        """Where two chains of dominators meet, and the worst of `worst` and the patterns on the way there."""
        a: int | None = first
        b: int | None = second
        while a != b:
            if a is None or b is None:
                return None, worst
            up_a, up_b = depth[a] >= depth[b], depth[b] >= depth[a]
            if up_a:
                a, worst = _up(found[a], worst)
            if up_b:
                b, worst = _up(found[b], worst)
        return a, worst

    for number in reversed(range(len(readers))):
        if extern[number] or not readers[number]:
            continue
        meeting: int | None = readers[number][0]
        worst = max(patterns[reader] for reader in readers[number])
        for reader in readers[number][1:]:
            if meeting is not None:
                meeting, worst = common(meeting, reader, worst)
        if meeting is not None:
            found[number] = _Dominator(meeting, worst)
            depth[number] = depth[meeting] + 1
    return found


def _up(dominator: _Dominator | None, worst: Pattern) -> tuple[int | None, Pattern]:
    """One step up a chain; a chain that ends there passes through the unknown outside."""
    if dominator is None:
        return None, Pattern.OPAQUE
    return dominator.node, max(worst, dominator.worst)


@dataclass
class _Fusion:
    """Groups that grow: a union-find over operators in which the later operator is the root."""

    readers: Sequence[tuple[int, ...]]
    pattern: list[Pattern]  # of the group while its operator is its root; an anchor raises it
    parent: list[int]
    size: list[int]

    @staticmethod
    def start(readers: Sequence[tuple[int, ...]], patterns: Sequence[Pattern]) -> "_Fusion":
        """Every operator is a group."""
        return _Fusion(readers, list(patterns), list(range(len(readers))), [1] * len(readers))

    def root(self, number: int) -> int:
        while self.parent[number] != number:
            number = self.parent[number]
        return number

    def allows(self, number: int, dominator: _Dominator, sweep: int) -> bool:
        """Whether operator `number` may join its post-dominator in this sweep."""
        # the pattern that the group had when another took it in, as TVM's does
        mine, sink = self.pattern[number], dominator.node
        if mine is Pattern.OPAQUE or self.root(number) == self.root(sink):
            return False
        between = self._between(number, sink)
        if self.size[self.root(sink)] + self.size[number] + sum(self.size[n] for n in between) > _MOST_OPERATORS:
            return False
        if mine is Pattern.OUT_ELEMENTWISE_FUSABLE:
            return (
                sweep == 0
                and dominator.worst is Pattern.ELEMENTWISE
                and self._all(between, _at_most_broadcast)
                and _at_most_broadcast(self.pattern[self.root(sink)])
            )
        if mine <= Pattern.BROADCAST:
            return (
                (dominator.worst <= Pattern.INJECTIVE or dominator.worst is Pattern.REDUCE)
                and self._all(between, _at_most_injective)
                and self.pattern[self.root(sink)] is not Pattern.OPAQUE
            )
        return (
            mine is Pattern.INJECTIVE
            and sweep == 1
            and self._all(between, _at_most_injective)
            and _at_most_injective(self.pattern[self.root(sink)])
        )

    def commit(self, number: int, sink: int) -> None:
        """Move operator `number`, and every group between it and `sink`, into the group of `sink`."""
        target = self.root(sink)
        for node in (number, *self._between(number, sink)):
            child = self.root(node)
            if child == target:
                continue
            self.parent[child] = target
            self.size[target] += self.size[child]
            if self.pattern[child] is Pattern.OUT_ELEMENTWISE_FUSABLE:  # the group's anchor
                self.pattern[target] = max(self.pattern[target], Pattern.OUT_ELEMENTWISE_FUSABLE)

    def _between(self, number: int, sink: int) -> list[int]:
        """Operators on the paths from `number` to `sink`, both excluded."""
        found: dict[int, None] = {}
        waiting = list(self.readers[number])
        while waiting:
            node = waiting.pop()
            if node != sink and node not in found:
                found[node] = None
                waiting.extend(self.readers[node])
        return list(found)

    def _all(self, nodes: Sequence[int], accepts: Callable[[Pattern], bool]) -> bool:
        return all(accepts(self.pattern[self.root(node)]) for node in nodes)


def _at_most_broadcast(kind: Pattern) -> bool:
    return kind <= Pattern.BROADCAST


def _at_most_injective(kind: Pattern) -> bool:
    return kind <= Pattern.INJECTIVE

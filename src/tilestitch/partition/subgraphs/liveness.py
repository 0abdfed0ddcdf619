"""How much memory a set of operators needs at once: live tensors at each step, and the order that needs least.

The operators fall into stretches, cut where every earlier operator comes before the last of a stretch and every later
one after it: orders do not cross there. So each stretch is searched alone, equal ones once, and a set that grows at
its end keeps the stretches that it had.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tilestitch.ir.graph import DimKind, Graph, Operator
from tilestitch.partition.subgraphs.pattern import Best, Pattern
from tilestitch.partition.subgraphs.stretch import best_order, given_order


@dataclass(frozen=True, slots=True)
class Liveness:
    """Operators in an order, and the largest number of bytes that are live while one of them runs."""

    order: tuple[str, ...]
    peak_bytes: int


def least_peak(graph: Graph, operators: Sequence[Operator]) -> Liveness:
    """The order of `operators` (given in one in which they can run) whose peak is least.

    Live are the tensors that they read from outside from their first reader among them to their last, and those that
    they make until their last reader has run, or to the end where others read them; constants do not count. The
    result of an operator that goes through an operand element by element, or row by row, takes its place where it
    ends with it. Copies that make one tensor, one behind the other, count as one operator: a concatenation. The order
    is exact as far as its search stays small (`stretch.best_order`).
    """
    arranger = Arranger(graph, operators)
    found = arranger.arrange(range(len(arranger.nodes)))
    order = (op.name for stretch in found.stretches for node in stretch.order for op in arranger.nodes[node])
    return Liveness(tuple(order), found.peak_bytes)


def given_peak_bytes(graph: Graph, operators: Sequence[Operator]) -> int:
    """The peak of operators in the order in which they are given, all that they read from outside live from the start.

    What a scheduler would believe that does not search; GraphTurbo's own sub-graphs do not follow from it.
    """
    arranger = Arranger(graph, operators)
    pattern, before_bytes = arranger.whole_pattern()
    return before_bytes + given_order(pattern).peak_bytes


@dataclass(frozen=True, slots=True)
class Stretch:
    """Nodes in the order of least peak; no order crosses its ends."""

    order: tuple[int, ...]
    after_bytes: int  # live after the last of them
    peak_bytes: int  # the largest while they, or any before them, run


@dataclass(slots=True)
class Arrangement:
    """A set of nodes in the order of least peak. It grows by `Arranger.append`."""

    inside: set[int]
    sources: list[int]  # those that wait for none of the others
    sinks: list[int]  # those for which none of the others waits
    stretches: list[Stretch]
    first_read: dict[int, int]  # tensor from outside -> number of the stretch that reads it first
    last_read: dict[int, int]
    widest: int = 0  # nodes of the largest stretch that it had

    @property
    def peak_bytes(self) -> int:
        return self.stretches[-1].peak_bytes


@dataclass(frozen=True, slots=True)
class Tail:
    """What replaces the stretches of an arrangement from number `start` on when others are appended to it."""

    start: int
    stretches: Sequence[Stretch]

    @property
    def peak_bytes(self) -> int:
        return self.stretches[-1].peak_bytes


class Arranger:
    """Arranges operators of one graph, and keeps the stretches that were searched.

    A node is an operator, or the copies that make one tensor; nodes have numbers in the order of the operators.
    """

    def __init__(self, graph: Graph, operators: Sequence[Operator]) -> None:
        self.nodes = _nodes(operators)
        names = [name for name in graph.tensors if name not in graph.constants]
        tensors = {name: number for number, name in enumerate(names)}
        self.size_bytes = [graph.tensors[name].size_bytes for name in names]
        inside = {op.name for op in operators}
        self.reads: list[tuple[int, ...]] = []
        self.makes: list[tuple[int, ...]] = []
        self.readers: list[list[int]] = [[] for _ in tensors]
        self.makers: list[list[int]] = [[] for _ in tensors]
        for number, node in enumerate(self.nodes):
            reads = dict.fromkeys(tensors[name] for op in node for name in op.inputs if name in tensors)
            makes = dict.fromkeys(tensors[name] for op in node for name in op.outputs)
            self.reads.append(tuple(reads))
            self.makes.append(tuple(makes))
            for tensor in reads:
                self.readers[tensor].append(number)
            for tensor in makes:
                self.makers[tensor].append(number)
        self.in_place = [len(node) == 1 and _in_place(node[0]) for node in self.nodes]
        self.needed = {  # by others than the operators
            number
            for name, number in tensors.items()
            if name in graph.outputs or any(reader.name not in inside for reader in graph.consumers.get(name, ()))
        }
        self.solved: dict[Pattern, Best] = {}

    def arrange(self, nodes: Iterable[int]) -> Arrangement:
        """A set of nodes, not empty, in the order of least peak."""
        members = sorted(nodes)
        found = Arrangement(set(members), [], [], [], {}, {})
        cuts, found.sources, found.sinks = self._cuts(members)
        self._extend(found, Tail(0, self._arrange(members, cuts, found, None, 0)))
        return found

    def tail(self, first: Arrangement, second: Arrangement) -> Tail | None:
        """The end of `first` with `second` behind it; None unless all of `second` runs after all of `first`.

        Searched again is only what `second` changes: from the last stretch of `first` on that reads a tensor from
        outside that `second` reads as well, so that it does not end there.
        """
        if len(first.sinks) > 1 or not all(self._reads_from(first.sinks[0], source) for source in second.sources):
            return None
        start = _last_common_read(first, second)
        members = sorted(number for stretch in first.stretches[start:] for number in stretch.order)
        members += sorted(second.inside)
        return Tail(start, self._arrange(members, self._cuts(members)[0], first, second, start))

    def unsearched_tail(self, first: Arrangement, second: Arrangement) -> Tail:
        """The end of `first` with `second` behind it, each in the order that it has.

        For a `first` that waits for nothing in `second`. Another may be better where they could run side by side.
        """
        start = _last_common_read(first, second)
        cuts = [list(stretch.order) for stretch in (*first.stretches[start:], *second.stretches)]
        members = [number for stretch in cuts for number in stretch]
        return Tail(start, self._arrange(members, cuts, first, second, start, search=False))

    def append(self, first: Arrangement, second: Arrangement, tail: Tail) -> None:
        """Grow `first` by `second`; `tail` is what one of the two methods above found for them."""
        first.sinks = [sink for sink in first.sinks if not self._read_in(sink, second)] + second.sinks
        first.sources += [source for source in second.sources if not self._waits_for(source, first)]
        first.inside |= second.inside
        first.widest = max(first.widest, second.widest)
        self._extend(first, tail)

    def _read_in(self, maker: int, inside: Arrangement) -> bool:
        return any(reader in inside.inside for tensor in self.makes[maker] for reader in self.readers[tensor])

    def _waits_for(self, reader: int, inside: Arrangement) -> bool:
        return any(maker in inside.inside for tensor in self.reads[reader] for maker in self.makers[tensor])

    def _reads_from(self, maker: int, reader: int) -> bool:
        return any(tensor in self.makes[maker] for tensor in self.reads[reader])

    def _extend(self, found: Arrangement, tail: Tail) -> None:
        del found.stretches[tail.start :]
        seen: set[int] = set()
        for stretch in tail.stretches:
            for node in stretch.order:
                for tensor in self.reads[node]:
                    if any(maker in found.inside for maker in self.makers[tensor]):
                        continue
                    found.last_read[tensor] = len(found.stretches)
                    if tensor not in seen and found.first_read.get(tensor, tail.start) >= tail.start:
                        found.first_read[tensor] = len(found.stretches)
                    seen.add(tensor)
            found.stretches.append(stretch)
            found.widest = max(found.widest, len(stretch.order))

    def _cuts(self, members: Sequence[int]) -> tuple[list[list[int]], list[int], list[int]]:
        """The stretches of some nodes, their sources and their sinks."""
        count = len(members)
        place = {number: at for at, number in enumerate(members)}
        waits_for = [-1] * count  # the last that each waits for
        waited_by = [count] * count  # the first that waits for each
        for at, number in enumerate(members):
            for tensor in self.reads[number]:
                for maker in self.makers[tensor]:
                    before = place.get(maker)
                    if before is not None:
                        waits_for[at] = max(waits_for[at], before)
                        waited_by[before] = min(waited_by[before], at)
        forced = [False] * count  # whether all later ones come after each
        earliest = count
        for at in reversed(range(count)):
            forced[at] = earliest >= at
            earliest = min(earliest, waits_for[at])
        stretches: list[list[int]] = [[]]
        latest = 0
        for at, number in enumerate(members):
            stretches[-1].append(number)
            if latest <= at and forced[at] and at + 1 < count:  # and whether all earlier ones come before it
                stretches.append([])
            latest = max(latest, waited_by[at])
        sources = [number for number, before in zip(members, waits_for, strict=True) if before < 0]
        sinks = [number for number, after in zip(members, waited_by, strict=True) if after == count]
        return stretches, sources, sinks

    def _arrange(
        self,
        members: Sequence[int],
        cuts: list[list[int]],
        first: Arrangement,
        second: Arrangement | None,
        start: int,
        *,
        search: bool = True,
    ) -> list[Stretch]:
        """Search each stretch of `cuts`, which run after `start` stretches of `first`, or leave its order as it is."""
        here = set(members)

        def inside(node: int) -> bool:
            return node in first.inside or (second is not None and node in second.inside)

        def live_before(tensor: int) -> bool:
            makers = [maker for maker in self.makers[tensor] if inside(maker)]
            return any(maker not in here for maker in makers) or first.first_read.get(tensor, start) < start

        def needed_after(tensor: int) -> bool:
            if not any(inside(maker) for maker in self.makers[tensor]):
                return False
            return tensor in self.needed or not all(inside(reader) for reader in self.readers[tensor])

        touched = [
            list(dict.fromkeys(tensor for node in stretch for tensor in (*self.reads[node], *self.makes[node])))
            for stretch in cuts
        ]
        last = {tensor: at for at, tensors in enumerate(touched) for tensor in tensors}
        kept = {tensor for tensor in last if needed_after(tensor)}
        begun = {tensor for tensor in last if live_before(tensor)}
        live = first.stretches[start - 1].after_bytes if start > 0 else 0
        peak = first.stretches[start - 1].peak_bytes if start > 0 else 0
        found: list[Stretch] = []
        for at, stretch in enumerate(cuts):
            ending = {tensor for tensor in touched[at] if last[tensor] == at and tensor not in kept}
            pattern = self._pattern(stretch, touched[at], begun, ending)
            best = self._best(pattern) if search else given_order(pattern)
            peak = max(peak, live + best.peak_bytes)
            live += best.after_bytes
            begun.update(touched[at])
            found.append(Stretch(tuple(stretch[number] for number in best.order), live, peak))
        return found

    def _best(self, pattern: Pattern) -> Best:
        best = self.solved.get(pattern)
        if best is None:
            best = self.solved[pattern] = best_order(pattern)
        return best

    def _pattern(self, nodes: Sequence[int], touched: Sequence[int], live: set[int], ending: set[int]) -> Pattern:
        tensors = {tensor: number for number, tensor in enumerate(touched)}
        return Pattern(
            tuple(self.size_bytes[tensor] for tensor in tensors),
            tuple(tensor in live for tensor in tensors),
            tuple(tensor in ending for tensor in tensors),
            tuple(tuple(tensors[tensor] for tensor in self.reads[node]) for node in nodes),
            tuple(tuple(tensors[tensor] for tensor in self.makes[node]) for node in nodes),
            tuple(self.in_place[node] for node in nodes),
        )

    def whole_pattern(self) -> tuple[Pattern, int]:
        """All nodes with what they read from outside live before them, and its bytes."""
        nodes = range(len(self.nodes))
        touched = list(dict.fromkeys(tensor for node in nodes for tensor in (*self.reads[node], *self.makes[node])))
        outside = {tensor for tensor in touched if not self.makers[tensor]}
        ending = {tensor for tensor in touched if tensor in outside or tensor not in self.needed}
        return self._pattern(nodes, touched, outside, ending), sum(self.size_bytes[tensor] for tensor in outside)


def _last_common_read(first: Arrangement, second: Arrangement) -> int:
    """From which stretch of `first` on `second` changes it: the first at which a tensor would end that both read."""
    few, many = sorted((first.last_read, second.last_read), key=len)
    return min((first.last_read[tensor] for tensor in few if tensor in many), default=len(first.stretches))


def _nodes(operators: Sequence[Operator]) -> list[tuple[Operator, ...]]:
    """Operators one by one, but copies into one tensor that follow one another together."""
    found: list[tuple[Operator, ...]] = []
    for op in operators:
        if op.kind == "copy" and found and found[-1][0].kind == "copy" and found[-1][0].outputs == op.outputs:
            found[-1] = (*found[-1], op)
        else:
            found.append((op,))
    return found


def _in_place(op: Operator) -> bool:
    """Whether the result may take the place of an operand: it is made in the same order, and nothing is summed."""
    summed = any(dim.kind is DimKind.REDUCTION for dim in op.dims)
    return len(op.writes) == 1 and not summed and any(read.axes == op.writes[0].axes for read in op.reads)

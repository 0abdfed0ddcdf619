"""How much memory a set of operators needs at once: live tensors at each step, and the order that needs least."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from tilestitch.ir.graph import DimKind, Graph, Operator

_STATES = 4_000  # of the search for the best order of one stretch of operators; beyond, the order of the graph stands


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
    ends with it. Between points at which a single tensor is live the order is searched exactly, least peak first, as
    far as the search stays small.
    """
    return _Search(graph, operators).run()


class _Search:
    """Bit masks over operators and tensors of one set."""

    def __init__(self, graph: Graph, operators: Sequence[Operator]) -> None:
        self.names = [op.name for op in operators]
        inside = set(self.names)
        made = {name: number for number, op in enumerate(operators) for name in op.outputs}
        self.tensors: dict[str, int] = {}
        self.sizes: list[int] = []
        self.readers: list[int] = []  # per tensor the operators that read it, as a mask
        self.kept: list[bool] = []  # per tensor whether it is needed after all of them
        self.reads: list[list[int]] = []
        self.makes: list[list[int]] = []
        self.needs: list[int] = []  # per operator those that it waits for, as a mask
        for number, op in enumerate(operators):
            reads = [self._tensor(graph, name, inside) for name in op.inputs if name not in graph.constants]
            for tensor in reads:
                self.readers[tensor] |= 1 << number
            self.reads.append(reads)
            self.makes.append([self._tensor(graph, name, inside) for name in op.outputs])
            waits = 0
            for name in op.inputs:
                if name in made:
                    waits |= 1 << made[name]
            self.needs.append(waits)
        self.in_place = [_in_place(op) for op in operators]
        self.outside = [name not in made for name in self.tensors]

    def _tensor(self, graph: Graph, name: str, inside: set[str]) -> int:
        if name not in self.tensors:
            self.tensors[name] = len(self.tensors)
            self.sizes.append(graph.tensors[name].size_bytes)
            self.readers.append(0)
            made_inside = any(op.name in inside for op in graph.producers.get(name, ()))
            read_outside = any(op.name not in inside for op in graph.consumers.get(name, ()))
            self.kept.append(made_inside and (read_outside or name in graph.outputs))
        return self.tensors[name]

    def run(self) -> Liveness:
        order: list[int] = []
        peak, done, live = 0, 0, 0
        for stretch in self._stretches():
            found = self._best(stretch, done, live)
            for number in found:
                step, live = self._step(number, done, live)
                peak, done = max(peak, step), done | 1 << number
            order.extend(found)
        return Liveness(tuple(self.names[number] for number in order), peak)

    def _step(self, number: int, done: int, live: int) -> tuple[int, int]:
        """Bytes while an operator runs after `done`, and bytes after it."""
        after = done | 1 << number
        ending = [t for t in self.reads[number] if not self.kept[t] and not self.readers[t] & ~after]
        made = sum(self.sizes[t] for t in self.makes[number])
        live += sum(self.sizes[t] for t in self.reads[number] if self.outside[t] and not self.readers[t] & done)
        reused = 0
        if self.in_place[number]:
            reused = max((self.sizes[t] for t in ending if self.sizes[t] == made), default=0)
        dead = sum(self.sizes[t] for t in self.makes[number] if not self.readers[t] and not self.kept[t])
        return live + made - reused, live + made - sum(self.sizes[t] for t in ending) - dead

    def _stretches(self) -> list[list[int]]:
        """Cut the order of the graph where every later operator depends on the last one: orders do not cross there."""
        count = len(self.names)
        ancestors = [0] * count
        for number in range(count):
            waits, found = self.needs[number], self.needs[number]
            while waits:
                low = waits & -waits
                found |= ancestors[low.bit_length() - 1]
                waits ^= low
            ancestors[number] = found
        later = [0] * (count + 1)  # operators that every operator from here on comes after
        later[count] = (1 << count) - 1
        for number in reversed(range(count)):
            later[number] = later[number + 1] & (ancestors[number] | 1 << number)
        stretches: list[list[int]] = [[]]
        for number in range(count):
            stretches[-1].append(number)
            before = (1 << number) - 1
            joined = ancestors[number] & before == before
            if joined and number + 1 < count and later[number + 1] >> number & 1:
                stretches.append([])
        return stretches

    def _best(self, stretch: list[int], done: int, live: int) -> list[int]:
        """The order of one stretch with the least peak: the cheapest path over sets of operators that have run."""
        if len(stretch) <= 2 and all(self.needs[stretch[-1]] >> n & 1 for n in stretch[:-1]):
            return stretch
        goal = done
        for number in stretch:
            goal |= 1 << number
        waiting: list[tuple[int, int, int, int]] = [(0, 0, done, live)]  # peak, -steps, set, live
        came: dict[int, tuple[int, int]] = {}
        best = {done: 0}
        states = 0
        while waiting:
            peak, steps, state, now = heapq.heappop(waiting)
            if peak > best[state]:
                continue
            if state == goal:
                order = []
                while state != done:
                    number, state = came[state]
                    order.append(number)
                return order[::-1]
            states += 1
            if states > _STATES:
                return stretch
            for number in stretch:
                bit = 1 << number
                if state & bit or self.needs[number] & ~state:
                    continue
                step, after = self._step(number, state, now)
                found = max(peak, step)
                if found < best.get(state | bit, 1 << 62):
                    best[state | bit] = found
                    came[state | bit] = number, state
                    heapq.heappush(waiting, (found, steps - 1, state | bit, after))
        raise AssertionError("operators that wait for one another")


def _in_place(op: Operator) -> bool:
    """Whether the result may take the place of an operand: it is made in the same order, and nothing is summed."""
    summed = any(dim.kind is DimKind.REDUCTION for dim in op.dims)
    return len(op.writes) == 1 and not summed and any(read.axes == op.writes[0].axes for read in op.reads)

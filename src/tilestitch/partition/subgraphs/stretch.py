"""The order of a few operators that needs the least memory, found on a pattern of sizes and nothing else.

Equal pieces of a network have equal patterns, so that one search serves all of them.
"""

import heapq
from collections.abc import Iterable, Iterator

from tilestitch.partition.subgraphs.greedy import greedy_order
from tilestitch.partition.subgraphs.pattern import Best, Pattern

_STEPS = 8_000  # that one search looks at; beyond, the best order that was found without it stands


def best_order(pattern: Pattern) -> Best:
    """The order with the least peak; among equal ones the given order, where it is one of them.

    The cheapest path over sets of operators that have run. An operator runs at once where that costs nothing: its
    step stays within the peak so far, and no more is live after it than before. (No order is lost by that: whatever
    runs first instead, the operator would still add nothing, and what others need does not grow when it has run.) A
    search of more than 8,000 steps is given up, and the better of the given order and a greedy one is taken.
    """
    return _Search(pattern).run()


def given_order(pattern: Pattern) -> Best:
    """The operators in the order in which they are given."""
    return _Search(pattern).walk(range(len(pattern.reads)))


class _Search:
    """Bit masks over the operators of a pattern."""

    def __init__(self, pattern: Pattern) -> None:
        self.pattern, self.count = pattern, len(pattern.reads)
        tensors = range(len(pattern.size_bytes))
        self.readers = [0 for _ in tensors]
        self.makers = [0 for _ in tensors]
        for number in range(self.count):
            for tensor in pattern.reads[number]:
                self.readers[tensor] |= 1 << number
            for tensor in pattern.makes[number]:
                self.makers[tensor] |= 1 << number
        self.touchers = [a | b for a, b in zip(self.readers, self.makers, strict=True)]
        self.needs = [0] * self.count  # per operator those that it waits for
        for number, reads in enumerate(pattern.reads):
            for tensor in reads:
                self.needs[number] |= self.makers[tensor]
        self.waiters: list[list[int]] = [[] for _ in range(self.count)]  # per operator those that wait for it
        for number, needs in enumerate(self.needs):
            for other in _members(needs):
                self.waiters[other].append(number)

    def run(self) -> Best:
        given = self.walk(range(self.count))
        least = self._least(given.after_bytes)
        if given.peak_bytes == least:
            return given
        found = min(given, self.walk(greedy_order(self.pattern, least)), key=lambda one: one.peak_bytes)
        if found.peak_bytes == least:
            return found
        better = self._search(least, found.peak_bytes)
        return found if better is None else self.walk(better)

    def _step(self, number: int, done: int, now: int) -> tuple[int, int]:
        """Bytes while an operator runs after the set `done`, and bytes after it."""
        pattern, size_bytes = self.pattern, self.pattern.size_bytes
        left = ~(done | 1 << number)
        made = ended = reused = 0
        for tensor in pattern.makes[number]:
            if not (pattern.live[tensor] or self.touchers[tensor] & done):
                made += size_bytes[tensor]
                if pattern.ends[tensor] and not self.readers[tensor]:
                    ended += size_bytes[tensor]
        for tensor in pattern.reads[number]:
            if not (pattern.live[tensor] or self.touchers[tensor] & done):
                now += size_bytes[tensor]
            if pattern.ends[tensor] and not self.readers[tensor] & left:
                ended += size_bytes[tensor]
                if size_bytes[tensor] == made and pattern.in_place[number]:
                    reused = made
        return now + made - reused, now + made - ended

    def walk(self, order: Iterable[int]) -> Best:
        peak = now = done = 0
        order = tuple(order)
        for number in order:
            step, now = self._step(number, done, now)
            peak, done = max(peak, step), done | 1 << number
        return Best(order, peak, now)

    def _least(self, after_bytes: int) -> int:
        """A peak that no order stays below: what is live at the end, and what one operator touches."""
        pattern, size_bytes = self.pattern, self.pattern.size_bytes
        before = sum(size for size, live in zip(size_bytes, pattern.live, strict=True) if live)
        least = max(0, after_bytes)
        for reads, makes, in_place in zip(pattern.reads, pattern.makes, pattern.in_place, strict=True):
            made = sum(size_bytes[tensor] for tensor in makes)
            same = in_place and any(pattern.ends[tensor] and size_bytes[tensor] == made for tensor in reads)
            touched = sum(size_bytes[tensor] for tensor in reads) + (0 if same else made)
            least = max(least, touched - before)
        return least

    def _ready(self, before: int, number: int, done: int) -> int:
        """The set that may run after `done`, whose last is `number`, from that which might run `before` it."""
        ready = before & ~(1 << number)
        for other in self.waiters[number]:
            if not self.needs[other] & ~done:
                ready |= 1 << other
        return ready

    def _search(self, least: int, limit: int) -> list[int] | None:
        """An order with the least peak if that is below `limit`, or None."""
        goal = (1 << self.count) - 1
        waiting = [(least, 0, 0, 0)]  # peak, -steps, set, live
        came: dict[int, tuple[int, int]] = {}
        best = {0: least}
        ready = {0: sum(1 << number for number, needs in enumerate(self.needs) if not needs)}
        looked_at = 0
        while waiting:
            peak, steps, done, now = heapq.heappop(waiting)
            if peak > best[done]:
                continue
            if done == goal:
                order: list[int] = []
                while done:
                    number, done = came[done]
                    order.append(number)
                return order[::-1]
            if done not in ready:
                last, before = came[done]
                ready[done] = self._ready(ready[before], last, done)
            nexts = []
            for number in _members(ready[done]):
                looked_at += 1
                if looked_at > _STEPS:
                    return None
                step, after = self._step(number, done, now)
                if step <= peak and after <= now:
                    nexts = [(peak, number, after)]
                    break
                nexts.append((max(peak, step), number, after))
            for found, number, after in nexts:
                reached = done | 1 << number
                if found < limit and found < best.get(reached, limit):
                    best[reached], came[reached] = found, (number, done)
                    heapq.heappush(waiting, (found, steps - 1, reached, after))
        return None


def _members(numbers: int) -> Iterator[int]:
    """The numbers of a set, in order."""
    while numbers:
        yield (numbers & -numbers).bit_length() - 1
        numbers &= numbers - 1

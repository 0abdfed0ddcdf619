"""An order of operators that always takes the smallest next step."""

import heapq

from tilestitch.partition.subgraphs.pattern import Pattern


def greedy_order(pattern: Pattern, least: int) -> list[int]:
    """Always the operator with the smallest step, but first, by number, one that costs nothing.

    That is one whose step stays within the peak so far, which begins at `least` bytes, and after which no more is live
    than before it. The work grows with the tensors that the operators touch, times the logarithm of their number: an
    operator's step is looked at again only where a tensor that it touches became live, or is left to it alone.
    """
    return _Greedy(pattern, least).run()


class _Greedy:
    """What a step adds to the bytes that are live (at its worst, and after it), of each operator that may run next."""

    def __init__(self, pattern: Pattern, least: int) -> None:
        self.pattern, self.peak = pattern, least
        self.live = list(pattern.live)
        self.readers: list[set[int]] = [set() for _ in pattern.size_bytes]  # that have not run
        self.makers: list[set[int]] = [set() for _ in pattern.size_bytes]
        for number, (reads, makes) in enumerate(zip(pattern.reads, pattern.makes, strict=True)):
            for tensor in reads:
                self.readers[tensor].add(number)
            for tensor in makes:
                self.makers[tensor].add(number)
        self.unread = [not readers for readers in self.readers]
        self.waits = [sum(len(self.makers[tensor]) for tensor in reads) for reads in pattern.reads]
        self.adds: dict[int, tuple[int, int]] = {}  # of those that may run
        self.smallest: list[tuple[int, int, int]] = []  # heap of what each adds, with entries that hold no longer
        self.shrinking = _Leftmost(len(pattern.reads))  # what those add at their worst that add nothing in the end

    def run(self) -> list[int]:
        for number, waits in enumerate(self.waits):
            if not waits:
                self._enter(number)
        now = 0
        order: list[int] = []
        while self.adds:
            number = self.shrinking.first_within(self.peak - now)
            if number is None:
                number = self._smallest()
            worst, after = self.adds.pop(number)
            self.shrinking.set(number, None)
            self.peak, now = max(self.peak, now + worst), now + after
            order.append(number)
            self._run(number)
        return order

    def _smallest(self) -> int:
        while True:
            worst, after, number = heapq.heappop(self.smallest)
            if self.adds.get(number) == (worst, after):
                return number

    def _enter(self, number: int) -> None:
        """Look at what an operator that may run adds, for the first time or again."""
        worst, after = self._adds(number)
        self.adds[number] = worst, after
        heapq.heappush(self.smallest, (worst, after, number))
        self.shrinking.set(number, worst if after <= 0 else None)

    def _adds(self, number: int) -> tuple[int, int]:
        pattern, size_bytes = self.pattern, self.pattern.size_bytes
        made = ended = reused = begun = 0
        for tensor in pattern.makes[number]:
            if not self.live[tensor]:
                made += size_bytes[tensor]
                if pattern.ends[tensor] and self.unread[tensor]:
                    ended += size_bytes[tensor]
        for tensor in pattern.reads[number]:
            if not self.live[tensor]:
                begun += size_bytes[tensor]
            if pattern.ends[tensor] and self.readers[tensor] == {number}:
                ended += size_bytes[tensor]
                if size_bytes[tensor] == made and pattern.in_place[number]:
                    reused = made
        return begun + made - reused, begun + made - ended

    def _run(self, number: int) -> None:
        """Take an operator as run: others may run now, or add something else."""
        pattern = self.pattern
        changed: set[int] = set()
        for tensor in pattern.makes[number]:
            self.makers[tensor].discard(number)
            for reader in self.readers[tensor]:
                self.waits[reader] -= 1
                changed.add(reader)
        for tensor in pattern.reads[number]:
            self.readers[tensor].discard(number)
            if len(self.readers[tensor]) == 1:
                changed.update(self.readers[tensor])
        for tensor in (*pattern.makes[number], *pattern.reads[number]):
            if not self.live[tensor]:
                self.live[tensor] = True
                changed.update(self.readers[tensor], self.makers[tensor])
        for other in sorted(changed):
            if not self.waits[other]:
                self._enter(other)


class _Leftmost:
    """Numbers with or without a value, and the first of them whose value is within a limit."""

    def __init__(self, count: int) -> None:
        self.width = 1 << max(0, count - 1).bit_length()
        self.least: list[int | None] = [None] * (2 * self.width)  # a tree: the least value below each node

    def set(self, number: int, value: int | None) -> None:
        """Give a number a value, or none."""
        least, at = self.least, number + self.width
        least[at] = value
        while at > 1:
            at //= 2
            one, other = least[2 * at], least[2 * at + 1]
            found = other if one is None or (other is not None and other < one) else one
            if least[at] == found:
                break
            least[at] = found

    def first_within(self, limit: int) -> int | None:
        """The first number with a value of at most `limit`, or None."""
        least, at = self.least, 1
        top = least[1]
        if top is None or top > limit:
            return None
        while at < self.width:
            left = least[2 * at]
            at = 2 * at if left is not None and left <= limit else 2 * at + 1
        return at - self.width

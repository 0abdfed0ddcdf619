"""Where in GB what is on the way to the cores lies: each where nothing was for longest."""

from collections.abc import Sequence

import numpy as np

from tilestitch.base.jit import lending, tiered
from tilestitch.base.units import ALIGNMENT_BYTES, aligned

BEGIN, LATEST = 0, 1  # of a stretch, which ends where the next begins: the last kernel that had something there, or -1


class Staging:
    """Addresses in GB of what is on the way to the cores: each where nothing was for longest.

    So loads can run far ahead, as what comes waits for those who read what was there before. What is read once is so
    before the next comes, in program order: any address is free for that. Of several that are as good it lies behind
    what came last.
    """

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.kernel = 0
        self.next = 0  # behind what came last
        self.stretches = np.array([[0, -1]], np.int64)

    def enter(self, low: int, high: int) -> None:
        """Go on to the next kernel, which leaves free what lies between `low` and `high`: all else has something."""
        self.kernel += 1
        for begin, end in ((0, aligned(low)), (high // ALIGNMENT_BYTES * ALIGNMENT_BYTES, self.size_bytes)):
            self.stretches = with_use(self.stretches, self.kernel, begin, end)

    def take(self, sizes_bytes: Sequence[int], low: int, high: int, *, in_turn: bool = False) -> list[int]:
        """The addresses of buffers within `low` and `high`, one after another; `low` of one for which there is no room.

        `in_turn`: each behind the one before, and from `low` on again where there is no room. So each stays as it is
        until about as much came behind it as there is room.
        """
        if not sizes_bytes:
            return []
        sizes = np.array(sizes_bytes, np.int64)
        found, self.stretches = places(self.stretches, self.kernel, self.next, sizes, low, high, in_turn)
        self.next = int(found[-1]) + aligned(sizes_bytes[-1])
        return found.tolist()

    def copy(self) -> "Staging":
        """The same as it is now."""
        found = Staging(self.size_bytes)
        found.restore(self)
        return found

    def restore(self, other: "Staging") -> None:
        """Become as a copy was."""
        self.kernel, self.next, self.stretches = other.kernel, other.next, other.stretches


@tiered
def with_use(stretches: np.ndarray, kernel: int, begin: int, end: int) -> np.ndarray:
    """The stretches where the kernel has something between two addresses as well."""
    rows = np.empty((len(stretches) + 2, 2), np.int64)
    rows[: len(stretches)] = stretches
    return rows[: _use(rows, len(stretches), kernel, begin, end)]


@tiered
def places(
    stretches: np.ndarray, kernel: int, behind: int, sizes: np.ndarray, low: int, high: int, in_turn: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The addresses of buffers of a kernel, and the stretches with them; see `Staging.take`."""
    rows = np.empty((len(stretches) + 2 * len(sizes), 2), np.int64)
    rows[: len(stretches)] = stretches
    count = len(stretches)
    found = np.empty(len(sizes), np.int64)
    for number, size in enumerate(sizes):
        if number > 0 and in_turn:
            at = behind if behind + size <= high else low
        else:
            at = _oldest(rows, count, behind, size, low, high)
        found[number] = at
        behind = at + -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        count = _use(rows, count, kernel, at, behind)
    return found, rows[:count].copy()


@lending
def _oldest(rows: np.ndarray, count: int, behind: int, size: int, low: int, high: int) -> int:
    """The address of which the last kernel that had something there is the earliest; `behind` first, then the least."""
    best, earliest, begun = low, -2, -(-low // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    for number in range(-2, count):
        at = behind if number == -2 else begun if number == -1 else rows[number, BEGIN]
        if at < low or at > high - size:
            continue
        first = max(0, number)
        while first + 1 < count and rows[first + 1, BEGIN] <= at:
            first += 1
        latest = rows[first, LATEST]
        for other in range(first + 1, count):
            if rows[other, BEGIN] >= at + size:
                break
            latest = max(latest, rows[other, LATEST])
        if earliest == -2 or latest < earliest or (latest == earliest and best != behind and at < best):
            best, earliest = at, latest
    return best


@lending
def _use(rows: np.ndarray, count: int, kernel: int, begin: int, end: int) -> int:
    """Note that the kernel has something between two addresses; how many stretches there are then."""
    if begin >= end:
        return count
    first = 0
    while first < count and rows[first, BEGIN] < begin:
        first += 1
    last = first
    while last < count and rows[last, BEGIN] < end:
        last += 1
    goes_on = first > 0 and rows[first - 1, LATEST] == kernel
    is_cut, after = last == count or rows[last, BEGIN] != end, rows[last - 1, LATEST]
    at = first + (0 if goes_on else 1)  # of what follows
    moved = at + (1 if is_cut else 0) - last
    for number in range(count - 1, last - 1, -1) if moved > 0 else range(last, count):
        rows[number + moved, BEGIN], rows[number + moved, LATEST] = rows[number, BEGIN], rows[number, LATEST]
    if not goes_on:
        rows[first, BEGIN], rows[first, LATEST] = begin, kernel
    if is_cut:
        rows[at, BEGIN], rows[at, LATEST] = end, after
    return count + moved

"""What each instruction waits for, found from what all of them read and write: one pass over columns, compiled.

The order of the instructions is a legal sequential execution. An instruction waits for every read-after-write,
write-after-read and write-after-write that another engine could break: of its operands with earlier uses of the same
buffers, and of a new buffer with whatever lay in its place. A wait on an engine covers all that the engine did before,
so at most one wait an engine is kept. A launch waits for everything before it, everything after it for the launch.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tilestitch.base.arrays import copy_row, copy_rows
from tilestitch.base.jit import inner, lending, tiered
from tilestitch.ir.region import Region

FEW = 16  # uses of a buffer that are quicker to look through than to sort; cells that are too many for one use

NO_LIMIT = -1


class Text(NamedTuple):
    """Instructions and buffers as columns, both in the order in which they come."""

    engine: np.ndarray
    launches: np.ndarray  # whether an instruction starts a kernel
    operand_ends: np.ndarray  # of the operands of each instruction
    buffer: np.ndarray  # of each operand
    region: np.ndarray
    writes: np.ndarray
    space: np.ndarray  # of each buffer
    start: np.ndarray
    stop: np.ndarray
    born: np.ndarray  # the instruction before which the buffer takes its place
    low: np.ndarray  # region, axis: first index, and the one behind the last; 0 and 1 where it has fewer axes
    high: np.ndarray
    control: int  # the engine of launches
    engines: int
    spaces: int


class Waits(NamedTuple):
    """How many instructions each waits for, and which, in rising order; and which a launch behind all would."""

    counts: np.ndarray
    waits: np.ndarray
    last: np.ndarray


def corners(regions: Sequence[Region]) -> tuple[np.ndarray, np.ndarray]:
    """Start and stop of regions of any ranks, a row each, as `Text` has them."""
    ranks = np.array([len(region.start) for region in regions], np.int64)
    rank = ranks.max(initial=0)
    low, high = np.zeros((len(regions), rank), np.int64), np.ones((len(regions), rank), np.int64)
    for own in range(1, rank + 1):
        rows = np.flatnonzero(ranks == own)
        if len(rows):
            both = np.array([regions[row] for row in rows.tolist()], np.int64)
            low[rows, :own], high[rows, :own] = both[:, 0], both[:, 1]
    return low, high


class _Uses(NamedTuple):
    """Uses of buffers: the latest instruction of one engine that touched one region of a buffer in one way.

    Those of a buffer are a list. Where they are many, such as the stores of a thousand cores to one tensor, they also
    lie in the cells of a grid whose pitch is the extents of one region, each cell a list of a table that all buffers
    share; what covers many cells is in a list of its own, which is looked through every time.
    """

    buffer: np.ndarray
    instruction: np.ndarray
    engine: np.ndarray
    region: np.ndarray
    writes: np.ndarray
    next: np.ndarray  # of the same buffer, or -1
    next_wide: np.ndarray
    barrier: np.ndarray  # by buffer: the launch after which all its known uses were
    first: np.ndarray
    first_wide: np.ndarray
    known: np.ndarray  # how many of them
    pitch: np.ndarray  # the region whose extents are the pitch
    lists: np.ndarray  # first entry of each list of the table


class _Latest(NamedTuple):
    """The latest instruction to wait for by engine, or -1; and for which engines there is one."""

    instruction: np.ndarray
    engines: np.ndarray
    known: np.ndarray  # how many of those, one number


@lending
def _note(latest: _Latest, engine: int, instruction: int) -> None:
    if latest.instruction[engine] < 0:
        latest.engines[latest.known[0]] = engine
        latest.known[0] += 1
    latest.instruction[engine] = max(latest.instruction[engine], instruction)


@lending
def _forget(latest: _Latest) -> None:
    for at in range(latest.known[0]):
        latest.instruction[latest.engines[at]] = -1
    latest.known[0] = 0


@inner
def _longer(rows: np.ndarray, length: int) -> np.ndarray:
    """`rows`, with room for so many; those in use stay."""
    if length <= len(rows):
        return rows
    found = np.empty((2 * length, rows.shape[1]), rows.dtype)
    copy_rows(found, rows)
    return found


@lending
def _cells(text: Text, region: int, pitch: int) -> int:
    """How many cells of a grid a region meets; 0 where they are many."""
    count = 1
    for axis in range(text.low.shape[1]):
        step = text.high[pitch, axis] - text.low[pitch, axis]
        count *= (text.high[region, axis] - 1) // step - text.low[region, axis] // step + 1
        if count > FEW:
            return 0
    return count


@lending
def _list(text: Text, uses: _Uses, buffer: int, region: int, cell: int) -> int:
    """The list of the table for one of the cells that a region of a buffer meets; others may have the same."""
    found, pitch = buffer, uses.pitch[buffer]
    for axis in range(text.low.shape[1]):
        step = text.high[pitch, axis] - text.low[pitch, axis]
        first = text.low[region, axis] // step
        count = (text.high[region, axis] - 1) // step - first + 1
        found = (found * 1000003 + first + cell % count) & 0xFFFFFFFFFF
        cell //= count
    return (found ^ (found >> 20)) % len(uses.lists)


@lending
def _conflict(
    text: Text, uses: _Uses, use: int, engine: int, region: int, writes: bool, barrier: int, latest: _Latest
) -> None:
    """Note the instruction of a use that must end before another use of its buffer begins."""
    if uses.engine[use] == engine or uses.instruction[use] <= barrier or not (writes or uses.writes[use]):
        return
    other = uses.region[use]
    for axis in range(text.low.shape[1]):
        if text.low[other, axis] >= text.high[region, axis] or text.low[region, axis] >= text.high[other, axis]:
            return
    _note(latest, uses.engine[use], uses.instruction[use])


@lending
def _conflicts(
    text: Text, uses: _Uses, entries: np.ndarray, operand: int, engine: int, barrier: int, latest: _Latest
) -> None:
    """Note all uses of an operand's buffer that must end before the operand is used."""
    buffer, region, writes = int(text.buffer[operand]), int(text.region[operand]), bool(text.writes[operand])
    if uses.barrier[buffer] != barrier:
        return
    cells = _cells(text, region, int(uses.pitch[buffer])) if uses.known[buffer] > FEW else 0
    if cells == 0:
        use = int(uses.first[buffer])
        while use >= 0:
            _conflict(text, uses, use, engine, region, writes, barrier, latest)
            use = int(uses.next[use])
        return
    use = int(uses.first_wide[buffer])
    while use >= 0:
        _conflict(text, uses, use, engine, region, writes, barrier, latest)
        use = int(uses.next_wide[use])
    for cell in range(cells):
        entry = uses.lists[_list(text, uses, buffer, region, cell)]
        while entry >= 0:
            use = int(entries[entry, 0])
            if uses.buffer[use] == buffer:
                _conflict(text, uses, use, engine, region, writes, barrier, latest)
            entry = entries[entry, 1]


@lending
def _same_use(text: Text, uses: _Uses, entries: np.ndarray, operand: int, engine: int, barrier: int) -> int:
    """The use of one region of a buffer by one engine in one way since the last launch, or -1."""
    buffer, region, writes = int(text.buffer[operand]), int(text.region[operand]), bool(text.writes[operand])
    cells = _cells(text, region, int(uses.pitch[buffer])) if uses.known[buffer] > FEW else 0
    if cells:
        entry = uses.lists[_list(text, uses, buffer, region, 0)]
        use = int(entries[entry, 0]) if entry >= 0 else -1
    else:
        entry = -1
        use = int(uses.first_wide[buffer] if uses.known[buffer] > FEW else uses.first[buffer])
    while use >= 0:
        if (
            uses.region[use] == region
            and uses.engine[use] == engine
            and uses.writes[use] == writes
            and uses.buffer[use] == buffer
            and uses.instruction[use] > barrier
        ):
            return use
        if cells:
            entry = entries[entry, 1]
            use = int(entries[entry, 0]) if entry >= 0 else -1
        else:
            use = int(uses.next_wide[use] if uses.known[buffer] > FEW else uses.next[use])
    return -1


@lending
def _sort_in(text: Text, uses: _Uses, entries: np.ndarray, known: int, use: int) -> int:
    """Enter a use of a buffer with many into its cells; gives the number of entries of the table."""
    buffer, region = int(uses.buffer[use]), int(uses.region[use])
    cells = _cells(text, region, int(uses.pitch[buffer]))
    if cells == 0:
        uses.next_wide[use] = uses.first_wide[buffer]
        uses.first_wide[buffer] = use
    for cell in range(cells):
        at = _list(text, uses, buffer, region, cell)
        entries[known, 0], entries[known, 1] = use, uses.lists[at]
        uses.lists[at] = known
        known += 1
    return known


@lending
def _record(
    text: Text, uses: _Uses, entries: np.ndarray, known: int, operand: int, engine: int, number: int, barrier: int
) -> int:
    """Note that instruction `number` uses an operand; gives the number of entries of the table."""
    buffer = text.buffer[operand]
    if uses.barrier[buffer] != barrier:
        uses.barrier[buffer], uses.known[buffer] = barrier, 0
        uses.first[buffer] = uses.first_wide[buffer] = -1
        uses.pitch[buffer] = text.region[operand]
    use = _same_use(text, uses, entries, operand, engine, barrier)
    if use >= 0:
        uses.instruction[use] = number
        return known
    use = operand
    uses.buffer[use], uses.instruction[use], uses.engine[use] = buffer, number, engine
    uses.region[use], uses.writes[use] = text.region[operand], text.writes[operand]
    uses.next[use] = uses.first[buffer]
    uses.first[buffer] = use
    uses.known[buffer] += 1
    if uses.known[buffer] > FEW + 1:
        return _sort_in(text, uses, entries, known, use)
    if uses.known[buffer] == FEW + 1:
        while use >= 0:
            known = _sort_in(text, uses, entries, known, use)
            use = int(uses.next[use])
    return known


@lending
def _take_over(
    text: Text, uses: _Uses, owners: np.ndarray, begin: int, count: int, buffer: int, barrier: int, latest: _Latest
) -> int:
    """Give a buffer its place in the owners of its space, and note the last uses of what lay there.

    `owners` holds start, stop and buffer of the parts of the space, in rising order from `begin` on; gives their count.
    """
    start, stop, end = text.start[buffer], text.stop[buffer], begin + count
    first, high = begin, end
    while first < high:
        middle = (first + high) // 2
        if owners[middle, 0] < start:
            first = middle + 1
        else:
            high = middle
    if first > begin and owners[first - 1, 1] > start:
        first -= 1
    behind = first
    while behind < end and owners[behind, 0] < stop:
        owner = owners[behind, 2]
        use = int(uses.first[owner]) if uses.barrier[owner] == barrier else -1
        while use >= 0:
            _note(latest, uses.engine[use], uses.instruction[use])
            use = int(uses.next[use])
        behind += 1
    low_owner = high_owner = low = high = -1  # what is left of the first and the last of them
    if behind > first and owners[first, 0] < start:
        low, low_owner = owners[first, 0], owners[first, 2]
    if behind > first and stop < owners[behind - 1, 1]:
        high, high_owner = owners[behind - 1, 1], owners[behind - 1, 2]
    shift = 1 + (low_owner >= 0) + (high_owner >= 0) - (behind - first)
    if shift > 0:
        for row in range(end - 1, behind - 1, -1):
            copy_row(owners[row + shift], owners[row])
    elif shift < 0:
        for row in range(behind, end):
            copy_row(owners[row + shift], owners[row])
    if low_owner >= 0:
        owners[first, 0], owners[first, 1], owners[first, 2] = low, start, low_owner
        first += 1
    owners[first, 0], owners[first, 1], owners[first, 2] = start, stop, buffer
    if high_owner >= 0:
        owners[first + 1, 0], owners[first + 1, 1], owners[first + 1, 2] = stop, high, high_owner
    return count + shift


@tiered
def find_waits(text: Text, most: int) -> Waits:
    """See the head of this file. Looks no further where there are more waits than `most`, or at all with `NO_LIMIT`."""
    length, buffers, operands = len(text.engine), len(text.space), len(text.buffer)
    lists = 1024
    while lists < operands:
        lists *= 2
    uses = _Uses(
        np.empty(operands, np.int64),
        np.empty(operands, np.int64),
        np.empty(operands, np.int64),
        np.empty(operands, np.int64),
        np.empty(operands, np.bool_),
        np.empty(operands, np.int64),
        np.empty(operands, np.int64),
        np.full(buffers, -2, np.int64),
        np.full(buffers, -1, np.int64),
        np.full(buffers, -1, np.int64),
        np.zeros(buffers, np.int64),
        np.zeros(buffers, np.int64),
        np.full(lists, -1, np.int64),
    )
    entries, known = np.empty((lists, 2), np.int64), 0
    begins = np.zeros(text.spaces + 1, np.int64)  # of the owners of each space: a buffer adds two at most
    for buffer in range(buffers):
        begins[text.space[buffer] + 1] += 2
    begins = begins.cumsum()
    owners, owned = np.empty((2 * buffers, 3), np.int64), np.zeros(text.spaces, np.int64)
    before, before_ends = np.empty((1024, 2), np.int64), np.zeros(buffers + 1, np.int64)  # who had a buffer's place
    counts, waits, found = np.zeros(length, np.int64), np.empty((1024, 1), np.int64), 0
    last = np.full(text.engines, -1, np.int64)  # by engine, its latest instruction
    latest = _Latest(np.full(text.engines, -1, np.int64), np.empty(text.engines, np.int64), np.zeros(1, np.int64))
    barrier, born, operand = -1, 0, 0  # everything before the barrier has ended when anything after it starts
    for number in range(length):
        if 0 <= most < found:
            break
        while born < buffers and text.born[born] <= number:
            space = text.space[born]
            begin, count = int(begins[space]), int(owned[space])
            owned[space] = _take_over(text, uses, owners, begin, count, born, barrier, latest)
            before = _longer(before, before_ends[born] + latest.known[0])
            before_ends[born + 1] = before_ends[born] + latest.known[0]
            for at in range(latest.known[0]):
                other = latest.engines[at]
                before[before_ends[born] + at, 0] = other
                before[before_ends[born] + at, 1] = latest.instruction[other]
            _forget(latest)
            born += 1
        engine, end = text.engine[number], text.operand_ends[number]
        if text.launches[number]:
            for other in range(text.engines):
                if last[other] > barrier and other != text.control:
                    _note(latest, other, last[other])
            barrier = number
        else:
            for at in range(operand, end):
                _conflicts(text, uses, entries, at, engine, barrier, latest)
                buffer = text.buffer[at]
                for row in range(before_ends[buffer], before_ends[buffer + 1] if text.writes[at] else 0):
                    if before[row, 0] != engine and before[row, 1] > barrier:
                        _note(latest, before[row, 0], before[row, 1])
            if latest.known[0] == 0 and last[engine] < barrier:
                _note(latest, text.control, barrier)
        waits = _longer(waits, found + latest.known[0])
        counts[number] = latest.known[0]
        own = latest.instruction[latest.engines[: latest.known[0]]]
        own.sort()
        copy_row(waits[found:, 0], own)
        found += latest.known[0]
        _forget(latest)
        entries = _longer(entries, known + (end - operand) * FEW * (FEW + 2))
        for at in range(operand, end):
            known = _record(text, uses, entries, known, at, engine, number, barrier)
        last[engine] = number
        operand = end
    behind = last[(last > barrier) & (np.arange(text.engines) != text.control)]
    behind.sort()
    return Waits(counts, waits[:found, 0].copy(), behind)

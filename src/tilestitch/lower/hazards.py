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
from tilestitch.base.jit import inlined, inner, tiered
from tilestitch.ir.region import Region

FEW = 16  # uses of a buffer that are quicker to look through than to sort; cells that are too many for one use


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


class Uses(NamedTuple):
    """Uses of buffers: the latest instruction of one engine that touched one region of a buffer in one way.

    There are tens of millions with a thousand cores: numbers of 32 bits.

    The reads of a buffer are a list, and its writes are one: two ways of each buffer, by number. Where they are many,
    such as the stores of a thousand cores to one tensor, they also lie in the cells of a grid whose pitch is the
    extents of one region, each cell a list of a table that all buffers share; what covers many cells is in a list of
    its own, which is looked through every time.
    """

    way: np.ndarray  # twice the buffer, and one more where it is written
    instruction: np.ndarray
    engine: np.ndarray
    region: np.ndarray
    next: np.ndarray  # of the same way, or -1
    next_wide: np.ndarray
    barrier: np.ndarray  # by way: the launch after which all its known uses were
    first: np.ndarray
    first_wide: np.ndarray
    known: np.ndarray  # how many of them
    pitch: np.ndarray  # the region whose extents are the pitch
    lists: np.ndarray  # first entry of each list of the table


class _Lasts(NamedTuple):
    """The last use of a buffer by each engine that uses it: a list."""

    engine: np.ndarray
    instruction: np.ndarray
    next: np.ndarray  # of the same buffer, or -1
    first: np.ndarray  # by buffer
    barrier: np.ndarray  # by buffer: the launch after which they all were


class Latest(NamedTuple):
    """The latest instruction to wait for by engine, or -1; and for which engines there is one."""

    instruction: np.ndarray
    engines: np.ndarray
    known: np.ndarray  # how many of those, one number


@inlined
def note(latest: Latest, engine: int, instruction: int) -> None:
    if latest.instruction[engine] < 0:
        latest.engines[latest.known[0]] = engine
        latest.known[0] += 1
    latest.instruction[engine] = max(latest.instruction[engine], instruction)


@inlined
def forget(latest: Latest) -> None:
    for at in range(latest.known[0]):
        latest.instruction[latest.engines[at]] = -1
    latest.known[0] = 0


@inlined
def _write_sorted(latest: Latest, waits: np.ndarray, found: int) -> int:
    """Write the latest that are known behind the first rows, in rising order; gives how many rows there are then."""
    for count in range(latest.known[0]):
        value, at = latest.instruction[latest.engines[count]], found + count
        while at > found and waits[at - 1, 0] > value:
            waits[at, 0] = waits[at - 1, 0]
            at -= 1
        waits[at, 0] = value
    return found + latest.known[0]


@inner
def longer(rows: np.ndarray, length: int) -> np.ndarray:
    """`rows`, with room for so many; those in use stay."""
    if length <= len(rows):
        return rows
    found = np.empty((2 * length, rows.shape[1]), rows.dtype)
    copy_rows(found, rows)
    return found


@inlined
def _cells(text: Text, region: int, pitch: int) -> int:
    """How many cells of a grid a region meets; 0 where they are many."""
    count = 1
    for axis in range(text.low.shape[1]):
        step = text.high[pitch, axis] - text.low[pitch, axis]
        count *= (text.high[region, axis] - 1) // step - text.low[region, axis] // step + 1
        if count > FEW:
            return 0
    return count


@inlined
def _list(text: Text, uses: Uses, way: int, region: int, cell: int) -> int:
    """The list of the table for one of the cells that a region of a buffer meets; others may have the same."""
    found, pitch = way, uses.pitch[way]
    for axis in range(text.low.shape[1]):
        step = text.high[pitch, axis] - text.low[pitch, axis]
        first = text.low[region, axis] // step
        count = (text.high[region, axis] - 1) // step - first + 1
        found = (found * 1000003 + first + cell % count) & 0xFFFFFFFFFF
        cell //= count
    return (found ^ (found >> 20)) % len(uses.lists)


@inlined
def _conflict(text: Text, uses: Uses, use: int, engine: int, region: int, barrier: int, latest: Latest) -> None:
    """Note the instruction of a use that must end before another use of its buffer begins, where the two meet."""
    if uses.engine[use] == engine or uses.instruction[use] <= barrier:
        return
    other = uses.region[use]
    for axis in range(text.low.shape[1]):
        if text.low[other, axis] >= text.high[region, axis] or text.low[region, axis] >= text.high[other, axis]:
            return
    note(latest, uses.engine[use], uses.instruction[use])


@inlined
def conflicts(
    text: Text, uses: Uses, entries: np.ndarray, operand: int, engine: int, barrier: int, latest: Latest
) -> None:
    """Note all uses of an operand's buffer that must end before the operand is used: for a reader those that write."""
    if text.writes[operand]:
        _conflicts(text, uses, entries, operand, 2 * int(text.buffer[operand]), engine, barrier, latest)
    _conflicts(text, uses, entries, operand, 2 * int(text.buffer[operand]) + 1, engine, barrier, latest)


@inlined
def _conflicts(
    text: Text, uses: Uses, entries: np.ndarray, operand: int, way: int, engine: int, barrier: int, latest: Latest
) -> None:
    """Note all uses of one kind that must end before an operand is used."""
    region = int(text.region[operand])
    if uses.barrier[way] != barrier:
        return
    cells = _cells(text, region, int(uses.pitch[way])) if uses.known[way] > FEW else 0
    if cells == 0:
        use = int(uses.first[way])
        while use >= 0:
            _conflict(text, uses, use, engine, region, barrier, latest)
            use = int(uses.next[use])
        return
    use = int(uses.first_wide[way])
    while use >= 0:
        _conflict(text, uses, use, engine, region, barrier, latest)
        use = int(uses.next_wide[use])
    for cell in range(cells):
        entry = uses.lists[_list(text, uses, way, region, cell)]
        while entry >= 0:
            use = int(entries[entry, 0])
            if uses.way[use] == way:
                _conflict(text, uses, use, engine, region, barrier, latest)
            entry = entries[entry, 1]


@inlined
def _same_use(text: Text, uses: Uses, entries: np.ndarray, operand: int, way: int, engine: int, barrier: int) -> int:
    """The use of one region of a buffer by one engine in one way since the last launch, or -1."""
    region = int(text.region[operand])
    cells = _cells(text, region, int(uses.pitch[way])) if uses.known[way] > FEW else 0
    if cells:
        entry = uses.lists[_list(text, uses, way, region, 0)]
        use = int(entries[entry, 0]) if entry >= 0 else -1
    else:
        entry = -1
        use = int(uses.first_wide[way] if uses.known[way] > FEW else uses.first[way])
    while use >= 0:
        if (
            uses.region[use] == region
            and uses.engine[use] == engine
            and uses.way[use] == way
            and uses.instruction[use] > barrier
        ):
            return use
        if cells:
            entry = entries[entry, 1]
            use = int(entries[entry, 0]) if entry >= 0 else -1
        else:
            use = int(uses.next_wide[use] if uses.known[way] > FEW else uses.next[use])
    return -1


@inlined
def _sort_in(text: Text, uses: Uses, entries: np.ndarray, known: int, use: int) -> int:
    """Enter a use of a buffer with many into its cells; gives the number of entries of the table."""
    way, region = int(uses.way[use]), int(uses.region[use])
    cells = _cells(text, region, int(uses.pitch[way]))
    if cells == 0:
        uses.next_wide[use] = uses.first_wide[way]
        uses.first_wide[way] = use
    for cell in range(cells):
        at = _list(text, uses, way, region, cell)
        entries[known, 0], entries[known, 1] = use, uses.lists[at]
        uses.lists[at] = known
        known += 1
    return known


@inlined
def record(
    text: Text,
    uses: Uses,
    entries: np.ndarray,
    known: int,
    operand: int,
    engine: int,
    number: int,
    barrier: int,
    again: bool,
) -> int:
    """Note that instruction `number` uses an operand; gives the number of entries of the table.

    `again`: the engine may have used the same region in the same way before.
    """
    way = 2 * int(text.buffer[operand]) + int(text.writes[operand])
    if uses.barrier[way] != barrier:
        uses.barrier[way], uses.known[way] = barrier, 0
        uses.first[way] = uses.first_wide[way] = -1
        uses.pitch[way] = text.region[operand]
    use = _same_use(text, uses, entries, operand, way, engine, barrier) if again else -1
    if use >= 0:
        uses.instruction[use] = number
        return known
    use = operand
    uses.way[use], uses.instruction[use], uses.engine[use] = way, number, engine
    uses.region[use] = text.region[operand]
    uses.next[use] = uses.first[way]
    uses.first[way] = use
    uses.known[way] += 1
    if uses.known[way] > FEW + 1:
        return _sort_in(text, uses, entries, known, use)
    if uses.known[way] == FEW + 1:
        while use >= 0:
            known = _sort_in(text, uses, entries, known, use)
            use = int(uses.next[use])
    return known


@inlined
def take_over(
    text: Text, owners: np.ndarray, begin: int, count: int, buffer: int, displaced: np.ndarray
) -> tuple[int, int]:
    """Give a buffer its place in the owners of its space; gives their count, and of how many of them it has a part.

    `owners` holds start, stop and buffer of the parts of the space, in rising order from `begin` on; those of which the
    buffer gets a part are put into `displaced`.
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
        displaced[behind - first] = owners[behind, 2]
        behind += 1
    over = behind - first
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
    return count + shift, over


@inlined
def _note_last(lasts: _Lasts, buffer: int, latest: Latest) -> None:
    """Note the last uses of a buffer."""
    at = int(lasts.first[buffer])
    while at >= 0:
        note(latest, int(lasts.engine[at]), int(lasts.instruction[at]))
        at = int(lasts.next[at])


@inlined
def _remember(lasts: _Lasts, operand: int, buffer: int, engine: int, number: int) -> None:
    """Note that instruction `number` is the last of an engine that uses a buffer; `operand` is its use."""
    at = lasts.first[buffer]
    while at >= 0 and lasts.engine[at] != engine:
        at = lasts.next[at]
    if at < 0:
        at = operand
        lasts.engine[at], lasts.next[at] = engine, lasts.first[buffer]
        lasts.first[buffer] = at
    lasts.instruction[at] = number


@inner
def no_uses(text: Text) -> Uses:
    """Room for the uses of all operands."""
    buffers, operands = len(text.space), len(text.buffer)
    lists = 1024
    while lists < operands:
        lists *= 2
    return Uses(
        np.empty(operands, np.int32),
        np.empty(operands, np.int32),
        np.empty(operands, np.int32),
        np.empty(operands, np.int32),
        np.empty(operands, np.int32),
        np.empty(operands, np.int32),
        np.full(2 * buffers, -2, np.int64),
        np.full(2 * buffers, -1, np.int64),
        np.full(2 * buffers, -1, np.int64),
        np.zeros(2 * buffers, np.int64),
        np.zeros(2 * buffers, np.int64),
        np.full(lists, -1, np.int64),
    )


@inner
def owners_begin(text: Text) -> np.ndarray:
    """Where the owners of each space begin in a table of all: a buffer adds two at most."""
    begins = np.zeros(text.spaces + 1, np.int64)
    for buffer in range(len(text.space)):
        begins[text.space[buffer] + 1] += 2
    return begins.cumsum()


@tiered
def find_waits(text: Text) -> Waits:
    """See the head of this file."""
    length, buffers = len(text.engine), len(text.space)
    uses = no_uses(text)
    entries, known = np.empty((len(uses.lists), 2), np.int64), 0
    begins = owners_begin(text)
    owners, owned = np.empty((2 * buffers, 3), np.int64), np.zeros(text.spaces, np.int64)
    displaced = np.empty(buffers, np.int64)
    lasts = _Lasts(
        np.empty(len(text.buffer), np.int32),
        np.empty(len(text.buffer), np.int32),
        np.empty(len(text.buffer), np.int32),
        np.full(buffers, -1, np.int64),
        np.full(buffers, -2, np.int64),
    )
    written = np.zeros(buffers, np.bool_)
    for at in range(len(text.buffer)):
        if text.writes[at]:
            written[text.buffer[at]] = True
    before, before_ends = np.empty((1024, 2), np.int64), np.zeros(buffers + 1, np.int64)  # who had a buffer's place
    counts, waits, found = np.zeros(length, np.int64), np.empty((1024, 1), np.int64), 0
    last = np.full(text.engines, -1, np.int64)  # by engine, its latest instruction
    latest = Latest(np.full(text.engines, -1, np.int64), np.empty(text.engines, np.int64), np.zeros(1, np.int64))
    barrier, born, operand = -1, 0, 0  # everything before the barrier has ended when anything after it starts
    for number in range(length):
        while born < buffers and text.born[born] <= number:
            space = text.space[born]
            begin, count = int(begins[space]), int(owned[space])
            owned[space], over = take_over(text, owners, begin, count, born, displaced)
            for at in range(over):
                if lasts.barrier[displaced[at]] == barrier:
                    _note_last(lasts, displaced[at], latest)
            before = longer(before, before_ends[born] + latest.known[0])
            before_ends[born + 1] = before_ends[born] + latest.known[0]
            for at in range(latest.known[0]):
                other = latest.engines[at]
                before[before_ends[born] + at, 0] = other
                before[before_ends[born] + at, 1] = latest.instruction[other]
            forget(latest)
            born += 1
        engine, end = text.engine[number], text.operand_ends[number]
        if text.launches[number]:
            for other in range(text.engines):
                if last[other] > barrier and other != text.control:
                    note(latest, other, last[other])
            barrier = number
        else:
            for at in range(operand, end):
                conflicts(text, uses, entries, at, engine, barrier, latest)
                buffer = text.buffer[at]
                for row in range(before_ends[buffer], before_ends[buffer + 1] if text.writes[at] else 0):
                    if before[row, 0] != engine and before[row, 1] > barrier:
                        note(latest, before[row, 0], before[row, 1])
            if latest.known[0] == 0 and last[engine] < barrier:
                note(latest, text.control, barrier)
        waits = longer(waits, found + latest.known[0])
        counts[number] = latest.known[0]
        found = _write_sorted(latest, waits, found)
        forget(latest)
        entries = longer(entries, known + (end - operand) * FEW * (FEW + 2))
        for at in range(operand, end):
            buffer = text.buffer[at]
            if lasts.barrier[buffer] != barrier:
                lasts.barrier[buffer], lasts.first[buffer] = barrier, -1
            _remember(lasts, at, buffer, engine, number)
            if written[buffer]:  # else nobody waits for those who read it but who gets its place
                known = record(text, uses, entries, known, at, engine, number, barrier, True)
        last[engine] = number
        operand = end
    behind = last[(last > barrier) & (np.arange(text.engines) != text.control)]
    behind.sort()
    return Waits(counts, waits[:found, 0].copy(), behind)

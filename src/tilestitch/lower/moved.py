"""Where buffers lie on chip, once the order of instructions is known.

Addresses are given out before that order, so that an instruction may wait for the last use of what happened to lie in
its buffer's place. Here buffers move, one after another, each to the place where its *gap* is longest: of the times
between the last use of what lies there before it and its own first one, and between its own last use and the first one
of what comes behind it, the shortest. A long gap is time by which instructions may come earlier, or later, in another
order.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tilestitch.base.jit import inlined, lending, tiered
from tilestitch.base.units import ALIGNMENT_BYTES
from tilestitch.hardware.accelerator import Level
from tilestitch.ir.program import Program
from tilestitch.ir.trace import Trace

MOST_TOGETHER = 8  # buffers that may move as one
MOST_UNITS = 1 << 18  # of a memory, where what is taken is looked up: of 64 bytes each up to 16 MiB


class Stays(NamedTuple):
    """The buffers of one memory, in the order of their first uses: when each is there."""

    size_bytes: np.ndarray  # aligned
    first: np.ndarray  # instruction, in program order, that uses it
    last: np.ndarray
    begin_ticks: np.ndarray  # of the first use
    end_ticks: np.ndarray  # of the last one
    group: np.ndarray  # the first of the buffers that move with it


class Taken(NamedTuple):
    """Where buffers that move together cannot lie, of each of them: something else is there at the same time.

    A memory is divided into units, with a bit each. They are taken whole or not at all, so that what is not taken may
    be so in part.
    """

    bits: np.ndarray  # [buffer, 64 units]
    shift: int  # a unit has 2 ** shift bytes


def with_buffers_moved(program: Program, trace: Trace, horizon_ticks: int) -> Program | None:
    """The program with the same instructions in the same order, and buffers at other addresses; None where all stay.

    They are at the same ones in every iteration, and those in DDR stay. Waits are those of the program as it was.
    `trace` is the program's own; gaps longer than `horizon_ticks` are as good as that.
    """
    length, buffers = len(program) // program.iterations, program.buffers
    counts = np.diff(program.operand_offsets[: length + 1])
    user, used = np.repeat(np.arange(length), counts), program.operand_buffer[: program.operand_offsets[length]]
    first, last = np.full(len(buffers), length), np.full(len(buffers), -1)
    begin, end = np.full(len(buffers), np.iinfo(np.int64).max), np.full(len(buffers), -1)
    for found, better, column in (
        (first, np.minimum, np.arange(length)),
        (last, np.maximum, np.arange(length)),
        (begin, np.minimum, trace.start_ticks),
        (end, np.maximum, trace.end_ticks),
    ):
        better.at(found, used, column[user])
    address, moved = buffers.address.copy(), np.zeros(len(buffers), np.bool_)
    started = np.maximum.accumulate(trace.start_ticks[:length])  # the latest start so far, in program order
    apart = bool((started - trace.end_ticks[:length] >= horizon_ticks).any())
    by_space = np.lexsort((first, buffers.space))
    borders = np.searchsorted(buffers.space[by_space], np.arange(len(program.spaces) + 1))
    for number, space in enumerate(program.spaces):
        if space.level is Level.DDR:
            continue
        rows = by_space[borders[number] : borders[number + 1]]
        rows = rows[last[rows] >= 0]
        sizes = -(-buffers.size_bytes[rows] // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        groups = together(sizes, address[rows], first[rows], last[rows])
        stays = Stays(sizes, first[rows], last[rows], begin[rows], end[rows], groups)
        address[rows] = at_longer_gaps(stays, address[rows], horizon_ticks, space.size_bytes, apart)
        moved[rows] = True
    if (address == buffers.address).all():
        return None
    own = (len(buffers) - len(program.constants)) // program.iterations  # constants have one buffer in all iterations
    for iteration in range(1, program.iterations):
        address[np.flatnonzero(moved) + own * iteration] = address[moved]
    return replace(program, buffers=replace(buffers, address=address))


@tiered
def together(sizes: np.ndarray, address: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Of each buffer the first one of those with which it moves.

    Those that are there at the same time and share bytes, such as what is computed in place of an operand. They are in
    the order of their first uses.
    """
    group, there, count = np.arange(len(sizes)), np.empty(len(sizes), np.int64), 0
    for number in range(len(sizes)):
        left = 0
        for at in range(count):
            if last[there[at]] >= first[number]:
                there[left] = there[at]
                left += 1
        for at in range(left):
            other = there[at]
            if address[number] < address[other] + sizes[other] and address[other] < address[number] + sizes[number]:
                one, two = _first_of(group, number), _first_of(group, other)
                group[max(one, two)] = min(one, two)
        there[left] = number
        count = left + 1
    for number in range(len(sizes)):
        group[number] = _first_of(group, number)
    return group


@lending
def _first_of(group: np.ndarray, number: int) -> int:
    while group[number] != number:
        number = group[number]
    return number


@tiered
def at_longer_gaps(stays: Stays, address: np.ndarray, horizon_ticks: int, room_bytes: int, apart: bool) -> np.ndarray:
    """The addresses of the buffers of a memory once they have moved to where their gaps are longer.

    A place is looked at if it adjoins one of a buffer near in time. `apart`: by the order of the program others may be
    there at the same time, too, as engines need not keep to it among one another.
    """
    count, sizes, group, found = len(address), stays.size_bytes, stays.group, address.copy()
    by_group = np.argsort(group, kind="mergesort")
    by_begin = np.argsort(stays.begin_ticks, kind="mergesort")
    begins, ends = stays.begin_ticks[by_begin], np.empty(count, np.int64)  # the latest end so far
    latest = -1
    for at in range(count):
        latest = max(latest, stays.end_ticks[by_begin[at]])
        ends[at] = latest
    lasts, latest = np.empty(count, np.int64), -1  # the latest last use so far, in the order of first uses
    for at in range(count):
        latest = max(latest, stays.last[at])
        lasts[at] = latest
    shift = 0
    while ALIGNMENT_BYTES >> shift > 1 or room_bytes >> shift > MOST_UNITS:
        shift += 1
    taken = Taken(np.zeros((MOST_TOGETHER, (room_bytes >> shift) // 64 + 2), np.uint64), shift)
    near, at = np.empty(count, np.int64), 0
    while at < count:
        here = at
        while at < count and group[by_group[at]] == group[by_group[here]]:
            at += 1
        members = by_group[here:at]
        if len(members) > MOST_TOGETHER:
            continue
        low, high, begin, end = found[members[0]], 0, stays.begin_ticks[members[0]], -1
        for one in members:
            low, high = min(low, found[one]), max(high, found[one] + sizes[one])
            begin, end = min(begin, stays.begin_ticks[one]), max(end, stays.end_ticks[one])
        others, row = 0, np.searchsorted(begins, end + horizon_ticks) - 1
        while row >= 0 and ends[row] > begin - horizon_ticks:
            other = by_begin[row]
            if stays.end_ticks[other] > begin - horizon_ticks and group[other] != group[members[0]]:
                near[others] = other
                others += 1
            row -= 1
        meanwhile = others
        if apart:
            meanwhile += _apart(stays, lasts, members, int(begin), int(end), horizon_ticks, near[others:])
        around = near[:meanwhile]
        longest, best = _gap(stays, found, members, 0, around, horizon_ticks, -1), low
        if longest >= horizon_ticks:
            continue
        _take(stays, found, members, around, taken, True)
        for choice in range(-1, 2 * others):
            place = 0
            if choice >= 0:
                beside = around[choice // 2]
                place = found[beside] + sizes[beside] if choice % 2 == 0 else found[beside] - (high - low)
            further = int(place - low)
            if not 0 <= place <= room_bytes - (high - low) or _is_taken(stays, found, members, further, taken):
                continue
            gap = _gap(stays, found, members, further, around, horizon_ticks, longest)
            if gap > longest:
                longest, best = gap, place
            if gap >= horizon_ticks:
                break
        _take(stays, found, members, around, taken, False)
        for one in members:
            found[one] += best - low
    return found


@lending
def _apart(
    stays: Stays, lasts: np.ndarray, members: np.ndarray, begin: int, end: int, horizon_ticks: int, found: np.ndarray
) -> int:
    """Note the buffers that are there at the same time as others by the order of the program, and not near in time."""
    first, last, count = stays.first[members[0]], 0, 0
    for one in members:
        first, last = min(first, stays.first[one]), max(last, stays.last[one])
    row = np.searchsorted(stays.first, last, side="right") - 1
    while row >= 0 and lasts[row] >= first:
        is_near = stays.end_ticks[row] > begin - horizon_ticks and stays.begin_ticks[row] < end + horizon_ticks
        if stays.last[row] >= first and not is_near and stays.group[row] != stays.group[members[0]]:
            found[count] = row
            count += 1
        row -= 1
    return count


@lending
def _take(stays: Stays, address: np.ndarray, members: np.ndarray, near: np.ndarray, taken: Taken, is_so: bool) -> None:
    """Say of each unit in what is near, and there at the same time, that it is taken, or that it is not."""
    round_up = (1 << taken.shift) - 1
    for number in range(len(members)):
        one, bits = members[number], taken.bits[number]
        for other in near:
            if stays.last[other] < stays.first[one] or stays.last[one] < stays.first[other]:
                continue
            begin = int(address[other])
            first = (begin + round_up) >> taken.shift
            last = ((begin + int(stays.size_bytes[other])) >> taken.shift) - 1
            for word in range(first >> 6, (last >> 6) + 1 if last >= first else 0):
                if is_so:
                    bits[word] |= _between(first, last, word)
                else:
                    bits[word] &= ~_between(first, last, word)


@lending
def _is_taken(stays: Stays, address: np.ndarray, members: np.ndarray, further: int, taken: Taken) -> bool:
    """Whether a unit is taken where buffers would lie that are moved by so many bytes."""
    for number in range(len(members)):
        begin, bits = int(address[members[number]]) + further, taken.bits[number]
        first, last = begin >> taken.shift, (begin + int(stays.size_bytes[members[number]]) - 1) >> taken.shift
        for word in range(first >> 6, (last >> 6) + 1):
            if bits[word] & _between(first, last, word):
                return True
    return False


@inlined
def _between(first: int, last: int, word: int) -> np.uint64:
    """The bits of a word of 64 units that are those from the first to the last one."""
    bits = ~np.uint64(0)
    if word == first >> 6:
        bits <<= np.uint64(first & 63)
    if word == last >> 6:
        bits &= ~np.uint64(0) >> np.uint64(63 - (last & 63))
    return bits


@lending
def _gap(
    stays: Stays,
    address: np.ndarray,
    members: np.ndarray,
    shift: int,
    near: np.ndarray,
    horizon_ticks: int,
    least: int,
) -> int:
    """The shortest gap of buffers that are moved by so many bytes, or less than that where it is at most `least`.

    -1 where what is near is there at the same time.
    """
    gap = horizon_ticks
    for one in members:
        begin = int(address[one]) + shift
        for other in near:
            if address[other] >= begin + stays.size_bytes[one] or begin >= address[other] + stays.size_bytes[other]:
                continue
            if stays.last[other] < stays.first[one]:
                between = stays.begin_ticks[one] - stays.end_ticks[other]
            elif stays.last[one] < stays.first[other]:
                between = stays.begin_ticks[other] - stays.end_ticks[one]
            else:
                return -1
            gap = min(gap, max(0, int(between)))
            if gap <= least:
                return gap
    return gap

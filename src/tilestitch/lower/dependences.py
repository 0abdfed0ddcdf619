"""All that instructions wait for, whatever their engines, so that they can be put in another order.

What lies at a place is over when another buffer gets it: whoever writes the new one waits for all who used the old one.
That is writers times users, for every new buffer. So nodes that take no time stand between them: one for the end of the
old buffer, and one for the birth of the new buffer where it gets the places of several.
"""

from typing import NamedTuple

import numpy as np

from tilestitch.base.jit import inlined, inner, tiered
from tilestitch.ir.program import Kind, Mode, Program
from tilestitch.lower.hazards import (
    FEW,
    Latest,
    Text,
    Uses,
    conflicts,
    forget,
    longer,
    no_uses,
    owners_begin,
    record,
    take_over,
)


class Dependences(NamedTuple):
    """Nodes are the instructions and, behind them, ends and births of buffers; what each needs is a run of `needs`."""

    needs: np.ndarray  # nodes
    ends: np.ndarray  # of the needs of each node
    born: (
        np.ndarray
    )  # of those behind the instructions, in rising order: which instruction may be the first to need it;
    # it needs earlier ones only, and nodes before it


def dependences(program: Program, length: int, boxes: tuple[np.ndarray, np.ndarray], most: int) -> Dependences:
    """What the first instructions of a program need, of which the first alone is a launch.

    `boxes` are the corners of its regions. Incomplete where there are more needs than `most`.
    """
    counts = np.diff(program.operand_offsets[: length + 1])
    operands = slice(0, int(program.operand_offsets[length]))
    user = np.repeat(np.arange(length), counts)
    buffer, writes = program.operand_buffer[operands], program.operand_mode[operands] != Mode.READ
    written = np.zeros(len(program.buffers), np.bool_)
    written[buffer[writes]] = True
    kept = written[buffer]  # what nobody writes nobody waits for
    user, buffer, writes, region = user[kept], buffer[kept], writes[kept], program.operand_region[operands][kept]
    used, first = np.unique(buffer, return_index=True)
    by_birth = used[np.argsort(first, kind="stable")]
    number = np.zeros(len(program.buffers), np.int64)
    number[by_birth] = np.arange(len(by_birth))
    low, high = boxes
    rows = program.buffers
    return find_dependences(
        Text(
            engine=np.arange(length),
            launches=program.kind[:length] == Kind.LAUNCH,
            operand_ends=np.cumsum(np.bincount(user, minlength=length)),
            buffer=number[buffer],
            region=region.astype(np.int64),
            writes=writes,
            space=rows.space[by_birth].astype(np.int64),
            start=rows.address[by_birth],
            stop=rows.address[by_birth] + rows.size_bytes[by_birth],
            born=user[np.sort(first)],
            low=low,
            high=high,
            control=0,  # each instruction is an engine of its own, so that none is left out because another covers it
            engines=length,
            spaces=len(program.spaces),
        ),
        most,
    )


class _Nodes(NamedTuple):
    """Ends and births of buffers, as they are found."""

    end: np.ndarray  # by buffer: the node that needs all its uses so far, or -1
    known: np.ndarray  # by way of `Uses`: the last of these
    born: np.ndarray
    ends: np.ndarray  # of the needs of each, in `before`


@tiered
def find_dependences(text: Text, most: int) -> Dependences:
    """As `dependences`, for a text in which every instruction is an engine of its own and the first one a launch."""
    length, buffers = len(text.engine), len(text.space)
    uses = no_uses(text)
    entries, known = np.empty((len(uses.lists), 2), np.int64), 0
    begins = owners_begin(text)
    owners, owned = np.empty((2 * buffers, 3), np.int64), np.zeros(text.spaces, np.int64)
    displaced = np.empty(buffers, np.int64)
    nodes = _Nodes(
        np.full(buffers, -1, np.int64),
        np.full(2 * buffers, -1, np.int64),
        np.empty(4 * buffers, np.int64),
        np.empty(4 * buffers, np.int64),
    )
    birth = np.full(buffers, -1, np.int64)  # the node before the writers of a buffer, or -1
    before, over, count = np.empty((1024, 1), np.int64), 0, 0  # what the nodes need; how many of them there are
    needs, found = np.empty((1024, 1), np.int64), 0  # what instructions need
    ends = np.zeros(length, np.int64)
    latest = Latest(np.full(length, -1, np.int64), np.empty(length, np.int64), np.zeros(1, np.int64))
    barrier, born, operand = 0, 0, 0
    for number in range(length):
        if most < found + over:
            break
        while born < buffers and text.born[born] <= number:
            space = text.space[born]
            owned[space], parts = take_over(text, owners, int(begins[space]), int(owned[space]), born, displaced)
            for at in range(parts):
                owner = displaced[at]
                first = over
                before, over = _end_of(uses, nodes, owner, before, over)
                if over == first or (over == first + 1 and before[first, 0] == nodes.end[owner]):
                    over = first  # no use behind the last such node
                    continue
                nodes.born[count], nodes.ends[count], nodes.end[owner] = number, over, length + count
                count += 1
            used = 0
            for at in range(parts):
                if nodes.end[displaced[at]] >= 0:
                    displaced[used] = nodes.end[displaced[at]]
                    used += 1
            if used == 1:
                birth[born] = displaced[0]
            elif used:
                before = longer(before, over + used)
                for at in range(used):
                    before[over, 0] = displaced[at]
                    over += 1
                nodes.born[count], nodes.ends[count], birth[born] = number, over, length + count
                count += 1
            born += 1
        end = text.operand_ends[number]
        for at in range(operand, end):
            conflicts(text, uses, entries, at, number, barrier, latest)
        first = found
        needs = longer(needs, found + latest.known[0] + end - operand + 1)
        for at in range(latest.known[0]):
            needs[found, 0] = latest.instruction[latest.engines[at]]
            found += 1
        forget(latest)
        for at in range(operand, end):
            if text.writes[at] and birth[text.buffer[at]] >= 0:
                needs[found, 0] = birth[text.buffer[at]]
                found += 1
        if found == first and number:
            needs[found, 0] = 0
            found += 1
        ends[number] = found
        entries = longer(entries, known + (end - operand) * FEW * (FEW + 2))
        for at in range(operand, end):
            if text.writes[at]:
                _forget_covered(text, uses, at, barrier)
            known = record(text, uses, entries, known, at, number, number, barrier, False)
        operand = end
    every = np.concatenate((needs[:found, 0], before[:over, 0]))
    return Dependences(every, np.concatenate((ends, nodes.ends[:count] + found)), nodes.born[:count].copy())


@inlined
def _forget_covered(text: Text, uses: Uses, operand: int, barrier: int) -> None:
    """Forget uses of a buffer all of which an operand overwrites, where they are few.

    Whoever meets one of them meets the writer, and needs it; the writer needs them. So what is updated in place is one
    need for each update, not one for each pair of updates.
    """
    region = int(text.region[operand])
    for way in range(2 * int(text.buffer[operand]), 2 * int(text.buffer[operand]) + 2):
        if uses.barrier[way] != barrier or uses.known[way] > FEW:
            continue
        use, before = int(uses.first[way]), -1
        while use >= 0:
            following = int(uses.next[use])
            if _covers(text, region, int(uses.region[use])):
                uses.known[way] -= 1
                if before < 0:
                    uses.first[way] = following
                else:
                    uses.next[before] = following
            else:
                before = use
            use = following


@inlined
def _covers(text: Text, region: int, other: int) -> bool:
    """Whether a region holds all of another."""
    for axis in range(text.low.shape[1]):
        if text.low[other, axis] < text.low[region, axis] or text.high[other, axis] > text.high[region, axis]:
            return False
    return True


@inner
def _end_of(uses: Uses, nodes: _Nodes, buffer: int, before: np.ndarray, over: int) -> tuple[np.ndarray, int]:
    """Add to `before` what a node needs that stands for the end of a buffer's uses: those behind its last such node."""
    for way in range(2 * buffer, 2 * buffer + 2):
        use = int(uses.first[way])
        while use >= 0 and use != nodes.known[way]:
            before = longer(before, over + 1)
            before[over, 0] = uses.instruction[use]
            over += 1
            use = int(uses.next[use])
        nodes.known[way] = uses.first[way]
    if nodes.end[buffer] >= 0:
        before = longer(before, over + 1)
        before[over, 0] = nodes.end[buffer]
        over += 1
    return before, over

"""What of the cycles of cuts adds up along a chain, compiled: the sums of `choice_tables`, by kind and port."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tilestitch.base.jit import inner, lending
from tilestitch.mapping.tree.crossings import OperandOnTree
from tilestitch.mapping.tree.loads import delayed_by, followed_as, line_of
from tilestitch.mapping.tree.pace import ELSE, FOLLOWED, INPUTS, RESULT, RESULTS, THROUGH, TRAILS
from tilestitch.mapping.tree.walk_tables import (
    AFTER,
    BEFORE,
    BEGINS,
    BRINGS,
    KINDS,
    OCCUPIED,
    STOPPED,
    STOPPING,
    TRAILING,
)

_LATE = 6  # where a pace has when the next tiles of followed operands begin; kinds behind `OCCUPIED` come behind those
_SUMS = _LATE + FOLLOWED + TRAILING - STOPPED + INPUTS + 1  # and where its sums begin
_NOTHING, _INWARDS, _OUTWARDS, _BOTH, _STOPS = range(5)  # what of a crossing's cycles counts


class Pauses(NamedTuple):
    """For what the units stop, and which operands a pace follows."""

    hidden: np.ndarray  # [operand, crossing] whether the units go on meanwhile
    through: np.ndarray  # by crossing of the result: whether it may leave with the tile with which it came
    followed: np.ndarray  # by operand: the number by which a pace follows it
    delays: np.ndarray  # [operand, whether the units stop, number] whose next tile waits until an operand has moved
    line: np.ndarray  # [operand, crossing] its place in the line at a stop


def pauses_of(operands: Sequence[OperandOnTree]) -> Pauses:
    """The pauses of operands that move anything, the last of which is the result."""
    count, levels = len(operands), max(len(one.memories) for one in operands)
    found = Pauses(
        np.zeros((count, levels), np.bool_),
        np.zeros(levels, np.bool_),
        np.array([followed_as(one) for one in operands], np.int64),
        np.zeros((count, 2, FOLLOWED), np.bool_),
        np.zeros((count, levels), np.int64),
    )
    for number, one in enumerate(operands):
        for crossing in range(len(one.memories)):
            found.hidden[number, crossing] = one.is_hidden(crossing)
            found.line[number, crossing] = line_of(one, crossing)
            found.through[crossing] |= one.may_go_through(crossing)
        for stops in range(2):
            found.delays[number, stops, list(delayed_by(one, stops=bool(stops)))] = True
    return found


@lending
def _counted(pauses: Pauses, operand: int, crossing: int, kind: int) -> int:
    """Which of a crossing's cycles count as a kind."""
    hides = pauses.hidden[operand, crossing]
    if kind == STOPPING:
        return _NOTHING if hides else _STOPS
    if kind == BEFORE:
        return _INWARDS
    if kind == AFTER:
        return _OUTWARDS
    if kind == OCCUPIED:
        return _BOTH
    if kind < BRINGS:
        return _STOPS if not hides and pauses.followed[operand] <= kind - STOPPED else _NOTHING
    if kind == BRINGS + RESULTS and pauses.followed[operand] == RESULTS and crossing == 0:
        return _OUTWARDS  # at the units sums come in before others have left
    if kind < BEGINS:
        return _BOTH if pauses.delays[operand, 0 if hides else 1, kind - BRINGS] else _NOTHING
    if kind < TRAILING:
        return _INWARDS if pauses.followed[operand] <= kind - BEGINS else _NOTHING
    trails = pauses.line[operand, crossing] == TRAILS and pauses.followed[operand] == kind - TRAILING
    return _BOTH if trails else _NOTHING


@lending
def _cycles(what: int, inwards: int, outwards: int, behind: int) -> int:
    if what == _INWARDS:
        return inwards
    if what == _OUTWARDS:
        return outwards
    if what == _BOTH:
        return inwards + outwards
    return inwards + outwards + behind if what == _STOPS else 0


class Served(NamedTuple):
    """The cycles of every port for each cut, once at each tile; the last row is one iteration with its results."""

    operand: np.ndarray  # by cut
    crossing: np.ndarray  # by cut; -1 where nothing crosses
    cycles: np.ndarray  # [way, cut, port, tile] inwards and outwards
    behind: np.ndarray  # [cut, port] what has to follow before the units go on


@inner
def _used(served: Served) -> np.ndarray:
    """[way, cut, port] whether any tile takes cycles."""
    _, cuts, many, tiles = served.cycles.shape
    found = np.zeros((2, cuts, many), np.bool_)
    for way in range(2):
        for cut in range(cuts):
            for port in range(many):
                for at in range(tiles):
                    if served.cycles[way, cut, port, at] > 0:
                        found[way, cut, port] = True
                        break
    return found


@lending
def _what(pauses: Pauses, served: Served, used: np.ndarray, cut: int, port: int, kind: int) -> int:
    """Which of a cut's cycles of a port count as a kind, if there are any."""
    if served.crossing[cut] < 0:
        return _NOTHING
    operand = served.operand[cut]
    what = _counted(pauses, operand, served.crossing[cut], kind)
    most = _cycles(what, used[0, cut, port], used[1, cut, port], served.behind[cut, port])
    return what if most > 0 else _NOTHING


@inner
def _rows(pauses: Pauses, served: Served, used: np.ndarray) -> np.ndarray:
    """By kind and port the number of its sum, if several cuts use it, or the units' results do.

    Or if it is of stops, or of what trails or joins that.
    """
    _, cuts, many, _ = served.cycles.shape
    found, count = np.full((KINDS, many), -1, np.int64), 0
    users = np.zeros((KINDS, many), np.int64)
    for kind in range(KINDS):
        for port in range(many):
            for cut in range(cuts):
                users[kind, port] += 1 if _what(pauses, served, used, cut, port, kind) != _NOTHING else 0
    for number in range(INPUTS):
        for port in range(many):
            if users[TRAILING + number, port] > 0:
                users[STOPPING, port] += 1
                users[STOPPED + number : STOPPED + INPUTS, port] = cuts
                users[TRAILING + number, port] = cuts
    for kind in range(KINDS):
        for port in range(many):
            if users[kind, port] > 1 or (users[kind, port] > 0 and kind == STOPPING):
                found[kind, port] = count
                count += 1
    return found


@inner
def _joins(rows: np.ndarray, count: int) -> np.ndarray:
    """`WalkCuts.joins` of rows of sums by kind and port."""
    found = np.full((count, 1 + INPUTS), -1, np.int64)
    for number in range(INPUTS):
        for port in range(rows.shape[1]):
            row = rows[TRAILING + number, port]
            if row >= 0:
                found[row, 0] = rows[STOPPING, port]
                found[row, 1 + number :] = rows[STOPPED + number : STOPPED + INPUTS, port]
    return found


@inner
def inputs_at(pauses: Pauses, served: Served, where: np.ndarray) -> np.ndarray:
    """By cut the input whose crossing there is one of those [operand, crossing] that are asked for, or -1."""
    found = np.full(len(served.operand) - 1, -1, np.int64)
    for cut in range(len(found)):
        operand, crossing = served.operand[cut], served.crossing[cut]
        if crossing >= 0 and where[operand, crossing] and pauses.followed[operand] < INPUTS:
            found[cut] = pauses.followed[operand]
    return found


@inner
def uses_of(sums: np.ndarray, kinds: np.ndarray, joins: np.ndarray, leads: np.ndarray) -> np.ndarray:
    """By sum and cut whether the cut adds anything, or something that trails it joins the sum."""
    found = np.zeros((len(kinds), len(leads)), np.bool_)
    for row in range(len(kinds)):
        for cut in range(len(leads)):
            found[row, cut] |= np.any(sums[row, cut] > 0)
            if kinds[row] >= TRAILING and leads[cut] == kinds[row] - TRAILING:
                found[row, cut] = True
                for to in joins[row]:
                    if to >= 0:
                        found[to, cut] = True
    return found


@inner
def paces(pauses: Pauses, served: Served) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The most of what does not add up, what does, its kinds, the pace of one iteration, and joins, of `WalkCuts`."""
    _, last, many, tiles = served.cycles.shape
    cuts, used = last - 1, _used(served)
    rows = _rows(pauses, served, used)
    count = rows.max() + 1 if rows.size else 0
    single, sums = np.zeros((KINDS, cuts, tiles), np.int64), np.zeros((count, cuts, tiles), np.int64)
    kinds, begin = np.empty(count, np.int64), np.zeros(_SUMS + count, np.int64)
    begin[0], begin[1], begin[2], begin[_LATE : _LATE + FOLLOWED] = 1, 1, 1, 1
    for kind in range(KINDS):
        at_begin = 0 if kind == OCCUPIED else 3 + kind if kind < OCCUPIED else _LATE + FOLLOWED + kind - STOPPED
        for port in range(many):
            row = rows[kind, port]
            if row >= 0:
                kinds[row] = kind
            what = _what(pauses, served, used, cuts, port, kind)
            cycles = _cycles(what, served.cycles[0, cuts, port, 0], served.cycles[1, cuts, port, 0], 0)
            if kind < TRAILING:
                begin[at_begin] = max(begin[at_begin], cycles)
            if row >= 0:
                begin[_SUMS + row] = cycles
            for cut in range(cuts):
                what = _what(pauses, served, used, cut, port, kind)
                if what == _NOTHING:
                    continue
                for at in range(tiles):
                    inwards, outwards = served.cycles[0, cut, port, at], served.cycles[1, cut, port, at]
                    cycles = _cycles(what, inwards, outwards, served.behind[cut, port])
                    if row < 0:
                        single[kind, cut, at] = max(single[kind, cut, at], cycles)
                    else:
                        sums[row, cut, at] = cycles
    return single, sums, kinds, begin, _joins(rows, count)


@inner
def results_leaving(pauses: Pauses, served: Served, write: int) -> np.ndarray:
    """By cut and tile how results leave a memory there, as `WalkCuts` has it."""
    _, last, many, tiles = served.cycles.shape
    found = np.full((last - 1, tiles), ELSE, np.int64)
    for cut in range(last - 1):
        if served.operand[cut] == write and served.crossing[cut] > 0:
            for at in range(tiles):
                comes_back = False
                for port in range(many):
                    comes_back = comes_back or served.cycles[0, cut, port, at] > 0
                goes_through = pauses.through[served.crossing[cut]] and not comes_back
                found[cut, at] = THROUGH if goes_through else RESULT
    return found

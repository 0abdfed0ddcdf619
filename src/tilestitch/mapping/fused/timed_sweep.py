"""The sweep of `sweep` for latency: labels that know the pace of their tile as well, a row of `tree/timed_pace`.

The first of the columns for how long ports are busy are those of the ports that crossings outside of shared loops use:
they are kept to the end, the others as long as a cut that is not placed adds to them.
"""

from typing import NamedTuple

import numpy as np

from tilestitch.base.jit import compiled, lending, tiered
from tilestitch.mapping.fused.sweep import Field
from tilestitch.mapping.tree.labels import NEVER, is_open, remaining
from tilestitch.mapping.tree.timed_pace import (
    AHEAD,
    FIRST,
    LAST,
    STOPS,
    SUMS,
    TURN,
    WORK,
    Columns,
    cross,
    keeps_up,
    latency_at_least,
    repeat,
)


class Timing(NamedTuple):
    """Cycles of what is swept."""

    columns: Columns
    rows: np.ndarray  # by column and cut: which row of `loads`, or -1
    loads: np.ndarray  # by row and point: cycles
    left: np.ndarray  # by point: how many such tiles there are in all
    least: np.ndarray  # by busy column: of a cut and the later ones of its operand the least in all from a point on
    inside: np.ndarray  # the same of those cuts alone that no operators share loops inside of
    outer: int  # how many of the busy columns are kept to the end
    is_all: bool  # nothing runs beside what is swept: its end is that of all
    waits: bool  # seeds lie at the shared loops' border: no cut is placed before a loop


class Aim(NamedTuple):
    """What is looked for, and what operators that are not swept add at least."""

    most_fj: int
    most_cycles: int
    most_value: float  # of energy and latency to these powers, the energy in femtojoules
    energy_power: int
    cycles_power: int
    other_fj: int
    other_cycles: int


class TimedSwept(NamedTuple):
    """The labels of a sweep by number; those that are dead were dropped."""

    spent: np.ndarray
    state: np.ndarray
    point: np.ndarray
    parent: np.ndarray  # below 0: began as seed number -1 - parent
    action: np.ndarray  # the cut that was placed, or -1
    following: np.ndarray
    dead: np.ndarray
    taken: np.ndarray
    pace: np.ndarray


@tiered
def _empty(size: int, rooms: int, columns: int) -> TimedSwept:
    return TimedSwept(
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.zeros(size, np.bool_),
        np.empty((size, rooms), np.float64),
        np.empty((size, columns), np.int64),
    )


@tiered
def _grown(old: TimedSwept, used: int) -> TimedSwept:
    new = _empty(2 * used, old.taken.shape[1], old.pace.shape[1])
    new.spent[:used], new.state[:used], new.point[:used] = old.spent, old.state, old.point
    new.parent[:used], new.action[:used], new.following[:used] = old.parent, old.action, old.following
    new.dead[:used] = old.dead
    new.taken[:used], new.pace[:used] = old.taken, old.pace
    return new


@tiered
def is_above(aim: Aim, fj: int, cycles: int) -> bool:
    """Whether an energy and a latency, with those of all operators, are more than is looked for."""
    if fj > aim.most_fj or cycles > aim.most_cycles:
        return True
    value = 1.0
    for _ in range(aim.energy_power):
        value *= fj
    for _ in range(aim.cycles_power):
        value *= cycles
    return value > aim.most_value


@lending
def _least_cycles(
    field: Field, timing: Timing, aim: Aim, placed: np.ndarray, partial: int, point: int, row: np.ndarray,
    togo: np.ndarray, within: np.ndarray,
) -> int:  # fmt: skip
    """Below what no latency of all operators comes from here; `togo` and `within` are written to."""
    columns, left = timing.columns, timing.left[point]
    togo[:] = 0
    within[:] = 0
    for operand in range(len(placed)):
        cut = field.first[operand] + placed[operand]
        if cut < field.first[operand + 1]:
            side = partial if operand == field.write else 0
            for column in range(columns.busy, columns.end):
                togo[column] += timing.least[column - columns.busy, cut, side, point]
                within[column] += timing.inside[column - columns.busy, cut, side, point]
    if timing.is_all:
        return latency_at_least(row, columns, togo, left - 1) + aim.other_cycles
    least = left * row[TURN]
    for column in range(columns.busy, columns.end):
        least = max(least, left * row[column] + within[column])
    least += aim.other_cycles
    for kept in range(timing.outer):
        column = columns.busy + kept
        least = max(least, left * row[column] + togo[column])
    return least


@lending
def _forget(field: Field, timing: Timing, placed: np.ndarray, row: np.ndarray) -> None:
    """Sums to which no cut that is left adds are not compared."""
    columns = timing.columns
    for column in range(SUMS, columns.end):
        if not timing.is_all and columns.busy <= column < columns.busy + timing.outer:
            continue
        needed = False
        for operand in range(len(placed)):
            for cut in range(field.first[operand] + placed[operand], field.first[operand + 1]):
                needed = needed or timing.rows[column, cut] >= 0
        if not needed:
            row[column] = 0


@lending
def _keeps_up(timing: Timing, one: np.ndarray, other: np.ndarray, left: int, is_open: bool) -> bool:
    """Whether one pace is never slower than another of the same tile, whatever comes; `is_open`: cuts are left.

    How many of the tiles one visit has is not known, unless all operators are swept.
    """
    columns = timing.columns
    if timing.is_all:
        return keeps_up(one, other, columns, left - 1, is_open, True)
    if one[TURN] > other[TURN]:
        return False
    if is_open:
        for column in range(columns.busy):
            if one[column] > other[column]:
                return False
    else:
        ends, than = one[FIRST] + one[LAST], other[FIRST] + other[LAST]
        if one[AHEAD] + ends > other[AHEAD] + than:
            return False
        if 2 * one[WORK] + one[STOPS] + ends > 2 * other[WORK] + other[STOPS] + than:
            return False
    for column in range(columns.busy, columns.end):  # noqa: SIM110 (compiled, where a generator costs more)
        if one[column] > other[column]:
            return False
    return True


@lending
def _is_beaten(
    labels: TimedSwept, heads: np.ndarray, place: int, spent: int, taken: np.ndarray, row: np.ndarray, timing: Timing,
    left: int, is_open: bool,
) -> bool:  # fmt: skip
    """Whether a label at this place is at least as good; if not, those that the new one beats are dropped."""
    other, before = int(heads[place]), -1
    while other >= 0:
        better, worse = labels.spent[other] <= spent, labels.spent[other] >= spent
        for room in range(len(taken)):
            better = better and labels.taken[other, room] <= taken[room]
            worse = worse and labels.taken[other, room] >= taken[room]
        its = labels.pace[other]
        if better and _keeps_up(timing, its, row, left, is_open):
            return True
        if worse and _keeps_up(timing, row, its, left, is_open):
            labels.dead[other] = True
            if before < 0:
                heads[place] = labels.following[other]
            else:
                labels.following[before] = labels.following[other]
        else:
            before = other
        other = int(labels.following[other])
    return False


@lending
def _is_open(field: Field, placed: np.ndarray) -> bool:
    """Whether cuts are left."""
    for operand in range(len(placed)):  # noqa: SIM110 (compiled, where a generator costs more)
        if field.first[operand] + placed[operand] < field.first[operand + 1]:
            return True
    return False


@lending
def _copy(target: np.ndarray, source: np.ndarray, row: int) -> None:
    """Write a row of numbers into others."""
    for at in range(len(target)):
        target[at] = source[row, at]


@lending
def _enter(
    labels: TimedSwept, heads: np.ndarray, count: int, place: int, of: tuple[int, int, int, int, int],
    taken: np.ndarray, row: np.ndarray,
) -> None:  # fmt: skip
    """Write a label; `of` are spent, state, point, parent and action."""
    labels.spent[count], labels.state[count], labels.point[count], labels.parent[count], labels.action[count] = of
    labels.dead[count] = False
    for room in range(len(taken)):
        labels.taken[count, room] = taken[room]
    for column in range(len(row)):
        labels.pace[count, column] = row[column]
    labels.following[count] = heads[place]
    heads[place] = count


@compiled
def timed_sweep(
    field: Field,
    timing: Timing,
    aim: Aim,
    seed_point: np.ndarray,
    seed_state: np.ndarray,
    seed_spent: np.ndarray,
    seed_taken: np.ndarray,
    seed_pace: np.ndarray,
    heads: np.ndarray,
    most: int,
) -> tuple[int, TimedSwept]:
    """All labels from some seeds whose bound is not above the aim, and how many; -1 where that is more than `most`.

    `heads` holds -1 twice for every state and point: the second time for seeds that wait for a loop.
    """
    operands, points = len(field.first) - 1, field.cost.shape[2]
    place_of, states = np.empty(operands, np.int64), 2
    for operand in range(operands):
        place_of[operand] = states
        states *= field.first[operand + 1] - field.first[operand] + 1
    columns = timing.columns
    labels = _empty(1024, len(field.limit), columns.end)
    placed = np.zeros(operands, np.int64)
    taken = np.zeros(len(field.limit), np.float64)
    row, load = np.zeros(columns.end, np.int64), np.zeros(columns.end, np.int64)
    togo, within = np.zeros(columns.end, np.int64), np.zeros(columns.end, np.int64)
    behind = states * points if timing.waits else 0
    count = 0
    for seed in range(len(seed_point)):
        state, point = seed_state[seed], seed_point[seed]
        for operand in range(operands):
            placed[operand] = state // place_of[operand] % (field.first[operand + 1] - field.first[operand] + 1)
        rest = remaining(field, placed, state % 2, point)
        if rest >= NEVER:
            continue
        _copy(taken, seed_taken, seed)
        _copy(row, seed_pace, seed)
        cycles = _least_cycles(field, timing, aim, placed, state % 2, point, row, togo, within)
        if is_above(aim, seed_spent[seed] + rest + aim.other_fj, cycles):
            continue
        place, is_left = behind + state * points + point, _is_open(field, placed)
        _forget(field, timing, placed, row)
        if _is_beaten(
            labels, heads, place, seed_spent[seed], taken, row, timing, int(timing.left[point]), is_left
        ):  # fmt: skip
            continue
        if count == len(labels.spent):
            labels = _grown(labels, count)
        _enter(labels, heads, count, place, (seed_spent[seed], state, point, -1 - seed, -1), taken, row)
        count += 1
    for point in range(points):
        for state in field.order:
            for kind in range(2 if timing.waits else 1):
                label = int(heads[kind * behind + state * points + point])
                while label >= 0:
                    if count > most:
                        return -1, labels
                    partial = state % 2
                    for operand in range(operands):
                        size = field.first[operand + 1] - field.first[operand] + 1
                        placed[operand] = state // place_of[operand] % size
                    for move in range(operands if kind == 1 else 0, operands + len(field.shape)):
                        _copy(taken, labels.taken, label)
                        _copy(row, labels.pace, label)
                        spent, target, new_state, after, action = int(labels.spent[label]), point, state, partial, -1
                        if move < operands:
                            cut = field.first[move] + placed[move]
                            if cut >= field.first[move + 1]:
                                continue
                            side = partial if move == field.write else 0
                            if field.cost[cut, side, point] >= NEVER:
                                continue
                            spent += field.cost[cut, side, point]
                            room = int(field.shared[cut])
                            if room >= 0:
                                taken[room] += field.room[cut, side, point]
                                if taken[room] > field.limit[room]:
                                    continue
                            for column in range(columns.end):
                                at = timing.rows[column, cut]
                                load[column] = timing.loads[at, point] if at >= 0 else 0
                            cross(row, columns, load)
                            placed[move] += 1
                            if room >= 0 and not field.stays[room] and not is_open(field, room, placed):
                                taken[room] = 0.0
                            action, new_state = cut, state + place_of[move]
                            if move == field.write:
                                after = 1 if field.after[cut, point] else 0
                                new_state += after - partial
                        else:
                            axis = move - operands
                            if point // field.strides[axis] % field.shape[axis] + 1 >= field.shape[axis]:
                                continue
                            target = point + field.strides[axis]
                            repeat(row, columns, int(timing.left[point] // timing.left[target]))
                        rest = remaining(field, placed, after, target)
                        is_hopeful, is_left = rest < NEVER, _is_open(field, placed)
                        if is_hopeful:
                            _forget(field, timing, placed, row)
                            cycles = _least_cycles(
                                field, timing, aim, placed, after, target, row, togo, within
                            )  # fmt: skip
                            is_hopeful = not is_above(aim, spent + rest + aim.other_fj, cycles)
                        if move < operands:
                            placed[move] -= 1
                        place = new_state * points + target
                        if not is_hopeful or _is_beaten(
                            labels, heads, place, spent, taken, row, timing, int(timing.left[target]), is_left
                        ):  # fmt: skip
                            continue
                        if count == len(labels.spent):
                            labels = _grown(labels, count)
                        _enter(
                            labels, heads, count, place, (spent, int(new_state), int(target), label, action), taken, row
                        )
                        count += 1
                    label = int(labels.following[label])
    return count, labels

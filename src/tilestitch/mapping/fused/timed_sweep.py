"""The sweep of `sweep` for latency: labels that know the pace of their tile as well, a row of `tree/timed_pace`.

The first of the columns for how long ports are busy are those of the ports that crossings outside of shared loops use:
they are kept to the end, the others as long as a cut that is not placed adds to them.
"""

from typing import NamedTuple

import numpy as np

from tilestitch.base.jit import compiled, lending, tiered
from tilestitch.mapping.fused.sweep import Field, place_next, placed_in
from tilestitch.mapping.tree.labels import NEVER, Trail, copy_trail, empty_trail, enter, remaining
from tilestitch.mapping.tree.pace import FOLLOWED, INPUTS
from tilestitch.mapping.tree.timed_pace import (
    AHEAD,
    BEGUN,
    FIRST,
    LAST,
    LATE,
    OWN,
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
    uses: np.ndarray  # by column and cut: whether the cut changes the sum
    left: np.ndarray  # by point: how many such tiles there are in all
    least: np.ndarray  # by busy column: of a cut and the later ones of its operand the least in all from a point on
    inside: np.ndarray  # the same of those cuts alone that no operators share loops inside of
    stopped: np.ndarray  # as `least`, by column of stops, of what the units surely stop for
    outer: int  # how many of the busy columns are kept to the end
    is_all: bool  # nothing runs beside what is swept: its end is that of all
    waits: bool  # seeds lie at the shared loops' border: no cut is placed before a loop
    beside: np.ndarray  # for how long what is not swept keeps the ports busy at least that are kept to the end


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
    """The labels of a sweep by number."""

    trail: Trail  # parents as in `sweep`
    pace: np.ndarray  # by column of a row


@tiered
def _empty(size: int, rooms: int, columns: int) -> TimedSwept:
    return TimedSwept(empty_trail(size, rooms), np.empty((size, columns), np.int64))


@tiered
def _grown(old: TimedSwept, used: int) -> TimedSwept:
    new = _empty(2 * used, old.trail.taken.shape[1], old.pace.shape[1])
    copy_trail(old.trail, new.trail, used)
    new.pace[:used] = old.pace
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


def most_cycles_of(aim: Aim, fj: int) -> int:
    """How many cycles of all operators are not more than is looked for, with so much energy of them all."""
    if fj > aim.most_fj:
        return -1
    if aim.most_value == np.inf or aim.cycles_power == 0:
        return int(aim.most_cycles)
    most = (aim.most_value / max(1, fj) ** aim.energy_power) ** (1 / aim.cycles_power)
    return int(min(aim.most_cycles, most * (1 + 1e-12)))


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
            for column in range(SUMS, columns.first):
                togo[column] += timing.stopped[column - SUMS, cut, side, point]
            for column in range(columns.busy, columns.until):
                togo[column] += timing.least[column - columns.busy, cut, side, point]
                within[column] += timing.inside[column - columns.busy, cut, side, point]
    if timing.is_all:
        return latency_at_least(row, columns, togo, left - 1) + aim.other_cycles
    least = left * row[TURN]
    for column in range(SUMS, columns.first):
        least = max(least, left * (row[AHEAD] + row[column]) + togo[column])
    for column in range(columns.busy, columns.until):
        least = max(least, left * row[column] + within[column])
    least += aim.other_cycles
    for kept in range(timing.outer):
        column = columns.busy + kept
        least = max(least, left * row[column] + togo[column] + timing.beside[kept])
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
                needed = needed or timing.uses[column, cut]
        if not needed:
            row[column] = 0


@lending
def _ends_no_later(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether a visit, of however many of these tiles, ends no later for what is not ahead when it begins."""
    for number in range(FOLLOWED):
        begun = BEGUN + number if number < INPUTS else FIRST
        ends, than = one[begun] + one[LAST], other[begun] + other[LAST]
        if one[LATE + number] + ends > other[LATE + number] + than:
            return False
        if 2 * one[WORK] + one[STOPS] + ends > 2 * other[WORK] + other[STOPS] + than:
            return False
        own, its = one[OWN + number], other[OWN + number]
        if own > its or own + one[WORK] + ends > its + other[WORK] + than:
            return False
    return True


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
        if not _ends_no_later(one, other):
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
    trail, other, before = labels.trail, int(heads[place]), -1
    while other >= 0:
        better, worse = trail.spent[other] <= spent, trail.spent[other] >= spent
        for room in range(len(taken)):
            better = better and trail.taken[other, room] <= taken[room]
            worse = worse and trail.taken[other, room] >= taken[room]
        its = labels.pace[other]
        if better and _keeps_up(timing, its, row, left, is_open):
            return True
        if worse and _keeps_up(timing, row, its, left, is_open):
            trail.dead[other] = True
            if before < 0:
                heads[place] = trail.following[other]
            else:
                trail.following[before] = trail.following[other]
        else:
            before = other
        other = int(trail.following[other])
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
def _keep(rows: np.ndarray, row: int, numbers: np.ndarray) -> None:
    """Write numbers into a row."""
    for at in range(len(numbers)):
        rows[row, at] = numbers[at]


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
        placed_in(field, state, placed)
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
        if count == len(labels.pace):
            labels = _grown(labels, count)
        enter(labels.trail, heads, count, place, (seed_spent[seed], state, point, -1 - seed, -1), taken)
        _keep(labels.pace, count, row)
        count += 1
    for point in range(points):
        for state in field.order:
            for kind in range(2 if timing.waits else 1):
                label = int(heads[kind * behind + state * points + point])
                while label >= 0:
                    if count > most:
                        return -1, labels
                    placed_in(field, state, placed)
                    for move in range(operands if kind == 1 else 0, operands + len(field.shape)):
                        trail = labels.trail
                        _copy(taken, trail.taken, label)
                        _copy(row, labels.pace, label)
                        spent, target, new_state, action = int(trail.spent[label]), point, int(state), -1
                        if move < operands:
                            cost, action, new_state = place_next(
                                field, move, place_of[move], state, point, placed, taken
                            )  # fmt: skip
                            if cost >= NEVER:
                                continue
                            spent += cost
                            for column in range(columns.end):
                                at = timing.rows[column, action]
                                load[column] = timing.loads[at, point] if at >= 0 else 0
                            cross(row, columns, load)
                        else:
                            axis = move - operands
                            if point // field.strides[axis] % field.shape[axis] + 1 >= field.shape[axis]:
                                continue
                            target = point + field.strides[axis]
                            repeat(row, columns, int(timing.left[point] // timing.left[target]))
                        rest = remaining(field, placed, new_state % 2, target)
                        is_hopeful, is_left = rest < NEVER, _is_open(field, placed)
                        if is_hopeful:
                            _forget(field, timing, placed, row)
                            cycles = _least_cycles(
                                field, timing, aim, placed, new_state % 2, target, row, togo, within
                            )  # fmt: skip
                            is_hopeful = not is_above(aim, spent + rest + aim.other_fj, cycles)
                        if move < operands:
                            placed[move] -= 1
                        place = new_state * points + target
                        if not is_hopeful or _is_beaten(
                            labels, heads, place, spent, taken, row, timing, int(timing.left[target]), is_left
                        ):  # fmt: skip
                            continue
                        if count == len(labels.pace):
                            labels = _grown(labels, count)
                        enter(labels.trail, heads, count, place, (spent, new_state, target, label, action), taken)
                        _keep(labels.pace, count, row)
                        count += 1
                    label = int(labels.trail.following[label])
    return count, labels

"""Choices of what is spread as rows of numbers, compiled: there may be millions before those that differ are left.

An axis has a table of options, each with a factor for every loop; a choice is one option of every axis.
"""

from math import gcd
from typing import NamedTuple

import numpy as np

from tilestitch.base.jit import compiled, inner, lending

MOST_BROKEN = 2  # factors that are not whole, in a choice whose loops are exchanged
_MIX = 0x9E3779B97F4A7C1  # odd; only spreads what is hashed
_MASK = 2**62 - 1


class Axes(NamedTuple):
    """What is asked of every choice: [loop], [axis], and [axis, loop]."""

    options: np.ndarray  # [option, loop], of all axes one after another
    first: np.ndarray  # by axis: its first option; one more at the end
    sizes: np.ndarray
    extents: np.ndarray
    given: np.ndarray  # [axis, loop] whether the factor is fixed


class Rules(NamedTuple):
    """Which choices are allowed."""

    may_be_ragged: bool
    must_fill: bool  # what is ragged has to fill its axis
    units: int
    least_use: float


class Desk(NamedTuple):
    """One choice at hand."""

    factors: np.ndarray  # [axis, loop]
    over: np.ndarray
    under: np.ndarray
    steps: np.ndarray  # [loop]
    ragged: np.ndarray  # by axis: how many factors along it are ragged
    together_over: np.ndarray  # [group of axes, loop]
    together_under: np.ndarray


@lending
def _is_fitting(used: np.ndarray, option: np.ndarray, extents: np.ndarray, rest: int, least: float) -> bool:
    """Whether an option goes with what is used of each loop, so that enough units may be used."""
    product = 1
    for loop in range(len(extents)):
        here = used[loop] * option[loop]
        if here > extents[loop]:
            return False
        product *= here
    return product * rest >= least


@lending
def _is_exchange(options: np.ndarray, option: int, before: int) -> bool:
    """Whether an option of an axis, behind one of an axis that may be exchanged with it, is one row's exchange.

    Of two rows that are one another's exchange only that with the options in order is taken. Where factors of a loop
    along both are equal, which of them is ragged may tell them apart, and both are.
    """
    if option >= before:
        return False
    for loop in range(options.shape[1]):
        factor = options[option, loop]
        if factor > 1 and factor == options[before, loop]:
            return False
    return True


@compiled
def counted_rows(axes: Axes, rests: np.ndarray, least: float, most: int, is_twin: np.ndarray) -> np.ndarray:
    """By axis how many rows of options there are up to it; of one axis `most` + 1 where there are more.

    `rests` are the units along the axes to come, `is_twin` says of an axis that it may be exchanged with that before.
    """
    count = len(axes.sizes)
    found, at = np.zeros(count, np.int64), np.full(count, -1, np.int64)
    used = np.ones((count + 1, len(axes.extents)), np.int64)
    axis = 0
    while axis >= 0:
        at[axis] += 1
        options = axes.options[axes.first[axis] : axes.first[axis + 1]]
        if at[axis] == len(options):
            at[axis] = -1
            axis -= 1
        elif not (is_twin[axis] and _is_exchange(options, at[axis], at[axis - 1])) and _is_fitting(
            used[axis], options[at[axis]], axes.extents, rests[axis], least
        ):
            found[axis] += 1
            if found[axis] > most:
                return found
            if axis + 1 < count:
                for loop in range(len(axes.extents)):
                    used[axis + 1, loop] = used[axis, loop] * options[at[axis], loop]
                axis += 1
    return found


@compiled
def further(
    used: np.ndarray, options: np.ndarray, extents: np.ndarray, rest: int, least: float, count: int, before: np.ndarray
) -> np.ndarray:
    """Which options of the next axis go with which choices of the axes before it: `count` rows (choice, option).

    `used` is [choice, loop]; with `rest` units along the axes to come at least so many are to be used. `before` has for
    each choice the option of an axis that may be exchanged with this one, or -1.
    """
    found, at = np.empty((count, 2), np.int32), 0
    for row in range(len(used)):
        for option in range(len(options)):
            if not _is_exchange(options, option, before[row]) and _is_fitting(
                used[row], options[option], extents, rest, least
            ):
                found[at, 0], found[at, 1] = row, option
                at += 1
    return found


@compiled
def firsts_of(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each different number is for the first time, ascending, and of each number which of these it equals."""
    slots = 2
    while slots < 2 * len(codes):
        slots *= 2
    table = np.full(slots, -1, np.int64)
    first, back = np.empty(len(codes), np.int64), np.empty(len(codes), np.int64)
    many = 0
    for number in range(len(codes)):
        slot = codes[number] & (slots - 1)
        while table[slot] >= 0 and codes[first[table[slot]]] != codes[number]:
            slot = (slot + 1) & (slots - 1)
        if table[slot] < 0:
            table[slot], first[many] = many, number
            many += 1
        back[number] = table[slot]
    return first[:many].copy(), back


@lending
def _average(axes: Axes, rules: Rules, desk: Desk, picked: np.ndarray) -> bool:
    """The factors of a choice on average, and the steps that they leave; whether it is allowed."""
    loops = len(axes.extents)
    use = 1.0
    for axis in range(len(axes.sizes)):
        desk.ragged[axis] = 0
        for loop in range(loops):
            desk.factors[axis, loop] = axes.options[axes.first[axis] + picked[axis], loop]
            desk.over[axis, loop], desk.under[axis, loop] = desk.factors[axis, loop], 1
    for loop in range(loops):
        extent, used, largest = axes.extents[loop], 1, 0
        for axis in range(len(axes.sizes)):
            used *= desk.factors[axis, loop]
            if desk.factors[axis, loop] > desk.factors[largest, loop]:
                largest = axis
        steps = -(-extent // used)
        desk.steps[loop] = steps
        use *= extent / steps
        if extent % used == 0:
            continue
        most = desk.factors[largest, loop]
        others = used // most
        if extent % others > 0 or not rules.may_be_ragged:
            return False
        if rules.must_fill and not axes.given[largest, loop]:
            along = 1
            for other in range(loops):
                along *= desk.factors[largest, other]
            desk.ragged[largest] += 1
            room = min(axes.sizes[largest] // (along // most), extent // others)
            if most != room or desk.ragged[largest] > 1:
                return False
        common = gcd(extent, steps * others)
        desk.over[largest, loop], desk.under[largest, loop] = extent // common, steps * others // common
    return use / rules.units >= rules.least_use


@lending
def _gather(
    over: np.ndarray, under: np.ndarray, group: np.ndarray, together_over: np.ndarray, together_under: np.ndarray
) -> None:
    """How far each loop is spread over every group of axes, as reduced fractions."""
    groups, loops = together_over.shape
    whole = True
    for number in range(groups):
        for loop in range(loops):
            together_over[number, loop], together_under[number, loop] = 1, 1
    for axis in range(len(group)):
        number = group[axis]
        for loop in range(loops):
            together_over[number, loop] *= over[axis, loop]
            if under[axis, loop] > 1:
                together_under[number, loop] *= under[axis, loop]
                whole = False
    if not whole:
        for number in range(groups):
            for loop in range(loops):
                if together_under[number, loop] > 1:
                    common = gcd(together_over[number, loop], together_under[number, loop])
                    together_over[number, loop] //= common
                    together_under[number, loop] //= common


@lending
def mixed(found: int, number: int) -> int:
    found = (found ^ number) * _MIX & _MASK
    return found ^ (found >> 29)


@lending
def _comes_before(over: np.ndarray, under: np.ndarray, one: np.ndarray, other: np.ndarray) -> bool:
    """Whether factors come before themselves in another order of loops, as words do: all `over`, then all `under`."""
    for part in (over, under):
        for group in range(part.shape[0]):
            for loop in range(part.shape[1]):
                here, there = part[group, one[loop]], part[group, other[loop]]
                if here != there:
                    return here < there
    return False


@lending
def _may_exchange(under: np.ndarray) -> bool:
    """Whether factors may go to other loops and cost the same to the last bit: see `placed.product_of`."""
    broken = 0
    for group in range(under.shape[0]):
        for loop in range(under.shape[1]):
            broken += 1 if under[group, loop] > 1 else 0
    return broken <= MOST_BROKEN


@lending
def _tell_apart(desk: Desk, group: np.ndarray, orders: np.ndarray) -> int:
    """Gather the factors of a choice; the order of loops that stands for it."""
    over, under = desk.together_over, desk.together_under
    _gather(desk.over, desk.under, group, over, under)
    found = 0
    if _may_exchange(under):
        for number in range(1, len(orders)):
            if _comes_before(over, under, orders[number], orders[found]):
                found = number
    return found


@inner
def _desk_of(axes: Axes, groups: int) -> Desk:
    count, loops = len(axes.sizes), len(axes.extents)
    return Desk(
        np.ones((count, loops), np.int64), np.ones((count, loops), np.int64), np.ones((count, loops), np.int64),
        np.ones(loops, np.int64), np.zeros(count, np.int64),
        np.ones((groups, loops), np.int64), np.ones((groups, loops), np.int64),
    )  # fmt: skip


@compiled
def allowed_rows(
    axes: Axes, rules: Rules, picked: np.ndarray, group: np.ndarray, orders: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """The rows of options that are allowed, and a number for each, the same for those that must cost the same.

    Others may have the same number with one seed, but hardly with the next one as well.
    """
    desk = _desk_of(axes, int(group.max()) + 1)
    rows, codes = np.empty(len(picked), np.int64), np.empty(len(picked), np.int64)
    count = 0
    for row in range(len(picked)):
        if _average(axes, rules, desk, picked[row]):
            order, code = _tell_apart(desk, group, orders), seed
            for number in range(len(desk.together_over)):
                for loop in range(len(axes.extents)):
                    at = orders[order, loop]
                    code = mixed(code, desk.together_over[number, at] << 31 ^ desk.together_under[number, at])
            rows[count], codes[count] = row, code
            count += 1
    return rows[:count], codes[:count]


@compiled
def are_alike(
    axes: Axes,
    rules: Rules,
    picked: np.ndarray,
    rows: np.ndarray,
    mates: np.ndarray,
    group: np.ndarray,
    orders: np.ndarray,
) -> bool:
    """Whether each of some rows of options and its mate must cost the same."""
    groups, loops = int(group.max()) + 1, len(axes.extents)
    desk, mate = _desk_of(axes, groups), _desk_of(axes, groups)
    for row in range(len(rows)):
        if rows[row] == mates[row]:
            continue
        _average(axes, rules, desk, picked[rows[row]])
        _average(axes, rules, mate, picked[mates[row]])
        order, its = _tell_apart(desk, group, orders), _tell_apart(mate, group, orders)
        for number in range(groups):
            for loop in range(loops):
                here, there = orders[order, loop], orders[its, loop]
                if desk.together_over[number, here] != mate.together_over[number, there]:
                    return False
                if desk.together_under[number, here] != mate.together_under[number, there]:
                    return False
    return True


@compiled
def averaged_rows(
    axes: Axes, rules: Rules, picked: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of some rows the factors on average, `over / under` [choice, axis, loop], and the steps [choice, loop]."""
    desk = _desk_of(axes, 1)
    shape = (len(rows), len(axes.sizes), len(axes.extents))
    over, under = np.empty(shape, np.int32), np.empty(shape, np.int32)
    steps = np.empty((len(rows), len(axes.extents)), np.int64)
    for at in range(len(rows)):
        _average(axes, rules, desk, picked[rows[at]])
        over[at], under[at], steps[at] = desk.over, desk.under, desk.steps
    return over, under, steps


class View(NamedTuple):
    """What an operand sees of choices: [choice, axis, loop] over and under, the steps [choice, loop], and more."""

    over: np.ndarray
    under: np.ndarray
    steps: np.ndarray
    level: np.ndarray  # by axis: the fan-out of the operand at which it lies
    moving: np.ndarray  # [loop]
    sees_all: bool  # what leaves the operand alone as well, but for its steps
    sees_steps: bool  # how many steps all loops leave


@lending
def _seen(view: View, row: int, over: np.ndarray, under: np.ndarray, columns: np.ndarray) -> int:
    """What an operand sees of one choice, as numbers: how many."""
    _gather(view.over[row], view.under[row], view.level, over, under)
    loops, at, left, total = len(view.moving), 0, 0, 1
    for level in range(len(over)):
        alone_over, alone_under, is_spread = 1, 1, False
        for loop in range(loops):
            a, b = over[level, loop], under[level, loop]
            if view.moving[loop]:
                columns[at] = a << 31 ^ b
                at += 1
            elif a > b:
                alone_over, alone_under, is_spread = alone_over * a, alone_under * b, True
            else:
                alone_over, alone_under = alone_over * a, alone_under * b
        if view.sees_all:
            columns[at], columns[at + 1], columns[at + 2] = alone_over, alone_under, int(is_spread)
            at += 3
    for loop in range(loops):
        total *= view.steps[row, loop]
        if not view.moving[loop] and view.steps[row, loop] > 1:
            left = 1
    columns[at], columns[at + 1] = left if view.sees_all else 0, total if view.sees_steps else 0
    return at + 2


@compiled
def seen_codes(view: View, levels: int, seed: int) -> np.ndarray:
    """A number for each choice, the same for those that an operand cannot tell apart."""
    over, under = np.ones((levels, len(view.moving)), np.int64), np.ones((levels, len(view.moving)), np.int64)
    columns, codes = np.zeros(levels * (len(view.moving) + 3) + 2, np.int64), np.empty(len(view.over), np.int64)
    for row in range(len(codes)):
        code = seed
        for at in range(_seen(view, row, over, under, columns)):
            code = mixed(code, columns[at])
        codes[row] = code
    return codes


@compiled
def are_seen_alike(view: View, levels: int, mates: np.ndarray) -> bool:
    """Whether an operand cannot tell each choice and its mate apart."""
    over, under = np.ones((levels, len(view.moving)), np.int64), np.ones((levels, len(view.moving)), np.int64)
    columns = np.zeros(levels * (len(view.moving) + 3) + 2, np.int64)
    other = np.zeros_like(columns)
    for row in range(len(mates)):
        if mates[row] != row:
            count = _seen(view, row, over, under, columns)
            _seen(view, int(mates[row]), over, under, other)
            for at in range(count):
                if columns[at] != other[at]:
                    return False
    return True


@compiled
def seen_factors(view: View, levels: int) -> tuple[np.ndarray, np.ndarray]:
    """How far loops are spread at every fan-out of an operand, as fractions `over / under`: [choice, fan-out, loop].

    Of what leaves it alone nothing, unless all is seen.
    """
    over = np.ones((len(view.over), levels, len(view.moving)), np.int64)
    under = np.ones_like(over)
    for row in range(len(over)):
        _gather(view.over[row], view.under[row], view.level, over[row], under[row])
        if not view.sees_all:
            for loop in range(len(view.moving)):
                if not view.moving[loop]:
                    over[row, :, loop], under[row, :, loop] = 1, 1
    return over, under

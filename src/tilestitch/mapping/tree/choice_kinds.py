"""Some of the choices of what is spread, compiled: where there are too many, rows of options made axis by axis.

Choices are of one kind if they spread as much over each fan-out for loops that go through the same operands. That
decides first of all how often what is read serves several units, and how many units have work. Of every kind some are
kept, those that spread few loops along an axis first; of kinds those that use most units, and some of the others.
"""

from typing import NamedTuple

import numpy as np

from tilestitch.base.jit import compiled, inner, lending
from tilestitch.mapping.tree.choice_rows import mixed

_SLOTS = 2**22  # of the table of kinds


class Begun(NamedTuple):
    """Choices along the first axes."""

    used: np.ndarray  # [choice, loop]
    largest: np.ndarray  # [choice, loop] of the factors along one axis
    kinds: np.ndarray  # [choice, fan-out and class of loops] how much is spread


class Following(NamedTuple):
    """What may be spread along the next axis."""

    options: np.ndarray  # [option, loop], few loops first
    classes: np.ndarray  # [option, class of loops] the same together
    first: int  # of the columns of kinds: that of the axis's fan-out
    extents: np.ndarray
    rest: int  # units along the axes to come
    least: float  # units that have to be used
    may_be_ragged: bool


@lending
def _fits(begun: Begun, following: Following, row: int, option: int) -> bool:
    """Whether an option goes with a choice; of each loop no more than one factor may not divide it."""
    product = 1
    for loop in range(len(following.extents)):
        factor, extent = following.options[option, loop], following.extents[loop]
        here = begun.used[row, loop] * factor
        if here > extent:
            return False
        product *= here
        if extent % here > 0:
            others = here // max(factor, begun.largest[row, loop])
            if not following.may_be_ragged or extent % others > 0:
                return False
    return product * following.rest >= following.least


@lending
def _kind(begun: Begun, following: Following, row: int, option: int) -> tuple[int, float]:
    """A number for the kind of a choice with an option, and the units that it uses."""
    classes = following.classes.shape[1]
    code, units = 7, 1.0
    for column in range(begun.kinds.shape[1]):
        spread = begun.kinds[row, column]
        if following.first <= column < following.first + classes:
            spread *= following.classes[option, column - following.first]
        code, units = mixed(code, spread), units * spread
    return code, units


@inner
def _slot(table: np.ndarray, code: int) -> int:
    """Where a number is in a table of numbers, or is to be; -1 are free."""
    at = code % len(table)
    while table[at] >= 0 and table[at] != code:
        at = (at + 1) % len(table)
    return at


@compiled
def kinds_of(begun: Begun, following: Following) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The kinds of all choices along one more axis in order of their appearance, with their units and numbers."""
    table, place = np.full(_SLOTS, -1, np.int64), np.empty(_SLOTS, np.int32)
    codes, units = np.empty(_SLOTS // 2, np.int64), np.empty(_SLOTS // 2, np.float64)
    counts = np.zeros(_SLOTS // 2, np.int64)
    many = 0
    for option in range(len(following.options)):
        for row in range(len(begun.used)):
            if _fits(begun, following, row, option):
                code, used = _kind(begun, following, row, option)
                at = _slot(table, code)
                if table[at] < 0:
                    if many == len(codes):
                        continue
                    table[at], place[at], codes[many], units[many] = code, many, code, used
                    many += 1
                counts[place[at]] += 1
    return codes[:many], units[:many], counts[:many]


@compiled
def kept_rows(begun: Begun, following: Following, codes: np.ndarray, quotas: np.ndarray) -> np.ndarray:
    """Rows (choice, option) of kinds with the numbers `codes`, of each the first few."""
    table, place = np.full(_SLOTS, -1, np.int64), np.empty(_SLOTS, np.int32)
    for number in range(len(codes)):
        at = _slot(table, codes[number])
        table[at], place[at] = codes[number], number
    left, found, count = quotas.copy(), np.empty((quotas.sum(), 2), np.int32), 0
    for option in range(len(following.options)):
        for row in range(len(begun.used)):
            if _fits(begun, following, row, option):
                at = _slot(table, _kind(begun, following, row, option)[0])
                if table[at] >= 0 and left[place[at]] > 0:
                    left[place[at]] -= 1
                    found[count, 0], found[count, 1] = row, option
                    count += 1
    return found[:count]

"""Which choices of what is spread are searched where there are too many: some of every kind, most units first."""

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilestitch.mapping.tree.choice_kinds import Begun, Following, kept_rows, kinds_of
from tilestitch.mapping.tree.placed import PlacedNest

MOST_BEGUN = 2**15  # rows that are kept along every axis but the last
MOST_KEPT = 2**17  # along the last one

_Whole = NDArray[np.int64]
_Rows = NDArray[np.int32]


def some_rows(
    bare: PlacedNest,
    fan_outs: Sequence[Sequence[int]],
    tables: Sequence[_Whole],
    least: float,
    *,
    may_be_ragged: bool,
) -> _Rows:
    """Rows with the number of an option of every axis: at most `MOST_KEPT`, the same ones every time.

    `fan_outs` are the axes that lie at one fan-out of every operand, `tables` the options of each axis; at least so
    many units are to be used. What spreads least is always among them.
    """
    extents, axes = np.array(bare.nest.extents, np.int64), bare.tree.axes
    classes = _classes(bare)
    count = int(classes.max()) + 1
    picked = np.empty((1, 0), np.int32)
    begun = Begun(
        np.ones((1, len(extents)), np.int64),
        np.ones((1, len(extents)), np.int64),
        np.ones((1, len(fan_outs) * count), np.int64),
    )
    for number, options in enumerate(tables):
        order = np.argsort((options > 1).sum(axis=1), kind="stable")
        options = options[order]
        spread = np.stack([options[:, classes == one].prod(axis=1) for one in range(count)], axis=1)
        first = next(at for at, group in enumerate(fan_outs) if number in group) * count
        rest = prod(axis.size for axis in axes[number + 1 :])
        following = Following(options, spread, first, extents, rest, least, may_be_ragged)
        codes, units, many = kinds_of(begun, following)
        quotas = _quotas(units, many, MOST_KEPT if number + 1 == len(axes) else MOST_BEGUN)
        chosen = quotas > 0
        rows = kept_rows(begun, following, codes[chosen], quotas[chosen])
        before, along = rows[:, 0], options[rows[:, 1]]
        kinds = begun.kinds[before]
        kinds[:, first : first + count] *= spread[rows[:, 1]]
        begun = Begun(begun.used[before] * along, np.maximum(begun.largest[before], along), kinds)
        picked = np.concatenate([picked[before], order[rows[:, 1:]].astype(np.int32)], axis=1)
    return picked


def _classes(bare: PlacedNest) -> _Whole:
    """Loops that go through the same operands have the same number."""
    moved = [tuple(loop in array.indexed_by for array in bare.operands) for loop in range(len(bare.nest.loops))]
    known = list(dict.fromkeys(moved))
    return np.array([known.index(one) for one in moved], np.int64)


def _quotas(units: NDArray[np.float64], many: _Whole, most: int) -> _Whole:
    """How many rows of each kind are kept: half of all go to kinds that use at least half as many units as any does.

    Of more kinds than there is room for those that use most units are taken, and some of all others evenly.
    """
    found = np.zeros(len(units), np.int64)
    if len(units) == 0:
        return found
    order, most = np.argsort(-units, kind="stable"), most - 1  # one is for what spreads least
    is_high = units[order] * 2 >= units[order[0]]
    high, low = order[is_high], order[~is_high]
    found[high] = _shared_out(many[high], most if len(low) == 0 else most // 2)
    left = most - int(found.sum())
    if len(low) > left:
        most_units = low[: left * 3 // 4]
        others = low[len(most_units) :]
        low = np.concatenate([most_units, others[:: -(-len(others) // max(1, left - len(most_units)))]])
    found[low] = _shared_out(many[low], left)
    found[order[-1]] = max(1, found[order[-1]])
    return found


def _shared_out(many: _Whole, most: int) -> _Whole:
    """Of kinds with so many rows each the largest equal number, together at most `most`; else of the first one each."""
    few, limit = 0, int(many.max(initial=0))
    while few < limit:
        middle = (few + limit + 1) // 2
        few, limit = (middle, limit) if int(np.minimum(many, middle).sum()) <= most else (few, middle - 1)
    found = np.minimum(many, few)
    if few == 0:
        found[:most] = 1
    return found

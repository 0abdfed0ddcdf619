"""What a nest may spread over the units of a tree: every choice, and one of those that must cost the same.

A choice gives every loop a whole factor along every axis: along an axis at most its units, of a loop at most its
iterations. The factors of a loop multiply to a divisor of it, or they are ragged: without the largest of them they do,
and the largest fills some steps only in part. What is ragged has to fill its axis, unless all of it is asked for.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import count
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tilestitch.hardware.tree import Network
from tilestitch.ir.loop_nest import LoopNest, LoopOperand
from tilestitch.mapping.tree.choice_rows import (
    Axes,
    Rules,
    allowed_rows,
    are_alike,
    averaged_rows,
    counted_rows,
    firsts_of,
    further,
)
from tilestitch.mapping.tree.choice_subset import some_rows
from tilestitch.mapping.tree.placed import Memo, PlacedNest

MOST_CHOICES = 4_000_000
MOST_ROWS = 20_000_000  # before those are left out that must cost the same, or that nothing fills

Factors: TypeAlias = NDArray[np.int32]  # choices x axes x loops


class Ragged(StrEnum):
    """Which factors may be spread that do not divide their loop."""

    NONE = "none"
    FILLING = "filling"  # the largest for which an axis has room beside its other factors, one along an axis
    ALL = "all"  # every one that leaves fewer steps than the one below it


@dataclass(frozen=True, slots=True)
class SpatialSpace:
    """Which choices are searched. `given` fixes factors by axis and loop; `only` the loops that an axis takes."""

    ragged: Ragged = Ragged.FILLING
    least_use: float = 0.0  # share of the units that have work, on average over the steps
    given: Mapping[tuple[str, str], int] = field(default_factory=dict)
    only: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Choices:
    """Choices as the factors that they have on average, `over / under`, and the steps that they leave of each loop.

    Those that are some of others say of which, and the numbers that they have there: `whole`.
    """

    over: Factors
    under: Factors
    steps: NDArray[np.int64]  # choices x loops
    more_than: int = 0  # where these are only some of all ways to spread loops: how many there are at least
    whole: "tuple[Choices, NDArray[np.int64]] | None" = field(default=None, repr=False, compare=False)
    memo: Memo = field(default_factory=Memo, init=False, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.over)

    def __getitem__(self, chosen: NDArray[np.int64] | NDArray[np.bool_]) -> "Choices":
        numbers = np.arange(len(self), dtype=np.int64)[chosen]
        whole = (self, numbers) if self.whole is None else (self.whole[0], self.whole[1][numbers])
        return Choices(self.over[numbers], self.under[numbers], self.steps[numbers], self.more_than, whole)


def choices_of(bare: PlacedNest, space: SpatialSpace = SpatialSpace()) -> Choices:
    """All choices of a nest that spreads nothing yet; of those that must cost the same the first.

    Where there are more than `MOST_ROWS` before that, or more than `MOST_CHOICES` behind it, only some of them.
    """
    extents, axes = np.array(bare.nest.extents, np.int64), bare.tree.axes
    if not axes:
        nothing = np.ones((1, 0, len(extents)), np.int32)
        return Choices(nothing, nothing, extents.reshape(1, -1))
    least = space.least_use * bare.tree.units * (1 - 1e-12)
    used, picked = np.ones((1, len(extents)), np.int64), np.empty((1, 0), np.int32)
    tables = [factors_along(bare, number, space) for number in range(len(axes))]
    rests = [prod(later.size for later in axes[number + 1 :]) for number in range(len(axes))]
    # with none between them, so that which of equal factors of a loop comes first does not change
    is_twin = np.array(
        [
            number > 0 and _are_twins(bare, space, (number - 1, number), (tables[number - 1], tables[number]))
            for number in range(len(axes))
        ]
    )
    asked, rules = _asked(bare, space, tables)
    counts = counted_rows(asked, np.array(rests, np.int64), least, MOST_ROWS, is_twin)
    if counts.max() > MOST_ROWS:
        return _some(bare, space, tables, MOST_ROWS)
    for number, along in enumerate(tables):
        before = picked[:, -1] if is_twin[number] else np.full(len(picked), -1, np.int32)
        rows = further(used, along, extents, rests[number], least, int(counts[number]), before)
        if number + 1 < len(axes):
            used = used[rows[:, 0]] * along[rows[:, 1]]
        picked = np.concatenate([picked[rows[:, 0]], rows[:, 1:]], axis=1)
    found = _different(bare, asked, rules, picked)
    return _some(bare, space, tables, MOST_CHOICES) if found is None else found


def _some(bare: PlacedNest, space: SpatialSpace, tables: Sequence[NDArray[np.int64]], more_than: int) -> Choices:
    """Some of the choices, where there are more than so many."""
    least = space.least_use * bare.tree.units * (1 - 1e-12)
    fan_outs, may_be_ragged = list(fan_outs_of(bare).values()), space.ragged is not Ragged.NONE
    picked = some_rows(bare, fan_outs, tables, least, may_be_ragged=may_be_ragged)
    found = _different(bare, *_asked(bare, space, tables), picked)
    assert found is not None
    return replace(found, more_than=more_than)


def _asked(bare: PlacedNest, space: SpatialSpace, tables: Sequence[NDArray[np.int64]]) -> tuple[Axes, Rules]:
    """What is asked of every choice."""
    given = [[(axis.name, loop.name) in space.given for loop in bare.nest.loops] for axis in bare.tree.axes]
    axes = Axes(
        np.concatenate(tables),
        np.array([sum(map(len, tables[:at])) for at in range(len(tables) + 1)], np.int64),
        np.array([axis.size for axis in bare.tree.axes], np.int64),
        np.array(bare.nest.extents, np.int64),
        np.array(given, np.bool_),
    )
    rules = Rules(
        space.ragged is not Ragged.NONE,
        space.ragged is Ragged.FILLING,
        bare.tree.units,
        space.least_use * (1 - 1e-12),
    )
    return axes, rules


def _are_twins(
    bare: PlacedNest, space: SpatialSpace, two: tuple[int, int], along: tuple[NDArray[np.int64], NDArray[np.int64]]
) -> bool:
    """Whether two axes may be exchanged in every choice: of the same size and options, and nothing fixes either."""
    fixed = {axis for axis, _ in space.given}
    axes = [bare.tree.axes[one] for one in two]
    is_alike = any(two[0] in group and two[1] in group for group in alike_axes(bare))
    is_free = axes[0].size == axes[1].size and not fixed & {axis.name for axis in axes}
    return is_alike and is_free and np.array_equal(*along)


def factors_along(bare: PlacedNest, number: int, space: SpatialSpace) -> NDArray[np.int64]:
    """The factors of all loops along one axis, by themselves: [option, loop]."""
    axis, names = bare.tree.axes[number], [loop.name for loop in bare.nest.loops]
    allowed = [name for name in space.only.get(axis.name, axis.loops or names) if name in (axis.loops or names)]
    options: list[list[int]] = []
    free: list[bool] = []
    for name, extent in zip(names, bare.nest.extents, strict=True):
        most = min(extent, axis.size)
        free.append(name in allowed and (axis.name, name) not in space.given)
        if (axis.name, name) in space.given:
            options.append([space.given[axis.name, name]])
        elif name not in allowed:
            options.append([1])
        else:
            options.append([one for one in range(1, most + 1) if space.ragged is Ragged.ALL or extent % one == 0])
    found: list[tuple[int, ...]] = list(_products(options, axis.size))
    if space.ragged is Ragged.FILLING:
        exact, known = list(found), set(found)
        for factors in exact:
            for loop, extent in enumerate(bare.nest.extents):
                room = min(axis.size // (prod(factors) // factors[loop]), extent)
                if free[loop] and extent % room > 0:
                    filled = (*factors[:loop], room, *factors[loop + 1 :])
                    if filled not in known:
                        known.add(filled)
                        found.append(filled)
    return np.array(found, np.int64).reshape(-1, len(names))


def _products(options: Sequence[Sequence[int]], most: int) -> Iterator[tuple[int, ...]]:
    """One of each of the options, as long as their product is at most `most`."""
    if not options:
        yield ()
        return
    for one in options[0]:
        if one <= most:
            for rest in _products(options[1:], most // one):
                yield (one, *rest)


def _different(bare: PlacedNest, axes: Axes, rules: Rules, picked: NDArray[np.int32]) -> Choices | None:
    """The rows of options that are allowed, one of those that must cost the same; None where there are too many.

    Such spread all loops alike over each fan-out, so that nothing but the names of their axes differs; or one is the
    other with loops exchanged that the nest does not tell apart, as rows and columns, where no more than two factors
    are not whole. Axes with other networks differ, and so do loops where the user limits or orders some of them.
    """
    group = np.zeros(len(bare.tree.axes), np.int64)
    for number, alike in enumerate(alike_axes(bare)):
        group[alike] = number
    exchanged = [list(range(len(bare.nest.loops)))]
    if not bare.limits and not bare.order:
        exchanged += _exchanges(bare.nest)
    orders = np.array(exchanged, np.int64)
    for seed in count():
        rows, codes = allowed_rows(axes, rules, picked, group, orders, seed)
        first, back = firsts_of(codes)
        if len(first) > MOST_CHOICES:
            return None
        if are_alike(axes, rules, picked, rows, rows[first[back]], group, orders):
            return Choices(*averaged_rows(axes, rules, picked, rows[first]))
    raise AssertionError("unreachable")


def _exchanges(nest: LoopNest) -> list[list[int]]:
    """Exchanges of two loops, or of two pairs, that turn a nest into itself."""
    loops = range(len(nest.loops))
    pairs = [(a, b) for a in loops for b in loops if a < b and nest.extents[a] == nest.extents[b]]
    found: list[list[int]] = []
    for swaps in [(pair,) for pair in pairs] + [(a, b) for a in pairs for b in pairs if a < b]:
        order = list(loops)
        for a, b in swaps:
            order[a], order[b] = order[b], order[a]
        if len({loop for swap in swaps for loop in swap}) == 2 * len(swaps) and all(
            _axes_of(array, order) == _axes_of(array, loops) for array in nest.operands
        ):
            found.append(order)
    return found


def _axes_of(array: LoopOperand, order: Sequence[int]) -> list[tuple[tuple[tuple[int, int], ...], int]]:
    """The axes of an array in any order, with loops renumbered."""
    renamed = (tuple((order[loop], step) for loop, step in terms) for terms in array.axes)
    return sorted(zip(renamed, array.shape, strict=True))


def fan_outs_of(bare: PlacedNest) -> dict[tuple[int, ...], list[int]]:
    """The axes that lie at one fan-out of every operand, by the number of that fan-out for each."""
    found: dict[tuple[int, ...], list[int]] = {}
    fan_outs = [bare.tree.fan_outs(home) for home in bare.homes]
    for number, axis in enumerate(bare.tree.axes):
        key = tuple(next(at for at, here in enumerate(levels) if axis.name in here) for levels in fan_outs)
        found.setdefault(key, []).append(number)
    return found


def alike_axes(bare: PlacedNest) -> list[list[int]]:
    """The axes that nothing but their names tells apart."""
    found: dict[tuple[tuple[int, ...], tuple[Network, ...]], list[int]] = {}
    for fan_out, axes in fan_outs_of(bare).items():
        for axis in axes:
            found.setdefault((fan_out, bare.tree.axes[axis].networks), []).append(axis)
    return list(found.values())

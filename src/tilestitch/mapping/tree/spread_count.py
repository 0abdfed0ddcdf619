"""All ways to spread a nest over the units of a tree, made loop by loop: the checker's own list of choices.

The search goes axis by axis. Here every loop has its options, each a factor along every axis, and options of loops go
together as long as each axis has room. What an option means, and which choices must cost the same, is in
docs/trees.md#what-is-spread.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations, product
from math import ceil, prod

import numpy as np
from numpy.typing import NDArray

from tilestitch.base.errors import TooLarge
from tilestitch.hardware.tree import Axis
from tilestitch.ir.loop_nest import LoopNest
from tilestitch.mapping.tree.choices import Ragged, SpatialSpace
from tilestitch.mapping.tree.placed import PlacedNest, Unrolled

_Whole = NDArray[np.int64]

MOST_PARTS = 8_000_000
MOST_BROKEN = 2  # factors that are not whole, beside which loops may be exchanged


@dataclass(frozen=True, slots=True)
class _Option:
    """A factor of one loop along every axis; one of them may fill its axis without dividing the loop."""

    factors: tuple[int, ...]
    averages: tuple[Fraction, ...]
    steps: int
    filled: int  # the axis of the factor that must be as large as its axis allows; -1 where none must
    most: int  # up to which it would be larger if it could


@dataclass(frozen=True, slots=True)
class SpreadList:
    """One choice for each class of those that must cost the same: `options[choice, loop]` are numbers of options."""

    bare: PlacedNest
    tables: tuple[tuple[_Option, ...], ...]  # by loop
    options: _Whole
    keys: frozenset[bytes]  # of all classes

    def __len__(self) -> int:
        return len(self.options)

    @property
    def steps(self) -> _Whole:
        """What each choice leaves of each loop: [choice, loop]."""
        columns = [
            np.array([one.steps for one in table], np.int64)[self.options[:, loop]]
            for loop, table in enumerate(self.tables)
        ]
        return np.stack(columns, axis=1)

    def part(self, numbers: _Whole) -> "SpreadList":
        """Some of the choices."""
        return replace(self, options=self.options[numbers])

    def over_fan_outs(self, operand: int, levels: int) -> tuple[_Whole, _Whole]:
        """What choices spread over each of so many fan-outs of an operand, as reduced fractions.

        [choice, fan-out, loop]; fan-outs that the operand does not have spread nothing.
        """
        fan_outs = self.bare.tree.fan_outs(self.bare.homes[operand])
        names = [axis.name for axis in self.bare.tree.axes]
        shape = (len(self), levels, len(self.tables))
        over, under = np.ones(shape, np.int64), np.ones(shape, np.int64)
        for level, axes in enumerate(fan_outs):
            among = [names.index(name) for name in axes]
            for loop, table in enumerate(self.tables):
                found = [prod((one.averages[axis] for axis in among), start=Fraction(1)) for one in table]
                over[:, level, loop] = np.array([one.numerator for one in found], np.int64)[self.options[:, loop]]
                under[:, level, loop] = np.array([one.denominator for one in found], np.int64)[self.options[:, loop]]
        return over, under

    def has(self, unrolled: Sequence[Unrolled]) -> bool:
        """Whether a way to spread loops is one of these, or must cost the same as one."""
        averages = [[Fraction(1)] * len(self.bare.tree.axes) for _ in self.tables]
        names = [axis.name for axis in self.bare.tree.axes]
        for one in unrolled:
            averages[one.loop][names.index(one.axis)] *= one.factor
        rows = np.array([_parts(self.bare, averages)], np.int64)
        return bytes(_keys(self.bare, rows)[0]) in self.keys

    def placement(self, number: int) -> PlacedNest:
        """The nest with one of the choices."""
        spread = [
            Unrolled(axis.name, loop, factor)
            for at, axis in enumerate(self.bare.tree.axes)
            for loop, table in enumerate(self.tables)
            if (factor := table[self.options[number, loop]].averages[at]) != 1
        ]
        return replace(self.bare, unrolled=tuple(spread))


def spread_list(bare: PlacedNest, space: SpatialSpace) -> SpreadList:
    """All choices of a nest that spreads nothing yet. Raises `TooLarge` for more than eight million on the way."""
    tables = tuple(tuple(_options(bare, loop, space)) for loop in range(len(bare.nest.loops)))
    sizes = np.array([axis.size for axis in bare.tree.axes], np.int64)
    rows = np.zeros((1, 0), np.int64)
    used = np.ones((1, len(sizes)), np.int64)
    filled = np.full((1, len(sizes)), -1, np.int64)  # by axis: the factor that has to fill it
    most = np.zeros((1, len(sizes)), np.int64)
    for table in tables:
        nothing = np.zeros((0, rows.shape[1] + 1), np.int64)
        parts = [(nothing, used[:0], filled[:0], most[:0])]
        for number, one in enumerate(table):
            now = used * np.array(one.factors, np.int64)
            fits = (now <= sizes).all(axis=1)
            fits &= (filled[:, one.filled] < 0) if one.filled >= 0 else True
            new_filled, new_most = filled[fits], most[fits]
            if one.filled >= 0:
                new_filled[:, one.filled], new_most[:, one.filled] = one.factors[one.filled], one.most
            chosen = np.concatenate([rows[fits], np.full((int(fits.sum()), 1), number, np.int64)], axis=1)
            parts.append((chosen, now[fits], new_filled, new_most))
            if sum(len(part[0]) for part in parts) > MOST_PARTS:
                raise TooLarge(f"{bare.nest.name}: more choices of what to spread than the checker counts")
        rows, used, filled, most = (np.concatenate([part[at] for part in parts]) for at in range(4))
    larger = filled + 1
    could = (filled >= 0) & (larger <= most) & (larger * (used // np.maximum(filled, 1)) <= sizes)
    rows = rows[~could.any(axis=1)]
    everything = SpreadList(bare, tables, rows, frozenset())
    use = (np.array(bare.nest.extents) / everything.steps).prod(axis=1) / bare.tree.units
    rows = rows[use >= space.least_use * (1 - 1e-12)]
    keys = _keys(bare, _all_parts(bare, tables, rows))
    classes, first = np.unique(keys, return_index=True)
    return SpreadList(bare, tables, rows[np.sort(first)], frozenset(map(bytes, classes)))


def _options(bare: PlacedNest, loop: int, space: SpatialSpace) -> Iterator[_Option]:
    """The options of one loop."""
    extent, name, axes = bare.nest.extents[loop], bare.nest.loops[loop].name, bare.tree.axes
    names = [one.name for one in bare.nest.loops]
    ranges: list[Sequence[int]] = []
    for axis in axes:
        wired = axis.loops or names
        if (axis.name, name) in space.given:
            ranges.append([space.given[axis.name, name]])
        elif name in wired and name in space.only.get(axis.name, wired):
            ranges.append(_candidates(extent, axis, space.ragged))
        else:
            ranges.append([1])
    seen: set[tuple[Fraction, ...]] = set()
    for factors in product(*ranges):
        used = prod(factors)
        if used > extent:
            continue
        steps = ceil(extent / used)
        if extent % used == 0:
            yield _Option(factors, tuple(map(Fraction, factors)), steps, -1, 0)
            continue
        at = factors.index(max(factors))
        others = used // factors[at]
        if space.ragged is Ragged.NONE or extent % others:
            continue
        averages = [Fraction(one) for one in factors]
        averages[at] = Fraction(extent, steps * others)
        must_fill = space.ragged is Ragged.FILLING and (axes[at].name, name) not in space.given
        if not must_fill and tuple(averages) in seen:
            continue
        seen.add(tuple(averages))
        yield _Option(factors, tuple(averages), steps, at if must_fill else -1, extent // others)


def _candidates(extent: int, axis: Axis, ragged: Ragged) -> list[int]:
    """Factors of a loop along one axis: divisors, those that may fill the axis, or all."""
    most = min(extent, axis.size)
    if ragged is Ragged.ALL:
        return list(range(1, most + 1))
    fill = {axis.size // beside for beside in range(1, axis.size + 1)} if ragged is Ragged.FILLING else set()
    return [one for one in range(1, most + 1) if extent % one == 0 or one in fill]


def _all_parts(bare: PlacedNest, tables: Sequence[Sequence[_Option]], rows: _Whole) -> _Whole:
    """`_parts` of every row."""
    by_loop = [
        np.array([_parts_of_loop(bare, one.averages) for one in table], np.int64)[rows[:, loop]]
        for loop, table in enumerate(tables)
    ]  # by loop: [row, class, 2]
    count = len(_classes(bare))
    shaped = [one.reshape(len(rows), count, 2) for one in by_loop]
    return np.stack(shaped, axis=3).reshape(len(rows), count * 2 * len(tables))


def _parts(bare: PlacedNest, averages: Sequence[Sequence[Fraction]]) -> list[int]:
    """Of each class of axes that are alike, how far each loop is spread: numerators, then denominators."""
    by_loop = np.array([_parts_of_loop(bare, one) for one in averages], np.int64)
    by_loop = by_loop.reshape(len(averages), len(_classes(bare)), 2)  # [loop, class, 2]
    return by_loop.transpose(1, 2, 0).ravel().tolist()


def _parts_of_loop(bare: PlacedNest, averages: Sequence[Fraction]) -> list[tuple[int, int]]:
    found = [prod((averages[axis] for axis in axes), start=Fraction(1)) for axes in _classes(bare)]
    return [(one.numerator, one.denominator) for one in found]


def _classes(bare: PlacedNest) -> list[list[int]]:
    """The axes that lie at the same fan-out of every operand and have the same networks."""
    found: dict[object, list[int]] = {}
    for number, axis in enumerate(bare.tree.axes):
        places = [[axis.name in names for names in bare.tree.fan_outs(home)].index(True) for home in bare.homes]
        found.setdefault((tuple(places), axis.networks), []).append(number)
    return list(found.values())


def _keys(bare: PlacedNest, rows: _Whole) -> NDArray[np.bytes_]:
    """A key for each row, the same for those that must cost the same.

    With at most two factors that are not whole that is the least of the rows that exchanges of loops make of one, if
    those leave the nest as it is; nothing is exchanged where a user orders or limits some loops.
    """
    loops = len(bare.nest.loops)
    parts = rows.reshape(len(rows), rows.shape[1] // (2 * loops), 2, loops)
    may_exchange = (parts[:, :, 1] > 1).sum(axis=(1, 2)) <= MOST_BROKEN
    best = _as_bytes(parts)
    if bare.limits or bare.order:
        return best
    for order in _exchanges(bare.nest):
        other = _as_bytes(parts[..., order])
        best = np.where(may_exchange & (other < best), other, best)
    return best


def _as_bytes(parts: _Whole) -> NDArray[np.bytes_]:
    """Each row as bytes in the order of its numbers."""
    if parts.size == 0:
        return np.zeros(len(parts), "S1")
    flat = np.ascontiguousarray(parts.reshape(len(parts), -1).astype(">u4"))
    return flat.view(f"S{4 * flat.shape[1]}").ravel()


def _exchanges(nest: LoopNest) -> list[list[int]]:
    """Orders of the loops in which one pair, or two pairs, have changed places, and the nest is what it was."""
    loops = list(range(len(nest.loops)))
    pairs = [pair for pair in combinations(loops, 2) if nest.extents[pair[0]] == nest.extents[pair[1]]]
    several = [(one, other) for one, other in combinations(pairs, 2) if not set(one) & set(other)]
    found: list[list[int]] = []
    for swaps in [*((pair,) for pair in pairs), *several]:
        order = dict(zip(loops, loops, strict=True))
        for one, other in swaps:
            order[one], order[other] = other, one
        if _described(nest, order) == _described(nest, dict(zip(loops, loops, strict=True))):
            found.append([order[loop] for loop in loops])
    return found


def _described(nest: LoopNest, order: dict[int, int]) -> list[list[tuple[object, int]]]:
    """The axes of each array, in no order, with loops renamed."""
    return [
        sorted(
            (tuple((order[loop], step) for loop, step in terms), size)
            for terms, size in zip(array.axes, array.shape, strict=True)
        )
        for array in nest.operands
    ]

"""Below what no mapping of a nest comes on a tree, whatever it spreads: for nests with too many choices to look at all.

Every element of an operand crosses every border between its memories at least once, windows that overlap as often as
the tile that suits them best lets them; results leave the units as often as no more than all units of a fan-out can add
up; and of two operands that are read only one stays at the units. Each border is taken by itself, as if all units were
there for it alone. Numbers of elements and of memories are rounded where a factor does not divide, so every border is
taken with the least share that rounding may leave of what crosses it.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from math import ceil, prod

import numpy as np
from numpy.typing import NDArray

from tilestitch.base.errors import DoesNotFit, TooLarge
from tilestitch.base.units import ceil_div
from tilestitch.ir.choices import Objective
from tilestitch.mapping.optimum import value_of
from tilestitch.mapping.tree.choices import Choices, Ragged, SpatialSpace, fan_outs_of
from tilestitch.mapping.tree.cycle_bounds import port_cycles
from tilestitch.mapping.tree.found import FoundMapping
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.quick_arrays import OWN, TOGETHER
from tilestitch.mapping.tree.sliding import needs_tables
from tilestitch.mapping.tree.spread_task import SpreadTask

_MOST_OPTIONS = 100_000  # of a loop
_MOST_PAIRS = 20_000_000  # of the two loops of a window
_MOST_PRODUCTS = 20_000
_LARGE = 64.0  # from which on rounding leaves nearly all
_COUNTS = np.arange(1.0, _LARGE + 1)
_KEPT = 1 - 1e-9  # of a bound: sums are rounded

_Whole = NDArray[np.int64]
_Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Floor:
    """The least energy in pJ, with that of arithmetic, and the fewest cycles."""

    energy_pj: float
    cycles: int


@contextmanager
def of_some(bare: PlacedNest, choices: Choices) -> Iterator[None]:
    """Say of `DoesNotFit` that only some choices were searched: `TooLarge`."""
    try:
        yield
    except DoesNotFit:
        raise TooLarge(
            f"{bare.nest.name}: none of {len(choices):,} choices of what to spread that were searched, of more than "
            f"{choices.more_than:,}, has a mapping that fits the memories; name loops for some axes"
        ) from None


def above_floor(found: FoundMapping, floor: Floor) -> FoundMapping:
    """The best mapping of some choices, with bounds that hold for all."""
    bound = min(found.value, value_of(found.objective, floor.energy_pj, floor.cycles))
    return replace(
        found,
        bound_pj=floor.energy_pj,
        bound_cycles=floor.cycles,
        bound_value=None if found.objective is Objective.ENERGY else bound,
        is_proven=bound >= found.value,
    )


@dataclass(frozen=True, slots=True)
class _Spread:
    """Every way to spread one loop over the fan-outs of an operand: [option, fan-out], and the steps that are left."""

    over: _Whole
    under: _Whole
    factors: _Whole
    steps: _Whole

    def share(self, first: int, last: int) -> _Values:
        """How far the loop is spread over some fan-outs, on average."""
        return self.over[:, first:last].prod(axis=1) / self.under[:, first:last].prod(axis=1)

    def iterations(self, fan_outs: int, tile: _Whole, *, rounds: bool) -> _Values:
        """Iterations of tiles, by option, with so many inner fan-outs: on average, or whole ones alone."""
        found = tile * self.over[:, :fan_outs].prod(axis=1) / self.under[:, :fan_outs].prod(axis=1)
        return np.floor(found) if rounds else found

    def chosen(self, at: _Whole) -> "_Spread":
        """Some of the ways."""
        return _Spread(self.over[at], self.under[at], self.factors[at], self.steps[at])

    def nothing(self) -> "_Spread":
        """One way, of a loop of one iteration."""
        ones = np.ones((1, self.over.shape[1]), np.int64)
        return _Spread(ones, ones, ones, ones[:, 0])


def least_of_all(task: SpreadTask, space: SpatialSpace) -> Floor:
    """What no mapping comes below with any choice of the space."""
    bare = task.bare
    fixed_pj, units = bare.tree.mac_pj * bare.nest.macs, _most_units(task, space)
    ideal = ceil_div(bare.nest.macs, units)
    loops = [_options(task, space, loop) for loop in range(len(bare.nest.loops))]
    spreads = [one for one in loops if one is not None]
    if len(spreads) < len(loops):
        return Floor(fixed_pj * _KEPT, ideal)
    borders = [_Borders(task, space, number, spreads) for number in range(len(task.operands))]
    energy_pj = sum(one.energy_pj() for one in borders)
    if len(borders) == 3 and not needs_tables(bare) and task.arrays.has_latches:
        energy_pj += min(one.in_turn_pj() for one in borders[:2])
    cycles = max((sum(one.cycles(access) for one in borders) for access in port_cycles(task)), default=0.0)
    return Floor((fixed_pj + energy_pj) * _KEPT, max(ideal, ceil(cycles * _KEPT)))


def _most_units(task: SpreadTask, space: SpatialSpace) -> int:
    """How many units may have work: along an axis as many as the loops that it takes have iterations."""
    bare = task.bare
    names = [loop.name for loop in bare.nest.loops]
    extents = dict(zip(names, bare.nest.extents, strict=True))
    along = (
        prod(extents[name] for name in names if _takes(task, space, at, name)) for at in range(len(bare.tree.axes))
    )
    return prod(min(axis.size, most) for axis, most in zip(bare.tree.axes, along, strict=True))


def _takes(task: SpreadTask, space: SpatialSpace, number: int, name: str) -> bool:
    """Whether an axis takes a loop."""
    axis = task.bare.tree.axes[number]
    is_wired = not axis.loops or name in axis.loops
    return (axis.name, name) in space.given or (is_wired and name in space.only.get(axis.name, (name,)))


def _options(task: SpreadTask, space: SpatialSpace, loop: int) -> _Spread | None:
    """Every way to spread a loop over the axes, and maybe more; None where there are too many."""
    bare = task.bare
    extent, name, axes = bare.nest.extents[loop], bare.nest.loops[loop].name, bare.tree.axes
    rows = np.ones((1, 0), np.int64)
    for number, axis in enumerate(axes):
        most = min(extent, axis.size)
        fill = {axis.size // beside for beside in range(1, axis.size + 1)} if space.ragged is Ragged.FILLING else set()
        factors = [one for one in range(1, most + 1) if space.ragged is Ragged.ALL or extent % one == 0 or one in fill]
        if (axis.name, name) in space.given:
            factors = [space.given[axis.name, name]]
        elif not _takes(task, space, number, name):
            factors = [1]
        rows = np.concatenate(
            [np.repeat(rows, len(factors), axis=0), np.tile(np.array(factors, np.int64), len(rows))[:, None]], axis=1
        )
        rows = rows[rows.prod(axis=1) <= extent]
        if len(rows) > _MOST_OPTIONS:
            return None
    used = rows.prod(axis=1)
    steps = -(-extent // used)
    over, under = rows.copy(), np.ones_like(rows)
    if len(axes):
        ragged, largest, at = extent % used > 0, rows.argmax(axis=1), np.arange(len(rows))
        others = used // rows[at, largest]
        allowed = ~ragged | (extent % others == 0)
        over[at[ragged], largest[ragged]] = extent
        under[at[ragged], largest[ragged]] = (steps * others)[ragged]
        rows, over, under, steps = rows[allowed], over[allowed], under[allowed], steps[allowed]
    return _Spread(over, under, rows, steps)


class _Borders:
    """The borders of one operand: border c lies below its memory c, and above its memory c - 1 or the units."""

    def __init__(self, task: SpreadTask, space: SpatialSpace, number: int, loops: Sequence[_Spread]) -> None:
        self._task, self._number, self._arrays = task, number, task.arrays
        self._is_write = number == len(task.operands) - 1
        operand, tree = task.operands[number], task.bare.tree
        level = np.zeros(len(tree.axes), np.int64)
        for key, axes in fan_outs_of(task.bare).items():
            level[axes] = key[operand.number]
        self._memories = len(operand.memories)
        at_units = [number for number in range(len(tree.axes)) if level[number] == 0]
        self._beside = [(tree.axes[at].size, self._taken(at, space)) for at in at_units]
        self._room = [
            prod(axis.size for axis, at in zip(tree.axes, level, strict=True) if at == here)
            for here in range(self._memories + 1)
        ]
        self._loops = [_by_fan_out(one, level, self._memories + 1) for one in loops]
        self._moving = task.arrays.moving[number].tolist()
        self._terms = task.arrays.terms[number, : task.arrays.axes[number]].tolist()
        self._bits = int(task.bounds.bits[number].min())
        self._partial = self._partial_bits()
        self._is_left_out = any(operand.is_sliding(crossing) for crossing in range(self._memories))

    def energy_pj(self) -> float:
        """What all accesses of the operand cost at least."""
        access_pj = self._arrays.access_pj[self._number]
        return sum(
            self._accesses(crossing, side, way) * float(access_pj[crossing - side, side, way])
            for crossing, side, way in self._ends()
        )

    def in_turn_pj(self) -> float:
        """What an operand that is read costs more if it changes at the units with every loop of another operand."""
        if self._is_left_out:
            return 0.0
        changing = [
            loop
            for loop, moves in enumerate(self._moving)
            if not moves and self._arrays.moving[:-1, loop].any() and self._loops[loop].steps.max() > 1
        ]
        price = float(self._arrays.access_pj[self._number, 0, 0, 0])
        return max(0.0, self._accesses(0, 0, 0, changing) - self._accesses(0, 0, 0)) * price

    def cycles(self, access: _Values) -> float:
        """Cycles of one port, where `access` has those of an access of its whole width."""
        found = 0.0
        for crossing, side, way in self._ends():
            each = float(access[self._number, crossing - side, side, way])
            if each > 0:
                found += self._accesses(crossing, side, way, counts_copies=False) * each
        return found

    def _ends(self) -> list[tuple[int, int, int]]:
        """Borders with the memory outside (0) or inside (1), and the way: 1 for sums that come back to the units."""
        if self._is_left_out:
            return []
        ends = [(crossing, side, 0) for crossing, side in product(range(self._memories), (0, 1)) if crossing >= side]
        return [*ends, (0, 0, 1)] if self._partial and self._arrays.reads_first_sums else ends

    def _partial_bits(self) -> int:
        """The width of sums at the units if they are never complete there; 0 where they may be."""
        reduced = self._unmoved()
        iterations = prod(self._task.bare.nest.extents[loop] for loop in reduced)
        if not self._is_write or iterations <= self._side_by_side(reduced):
            return 0
        return int(self._arrays.bits[self._number, 0])

    def _unmoved(self) -> list[int]:
        return [loop for loop, moves in enumerate(self._moving) if not moves]

    def _accesses(
        self, crossing: int, side: int, way: int, changing: Sequence[int] = (), *, counts_copies: bool = True
    ) -> float:
        """Accesses of the whole width at one end of a border, in all memories there or in each of them.

        At the units the operand changes with all loops in `changing` as well, which leave it alone.
        """
        granule, width = self._arrays.ports[self._number, crossing - side, side, 2 * way : 2 * way + 2].tolist()
        if granule == 0:
            return 0.0
        bits = self._bits
        if self._is_write and crossing == 0:
            changing, bits = self._unmoved(), self._partial or self._bits
        outside = crossing + 1 - side  # the first fan-out around the memory
        elements = self._often(changing) * prod(self._once(terms, crossing, side) for terms in self._terms)
        left = _least_left(*self._rounded(crossing, side), bits / granule)
        if counts_copies:
            counted = [loop for loop, moves in enumerate(self._moving) if moves or loop in changing]
            copies = _largest_of(self._shares(counted, outside, self._memories + 1), doubt=5.1e-4)
            left *= float((_COUNTS / copies).min())
        else:
            elements /= prod(self._room[outside:])
        return max(0.0, elements * left * bits / width - 1)

    def _often(self, loops: Sequence[int]) -> float:
        """How often an operand that changes at the units with loops of others does so: some are spread side by side."""
        return prod(self._task.bare.nest.extents[loop] for loop in loops) / self._side_by_side(loops)

    def _side_by_side(self, loops: Sequence[int]) -> int:
        """How many iterations of some loops one crossing at the units may serve."""
        extents = self._task.bare.nest.extents
        return prod(min(size, prod(extents[loop] for loop in loops if loop in taken)) for size, taken in self._beside)

    def _taken(self, axis: int, space: SpatialSpace) -> set[int]:
        """The loops that an axis takes."""
        names = [loop.name for loop in self._task.bare.nest.loops]
        return {loop for loop, name in enumerate(names) if _takes(self._task, space, axis, name)}

    def _once(self, terms: Sequence[int], crossing: int, side: int) -> float:
        """Of one axis of the array the least that crosses, with every spread and tile, before anything is rounded."""
        if terms[0] == 0:
            return 1.0
        if terms[0] == 1 and terms[6] == 0:
            return float(self._task.bare.nest.extents[terms[1]])
        is_together = self._is_together(crossing, side)
        fan_outs, outside = crossing + is_together, crossing + 1 - side
        loops = [_with_tiles(one, is_alone=crossing == 0) for one in self._pair(terms)]
        if len(loops[0][1]) * len(loops[1][1]) > _MOST_PAIRS:
            return 0.0
        first, second = (spread.steps / tile * spread.share(outside, self._memories + 1) for spread, tile in loops)
        count = _elements(terms, loops, fan_outs) * first[:, None] * second
        if side == 0 and not is_together:
            spreads = loops[0][0], loops[1][0]
            count = count * (_distinct(terms, spreads, crossing + 1) / _distinct(terms, spreads, crossing))
        return float(count.min())

    def _rounded(self, crossing: int, side: int) -> tuple[_Values, _Values]:
        """What is rounded of what crosses once: elements in a memory inside, and into how many parts they differ."""
        is_together = self._is_together(crossing, side)
        inner = self._rounded_inside(crossing + is_together)
        if side == 1 or is_together:
            return inner, _COUNTS
        if self._arrays.sharing[self._number, crossing] == OWN:
            return inner, _largest_of(self._shares(range(len(self._loops)), crossing, crossing + 1))
        sets = [self._share(loop, crossing, crossing + 1) for loop in self._plain()]
        for terms in self._terms:
            if terms[0] == 2:
                one, other = self._pair(terms)
                parts = _distinct(terms, (one, other), crossing + 1) / _distinct(terms, (one, other), crossing)
                used = one.factors[:, crossing, None] * other.factors[:, crossing]
                sets.append((parts.ravel(), used.ravel()))
        return inner, _largest_of(_products(sets, self._room[crossing]))

    def _plain(self) -> list[int]:
        """The loops that are indices by themselves."""
        return [terms[1] for terms in self._terms if terms[0] == 1 and terms[6] == 0]

    def _rounded_inside(self, fan_outs: int) -> _Values:
        """What is rounded of the elements that lie inside so many fan-outs."""
        if any(terms[6] > 0 for terms in self._terms):
            return _COUNTS + 0.5
        sets = [self._share(loop, 0, fan_outs) for loop in self._plain()]
        for terms in self._terms:
            if terms[0] == 2 and terms[8] == 0:
                loops = [_with_tiles(one, is_alone=False) for one in self._pair(terms)]
                if len(loops[0][1]) * len(loops[1][1]) > _MOST_PAIRS:
                    return _COUNTS + 0.5
                used = [spread.factors[:, :fan_outs].prod(axis=1) for spread, _ in loops]
                sets.append((_elements(terms, loops, fan_outs).ravel(), np.outer(*used).ravel()))
        return _largest_of(_products(sets, prod(self._room[:fan_outs])), has_tiles=True)

    def _pair(self, terms: Sequence[int]) -> tuple[_Spread, _Spread]:
        """The loops of an index; beside one alone one that does nothing."""
        one = self._loops[terms[1]]
        return one, self._loops[terms[3]] if terms[0] == 2 else one.nothing()

    def _share(self, loop: int, first: int, last: int) -> tuple[_Values, _Whole]:
        """How far a loop may be spread over some fan-outs, and the units that this takes."""
        spread = self._loops[loop]
        return spread.share(first, last), spread.factors[:, first:last].prod(axis=1)

    def _shares(self, loops: Iterable[int], first: int, last: int) -> _Values | None:
        """How far some loops may be spread together over some fan-outs."""
        return _products([self._share(loop, first, last) for loop in loops], prod(self._room[first:last]))

    def _is_together(self, crossing: int, side: int) -> bool:
        """Whether what crosses is what all units of a fan-out need together."""
        return side == 0 and not self._is_write and int(self._arrays.sharing[self._number, crossing]) >= TOGETHER


def _by_fan_out(spread: _Spread, level: _Whole, fan_outs: int) -> _Spread:
    """Ways to spread a loop by fan-out instead of by axis, each different one once."""
    over, under, factors = (
        np.stack([rows[:, level == here].prod(axis=1) for here in range(fan_outs)], axis=1)
        for rows in (spread.over, spread.under, spread.factors)
    )
    common = np.gcd(over, under)
    rows = np.unique(np.concatenate([over // common, under // common, factors, spread.steps[:, None]], axis=1), axis=0)
    return _Spread(rows[:, :fan_outs], rows[:, fan_outs : 2 * fan_outs], rows[:, 2 * fan_outs : -1], rows[:, -1])


def _with_tiles(spread: _Spread, *, is_alone: bool) -> tuple[_Spread, _Whole]:
    """Each way to spread a loop with each tile that divides its steps; `is_alone`: with tiles of one step."""
    counts = spread.steps.tolist()
    tiles = [
        [one for one in range(1, count + 1) if count % one == 0 and (one == 1 or not is_alone)] for count in counts
    ]
    at = np.repeat(np.arange(len(tiles)), [len(one) for one in tiles])
    return spread.chosen(at), np.array([one for own in tiles for one in own], np.int64)


def _elements(terms: Sequence[int], loops: Sequence[tuple[_Spread, _Whole]], fan_outs: int) -> _Values:
    """Indices of one axis of an array that tiles of two loops touch: [tile of the one, tile of the other]."""
    if terms[6] > 0:
        shares = [tile * spread.share(0, fan_outs) for spread, tile in loops]
        return 1.0 + terms[6] * (shares[0][:, None] - 1) + terms[7] * (shares[1] - 1)
    one, other = (spread.iterations(fan_outs, tile, rounds=terms[8] > 0) for spread, tile in loops)
    return _of_window(terms, one, other)


def _distinct(terms: Sequence[int], spreads: Sequence[_Spread], fan_outs: int) -> _Values:
    """Indices of one axis that differ over so many inner fan-outs in one step."""
    if terms[0] == 1:
        return spreads[0].share(0, fan_outs)[:, None]
    once = ((spread, np.ones_like(spread.steps)) for spread in spreads)
    one, other = (spread.iterations(fan_outs, tile, rounds=terms[8] > 0) for spread, tile in once)
    return _of_window(terms, one, other)


def _of_window(terms: Sequence[int], one: _Values, other: _Values) -> _Values:
    behind = one[:, None] - terms[4]
    twice = np.maximum(0, other - terms[2]) * (behind if terms[8] > 0 else np.maximum(0, behind))
    return np.minimum(terms[5], one[:, None] * other - twice)


def _products(sets: Sequence[tuple[_Values, _Whole]], room: int) -> _Values | None:
    """Products below `_LARGE` of a number of each set whose units fit the room; None where there are too many."""
    values, used = np.ones(1), np.ones(1, np.int64)
    for more, units in sets:
        values, used = np.outer(values, more).ravel(), np.outer(used, units).ravel()
        chosen = (values <= _LARGE) & (used <= room)
        values, used = np.round(values[chosen], 9), used[chosen]
        order = np.lexsort((used, values))
        values, used = values[order], used[order]
        different = np.ones(len(values), np.bool_)
        different[1:] = values[1:] != values[:-1]
        values, used = values[different], used[different]
        if len(values) > _MOST_PRODUCTS:
            return None
    return values


def _largest_of(values: _Values | None, *, has_tiles: bool = False, doubt: float = 1e-6) -> _Values:
    """Of each whole number up to `_LARGE` the largest that is rounded to it, or itself where there is none.

    `has_tiles`: of the multiples of the values.
    """
    if values is None:
        return _COUNTS + 0.5
    found = _COUNTS.copy()
    for times in range(1, len(_COUNTS) + 1 if has_tiles else 2):
        numbers = values[(values * times <= _LARGE) & (values >= 1)] * times
        rounded = np.maximum(np.ceil(numbers - 0.5 - doubt), 1)
        np.maximum.at(found, rounded.astype(np.int64) - 1, numbers)
    return found


def _least_left(inner: _Values, parts: _Values, density: float) -> float:
    """What rounding leaves at least of numbers of elements, in whole granules, each the share `density` of an element.

    `inner` and `parts` are what `_largest_of` gives of two numbers that are multiplied.
    """
    counts = np.outer(_COUNTS, _COUNTS)
    granules = np.ceil(counts * density - 1e-9) / density
    of_inner, of_parts = float((_COUNTS / inner).min()), float((_COUNTS / parts).min())
    is_rounded = min(of_inner, of_parts) < 1
    large = _LARGE / (_LARGE + 0.5) if is_rounded else 1.0
    return min(float((granules / np.outer(inner, parts)).min()), large * of_inner, large * of_parts, large * large, 1.0)

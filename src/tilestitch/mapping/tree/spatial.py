"""What a nest may spread over the units of a tree, and the best mapping of all such choices.

A choice gives every loop a whole factor along every axis: along an axis at most its units, of a loop at most its
iterations. The factors of a loop multiply to a divisor of it, or they are ragged: without the largest of them they do,
and the largest fills some steps only in part. What is ragged has to fill its axis, unless all of it is asked for.
Choices are opened in the order of a bound: of every operand the least that it costs alone on this choice. They end
where the bound is not below the best mapping that is known.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from itertools import product
from math import inf, prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tilestitch.base.errors import DoesNotFit, InputError, TooLarge
from tilestitch.hardware.tree import Network
from tilestitch.ir.choices import TreeObjective
from tilestitch.ir.loop_nest import LoopNest, LoopOperand
from tilestitch.mapping.tree import labels
from tilestitch.mapping.tree.crossings import OperandOnTree, operands_on_tree
from tilestitch.mapping.tree.found import FoundMapping, value_of
from tilestitch.mapping.tree.lattice import points_of
from tilestitch.mapping.tree.opened import TOO_LARGE, least_of_choice
from tilestitch.mapping.tree.placed import PlacedNest, Unrolled
from tilestitch.mapping.tree.problem import MOST_STATES
from tilestitch.mapping.tree.quick import Arrays, arrays_of, least_alone, relaxed, units_alone
from tilestitch.mapping.tree.search import MOST_LABELS, best_mapping
from tilestitch.mapping.tree.sliding import needs_tables, with_slides
from tilestitch.mapping.tree.tables import FEMTO, Sums
from tilestitch.mapping.tree.timed_search import best_in_order

MOST_CHOICES = 2_000_000
BATCH = 256  # choices whose bounds are made together

Factors: TypeAlias = NDArray[np.int64]  # choices x axes x loops


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
    """Choices as the factors that they have on average, `over / under`, and the steps that they leave of each loop."""

    over: Factors
    under: Factors
    steps: NDArray[np.int64]  # choices x loops

    def __len__(self) -> int:
        return len(self.over)

    def __getitem__(self, chosen: NDArray[np.int64] | NDArray[np.bool_]) -> "Choices":
        return Choices(self.over[chosen], self.under[chosen], self.steps[chosen])


@dataclass(frozen=True, slots=True)
class SpatialSearch:
    """The best mapping of all choices, and how many there were and were opened."""

    found: FoundMapping
    choices: int
    opened: int


def choices_of(bare: PlacedNest, space: SpatialSpace = SpatialSpace()) -> Choices:
    """All choices of a nest that spreads nothing yet; of those that must cost the same the first.

    Raises `TooLarge` for more than two million.
    """
    extents = np.array(bare.nest.extents, np.int64)
    axes = bare.tree.axes
    factors = np.ones((1, 0, len(extents)), np.int64)
    for number, axis in enumerate(axes):
        along = _along(bare, number, space)
        rest = prod(later.size for later in axes[number + 1 :])
        kept: list[Factors] = []
        rows = max(1, MOST_CHOICES // max(1, len(along)))
        for start in range(0, len(factors), rows):
            here = factors[start : start + rows]
            both = np.concatenate([np.repeat(here, len(along), axis=0), np.tile(along, (len(here), 1, 1))], axis=1)
            used = both.prod(axis=1)
            fits = (used <= extents).all(axis=1)
            fits &= used.prod(axis=1) * rest >= space.least_use * bare.tree.units * (1 - 1e-12)
            kept.append(both[fits])
            if sum(map(len, kept)) > MOST_CHOICES:
                raise TooLarge(
                    f"{bare.nest.name}: more than {MOST_CHOICES:,} choices of what to spread along {axis.name}; name "
                    "loops for some axes, or ask for more of the units to be used"
                )
        factors = np.concatenate(kept) if kept else np.ones((0, number + 1, len(extents)), np.int64)
    return _different(bare, _averaged(bare, factors, space))


def _along(bare: PlacedNest, number: int, space: SpatialSpace) -> Factors:
    """The factors of all loops along one axis, by themselves: [choice, 1, loop]."""
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
    return np.array(found, np.int64).reshape(-1, 1, len(names))


def _products(options: Sequence[Sequence[int]], most: int) -> Iterator[tuple[int, ...]]:
    """One of each of the options, as long as their product is at most `most`."""
    if not options:
        yield ()
        return
    for one in options[0]:
        if one <= most:
            for rest in _products(options[1:], most // one):
                yield (one, *rest)


def _averaged(bare: PlacedNest, factors: Factors, space: SpatialSpace) -> Choices:
    """The choices that are allowed, with the fraction that a ragged factor is on average."""
    extents = np.array(bare.nest.extents, np.int64)
    if not bare.tree.axes:
        return Choices(factors, factors, np.tile(extents, (len(factors), 1)))
    sizes = np.array([axis.size for axis in bare.tree.axes], np.int64)
    used = factors.prod(axis=1)  # by loop
    largest = factors.argmax(axis=1)  # of a loop: along which axis
    most = factors.max(axis=1)
    others = used // most
    ragged = extents % used > 0
    steps = -(-extents // used)
    allowed = ~ragged | (extents % others == 0)
    along = np.take_along_axis(factors.prod(axis=2), largest, axis=1)  # all of the axis of the largest
    if space.ragged is Ragged.NONE:
        allowed &= ~ragged
    elif space.ragged is Ragged.FILLING:
        room = np.minimum(sizes[largest] // (along // most), extents // others)
        given = np.array(
            [[(axis.name, loop.name) in space.given for loop in bare.nest.loops] for axis in bare.tree.axes], np.bool_
        )[largest, np.arange(len(extents))]
        allowed &= ~ragged | (most == room) | given
        marks = np.zeros(factors.shape, np.bool_)
        np.put_along_axis(marks, largest[:, None, :], (ragged & ~given)[:, None, :], axis=1)
        allowed &= (marks.sum(axis=2) <= 1).all(axis=1)[:, None]
    over, under = factors.copy(), np.ones_like(factors)
    np.put_along_axis(over, largest[:, None, :], np.where(ragged, extents, most)[:, None, :], axis=1)
    np.put_along_axis(under, largest[:, None, :], np.where(ragged, steps * others, 1)[:, None, :], axis=1)
    common = np.gcd(over, under)
    use = (extents / steps).prod(axis=1) / bare.tree.units
    chosen = allowed.all(axis=1) & (use >= space.least_use * (1 - 1e-12))
    return Choices(over // common, under // common, steps)[chosen]


def _different(bare: PlacedNest, choices: Choices) -> Choices:
    """One of those that must cost the same.

    Such spread all loops alike over each fan-out, so that nothing but the names of their axes differs; or, with whole
    factors only, one is the other with loops exchanged that the nest does not tell apart, as rows and columns. Axes
    with other networks differ, and so do loops where the user limits or orders some of them.
    """
    parts = [part for axes in _alike(bare) for part in _class_factors(choices, axes)]
    if not parts:
        return choices
    exchanged = [list(range(len(bare.nest.loops)))]
    if not bare.limits and not bare.order:
        exchanged += _exchanges(bare.nest)
    rows = np.concatenate([np.concatenate([part[:, order] for part in parts], axis=1) for order in exchanged])
    codes = _codes(rows).reshape(len(exchanged), len(choices))
    whole = (choices.under == 1).all(axis=(1, 2))
    _, first = np.unique(np.where(whole, codes.min(axis=0), codes[0]), return_index=True)
    return choices[np.sort(first)]


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


def _fan_outs(bare: PlacedNest) -> dict[tuple[int, ...], list[int]]:
    """The axes that lie at one fan-out of every operand, by the number of that fan-out for each."""
    found: dict[tuple[int, ...], list[int]] = {}
    fan_outs = [bare.tree.fan_outs(home) for home in bare.homes]
    for number, axis in enumerate(bare.tree.axes):
        key = tuple(next(at for at, here in enumerate(levels) if axis.name in here) for levels in fan_outs)
        found.setdefault(key, []).append(number)
    return found


def _alike(bare: PlacedNest) -> list[list[int]]:
    """The axes that nothing but their names tells apart."""
    found: dict[tuple[tuple[int, ...], tuple[Network, ...]], list[int]] = {}
    for fan_out, axes in _fan_outs(bare).items():
        for axis in axes:
            found.setdefault((fan_out, bare.tree.axes[axis].networks), []).append(axis)
    return list(found.values())


def _class_factors(choices: Choices, axes: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How far each loop is spread along some axes together, as reduced fractions."""
    over, under = choices.over[:, list(axes)].prod(axis=1), choices.under[:, list(axes)].prod(axis=1)
    common = np.gcd(over, under)
    return over // common, under // common


def _codes(columns: NDArray[np.int64]) -> NDArray[np.int64]:
    """A number for every row, the same for rows that are the same."""
    found, size = np.zeros(len(columns), np.int64), 1
    for column in columns.T:
        width = int(column.max(initial=0)) + 1
        if size > 2**62 // width:
            found = np.unique(found, return_inverse=True)[1].astype(np.int64)
            size = int(found.max(initial=0)) + 1
        found, size = found * width + column, size * width
    return found


@dataclass(frozen=True, slots=True)
class SpreadTask:
    """What all choices of a nest have in common."""

    bare: PlacedNest
    sums: Sums
    operands: tuple[OperandOnTree, ...]  # those that move anything
    arrays: Arrays
    bounds: Arrays
    shared: NDArray[np.int64]
    limit: NDArray[np.float64]

    def fan_outs(self, choices: Choices, operand: OperandOnTree) -> tuple[Factors, Factors]:
        """What choices spread over each fan-out of an operand, as fractions: [choice, fan-out, loop]."""
        levels = self.arrays.size_bits.shape[1] + 1
        over = np.ones((len(choices), levels, len(self.bare.nest.loops)), np.int64)
        under = np.ones_like(over)
        for key, axes in _fan_outs(self.bare).items():
            level = key[operand.number]
            more, less = _class_factors(choices, axes)
            over[:, level], under[:, level] = over[:, level] * more, under[:, level] * less
        common = np.gcd(over, under)
        return over // common, under // common


def task_of(bare: PlacedNest, sums: Sums) -> SpreadTask:
    """What the bounds and the searches of all choices need."""
    operands = tuple(one for one in operands_on_tree(bare) if one.array.element_bits)
    arrays = arrays_of(operands)
    cuts: list[int] = []
    for one in operands:
        cuts += [] if one.is_write else [-1]
        cuts += [bare.tree.memories.index(memory) for memory in one.memories]
    shared = sorted({memory for memory in cuts if memory >= 0 and cuts.count(memory) > 1})
    return SpreadTask(
        bare,
        sums,
        operands,
        arrays,
        relaxed(arrays, final_sums=sums is Sums.FINAL),
        np.array([shared.index(one) if one in shared else -1 for one in cuts], np.int64),
        np.array([bare.tree.memories[memory].size_bits * (1 + 1e-12) for memory in shared], np.float64),
    )


def units_fj(task: SpreadTask, choices: Choices) -> NDArray[np.int64]:
    """What the results of each choice cost at the units, in femtojoules."""
    over, under = task.fan_outs(choices, task.operands[-1])
    return _compared(task, units_alone(task.bounds, over, under, choices.steps))


def bounds_fj(task: SpreadTask, choices: Choices, *, loose: bool) -> NDArray[np.int64]:
    """Below what no mapping of each choice comes, without arithmetic and units; NEVER where none fits.

    A loose bound takes what leaves an operand alone as not spread at all: then fewer memories hold it, its sums are
    complete at once, and many choices are alike.
    """
    total = np.zeros(len(choices), np.int64)
    for number, operand in enumerate(task.operands):
        if not any(map(operand.is_sliding, range(len(operand.memories)))):
            total = np.minimum(total + _least(task, choices, number, loose=loose), labels.NEVER)
    return total


def _compared(task: SpreadTask, found: NDArray[np.int64]) -> NDArray[np.int64]:
    if (found < 0).any():
        raise TooLarge(f"{task.bare.nest.name}: energies above 5e14 pJ are not compared; use smaller loops")
    return found


def _least(task: SpreadTask, choices: Choices, number: int, *, loose: bool) -> NDArray[np.int64]:
    """`least_alone`, once for all choices that are alike to an operand."""
    operand = task.operands[number]
    over, under = task.fan_outs(choices, operand)
    moving = task.arrays.moving[number]
    columns = [part[:, level, moving] for part in (over, under) for level in range(over.shape[1])]
    if not task.arrays.has_latches:  # units read at every step, of whatever loop
        columns.append(choices.steps[:, ~moving].prod(axis=1, keepdims=True))
    if loose:
        over[:, :, ~moving] = under[:, :, ~moving] = 1
    else:
        columns += [part[:, :, ~moving].prod(axis=2) for part in (over, under)]
        is_spread = over[:, :, ~moving] > under[:, :, ~moving]
        columns.append(np.max(is_spread, axis=2, initial=False).astype(np.int64))
        columns.append(np.max(choices.steps[:, ~moving] > 1, axis=1, initial=False, keepdims=True).astype(np.int64))
    _, first, back = np.unique(_codes(np.concatenate(columns, axis=1)), return_index=True, return_inverse=True)
    options = (task.sums is Sums.FINAL, loose)
    return _compared(task, least_alone(task.bounds, number, over[first], under[first], choices.steps[first], options))[
        back
    ]


def placement(bare: PlacedNest, choices: Choices, number: int) -> PlacedNest:
    """The nest with one of the choices."""
    spread: list[Unrolled] = []
    for at, loop in product(range(len(bare.tree.axes)), range(len(bare.nest.loops))):
        factor = Fraction(int(choices.over[number, at, loop]), int(choices.under[number, at, loop]))
        if factor != 1:
            spread.append(Unrolled(bare.tree.axes[at].name, loop, factor))
    return replace(bare, unrolled=tuple(spread))


def best_spread(
    bare: PlacedNest,
    space: SpatialSpace = SpatialSpace(),
    sums: Sums = Sums.FULL,
    most_labels: int = MOST_LABELS,
    objective: TreeObjective = TreeObjective.ENERGY,
) -> SpatialSearch:
    """The best mapping of all choices, proven unless labels run out.

    Raises `DoesNotFit` where no choice has a mapping that fits, or none uses as many units as is asked, and
    `InputError` for a front, which is not searched over choices.
    """
    if objective is TreeObjective.PARETO:
        raise InputError(f"{bare.nest.name}: a front has several mappings; ask free_front for it")
    choices = choices_of(bare, space)
    if len(choices) == 0:
        raise DoesNotFit(
            f"{bare.nest.name}: no choice of what to spread uses {space.least_use:.0%} of {bare.tree.units:,} units"
        )
    task = task_of(bare, sums)
    units = units_fj(task, choices)
    bounds = np.minimum(units + bounds_fj(task, choices, loose=True), labels.NEVER)
    if objective is not TreeObjective.ENERGY:
        return _best_in_time(task, choices, bounds, most_labels, objective)
    if needs_tables(bare):
        return _best_by_tables(task, choices, bounds, most_labels)
    best, winner, count, opened, left = labels.NEVER, -1, 0, 0, labels.NEVER
    opener = Opener(task, choices)
    order = np.argsort(bounds, kind="stable")
    is_worth = True
    for start in range(0, len(order), BATCH):
        batch = order[start : start + BATCH]
        batch = batch[bounds[batch] < best]
        if len(batch) == 0:
            break
        if is_worth:
            bounds[batch] = np.minimum(units[batch] + bounds_fj(task, choices[batch], loose=False), labels.NEVER)
            batch = batch[np.argsort(bounds[batch], kind="stable")]
            # the search of a choice begins with the same bound: made beforehand it pays if it settles many
            is_worth = 2 * int((bounds[batch] < best).sum()) < len(batch) or best == labels.NEVER
        for number in batch.tolist():
            if bounds[number] >= best or count > most_labels:
                break
            ended, value, more = opener.least(number, most_labels - count, best)
            count, opened = count + more, opened + (more > 0)
            if ended == labels.STOPPED:
                left = min(left, value)
                continue
            bounds[number] = labels.NEVER  # nothing of it is left
            if ended == labels.FOUND:
                best, winner = value, number
        if count > most_labels:
            left = min(left, int(bounds[order[start:]].min()))
            break
    if winner < 0 and bare.limits and left == labels.NEVER:
        raise DoesNotFit(
            f"{bare.nest.name}: no mapping fits the memories within the limits that are given; allow larger or smaller "
            "tiles, or a larger share"
        )
    found = best_mapping(placement(bare, choices, winner if winner >= 0 else int(bounds.argmin())), sums, most_labels)
    if left < best:
        bound_pj = left / FEMTO + found.price.mac_pj
        found = replace(found, bound_pj=min(bound_pj, found.price.energy_pj), is_proven=False)
    return SpatialSearch(replace(found, labels=count), len(choices), opened)


def _best_in_time(
    task: SpreadTask, choices: Choices, bounds: NDArray[np.int64], most_labels: int, objective: TreeObjective
) -> SpatialSearch:
    """Choices by the least energy and the least cycles that each can have, together."""
    cycles = choices.steps.prod(axis=1)
    fixed_pj = task.bare.tree.mac_pj * task.bare.nest.macs
    least = [
        inf if energy >= labels.NEVER else value_of(objective, int(energy) / FEMTO + fixed_pj, int(count))
        for energy, count in zip(bounds, cycles, strict=True)
    ]
    order = [number for number in np.argsort(least, kind="stable").tolist() if least[number] < inf]
    searched: set[int] = set()

    def ordered() -> Iterator[tuple[PlacedNest, float]]:
        for number in order:
            for one in with_slides([placement(task.bare, choices, number)]):
                yield one, least[number]
                searched.add(number)

    found, _ = best_in_order(ordered(), task.sums, most_labels, objective)
    if found is None:
        raise DoesNotFit(f"{task.bare.nest.name}: no choice of what to spread has a mapping that fits the memories")
    bound_pj = int(bounds[order].min()) / FEMTO + fixed_pj
    found = replace(found, bound_pj=bound_pj, bound_cycles=int(cycles[order].min()))
    return SpatialSearch(found, len(choices), len(searched))


def _best_by_tables(task: SpreadTask, choices: Choices, bounds: NDArray[np.int64], most_labels: int) -> SpatialSearch:
    """Choices by their bounds, each with the tables of its placement."""
    best: FoundMapping | None = None
    count, opened, left_pj = 0, 0, inf
    for number in np.argsort(bounds, kind="stable").tolist():
        placed = placement(task.bare, choices, number)
        least_pj = int(bounds[number]) / FEMTO + placed.tree.mac_pj * placed.nest.macs
        if bounds[number] >= labels.NEVER or (best is not None and least_pj >= best.price.energy_pj):
            break
        if count > most_labels:
            left_pj = min(left_pj, least_pj)
            break
        opened += 1
        try:
            found = best_mapping(placed, task.sums, most_labels)
        except DoesNotFit:
            continue
        count, left_pj = count + found.labels, min(left_pj, found.bound_pj)
        if best is None or found.price.energy_pj < best.price.energy_pj:
            best = found
    if best is None:
        raise DoesNotFit(f"{task.bare.nest.name}: no choice of what to spread has a mapping that fits the memories")
    bound_pj = min(left_pj, best.price.energy_pj)
    proven = replace(best, bound_pj=bound_pj, is_proven=bound_pj >= best.price.energy_pj, labels=count)
    return SpatialSearch(proven, len(choices), opened)


class Opener:
    """Opens choices one after another, with one array for the places of labels."""

    def __init__(self, task: SpreadTask, choices: Choices) -> None:
        self._task, self._steps = task, choices.steps
        pairs = [task.fan_outs(choices, operand) for operand in task.operands]
        self._over, self._under = (np.stack([pair[part] for pair in pairs], axis=1) for part in (0, 1))
        cuts = [len(one.memories) + (not one.is_write) for one in task.operands]
        self._states = 2 * prod(one + 1 for one in cuts)
        self._heads = np.full(0, -1, np.int32)

    def least(self, number: int, most_labels: int, below: int) -> tuple[int, int, int]:
        """How the search of a choice ended, its least cost or bound in femtojoules, and the labels that it took."""
        task, steps = self._task, self._steps[number]
        places = self._states * points_of(steps.tolist())
        if places > MOST_STATES:
            raise TooLarge(f"{task.bare.nest.name}: {places:,} states of the search; at most {MOST_STATES:,} are kept")
        if places > len(self._heads):
            self._heads = np.full(places, -1, np.int32)
        ended, value, count, _ = least_of_choice(
            task.arrays,
            task.bounds,
            self._over[number],
            self._under[number],
            steps,
            task.shared,
            task.limit,
            self._heads,
            most_labels,
            below,
            task.sums is Sums.FINAL,
        )
        if ended == TOO_LARGE:
            raise TooLarge(f"{task.bare.nest.name}: energies above 5e14 pJ are not compared; use smaller loops")
        return int(ended), int(value), int(count)

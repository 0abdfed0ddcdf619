"""What all choices of what a nest spreads have in common, and what each of them costs at least.

Bounds are sums over operands, and an operand sees little of a choice: it is priced once for all that it cannot tell
apart.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray

from tilestitch.base.errors import TooLarge
from tilestitch.mapping.tree import labels
from tilestitch.mapping.tree.choice_rows import View, are_seen_alike, firsts_of, seen_codes, seen_factors
from tilestitch.mapping.tree.choices import Choices, fan_outs_of
from tilestitch.mapping.tree.crossings import OperandOnTree, operands_on_tree
from tilestitch.mapping.tree.even_bounds import ENERGY, least_together
from tilestitch.mapping.tree.even_tables import Totals, even_tables, only_energy, totals_of
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.port_uses import port_uses
from tilestitch.mapping.tree.quick_arrays import Arrays, arrays_of, relaxed
from tilestitch.mapping.tree.quick_bounds import in_turn_alone, least_alone, units_alone
from tilestitch.mapping.tree.sliding import can_slide
from tilestitch.mapping.tree.tables import Sums


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

    @property
    def levels(self) -> int:
        """Fan-outs of the operand that has most."""
        return self.arrays.size_bits.shape[1] + 1

    def view(self, choices: Choices, number: int, *, sees_all: bool = True, sees_steps: bool = False) -> View:
        """What an operand sees of choices."""
        level, at = np.zeros(len(self.bare.tree.axes), np.int64), self.operands[number].number
        for key, axes in fan_outs_of(self.bare).items():
            level[axes] = key[at]
        return View(choices.over, choices.under, choices.steps, level, self.arrays.moving[number], sees_all, sees_steps)

    def different(
        self, choices: Choices, number: int, *, sees_all: bool = True, sees_steps: bool = False
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The first of all choices that an operand cannot tell apart, and which of these stands for each choice."""
        view = self.view(choices, number, sees_all=sees_all, sees_steps=sees_steps)
        return choices.memo.once((number, sees_all, sees_steps), lambda: _different(view, self.levels))


def _different(view: View, levels: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    for seed in count():
        first, back = firsts_of(seen_codes(view, levels, seed))
        if are_seen_alike(view, levels, first[back]):
            return first, back
    raise AssertionError("unreachable")


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
    result = len(task.operands) - 1
    if _is_free(task, result) and (task.bounds.ports[result, 0, 0, [0, 2]] > 0).all():
        return np.zeros(len(choices), np.int64)
    return _for_each_view(task, choices, result, _units_of_each, sees_all=True, sees_steps=True)


def _units_of_each(task: SpreadTask, chosen: Choices, result: int) -> NDArray[np.int64]:
    over, under = seen_factors(task.view(chosen, result), task.levels)
    return compared(task, units_alone(task.bounds, over, under, chosen.steps))


def bounds_fj(task: SpreadTask, choices: Choices, *, loose: bool) -> NDArray[np.int64]:
    """Below what no mapping of each choice comes, without arithmetic and units; NEVER where none fits.

    A loose bound takes what leaves an operand alone as not spread at all: then fewer memories hold it, its sums are
    complete at once, and many choices are alike.
    """
    total = np.zeros(len(choices), np.int64)
    for number, operand in enumerate(task.operands):
        if any(map(operand.is_sliding, range(len(operand.memories)))):
            continue
        if _is_free(task, number):  # nothing but where it fits counts, which no price changes
            key = ("fits", number, loose, task.sums)
            own = choices.memo.once(key, lambda at=number: _least(task, choices, at, loose=loose))
        else:
            own = _least(task, choices, number, loose=loose)
        total = np.minimum(total + own, labels.NEVER)
    return total


def _is_free(task: SpreadTask, number: int) -> bool:
    """Whether nothing that moves an operand costs anything, as where only what one port moves of others is counted."""
    bounds = task.bounds
    return bounds.mac_pj == 0 and not bounds.access_pj[number].any() and not bounds.network_pj[number].any()


def stores_evenly(bare: PlacedNest) -> bool:
    """Whether all operands change together in every memory but the outermost, and windows never slide."""
    chains = [bare.chain(number) for number, array in enumerate(bare.operands) if array.element_bits]
    inner = chains[0][:-1]
    is_even = all(chain == chains[0] for chain in chains) and all(memory.has_even_storage for memory in inner)
    return is_even and len(inner) > 0 and not can_slide(bare.tree)


def together_fj(task: SpreadTask, choices: Choices) -> NDArray[np.int64]:
    """`bounds_fj` of a tree that stores evenly: of each choice what all operands cost at least together."""
    nothing = np.zeros(len(choices), np.int64)
    return _together(task, choices, only_energy(task.arrays), nothing, ENERGY)[1]


def together_in_time(
    task: SpreadTask, choices: Choices, fixed_fj: NDArray[np.int64], objective: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """`least_together` of a tree that stores evenly: with the cycles of every port, in femtojoules and cycles."""
    return _together(task, choices, totals_of(port_uses(task.operands)), fixed_fj, objective)


def _together(
    task: SpreadTask, choices: Choices, totals: Totals, fixed_fj: NDArray[np.int64], objective: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    uses = port_uses(task.operands)
    first = np.empty((len(choices), len(task.operands)), np.int64)
    tables: list[NDArray[np.int64]] = []
    for number, operand in enumerate(task.operands):
        # results occupy ports of the units at every step
        sees_steps = not task.arrays.has_latches or (operand.is_write and totals.many > 1)
        unlike, back = task.different(choices, number, sees_steps=sees_steps)
        chosen = choices[unlike]
        spread = (*seen_factors(task.view(chosen, number), task.levels), chosen.steps)
        table, starts = even_tables(task.bounds, uses, totals, number, spread, task.sums is Sums.FINAL)
        first[:, number] = starts[back] + sum(map(len, tables))
        compared(task, table[:1])
        tables.append(table)
    inner = task.operands[0].memories[:-1]
    size_bits = np.array([memory.size_bits * (1 + 1e-12) for memory in inner], np.float64)
    return least_together(
        task.bounds.moving, choices.steps, totals, np.concatenate(tables), first, size_bits, fixed_fj, objective
    )


def in_turn_fj(task: SpreadTask, choices: Choices) -> NDArray[np.int64]:
    """What each choice costs more at the units, as of two operands that are read only one can stay there."""
    if len(task.operands) != 3:
        return np.zeros(len(choices), np.int64)
    found: list[NDArray[np.int64]] = []
    for operand in (0, 1):
        first, back = task.different(choices, operand, sees_steps=True)
        over, under = seen_factors(task.view(choices[first], operand), task.levels)
        found.append(compared(task, in_turn_alone(task.bounds, operand, over, under, choices.steps[first]))[back])
    return np.minimum(*found)


def compared(task: SpreadTask, found: NDArray[np.int64]) -> NDArray[np.int64]:
    if (found < 0).any():
        raise TooLarge(f"{task.bare.nest.name}: energies above 5e14 pJ are not compared; use smaller loops")
    return found


def _least(task: SpreadTask, choices: Choices, number: int, *, loose: bool) -> NDArray[np.int64]:
    """`least_alone`, once for all choices that are alike to an operand."""
    # units without latches read at every step, of whatever loop
    sees_steps = not task.arrays.has_latches
    if loose:
        return _for_each_view(task, choices, number, _loose_of_each, sees_all=False, sees_steps=sees_steps)
    first, back = task.different(choices, number, sees_steps=sees_steps)
    return _least_of_each(task, choices[first], number, loose=False)[back]


def _loose_of_each(task: SpreadTask, chosen: Choices, number: int) -> NDArray[np.int64]:
    return _least_of_each(task, chosen, number, loose=True)


def _least_of_each(task: SpreadTask, chosen: Choices, number: int, *, loose: bool) -> NDArray[np.int64]:
    over, under = seen_factors(task.view(chosen, number, sees_all=not loose), task.levels)
    options = (task.sums is Sums.FINAL, loose)
    return compared(task, least_alone(task.bounds, number, over, under, chosen.steps, options))


def _for_each_view(
    task: SpreadTask,
    choices: Choices,
    number: int,
    price: Callable[[SpreadTask, Choices, int], NDArray[np.int64]],
    *,
    sees_all: bool,
    sees_steps: bool,
) -> NDArray[np.int64]:
    """A price of each of the choices, asked once for all that are alike to an operand.

    Where they are some of others, of which parts are asked about in turn, it is kept for those too.
    """
    whole, numbers = (choices, None) if choices.whole is None else choices.whole
    first, back = task.different(whole, number, sees_all=sees_all, sees_steps=sees_steps)
    back = back if numbers is None else back[numbers]
    bounds = task.bounds
    prices = (bounds.access_pj[number].tobytes(), bounds.network_pj[number].tobytes(), bounds.mac_pj)
    key = (price.__name__, number, task.sums, *prices, bounds.counts_copies)
    known = whole.memo.once(key, lambda: np.full(len(first), -1, np.int64))
    asked = np.zeros(len(first), np.bool_)
    asked[back] = True
    new = np.flatnonzero(asked & (known < 0))
    if len(new):
        known[new] = price(task, whole[first[new]], number)
    return known[back]

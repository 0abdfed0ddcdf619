"""Which factors a loop may be split into, and how a nest's loops may be ordered: the space that searches walk."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

import numpy as np

from tilestitch.base.errors import InputError
from tilestitch.base.units import ceil_div
from tilestitch.ir.loop_nest import LoopNest

MOST_LOOPS = 10  # with more than one iteration; orders are kept for every subset of them


@dataclass(frozen=True)
class Factors:
    """The numbers into which what is left of a loop may be split, by what is left.

    Exact factors divide. Ragged ones are the smallest that leave so many parts: a larger one leaves as many, and the
    largest of them is larger.
    """

    first: np.ndarray  # row: where its factors begin
    items: np.ndarray  # factors, ascending
    row: np.ndarray  # what is left: its row, -1 for what never is

    @classmethod
    def of(cls, nest: LoopNest, *, ragged: bool) -> "Factors":
        values = sorted({value for extent in set(nest.extents) for value in _split(extent, ragged=ragged)})
        rows = [_split(value, ragged=ragged) for value in values]
        first = np.cumsum([0, *map(len, rows)])
        row = np.full(values[-1] + 1, -1)
        row[values] = np.arange(len(values))
        return cls(first, np.array([factor for found in rows for factor in found]), row)


def _split(extent: int, *, ragged: bool) -> list[int]:
    """Factors of what is left of a loop, ascending."""
    if ragged:
        found, tiles = [], 1
        while True:
            factor = ceil_div(extent, tiles)
            found.append(factor)
            if factor == 1:
                return found[::-1]
            tiles = (extent - 1) // (factor - 1) + 1  # the fewest tiles with a smaller factor
    low = [number for number in range(1, int(extent**0.5) + 1) if extent % number == 0]
    return low + [extent // number for number in reversed(low) if number * number != extent]


@dataclass(frozen=True)
class Orders:
    """Orders of the loops of a level, by which loops have more than one iteration there.

    One for each different way in which operands can stay: `runs` are the loops, as bits, over which each operand stays,
    and last the innermost loops that move the result.
    """

    first: np.ndarray  # set of loops, as bits: where its orders begin
    rows: np.ndarray  # order, outermost loop first
    runs: np.ndarray  # order, operand or last: loops as bits

    @cached_property
    def most(self) -> int:
        """Of any set of loops."""
        return int(np.diff(self.first).max())


def one_operand_stays(nest: LoopNest) -> bool:
    """Whether at most one operand at a time can stay while a loop runs: no loop leaves two of them alone."""
    return all(sum(at not in operand.indexed_by for operand in nest.operands) <= 1 for at in _moving(nest))


def _moving(nest: LoopNest) -> list[int]:
    return [at for at, extent in enumerate(nest.extents) if extent > 1]


def orders_of(nest: LoopNest, *, every: bool, by_result: bool = False) -> Orders:
    """All orders that differ in what stays and how long, or only those in which an operand stays the longest.

    Where only one operand at a time can stay, the longest stay is never worse than a shorter one: docs/mapping.md
    proves it. With `by_result` also all that differ in the innermost loops that move the result. Raises InputError for
    nests with too many loops.
    """
    moving = _moving(nest)
    if len(moving) > MOST_LOOPS:
        raise InputError(
            f"nest {nest.name!r}: {len(moving)} loops of more than one iteration, at most {MOST_LOOPS} can be mapped; "
            "merge loops that every operand indexes together"
        )
    still = [sum(1 << at for at in moving if at not in operand.indexed_by) for operand in nest.operands]
    moved = sum(1 << at for at in moving if at in nest.write.indexed_by)
    if by_result:
        still.append(moved)
    first, rows, runs = [0], [], []
    for present in range(1 << len(nest.loops)):
        loops = [at for at in range(len(nest.loops)) if present >> at & 1]
        found: dict[tuple[int, ...], tuple[int, ...]] = {}
        if all(at in moving for at in loops):
            _grow(loops, still, (), found)
        kept = found if every else {run: order for run, order in found.items() if _longest(run, found)}
        for run, inner in sorted(kept.items()):
            rows.append((*(at for at in range(len(nest.loops)) if at not in inner), *reversed(inner)))
            inwards = [at for at in reversed(rows[-1]) if at in loops]
            runs.append((*run[: len(nest.operands)], _stay(inwards, moved)))
        first.append(len(rows))
    return Orders(np.array(first), np.array(rows), np.array(runs))


def _grow(
    loops: Sequence[int], still: Sequence[int], inner: tuple[int, ...], found: dict[tuple[int, ...], tuple[int, ...]]
) -> None:
    """Add every way to go on outwards from `inner`, innermost first, until no operand stays any longer."""
    run = tuple(_stay(inner, mask) for mask in still)
    goes_on = [at for at in loops if at not in inner and any(_stays(inner, mask) and mask >> at & 1 for mask in still)]
    stops = [at for at in loops if at not in inner and at not in goes_on]
    if len(inner) == len(loops) or stops:
        found.setdefault(run, (*inner, *stops[:1]))
    for at in goes_on:
        _grow(loops, still, (*inner, at), found)


def _stays(inner: Sequence[int], mask: int) -> bool:
    return all(mask >> at & 1 for at in inner)


def _stay(inner: Sequence[int], mask: int) -> int:
    """The loops, as bits, over which an operand stays that the loops in `mask` leave alone."""
    run = 0
    for at in inner:
        if not mask >> at & 1:
            break
        run |= 1 << at
    return run


def _longest(run: tuple[int, ...], found: dict[tuple[int, ...], tuple[int, ...]]) -> bool:
    """Whether no other order lets the same operands stay, and one of them longer."""
    return not any(
        other != run
        and all(mine & theirs == mine for mine, theirs in zip(run, other, strict=True))
        and all((mine > 0) == (theirs > 0) for mine, theirs in zip(run, other, strict=True))
        for other in found
    )


def with_sums_that_stay(orders: Orders, nest: LoopNest) -> Orders:
    """Those of the orders in which the result stays over all loops that leave it alone."""
    moved = sum(1 << at for at in nest.write.indexed_by)
    result = len(nest.operands) - 1
    first, kept = [0], []
    for present in range(len(orders.first) - 1):
        rows = range(orders.first[present], orders.first[present + 1])
        kept += [row for row in rows if orders.runs[row, result] == present & ~moved]
        first.append(len(kept))
    return Orders(np.array(first), orders.rows[kept], orders.runs[kept])


@dataclass(frozen=True, slots=True)
class Limits:
    """What a search may choose, beside what fits: all of the space by default.

    Loops that may or must be spread over elements, and that must stay whole in the scratchpad, by number; the least
    parts of elements, register file and scratchpad in use. `held` has the same loops and operands as the nest, and its
    tiles are what a register file must hold, where that is not the nest itself.
    """

    spatial: frozenset[int] | None = None
    spread: frozenset[int] = frozenset()
    whole_in_scratchpad: frozenset[int] = frozenset()
    stays: int | None = None  # the operand that stays in the registers while the scratchpad's loops run
    least_elements: float = 0.0
    least_registers: float = 0.0
    least_scratchpad: float = 0.0
    held: LoopNest | None = None
    sums_stay: bool = False  # results leave the scratchpad only when they are complete
    room: tuple[int, int] | None = None  # bits of a word of the result in the scratchpad: complete, and in parts


def spatial_tilings(nest: LoopNest, elements: int, factors: Factors, limits: Limits) -> np.ndarray:
    """Every spatial tiling within the limits, those that use more elements first, ties in the order of factors."""
    choices = []
    for at, extent in enumerate(nest.extents):
        row = factors.row[extent]
        found = [int(f) for f in factors.items[factors.first[row] : factors.first[row + 1]] if f <= elements]
        if limits.spatial is not None and at not in limits.spatial:
            found = [1]
        choices.append([f for f in found if f > 1] if at in limits.spread else found)
    kept = [tiling for tiling in _within(choices, elements) if prod(tiling) >= limits.least_elements * elements]
    kept.sort(key=lambda tiling: (-prod(tiling), tiling))
    return np.array(kept, np.int64).reshape(-1, len(nest.loops))


def _within(choices: Sequence[Sequence[int]], elements: int) -> list[tuple[int, ...]]:
    """Tuples of one choice each whose product is at most so many."""
    found: list[tuple[tuple[int, ...], int]] = [((), 1)]
    for options in choices:
        found = [((*head, f), used * f) for (head, used), f in product(found, options) if used * f <= elements]
    return [tiling for tiling, _ in found]

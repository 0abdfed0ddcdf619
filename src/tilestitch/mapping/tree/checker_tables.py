"""The tables of the checker: what every cut of a placed nest costs and takes at every tile.

Tiles are tuples of divisors. Rooms are exact: whole numbers, in the smallest part of a bit that fractions of spread
loops give. Only the price of a cut is that of the search.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import gcd, isqrt, lcm, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilestitch.base.errors import TooLarge
from tilestitch.mapping.tree.crossings import OperandOnTree, combined, operands_on_tree
from tilestitch.mapping.tree.outside_in import NEVER, Cuts
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.tables import Sums, femtojoules

_MOST = 2**58  # in a room; a few of them are added in 64 bits

_Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Lattice:
    """The tiles of a nest: all tuples of divisors of its steps, the last loop's running fastest."""

    divisors: tuple[tuple[int, ...], ...]  # of the steps of each loop
    tiles: _Whole
    down: _Whole  # by prime of a loop and tile: the tile with one such prime less, or -1
    up: _Whole  # the tile that is so much larger, or -1


@lru_cache(maxsize=1)
def lattice_of(steps: tuple[int, ...]) -> Lattice:
    """The lattice of so many steps; choices of what is spread that leave as many in turn share it."""
    divisors = tuple(_divisors(count) for count in steps)
    down = _down(divisors)
    up = np.full_like(down, -1)
    for prime, below in enumerate(down):
        larger = np.flatnonzero(below >= 0)
        up[prime, below[larger]] = larger
    return Lattice(divisors, _tiles_of(divisors), down, up)


@dataclass(frozen=True, slots=True)
class CheckerTables:
    """The cuts of the operands that move anything, and what every chain costs beside them."""

    placed: PlacedNest
    operands: tuple[OperandOnTree, ...]
    lattice: Lattice
    cuts: Cuts
    fixed: int  # at the units, of results

    @property
    def states(self) -> int:
        """Places where labels may stand."""
        return 2 * self.cuts.price.shape[1] * prod(int(count) + 1 for count in np.diff(self.cuts.first))

    def tile_number(self, tile: tuple[int, ...]) -> int:
        """The number of a tile: its divisors, the last loop's counting one."""
        number = 0
        for divisors, size in zip(self.lattice.divisors, tile, strict=True):
            number = number * len(divisors) + divisors.index(size)
        return number


@dataclass(frozen=True, slots=True)
class _Cut:
    """One cut of one operand; the memory is none where what is read stays at the units."""

    operand: OperandOnTree
    level: int  # of its memory; -1 at the units
    memory: int | None  # its number in the tree
    inside: tuple[Fraction, ...]  # how far each loop is spread inside it

    @property
    def is_outermost(self) -> bool:
        return self.level == len(self.operand.memories) - 1

    @property
    def parts(self) -> int:
        """Into how many parts of an element its room is divided."""
        placed = self.operand.placed
        has_parts = placed.tree.moves_boxes or not placed.zigzag_windows
        axes = [terms for terms in self.operand.array.axes if has_parts or len(terms) == 1]
        return prod(self.inside[loop].denominator for terms in axes for loop, _ in terms)


def checker_tables(placed: PlacedNest, sums: Sums) -> CheckerTables:
    """The tables of a placed nest. Raises `TooLarge` where rooms do not fit 64 bits."""
    lattice = lattice_of(placed.steps)
    tiles = lattice.tiles
    operands = tuple(one for one in operands_on_tree(placed) if one.array.element_bits > 0)
    own_cuts = [_cuts_of(one) for one in operands]
    cuts = [cut for one in own_cuts for cut in one]
    write = next((at for at, one in enumerate(operands) if one.is_write), -1)
    ones = np.ones((1, len(placed.steps)), np.int64)
    memories = [cut.memory for cut in cuts]
    shared = sorted({one for one in memories if one is not None and memories.count(one) > 1})
    scales = _scales(cuts, placed)
    sizes = [min(2**62, one.size_bits * scale) for one, scale in zip(placed.tree.memories, scales, strict=True)]
    price = np.stack([_price(cut, tiles) for cut in cuts])
    partial = np.stack([_leaves_partial(cut, tiles) for cut in cuts])
    room = np.stack([_room(cut, tiles, scales, partial[at], sums) for at, cut in enumerate(cuts)])
    size = np.array([0 if one is None else sizes[one] for one in memories], np.int64)
    fits = room <= size[:, None, None]
    if placed.limits or placed.order:
        fits &= np.stack([_is_allowed(cut, tiles, room[at], scales) for at, cut in enumerate(cuts)])
    inmost = [[_number_in(own, memory) for memory in shared] for own in own_cuts]
    table = Cuts(
        price=price,
        possible=(price < NEVER)[:, None] & fits,
        partial=partial,
        room=room,
        shared=np.array([shared.index(one) if one in shared else -1 for one in memories], np.int64),
        limit=np.array([sizes[one] for one in shared], np.int64),
        inmost=np.array(inmost, np.int64).reshape(len(operands), len(shared)),
        first=np.cumsum([0, *map(len, own_cuts)], dtype=np.int64),
        write=write,
        from_units=int(write >= 0 and bool(operands[write].is_partial(0, ones)[0])),
        down=lattice.down,
    )
    fixed = int(femtojoules(operands[write], 0, ones)[0]) if write >= 0 else 0
    return CheckerTables(placed, operands, lattice, table, fixed)


def _is_allowed(cut: _Cut, tiles: _Whole, room: _Whole, scales: list[int]) -> NDArray[np.bool_]:
    """Where a user allows a cut: an order of loops comes there, and it keeps to the limits of its memory."""
    placed, operand = cut.operand.placed, cut.operand
    found = np.tile(order_reaches(placed, tiles), (2, 1))
    if cut.memory is None or cut.is_outermost:
        return found
    for limit in placed.limits:
        if (limit.memory, limit.home) == (placed.tree.memories[cut.memory].name, placed.homes[operand.number]):
            most = int(limit.share * operand.memories[cut.level].size_bits)
            found &= room <= min(2**62, most * scales[cut.memory])
            for loop, least, largest in limit.tile:
                if loop in operand.array.indexed_by:
                    found &= (least <= tiles[:, loop]) & (tiles[:, loop] <= largest)
    return found


def order_reaches(placed: PlacedNest, tiles: _Whole) -> NDArray[np.bool_]:
    """The tiles that have the steps of an order inside, or a beginning of them; all where there is none.

    Of the loop at which the order is, any part that divides what it says; behind it anything.
    """
    left, inside, found = list(placed.steps), [1] * len(placed.steps), np.zeros(len(tiles), np.bool_)
    for loop, said in placed.order:
        factor = said or left[loop]
        if left[loop] % factor:
            return np.zeros(len(tiles), np.bool_)
        own, others = tiles[:, loop], [one for one in range(len(inside)) if one != loop]
        begun = (own % inside[loop] == 0) & (inside[loop] * factor % own == 0)
        found |= begun & (tiles[:, others] == np.array(inside)[others]).all(axis=1)
        left[loop] //= factor
        inside[loop] *= factor
    return found | (tiles % np.array(inside) == 0).all(axis=1)


def _cuts_of(operand: OperandOnTree) -> list[_Cut]:
    """The cuts of an operand from the innermost; what is read has one at the units."""
    placed, inside = operand.placed, (Fraction(1),) * len(operand.placed.nest.loops)
    found = [_Cut(operand, -1, None, inside)]
    for level, (memory, here) in enumerate(zip(operand.memories, placed.spread(operand.number), strict=False)):
        inside = combined(inside, here)
        found.append(_Cut(operand, level, placed.tree.memories.index(memory), inside))
    return found[1:] if operand.is_write else found


def _divisors(number: int) -> tuple[int, ...]:
    small = [one for one in range(1, isqrt(number) + 1) if number % one == 0]
    return tuple(sorted({*small, *(number // one for one in small)}))


def _tiles_of(divisors: tuple[tuple[int, ...], ...]) -> _Whole:
    grids = np.meshgrid(*(np.array(one, np.int64) for one in divisors), indexing="ij")
    return np.ascontiguousarray(np.stack([one.ravel() for one in grids], axis=1))


def _down(divisors: tuple[tuple[int, ...], ...]) -> _Whole:
    """By prime of a loop and tile the number of the tile with one such prime less, or -1."""
    shape = [len(one) for one in divisors]
    numbers = np.arange(prod(shape), dtype=np.int64).reshape(shape)
    found: list[_Whole] = []
    for loop, sizes in enumerate(divisors):
        for prime in (
            one for one in sizes if one > 1 and not any(one % other == 0 for other in sizes if 1 < other < one)
        ):
            at = [sizes.index(size // prime) if size % prime == 0 else -1 for size in sizes]
            moved = np.take(numbers, at, axis=loop)
            absent = np.array([one < 0 for one in at]).reshape(
                [-1 if axis == loop else 1 for axis in range(len(shape))]
            )
            found.append(np.where(absent, -1, moved).ravel())
    return np.array(found, np.int64).reshape(len(found), numbers.size)


def _number_in(own: list[_Cut], memory: int) -> int:
    """Which of an operand's cuts, counted from the innermost, lies in a memory; -1 where none does."""
    return next((number for number, cut in enumerate(own) if cut.memory == memory), -1)


def _leaves_partial(cut: _Cut, tiles: _Whole) -> NDArray[np.bool_]:
    if not cut.operand.is_write or cut.is_outermost:
        return np.zeros(len(tiles), np.bool_)
    return cut.operand.is_partial(cut.level + 1, tiles)


def _price(cut: _Cut, tiles: _Whole) -> _Whole:
    """In femtojoules. The outermost memory holds all; at units with latches stays what the loops inside leave alone."""
    if cut.is_outermost:
        found = np.full(len(tiles), NEVER, np.int64)
        found[-1] = 0
        return found
    found = np.minimum(femtojoules(cut.operand, cut.level + 1, tiles), NEVER)
    if cut.level < 0:
        latched = cut.operand.placed.tree.has_latches
        for loop in cut.operand.array.indexed_by if latched else range(tiles.shape[1]):
            found[tiles[:, loop] > 1] = NEVER
    return found


def _scales(cuts: list[_Cut], placed: PlacedNest) -> list[int]:
    """The parts of a bit in which the room of each memory is counted."""
    return [lcm(*(cut.parts for cut in cuts if cut.memory == number)) for number in range(len(placed.tree.memories))]


def _room(cut: _Cut, tiles: _Whole, scales: list[int], partial: NDArray[np.bool_], sums: Sums) -> _Whole:
    """Where complete and where partial sums arrive, in parts of a bit; twice where there is a second buffer.

    Partial sums have their full width from where they arrive, or with `Sums.FINAL` only where they also leave.
    """
    if cut.memory is None:
        return np.zeros((2, len(tiles)), np.int64)
    operand, placed = cut.operand, cut.operand.placed
    full, final = operand.array.element_bits, placed.final_bits if operand.is_write else operand.array.element_bits
    (whole,) = _elements(cut, np.array([placed.steps], dtype=object)).tolist()
    if 2 * whole * scales[cut.memory] * max(full, final) > _MOST:
        raise TooLarge(f"{placed.nest.name}: {operand.array.name} is too large for the checker to add up rooms")
    elements = _elements(cut, tiles) * (scales[cut.memory] // cut.parts)
    memory = operand.memories[cut.level]
    if memory.bank_bits > 0:
        bank = memory.bank_bits * scales[cut.memory]
        if 2 * bank > _MOST:
            raise TooLarge(f"{placed.nest.name}: banks of {memory.name} are too large for the checker to add up rooms")
        widths = [np.where(partial, full, final)] * 2 if sums is Sums.FINAL else [final, full]
        return np.stack([-(-elements * width // bank) * bank * memory.buffers for width in widths])
    if memory.buffers == 2:
        elements = np.where(elements < whole * (scales[cut.memory] // cut.parts), 2 * elements, elements)
    if sums is Sums.FINAL:
        return np.stack([elements * np.where(partial, full, final)] * 2)
    return np.stack([elements * final, elements * full])


def _elements(cut: _Cut, tiles: NDArray[Any]) -> NDArray[Any]:
    """Elements in the memory of a cut, in parts of an element."""
    spread = cut.inside
    found = np.ones(len(tiles), tiles.dtype)
    for terms, size in zip(cut.operand.array.axes, cut.operand.array.shape, strict=True):
        if cut.operand.placed.tree.moves_boxes:
            found = found * _box(terms, tiles, spread)
        elif len(terms) == 1:
            (loop, _), *_ = terms
            found = found * tiles[:, loop] * spread[loop].numerator
        elif terms:
            (one, step), (other, further) = terms
            first, second = (tiles[:, at] * spread[at].numerator for at in (one, other))
            parts = [spread[at].denominator for at in (one, other)]
            if cut.operand.placed.zigzag_windows:
                first, second, parts = first // parts[0], second // parts[1], [1, 1]
            common = gcd(step, further)
            behind = first - further // common * parts[0]
            if not cut.operand.placed.zigzag_windows:
                behind = np.maximum(behind, 0)
            both = np.maximum(second - step // common * parts[1], 0) * behind
            found = found * np.minimum(first * second - both, size * parts[0] * parts[1])
    return found


def _box(terms: tuple[tuple[int, int], ...], tiles: NDArray[Any], spread: tuple[Fraction, ...]) -> NDArray[Any]:
    """From the first to the last index of tiles along an axis, in parts of one."""
    parts = prod(spread[loop].denominator for loop, _ in terms)
    found = np.full(len(tiles), parts, tiles.dtype)
    for loop, step in terms:
        share = parts // spread[loop].denominator
        found = found + abs(step) * share * (tiles[:, loop] * spread[loop].numerator - spread[loop].denominator)
    return found

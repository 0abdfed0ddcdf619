"""Everything the search asks about a placed nest, as tables over the lattice of tiles.

Every operand places its cuts from the innermost outwards. Of what is read the first cut is that of the units, inside
which only loops lie that leave the operand alone; then comes one cut for each memory, the last at the whole tile. A
cut costs what crosses there, in whole femtojoules, so that sums do not depend on their order. Where windows slide there
is a second cut behind that of the memory: the end of their row, with nothing but the loop between them.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from tilestitch.base.errors import TooLarge
from tilestitch.mapping.optimum import FEMTO
from tilestitch.mapping.tree.crossings import Flags, Numbers, OperandOnTree, Part, Tiles, operands_on_tree
from tilestitch.mapping.tree.labels import NEVER
from tilestitch.mapping.tree.lattice import Lattice, lattice_of
from tilestitch.mapping.tree.placed import PlacedNest

MOST_FJ = 2.0**59


class Sums(StrEnum):
    """How wide a memory stores the sums that it holds while they are added to."""

    FULL = "full"  # as partial sums, which they are until nothing is added any more
    FINAL = "final"  # as complete sums wherever complete ones leave; ZigZag 3.9.1 counts the room so


@dataclass(frozen=True, slots=True)
class Cut:
    """One cut of one operand, at every point of the lattice; of two arrays the second is for partial sums from below.

    Only results have such; of what is read the two are alike.
    """

    operand: int
    memory: int | None  # which of the tree holds the tile; none where it stays at the units
    cost_fj: NDArray[np.int64]  # [partial, point]; NEVER where the tile does not fit alone
    room_bits: Numbers  # [partial, point]
    is_partial: Flags  # whether what crosses at this cut are partial sums, which the next memory receives
    crossing: int | None  # what the cut pays for; none where the memory is the outermost
    part: Part = Part.ALL
    after_loops: tuple[int, ...] | None = None  # since the cut before only these loops; any where it is none
    place_of: int | None = None  # the memory whose place it is, instead of a cut of an operand


@dataclass(frozen=True, slots=True)
class Tables:
    """The cuts of every operand from the innermost, and what every mapping pays beside them."""

    placed: PlacedNest
    lattice: Lattice
    cuts: tuple[tuple[Cut, ...], ...]
    partial_from_units: bool
    fixed_fj: int  # at the units, of results
    places: tuple[Cut, ...]  # where the tiles of all operands change, of every memory that stores evenly
    allowed: Flags  # the points that an order of loops comes to


def tables_of(placed: PlacedNest, sums: Sums) -> Tables:
    """The tables of a nest on a tree. Raises `TooLarge` where energies would not fit 64 bits in femtojoules."""
    lattice = lattice_of(placed.steps)
    tiles = lattice.tiles()
    cuts: list[tuple[Cut, ...]] = []
    fixed, from_units = 0, False
    for operand in operands_on_tree(placed):
        if operand.is_write:
            one = np.ones((1, len(placed.steps)), np.int64)
            from_units = bool(operand.is_partial(0, one)[0])
            fixed = int(femtojoules(operand, 0, one)[0])
        levels = range(0 if operand.is_write else -1, len(operand.memories))
        cuts.append(cuts_of(operand, tiles, sums, levels))
    allowed = in_order(placed, tiles)
    if placed.order:
        cuts = [tuple(replace(cut, cost_fj=np.where(allowed, cut.cost_fj, NEVER)) for cut in one) for one in cuts]
    places = _places(placed, len(tiles))
    return Tables(placed, lattice, tuple(cuts), from_units, fixed, places, allowed)


def cuts_of(operand: OperandOnTree, tiles: Tiles, sums: Sums, levels: range) -> tuple[Cut, ...]:
    """The cuts of an operand in some of its memories, -1 for the units, at tiles of which the last is whole."""
    if operand.is_write:
        made = [_write_cut(operand, level, tiles, sums) for level in levels]
    else:
        made = [cut for level in levels for cut in _read_cuts(operand, level, tiles)]
    placed = operand.placed
    return tuple(_limited(cut, placed, tiles) for cut in made) if placed.limits else tuple(made)


def _places(placed: PlacedNest, points: int) -> tuple[Cut, ...]:
    """The place of every memory that stores evenly what several operands cut there."""
    found: list[Cut] = []
    moving = [number for number, array in enumerate(placed.operands) if array.element_bits > 0]
    nothing = np.zeros((2, points), np.int64)
    for at, memory in enumerate(placed.tree.memories):
        inner = [number for number in moving if memory in placed.chain(number)[:-1]]
        if memory.has_even_storage and len(inner) > 1:
            partial = np.zeros(points, np.bool_)
            found.append(Cut(inner[0], None, nothing, nothing.astype(np.float64), partial, None, place_of=at))
    return tuple(found)


def in_order(placed: PlacedNest, tiles: Tiles) -> Flags:
    """Which tiles an order of loops comes to: one of its loops in part, those before it whole, none behind it.

    None at all where it does not divide the steps.
    """
    inside, found = np.ones_like(tiles), np.zeros(len(tiles), np.bool_)
    for loop, factor in placed.innermost:
        step = inside.copy()
        step[:, loop] = tiles[:, loop]
        divides = (tiles[:, loop] % inside[:, loop] == 0) & (factor * inside[:, loop] % tiles[:, loop] == 0)
        found |= (step == tiles).all(axis=1) & divides
        inside[:, loop] *= factor
    found |= (tiles % inside == 0).all(axis=1)
    return found & (np.array(placed.steps) % inside[0] == 0).all()


def _limited(cut: Cut, placed: PlacedNest, tiles: Tiles) -> Cut:
    """A cut only where the user's limits allow it."""
    if cut.memory is None:
        return cut
    bits, limits = placed.limits_of(cut.operand, placed.tree.memories[cut.memory])
    allowed = cut.room_bits <= bits * (1 + 1e-12)
    for loop, least, most in limits:
        allowed &= (tiles[:, loop] >= least) & (tiles[:, loop] <= most)
    return replace(cut, cost_fj=np.where(allowed, cut.cost_fj, NEVER))


def femtojoules(operand: OperandOnTree, crossing: int, tiles: Tiles, part: Part = Part.ALL) -> NDArray[np.int64]:
    """What a crossing costs at each tile; a direction without a port can not be."""
    energy = operand.delivered_pj(crossing, tiles, part)
    for moved in operand.moved(crossing, tiles, part):
        energy += np.where(moved.accesses > 0, moved.energy_pj, 0.0)
    cannot = ~np.isfinite(energy)
    if (energy[~cannot] * FEMTO > MOST_FJ).any():
        raise TooLarge(f"{operand.placed.nest.name}: energies above 5e14 pJ are not compared; use smaller loops")
    return np.where(cannot, NEVER, np.rint(np.where(cannot, 0.0, energy) * FEMTO).astype(np.int64))


def stored_bits(operand: OperandOnTree, level: int, tiles: Tiles, bits: NDArray[np.int64] | int) -> Numbers:
    """Bits in a memory; a tile with a second buffer takes twice as much unless it is all that there is.

    Of a memory in banks it takes whole ones, and half of them are for the tile in use, even if that is all there is.
    """
    memory = operand.memories[level]
    room = operand.held(level, tiles) * bits
    if memory.bank_bits > 0:
        return np.ceil(room / memory.bank_bits) * memory.bank_bits * memory.buffers
    if memory.buffers == 2:
        all_steps = np.array([operand.placed.steps], np.int64)
        room = np.where(room < operand.held(level, all_steps)[0] * bits, 2 * room, room)
    return room


def _with_room(cost: NDArray[np.int64], room: Numbers, size_bits: int) -> NDArray[np.int64]:
    return np.where(room <= size_bits * (1 + 1e-12), cost, NEVER)


def _only_whole(cost: NDArray[np.int64]) -> NDArray[np.int64]:
    """The outermost memory holds everything: a cut at the last point, which costs nothing."""
    found = np.full_like(cost, NEVER)
    found[-1] = 0
    return found


def _read_cuts(operand: OperandOnTree, level: int, tiles: Tiles) -> list[Cut]:
    """The cut of a memory; where windows slide into it, the end of their row as well."""
    if level == len(operand.memories) - 1:
        return [_read_cut(operand, level, tiles, Part.ALL)]
    loop = operand.slide(level + 1)
    if loop is None:
        return [_read_cut(operand, level, tiles, Part.ALL)]
    window = _read_cut(operand, level, tiles, Part.NEW)
    cost = femtojoules(operand, level + 1, tiles, Part.FIRST)
    end = Cut(
        operand.number,
        None,
        np.stack([cost, cost]),
        np.zeros((2, len(tiles))),
        window.is_partial,
        level + 1,
        Part.FIRST,
        (loop,),
    )
    return [window, end]


def _read_cut(operand: OperandOnTree, level: int, tiles: Tiles, part: Part) -> Cut:
    never_partial = np.zeros(len(tiles), np.bool_)
    is_top = level == len(operand.memories) - 1
    if is_top:
        cost = _only_whole(np.zeros(len(tiles), np.int64))
    else:
        cost = femtojoules(operand, level + 1, tiles, part)
        cost = np.where(operand.can_begin(level + 1, tiles), cost, NEVER)
    if level < 0:
        stopping = sorted(operand.array.indexed_by) if operand.placed.tree.has_latches else slice(None)
        cost = np.where((tiles[:, stopping] > 1).any(axis=1), NEVER, cost)
        return Cut(
            operand.number, None, np.stack([cost, cost]), np.zeros((2, len(tiles))), never_partial, level + 1, part
        )
    room = stored_bits(operand, level, tiles, operand.array.element_bits)
    cost = _with_room(cost, room, operand.memories[level].size_bits)
    memory = operand.placed.tree.memories.index(operand.memories[level])
    crossing = None if is_top else level + 1
    return Cut(operand.number, memory, np.stack([cost, cost]), np.stack([room, room]), never_partial, crossing, part)


def _write_cut(operand: OperandOnTree, level: int, tiles: Tiles, sums: Sums) -> Cut:
    memory = operand.memories[level]
    is_top = level == len(operand.memories) - 1
    partial = np.zeros(len(tiles), np.bool_) if is_top else operand.is_partial(level + 1, tiles)
    cost = np.zeros(len(tiles), np.int64)
    cost = _only_whole(cost) if is_top else femtojoules(operand, level + 1, tiles)
    full, final = operand.array.element_bits, operand.placed.final_bits
    costs: list[NDArray[np.int64]] = []
    rooms: list[Numbers] = []
    for arriving in (False, True):
        stored_full = partial if sums is Sums.FINAL else np.full(len(tiles), arriving)
        room = stored_bits(operand, level, tiles, np.where(stored_full, full, final).astype(np.int64))
        costs.append(_with_room(cost, room, memory.size_bits))
        rooms.append(room)
    number = operand.placed.tree.memories.index(memory)
    crossing = None if is_top else level + 1
    return Cut(operand.number, number, np.stack(costs), np.stack(rooms), partial, crossing)

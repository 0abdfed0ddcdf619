"""Everything the search asks about a placed nest, as tables over the lattice of tiles.

Every operand places its cuts from the innermost outwards. Of what is read the first cut is that of the units, inside
which only loops lie that leave the operand alone; then comes one cut for each memory, the last at the whole tile. A
cut costs what crosses there, in whole femtojoules, so that sums do not depend on their order.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from tilestitch.base.errors import TooLarge
from tilestitch.mapping.tree.crossings import Flags, Numbers, OperandOnTree, Tiles, operands_on_tree
from tilestitch.mapping.tree.labels import NEVER
from tilestitch.mapping.tree.lattice import Lattice, lattice_of
from tilestitch.mapping.tree.placed import PlacedNest

MOST_FJ = 2.0**59
FEMTO = 1000  # femtojoules in a picojoule


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


@dataclass(frozen=True, slots=True)
class Tables:
    """The cuts of every operand from the innermost, and what every mapping pays beside them."""

    placed: PlacedNest
    lattice: Lattice
    cuts: tuple[tuple[Cut, ...], ...]
    partial_from_units: bool
    fixed_fj: int  # at the units, of results


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
            made = [_write_cut(operand, level, tiles, sums) for level in range(len(operand.memories))]
        else:
            made = [_read_cut(operand, level, tiles) for level in range(-1, len(operand.memories))]
        cuts.append(tuple(_limited(cut, placed, tiles) for cut in made) if placed.limits else tuple(made))
    return Tables(placed, lattice, tuple(cuts), from_units, fixed)


def _limited(cut: Cut, placed: PlacedNest, tiles: Tiles) -> Cut:
    """A cut only where the user's limits allow it."""
    if cut.memory is None:
        return cut
    bits, limits = placed.limits_of(cut.operand, placed.tree.memories[cut.memory])
    allowed = cut.room_bits <= bits * (1 + 1e-12)
    for loop, least, most in limits:
        allowed &= (tiles[:, loop] >= least) & (tiles[:, loop] <= most)
    return replace(cut, cost_fj=np.where(allowed, cut.cost_fj, NEVER))


def femtojoules(operand: OperandOnTree, crossing: int, tiles: Tiles) -> NDArray[np.int64]:
    """What a crossing costs at each tile; a direction without a port can not be."""
    energy = np.zeros(len(tiles))
    for moved in operand.moved(crossing, tiles):
        energy += np.where(moved.accesses > 0, moved.energy_pj, 0.0)
    cannot = ~np.isfinite(energy)
    if (energy[~cannot] * FEMTO > MOST_FJ).any():
        raise TooLarge(f"{operand.placed.nest.name}: energies above 5e14 pJ are not compared; use smaller loops")
    return np.where(cannot, NEVER, np.rint(np.where(cannot, 0.0, energy) * FEMTO).astype(np.int64))


def _room(operand: OperandOnTree, level: int, tiles: Tiles, bits: NDArray[np.int64] | int) -> Numbers:
    """Bits in a memory; a tile with a second buffer takes twice as much unless it is all that there is."""
    memory = operand.memories[level]
    room = operand.held(level, tiles) * bits
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


def _read_cut(operand: OperandOnTree, level: int, tiles: Tiles) -> Cut:
    never_partial = np.zeros(len(tiles), np.bool_)
    if level < 0:
        moving = sorted(operand.array.indexed_by)
        cost = femtojoules(operand, 0, tiles)
        cost = np.where((tiles[:, moving] > 1).any(axis=1), NEVER, cost)
        return Cut(operand.number, None, np.stack([cost, cost]), np.zeros((2, len(tiles))), never_partial)
    is_top = level == len(operand.memories) - 1
    room = _room(operand, level, tiles, operand.array.element_bits)
    cost = np.zeros(len(tiles), np.int64)
    cost = _only_whole(cost) if is_top else femtojoules(operand, level + 1, tiles)
    cost = _with_room(cost, room, operand.memories[level].size_bits)
    memory = operand.placed.tree.memories.index(operand.memories[level])
    return Cut(operand.number, memory, np.stack([cost, cost]), np.stack([room, room]), never_partial)


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
        room = _room(operand, level, tiles, np.where(stored_full, full, final).astype(np.int64))
        costs.append(_with_room(cost, room, memory.size_bits))
        rooms.append(room)
    number = operand.placed.tree.memories.index(memory)
    return Cut(operand.number, number, np.stack(costs), np.stack(rooms), partial)

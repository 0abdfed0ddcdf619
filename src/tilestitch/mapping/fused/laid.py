"""The cuts of an operator that cost something, and the arrays of the sweep that places them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tilestitch.mapping.fused.outside import Outside, least_togo
from tilestitch.mapping.fused.sweep import Field, order_of_states
from tilestitch.mapping.tree import labels
from tilestitch.mapping.tree.crossings import Tiles, operands_on_tree
from tilestitch.mapping.tree.lattice import Lattice
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.tables import FEMTO, Cut, Sums, Tables, tables_of


@dataclass(frozen=True, slots=True)
class Rooms:
    """The memories that all units of a cell share, by name, in which rooms of several operators add up."""

    names: tuple[str, ...]
    limit_bits: tuple[float, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Laid:
    """The cuts of an operator that cost something, and where those begin that all units of a cell share."""

    tables: Tables
    operands: tuple[int, ...]  # those that move anything
    cuts: tuple[tuple[Cut, ...], ...]  # of each of them, without the outermost, which costs nothing
    outer: tuple[int, ...]  # of each, how many cuts come before those in memories that all units of a cell share

    @property
    def lattice(self) -> Lattice:
        return self.tables.lattice

    @property
    def fixed_fj(self) -> int:
        placed = self.tables.placed
        return self.tables.fixed_fj + round(placed.tree.mac_pj * placed.nest.macs * FEMTO)

    def top(self, operand: int) -> Cut:
        """The cut of the outermost memory of an operand."""
        return self.tables.cuts[operand][-1]


def laid(placed: PlacedNest, sums: Sums, rooms: Rooms, parts: frozenset[int] = frozenset()) -> Laid:
    """The cuts of a nest whose spread is fixed, and which is one part of several along some loops.

    Then all of an operand that they move is not all that there is, and a second buffer has the next part.
    """
    tables = tables_of(placed, sums)
    if parts:
        tiles = tables.lattice.tiles()
        tables = replace(
            tables, cuts=tuple(tuple(doubled(cut, placed, tiles, parts) for cut in one) for one in tables.cuts)
        )
    operands = tuple(number for number, array in enumerate(placed.operands) if array.element_bits)
    cuts = tuple(tables.cuts[number][:-1] for number in operands)
    return Laid(tables, operands, cuts, tuple(_first_shared(placed, rooms, one) for one in cuts))


def doubled(cut: Cut, placed: PlacedNest, tiles: Tiles, parts: frozenset[int]) -> Cut:
    """A cut of one part of several along some loops, at tiles of which the last is whole."""
    memory = None if cut.memory is None else placed.tree.memories[cut.memory]
    moved = placed.operands[cut.operand].indexed_by & parts
    if memory is None or cut.crossing is None or memory.buffers != 2 or memory.bank_bits or not moved:
        return cut
    held = operands_on_tree(placed)[cut.operand].held(cut.crossing - 1, tiles)
    whole = held >= held[-1]
    room = np.where(whole, 2 * cut.room_bits, cut.room_bits)
    return replace(cut, room_bits=room, cost_fj=np.where(room <= memory.size_bits, cut.cost_fj, labels.NEVER))


def _first_shared(placed: PlacedNest, rooms: Rooms, cuts: Sequence[Cut]) -> int:
    """How many cuts come before the memories in which rooms add up, from where on there is no other."""
    count = len(cuts)
    while count > 0:
        memory = cuts[count - 1].memory
        if memory is None or placed.tree.memories[memory].name not in rooms.names:
            break
        count -= 1
    return count


def field_of(one: Laid, rooms: Rooms, times: int = 1, outside: Outside | None = None) -> Field:
    """The arrays of the sweep of one operator that runs so many times."""
    tables = one.tables
    memories = tables.placed.tree.memories
    flat = [cut for cuts in one.cuts for cut in cuts]
    named = [None if cut.memory is None else memories[cut.memory].name for cut in flat]
    own = sorted({name for name in named if name is not None and name not in rooms.names and named.count(name) > 1})
    parts = [*rooms.names, *own]
    sizes = {memory.name: memory.size_bits * (1 + 1e-12) for memory in memories}
    first = np.array([sum(map(len, one.cuts[:at])) for at in range(len(one.cuts) + 1)], np.int64)
    shape, points = tables.lattice.shape, tables.lattice.points
    costs = [all_times(cut.cost_fj, times) for cut in flat]
    togo = [
        least_togo(cuts, costs[start : start + len(cuts)], shape, None if outside is None else outside.fj[at])
        for at, (cuts, start) in enumerate(zip(one.cuts, first.tolist(), strict=False))
        if cuts
    ]
    nothing = np.empty((0, 2, points))
    write = len(tables.placed.nest.reads)
    return Field(
        cost=np.stack(costs) if flat else nothing.astype(np.int64),
        room=np.stack([cut.room_bits for cut in flat]) if flat else nothing,
        after=np.stack([cut.is_partial for cut in flat]) if flat else np.empty((0, points), np.bool_),
        shared=np.array([-1 if name not in parts else parts.index(name) for name in named], np.int64),
        stays=np.array([name in rooms.names for name in parts], np.bool_),
        limit=np.array([*rooms.limit_bits, *(sizes[name] for name in own)], np.float64),
        first=first,
        write=one.operands.index(write) if write in one.operands else -1,
        togo=np.concatenate(togo) if togo else nothing.astype(np.int64),
        strides=np.array([np.prod(shape[at + 1 :], dtype=np.int64) for at in range(len(shape))], np.int64),
        shape=np.array(shape, np.int64),
        order=order_of_states(first.tolist()),
    )


def all_times(cost: NDArray[np.int64], times: int) -> NDArray[np.int64]:
    """What something costs so many times."""
    return np.where(cost >= labels.NEVER, labels.NEVER, np.minimum(cost, labels.NEVER // max(1, times)) * times)

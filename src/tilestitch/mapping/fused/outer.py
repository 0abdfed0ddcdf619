"""What an operator's cuts in memories that all units share cost at least, without the tables of all its tiles.

There an operand takes no less at a tile that loops cut which leave it alone than where these are whole: it crosses as
often or more, and sums are partial. So only tiles of the loops that move it count. All of what is spread lies inside,
so it does not matter along which axes: many choices are alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tilestitch.mapping.fused.laid import Rooms, all_times, doubled
from tilestitch.mapping.fused.outside import least_togo
from tilestitch.mapping.tree.choices import Choices
from tilestitch.mapping.tree.crossings import OperandOnTree, operands_on_tree
from tilestitch.mapping.tree.labels import NEVER
from tilestitch.mapping.tree.lattice import lattice_of
from tilestitch.mapping.tree.placed import PlacedNest, Unrolled
from tilestitch.mapping.tree.tables import Sums, cuts_of


@dataclass(frozen=True, slots=True, eq=False)
class Outer:
    """The least of an operator that runs so many times as one window of several along some loops.

    `outside` is what each cut of an operand and the later ones cost at least outside of the loops over windows.
    """

    sums: Sums
    rooms: Rooms
    times: int
    parts: frozenset[int]
    outside: Sequence[NDArray[np.int64]]

    def least_fj(self, placed: PlacedNest) -> int:
        """Of all operands together, in these windows or outside of them."""
        return min(sum(self._least_of(one, beyond) for one, beyond in self._moving(placed)), NEVER)

    def least_of_each(self, bare: PlacedNest, choices: Choices) -> NDArray[np.int64]:
        """The same with each choice of what is spread."""
        over, under = (one.prod(axis=1, dtype=np.int64) for one in (choices.over, choices.under))
        common = np.gcd(over, under)
        over, under = over // common, under // common
        total = np.zeros(len(choices), np.int64)
        for operand, beyond in self._moving(bare):
            loops = _loops_that_count(operand)
            seen = np.hstack([over[:, loops], under[:, loops]])
            different, back = np.unique(seen, axis=0, return_inverse=True)
            least: list[int] = []
            for row in different.tolist():
                spread = dict(zip(loops, map(Fraction, row[: len(loops)], row[len(loops) :]), strict=True))
                least.append(self._least_of(_along_one_axis(operand, spread), beyond))
            total = np.minimum(total + np.array(least, np.int64)[back.reshape(-1)], NEVER)
        return total

    def _moving(self, placed: PlacedNest) -> list[tuple[OperandOnTree, NDArray[np.int64]]]:
        """The operands that have such cuts, and their part of `outside`."""
        moving = [one for one in operands_on_tree(placed) if one.array.element_bits]
        both = zip(moving, self.outside, strict=True)
        return [(one, beyond) for one, beyond in both if first_shared(one, self.rooms) < len(one.memories) - 1]

    def _least_of(self, operand: OperandOnTree, beyond: NDArray[np.int64]) -> int:
        placed, loops = operand.placed, _loops_that_count(operand)
        lattice = lattice_of(tuple(some if loop in loops else 1 for loop, some in enumerate(placed.steps)))
        whole = [loop for loop in range(len(placed.steps)) if loop not in loops]
        tiles = lattice.tiles()
        tiles[:, whole] = np.array(placed.steps, np.int64)[whole]
        levels = range(first_shared(operand, self.rooms), len(operand.memories) - 1)
        cuts = [doubled(cut, placed, tiles, self.parts) for cut in cuts_of(operand, tiles, self.sums, levels)]
        costs = [all_times(cut.cost_fj, self.times) for cut in cuts]
        return int(least_togo(cuts, costs, lattice.shape, beyond)[0].min())


def first_shared(operand: OperandOnTree, rooms: Rooms) -> int:
    """Which memory of an operand is the first from where on rooms add up in all; the outermost at the latest."""
    inner = len(operand.memories) - 1
    while inner > 0 and operand.memories[inner - 1].name in rooms.names:
        inner -= 1
    return inner


def _along_one_axis(operand: OperandOnTree, spread: dict[int, Fraction]) -> OperandOnTree:
    """An operand with so much spread of some loops, all of it along the first axis."""
    axes = operand.placed.tree.axes
    unrolled = tuple(Unrolled(axes[0].name, loop, factor) for loop, factor in spread.items() if factor != 1)
    placed = replace(operand.placed, unrolled=unrolled)
    return OperandOnTree(placed, operand.number, operand.memories, placed.spread(operand.number))


def _loops_that_count(operand: OperandOnTree) -> list[int]:
    """The loops that move an operand; of a result whose complete sums are wider than partial ones all of them."""
    if operand.is_write and operand.placed.final_bits > operand.array.element_bits:
        return list(range(len(operand.placed.steps)))
    return sorted(operand.array.indexed_by)

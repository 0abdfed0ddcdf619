"""What a search on a machine tree found: mappings with what is proven of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilestitch.base.errors import DoesNotFit
from tilestitch.base.shown import Brief
from tilestitch.base.units import ceil_div
from tilestitch.hardware.tree import TreeMemory
from tilestitch.ir.choices import Objective
from tilestitch.ir.loop_nest import LoopOperand
from tilestitch.mapping.optimum import value_of
from tilestitch.mapping.tree import labels
from tilestitch.mapping.tree.chain import TreeMapping, TreePrice
from tilestitch.mapping.tree.crossings import Part
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.tables import Cut, Sums, Tables, tables_of


@dataclass(frozen=True, slots=True, repr=False)
class FoundMapping(Brief):
    """A mapping with its price, and below what no mapping of the same nest on the same tree comes.

    `bound_pj` and `bound_cycles` hold for every mapping; `bound_value` is that of the objective where it is not energy.
    """

    placed: PlacedNest
    sums: Sums
    mapping: TreeMapping
    price: TreePrice
    bound_pj: float
    is_proven: bool  # nothing is better, to a femtojoule for each cut
    labels: int  # that were looked at
    points: int  # of the lattice
    objective: Objective = Objective.ENERGY
    bound_cycles: int = 0
    bound_value: float | None = None

    @property
    def ideal_cycles(self) -> int:
        """With every unit at work all the time."""
        return ceil_div(self.placed.nest.macs, self.placed.tree.units)

    @property
    def utilization(self) -> float:
        """Multiply-accumulates over what all units could do in the latency."""
        return self.placed.nest.macs / (self.placed.tree.units * self.price.latency_cycles)

    @property
    def value(self) -> float:
        """Of the objective: pJ, cycles, or their products; of a point of a front the energy."""
        return value_of(self.objective, self.price.energy_pj, self.price.latency_cycles)

    @property
    def bound(self) -> float:
        """What no mapping comes below in the objective."""
        return self.bound_pj if self.bound_value is None else self.bound_value

    @property
    def gap(self) -> float:
        """By what share it may be worse than the best."""
        return self.value / self.bound - 1 if self.bound > 0 and not self.is_proven else 0.0


@dataclass(frozen=True, slots=True)
class SpatialSearch:
    """The best mapping of all choices, and how many were compared and opened.

    `more_than` is 0 where they were all there are; else there are more ways to spread loops than that.
    """

    found: FoundMapping
    choices: int
    opened: int
    more_than: int = 0


@dataclass(frozen=True, slots=True)
class Front:
    """Every mapping that no other beats in both energy and latency, in ascending order of energy.

    Of mappings that are alike in both there is one. Where the search stopped early, what is there is on the front of
    one placement, or at least a mapping, but others may be missing.
    """

    points: tuple[FoundMapping, ...]
    is_proven: bool
    labels: int


def mapping_of(tables: Tables, numbered: Sequence[Cut], chain: NDArray[np.int64]) -> TreeMapping:
    """Loops and cuts of a chain; between two cuts loops stand in the order of the nest, primes of one together."""
    tiles = tables.lattice.tiles()
    loops: list[tuple[int, int]] = []
    places: dict[int, int] = {}
    cuts: list[list[int]] = [[] for _ in tables.cuts]
    rows: list[tuple[int, int, int]] = []
    tile = np.ones(len(tables.placed.steps), np.int64)
    for number, point in [*chain.tolist(), (-1, tables.lattice.points - 1)]:
        loops += _between(tables.placed.innermost, tile.tolist(), tiles[point].tolist())
        tile = tiles[point]
        cut = numbered[number]
        if number >= 0 and cut.place_of is not None:
            places[cut.place_of] = len(loops)
        if number >= 0 and cut.memory is not None:
            cuts[cut.operand].append(places.get(cut.memory, len(loops)) if cut.crossing is not None else len(loops))
        if number >= 0 and cut.part is Part.FIRST and cut.crossing is not None:
            rows.append((cut.operand, cut.crossing, len(loops)))
    whole = [tables.placed.chain(operand) for operand in range(len(cuts))]
    for one in cuts:  # what changes at the place of an outer memory does not change behind it
        for level in range(len(one) - 2, -1, -1):
            one[level] = min(one[level], one[level + 1])
    return TreeMapping(
        tuple(loops),
        tuple(tuple(one) if one else (len(loops),) * len(memories) for one, memories in zip(cuts, whole, strict=True)),
        tuple(sorted(rows)),
    )


def _between(order: Sequence[tuple[int, int]], inner: list[int], outer: list[int]) -> list[tuple[int, int]]:
    """The loops from one tile to a larger one: as an order says, then those of the nest."""
    found: list[tuple[int, int]] = []
    left, inside = list(inner), [1] * len(inner)
    for loop, factor in order:
        inside[loop] *= factor
        reached = min(outer[loop], inside[loop])
        if reached > left[loop]:
            found.append((loop, reached // left[loop]))
            left[loop] = reached
    return found + [
        (loop, much // done) for loop, (much, done) in enumerate(zip(outer, left, strict=True)) if much > done
    ]


_NARROWER = "narrower elements (a quantised network, or `bits` in a file that says no units)"


def why_nothing_fits(tables: Tables) -> str:
    """Which memory is too small for an operand alone, at the tile that takes the least of it."""
    placed = tables.placed
    if not tables.allowed[-1]:
        names = [loop.name for loop in placed.nest.loops]
        said = ", ".join(f"{names[loop]} {factor}" for loop, factor in placed.innermost)
        steps = ", ".join(f"{name} {count}" for name, count in zip(names, placed.steps, strict=True))
        return f"the order {said} does not divide the steps {steps}; write other factors, or '*' for all that are left"
    for array, operand_cuts in zip(placed.operands, tables.cuts, strict=True):
        side = int(array is placed.nest.write and tables.partial_from_units)
        for level, cut in enumerate(operand_cuts):
            sides = [side] if level == 0 else [0, 1]
            if cut.memory is None or (cut.cost_fj[sides] < labels.NEVER).any():
                continue
            memory = placed.tree.memories[cut.memory]
            point = -1 if cut is operand_cuts[-1] else 0
            return (
                f"{array.name} needs at least {cut.room_bits[sides[0], point]:,.0f} bits in {memory.name}, which has "
                f"{memory.size_bits:,}; {_widths(array, memory)}"
            )
    return "no mapping fits the memories that operands share; take larger ones"


def _widths(array: LoopOperand, memory: TreeMemory) -> str:
    """What would help where a memory is too small for an operand: narrower elements if it has no room for one."""
    needed = array.element_bits * memory.buffers
    if needed <= memory.size_bits:
        return "spread fewer of its loops inside, or take a larger memory"
    buffers = f" in each of {memory.buffers} buffers" if memory.buffers > 1 else ""
    return f"an element takes {array.element_bits}{buffers}; take {_NARROWER}, or a larger memory"


def no_choice_fits(placed: PlacedNest, sums: Sums, steps: NDArray[np.int64]) -> DoesNotFit:
    """The error of a search of what to spread, of which `placed` is any choice, and `steps` are those of all of them.

    It names a loop that no choice can have in the order that is asked for, or a memory without any room.
    """
    order = _impossible_order(placed, steps)
    if order:
        return DoesNotFit(f"{placed.nest.name}: {order}")
    problem = f"{placed.nest.name}: no choice of what to spread has a mapping that fits the memories"
    for array, cuts in zip(placed.operands, tables_of(placed, sums).cuts, strict=True):
        bits = min(array.element_bits, placed.final_bits) if array is placed.nest.write else array.element_bits
        for memory in (placed.tree.memories[cut.memory] for cut in cuts if cut.memory is not None):
            buffers = memory.buffers if prod(array.shape) > 1 else 1
            if bits * buffers > memory.size_bits:
                twice = f" in each of {buffers} buffers" if buffers > 1 else ""
                return DoesNotFit(
                    f"{problem}: {memory.name} has {memory.size_bits} bits, an element of {array.name} {bits}{twice}.",
                    _NARROWER,
                    "a larger memory",
                )
    return DoesNotFit(f"{problem}.")


def _impossible_order(placed: PlacedNest, steps: NDArray[np.int64]) -> str:
    """Of which loop the factors of an order divide the steps of no choice; empty where there is none."""
    for number, (loop, extent) in enumerate(zip(placed.nest.loops, placed.nest.extents, strict=True)):
        factors = [factor for which, factor in placed.order if which == number and factor > 0]
        asked = prod(factors)
        if asked > extent or (steps[:, number] % asked > 0).all():
            said = " x ".join(map(str, factors))
            return (
                f"the order has {said} of {loop.name}, which has {extent:,} iterations: that divides its steps in no "
                "choice of what to spread; write other factors, or '*' for all that are left"
            )
    return ""

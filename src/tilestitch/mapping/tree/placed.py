"""A loop nest on a machine tree: where each operand lives, and which loops are spread over the units."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, gcd, prod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tilestitch.hardware.tree import Flow, MachineTree, TreeMemory
from tilestitch.ir.loop_nest import LoopNest, LoopOperand

_Value = TypeVar("_Value")


@dataclass(slots=True, eq=False)
class Memo:
    """What follows from a value that never changes, worked out when it is first asked for."""

    known: dict[Hashable, Any] = field(default_factory=dict)

    def once(self, key: Hashable, make: Callable[[], _Value]) -> _Value:
        if key not in self.known:
            self.known[key] = make()
        return self.known[key]

    def last(self, key: Hashable, tiles: NDArray[np.int64], make: Callable[[], _Value]) -> _Value:
        """The same of some tiles, which are asked for in turn: only what was worked out of the last ones is kept."""
        known = self.known.get(key)
        if known is None or known[0] is not tiles:
            known = self.known[key] = (tiles, make())
        return known[1]


@dataclass(frozen=True, slots=True)
class Unrolled:
    """A loop spread along an axis. A factor that is no whole number fills the axis in some steps and not in others."""

    axis: str
    loop: int
    factor: Fraction


@dataclass(frozen=True, slots=True)
class CutLimit:
    """What a user allows one memory to hold of one operand."""

    memory: str
    home: str  # what the machine calls the operand
    share: Fraction = Fraction(1)  # of the memory
    tile: tuple[tuple[int, int, int], ...] = ()  # loop, and the least and most of its steps inside the memory


@dataclass(frozen=True, slots=True)
class Slide:
    """Windows of one operand at one crossing that slide along a loop, each keeping what it shares with the one before.

    Crossing 0 is that from the innermost memory to the units.
    """

    operand: int
    crossing: int
    loop: int


@dataclass(frozen=True, slots=True)
class PlacedNest:
    """A nest on a tree, with what is fixed before loops are put in an order.

    `homes` are the names that the machine gives the operands of the nest, in the order of the nest; partial sums have
    the width of the result's elements, complete ones `final_bits`. The shape of an operand is what there is to move:
    indices of padding are not. `limits` leave the outermost memory alone, and loops that do not move an operand.
    `slides` say where windows slide; where the machine has no such memory or network there is no choice.
    """

    nest: LoopNest
    final_bits: int
    homes: tuple[str, ...]
    unrolled: tuple[Unrolled, ...]
    tree: MachineTree
    limits: tuple[CutLimit, ...] = ()
    slides: tuple[Slide, ...] | None = None  # none: not chosen yet
    order: tuple[tuple[int, int], ...] = ()  # loops and factors of the innermost steps in turn; 0: all that are left
    zigzag_windows: bool = False  # iterations of windows are rounded down, and their overlaps counted, as ZigZag does
    memo: Memo = field(default_factory=Memo, init=False, repr=False, compare=False)

    @property
    def operands(self) -> tuple[LoopOperand, ...]:
        """What is read, then what is written."""
        return self.nest.operands

    def chain(self, operand: int) -> tuple[TreeMemory, ...]:
        """The memories of an operand, innermost first."""
        return self.memo.once(("chain", operand), lambda: self.tree.chain(self.homes[operand]))

    def spread(self, operand: int) -> tuple[tuple[Fraction, ...], ...]:
        """Of every fan-out of an operand, from the innermost, how far each loop is spread there."""
        return self.memo.once(("spread", operand), lambda: self._spread(operand))

    def _spread(self, operand: int) -> tuple[tuple[Fraction, ...], ...]:
        levels: list[tuple[Fraction, ...]] = []
        for axes in self.tree.fan_outs(self.homes[operand]):
            here = [Fraction(1)] * len(self.nest.loops)
            for one in self.unrolled:
                if one.axis in axes:
                    here[one.loop] *= one.factor
            levels.append(tuple(here))
        return tuple(levels)

    def spread_along(self, axis: str) -> tuple[Fraction, ...]:
        """How far each loop is spread along one axis."""
        return self.memo.once(("axis", axis), lambda: self._spread_along(axis))

    def _spread_along(self, axis: str) -> tuple[Fraction, ...]:
        here = [Fraction(1)] * len(self.nest.loops)
        for one in self.unrolled:
            if one.axis == axis:
                here[one.loop] *= one.factor
        return tuple(here)

    def slide(self, operand: int, crossing: int) -> int | None:
        """The loop along which windows of an operand slide at a crossing."""
        found = (one.loop for one in self.slides or () if (one.operand, one.crossing) == (operand, crossing))
        return next(found, None)

    def limits_of(self, operand: int, memory: TreeMemory) -> tuple[int, tuple[tuple[int, int, int], ...]]:
        """Bits that an operand may take of a memory, and limits of the steps of the loops that move it."""
        bits, tile = memory.size_bits, []
        if memory is not self.chain(operand)[-1]:
            for limit in self.limits:
                if (limit.memory, limit.home) == (memory.name, self.homes[operand]):
                    bits = min(bits, int(limit.share * memory.size_bits))
                    tile += [one for one in limit.tile if one[0] in self.operands[operand].indexed_by]
        return bits, tuple(tile)

    @property
    def steps(self) -> tuple[int, ...]:
        """Iterations of each loop that are left to run one after another, rounded up.

        Rounded at each fan-out of the first operand, as ZigZag 3.9.1 does: two fan-outs of one loop that do not divide
        it may leave a step more than both together would.
        """
        return self.memo.once("steps", self._steps)

    def _steps(self) -> tuple[int, ...]:
        left = list(self.nest.extents)
        for level in self.spread(0):
            pairs = zip(left, level, strict=True)
            left = [count if factor == 1 else ceil(count / factor) for count, factor in pairs]
        return tuple(left)

    @property
    def innermost(self) -> tuple[tuple[int, int], ...]:
        """The loops of the order with their factors, from the innermost."""
        left, found = list(self.steps), []
        for loop, factor in self.order:
            found.append((loop, factor or left[loop]))
            left[loop] = max(1, left[loop] // found[-1][1])
        return tuple(found)

    @property
    def total_steps(self) -> int:
        return prod(self.steps)


def distinct(operand: LoopOperand, tile: Sequence[float], *, rounds: bool = False) -> float:
    """Elements of an operand that a tile of so many iterations of each loop touches, each counted once.

    Iterations are those of an average tile where factors do not divide.

    An index of two loops `s*a + t*b` takes `A*B - max(0, B - s/g) * max(0, A - t/g)` values, with g the common divisor
    of the steps (derived from the values that occur twice), and never more than there are. ZigZag 3.9.1 counts so too,
    but for fewer than t/g iterations of a: with `rounds` their second factor is below zero, as there.
    """
    counts: list[float] = []
    for terms, size in zip(operand.axes, operand.shape, strict=True):
        if len(terms) == 2:
            (first, step_first), (second, step_second) = terms
            common = gcd(step_first, step_second)
            a, b = tile[first], tile[second]
            if rounds:
                a, b = whole(a), whole(b)
            behind = a - step_second // common
            twice = max(0, b - step_first // common) * (behind if rounds else max(0, behind))
            counts.append(min(size, a * b - twice))
        elif terms:
            counts.append(tile[terms[0][0]])
    return float(product_of(np.array(counts).reshape(-1, 1))[0])


def product_of(factors: NDArray[np.float64]) -> NDArray[np.float64]:
    """The products along the first axis, made of whole factors first, which are exact, and then of the others.

    So up to two factors that are not whole may change places, and the product is the same to the last bit.
    """
    is_whole = factors == np.floor(factors)
    return np.where(is_whole, factors, 1.0).prod(axis=0) * np.where(is_whole, 1.0, factors).prod(axis=0)


def whole(iterations: float) -> int:
    """Whole iterations of a tile whose factors do not divide."""
    return int(iterations + 1e-9)


def placed_faults(placed: PlacedNest) -> list[str]:
    """Why a nest cannot run on a tree: an operand without a home, or a direction that no port serves."""
    faults: list[str] = []
    for number, (array, home) in enumerate(zip(placed.operands, placed.homes, strict=True)):
        chain = placed.chain(number)
        if not chain:
            faults.append(f"{array.name} has no home: no memory of {placed.tree.name} holds {home}")
        if array.element_bits == 0:
            continue
        is_write = array is placed.nest.write
        for level, memory in enumerate(chain):
            is_top = level == len(chain) - 1
            wanted = [Flow.COLLECT] if is_write else [Flow.FEED]
            if not is_top:
                wanted.append(Flow.DRAIN if is_write else Flow.FILL)
            for flow in wanted:
                if memory.port(home, flow) is None:
                    faults.append(
                        f"memory {memory.name} of {placed.tree.name} has no port that serves {home} in the direction "
                        f"'{flow}'; add that to the directions of one of its ports, or leave out their `directions`"
                    )
    return faults

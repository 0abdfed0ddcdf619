"""What it costs an operand to cross from one memory to the next, as a function of the tile at which it does.

Crossing 0 lies between the units and the innermost memory of an operand, crossing k between its memories k-1 and k.
A crossing at the tile T happens total/|T| times, whatever the order of the loops outside, and moves what T touches.
Accesses and energies are those of ZigZag 3.9.1's evaluator: an access moves whole granules of a port and costs the
share of its width; a fan-out hands the elements that differ over it from the memory above, those that are alike once;
partial sums are read back before every addition.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tilestitch.hardware.tree import Flow, TreeMemory
from tilestitch.ir.loop_nest import LoopOperand
from tilestitch.mapping.tree.placed import PlacedNest, distinct

Tiles: TypeAlias = NDArray[np.int64]  # points x loops
Numbers: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]
PortNumber: TypeAlias = tuple[int, int]  # of the memory in the tree, and of the port in the memory


@dataclass(frozen=True, slots=True)
class Moved:
    """Accesses of one memory in one direction at every point of some tiles, in accesses of a port's whole width."""

    memory: TreeMemory
    flow: Flow
    accesses: Numbers

    @property
    def energy_pj(self) -> Numbers:
        return self.accesses * (self.memory.read_pj if self.flow.is_read else self.memory.write_pj)


@dataclass(frozen=True, slots=True)
class OperandOnTree:
    """One operand of a placed nest: its memories, and how far the loops are spread at each of its fan-outs."""

    placed: PlacedNest
    number: int
    memories: tuple[TreeMemory, ...]
    spread: tuple[tuple[Fraction, ...], ...]

    @property
    def array(self) -> LoopOperand:
        return self.placed.operands[self.number]

    @property
    def is_write(self) -> bool:
        return self.number == len(self.placed.nest.reads)

    @property
    def leaves_alone(self) -> tuple[int, ...]:
        """The loops that do not move this operand; those of the result reduce it."""
        moved = self.array.indexed_by
        return tuple(loop for loop in range(len(self.placed.nest.loops)) if loop not in moved)

    def inside(self, fan_outs: int) -> tuple[Fraction, ...]:
        """How far each loop is spread over the first so many fan-outs together."""
        loops = range(len(self.placed.nest.loops))
        return tuple(prod((level[loop] for level in self.spread[:fan_outs]), start=Fraction(1)) for loop in loops)

    def instances(self, level: int) -> int:
        """How many memories of a level are in use; the level of the units is -1."""
        factors = [float(factor) for here in self.spread[level + 1 :] for factor in here]
        return round(round(prod(factors), 3))

    def is_hidden(self, crossing: int) -> bool:
        """Whether the units go on while this crossing brings the next tile: it has a buffer of its own, or a latch."""
        return crossing == 0 or self.memories[crossing - 1].buffers == 2

    def differing(self, crossing: int) -> int:
        """Into how many different parts a fan-out divides what crosses it.

        Counted by the loops that are spread there on top of those inside, without the loops that run in steps.
        """
        inner, outer = (
            distinct(self.array, [float(one) for one in self.inside(at)]) for at in (crossing, crossing + 1)
        )
        return round(outer / inner)

    def held(self, level: int, tiles: Tiles) -> Numbers:
        """Elements in one memory of a level."""
        return elements(self.array, tiles, self.inside(level + 1))

    def is_partial(self, crossing: int, tiles: Tiles) -> Flags:
        """Whether what crosses are partial sums: a reduction goes on outside, in steps or spread over units."""
        steps = np.array(self.placed.steps, np.int64)
        reduced = list(self.leaves_alone)
        spread = any(level[loop] > 1 for level in self.spread[crossing + 1 :] for loop in reduced)
        return np.logical_or(spread, (tiles[:, reduced] < steps[reduced]).any(axis=1))

    def moved(self, crossing: int, tiles: Tiles) -> Iterator[Moved]:
        """What one crossing at each of these tiles costs in the memories at both its ends."""
        times = self.placed.total_steps // tiles.prod(axis=1)
        for level, flow, bits in self._transfers(crossing, tiles):
            yield self._accesses(level, flow, bits, times)

    def served(self, crossing: int, tiles: Tiles) -> dict[PortNumber, NDArray[np.int64]]:
        """Cycles for which one crossing at each of these tiles, once, occupies every port at both its ends.

        A port makes one access a cycle, of up to its width, unless its bandwidth is stated. What a crossing moves in
        one direction begins a new access.
        """
        found: dict[PortNumber, NDArray[np.int64]] = {}
        for level, flow, bits in self._transfers(crossing, tiles):
            memory = self.memories[level]
            port = memory.port(self.placed.homes[self.number], flow)
            if port is None:
                continue  # energies say that this can not be
            accesses = np.ceil(np.ceil(bits / port.granule_bits) * port.granule_bits / port.width_bits)
            key = (self.placed.tree.memories.index(memory), memory.ports.index(port))
            cycles = np.ceil(accesses * float(port.width_bits / port.bits_per_cycle) - 1e-9)
            found[key] = found.get(key, 0) + cycles.astype(np.int64)
        return found

    def _transfers(self, crossing: int, tiles: Tiles) -> Iterator[tuple[int, Flow, Numbers]]:
        """Bits that one crossing at each of these tiles, once, moves in one memory of a level in a direction."""
        if self.array.element_bits == 0:
            return
        count = np.ones(len(tiles)) if crossing == 0 else np.rint(self.held(crossing - 1, tiles))
        partial = self.is_partial(crossing, tiles) if self.is_write else np.zeros(len(tiles), np.bool_)
        bits = np.where(partial | (not self.is_write), self.array.element_bits, self.placed.final_bits)
        above, below = (Flow.COLLECT, Flow.DRAIN) if self.is_write else (Flow.FEED, Flow.FILL)
        ends = [(crossing, count * self.differing(crossing), above, Flow.FEED)]
        if crossing > 0:
            ends.append((crossing - 1, count, below, Flow.FILL))
        for level, amount, flow, returning in ends:
            yield level, flow, amount * bits
            if self.is_write:
                yield level, returning, np.where(partial, amount * bits, 0)

    def _accesses(self, level: int, flow: Flow, bits: Numbers, times: NDArray[np.int64]) -> Moved:
        memory = self.memories[level]
        port = memory.port(self.placed.homes[self.number], flow)
        if port is None:
            # a direction that nothing serves: infinitely dear, so that no mapping uses it
            return Moved(memory, flow, np.where(bits > 0, np.inf, 0.0))
        share = port.granule_bits / port.width_bits
        granules = np.ceil(bits / port.granule_bits)
        return Moved(memory, flow, np.trunc(granules * share * times * self.instances(level)))


def elements(array: LoopOperand, tiles: Tiles, spread: tuple[Fraction, ...]) -> Numbers:
    """Elements of an array that tiles touch, with so many iterations of each loop spread beside one another."""
    count = np.ones(len(tiles))
    for terms, size in zip(array.axes, array.shape, strict=True):
        if len(terms) == 2:
            (first, step_first), (second, step_second) = terms
            common = gcd(step_first, step_second)
            a, b = (tiles[:, loop] * spread[loop].numerator // spread[loop].denominator for loop in (first, second))
            twice = np.maximum(0, b - step_first // common) * (a - step_second // common)
            count *= np.minimum(size, a * b - twice)
        elif terms:
            loop = terms[0][0]
            count *= tiles[:, loop] * float(spread[loop])
    return count


def operands_on_tree(placed: PlacedNest) -> tuple[OperandOnTree, ...]:
    """Every operand of a placed nest with its memories."""
    return tuple(
        OperandOnTree(placed, number, placed.chain(number), placed.spread(number))
        for number in range(len(placed.operands))
    )

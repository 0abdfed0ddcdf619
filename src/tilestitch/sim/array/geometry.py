"""The sizes of what a mapping moves: tiles, passes of the register files, boxes of words, and their places."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from tilestitch.base.units import ceil_div
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.hardware.microarchitecture import Microarchitecture
from tilestitch.ir.loop_nest import LoopMapping, LoopNest, LoopOperand


@dataclass(frozen=True)
class Geometry:
    """One mapping of a nest on an array, in words, registers and elements.

    Operands go by number: those that are read, then the one that is written. A *class* of passes is how many iterations
    of every loop a pass has: with ragged factors the last pass of a loop is smaller; bit b of a class says that the
    b-th of `ragged` loops is at its last pass. Elements are numbered by their place in the loops that are spread, the
    last loop fastest.
    """

    nest: LoopNest
    mapping: LoopMapping
    micro: Microarchitecture
    element_bits: tuple[int, ...]  # by operand

    @classmethod
    def of(cls, nest: LoopNest, mapping: LoopMapping, machine: ArrayMachine) -> "Geometry":
        bits = []
        for number, operand in enumerate(nest.operands):
            role = 2 if operand is nest.write else min(number, 1)
            bits.append(operand.element_bits if machine.operand_bits is None else machine.operand_bits[role])
        return cls(nest, mapping, machine.micro, tuple(bits))

    @property
    def elements(self) -> int:
        return prod(self.mapping.spatial)

    @property
    def pass_sizes(self) -> tuple[int, ...]:
        """Iterations of each loop in a whole pass."""
        return _least(self.mapping.pass_tile, self.nest.extents)

    @property
    def tile_sizes(self) -> tuple[int, ...]:
        """Iterations of each loop in a whole tile of the scratchpad."""
        return _least(self.mapping.scratchpad_tile, self.nest.extents)

    @property
    def own_sizes(self) -> tuple[int, ...]:
        """Iterations of each loop that one element does in a whole pass."""
        return _least(self.mapping.rf, self.nest.extents)

    @property
    def last_pass_sizes(self) -> tuple[int, ...]:
        """Iterations of each loop in its last pass."""
        pairs = zip(self.nest.extents, self.mapping.pass_tile, strict=True)
        return tuple((extent - 1) % size + 1 for extent, size in pairs)

    @property
    def last_tile_sizes(self) -> tuple[int, ...]:
        """Iterations of each loop in its last tile of the scratchpad."""
        pairs = zip(self.nest.extents, self.mapping.scratchpad_tile, strict=True)
        return tuple((extent - 1) % size + 1 for extent, size in pairs)

    @property
    def ragged(self) -> tuple[int, ...]:
        """Loops whose last pass is smaller than the others."""
        sizes = enumerate(zip(self.pass_sizes, self.last_pass_sizes, strict=True))
        return tuple(loop for loop, (whole, last) in sizes if last < whole)

    def class_sizes(self, number: int) -> tuple[int, ...]:
        """Iterations of each loop in a pass of a class."""
        sizes = list(self.pass_sizes)
        for bit, loop in enumerate(self.ragged):
            if number >> bit & 1:
                sizes[loop] = self.last_pass_sizes[loop]
        return tuple(sizes)

    @property
    def passes_per_tile(self) -> int:
        """Of the largest tile of the scratchpad."""
        return prod(self.mapping.spm)

    @property
    def register_words(self) -> tuple[int, ...]:
        """Words of each operand in one register file, one buffer of it."""
        return tuple(prod(operand.extents(self.own_sizes)) for operand in self.nest.operands)

    @property
    def register_bytes(self) -> int:
        return sum(ceil_div(w * b, 8) for w, b in zip(self.register_words, self.element_bits, strict=True))

    @property
    def tile_words(self) -> tuple[int, ...]:
        """Words of each operand's whole tile in the scratchpad."""
        return tuple(prod(operand.extents(self.tile_sizes)) for operand in self.nest.operands)

    @property
    def tile_bytes(self) -> tuple[int, ...]:
        return tuple(ceil_div(w * b, 8) for w, b in zip(self.tile_words, self.element_bits, strict=True))

    @property
    def most_instructions(self) -> int:
        """Of one element in one pass."""
        return prod(self.own_sizes)

    @property
    def reduces(self) -> bool:
        """Whether several elements work on the same result."""
        return any(n > 1 and loop not in self.nest.write.indexed_by for loop, n in enumerate(self.mapping.spatial))

    @property
    def summed(self) -> tuple[int, ...]:
        """The loops over which results are sums."""
        return tuple(loop for loop in range(len(self.nest.loops)) if loop not in self.nest.write.indexed_by)

    def places(self) -> np.ndarray:
        """(elements, loops): where each element is in the loops that are spread."""
        grid = np.indices(self.mapping.spatial).reshape(len(self.nest.loops), -1)
        return grid.T.astype(np.int64)

    def own_of(self, sizes: Sequence[int]) -> np.ndarray:
        """(elements, loops): iterations of each element in a pass of so many; 0 where it has none of some loop."""
        rf = np.array(self.mapping.rf)
        return np.clip(np.array(sizes) - self.places() * rf, 0, rf)


def _least(one: Sequence[int], other: Sequence[int]) -> tuple[int, ...]:
    return tuple(map(min, one, other))


def strides_of(extents: Sequence[int]) -> np.ndarray:
    """Of an array in row-major order, in words."""
    return np.array([prod(extents[axis + 1 :]) for axis in range(len(extents))], np.int64)


def coefficients(operand: LoopOperand, strides: np.ndarray, loops: int) -> np.ndarray:
    """By how many words one iteration of each loop moves within an array of these strides."""
    found = np.zeros(loops, np.int64)
    for terms, stride in zip(operand.axes, strides, strict=True):
        for loop, step in terms:
            found[loop] += step * stride
    return found


def box_of(operand: LoopOperand, sizes: np.ndarray) -> np.ndarray:
    """(n, axes): extents of the boxes that n tiles of so many iterations (n, loops) touch."""
    found = np.ones((len(sizes), len(operand.axes)), np.int64)
    for axis, terms in enumerate(operand.axes):
        for loop, step in terms:
            found[:, axis] += step * (sizes[:, loop] - 1)
    return found


def start_of(operand: LoopOperand, first: np.ndarray) -> np.ndarray:
    """(n, axes): the least index along each axis of tiles that begin at iterations (n, loops)."""
    found = np.zeros((len(first), len(operand.axes)), np.int64)
    for axis, terms in enumerate(operand.axes):
        for loop, step in terms:
            found[:, axis] += step * first[:, loop]
    return found

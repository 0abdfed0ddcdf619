"""Random mappings that fit a machine: any of them may come, in any order of its loops."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from random import Random

from tilestitch.base.units import ceil_div
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.ir.loop_nest import LoopMapping, LoopNest
from tilestitch.mapping.factors import Factors


@dataclass(frozen=True)
class Draw:
    """Draws mappings of one nest on one machine.

    Level by level, from space over the register files to the scratchpad, the loops come in a random order, and each
    gets any factor with which the level still fits, all with the same chance. So every tiling that fits has a chance,
    though not all the same: it would take the count of all to draw so.
    """

    nest: LoopNest
    machine: ArrayMachine
    factors: Factors

    @classmethod
    def of(cls, nest: LoopNest, machine: ArrayMachine, *, ragged: bool) -> "Draw":
        return cls(nest, machine, Factors.of(nest, ragged=ragged))

    def mappings(self, rng: Random) -> Iterator[LoopMapping]:
        """Endless."""
        loops = len(self.nest.loops)
        while True:
            spatial = self._level(rng, self.nest.extents, lambda level: prod(level) <= self.machine.elements)
            left = _left(self.nest.extents, spatial)
            rf = self._level(rng, left, self._fits_registers)
            passes = tuple(map(prod, zip(rf, spatial, strict=True)))
            left = _left(left, rf)
            spm = self._level(rng, left, lambda level, of=passes: self._fits_scratchpad(level, of))
            dram = _left(left, spm)
            yield LoopMapping(
                dram, spm, rf, spatial, tuple(rng.sample(range(loops), loops)), tuple(rng.sample(range(loops), loops))
            )

    def _level(self, rng: Random, left: Sequence[int], fits: Callable[[tuple[int, ...]], bool]) -> tuple[int, ...]:
        """Factors of what is left of every loop; larger ones never fit where smaller do not."""
        found = [1] * len(left)
        for loop in rng.sample(range(len(left)), len(left)):
            row = self.factors.row[left[loop]]
            options = self.factors.items[self.factors.first[row] : self.factors.first[row + 1]]
            fitting, too_many = 1, len(options)
            while fitting < too_many:  # the first `fitting` options fit
                found[loop] = int(options[(fitting + too_many) // 2])
                if fits(tuple(found)):
                    fitting = (fitting + too_many) // 2 + 1
                else:
                    too_many = (fitting + too_many) // 2
            found[loop] = int(options[rng.randrange(fitting)])
        return tuple(found)

    def _fits_registers(self, rf: tuple[int, ...]) -> bool:
        return sum(self._bytes(rf)) <= self.machine.register_bytes

    def _fits_scratchpad(self, spm: tuple[int, ...], passes: tuple[int, ...]) -> bool:
        sizes = self._bytes([many * size for many, size in zip(spm, passes, strict=True)])
        return sum(ceil_div(size, self.machine.bank_bytes) for size in sizes) <= self.machine.banks

    def _bytes(self, tile: Sequence[int]) -> list[int]:
        """Of every operand."""
        whole = tuple(map(min, tile, self.nest.extents))
        found = []
        for number, operand in enumerate(self.nest.operands):
            role = 2 if operand is self.nest.write else min(number, 1)
            bits = operand.element_bits if self.machine.operand_bits is None else self.machine.operand_bits[role]
            found.append(ceil_div(prod(operand.extents(whole)) * bits, 8))
        return found


def _left(extents: Sequence[int], factors: Sequence[int]) -> tuple[int, ...]:
    return tuple(map(ceil_div, extents, factors))

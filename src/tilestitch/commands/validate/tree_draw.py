"""Random mappings on machine trees: what is spread, the order of the loops, and where every memory holds its tiles."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from random import Random

import numpy as np

from tilestitch.base.units import ceil_div
from tilestitch.hardware.tree import TreeMemory
from tilestitch.mapping.tree.chain import TreeMapping
from tilestitch.mapping.tree.crossings import OperandOnTree, Tiles, operands_on_tree
from tilestitch.mapping.tree.placed import PlacedNest, Unrolled
from tilestitch.mapping.tree.rooms import stored


@dataclass(frozen=True, slots=True)
class TreeDraw:
    """A nest of which nothing is spread yet; `only` has of some axes the loops that they take.

    Ragged ones spread along every axis one factor more, which need not divide.
    """

    bare: PlacedNest
    only: Mapping[str, Sequence[str]]
    is_ragged: bool = False

    def mappings(self, rng: Random) -> Iterator[tuple[PlacedNest, TreeMapping | None]]:
        """Without end; with no mapping where what was drawn first leaves no room for the rest."""
        while True:
            placed = self._spread(rng)
            yield placed, drawn_mapping(placed, rng)

    def _spread(self, rng: Random) -> PlacedNest:
        """Along every axis the loops that it takes in a random order, each by a random factor that divides and fits.

        Then, where they may be ragged, one of the others by a random factor for which there is room.
        """
        left, found = list(self.bare.nest.extents), list[Unrolled]()
        names = [loop.name for loop in self.bare.nest.loops]
        rooms: list[tuple[str, list[int], int]] = []
        for axis in self.bare.tree.axes:
            room = axis.size
            allowed = [at for at, name in enumerate(names) if name in self.only.get(axis.name, axis.loops or names)]
            rng.shuffle(allowed)
            for loop in allowed:
                factor = rng.choice([one for one in range(1, room + 1) if left[loop] % one == 0])
                if factor > 1:
                    found.append(Unrolled(axis.name, loop, Fraction(factor)))
                    left[loop] //= factor
                    room //= factor
            rooms.append((axis.name, allowed, room))
        if self.is_ragged:
            for axis, allowed, room in rooms:
                taken = {one.loop for one in found if one.axis == axis or one.factor.denominator > 1}
                free = [loop for loop in allowed if loop not in taken and left[loop] > 1]
                if room > 1 and free:
                    loop = rng.choice(free)
                    steps = ceil_div(left[loop], rng.randint(2, room))
                    found.append(Unrolled(axis, loop, Fraction(left[loop], steps)))
                    left[loop] = steps
        return replace(self.bare, unrolled=tuple(found), slides=())


def drawn_mapping(placed: PlacedNest, rng: Random) -> TreeMapping | None:
    """Prime loops in a random order; memory by memory from the innermost every operand any place where it still fits.

    The memory of even storage has one place for all. None where nothing fits behind what was drawn before.
    """
    factors = [(loop, prime) for loop, steps in enumerate(placed.steps) for prime in _primes(steps)]
    rng.shuffle(factors)
    loops: list[tuple[int, int]] = []
    for loop, factor in factors:
        if loops and loops[-1][0] == loop:
            factor *= loops.pop()[1]
        loops.append((loop, factor))
    tiles = [_tile(loops[:at], len(placed.steps)) for at in range(len(loops) + 1)]
    cuts: list[list[int]] = [[] for _ in placed.operands]
    for memory in placed.tree.memories:
        if not _place(placed, memory, tiles, cuts, rng):
            return None
    return TreeMapping(tuple(loops), tuple(map(tuple, cuts)))


def _place(placed: PlacedNest, memory: TreeMemory, tiles: Sequence[Tiles], cuts: list[list[int]], rng: Random) -> bool:
    """Choose the places of one memory; false where there is no room."""
    here = [one for one in operands_on_tree(placed) if memory in one.memories]
    outer = [one for one in here if one.memories[-1] is memory]
    inner = [one for one in here if one.memories[-1] is not memory]
    room = float(memory.size_bits) - sum(_bits(one, memory, tiles, cuts, len(tiles) - 1) for one in outer)
    for one in outer:
        cuts[one.number].append(len(tiles) - 1)
    if memory.has_even_storage and len(inner) > 1:
        first = max(_last(cuts, one) for one in inner)
        together = [
            at for at in range(first, len(tiles)) if sum(_bits(one, memory, tiles, cuts, at) for one in inner) <= room
        ]
        at = rng.choice(together) if together else -1
        for one in inner:
            cuts[one.number].append(at)
        return room >= 0 and at >= 0
    rng.shuffle(inner)
    for number, one in enumerate(inner):
        kept = sum(_bits(other, memory, tiles, cuts, _last(cuts, other)) for other in inner[number + 1 :])
        places = [
            at for at in range(_last(cuts, one), len(tiles)) if _bits(one, memory, tiles, cuts, at) + kept <= room
        ]
        if not places:
            return False
        at = rng.choice(places)
        room -= _bits(one, memory, tiles, cuts, at)
        cuts[one.number].append(at)
    return room >= 0


def _last(cuts: list[list[int]], operand: OperandOnTree) -> int:
    return cuts[operand.number][-1] if cuts[operand.number] else 0


def _bits(operand: OperandOnTree, memory: TreeMemory, tiles: Sequence[Tiles], cuts: list[list[int]], at: int) -> float:
    """What a memory needs for the tile inside so many loops."""
    level = operand.memories.index(memory)
    inside = cuts[operand.number][level - 1] if level > 0 else 0
    return stored(operand, level, tiles[at], tiles[inside])


def _tile(loops: Sequence[tuple[int, int]], count: int) -> Tiles:
    return np.array([[prod(factor for loop, factor in loops if loop == at) for at in range(count)]], np.int64)


def _primes(number: int) -> list[int]:
    found, prime = [], 2
    while number > 1:
        if number % prime == 0:
            found.append(prime)
            number //= prime
        else:
            prime += 1
    return found

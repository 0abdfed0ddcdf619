"""The lattice of tiles: of every loop the divisors of its steps, ordered by divisibility."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Lattice:
    """Tiles as exponents of primes: an axis for every prime of every loop, so that tiles divide where indices grow.

    Points are numbered row-major; every step from a point to a larger one along an axis multiplies one loop by one
    prime.
    """

    steps: tuple[int, ...]  # of each loop
    primes: tuple[tuple[int, int], ...]  # loop and prime, of every axis
    shape: tuple[int, ...]

    @property
    def points(self) -> int:
        return prod(self.shape)

    def tiles(self) -> NDArray[np.int64]:
        """Iterations of each loop at every point: an array of points x loops."""
        found = np.ones((*self.shape, len(self.steps)), np.int64)
        for axis, ((loop, prime), size) in enumerate(zip(self.primes, self.shape, strict=False)):
            powers = np.array([prime**power for power in range(size)], np.int64)
            found[..., loop] *= powers.reshape([-1 if at == axis else 1 for at in range(len(self.shape))])
        return found.reshape(self.points, len(self.steps))

    def point(self, tile: Sequence[int]) -> int:
        """The point of a tile that divides the steps; of a loop that says 0, all steps."""
        whole = [some or all_ for some, all_ in zip(tile, self.steps, strict=True)]
        return int(self.points_of(np.array([whole], np.int64))[0])

    def points_of(self, tiles: NDArray[np.int64]) -> NDArray[np.int64]:
        """The points of tiles that divide the steps, a row each."""
        found = np.zeros(len(tiles), np.int64)
        for (loop, prime), size in zip(self.primes, self.shape, strict=False):
            power, left = np.zeros(len(tiles), np.int64), tiles[:, loop].copy()
            for _ in range(size - 1):
                divides = left % prime == 0
                power += divides
                left = np.where(divides, left // prime, left)
            found = found * size + power
        return found


def lattice_of(steps: tuple[int, ...]) -> Lattice:
    """The lattice of all tiles that divide these steps."""
    axes = [(loop, prime, power) for loop, count in enumerate(steps) for prime, power in _factored(count)]
    return Lattice(
        steps, tuple((loop, prime) for loop, prime, _ in axes), tuple(power + 1 for _, _, power in axes) or (1,)
    )


def points_of(steps: Iterable[int]) -> int:
    """How many points the lattice of these steps has."""
    return prod(power + 1 for count in steps for _, power in _factored(count))


@cache
def _factored(number: int) -> tuple[tuple[int, int], ...]:
    """Primes of a number with their exponents."""
    found: list[tuple[int, int]] = []
    prime = 2
    while prime * prime <= number:
        power = 0
        while number % prime == 0:
            number, power = number // prime, power + 1
        if power:
            found.append((prime, power))
        prime += 1
    return (*found, (number, 1)) if number > 1 else tuple(found)

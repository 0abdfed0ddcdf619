"""What the certificate says of a placement beside its best mapping: its root bound, and how many chains there are.

Both go over the tables of the search from the innermost cuts outwards, and look at one operand after another: rooms of
several operands in one memory are not added up.
"""

from collections.abc import Sequence
from math import gcd, prod
from typing import NamedTuple

import numpy as np

from tilestitch.base.errors import TooLarge
from tilestitch.base.jit import compiled, tiered
from tilestitch.mapping.tree.labels import NEVER
from tilestitch.mapping.tree.tables import Cut, Tables

MOST_STATES = 2**26  # points times which cuts are placed: 8 bytes each for every operand
_LARGEST_MODULUS = 2**62 - 1  # two numbers below it are added in 64 bits


class _Places(NamedTuple):
    """Where the cuts of all operands can be."""

    possible: np.ndarray  # by cut, whether partial sums arrive, and point
    after: np.ndarray  # by cut and point: whether partial sums go on from there
    first: np.ndarray  # by operand: its first cut; one more at the end
    write: int  # the operand that is the result; -1 where it moves nothing
    starts_partial: int
    strides: np.ndarray  # by axis of the lattice
    shape: np.ndarray


def moving_cuts(tables: Tables) -> list[tuple[Cut, ...]]:
    """The cuts of the operands that move anything, in the order of the operands."""
    return [cuts for array, cuts in zip(tables.placed.operands, tables.cuts, strict=True) if array.element_bits > 0]


def root_bound(tables: Tables) -> int | None:
    """What no chain costs less than if no memory were shared; None where there is no chain even so."""
    shape = tables.lattice.shape
    total = 0
    for cuts in moving_cuts(tables):
        is_write = cuts[0].operand == len(tables.placed.nest.reads)
        starts = int(is_write and tables.partial_from_units)
        spent = np.full((2, tables.lattice.points), NEVER, np.int64)
        spent[starts] = 0
        for cut in cuts:
            here = np.minimum(spent + cut.cost_fj, NEVER)
            best = here.min(axis=0)
            spent = np.stack([np.where(cut.is_partial, NEVER, best), np.where(cut.is_partial, best, NEVER)])
            for axis in range(1, len(shape) + 1):
                spent = np.minimum.accumulate(spent.reshape(2, *shape), axis=axis).reshape(2, -1)
        least = int(spent.min())
        if least >= NEVER:
            return None
        total += least
    return total


def chain_count(tables: Tables) -> int:
    """How many chains there are if no memory is shared: all ways to give every cut a point, in one order of points.

    Raises `TooLarge` where there are too many states to count in.
    """
    states = 2 * tables.lattice.points * prod(len(cuts) + 1 for cuts in moving_cuts(tables))
    if states > MOST_STATES:
        raise TooLarge(f"{tables.placed.nest.name}: {states:,} states; chains are counted for at most {MOST_STATES:,}")
    places = _places(moving_cuts(tables), tables)
    most = prod(int(one.any(axis=0).sum()) for one in places.possible)
    count, known = 0, 1
    for modulus in coprime_numbers(most):
        rest = int(_chains_modulo(places, modulus))
        count += known * ((rest - count) * pow(known, -1, modulus) % modulus)  # Chinese remainders
        known *= modulus
    return count


def coprime_numbers(product_above: int) -> list[int]:
    """Numbers below 2^62 without common divisors, the largest first, until their product is above a number."""
    found: list[int] = []
    number = _LARGEST_MODULUS
    while prod(found) <= product_above:
        if all(gcd(number, one) == 1 for one in found):
            found.append(number)
        number -= 1
    return found


def _places(operands: Sequence[Sequence[Cut]], tables: Tables) -> _Places:
    cuts = [cut for one in operands for cut in one]
    counts = [len(one) for one in operands]
    shape = tables.lattice.shape
    last = len(tables.placed.nest.reads)
    return _Places(
        np.stack([cut.cost_fj < NEVER for cut in cuts]),
        np.stack([cut.is_partial for cut in cuts]),
        np.array([sum(counts[:at]) for at in range(len(counts) + 1)], np.int64),
        len(operands) - 1 if cuts[-1].operand == last else -1,
        int(tables.partial_from_units),
        np.array([prod(shape[at + 1 :]) for at in range(len(shape))], np.int64),
        np.array(shape, np.int64),
    )


@tiered
def _sum_of(one: int, other: int, modulus: int) -> int:
    total = one + other
    return total - modulus if total >= modulus else total


@compiled
def _chains_modulo(places: _Places, modulus: int) -> int:
    """The count modulo a number below 2^62; a point's cuts are placed in the order of operands, so each chain once.

    `ways[k]` counts what ends at smaller points, or at this one with cuts of the operands up to k.
    """
    operands, points = len(places.first) - 1, places.possible.shape[2]
    units = np.ones(operands + 1, np.int64)
    for operand in range(operands):
        units[operand + 1] = units[operand] * (places.first[operand + 1] - places.first[operand] + 1)
    ways = np.zeros((operands, units[operands], 2, points), np.int64)
    ended, smaller = np.empty(points, np.int64), np.empty(points, np.int64)
    total = 0
    for state in range(units[operands]):
        for side in range(2):
            ended[:] = 0
            for operand in range(operands):
                placed = state % units[operand + 1] // units[operand]
                if placed > 0:
                    cut, before = places.first[operand] + placed - 1, state - units[operand]
                    for arriving in range(2):
                        if operand != places.write and arriving != side:
                            continue
                        for point in range(points):
                            if operand == places.write and places.after[cut, point] != (side == 1):
                                continue
                            if places.possible[cut, arriving, point]:
                                ended[point] = _sum_of(ended[point], ways[operand, before, arriving, point], modulus)
                ways[operand, state, side] = ended
            smaller[:] = ended
            for axis in range(len(places.shape)):
                stride = int(places.strides[axis])
                for point in range(points):
                    if point // stride % places.shape[axis] > 0:
                        smaller[point] = _sum_of(smaller[point], smaller[point - stride], modulus)
            starts = 1 if state == 0 and side == places.starts_partial else 0
            for point in range(points):
                inside = _sum_of(_sum_of(smaller[point], modulus - ended[point], modulus), starts, modulus)
                for operand in range(operands):
                    ways[operand, state, side, point] = _sum_of(ways[operand, state, side, point], inside, modulus)
            if state == units[operands] - 1:
                for point in range(points):
                    total = _sum_of(total, ended[point], modulus)
    return total

"""Every choice of what a small nest spreads over the axes of a tree, by its definition alone."""

import itertools
from dataclasses import replace
from fractions import Fraction
from math import ceil, prod

from tilestitch.mapping.tree.placed import CutLimit, PlacedNest, Unrolled


def all_placements(bare: PlacedNest, ragged: str, least_use=0.0):
    """One placement for every matrix of factors that is allowed, those that cost the same included."""
    extents, axes = bare.nest.extents, bare.tree.axes
    names = [loop.name for loop in bare.nest.loops]
    rows = []
    for axis in axes:
        ranges = [
            range(1, min(extent, axis.size) + 1 if name in (axis.loops or names) else 2)
            for name, extent in zip(names, extents, strict=True)
        ]
        rows.append([row for row in itertools.product(*ranges) if prod(row) <= axis.size])
    for matrix in itertools.product(*rows):
        found = _averages(matrix, extents, [axis.size for axis in axes], ragged)
        if found is None:
            continue
        if prod(prod(row) for row in found) < least_use * bare.tree.units:
            continue
        yield replace(
            bare,
            unrolled=tuple(
                Unrolled(axis.name, loop, factor)
                for axis, row in zip(axes, found, strict=True)
                for loop, factor in enumerate(row)
                if factor != 1
            ),
        )


def _averages(matrix, extents, sizes, ragged):
    """The factors with fractions for ragged ones, or nothing where the choice is not allowed."""
    found = [[Fraction(factor) for factor in row] for row in matrix]
    filled = []
    for loop, extent in enumerate(extents):
        factors = [row[loop] for row in matrix]
        used = prod(factors)
        if used > extent:
            return None
        if extent % used == 0:
            continue
        at = factors.index(max(factors))
        others = used // factors[at]
        if ragged == "none" or extent % others:
            return None
        larger = factors[at] + 1
        beside = prod(matrix[at]) // factors[at]
        if ragged == "filling" and (larger * beside <= sizes[at] and larger <= extent // others):
            return None
        filled.append(at)
        found[at][loop] = Fraction(extent, ceil(extent / used) * others)
    if ragged == "filling" and len(set(filled)) < len(filled):
        return None
    return found


def with_limits(placed: PlacedNest, seed) -> PlacedNest:
    """The same with up to three random limits of what memories hold."""
    limits = []
    for _ in range(seed.choice((1, 2, 3))):
        memory = seed.choice(placed.tree.memories)
        tile = []
        if seed.random() < 0.7:
            least = seed.choice((1, 1, 2))
            tile.append((seed.randrange(len(placed.nest.loops)), least, max(least, seed.choice((1, 2, 3)))))
        share = Fraction(seed.choice((1, 2, 3, 4)), 4)
        limits.append(CutLimit(memory.name, seed.choice(memory.operands), share, tuple(tile)))
    return replace(placed, limits=tuple(limits))


def with_axes(placed: PlacedNest, seed) -> PlacedNest:
    """The nest of a random case with nothing spread, on axes of other sizes, some of which take only some loops."""
    names = [loop.name for loop in placed.nest.loops]
    axes = tuple(
        replace(axis, size=seed.choice((2, 3, 4)), loops=tuple(seed.sample(names, 2)) if seed.random() < 0.3 else ())
        for axis in placed.tree.axes
    )
    return replace(placed, unrolled=(), tree=replace(placed.tree, axes=axes))

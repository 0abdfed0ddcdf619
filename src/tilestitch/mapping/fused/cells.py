"""How the operators of a chain may be spread alike over cells: the parts of a machine that repeat homes.

What one cell makes of an intermediate is all that it reads of it. So over the axes that repeat cells every operator
runs the same loops beside one another, with the same factors, and only such as go through all operators.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import prod

from tilestitch.ir.loop_nest import LoopNest
from tilestitch.mapping.fused.chain import Cells, Chain, Threads
from tilestitch.mapping.tree.choices import SpatialSpace, alike_axes, factors_along
from tilestitch.mapping.tree.placed import PlacedNest

Factors = tuple[int, ...]  # of each thread


def all_cells(chain: Chain, axes: Sequence[str], spaces: Sequence[SpatialSpace | None]) -> Iterator[Cells]:
    """Every way to spread operators over some axes; of those in which nothing but names of axes differs the first."""
    threads = chain.threads(0, len(chain.operators) - 1)
    extents = [chain.operators[0].nest.extents[thread[0]] for thread in threads]
    known: set[tuple[Factors, ...]] = set()
    twins = _twins(chain, axes)
    for chosen in product(*(_options(chain, axis, threads, spaces) for axis in axes)):
        if any(extent % prod(row[at] for row in chosen) for at, extent in enumerate(extents)):
            continue
        totals = tuple(
            tuple(prod(chosen[at][thread] for at in same) for thread in range(len(threads))) for same in twins
        )
        if totals in known:
            continue
        known.add(totals)
        spread = [
            (axis, thread, factor)
            for axis, row in zip(axes, chosen, strict=True)
            for thread, factor in zip(threads, row, strict=True)
            if factor > 1
        ]
        yield Cells(tuple(axes), tuple(spread))


def space_in_cells(space: SpatialSpace | None, nest: LoopNest, cells: Cells, number: int) -> SpatialSpace | None:
    """What else an operator may spread, with its factors over cells given."""
    if space is None or not cells.axes:
        return space
    given = {(axis, loop.name): 1 for axis in cells.axes for loop in nest.loops}
    given |= {(axis, nest.loops[thread[number]].name): factor for axis, thread, factor in cells.spread}
    return replace(space, given={**space.given, **given})


def _options(chain: Chain, axis: str, threads: Threads, spaces: Sequence[SpatialSpace | None]) -> list[Factors]:
    """The factors of threads along an axis that every operator may have, where it spreads nothing else."""
    each: list[set[Factors]] = []
    for number, (placed, space) in enumerate(zip(chain.operators, spaces, strict=True)):
        loops = [thread[number] for thread in threads]
        rest = [loop for loop in range(len(placed.nest.loops)) if loop not in loops]
        rows = _rows(placed, axis, space)
        each.append({tuple(row[loop] for loop in loops) for row in rows if all(row[loop] == 1 for loop in rest)})
    return sorted(set.intersection(*each))


def _rows(placed: PlacedNest, axis: str, space: SpatialSpace | None) -> list[Factors]:
    """The factors of all loops that an operator may have along an axis, those that are whole numbers."""
    if space is not None:
        number = next(at for at, one in enumerate(placed.tree.axes) if one.name == axis)
        return [tuple(row) for row in factors_along(placed, number, space).tolist()]
    factors = placed.spread_along(axis)
    return [tuple(map(int, factors))] if all(one.denominator == 1 for one in factors) else []


def _twins(chain: Chain, axes: Sequence[str]) -> list[list[int]]:
    """Of these axes those together that no operator tells apart."""
    found: dict[tuple[int, ...], list[int]] = {}
    kinds = [
        {chain.tree.axes[at].name: kind for kind, alike in enumerate(alike_axes(placed)) for at in alike}
        for placed in chain.operators
    ]
    for at, axis in enumerate(axes):
        found.setdefault(tuple(kind[axis] for kind in kinds), []).append(at)
    return list(found.values())

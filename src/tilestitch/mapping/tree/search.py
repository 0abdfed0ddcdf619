"""The mapping of a nest on a tree that costs the least energy, by exhaustive search of the lattice of cuts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, prod

import numpy as np
from numpy.typing import NDArray

from tilestitch.base.errors import DoesNotFit, TooLarge
from tilestitch.mapping.tree import labels
from tilestitch.mapping.tree.chain import TreeMapping, TreePrice, price
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.tables import FEMTO, Cut, Sums, Tables, tables_of

MOST_STATES = 2**29  # tiles times which cuts are placed: 4 bytes each
MOST_LABELS = 20_000_000
FEW_LABELS = 200_000  # enough for some mapping, where what is left counts more than once


@dataclass(frozen=True, slots=True)
class FoundMapping:
    """A mapping with its price, and below what no mapping of the same nest on the same tree comes."""

    placed: PlacedNest
    sums: Sums
    mapping: TreeMapping
    price: TreePrice
    bound_pj: float
    is_proven: bool  # nothing costs less, to a femtojoule for each cut
    labels: int  # that were looked at
    points: int  # of the lattice


def best_mapping(placed: PlacedNest, sums: Sums = Sums.FULL, most_labels: int = MOST_LABELS) -> FoundMapping:
    """The mapping of the least energy, proven unless there are more labels than `most_labels`.

    Raises `DoesNotFit` where no mapping fits the memories.
    """
    tables = tables_of(placed, sums)
    problem = _problem(tables)
    if _states(problem) > MOST_STATES:
        raise TooLarge(
            f"{placed.nest.name}: {_states(problem):,} states of the search; at most {MOST_STATES:,} are kept"
        )
    ended, value, count, chain = labels.least_chain(problem, 1, most_labels)
    bound = int(value)
    if ended == labels.STOPPED:
        for weight in (2, 8, 64):
            found, _, more, chain = labels.least_chain(problem, weight, max(most_labels, FEW_LABELS))
            count += more
            if found == labels.FOUND:
                break
        else:
            raise TooLarge(f"{placed.nest.name}: no mapping among {count:,} labels; allow more")
    if ended == labels.NOTHING:
        raise DoesNotFit(f"{placed.nest.name}: {_too_large(tables)}")
    mapping = _mapping_of(tables, _numbered(tables), chain)
    priced = price(placed, mapping)
    proven = ended == labels.FOUND
    bound_pj = priced.energy_pj if proven else (bound + tables.fixed_fj) / FEMTO + priced.mac_pj
    return FoundMapping(placed, sums, mapping, priced, bound_pj, proven, int(count), tables.lattice.points)


def best_of(placements: Sequence[PlacedNest], sums: Sums = Sums.FULL, most_labels: int = MOST_LABELS) -> FoundMapping:
    """The mapping of the least energy of all of several placements of a nest.

    Those whose root bound is not below the best known are not searched. Raises `DoesNotFit` where none fits.
    """
    if len(placements) == 1:
        return best_mapping(placements[0], sums, most_labels)
    bounds = [_root_bound_pj(placed, sums) for placed in placements]
    best: FoundMapping | None = None
    least_bound, count = inf, 0
    for number in sorted(range(len(placements)), key=lambda at: (bounds[at], at)):
        if bounds[number] == inf or (best is not None and bounds[number] >= best.price.energy_pj):
            break
        try:
            found = best_mapping(placements[number], sums, most_labels)
        except DoesNotFit:
            continue
        count, least_bound = count + found.labels, min(least_bound, found.bound_pj)
        if best is None or found.price.energy_pj < best.price.energy_pj:
            best = found
    if best is None:
        return best_mapping(placements[0], sums, most_labels)  # which says what does not fit
    proven = least_bound >= best.price.energy_pj
    return replace(best, bound_pj=min(least_bound, best.price.energy_pj), is_proven=proven, labels=count)


def _root_bound_pj(placed: PlacedNest, sums: Sums) -> float:
    """What no mapping of a placement costs less than: of every operand alone the least."""
    tables = tables_of(placed, sums)
    problem = _problem(tables)
    side = np.where(np.arange(problem.write + 1) == problem.write, int(problem.starts_partial), 0)
    least = problem.togo[problem.first[:-1], side, 0]
    if (least >= labels.NEVER).any():
        return inf
    return (int(least.sum()) + tables.fixed_fj) / FEMTO + placed.tree.mac_pj * placed.nest.macs


def _numbered(tables: Tables) -> list[Cut]:
    """The cuts of all operands that move anything, as the search numbers them."""
    return [
        cut
        for array, cuts in zip(tables.placed.operands, tables.cuts, strict=True)
        if array.element_bits
        for cut in cuts
    ]


def _problem(tables: Tables) -> labels.Problem:
    """The tables as the arrays that the search takes."""
    placed, shape = tables.placed, tables.lattice.shape
    numbered = _numbered(tables)
    operands = [cuts for array, cuts in zip(placed.operands, tables.cuts, strict=True) if array.element_bits]
    counts = [len(cuts) for cuts in operands]
    memories = [cut.memory for cut in numbered]
    shared = sorted({memory for memory in memories if memory is not None and memories.count(memory) > 1})
    return labels.Problem(
        cost=np.stack([cut.cost_fj for cut in numbered]),
        room=np.stack([cut.room_bits for cut in numbered]),
        after=np.stack([cut.is_partial for cut in numbered]),
        shared=np.array([shared.index(one) if one in shared else -1 for one in memories], np.int64),
        limit=np.array([placed.tree.memories[memory].size_bits * (1 + 1e-12) for memory in shared], np.float64),
        first=np.array([sum(counts[:at]) for at in range(len(counts) + 1)], np.int64),
        write=len(counts) - 1,
        togo=np.concatenate([_togo(cuts, shape) for cuts in operands]),
        strides=np.array([np.prod(shape[at + 1 :], dtype=np.int64) for at in range(len(shape))], np.int64),
        shape=np.array(shape, np.int64),
        starts_partial=tables.partial_from_units,
    )


def _states(problem: labels.Problem) -> int:
    """Places where labels may stand."""
    return 2 * problem.cost.shape[2] * prod(int(count) + 1 for count in np.diff(problem.first))


def _togo(cuts: Sequence[Cut], shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Of every cut of one operand the least that it and the later ones cost from a point on: [cut, partial, point]."""
    points = int(np.prod(shape))
    found = np.empty((len(cuts), 2, points), np.int64)
    later = np.zeros((2, points), np.int64)
    for number in range(len(cuts) - 1, -1, -1):
        cut = cuts[number]
        after = np.where(cut.is_partial, later[1], later[0])
        here = np.minimum(cut.cost_fj + after, labels.NEVER).reshape(2, *shape)
        for axis in range(1, len(shape) + 1):
            here = np.flip(np.minimum.accumulate(np.flip(here, axis), axis=axis), axis)
        later = here.reshape(2, points)
        found[number] = later
    return found


def _mapping_of(tables: Tables, numbered: Sequence[Cut], chain: NDArray[np.int64]) -> TreeMapping:
    """Loops and cuts of a chain; between two cuts loops stand in the order of the nest, primes of one together."""
    tiles = tables.lattice.tiles()
    loops: list[tuple[int, int]] = []
    cuts: list[list[int]] = [[] for _ in tables.cuts]
    tile = np.ones(len(tables.placed.steps), np.int64)
    for number, point in [*chain.tolist(), (-1, tables.lattice.points - 1)]:
        loops += [(loop, int(n)) for loop, n in enumerate(tiles[point] // tile) if n > 1]
        tile = tiles[point]
        if number >= 0 and numbered[number].memory is not None:
            cuts[numbered[number].operand].append(len(loops))
    whole = [tables.placed.chain(operand) for operand in range(len(cuts))]
    return TreeMapping(
        tuple(loops),
        tuple(tuple(one) if one else (len(loops),) * len(memories) for one, memories in zip(cuts, whole, strict=True)),
    )


def _too_large(tables: Tables) -> str:
    """Which memory is too small for an operand alone, at the tile that takes the least of it."""
    placed = tables.placed
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
                f"{memory.size_bits:,}; spread fewer of its loops inside, or take a larger memory"
            )
    return "no mapping fits the memories that operands share; take larger ones"

"""The tables of a nest on a tree as the arrays that the search takes."""

from collections.abc import Sequence
from math import prod
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tilestitch.base.jit import tiered
from tilestitch.mapping.tree import labels
from tilestitch.mapping.tree.tables import Cut, Tables

MOST_STATES = 2**29  # tiles times which cuts are placed: 4 bytes each


def cuts_by_operand(tables: Tables) -> list[tuple[Cut, ...]]:
    """The cuts of each operand that moves anything, then the place of each memory that has one."""
    operands = zip(tables.placed.operands, tables.cuts, strict=True)
    return [*(cuts for array, cuts in operands if array.element_bits), *((place,) for place in tables.places)]


def numbered(tables: Tables) -> list[Cut]:
    """The cuts of `cuts_by_operand`, as the search numbers them."""
    return [cut for cuts in cuts_by_operand(tables) for cut in cuts]


def problem_of(tables: Tables) -> labels.Problem:
    """The tables as the arrays that the search takes."""
    placed, shape = tables.placed, tables.lattice.shape
    cuts = numbered(tables)
    operands = cuts_by_operand(tables)
    counts = [len(one) for one in operands]
    memories = [cut.memory for cut in cuts]
    shared = sorted({memory for memory in memories if memory is not None and memories.count(memory) > 1})
    loops = [loop for loop, _ in tables.lattice.primes] or [0]
    return labels.Problem(
        cost=np.stack([cut.cost_fj for cut in cuts]),
        room=np.stack([cut.room_bits for cut in cuts]),
        after=np.stack([cut.is_partial for cut in cuts]),
        shared=np.array([shared.index(one) if one in shared else -1 for one in memories], np.int64),
        limit=np.array([placed.tree.memories[memory].size_bits * (1 + 1e-12) for memory in shared], np.float64),
        first=np.array([sum(counts[:at]) for at in range(len(counts) + 1)], np.int64),
        write=len(counts) - len(tables.places) - 1,
        togo=np.concatenate([least_from(one, [cut.cost_fj for cut in one], shape) for one in operands]),
        strides=np.array([np.prod(shape[at + 1 :], dtype=np.int64) for at in range(len(shape))], np.int64),
        shape=np.array(shape, np.int64),
        starts_partial=tables.partial_from_units,
        is_restricted=bool(tables.places or tables.placed.slides or tables.placed.order),
        free=np.array(
            [[cut.after_loops is None or loop in cut.after_loops for loop in loops] for cut in cuts], np.bool_
        ),
        place=np.array([_place_of(tables, cut, len(counts)) for cut in cuts], np.int64),
        follows=np.array([[_follows(tables, cut, one[0]) for one in operands] for cut in cuts], np.bool_),
        alone=np.array([[not _moves(tables, one[0], loop) for loop in loops] for one in operands], np.bool_),
        allowed=tables.allowed,
        ceiling=labels.NEVER,
    )


def _place_of(tables: Tables, cut: Cut, chains: int) -> int:
    """Which chain is the place of a cut's memory; none of the outermost memory of an operand."""
    places = [place.place_of for place in tables.places]
    if cut.memory not in places or cut.crossing is None:
        return -1
    return chains - len(places) + places.index(cut.memory)


def _follows(tables: Tables, cut: Cut, other: Cut) -> bool:
    """Whether a cut comes only after a place: of its memory, or of a memory inside it that holds the same operand."""
    memories = tables.placed.tree.memories
    if other.place_of is None:
        return False
    if cut.place_of is None:
        return cut.crossing is not None and cut.memory == other.place_of
    inner, outer = memories[other.place_of], memories[cut.place_of]
    chains = (tables.placed.chain(number) for number in range(len(tables.placed.operands)))
    return any(inner in chain and outer in chain[chain.index(inner) + 1 : -1] for chain in chains)


def _moves(tables: Tables, cut: Cut, loop: int) -> bool:
    return cut.place_of is None and loop in tables.placed.operands[cut.operand].indexed_by


def states_of(problem: labels.Problem) -> int:
    """Places where labels may stand."""
    return 2 * problem.cost.shape[2] * prod(int(count) + 1 for count in np.diff(problem.first))


class Passing(Protocol):
    """A cut, at every point, as what is behind it depends on it."""

    @property
    def is_partial(self) -> NDArray[np.bool_]:
        """Whether partial sums go on from there."""
        ...


def least_from(
    cuts: Sequence[Passing], costs: Sequence[NDArray[np.int64]] | NDArray[np.int64], shape: tuple[int, ...]
) -> NDArray[np.int64]:
    """Of every cut of one operand the least that it and the later ones cost from a point on: [cut, partial, point]."""
    partial = np.stack([cut.is_partial for cut in cuts])
    return _least_from(np.asarray(costs), partial, np.array(shape, np.int64))


@tiered
def _least_from(costs: np.ndarray, partial: np.ndarray, shape: np.ndarray) -> np.ndarray:
    """`costs` are [cut, partial, point], and `partial` says of [cut, point] whether partial sums go on."""
    cuts, _, points = costs.shape
    found = np.empty((cuts, 2, points), np.int64)
    for cut in range(cuts - 1, -1, -1):
        for side in range(2):
            here = found[cut, side]
            for point in range(points):
                after = found[cut + 1, 1 if partial[cut, point] else 0, point] if cut + 1 < cuts else 0
                here[point] = min(costs[cut, side, point] + after, labels.NEVER)
            stride = points
            for size in shape:
                block, stride = stride, stride // size
                for start in range(0, points, block):
                    for point in range(start + block - stride - 1, start - 1, -1):
                        here[point] = min(here[point], here[point + stride])
    return found

"""What cuts in memories that all units share cost at least: short sums say what whole tables of all tiles say."""

import random
from dataclasses import replace

import numpy as np

from tests.helpers.fused_windows import convolutions_in_a_row
from tilestitch.mapping.fused.chain import axes_outside
from tilestitch.mapping.fused.laid import Rooms, all_times, laid
from tilestitch.mapping.fused.outer import Outer
from tilestitch.mapping.fused.outside import least_togo
from tilestitch.mapping.tree.choices import Ragged, SpatialSpace, choices_of
from tilestitch.mapping.tree.labels import NEVER
from tilestitch.mapping.tree.spatial import placement
from tilestitch.mapping.tree.tables import Sums


def by_tables(placed, outer):
    """The least over all tiles of all loops."""
    one = laid(placed, outer.sums, outer.rooms, outer.parts)
    total = 0
    for cuts, inner, beyond in zip(one.cuts, one.outer, outer.outside, strict=True):
        if inner < len(cuts):
            costs = [all_times(cut.cost_fj, outer.times) for cut in cuts[inner:]]
            total += int(least_togo(cuts[inner:], costs, one.lattice.shape, beyond)[0].min())
    return min(total, NEVER)


def drawn(seed):
    """A convolution that spreads nothing yet, and windows of it; sums of either width may be the wider ones."""
    operators = convolutions_in_a_row(seed, most=6).operators
    bare = replace(seed.choice(operators), unrolled=(), slides=(), final_bits=seed.choice((8, 8, 16, 96)))
    times, sums = seed.choice((1, 2, 3)), seed.choice(list(Sums))
    parts = frozenset(loop for loop in (0, 3) if seed.random() < 0.5)
    shared = [memory for memory in bare.tree.memories[:-1] if not axes_outside(bare.tree, [memory])]
    rooms = Rooms(tuple(memory.name for memory in shared), tuple(memory.size_bits for memory in shared))
    one = laid(bare, sums, rooms, parts)
    outside = tuple(
        np.array([seed.choice((NEVER, 10**6, 10**8, 10**10)) for _ in cuts[inner:]], np.int64)
        for cuts, inner in zip(one.cuts, one.outer, strict=True)
    )
    return bare, Outer(sums, rooms, times, parts, outside)


def test_the_least_is_that_of_all_tiles_whatever_is_spread():
    """Factors that divide their loop, and others; where loops are left alone, partial sums, second buffers."""
    seed = random.Random("outer")
    spaces = [SpatialSpace(Ragged.ALL), SpatialSpace()]
    values, uneven = set(), 0
    for _ in range(60):
        bare, outer = drawn(seed)
        choices = choices_of(bare, seed.choice(spaces))
        found = outer.least_of_each(bare, choices)
        for number, least in enumerate(found.tolist()):
            placed = placement(bare, choices, number)
            assert least == outer.least_fj(placed) == by_tables(placed, outer), (bare, outer, choices)
            uneven += any(some % count for some, count in zip(bare.nest.extents, placed.steps, strict=True))
        values.update(found.tolist())
    assert len(values) > 60
    assert uneven > 10

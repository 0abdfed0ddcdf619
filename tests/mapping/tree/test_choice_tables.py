"""The compiled tables of the checker are those that numpy makes of each placement."""

import random

import numpy as np
import pytest

from tests.helpers.tree_brute_force import like_arrays, timed_case, with_engines, with_networks
from tests.helpers.tree_spatial import with_axes, with_limits
from tilestitch.mapping.tree.choice_sums import pauses_of
from tilestitch.mapping.tree.choice_tables import tables_of_choice
from tilestitch.mapping.tree.choices import Ragged, SpatialSpace
from tilestitch.mapping.tree.crossings import operands_on_tree
from tilestitch.mapping.tree.free_checking import spread_of, task_of
from tilestitch.mapping.tree.port_uses import port_uses
from tilestitch.mapping.tree.sliding import needs_tables
from tilestitch.mapping.tree.spread_count import spread_list
from tilestitch.mapping.tree.tables import Sums
from tilestitch.mapping.tree.walk_tables import walk_tables

KINDS = {
    "plain": lambda bare, _: bare,
    "networks": with_networks,
    "engines": with_engines,
    "limits": with_limits,
    "arrays": like_arrays,
}


def random_nest(seed, kind):
    """A nest whose crossings are the plain ones; its operands move something."""
    while True:
        bare = KINDS[kind](with_axes(timed_case(seed, 3), seed), seed)
        if not needs_tables(bare) and all(one.element_bits for one in bare.operands):
            return bare


def sums_of(cuts):
    """What adds up, in any order of ports: kind, that of one iteration, which cuts, and cycles by cut and tile.

    And the same of what it joins.
    """
    begin = cuts.begin[len(cuts.begin) - len(cuts.kind) :]
    parts = list(zip(cuts.kind.tolist(), begin.tolist(), cuts.uses.tolist(), cuts.sums.tolist(), strict=True))
    joins = [[parts[to] if to >= 0 else None for to in row] for row in cuts.joins.tolist()]
    return sorted((*part, str(to)) for part, to in zip(parts, joins, strict=True))


def check(cuts, others):
    """Both are the same tables; prices count where a cut is possible, rooms in parts of their limits."""
    own = ("price", "room", "limit", "begin", "kind", "uses", "sums", "joins")
    for name in sorted(set(cuts._fields) - set(own)):
        assert np.array_equal(getattr(cuts, name), getattr(others, name)), name
    possible = cuts.possible.any(axis=1)
    assert np.array_equal(cuts.price[possible], others.price[possible])
    for cut, memory in enumerate(cuts.shared.tolist()):
        if memory >= 0:
            limit, other = int(cuts.limit[memory]), int(others.limit[memory])
            assert np.array_equal(cuts.room[cut].astype(object) * other, others.room[cut].astype(object) * limit)
    paces = len(others.begin) - len(others.kind)
    assert np.array_equal(cuts.begin[:paces], others.begin[:paces])
    assert sums_of(cuts) == sums_of(others)


@pytest.mark.parametrize("kind", KINDS)
def test_tables_are_those_of_each_placement(kind):
    seed, compared, adding = random.Random(f"tables of choices, {kind}"), 0, 0
    for _ in range(12):
        bare, sums = random_nest(seed, kind), seed.choice(list(Sums))
        choices = spread_list(bare, SpatialSpace(seed.choice((Ragged.NONE, Ragged.FILLING)), 0.0))
        operands = operands_on_tree(bare)
        task, ports, pauses = task_of(operands, sums), port_uses(operands), pauses_of(operands)
        parts = spread_of(choices, operands)
        for number in seed.sample(range(len(choices)), min(3, len(choices))):
            at_units, cuts = tables_of_choice(task, ports, pauses, *(part[number] for part in parts))
            tables = walk_tables(choices.placement(number), sums)
            assert at_units == tables.checked.fixed
            check(cuts, tables.cuts)
            compared, adding = compared + 1, adding + len(cuts.kind)
    assert compared > 15
    assert adding > compared

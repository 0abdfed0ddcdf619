"""Layers that are too large for a memory, whatever is spread: they are refused at once, and never wrongly."""

import random
from dataclasses import replace

import pytest

from tests.helpers.tree_brute_force import like_arrays, random_case, timed_case, unevenly, with_networks
from tests.helpers.tree_spatial import with_axes
from tilestitch.base.errors import DoesNotFit
from tilestitch.ir.choices import Objective
from tilestitch.mapping.tree import free_front, spatial
from tilestitch.mapping.tree.choices import Ragged, SpatialSpace
from tilestitch.mapping.tree.free_front import front_of_choices
from tilestitch.mapping.tree.least_room import expect_room
from tilestitch.mapping.tree.spatial import best_spread

TOGETHER = "every mapping needs at least"


def with_little_room(bare, seed):
    """The nest with one memory of a random small size, which may have banks."""
    memories = list(bare.tree.memories)
    at = seed.choice([len(memories) - 1, seed.randrange(len(memories))])
    size, banks = max(8, round(2 ** seed.uniform(4, 10))), seed.choice([0, 0, 2, 3])
    memories[at] = replace(memories[at], size_bits=size, bank_bits=size // banks if banks else 0)
    return replace(bare, tree=replace(bare.tree, memories=tuple(memories)))


def is_refused(bare):
    try:
        expect_room(bare)
    except DoesNotFit:
        return True
    return False


def test_what_is_refused_at_once_fits_nowhere(monkeypatch):
    """The search without that refusal finds nothing either, of plain nests, networks, windows, and ragged factors."""
    monkeypatch.setattr(spatial, "expect_room", lambda bare: None)
    seed, refused, others = random.Random("least room"), 0, 0
    while refused < 40:
        bare = with_axes(seed.choice([random_case, timed_case])(seed, 3), seed)
        if seed.random() < 0.4:
            bare = unevenly(like_arrays(with_networks(bare, seed), seed))
        bare = with_little_room(bare, seed)
        if is_refused(bare):
            with pytest.raises(DoesNotFit):
                best_spread(bare, SpatialSpace(seed.choice(list(Ragged))))
            refused += 1
        else:
            others += 1
    assert others > 20


@pytest.mark.parametrize("objective", [Objective.ENERGY, Objective.EDP])
def test_nothing_is_searched_where_nothing_can_fit(objective, monkeypatch):
    """In time the search of a 32 x 32 x 32 product on a DRAM of 1 KiB took more than four minutes."""
    seed = random.Random("nothing is searched")
    bare = next(
        one for one in iter(lambda: with_little_room(with_axes(timed_case(seed, 3), seed), seed), 0) if is_refused(one)
    )
    monkeypatch.setattr(spatial, "task_of", lambda *given: pytest.fail("it was searched"))
    monkeypatch.setattr(free_front, "task_of", lambda *given: pytest.fail("it was searched"))
    with pytest.raises(DoesNotFit, match=TOGETHER):
        best_spread(bare, objective=objective)
    with pytest.raises(DoesNotFit, match=TOGETHER):
        front_of_choices(bare)

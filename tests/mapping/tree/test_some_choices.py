"""What is searched, and what is said of it, where there are too many choices of what to spread."""

import random
from dataclasses import replace
from math import inf

import numpy as np
import pytest

from tests.helpers.tree_brute_force import all_best, like_arrays, random_case, timed_case, unevenly, with_networks
from tests.helpers.tree_spatial import all_placements, with_axes, with_limits
from tilestitch.base.errors import DoesNotFit, TooLarge
from tilestitch.ir.choices import Objective
from tilestitch.mapping.tree import choice_subset, choices, floor
from tilestitch.mapping.tree.choices import Ragged, SpatialSpace, choices_of
from tilestitch.mapping.tree.crossings import operands_on_tree
from tilestitch.mapping.tree.floor import least_of_all
from tilestitch.mapping.tree.free_front import front_of_choices
from tilestitch.mapping.tree.lattice import lattice_of
from tilestitch.mapping.tree.spatial import best_spread, placement
from tilestitch.mapping.tree.spread_task import task_of
from tilestitch.mapping.tree.tables import Sums

OBJECTIVES = (Objective.ENERGY, Objective.LATENCY, Objective.EDP, Objective.ED2P)


def few(monkeypatch, most):
    """Only so many choices are searched where there are more."""
    monkeypatch.setattr(choices, "MOST_ROWS", most)
    monkeypatch.setattr(choices, "MOST_CHOICES", most)
    monkeypatch.setattr(choice_subset, "MOST_BEGUN", most)
    monkeypatch.setattr(choice_subset, "MOST_KEPT", most)


def random_nest(seed, kind):
    """A nest on a tree with axes; of a kind of networks, windows and storage."""
    bare = with_axes((timed_case if kind == "timed" else random_case)(seed, 3), seed)
    if kind == "networks":
        bare = unevenly(like_arrays(with_networks(bare, seed), seed))
    return with_limits(bare, seed) if kind == "limits" else bare


def keys(found):
    """Choices as rows that can be compared."""
    return {(found.over[at].tobytes(), found.under[at].tobytes()) for at in range(len(found))}


@pytest.mark.parametrize("kind", ["plain", "timed", "networks", "limits"])
def test_nothing_comes_below_the_floor(kind):
    """Of random nests the floor is not above the least of any objective, and not far below it on average."""
    seed, compared, shares = random.Random(f"floor {kind}"), 0, []
    while compared < 40:
        bare = random_nest(seed, kind)
        sums, space = seed.choice(list(Sums)), SpatialSpace(seed.choice(list(Ragged)))
        least = least_of_all(task_of(bare, sums), space)
        try:
            energy = best_spread(bare, space, sums).found.price.energy_pj
            cycles = best_spread(bare, space, sums, objective=Objective.LATENCY).found.price.latency_cycles
        except DoesNotFit:
            continue
        assert least.energy_pj <= energy * (1 + 1e-12), (bare, sums, space)
        assert least.cycles <= cycles, (bare, sums, space)
        compared += 1
        shares.append(least.energy_pj / energy)
    assert sum(shares) / len(shares) > 0.3


def test_the_floor_is_below_every_mapping_that_brute_force_finds():
    """All choices, orders and places of small nests, by another program."""
    seed, compared = random.Random("floor by brute force"), 0
    while compared < 6:
        bare = with_axes(timed_case(seed, 3), seed)
        sums = seed.choice(list(Sums))
        lowest, least, fewest = least_of_all(task_of(bare, sums), SpatialSpace()), inf, inf
        known = set()
        for placed in all_placements(bare, Ragged.FILLING):
            key = tuple(sorted((one.axis, one.loop, one.factor) for one in placed.unrolled))
            if key not in known:
                known.add(key)
                for energy, cycles in all_best(placed, final_sums=sums is Sums.FINAL):
                    least, fewest = min(least, energy), min(fewest, cycles)
        if least == inf:
            continue
        assert lowest.energy_pj <= least * (1 + 1e-12)
        assert lowest.cycles <= fewest
        compared += 1


@pytest.mark.parametrize("kind", ["plain", "timed", "networks"])
def test_of_some_choices_nothing_is_proven_that_is_not(monkeypatch, kind):
    """What is found costs no less than the best of all choices, the bound no more, and `proven` is true."""
    seed, some, worse, proven = random.Random(f"some {kind}"), 0, 0, 0
    while some < 20:
        bare = random_nest(seed, kind)
        sums, objective = seed.choice(list(Sums)), seed.choice(OBJECTIVES)
        space = SpatialSpace(seed.choice(list(Ragged)))
        try:
            best = best_spread(bare, space, sums, objective=objective)
        except DoesNotFit:
            continue
        with monkeypatch.context() as patched:
            few(patched, 5)
            try:
                found = best_spread(bare, space, sums, objective=objective)
            except TooLarge:
                continue
        if not found.more_than:
            assert found == best
            continue
        assert 0 < found.choices <= 5
        assert found.found.value >= best.found.value * (1 - 1e-12)
        assert found.found.bound <= best.found.value * (1 + 1e-12)
        assert found.found.bound_pj <= best.found.price.energy_pj * (1 + 1e-12)
        assert found.found.bound_cycles <= best.found.price.latency_cycles
        if found.found.is_proven:
            assert found.found.value == pytest.approx(best.found.value, rel=1e-12)
        else:
            assert found.found.gap > 0
        some, worse, proven = some + 1, worse + (found.found.value > best.found.value), proven + found.found.is_proven
    assert worse > 2
    assert proven < some


def test_some_choices_are_choices_and_the_same_every_time(monkeypatch):
    """Each of the few is one of all, or costs what one of all does; what spreads nothing is among them."""
    seed, several = random.Random("few choices"), 0
    while several < 16:
        bare = random_nest(seed, "plain")
        space = SpatialSpace(seed.choice(list(Ragged)))
        every = choices_of(bare, space)
        with monkeypatch.context() as patched:
            few(patched, 6)
            found, again = choices_of(bare, space), choices_of(bare, space)
        assert (found.over == again.over).all()
        assert found.more_than == (6 if len(every) > 6 else found.more_than)
        if not found.more_than:
            continue
        assert len(found) <= 6
        assert found[found.steps[:, 0] > 0].more_than == 6
        assert (found.over.reshape(len(found), -1) == 1).all(axis=1).any()
        with monkeypatch.context() as patched:  # of those that cost the same another one may be taken
            patched.setattr(choices, "alike_axes", lambda bare: [[at] for at in range(len(bare.tree.axes))])
            patched.setattr(choices, "_exchanges", lambda nest: [])
            patched.setattr(choices, "_are_twins", lambda *_: False)
            assert keys(found) <= keys(choices_of(bare, space))
        several += 1


def test_a_front_of_some_choices_is_not_proven(monkeypatch):
    """Its points are mappings, and it says that some may be missing."""
    seed, some = random.Random("front of some"), 0
    while some < 5:
        bare = random_nest(seed, "timed")
        try:
            whole = front_of_choices(bare)
        except DoesNotFit:
            continue
        with monkeypatch.context() as patched:
            few(patched, 4)
            try:
                front = front_of_choices(bare)
            except TooLarge:
                continue
        if not front.more_than:
            continue
        least = min(one.price.energy_pj for one in whole.points)
        assert not any(one.is_proven for one in front.points)
        assert all(one.price.energy_pj >= least * (1 - 1e-12) for one in front.points)
        assert all(one.bound_pj <= least * (1 + 1e-12) for one in front.points)
        some += 1


def test_that_none_of_some_fits_is_not_said_of_all(monkeypatch):
    """Where no mapping fits of the choices that were searched, others may."""
    seed = random.Random("none of some fits")
    while True:
        bare = random_nest(seed, "plain")
        few(monkeypatch, 3)
        if choices_of(bare).more_than:
            break
    small = tuple(replace(one, size_bits=1) for one in bare.tree.memories)
    with pytest.raises(TooLarge, match="of more than 3, has a mapping that fits"):
        best_spread(replace(bare, tree=replace(bare.tree, memories=small)))


def test_the_floor_knows_how_far_elements_are_rounded_down():
    """Of every tile with every spread: what a whole number of elements may have been before it was rounded."""
    seed, compared, broken = random.Random("rounded windows"), 0, 0
    while compared < 20:
        bare = replace(with_axes(random_case(seed, 4), seed), zigzag_windows=False)
        windows = [array for array in bare.operands if any(len(terms) == 2 for terms in array.axes)]
        space = SpatialSpace(Ragged.ALL)
        task, several = task_of(bare, Sums.FULL), choices_of(bare, space)
        spreads = [floor._options(task, space, loop) for loop in range(len(bare.nest.loops))]
        if not windows or any(one is None for one in spreads):
            continue
        for number, operand in enumerate(task.operands):
            border = floor._Borders(task, space, number, spreads)
            for choice in range(len(several)):
                placed = placement(bare, several, choice)
                operand = operands_on_tree(placed)[operand.number]
                tiles = lattice_of(placed.steps).tiles()
                for fan_outs in range(len(operand.memories) + 1):
                    held = operand.elements(tiles, operand.inside(fan_outs))
                    most = border._rounded_inside(fan_outs)
                    for one in held[np.rint(held) <= len(most)].tolist():
                        assert one <= most[max(1, round(one)) - 1] * (1 + 1e-9), (placed, fan_outs)
                        broken += one % 1 > 0
        compared += 1
    assert broken > 100

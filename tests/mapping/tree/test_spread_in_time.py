"""Latency, EDP and ED2P of one choice of what is spread after another, without tables over the lattice."""

import random

import numpy as np
import pytest

from tests.helpers.tree_brute_force import like_arrays, timed_case, with_engines, with_networks
from tests.helpers.tree_spatial import with_axes
from tilestitch.base.errors import DoesNotFit
from tilestitch.ir.choices import Objective
from tilestitch.mapping.tree import timed_spread
from tilestitch.mapping.tree.choices import Ragged, SpatialSpace, choices_of
from tilestitch.mapping.tree.labels import FOUND, NEVER, NOTHING
from tilestitch.mapping.tree.opener import Opener
from tilestitch.mapping.tree.search import best_mapping
from tilestitch.mapping.tree.sliding import needs_tables
from tilestitch.mapping.tree.spatial import best_spread, placement
from tilestitch.mapping.tree.spread_task import bounds_fj, task_of, units_fj
from tilestitch.mapping.tree.tables import FEMTO, Sums
from tilestitch.mapping.tree.timed_opened import NO_POINTS, Aim
from tilestitch.mapping.tree.timed_quick import timing_of
from tilestitch.mapping.tree.timed_search import NUMBERS
from tilestitch.mapping.tree.timed_spread import best_by_tables

TIMED = (Objective.LATENCY, Objective.EDP, Objective.ED2P)


def timed_cases(name, count, kind="plain"):
    """Random nests on random trees with axes, and how sums are stored.

    With `networks` some of them have a stated bandwidth, with `engines` there are DMA engines.
    """
    seed = random.Random(name)
    while count > 0:
        bare = with_axes(timed_case(seed, 3), seed)
        bare = like_arrays(with_networks(bare, seed), seed) if kind == "networks" else bare
        bare = with_engines(bare, seed) if kind == "engines" else bare
        if not needs_tables(bare):
            count -= 1
            yield bare, seed.choice(list(Sums)), seed


def check_choices(name, count, kind):
    compared, stopped, stopped_loosely, fractions, some = 0, 0, 0, 0, 0
    for bare, sums, seed in timed_cases(name, count, kind):
        task, choices = task_of(bare, sums), choices_of(bare, SpatialSpace(Ragged.ALL))
        opener = Opener(task, choices, timing_of(task.operands))
        close = units_fj(task, choices) + bounds_fj(task, choices, loose=False)
        fixed_fj = round(bare.tree.mac_pj * bare.nest.macs * FEMTO)
        for number in seed.sample(range(len(choices)), min(3, len(choices))):
            placed, objective = placement(bare, choices, number), seed.choice(TIMED)
            opener.take(np.array([number]))
            aim = Aim(NUMBERS[objective], float(fixed_fj), float("inf"), float("inf"), float("inf"), 0, NO_POINTS)
            ended, _, value, energy = opener.best(number, aim, 10**6)
            try:
                right = best_mapping(placed, sums, objective=objective)
            except DoesNotFit:
                assert ended == NOTHING
                continue
            unit = 1 if objective is Objective.LATENCY else FEMTO
            assert ended == FOUND
            assert value == pytest.approx(right.value * unit, rel=1e-12, abs=0)
            assert close[number] <= energy < NEVER
            assert opener.least_cycles(np.array([number]))[0] <= right.price.latency_cycles
            loose = opener.least_cycles(np.array([number]), loose=True)[0]
            assert loose <= opener.least_cycles(np.array([number]))[0]
            stopped_loosely += loose > placed.total_steps
            assert opener.best(number, aim._replace(cutoff=value * (1 - 1e-9)), 10**6)[0] == NOTHING
            ended, _, narrow, _ = opener.best(number, aim._replace(width=2), 10**6)  # some mapping
            assert ended == NOTHING or narrow >= value
            some += ended == FOUND
            compared += 1
            stopped += opener.least_cycles(np.array([number]))[0] > placed.total_steps
            fractions += any(one.factor.denominator > 1 for one in placed.unrolled)
    assert compared > count
    assert some > compared / 2
    assert stopped >= stopped_loosely > count / 3  # ports say more than the steps
    assert fractions > count / 8


@pytest.mark.parametrize("kind", ["plain", "networks", "engines"])
def test_both_searches_in_time_agree_on_every_choice(kind):
    """The search without tables finds the value that the one with tables finds; its bounds of cycles are below."""
    check_choices(f"choices in time {kind}", 16, kind)


@pytest.mark.parametrize("kind", ["plain", "engines"])
@pytest.mark.parametrize("labels", [1, timed_spread.ROUND])
def test_both_searches_of_all_choices_give_the_same_mapping(labels, kind, monkeypatch):
    """And the same bounds and proof, where one prices labels as they come and the other makes tables of each choice.

    Also where no choice is settled in the first round of few labels.
    """
    monkeypatch.setattr(timed_spread, "ROUND", labels)
    monkeypatch.setattr(timed_spread, "SEVERAL", 1)  # as with very many choices
    for bare, sums, seed in timed_cases("same in time", 10, kind):
        objective = seed.choice(TIMED)
        task, choices = task_of(bare, sums), choices_of(bare)
        bounds = units_fj(task, choices) + bounds_fj(task, choices, loose=True)
        bounds[bounds > NEVER] = NEVER
        try:
            right = best_by_tables(task, choices, bounds, 10**7, objective).found
        except DoesNotFit:
            with pytest.raises(DoesNotFit):
                best_spread(bare, sums=sums, objective=objective)
            continue
        found = best_spread(bare, sums=sums, objective=objective).found
        assert found.is_proven
        assert (found.placed.unrolled, found.mapping, found.price) == (
            right.placed.unrolled,
            right.mapping,
            right.price,
        )
        assert (found.bound, found.bound_pj, found.bound_cycles) == (right.bound, right.bound_pj, right.bound_cycles)


def test_few_labels_give_bounds_and_the_best_that_was_found():
    """A search of all choices that stops has a mapping no better than the best, and a bound that is not above it."""
    stopped = 0
    for bare, sums, _ in timed_cases("few labels", 5):
        try:
            right = best_spread(bare, sums=sums, objective=Objective.EDP).found
        except DoesNotFit:
            continue
        found = best_spread(bare, sums=sums, most_labels=1, objective=Objective.EDP).found
        assert found.bound <= right.value * (1 + 1e-12) <= found.value * (1 + 1e-11)
        assert not found.is_proven or found.value == pytest.approx(right.value, rel=1e-12)
        stopped += not found.is_proven
    assert stopped > 1

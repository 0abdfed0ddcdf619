"""The least energy over all choices of what is spread."""

import random
from dataclasses import replace
from math import inf

import pytest

from tests.helpers.tree_brute_force import (
    all_best,
    least_energy,
    like_arrays,
    random_case,
    timed_case,
    unevenly,
    with_networks,
)
from tests.helpers.tree_spatial import all_placements, with_axes, with_limits
from tilestitch.base.errors import DoesNotFit
from tilestitch.formats.einsum import einsum_nest
from tilestitch.hardware.tree_load import parse_tree
from tilestitch.ir.choices import Objective
from tilestitch.mapping.tree.choices import Ragged, SpatialSpace, choices_of
from tilestitch.mapping.tree.labels import FOUND, NEVER, NOTHING
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.search import best_mapping
from tilestitch.mapping.tree.sliding import needs_tables
from tilestitch.mapping.tree.spatial import Opener, best_spread, placement
from tilestitch.mapping.tree.spread_task import bounds_fj, task_of, units_fj
from tilestitch.mapping.tree.tables import FEMTO, Sums

OBJECTIVES = {
    Objective.LATENCY: lambda energy, cycles: cycles,
    Objective.EDP: lambda energy, cycles: energy * cycles,
    Objective.ED2P: lambda energy, cycles: energy * cycles * cycles,
}


def check_block(name, cases, most_loops, *, limited=False):
    seed = random.Random(name)
    fitting, choices, changed = 0, 0, 0
    while fitting < cases or (limited and changed <= cases / 5):  # where limits exclude the best of too few, more cases
        bare = with_axes(random_case(seed, most_loops), seed)
        bare = with_limits(bare, seed) if limited else bare
        sums, ragged, use = seed.choice(list(Sums)), seed.choice(list(Ragged)), seed.choice((0.0, 0.0, 0.5))
        least, known = inf, {}
        for placed in all_placements(bare, ragged, use):
            key = tuple(sorted((one.axis, one.loop, one.factor) for one in placed.unrolled))
            if key not in known:
                known[key] = least_energy(placed, final_sums=sums is Sums.FINAL)
            least = min(least, known[key])
        try:
            found = best_spread(bare, SpatialSpace(ragged, use), sums)
        except DoesNotFit:
            assert least == inf, (name, fitting, bare, ragged, use)
            continue
        assert found.found.is_proven
        assert found.found.bound_pj == found.found.price.energy_pj
        assert found.found.price.energy_pj == pytest.approx(least, rel=1e-12), (name, fitting, bare, ragged, use)
        assert found.choices <= len(known)
        fitting, choices = fitting + 1, choices + found.choices
        free = best_spread(replace(bare, limits=()), SpatialSpace(ragged, use), sums) if limited else found
        changed += free.found.price.energy_pj < found.found.price.energy_pj
    assert choices > 2 * cases
    assert changed > cases / 5 or not limited


def test_nothing_costs_less_on_any_choice():
    """All choices, orders and places of small random nests on random trees have the same least."""
    check_block("spatial", 12, 3)


def test_nothing_is_better_in_another_objective_on_any_choice():
    """Latency, EDP and ED2P: all choices, orders and places of small nests, by another program, have the same least."""
    seed = random.Random("spread in time")
    fitting = several = 0
    while fitting < 8:
        bare = with_axes(timed_case(seed, 3), seed)
        sums, known = seed.choice(list(Sums)), {}
        for placed in all_placements(bare, Ragged.FILLING):
            key = tuple(sorted((one.axis, one.loop, one.factor) for one in placed.unrolled))
            if key not in known:
                known[key] = all_best(placed, final_sums=sums is Sums.FINAL)
        best = [point for front in known.values() for point in front]
        if not best:
            continue
        for objective, value in OBJECTIVES.items():
            found = best_spread(bare, sums=sums, objective=objective)
            assert found.found.is_proven
            assert found.found.value == pytest.approx(min(value(*point) for point in best), rel=1e-12), (
                bare,
                objective,
            )
            assert found.found.bound_pj <= found.found.price.energy_pj * (1 + 1e-12)
            assert found.found.bound_cycles <= found.found.price.latency_cycles
            several += found.opened > 1
        fitting += 1
    assert several > 8


@pytest.mark.parametrize(("kind", "least"), [("plain", (60, 10)), ("networks", (30, 5))])
def test_both_searches_and_their_bounds_agree(kind, least):
    """Of every choice the compiled search finds what the one with tables finds, to the femtojoule; bounds are below."""
    seed = random.Random("choices" if kind == "plain" else f"choices {kind}")
    compared, fractions, mixed = 0, 0, 0
    for _ in range(60):
        bare = with_axes(random_case(seed, 4), seed)
        if kind == "networks":
            bare = unevenly(like_arrays(with_networks(bare, seed), seed))
        sums = seed.choice(list(Sums))
        task, choices = task_of(bare, sums), choices_of(bare, SpatialSpace(Ragged.ALL))
        opener = Opener(task, choices)
        loose, close = (units_fj(task, choices) + bounds_fj(task, choices, loose=one) for one in (True, False))
        for number in seed.sample(range(len(choices)), min(3, len(choices))):
            placed = placement(bare, choices, number)
            try:
                energy_pj = best_mapping(placed, sums).price.memory_pj
            except DoesNotFit:
                assert needs_tables(bare) or opener.least(number, 10**6, NEVER)[0] == NOTHING
                continue
            if needs_tables(bare):  # networks of axes at one fan-out differ, and only bounds know them
                assert loose[number] <= close[number] <= energy_pj * FEMTO * (1 + 1e-12)
                mixed += 1
                continue
            ended, value, _ = opener.least(number, 10**6, NEVER)
            assert ended == FOUND
            assert value / FEMTO == pytest.approx(energy_pj, rel=1e-12, abs=0)
            assert loose[number] <= close[number] <= value
            assert opener.least(number, 10**6, value)[0] == NOTHING
            compared += 1
            fractions += any(one.factor.denominator > 1 for one in placed.unrolled)
    assert compared > least[0]
    assert fractions > least[1]
    assert mixed > 5 or kind == "plain"


STRIDED = """
name: strided
mac_pj: 0
moves_boxes: true
axes:
  - {name: a, size: 2, networks: [{operands: [I], shares_windows: true}]}
  - {name: b, size: 4}
memories:
  - name: registers
    size: 64 B
    operands: [I, W, O]
    serves: []
    read_pj: 0
    write_pj: 0
    ports: [{width_bits: 8}]
  - name: dram
    size: 1 MiB
    operands: [I, W, O]
    serves: [a, b]
    read_pj: 10
    write_pj: 10
    ports: [{width_bits: 8}]
"""


@pytest.mark.parametrize("loose", [True, False])
def test_a_box_with_gaps_is_no_bound_of_boxes_apart(loose):
    """Neighbours along one axis share windows and along the other do not; with strides the box around all is larger."""
    nest = einsum_nest("O[x,k] += I[4*x+r] * W[r,k]; x=8 r=2 k=4")
    bare = PlacedNest(nest, nest.write.element_bits, ("I", "W", "O"), (), parse_tree(STRIDED, "strided.yaml"))
    choices, task = choices_of(bare, SpatialSpace(Ragged.NONE)), task_of(bare, Sums.FULL)
    bounds = bounds_fj(task, choices, loose=loose) + units_fj(task, choices)
    for number in range(len(choices)):
        best = best_mapping(placement(bare, choices, number)).price.energy_pj * FEMTO
        assert bounds[number] <= best * (1 + 1e-12), choices.over[number]


def test_nothing_within_limits_costs_less():
    """The same where the user limits shares of memories and the tiles that they hold; a fifth of the cases notice."""
    check_block("limits", 12, 3, limited=True)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_nothing_costs_less_on_any_choice_for_more_loops(block):
    """150 nests of up to four prime loops."""
    check_block(f"spatial {block}", 15, 4)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(6))
def test_nothing_within_limits_costs_less_for_more_loops(block):
    """60 nests of up to four prime loops."""
    check_block(f"limits {block}", 10, 4, limited=True)

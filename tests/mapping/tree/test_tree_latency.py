"""Latency, and what is least of latency and energy together, on machine trees."""

import random

import pytest

from tests.helpers.tree_brute_force import all_best, timed_case
from tilestitch.base.errors import DoesNotFit
from tilestitch.ir.choices import TreeObjective
from tilestitch.mapping.tree.search import MOST_LABELS, best_mapping, pareto_front
from tilestitch.mapping.tree.tables import Sums

POWERS = {TreeObjective.ENERGY: (1, 0), TreeObjective.EDP: (1, 1), TreeObjective.ED2P: (1, 2)}


def found_front(placed, sums):
    try:
        front = pareto_front([placed], sums, MOST_LABELS)
    except DoesNotFit:
        return []
    assert front.is_proven
    return [(one.price.energy_pj, one.price.latency_cycles) for one in front.points]


def check_block(name, cases, most_loops):
    seed = random.Random(name)
    several = fitting = 0
    for number in range(cases):
        placed = timed_case(seed, most_loops)
        sums = seed.choice(list(Sums))
        best = all_best(placed, final_sums=sums is Sums.FINAL)
        assert found_front(placed, sums) == best, (name, number, placed)
        several, fitting = several + (len(best) > 1), fitting + (len(best) > 0)
        if not best:
            continue
        for objective, (power, of_cycles) in POWERS.items():
            found = best_mapping(placed, sums, objective=objective)
            least = min(energy**power * cycles**of_cycles for energy, cycles in best)
            assert found.is_proven
            assert found.value == found.bound == pytest.approx(least, rel=1e-12), (name, number, objective, placed)
        fastest = best_mapping(placed, sums, objective=TreeObjective.LATENCY)
        energy, cycles = best[-1]
        assert (fastest.price.latency_cycles, fastest.price.energy_pj) == (cycles, energy), (name, number, placed)
    assert fitting > cases / 3
    return several


@pytest.mark.parametrize("block", range(5))
def test_nothing_is_better_than_what_is_found(block):
    """Front, and least energy, latency, EDP and ED2P, are those of all orders and places, by another program."""
    assert check_block(f"fast {block}", 20, 3) > 0


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_nothing_is_better_than_what_is_found_for_more_loops(block):
    """400 nests of up to four prime loops."""
    assert check_block(f"slow {block}", 20, 4) > 0

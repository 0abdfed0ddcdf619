"""The least energy of a nest on a machine tree."""

import random
from math import inf

import pytest

from tests.helpers.tree_brute_force import least_energy, random_case
from tilestitch.base.errors import DoesNotFit
from tilestitch.mapping.tree.search import MOST_LABELS, best_mapping, least_below
from tilestitch.mapping.tree.tables import Sums


def found_energy(placed, sums):
    try:
        found = best_mapping(placed, sums)
    except DoesNotFit:
        return inf
    assert found.is_proven
    assert found.bound_pj == found.price.energy_pj
    return found.price.energy_pj


def check_block(name, cases, most_loops):
    seed = random.Random(name)
    fitting = 0
    for number in range(cases):
        placed = random_case(seed, most_loops)
        sums = seed.choice(list(Sums))
        least = least_energy(placed, final_sums=sums is Sums.FINAL)
        assert found_energy(placed, sums) == pytest.approx(least, rel=1e-12), (name, number, placed)
        fitting += least < inf
    assert fitting > cases / 3


def test_nothing_costs_less_than_what_is_found():
    """All orders and places of small random nests on random trees, priced by another program, have the same least."""
    check_block("small trees", 20, 3)


def test_a_search_below_an_energy_ends_where_nothing_is_below_it():
    """With fewer labels; and what is below it, or exactly as much, is found as without."""
    seed, ended, saved = random.Random("below"), 0, 0
    while ended < 10:
        placed = random_case(seed, 3)
        try:
            best = best_mapping(placed)
        except DoesNotFit:
            continue
        for more in (0.0, 0.01):
            found, _ = least_below([placed], Sums.FULL, MOST_LABELS, best.price.energy_pj * (1 + more))
            assert found is not None
            assert (found.mapping, found.price) == (best.mapping, best.price)
        found, labels = least_below([placed], Sums.FULL, MOST_LABELS, best.price.energy_pj * 0.999)
        assert found is None
        ended, saved = ended + 1, saved + (labels < best.labels)
    assert saved == ended


@pytest.mark.slow
@pytest.mark.parametrize("block", range(25))
def test_nothing_costs_less_than_what_is_found_for_more_loops(block):
    """500 nests of up to four prime loops."""
    check_block(f"trees {block}", 20, 4)


def test_an_interrupted_search_says_how_far_it_may_be_off():
    """With few labels a mapping comes with a bound below, which the proven best does not beat."""
    seed = random.Random("bounds")
    gaps = 0
    for _ in range(40):
        placed = random_case(seed)
        try:
            best = best_mapping(placed).price.energy_pj
        except DoesNotFit:
            continue
        found = best_mapping(placed, most_labels=12)
        assert found.bound_pj <= best * (1 + 1e-12)
        assert best <= found.price.energy_pj * (1 + 1e-12)
        gaps += not found.is_proven
    assert gaps > 0

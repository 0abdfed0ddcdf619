"""The least energy of chains of operators that run together."""

import random
from math import inf

import pytest

from tests.helpers.fused_brute_force import least_fused, random_chain
from tilestitch.base.errors import DoesNotFit
from tilestitch.mapping.fused.search import best_chain
from tilestitch.mapping.tree.tables import Sums


def found_energy(chain, sums):
    try:
        found = best_chain(chain, sums)
    except DoesNotFit:
        return inf, False
    assert found.is_proven
    assert found.energy_pj <= found.unfused_pj * (1 + 1e-12)
    return found.energy_pj, len(found.groups) < len(chain.operators)


def check_block(name, cases, operators, most_loops):
    seed = random.Random(name)
    fused = 0
    for number in range(cases):
        chain = random_chain(seed, operators, most_loops)
        sums = seed.choice(list(Sums))
        least = least_fused(chain, final_sums=sums is Sums.FINAL)
        energy, is_fused = found_energy(chain, sums)
        assert energy == pytest.approx(least, rel=1e-9), (name, number, chain)
        fused += is_fused
    assert fused > cases / 5, fused


def test_no_fused_mapping_of_two_products_costs_less():
    """All orders, places, homes and shared loops of small random chains, counted step by step, have the same least."""
    check_block("two", 5, 2, 3)


def test_no_fused_mapping_of_longer_chains_costs_less():
    """Three products and four: blocks of neighbours that share further loops, homes that differ."""
    check_block("three", 3, 3, 2)
    check_block("four", 2, 4, 2)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
@pytest.mark.parametrize(("operators", "most_loops"), [(2, 3), (3, 2), (4, 2)])
def test_no_fused_mapping_of_many_chains_costs_less(operators, most_loops, block):
    """70 chains each of two, three and four products."""
    check_block(f"{operators} products {block}", 7, operators, most_loops)

"""Results of three axes that others read in another order, as heads of attention are."""

import random

import pytest

from tests.helpers.fused_brute_force import random_heads
from tests.helpers.fused_in_energy import check_energy
from tests.helpers.fused_in_time import check_in_time
from tests.helpers.fused_time_brute_force import all_fused, timed_chain
from tilestitch.mapping.tree.tables import Sums


def check_block(name, cases):
    """So many random pairs of operators; in how many both run together."""
    seed = random.Random(name)
    return sum(len(check_energy(random_heads(seed), seed.choice(list(Sums)))) == 1 for _ in range(cases))


def test_no_fused_mapping_of_heads_costs_less():
    """Where a projection is read head by head, and where heads are read as one, all mappings have the same least."""
    assert check_block("heads", 12) > 1


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_no_fused_mapping_of_many_heads_costs_less(block):
    """400 pairs."""
    assert check_block(f"heads {block}", 40) > 5


@pytest.mark.slow
@pytest.mark.parametrize("block", range(5))
def test_no_fused_mapping_of_heads_is_faster(block):
    """The same least latency, EDP and ED2P, of 50 pairs."""
    seed = random.Random(f"heads in time {block}")
    chains = [(timed_chain(random_heads(seed), seed), seed.choice(list(Sums))) for _ in range(10)]
    assert sum(check_in_time(chain, sums, all_fused) for chain, sums in chains) > 1

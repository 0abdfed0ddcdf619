"""What `best_chain` finds in energy, beside all mappings."""

from math import inf

import pytest

from tests.helpers.fused_brute_force import least_fused
from tests.helpers.fused_leaving import least_divided
from tests.helpers.tree_brute_force import least_energy
from tilestitch.base.errors import DoesNotFit
from tilestitch.mapping.fused.chain import MOST_OPERATORS
from tilestitch.mapping.fused.search import best_chain
from tilestitch.mapping.tree.tables import Sums


def check_energy(chain, sums):
    """The groups of the best mapping, whose energy is the least of all; none where an operator fits nowhere."""
    final_sums = sums is Sums.FINAL
    try:
        found = best_chain(chain, sums)
    except DoesNotFit:
        assert float("inf") in [least_energy(placed, final_sums=final_sums) for placed in chain.operators], chain
        return ()
    assert found.is_proven
    assert found.energy_pj <= found.unfused_pj * (1 + 1e-12)
    least = least_divided(chain, MOST_OPERATORS, final_sums=final_sums) if chain.more else inf
    assert found.energy_pj == pytest.approx(min(least, least_fused(chain, final_sums=final_sums)), rel=1e-9), chain
    return found.groups

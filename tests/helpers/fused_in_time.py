"""What `best_chain` finds in time, beside all mappings."""

import pytest

from tilestitch.base.errors import DoesNotFit
from tilestitch.ir.choices import Objective
from tilestitch.mapping.fused.chain import MOST_OPERATORS
from tilestitch.mapping.fused.search import best_chain
from tilestitch.mapping.optimum import value_of
from tilestitch.mapping.tree.tables import Sums

IN_TIME = (Objective.LATENCY, Objective.EDP, Objective.ED2P)


def run_together(found):
    """Whether some operators do."""
    return len(found.groups) < len(found.chain.operators)


def check_in_time(chain, sums, all_mappings, what=run_together, *, most=MOST_OPERATORS):
    """The least latency, EDP and ED2P are those of all mappings, or none fits; whether something is true of a best one.

    `all_mappings` gives the energies and cycles that none beats in both.
    """
    front, is_true = [], False
    for objective in IN_TIME:
        try:
            found = best_chain(chain, sums, objective=objective, most=most)
        except DoesNotFit:
            assert objective is Objective.LATENCY
            return False
        front = front or all_mappings(chain, final_sums=sums is Sums.FINAL)
        assert found.is_proven
        assert found.value <= found.unfused_value * (1 + 1e-12)
        expected = min(value_of(objective, *point) for point in front)
        assert found.value == pytest.approx(expected, rel=1e-9), (objective, chain)
        if objective is Objective.LATENCY:
            assert found.energy_pj == pytest.approx(min(e for e, c in front if c == expected), rel=1e-9), chain
        is_true = is_true or what(found)
    return is_true

"""Chains of convolutions that share windows, which are made again: no mapping is better than the one that is found."""

import random
from math import inf

import pytest

from tests.helpers.fused_in_time import check_in_time
from tests.helpers.fused_time_brute_force import timed_chain
from tests.helpers.fused_windows import convolutions_in_a_row, least_with_windows
from tests.helpers.fused_windows_time import all_with_windows
from tests.helpers.tree_brute_force import least_energy
from tilestitch.base.errors import DoesNotFit
from tilestitch.mapping.fused.search import best_chain
from tilestitch.mapping.tree.tables import Sums


def makes_again(found):
    """Whether some operators of a chain run on windows."""
    return any(one.mapping.windows(0) and not one.mapping.kept_visits() for one in found.groups if one.mapping)


def keeps_rows(found):
    """Whether some operators of a chain make new rows alone."""
    return any(one.mapping.kept_visits() for one in found.groups if one.mapping)


def check_energy(seed, count, most, what=makes_again):
    """The least energy is that of all mappings, or an operator has none; what the best one does with windows."""
    chain, sums = convolutions_in_a_row(seed, count, most=most), seed.choice(list(Sums))
    try:
        found = best_chain(chain, sums)
    except DoesNotFit:
        final_sums = sums is Sums.FINAL
        assert inf in [least_energy(placed, final_sums=final_sums) for placed in chain.operators], chain
        return False
    assert found.is_proven
    expected = least_with_windows(chain, final_sums=sums is Sums.FINAL)
    assert found.energy_pj == pytest.approx(expected, rel=1e-9), chain
    return what(found)


def check_time(seed, count, most, most_levels, what=makes_again):
    """The least latency, EDP and ED2P are those of all mappings; what one of the best does with windows."""
    drawn = convolutions_in_a_row(seed, count, most=most, most_levels=most_levels)
    chain, sums = timed_chain(drawn, seed), seed.choice(list(Sums))
    return check_in_time(chain, sums, all_with_windows, what)


def test_no_fused_mapping_of_two_convolutions_costs_less():
    """All orders, places, homes, windows and shared loops of small random chains have the same least energy."""
    seed = random.Random("two convolutions")
    assert sum(check_energy(seed, 2, 3) for _ in range(14)) > 1


def test_no_fused_mapping_costs_less_where_rows_are_kept():
    """The same with chunks of new rows, as many ahead as the first window needs; some of these are the best."""
    seed = random.Random("rows kept")
    assert sum(check_energy(seed, 2, 3, keeps_rows) for _ in range(16)) > 1


def test_no_fused_mapping_is_faster_where_rows_are_kept():
    """Latency, EDP and ED2P: all visits in the loop over rows are one after another, those ahead as well."""
    seed = random.Random("d")
    assert sum(check_time(seed, 2, 3, 6, keeps_rows) for _ in range(6)) > 1


@pytest.mark.parametrize("number", [126, 176])
def test_what_lies_outside_of_windows_is_bounded_by_what_it_costs_there(number):
    """Two chains whose best mappings once were left out.

    Of one a memory of two buffers holds half a window, which is as much as one buffer takes of all of it. In the other
    an input that several windows share costs less than each of them would.
    """
    seed = random.Random("b")
    for _ in range(number):
        convolutions_in_a_row(seed)
        seed.choice(list(Sums))
    check_energy(seed, 2, 4)


def test_no_fused_mapping_of_three_convolutions_costs_less():
    """Windows of windows, and groups of some of the operators."""
    seed = random.Random("three convolutions")
    assert sum(check_energy(seed, 3, 3) for _ in range(8)) > 0


def test_no_fused_mapping_of_two_convolutions_is_faster():
    """The same of the least latency, EDP and ED2P, with random ports, buffers and DMA engines."""
    seed = random.Random("convolutions in time")
    assert sum(check_time(seed, 2, 3, 7) for _ in range(6)) > 0


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
@pytest.mark.parametrize(("count", "most", "cases"), [(2, 4, 25), (3, 3, 6)])
def test_no_fused_mapping_of_many_convolutions_costs_less(count, most, cases, block):
    """250 chains of two convolutions and 60 of three.

    How many of the best make windows again is not asked: since rows can be kept, in many blocks none does.
    """
    seed = random.Random(f"{count} convolutions {block}")
    for _ in range(cases):
        check_energy(seed, count, most)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
@pytest.mark.parametrize(("count", "most", "levels", "cases"), [(2, 4, 7, 10), (3, 3, 6, 2)])
def test_no_fused_mapping_of_many_convolutions_is_faster(count, most, levels, cases, block):
    """100 chains of two convolutions and 20 of three.

    How many of the best make windows again is not asked: of 40 chains of block 0 none does.
    """
    seed = random.Random(f"{count} convolutions in time {block}")
    for _ in range(cases):
        check_time(seed, count, most, levels)

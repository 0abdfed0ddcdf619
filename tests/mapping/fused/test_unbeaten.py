"""Which ways of a block no other one beats."""

import numpy as np

from tilestitch.mapping.fused.unbeaten import unbeaten


def test_ways_that_no_other_beats_are_those_of_all_pairs():
    seed = np.random.default_rng(7)
    for _ in range(60):
        count = int(seed.integers(0, 60))
        alike = [seed.integers(0, 2, count), seed.integers(0, 2, count) > 0]
        costs, rooms = seed.integers(0, 4, (count, 2)), seed.integers(0, 3, (count, 2)) / 2
        found = unbeaten(alike, costs, rooms)

        def beats(one, other, alike=alike, values=np.hstack([costs, rooms])):
            is_alike = all(column[one] == column[other] for column in alike)
            no_more = bool((values[one] <= values[other]).all())
            return is_alike and no_more and (one < other or bool((values[one] < values[other]).any()))

        best = [one for one in range(count) if not any(beats(other, one) for other in range(count) if other != one)]
        assert found.tolist() == best


def test_a_way_that_goes_on_otherwise_is_not_beaten():
    alike = [np.array([0, 1, 1])]
    costs, rooms = np.array([[1], [2], [3]]), np.zeros((3, 1))
    assert unbeaten(alike, costs, rooms).tolist() == [0, 1]

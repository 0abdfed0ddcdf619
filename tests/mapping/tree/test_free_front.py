"""The front of energy and latency over all choices of what is spread, beside that of brute force."""

import random

import pytest

from tests.helpers.tree_brute_force import all_best, timed_case, with_networks
from tests.helpers.tree_spatial import all_placements, with_axes, with_limits
from tilestitch.base.errors import DoesNotFit, TooLarge
from tilestitch.mapping.tree.choices import Ragged, SpatialSpace
from tilestitch.mapping.tree.free_front import front_of_choices
from tilestitch.mapping.tree.opener import Opener
from tilestitch.mapping.tree.tables import Sums


def random_problem(seed):
    bare = with_axes(timed_case(seed, 3), seed)
    kind = seed.choice(("plain", "plain", "networks", "limits"))
    if kind == "networks":
        bare = with_networks(bare, seed)
    if kind == "limits":
        bare = with_limits(bare, seed)
    is_even = any(memory.has_even_storage for memory in bare.tree.memories)
    space = SpatialSpace(seed.choice((Ragged.NONE, Ragged.FILLING)), seed.choice((0.0, 0.0, 0.5)))
    return bare, space, Sums.FULL if is_even else seed.choice(list(Sums))


def check_block(name, cases):
    """Fronts of several points, from several choices, are those of brute force; how many there were."""
    seed, fitting, several, spreads = random.Random(name), 0, 0, 0
    while fitting < cases:
        bare, space, sums = random_problem(seed)
        placements = {
            tuple(sorted((one.axis, one.loop, one.factor) for one in placed.unrolled)): placed
            for placed in all_placements(bare, space.ragged, space.least_use)
        }
        fronts = [all_best(placed, final_sums=sums is Sums.FINAL) for placed in placements.values()]
        least = []
        for energy, cycles in sorted(point for front in fronts for point in front):
            if not least or cycles < least[-1][1]:
                least.append((energy, cycles))
        if not least:
            with pytest.raises(DoesNotFit):
                front_of_choices(bare, space, sums)
            continue
        found = front_of_choices(bare, space, sums)
        assert all(one.is_proven for one in found.points)
        assert [one.price.latency_cycles for one in found.points] == [cycles for _, cycles in least]
        assert [one.price.energy_pj for one in found.points] == pytest.approx(
            [energy for energy, _ in least], rel=1e-12
        )
        assert found.points[0].bound_pj <= least[0][0] * (1 + 1e-12)
        assert found.points[0].bound_cycles <= least[-1][1]
        fitting, several = fitting + 1, several + (len(least) > 1)
        spreads += len({one.placed.unrolled for one in found.points}) > 1
    return several, spreads


def test_the_front_is_that_of_brute_force():
    blocks = (check_block(name, 4) for name in ("free fronts small", "free fronts brief"))
    several, spreads = map(sum, zip(*blocks, strict=True))
    assert several >= 4
    assert spreads >= 1


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
def test_the_front_is_that_of_brute_force_for_many(block):
    several, spreads = check_block(f"free fronts {block}", 40)
    assert several >= 12
    assert spreads >= 3


def test_a_search_that_stops_early_is_not_proven():
    """Its points are mappings that the whole front is no worse than."""
    seed, stopped = random.Random("stopped"), 0
    for _ in range(12):
        bare, space, sums = random_problem(seed)
        try:
            whole, part = (front_of_choices(bare, space, sums, most) for most in (10**6, 3))
        except DoesNotFit:
            continue
        stopped += not part.points[0].is_proven
        assert all(one.is_proven == part.points[0].is_proven for one in part.points)
        for one in part.points:
            assert any(
                other.price.energy_pj <= one.price.energy_pj * (1 + 1e-12)
                and other.price.latency_cycles <= one.price.latency_cycles
                for other in whole.points
            )
    assert stopped > 3


def test_tables_find_the_same_front_as_the_search_in_time(monkeypatch):
    """Where that does not compare so much, and where it says of each choice whether it adds a point."""
    seed, asked, compared = random.Random("two ways to a front"), [], 0
    best = Opener.best
    while compared < 25:
        bare, space, sums = random_problem(seed)
        with monkeypatch.context() as patched:
            patched.setattr(Opener, "best", lambda *given: asked.append(given) or best(*given))
            try:
                found = front_of_choices(bare, space, sums)
            except DoesNotFit:
                continue
        with monkeypatch.context() as patched:
            patched.setattr(Opener, "best", refuse)
            other = front_of_choices(bare, space, sums)
        assert [one.mapping for one in found.points] == [one.mapping for one in other.points]
        assert [one.price for one in found.points] == [one.price for one in other.points]
        compared += 1
    assert len(asked) > 20


def refuse(*_):
    raise TooLarge("latencies that are not compared")

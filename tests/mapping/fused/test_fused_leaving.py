"""Results that stay for some of those that read them and go out for others."""

import random
from dataclasses import replace

import pytest

from tests.helpers.fused_brute_force import graph_with_cells, random_forks
from tests.helpers.fused_in_time import check_in_time
from tests.helpers.fused_leaving import divided_front, least_divided
from tests.helpers.fused_time_brute_force import timed_chain
from tests.helpers.tiny_trees import memory, nest, port, tree
from tilestitch.base.errors import DoesNotFit
from tilestitch.mapping.fused.chain import Chain, Link, Reading
from tilestitch.mapping.fused.divisions import divisions, in_turn, spans_of
from tilestitch.mapping.fused.search import best_chain
from tilestitch.mapping.fused.spans import Task, groups_of
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.tables import Sums


def leave(found):
    """Whether some results leave a group in which they stay."""
    return any(link.leaves for group in found.groups if group.mapping is not None for link in group.mapping.chain.links)


def check_block(name, cases, operators, most_loops, most, *, cells=False):
    """So many random graphs of which at most some run together; in how many results leave."""
    seed, count = random.Random(name), 0
    for _ in range(cases):
        chain = random_forks(seed, operators, most_loops)
        chain, sums = graph_with_cells(chain, seed) if cells else chain, seed.choice(list(Sums))
        try:
            found = best_chain(chain, sums, most=most)
        except DoesNotFit:
            continue
        assert found.is_proven
        least = least_divided(chain, most, final_sums=sums is Sums.FINAL)
        assert found.energy_pj == pytest.approx(least, rel=1e-9), chain
        count += leave(found)
    return count


@pytest.mark.parametrize(
    ("operators", "most_loops", "most", "cases", "cells"),
    [(3, 2, 2, 60, False), (4, 1, 3, 30, False), (4, 1, 2, 20, False), (3, 1, 2, 20, True)],
)
def test_no_division_in_which_results_leave_costs_less(operators, most_loops, most, cases, cells):
    """Every division into groups that can run one after another, each in all its mappings, has the same least."""
    assert (
        check_block(f"{operators} leave, {most} together", cases, operators, most_loops, most, cells=cells) > cases / 20
    )


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
@pytest.mark.parametrize(
    ("operators", "most_loops", "most", "cases", "cells"),
    [(3, 2, 2, 60, False), (4, 2, 3, 20, False), (3, 2, 2, 20, True)],
)
def test_no_division_in_which_many_results_leave_costs_less(operators, most_loops, most, cases, cells, block):
    """600 graphs of three and 200 of four; 200 of three where homes repeat."""
    count = check_block(f"{operators} leave {block}", cases, operators, most_loops, most, cells=cells)
    assert count > 0 or cells


def check_times(name, cases, operators, most):
    """So many random graphs in time, in some of which results leave."""
    seed, count = random.Random(name), 0
    for _ in range(cases):
        chain, sums = timed_chain(random_forks(seed, operators, 1), seed), seed.choice(list(Sums))

        def every(chain, *, final_sums):
            return divided_front(chain, most, final_sums=final_sums)

        count += check_in_time(chain, sums, every, leave, most=most)
    return count


def test_no_division_in_which_results_leave_is_faster():
    """The same least latency, EDP and ED2P."""
    assert check_times("leave in time", 15, 3, 2) > 2


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
@pytest.mark.parametrize(("operators", "most", "cases"), [(3, 2, 20), (4, 3, 10)])
def test_no_division_in_which_many_results_leave_is_faster(operators, most, cases, block):
    """200 graphs of three operators and 100 of four, where in some blocks nothing leaves."""
    count = check_times(f"{operators} leave in time {block}", cases, operators, most)
    assert count > 0 or operators == 4


LINES = (
    "P[m,f] += X[m,d] * B[d,f]; m=4 f=2 d=1",
    "E[m,g] += P[m,f] * C[f,g]; m=4 g=1 f=2",
    "R[m,f] += E[m,g] * D[g,f]; m=4 f=2 g=1",
    "T[y,h] += R[y+r,f] * V[r,f,h]; y=3 r=2 f=2 h=1",
)


def placed_on(*lines):
    machine = tree(
        memory("buffer", [port("all", 8, "AO")], operands="AO"),
        replace(memory("dram", [port(of, 8, of) for of in "AWO"]), read_pj=5.0),
    )
    return tuple(PlacedNest(nest(line), 8, ("A", "W", "O"), (), machine) for line in lines)


def test_what_leaves_is_read_in_the_buffer_once_and_written_outside():
    """P stays for E and goes out to be added to R: eight elements, a pJ for each in both memories, a cycle each."""
    chain = Chain("residual", placed_on(*LINES[:3]), (Link(2), Link(0)), readers=(2, 2), more=(Reading(0, 1, 0),))
    found = best_chain(chain, most=2)
    first, last = found.groups
    assert (first.numbers, last.numbers) == ((0, 1), (2,))
    assert first.mapping.chain.links[0].leaves
    assert (first.leaving.energy_pj, first.leaving.cycles) == (2 * 8, 8)
    assert (last.met.energy_pj, last.met.cycles) == (5 * 8, 8)
    assert first.price.energy_pj == first.energy_pj + first.leaving.energy_pj
    assert not leave(best_chain(chain, most=3))


def test_operators_that_others_come_between_do_not_run_together():
    """P is read by E and by R, whose results meet in O: P and O run together with both of them or not at all."""
    lines = (LINES[0], LINES[1], LINES[1].replace("E", "R"), "O[m,e] += E[m,g] * D[g,e]; m=4 e=2 g=1")
    links, more = (Link(0), Link(0), Link(0)), (Reading(0, 1, 0),)
    chain = Chain("two ways", placed_on(*lines), links, readers=(2, 3, 3), more=more)
    assert spans_of(chain, 4) == [(0, 1), (0, 2), (1, 3), (2, 3), (1, 2, 3), (0, 1, 2, 3)]


def test_groups_that_would_wait_for_one_another_are_no_division():
    """C and D both read A and B: those that run with A wait for B, and the other way round."""
    square = "[m,n] += X[m,k] * Y[k,n]; m=2 n=2 k=2"
    *four, last = placed_on(*(name + square for name in "ABCDE"))
    operators = tuple(PlacedNest(one.nest, 8, ("A", "A", "O"), (), one.tree) for one in (*four, last))
    more = (Reading(0, 2, 0), Reading(1, 2, 1))
    chain = Chain("square", operators, (Link(0), Link(1), Link(0), Link(1)), readers=(3, 3, 4, 4), more=more)
    spans = [(0,), (1,), (2,), (3,), (4,), (0, 3), (1, 2)]
    assert set(spans[5:]) <= {*spans_of(chain, 2)}
    known = {(): {frozenset()}}
    for part, choices in divisions(chain, spans, (0, 1, 2, 3, 4)):
        known[part] = set()
        for span, others in choices:
            ways = {frozenset({span})}
            for other in others:
                ways = {one | way for one in ways for way in known[other]}
            known[part] |= ways
    assert {frozenset(one) for one in known[0, 1, 2, 3, 4]} == {
        frozenset({(0,), (1,), (2,), (3,), (4,)}),
        frozenset({(0, 3), (1,), (2,), (4,)}),
        frozenset({(0,), (3,), (1, 2), (4,)}),
    }
    assert in_turn(chain, [(0, 3), (1,), (2,), (4,)]) == [(1,), (0, 3), (2,), (4,)]


def test_windows_of_what_leaves_are_not_shared():
    """They would go out again and again."""
    chain = Chain("windows", placed_on(*LINES[2:]), (Link(0),))
    leaving = Chain("windows", chain.operators, (Link(0, leaves=True),))
    shares = [
        any(group.has_halo for group in groups_of(Task(one, Sums.FULL, (None,) * 2, 1))) for one in (chain, leaving)
    ]
    assert shares == [True, False]

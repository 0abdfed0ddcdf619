"""Results that several operators read, or that are added to what is made of them: small graphs that run together."""

import random

import pytest

from tests.helpers.fused_brute_force import graph_with_cells, random_forks
from tests.helpers.fused_in_energy import check_energy
from tests.helpers.fused_in_time import check_in_time
from tests.helpers.fused_leaving import divided_front
from tests.helpers.fused_time_brute_force import timed_chain
from tests.helpers.tiny_trees import memory, nest, port, tree
from tilestitch.base.errors import InputError
from tilestitch.commands.simulate.fused_layers import chain_run
from tilestitch.mapping.fused.chain import MOST_OPERATORS, Chain, Link, Reading
from tilestitch.mapping.fused.search import best_chain
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.tables import Sums
from tilestitch.sim.tree.chain import rooms_of


def share_results(groups):
    """Whether operators run together of which several read a result."""
    return any(group.mapping is not None and group.mapping.chain.more for group in groups)


def check_block(name, cases, operators, most_loops=2, *, cells=False):
    """So many random graphs of operators; in how many some run together that share results."""
    seed, shared = random.Random(name), 0
    for _ in range(cases):
        chain = random_forks(seed, operators, most_loops)
        groups = check_energy(graph_with_cells(chain, seed) if cells else chain, seed.choice(list(Sums)))
        shared += share_results(groups)
    return shared


@pytest.mark.parametrize(
    ("operators", "most_loops", "cases", "cells"),
    [(2, 2, 15, False), (3, 2, 12, False), (4, 1, 20, False), (3, 1, 10, True)],
)
def test_no_fused_mapping_of_operators_that_share_results_costs_less(operators, most_loops, cases, cells):
    """All orders, places, homes and shared loops have the same least: read by several, added, or met by others."""
    assert check_block(f"{operators} share", cases, operators, most_loops, cells=cells) > cases / 4


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
@pytest.mark.parametrize(("operators", "cases", "cells"), [(3, 40, False), (4, 10, False), (3, 20, True)])
def test_no_fused_mapping_of_many_operators_that_share_results_costs_less(operators, cases, cells, block):
    """400 graphs of three and 100 of four; 200 of three where homes repeat."""
    assert check_block(f"{operators} of a graph {block}", cases, operators, cells=cells) > cases / 8


def every(chain, *, final_sums):
    """All mappings, with those where results leave."""
    return divided_front(chain, MOST_OPERATORS, final_sums=final_sums)


def check_times(name, cases, operators, most_loops, *, cells=False):
    """So many random graphs, of which some run together and share results."""
    seed, shared = random.Random(name), 0
    for _ in range(cases):
        chain = random_forks(seed, operators, most_loops)
        chain = timed_chain(graph_with_cells(chain, seed) if cells else chain, seed)
        shared += check_in_time(chain, seed.choice(list(Sums)), every, lambda found: share_results(found.groups))
    assert shared > cases / 8, shared


def test_no_fused_mapping_of_operators_that_share_results_is_faster():
    """The same least latency, EDP and ED2P as among all mappings, whose times are worked out tile by tile."""
    check_times("shared in time", 6, 3, 1)
    check_times("shared in cells in time", 2, 3, 1, cells=True)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
@pytest.mark.parametrize(("operators", "cases", "cells"), [(3, 20, False), (4, 10, False), (3, 10, True)])
def test_no_fused_mapping_of_many_operators_that_share_results_is_faster(operators, cases, cells, block):
    """200 graphs of three operators and 100 of four; 100 of three where homes repeat."""
    check_times(f"{operators} of a graph in time {block}", cases, operators, 1, cells=cells)


def placed_on(lines, size):
    """Operators that pass on what they make in a buffer of so many bits; weights come from the outermost memory."""
    machine = tree(
        memory("buffer", [port("all", 8, "AO")], size=size, operands="AO"),
        memory("dram", [port(of, 8, of) for of in "AWO"]),
    )
    return tuple(PlacedNest(nest(line), 8, ("A", "W", "O"), (), machine) for line in lines)


def residual(size, *, is_added=True):
    """P of four rows and two columns, E that reads it, and R that reads E, to which P is added."""
    lines = (
        "P[m,f] += X[m,d] * B[d,f]; m=4 f=2 d=1",
        "E[m,g] += P[m,f] * C[f,g]; m=4 g=2 f=2",
        "R[m,f] += E[m,g] * D[g,f]; m=4 f=2 g=2",
    )
    if not is_added:
        return Chain("row", placed_on(lines, size), (Link(0), Link(0)))
    return Chain("graph", placed_on(lines, size), (Link(2), Link(0)), readers=(2, 2), more=(Reading(0, 1, 0),))


def rooms(chain):
    """The bits of the buffer of operators that all run together, and the loops that they share; None if they do not."""
    groups = best_chain(chain).groups
    if len(groups) > 1:
        return None
    return rooms_of(chain_run(groups[0].mapping))[0].bits, groups[0].mapping.shared


def test_what_is_added_to_a_result_stays_until_that_is_made():
    """While R makes a row one of its values is in the buffer, and rows of two of E and of P: 40 bits instead of 32.

    Without the addition the most is there while E makes a row from one of P.
    """
    assert rooms(residual(39)) is None
    assert rooms(residual(40)) == (40, (1, 1))
    assert rooms(residual(31, is_added=False)) is None
    assert rooms(residual(32, is_added=False)) == (32, (1, 1))


def test_what_several_read_is_made_once_and_takes_room_once():
    """P, and then two products of it that meet in a fourth: while U makes a row, those of P, G and U are there.

    In less room a value of G and of U is there at a time, with a row of P until the last of them has been made.
    """
    lines = (
        "P[m,f] += X[m,d] * B[d,f]; m=4 f=2 d=1",
        "G[m,g] += P[m,f] * C[f,g]; m=4 g=2 f=2",
        "U[m,g] += P[m,f] * D[f,g]; m=4 g=2 f=2",
        "O[m,e] += G[m,g] * V[g,e]; m=4 e=1 g=2",
    )
    links = (Link(0), Link(0, is_factor=True), Link(0, is_factor=True))
    more = (Reading(0, 1, 0),)
    sizes = (31, 32, 48)
    found = [rooms(Chain("gated", placed_on(lines, size), links, readers=(2, 3, 3), more=more)) for size in sizes]
    assert found == [None, (32, (1, 2, 2)), (48, (1, 1, 1))]


def test_operators_share_no_loops_without_all_that_read_their_results():
    """Rows of P are those of Q and of K, but what these make is read by S: rows of Q are, as columns it reads K."""
    lines = (
        "P[m,f] += X[m,d] * B[d,f]; m=4 f=4 d=1",
        "Q[m,e] += P[m,f] * C[f,e]; m=4 e=2 f=4",
        "K[n,e] += P[n,f] * D[f,e]; n=4 e=2 f=4",
        "S[m,n] += Q[m,e] * K[n,e]; m=4 n=4 e=2",
    )
    *three, last = placed_on(lines, 10**6)
    last = PlacedNest(last.nest, 8, ("A", "A", "O"), (), last.tree)
    links = (Link(0), Link(0), Link(1))
    whole = Chain("diamond", (*three, last), links, readers=(2, 3, 3), more=(Reading(0, 1, 0),))
    assert whole.threads(0, 3) == ()
    assert not whole.hangs_together(0, 1)
    assert not whole.hangs_together(0, 2)
    (group,) = best_chain(whole).groups
    assert group.mapping.shared[:2] == (0, 0)


@pytest.mark.parametrize(
    ("link", "more", "said"),
    [
        (Link(0), (Reading(0, 2, 2),), "its link to the last of them"),
        (Link(2), (Reading(0, 2, 2),), "every operand once"),
        (Link(2), (), "added to others and read by none"),
        (Link(2), (Reading(0, 0, 0),), "read by no operator behind it"),
    ],
)
def test_what_is_no_graph_is_refused(link, more, said):
    """Each mistake by name."""
    chain = residual(64)
    with pytest.raises(InputError, match=said):
        best_chain(Chain("graph", chain.operators, (link, Link(0)), readers=(2, 2), more=more))

"""Operators that read the results of several others: trees of them, whose results meet or are operands of their own."""

import random

import pytest

from tests.helpers.fused_brute_force import graph_with_cells, least_fused, random_graph
from tests.helpers.fused_in_energy import check_energy
from tests.helpers.fused_in_time import check_in_time
from tests.helpers.fused_time_brute_force import all_fused, timed_chain
from tests.helpers.tiny_trees import memory, nest, port, tree
from tilestitch.base.errors import InputError
from tilestitch.commands.simulate.fused_layers import chain_run
from tilestitch.mapping.fused.chain import Chain, Link
from tilestitch.mapping.fused.search import best_chain
from tilestitch.mapping.fused.spans import Task, orders_of
from tilestitch.mapping.fused.traffic import BufferedChain
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.tables import FEMTO, Sums
from tilestitch.mapping.tree.traffic import buffer_tree
from tilestitch.sim.tree.chain import rooms_of


def check_block(name, cases, operators, most_loops=2, *, cells=False):
    """So many random trees of operators; in how many all run together, and in how many some."""
    seed = random.Random(name)
    whole = some = 0
    for _ in range(cases):
        chain = random_graph(seed, operators, most_loops)
        groups = check_energy(graph_with_cells(chain, seed) if cells else chain, seed.choice(list(Sums)))
        whole += len(groups) == 1
        some += 1 < len(groups) < operators
    return whole, some


def test_no_fused_mapping_of_a_tree_of_operators_costs_less():
    """All orders of operators and loops, places, homes and shared loops, counted step by step, have the same least."""
    whole, some = check_block("trees of three 1", 6, 3)
    assert whole > 1
    more, others = check_block("small trees of three", 15, 3, 1)
    assert more > 2
    assert some + others > 0


@pytest.mark.slow
def test_no_fused_mapping_of_a_tree_of_four_operators_costs_less():
    """Two results may wait for a third, and blocks share further loops."""
    whole, _ = check_block("trees of four 1", 4, 4)
    assert whole > 0


def test_results_that_have_met_wait_as_one():
    """Two of 24 bits each take the room of one in a buffer of 64 while a third operator runs before their reader."""
    seed = random.Random("4 in a tree 5")
    chains = [(random_graph(seed, 4, 2), seed.choice(list(Sums))) for _ in range(3)]
    (group,) = check_energy(*chains[2])
    mapping = group.mapping
    assert mapping.chain.meeting(0) == (0, 1)
    assert mapping.shared == (0, 0, 0)
    (buffer,) = [room.bits for room in rooms_of(chain_run(mapping)) if room.memory == "buffer0"]
    assert buffer <= 64


def test_no_tree_of_operators_in_several_memories_costs_less():
    """All of them are spread alike over the memories that hold intermediates."""
    whole, some = check_block("trees in cells 1", 12, 3, cells=True)
    assert whole + some > 1


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
@pytest.mark.parametrize(("operators", "cases", "cells"), [(3, 40, False), (4, 10, False), (3, 20, True)])
def test_no_fused_mapping_of_many_trees_of_operators_costs_less(operators, cases, cells, block):
    """400 trees of three and 100 of four; 200 of three where homes repeat."""
    whole, some = check_block(f"{operators} in a tree {block}", cases, operators, cells=cells)
    assert whole + some > cases / 8


def check_times(name, cases, operators, most_loops, *, cells=False):
    """So many random trees, of which some run together."""
    seed = random.Random(name)
    fused = 0
    for _ in range(cases):
        chain = random_graph(seed, operators, most_loops)
        chain = timed_chain(graph_with_cells(chain, seed) if cells else chain, seed)
        fused += check_in_time(chain, seed.choice(list(Sums)), all_fused)
    assert fused > cases / 8, fused


@pytest.mark.slow
def test_no_fused_mapping_of_a_tree_of_operators_is_faster():
    """The same least latency, EDP and ED2P as among all mappings, whose times are worked out tile by tile."""
    check_times("trees in time 1", 2, 3, 2)
    check_times("trees in cells in time 1", 2, 3, 1, cells=True)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
@pytest.mark.parametrize(
    ("operators", "most_loops", "cases", "cells"), [(3, 2, 20, False), (4, 1, 10, False), (3, 2, 10, True)]
)
def test_no_fused_mapping_of_many_trees_of_operators_is_faster(operators, most_loops, cases, cells, block):
    """200 trees of three operators and 100 of four; 100 of three where homes repeat."""
    check_times(f"{operators} of a tree in time {block}", cases, operators, most_loops, cells=cells)


def test_no_fused_mapping_of_a_tree_moves_less_through_a_buffer():
    """Behind a buffer of a random capacity as much crosses as in the best of all fused mappings."""
    seed, together = random.Random("traffic of trees"), 0
    for _ in range(8):
        drawn = random_graph(seed, 3, 2, spread=False)
        nests = tuple(placed.nest for placed in drawn.operators)
        buffered = BufferedChain("drawn", nests, drawn.links, readers=drawn.readers)
        capacity = seed.randrange(buffered.whole_bits // 16, buffered.whole_bits)
        found = buffered.least_bits(capacity)
        if found is not None:
            machine = buffer_tree(capacity, buffered.whole_bits, 3)
            placed = tuple(PlacedNest(one, one.write.element_bits, machine.operands, (), machine) for one in nests)
            chain = Chain("drawn", placed, drawn.links, readers=drawn.readers)
            assert found.together == pytest.approx(least_fused(chain, final_sums=False) * FEMTO, rel=1e-9)
            together += found.together < found.apart
    assert together > 1


def placed_on(machine, *lines):
    """Operators on a machine, without anything spread."""
    return tuple(PlacedNest(nest(line), 8, ("A", "W", "O"), (), machine) for line in lines)


def gated(size):
    """G and U of four rows and two columns, multiplied and read by a third, behind a buffer of so many bits."""
    machine = tree(
        memory("buffer", [port("all", 8, "AO")], size=size, operands="AO"),
        memory("dram", [port(of, 8, of) for of in "AWO"]),
    )
    lines = ("G[m,f] += X[m,d] * B[d,f]; m=4 f=2 d=1", "O[m,e] += G[m,f] * C[f,e]; m=4 f=2 e=1")
    operators = placed_on(machine, lines[0], *lines)
    return Chain("gated", operators, (Link(0, is_factor=True),) * 2, readers=(2, 2))


def test_a_result_waits_for_what_it_meets():
    """While U makes a row of two values of 8 bits, one of X is in the buffer, and the same row of G: 40 bits in all.

    In less room a value of each is there at a time. With all rows of both it is eight values each and one of X, 136
    bits, and weights come once instead of for each row.
    """
    shared = {}
    for size in (39, 40, 135, 136):
        groups = best_chain(gated(size)).groups
        shared[size] = groups[0].mapping.shared if len(groups) == 1 else None
    assert shared[39] == (2, 2)
    assert shared[40] == (1, 1)
    assert shared[135] != (0, 0)
    assert shared[136] == (0, 0)


def test_alike_operators_run_in_one_order_and_others_in_each():
    """Two that differ in nothing but names need not change places."""
    chain = gated(64)
    task = Task(chain, Sums.FULL, (None,) * 3, 10**6)
    assert orders_of(task) == [(0, 1, 2)]
    passes = Task(Chain("other", chain.operators, (Link(0), Link(0, passes=1)), readers=(2, 2)), *_rest(task))
    assert orders_of(passes) == [(0, 1, 2), (1, 0, 2)]


def _rest(task):
    return task.sums, task.spaces, task.most_labels


@pytest.mark.parametrize("readers", [(2,), (0, 2), (3, 2), (1, 1)])
def test_what_is_no_tree_is_refused(readers):
    """Every result but the last is read by one operator behind it."""
    chain = gated(64)
    with pytest.raises(InputError, match="gated:"):
        best_chain(Chain("gated", chain.operators, chain.links, readers=readers))

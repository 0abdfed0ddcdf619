"""The least latency, and the least of energy and latency together, of chains of operators that run together."""

import random
from math import prod

import pytest

from tests.helpers.fused_brute_force import random_chain, windows_in_a_row, with_cells
from tests.helpers.fused_in_time import check_in_time
from tests.helpers.fused_time_brute_force import all_fused, timed_chain
from tests.helpers.tiny_trees import memory, nest, port, tree
from tilestitch.base.errors import DoesNotFit
from tilestitch.commands.map.fused_run import FuseOptions, map_fused
from tilestitch.commands.simulate.fused_layers import chain_run
from tilestitch.ir.choices import Objective
from tilestitch.mapping.fused import fold
from tilestitch.mapping.fused.chain import Chain, Link
from tilestitch.mapping.fused.mapping import FusedMapping
from tilestitch.mapping.fused.price import fused_price
from tilestitch.mapping.fused.search import best_chain
from tilestitch.mapping.tree import choices
from tilestitch.mapping.tree.chain import TreeMapping
from tilestitch.mapping.tree.choices import SpatialSpace
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.tables import Sums
from tilestitch.sim.tree.chain_simulated import run_chain


def check_block(name, cases, operators, most_loops):
    """So many random chains, of which some run together in their best mapping."""
    seed = random.Random(name)
    fused = 0
    for _ in range(cases):
        chain = timed_chain(random_chain(seed, operators, most_loops), seed)
        fused += check_in_time(chain, seed.choice(list(Sums)), all_fused)
    assert fused > cases / 8, fused


def test_ways_that_are_joined_in_parts_are_those_joined_at_once(monkeypatch):
    """The same mapping, to the last cut, however many ways are looked at together."""
    seed, together = random.Random("joined in parts"), 0
    for _ in range(3):
        chain = timed_chain(random_chain(seed, 3, 2), seed)
        sums, found = seed.choice(list(Sums)), []
        for pairs in (5, 2**16):
            monkeypatch.setattr(fold, "PAIRS", pairs)
            try:
                found.append(best_chain(chain, sums, objective=Objective.EDP))
            except DoesNotFit:
                found.append(None)
        assert found[0] == found[1]
        together += found[0] is not None and len(found[0].groups) < len(chain.operators)
    assert together


def saturated(width):
    """Two operators in visits of eight steps; one port of a buffer serves both, and what comes from outside."""
    inside = memory("buffer", [port("all", width, "AO")], operands="AO", buffers=2)
    outside = memory("dram", [port(of, 64, of) for of in "AWO"])
    machine = tree(inside, outside)
    lines = ("S[m] += A[m] * W[m]; m=32", "O[m] += S[m] * V[m]; m=32")
    operators = tuple(PlacedNest(nest(line), 8, ("A", "W", "O"), (), machine) for line in lines)
    loops = ((0, 8), (0, 2), (0, 2))
    mappings = (TreeMapping(loops, ((2, 3), (3,), (3,))), TreeMapping(loops, ((3,), (3,), (1, 3))))
    return FusedMapping(Chain("two", operators, (Link(0),)), ((), ()), mappings, ("buffer",), (2,))


def test_a_port_is_busy_for_visits_and_for_what_crosses_outside_of_them():
    """A port of a byte a cycle never rests: 32 values of A come in and go to the units, S and O come from them and go.

    32 of the 6 x 32 cycles are for A that comes in while visits go on, so the times of visits alone do not say it.
    """
    found = run_chain(chain_run(saturated(8)))
    (busy,) = [one.cycles for one in found.ports if one.port == "buffer.all"]
    assert busy == 6 * 32 == fused_price(saturated(8)).latency_cycles == found.cycles
    assert fused_price(saturated(64)).latency_cycles < busy


def test_what_lies_inside_of_loops_around_a_block_is_lost_when_others_run():
    """The first two of three operators share a loop more; the third one runs between their visits, row by row.

    Weights of the first that lie outside of that loop are the same for all four rows, and come for each: 4 x 4 bytes,
    as no room is kept for them while the third one runs.
    """
    inside = memory("buffer", [port("all", 64, "AO")], operands="AO")
    weights, outside = memory("weights", [port("all", 64, "W")], operands="W"), [port(of, 8, of) for of in "AWO"]
    machine = tree(weights, inside, memory("dram", outside))
    lines = (
        "S[m,n] += A[m,k] * W[n,k]; m=4 n=2 k=2",
        "T[m,e] += S[m,n] * V[n,e]; m=4 n=2 e=2",
        "O[m,f] += T[m,e] * Z[e,f]; m=4 e=2 f=1",
    )
    operators = tuple(PlacedNest(nest(line), 8, ("A", "W", "O"), (), machine) for line in lines)
    loops = ((2, 2), (1, 2), (0, 4)), ((2, 2), (1, 2), (0, 4)), ((1, 2), (0, 4))
    cuts = ((2, 3), (2, 3), (3,)), ((3,), (2, 3), (3,)), ((2,), (1, 2), (1, 2))
    mappings = tuple(map(TreeMapping, loops, cuts))
    fused = FusedMapping(Chain("three", operators, (Link(0), Link(0))), ((),) * 3, mappings, ("buffer",) * 2, (2, 1))
    (fetched,) = [one.accesses for one in fused_price(fused).flows[0] if (one.operand, one.memory) == (1, "dram")]
    assert fetched == 16
    run = chain_run(fused)
    (moved,) = [one.accesses for one in run_chain(run).flows[0] if (one.operand, one.memory) == ("W", "dram")]
    assert moved == 16


def test_windows_are_made_again_in_the_latency_too():
    """Units step for every window that is made again."""
    seed, again = random.Random("windows in time"), 0
    for _ in range(12):
        try:
            found = best_chain(timed_chain(windows_in_a_row(seed), seed))
        except DoesNotFit:
            continue
        for group in found.groups:
            if group.mapping is None:
                continue
            extents, times = group.mapping.inside(0, group.mapping.own_loops(0)[0])
            steps = prod(extents) * times + prod(group.mapping.chain.operators[1].nest.extents)
            again += times > 1
            assert group.price.latency_cycles >= steps
    assert again > 0


def test_of_some_choices_nothing_is_called_proven(monkeypatch):
    """Where there are too many ways to spread loops the bound is below what was found."""
    line = "S[m,n] += Q[m,d] * K[n,d]; O[m,e] += S[m,n] * V[n,e]; m=8 n=8 d=4 e=4"
    ((_, whole),) = map_fused(line, "tpu-like", FuseOptions(2)).chains
    monkeypatch.setattr(choices, "MOST_ROWS", 6)
    ((_, some),) = map_fused(line, "tpu-like", FuseOptions(2)).chains
    assert whole.is_proven
    assert not some.is_proven
    assert some.bound <= whole.energy_pj * (1 + 1e-12) <= some.energy_pj * (1 + 1e-9)


@pytest.mark.parametrize("objective", [Objective.LATENCY, Objective.EDP])
def test_cells_that_leave_too_many_units_idle_are_left_out(objective):
    """One or two arrays of four have too few units where six tenths of all must have work."""
    line = "S[m,n] += Q[m,d] * K[n,d]; O[m,e] += S[m,n] * V[n,e]; m=128 n=128 d=128 e=128"
    options = FuseOptions(2, objective=objective, space=SpatialSpace(least_use=0.6))
    ((_, found),) = map_fused(line, "tpu-v4i", options).chains
    (group,) = found.groups
    assert [factor for _, _, factor in group.mapping.chain.cells.spread] in ([4], [2, 2])
    assert found.is_proven


def test_no_fused_mapping_of_two_products_is_faster():
    """All orders, places, homes and shared loops of small random chains have the same least latency, EDP and ED2P."""
    check_block("two in time", 4, 2, 3)


def test_no_fused_mapping_of_longer_chains_is_faster():
    """Three products and four: what blocks share, and what is brought while others run."""
    check_block("3 products in time 0", 2, 3, 2)
    check_block("4 products in time 0", 1, 4, 2)


def test_no_mapping_with_an_intermediate_in_several_memories_is_faster():
    """Each holds its part; what crosses around the cells serves all of them."""
    seed = random.Random("cells in time")
    chains = [timed_chain(with_cells(random_chain(seed, 2, 2), seed), seed) for _ in range(5)]
    assert sum(check_in_time(chain, seed.choice(list(Sums)), all_fused) for chain in chains) > 1


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
def test_no_mapping_of_many_with_an_intermediate_in_several_memories_is_faster(block):
    """100 chains of two products."""
    seed = random.Random(f"in cells {block}")
    chains = [timed_chain(with_cells(random_chain(seed, 2, 2), seed), seed) for _ in range(25)]
    assert sum(check_in_time(chain, seed.choice(list(Sums)), all_fused) for chain in chains) > 5


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
@pytest.mark.parametrize(("operators", "most_loops", "cases"), [(2, 3, 20), (3, 2, 10), (4, 2, 3)])
def test_no_fused_mapping_of_many_chains_is_faster(operators, most_loops, cases, block):
    """200 chains of two products, 100 of three, and 30 of four."""
    check_block(f"{operators} products in time {block}", cases, operators, most_loops)

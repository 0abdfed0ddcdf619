"""Operators that run together on trees, simulated: values, traffic, cycles against a second clock and by hand."""

import random
from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.chain_checking import check_group
from tests.helpers.command import run as command
from tests.helpers.fused_brute_force import random_chain, random_forks, random_graph, with_cells
from tests.helpers.fused_time_brute_force import timed_chain
from tests.helpers.tiny_trees import memory, nest, port, tree
from tests.helpers.tree_cycles import chain_cycles
from tilestitch.base.errors import DoesNotFit, InvalidIR
from tilestitch.commands.map.fused_run import FuseOptions, map_fused
from tilestitch.commands.map.tree_machines import open_tree
from tilestitch.commands.simulate.fused_layers import chain_run, simulate_fused
from tilestitch.hardware.tree import Axis, Flow
from tilestitch.ir.choices import Objective, Values
from tilestitch.mapping.fused.search import best_chain
from tilestitch.sim.tree.chain import ChainLink, ChainRun
from tilestitch.sim.tree.chain_simulated import run_chain, simulate_chain
from tilestitch.sim.tree.run import TreeRun

TWO_ON_TPU = "S[m,n] += Q[m,d] * K[n,d]; O[m,e] += softmax(S[m,n]) * V[n,e]; m=64 n=32 d=16 e=16"

IN_TURN = (Objective.ENERGY, Objective.LATENCY, Objective.EDP)

TPU = open_tree("tpu-v4i").tree


def fused_groups(seed, operators, most_loops, *, cells=False):
    """The groups of a random chain's best mapping in which operators run together."""
    drawn = random_chain(seed, operators, most_loops)
    chain = timed_chain(with_cells(drawn, seed) if cells else drawn, seed)
    objective = seed.choice((Objective.ENERGY, Objective.LATENCY, Objective.EDP))
    try:
        found = best_chain(chain, objective=objective)
    except DoesNotFit:
        return []
    return [group for group in found.groups if group.mapping is not None]


@pytest.mark.parametrize(("operators", "most_loops", "cases"), [(2, 3, 8), (3, 2, 6), (4, 2, 3)])
def test_random_chains_compute_what_numpy_does_and_move_what_they_are_priced_for(operators, most_loops, cases):
    """Of every operand in every memory; in the cycles of a second clock that skips nothing."""
    seed = random.Random(f"a few chains of {operators}")
    assert sum(len([check_group(group) for group in fused_groups(seed, operators, most_loops)]) for _ in range(cases))


@pytest.mark.parametrize(
    ("operators", "cases"),
    [(3, 10), pytest.param(3, 60, marks=pytest.mark.slow), pytest.param(4, 30, marks=pytest.mark.slow)],
)
def test_operators_that_read_several_results_compute_what_numpy_does(operators, cases):
    """Values, traffic, rooms and cycles as above, of random trees of operators; results that meet as well."""
    seed, groups = random.Random(f"{cases} trees of {operators}"), []
    for _ in range(cases):
        try:
            found = best_chain(
                timed_chain(random_graph(seed, operators, 2), seed), objective=seed.choice(list(IN_TURN))
            )
        except DoesNotFit:
            continue
        groups += [group for group in found.groups if group.mapping is not None]
    assert len([check_group(group) for group in groups]) > cases / 3
    assert {len(group.mapping.chain.meeting(0)) for group in groups} >= {1, 2}


@pytest.mark.parametrize(
    ("operators", "cases"),
    [(3, 12), (4, 6), pytest.param(3, 60, marks=pytest.mark.slow), pytest.param(4, 30, marks=pytest.mark.slow)],
)
def test_operators_that_share_results_compute_what_numpy_does(operators, cases):
    """The same where several operators read a result, or where it is added to what is made of it."""
    seed, chains = random.Random(f"{cases} graphs of {operators}"), []
    for _ in range(cases):
        chain = timed_chain(random_forks(seed, operators, 2 if operators == 3 else 1), seed)
        try:
            found = best_chain(chain, objective=seed.choice(list(IN_TURN)))
        except DoesNotFit:
            continue
        groups = [group for group in found.groups if group.mapping is not None]
        assert len([check_group(group) for group in groups]) == len(groups)
        chains += [group.mapping.chain for group in groups]
    assert sum(bool(chain.more) for chain in chains) > cases / 4
    assert any(chain.added for chain in chains)


SHARED = {
    "diamond": "A[m,d] += X[m,c] * W[c,d]; Q[m,e] += A[m,d] * V[d,e]; K[n,e] += A[n,d] * U[d,e]; "
    "S[m,n] += Q[m,e] * K[n,e]; m=8 n=8 c=4 d=4 e=4",
    "gated": "A[m,d] += X[m,c] * W[c,d]; G[m,f] += A[m,d] * V[d,f]; U[m,f] += A[m,d] * B[d,f]; "
    "O[m,e] += (G[m,f] * U[m,f]) * C[f,e]; m=8 c=4 d=4 f=8 e=4",
    "residual": "P[m,d] += X[m,c] * W[c,d]; E[m,f] += P[m,d] * V[d,f]; R[m,d] += E[m,f] * U[f,d] + P[m,d]; "
    "O[m,e] += R[m,d] * T[d,e]; m=8 c=4 d=4 f=8 e=4",
}


@pytest.mark.parametrize("values", [Values.INTEGERS, Values.FLOATS])
@pytest.mark.parametrize("most", [2, 3, 4])
@pytest.mark.parametrize("name", SHARED)
def test_results_that_several_read_are_right_wherever_they_come_from(name, most, values):
    """Made in the group or before it, read or added."""
    mapped = map_fused(SHARED[name], "tpu-v4i", FuseOptions(most))
    (found,) = simulate_fused(mapped, values, lambda *_: None)
    assert max(len(group.found.numbers) for group in found.groups) == most
    runs = [group.simulated.run for group in found.groups if group.found.mapping is not None]
    assert any(link.leaves for run in runs for link in run.links) == (most == 2)


GATED = "G[m,f] += X[m,d] * A[d,f]; U[m,f] += X[m,d] * B[d,f]; O[m,e] += (G[m,f] {} U[m,f]) * C[f,e]; m=16 f=8 d=4 e=4"


@pytest.mark.parametrize("meets", ["*", "+"])
@pytest.mark.parametrize(("most", "values"), [(2, Values.INTEGERS), (3, Values.INTEGERS), (3, Values.FLOATS)])
def test_results_that_meet_are_right_wherever_they_come_from(meets, most, values):
    """Made in the group or before it: what is read at home is the product of both, or their sum."""
    mapped = map_fused(GATED.format(meets), "tpu-v4i", FuseOptions(most))
    (found,) = simulate_fused(mapped, values, lambda *_: None)
    assert [len(group.found.numbers) for group in found.groups] == ([1, 2] if most == 2 else [3])


def test_a_result_from_further_out_meets_the_tile_that_is_made():
    """G as a whole waits at home while each row of U is made and read: the second factor is that row of it."""
    machine = tree(
        memory("buffer", [port("all", 8, "AO")], operands="AO"), memory("dram", [port(of, 8, of) for of in "AWO"])
    )
    names, rows = ("A", "W", "O"), 4
    first = replace(nest(f"G[m,f] += X[m,d] * A[d,f]; m={rows} f=2 d=1"), name="first")
    second = replace(nest(f"U[m,f] += X[m,d] * B[d,f]; m={rows} f=2 d=1"), name="second")
    last = replace(nest(f"O[m,e] += G[m,f] * C[f,e]; m={rows} f=2 e=1"), name="last")
    loops = ((1, 2), (0, rows))
    one = TreeRun(first, machine, names, 8, (), loops, ((1, 2), (2,), (2,)))
    two = TreeRun(second, machine, names, 8, (), loops, ((1, 2), (2,), (2,)))
    three = TreeRun(last, machine, names, 8, (), loops, ((2,), (2,), (1, 2)))
    links = (ChainLink(0, "buffer", 0, is_factor=True), ChainLink(0, "buffer", 1, is_factor=True))
    run = ChainRun((one, two, three), links, (2, 2))
    draw = np.random.default_rng(1)
    x, y = (draw.integers(-9, 9, (rows, 1)).astype(np.int32) for _ in range(2))
    a, b, c = (draw.integers(-9, 9, shape).astype(np.int32) for shape in ((1, 2), (1, 2), (2, 1)))
    assert (run_chain(run, [[x, a], [y, b], [None, c]]).result == ((x @ a) * (y @ b)) @ c).all()
    assert run.home_shape(0) == (4, 2)
    assert run.home_shape(1) == (1, 2)
    # while U is made: all of G, a row of U, and one row of X
    assert [(room.memory, room.bits) for room in simulate_chain(run).rooms] == [("buffer", 64 + 16 + 8)]


def groups_in_cells(seed, cases):
    """Such groups of random chains where several memories hold a part of an intermediate each."""
    found = [group for _ in range(cases) for group in fused_groups(seed, seed.choice((2, 3)), 2, cells=True)]
    return [group for group in found if group.mapping.chain.cells.spread]


def test_random_chains_whose_intermediates_lie_in_several_memories_compute_the_same():
    """Values, traffic and cycles as above; one pass in each of these memories takes all of them."""
    groups = groups_in_cells(random.Random("a few cells"), 14)
    assert len([check_group(group) for group in groups]) > 2
    assert any(any(link.passes for link in group.mapping.chain.links) for group in groups)


def test_a_pass_goes_on_in_all_memories_that_hold_a_part_at_the_same_time():
    """Softmax of 64 x 32 scores in four memories of 640 bytes a cycle: 512 bytes of each, read and written in one."""
    ((_, found),) = map_fused(TWO_ON_TPU, "tpu-v4i", FuseOptions(2, objective=Objective.LATENCY)).chains
    (group,) = found.groups
    assert group.mapping.chain.cells.with_one_of(next(one for one in TPU.memories if one.name == "vmem")) == 4
    simulated = check_group(group)
    assert simulated.cycles == group.price.latency_cycles
    assert sum(flow.accesses for flow in simulated.passes[0]) == 2 * 64 * 32 * 8 / 1024


def test_what_is_spread_over_homes_has_to_be_the_same():
    """A part that another cell made would not be there."""
    (group, *_) = groups_in_cells(random.Random("a few cells"), 14)
    run = chain_run(group.mapping)
    first = run.operators[0]
    cell = next(one for one in first.spread if one[0] == "cell")
    spread = tuple(("D9", *one[1:]) if one == cell else one for one in first.spread)
    memories = tuple(replace(one, serves=(*one.serves, "D9")) for one in first.tree.memories)
    tree = replace(first.tree, axes=(*first.tree.axes, Axis("D9", 4)), memories=memories)
    moved = replace(run, operators=(replace(first, spread=spread, tree=tree), *run.operators[1:]))
    with pytest.raises(InvalidIR, match="is spread over the memories buffer"):
        run_chain(moved)


@pytest.mark.slow
@pytest.mark.parametrize(("operators", "most_loops", "cases"), [(2, 4, 60), (3, 3, 40), (4, 2, 40)])
def test_more_random_chains(operators, most_loops, cases):
    """The same of many, of which enough run together."""
    seed = random.Random(f"chains of {operators}")
    counts = [len([check_group(group) for group in fused_groups(seed, operators, most_loops)]) for _ in range(cases)]
    assert sum(map(bool, counts)) > cases / 3


@pytest.mark.parametrize("machine", ["tpu-v4i", "tpu-like"])
def test_visits_of_many_steps_take_the_cycles_of_the_second_clock(machine):
    """Steps that are like the one before are counted at once, in turns as well; spread over units."""
    ((_, found),) = map_fused(TWO_ON_TPU, machine, FuseOptions(2)).chains
    (group,) = found.groups
    simulated = check_group(group)
    if machine == "tpu-like":
        assert simulated.events < simulated.cycles


def product_after_product(shared, *, size=10**6, buffers=1, rows=4, width=64):
    """O = (A x W) x V with the intermediate in a buffer, of which so many rows are there at a time."""
    inside = memory("buffer", [port("all", width)], size=size, buffers=buffers, operands="AO")
    outside = memory("dram", [port("A", 8, "A"), port("W", 64, "W"), port("O", 8, "O")])
    machine = tree(inside, outside)
    first = replace(nest(f"S[m,n] += A[m,k] * W[n,k]; m={rows} n=2 k=2"), name="first")
    last = replace(nest(f"O[m,e] += S[m,n] * V[n,e]; m={rows} n=2 e=2"), name="last")
    # loops from the innermost; the rows are outermost
    one = TreeRun(first, machine, ("A", "W", "O"), 8, (), ((2, 2), (1, 2), (0, rows)), ((2, 3), (3,), (3,)))
    two = TreeRun(last, machine, ("A", "W", "O"), 8, (), ((1, 2), (2, 2), (0, rows)), ((3,), (3,), (2, 3)))
    return ChainRun((one, two), (ChainLink(0, "buffer", shared),))


def test_an_intermediate_takes_the_room_of_one_tile():
    """Two values of a row at home at a time instead of all eight, and of A, or of O, a row beside it."""
    shared, whole = (simulate_chain(product_after_product(shared)) for shared in (1, 0))
    assert [(room.memory, room.bits) for room in shared.rooms] == [("buffer", 32)]
    assert [(room.memory, room.bits) for room in whole.rooms] == [("buffer", 80)]
    assert simulate_chain(product_after_product(1, size=32)).cycles == shared.cycles
    with pytest.raises(InvalidIR, match="needs 32 bits and has 31"):
        simulate_chain(product_after_product(1, size=31))


def test_nothing_of_an_intermediate_leaves_its_home():
    """Each of its values is written there once for each sum and read once; DRAM sees inputs and results alone."""
    found = simulate_chain(product_after_product(1))
    seen = {flow.operand for flows in found.flows for flow in flows if flow.memory == "dram"}
    assert seen == {"A", "W", "V", "O"}
    at_home = {(flow.operand, flow.flow) for flows in found.flows for flow in flows if flow.memory == "buffer"}
    assert {("S", Flow.COLLECT), ("S", Flow.FEED)} <= at_home


def test_what_others_have_overwritten_is_fetched_again():
    """Four weights of the first operator are the same for all four rows, and come for each: 16 accesses of a byte."""
    run = product_after_product(1)
    one = run.operators[0]
    weights = memory("weights", [port("all", 64, "W")], operands="W")
    inside, outside = one.tree.memories
    ports = [port(of, 8, of) for of in "AWO"]
    machine = tree(weights, inside, replace(outside, ports=tuple(ports)))
    placed = [replace(own, tree=machine, cuts=(own.cuts[0], (2, 3), own.cuts[2])) for own in run.operators]
    found = simulate_chain(replace(run, operators=tuple(placed)))
    (fetched,) = [one.accesses for one in found.flows[0] if (one.operand, one.memory) == ("W", "dram")]
    assert fetched == 16


def test_a_loop_that_is_not_shared_is_refused():
    """Rows of the one operator are no columns of the other."""
    run = product_after_product(1)
    two = run.operators[1]
    moved = replace(two, loops=((2, 2), (0, 4), (1, 2)), cuts=((3,), (3,), (2, 3)))
    with pytest.raises(InvalidIR, match="the outermost 1 loops are not the same"):
        simulate_chain(replace(run, operators=(run.operators[0], moved)))
    whole = replace(run, links=(replace(run.links[0], whole=frozenset({0})),))
    with pytest.raises(InvalidIR, match="divides what is needed as a whole"):
        simulate_chain(whole)


def test_rows_of_an_intermediate_take_turns_at_home():
    """The result is that of all rows, though the home has two values."""
    run = product_after_product(1)
    ones = np.ones((2, 2), np.int32)
    rows = np.arange(8, dtype=np.int32).reshape(4, 2)
    assert (run_chain(run, [[rows, ones], [None, ones]]).result == rows @ ones @ ones).all()
    assert run.home_shape(0) == (1, 2)


@pytest.mark.parametrize(("buffers", "cycles"), [(2, 95), (1, 99)])
def test_turns_take_what_is_worked_out_by_hand(buffers, cycles):
    """Four times eight values, in two visits each, with 16 values of A at a time in a buffer outside of the visits.

    A visit is a cycle until its first value is at the units, eight steps, and a cycle for the last result: 20 cycles
    for both. The first 16 cycles bring values of A, of which the units get the first with the last: 15 more. With two
    buffers the next 16 come meanwhile. With one they begin to come when the units have used the last of those before,
    in cycle 35 + 1 + 8 = 44, and are there in cycle 60: five later than the third pair of visits begins, of which one
    brings the first value to the units as always.
    """
    flows = [("in", "A", Flow.FILL), ("out", "A", Flow.FEED), ("sums", "O", Flow.COLLECT), ("go", "O", Flow.DRAIN)]
    ports = [port(name, 64, of, (flow,)) for name, of, flow in flows]
    inside = memory("buffer", ports, buffers=buffers, operands="AO", ahead=("O",))
    outside = memory("dram", [port(of, 8, of) for of in "AWO"])
    machine = tree(inside, outside)
    first = replace(nest("S[m] += A[m] * W[m]; m=32"), name="first")
    last = replace(nest("O[m] += S[m] * V[m]; m=32"), name="last")
    loops, names = ((0, 8), (0, 2), (0, 2)), ("A", "W", "O")
    one = TreeRun(first, machine, names, 8, (), loops, ((2, 3), (3,), (3,)))
    two = TreeRun(last, machine, names, 8, (), loops, ((3,), (3,), (0, 3)))
    run = ChainRun((one, two), (ChainLink(0, "buffer", 2),))
    assert simulate_chain(run).cycles == cycles == chain_cycles(run)


def test_the_command_runs_fused_mappings(golden):
    """Values, cycles and energies, of a chain with softmax."""
    found = command("simulate", TWO_ON_TPU, "--machine", "tpu-v4i", "--fuse", 2, "--objective", "energy", "--stats")
    assert found.exit_code == 0, found.output
    golden("simulate_fused.txt", found.stdout)

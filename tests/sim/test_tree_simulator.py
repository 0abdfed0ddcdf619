"""Mappings on trees, simulated: values, cycles against a second clock and by hand, energies, bounds."""

import random
from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.tiny_trees import memory, port, tree
from tests.helpers.tiny_trees import run as run_of
from tests.helpers.tree_amounts import work_of_port
from tests.helpers.tree_cycles import cycles_of
from tests.helpers.tree_draws import drawn, every_kind
from tilestitch.base.errors import InputError, InvalidIR
from tilestitch.hardware.tree import Axis, Flow, Network
from tilestitch.ir.choices import Values
from tilestitch.mapping.tree.chain import price
from tilestitch.sim.tree import simulated
from tilestitch.sim.tree.simulated import run_on_tree, simulate_on_tree
from tilestitch.sim.tree.streams import streams_of


def check(seed, count, most_loops):
    for placed, mapping, run in drawn(seed, count, most_loops, every_kind):
        found = simulate_on_tree(run)  # holds the values against numpy's
        assert found.cycles == cycles_of(run), run
        assert sum(found.cycles_by_cause.values()) == found.cycles
        assert found.cycles_by_cause["compute"] == run.iterations
        assert found.cycles >= max([run.iterations, *(port.cycles for port in found.ports)])
        assert simulate_on_tree(run, values=Values.NONE).cycles == found.cycles
        if run.tree.reads_first_sums:
            assert {port.port: port.cycles for port in found.ports} == work_of_port(streams_of(run))
        if not with_shared_windows(placed):
            assert found.energy_pj == pytest.approx(price(placed, mapping).energy_pj, rel=1e-9), run


def with_shared_windows(placed):
    """Whether windows overlap over units: then the model counts their parts from what is spread alone."""
    windows = {loop for array in placed.operands for terms in array.axes if len(terms) > 1 for loop, _ in terms}
    return any(one.loop in windows for one in placed.unrolled)


@pytest.mark.parametrize("seed", ["fast", "a"])  # the second has a nest to which it matters which results are urgent
def test_random_mappings_compute_what_numpy_does_in_the_cycles_of_a_second_clock(seed):
    """Values, cycles, causes, and energies where nothing overlaps over the units."""
    check(random.Random(seed), 40, 5)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_more_random_mappings(block):
    """The same of 400, of up to nine prime loops."""
    check(random.Random(f"slow {block}"), 40, 9)


@pytest.mark.slow
def test_floats_are_within_rounding():
    """The same programs on floats; the result is held against numpy's inside."""
    for _, _, run in drawn(random.Random("floats"), 3, 6):
        found = simulate_on_tree(run, values=Values.FLOATS)
        assert found.result is not None
        assert found.result.dtype == np.float32


PAIRS = "O[x] += A[x] * W[x]; x=4"
SUM = "O[m] += A[k] * W[m,k]; m=2 k=4"


def test_one_port_moves_one_tile_at_a_time():
    """Two inputs and a result for each of four steps, a cycle each, through one port that is never idle."""
    one = run_of(tree(memory("dram", [port("all", 8)])), PAIRS, ((0, 4),), ((1,), (1,), (1,)))
    found = simulate_on_tree(one)
    assert found.cycles == 12
    assert [(busy.port, busy.cycles) for busy in found.ports] == [("dram.all", 12)]


def test_ports_of_their_own_work_at_the_same_time():
    """A cycle for the first inputs, four steps, a cycle for the last result."""
    ports = [port(operand, 8, operand) for operand in "AWO"]
    found = simulate_on_tree(run_of(tree(memory("dram", ports)), PAIRS, ((0, 4),), ((1,), (1,), (1,))))
    assert found.cycles == 6
    assert found.cycles_by_cause == {
        "compute": 4, "first_load": 1, "last_store": 1, "waits_for_A": 0, "waits_for_W": 0, "waits_for_O": 0
    }  # fmt: skip


@pytest.mark.parametrize("buffers, cycles", [(1, 4 * (4 + 4) + 1), (2, 4 + 4 * 4 + 1)])
def test_a_second_buffer_hides_what_one_waits_for(buffers, cycles):
    """Tiles of four values take four cycles to arrive, and four steps to be used up; a result leaves at the end.

    What arrives goes on to the units as it comes, so that nothing is added for them.
    """
    inside = memory("buffer", [port("in", 8, "W", (Flow.FILL,)), port("out", 8, "W", (Flow.FEED,))],
                    operands="W", buffers=buffers)  # fmt: skip
    outside = memory("dram", [port("W", 8, "W"), port("A", 64, "A"), port("O", 64, "O")])
    loops = ((0, 4), (1, 4))
    one = run_of(tree(inside, outside), "O[x,y] += A[x,y] * W[x,y]; x=4 y=4", loops, ((2,), (1, 2), (2,)))
    assert simulate_on_tree(one).cycles == cycles


def test_a_sum_that_begins_comes_as_the_one_before_leaves():
    """Two sums of two steps each, in one place: a cycle to load, two steps, a cycle in which the first sum leaves and
    the zero of the second comes through another port, two steps, and a cycle to store."""
    flows = (Flow.FEED, Flow.COLLECT, Flow.DRAIN)
    sums = memory("sums", [port(flow.value, 8, "O", (flow,)) for flow in flows], operands="O")
    outside = memory("dram", [port(operand, 8, operand) for operand in "AWO"])
    machine = tree(sums, outside, reads_first_sums=True)
    one = run_of(machine, "O[x] += A[k,x] * W[k,x]; x=2 k=2", ((1, 2), (0, 2)), ((2,), (2,), (1, 2)))
    assert simulate_on_tree(one).cycles == 1 + 2 + 1 + 2 + 1


def test_what_is_needed_first_goes_first():
    """A port has a value for every other step to bring, and 16 cycles of work for the second half: no step waits.

    First 16 cycles for the tile of the first half and one for the first value; 64 steps; a cycle for the last result.
    """
    ports = [port("in", 128, "W", (Flow.FILL,)), port("out", 64, "W", (Flow.FEED,))]
    inside = memory("buffer", ports, operands="W", buffers=2)
    outside = memory("dram", [port("AW", 8, "AW"), port("O", 64, "O")])
    loops = ((0, 2), (1, 16), (2, 2))
    one = run_of(tree(inside, outside), "O[k,x,y] += A[x,y] * W[k,y]; k=2 x=16 y=2", loops, ((3,), (1, 3), (3,)))
    values, weights = one.nest.reads
    one = replace(one, nest=replace(one.nest, reads=(values, replace(weights, element_bits=64))))
    assert simulate_on_tree(one).cycles == 17 + 64 + 1


def test_sums_leave_before_inputs_come_where_others_wait_for_their_place():
    """One port does all for a memory with room for one sum, and is never idle until the last step.

    Eight cycles bring all values, one the first of them to the units, and two its sum. While the units step the next
    value comes; then the sum leaves in two cycles, and the next one comes in two. The last one leaves in two.
    """
    registers = memory("registers", [port("all", 8, "AO")], operands="AO")
    outside = memory("dram", [port(operand, 8, operand) for operand in "AWO"])
    one = run_of(tree(registers, outside), "O[x] += A[k,x] * W[k]; x=4 k=2", ((0, 4), (1, 2)), ((2, 2), (2,), (0, 2)))
    found = simulate_on_tree(one)
    assert found.cycles == 8 + 1 + 2 + 8 + 7 * (2 + 2) + 2 == cycles_of(one)


def test_units_that_add_to_the_same_sum_send_it_once():
    """A reduction over four units: each has a copy of the sum, one crosses the border, the result is whole."""
    registers = memory("registers", [port("all", 8, "O")], operands="O")
    outside = memory("dram", [port(operand, 8, operand) for operand in "AWO"], serves=("units",))
    machine = tree(registers, outside, axes=(Axis("units", 4),))
    found = simulate_on_tree(run_of(machine, SUM, ((0, 2),), ((1,), (1,), (0, 1)), (("units", 1, 4),)))
    collected = [flow.accesses for flow in found.flows if (flow.memory, flow.flow) == ("dram", Flow.COLLECT)]
    assert collected == [2]


@pytest.mark.parametrize("cycles", [250, 100])
def test_steps_that_are_counted_at_once_take_the_same_cycles(cycles, monkeypatch):
    """The port that brings the next tile has to begin at once where it needs all of the 250 steps of this one.

    The first tile takes its cycles, then there are 2,000 steps without a wait, and a cycle for the last result.
    """
    ports = [port("in", 2000, "W", (Flow.FILL,)), port("out", 2000, "W", (Flow.FEED,))]
    inside = memory("buffer", ports, operands="W", buffers=2)
    outside = memory("dram", [port(operand, 8, operand) for operand in "AWO"])
    loops = ((0, 250), (1, 8))
    one = run_of(tree(inside, outside), "O[x,y] += A[x,y] * W[y]; x=250 y=8", loops, ((2,), (1, 2), (2,)))
    values, weights = one.nest.reads
    one = replace(one, nest=replace(one.nest, reads=(values, replace(weights, element_bits=8 * cycles))))
    found = simulate_on_tree(one)
    assert found.cycles == cycles + 2000 + 1 == cycles_of(one)
    assert {port.port: port.cycles for port in found.ports}["dram.W"] == 8 * cycles
    monkeypatch.setattr(simulated, "EVENTS_AT_ONCE", 3)
    assert run_on_tree(one).cycles == found.cycles


def test_periods_that_are_counted_at_once_move_their_own_values(monkeypatch):
    """Of 4,096 steps few are simulated one by one, in tiles of 4, 32 and 256 steps; the result is held against numpy's.

    Whatever moves with a step, with four or with 32 would need more events than there are looks at the keyboard.
    """
    inside = memory("inside", [port("all", 8, "AW")], operands="AW")
    middle = memory("middle", [port("all", 16)], operands="AWO", buffers=2)
    outside = memory("dram", [port("all", 8)])
    loops = ((0, 4), (1, 8), (0, 8), (1, 4), (2, 4))
    line = "O[x,y] += A[k,x] * W[k,y]; x=32 y=32 k=4"
    one = run_of(tree(inside, middle, outside), line, loops, ((1, 3, 5), (1, 3, 5), (3, 5)))
    monkeypatch.setattr(simulated, "EVENTS_AT_ONCE", 100)
    looks = []
    found = simulate_on_tree(one, progress=lambda *steps: looks.append(steps))
    assert found.cycles == cycles_of(one)
    assert 100 * len(looks) < found.events / 3


def test_neighbours_share_windows_whatever_they_are_spread_by():
    """Two steps of x over each of two units, and a filter of two over as many: three windows of two values, not four.

    Each of the units of one x takes every other index, so that the windows of a filter begin one after another.
    """
    registers = memory("registers", [port("all", 8, "A")], operands="A")
    outside = memory("dram", [port("A", 8, "A"), port("WO", 64, "WO")], serves=("units",))
    machine = tree(registers, outside, axes=(Axis("units", 4),))
    spread = (("units", 0, 2), ("units", 1, 2))
    one = run_of(machine, "O[x] += I[x+f] * W[f]; x=4 f=2", ((0, 2),), ((1, 1), (1,), (1,)), spread)
    found = simulate_on_tree(one)
    assert [flow.accesses for flow in found.flows if (flow.memory, flow.operand) == ("dram", "I")] == [6]
    assert found.cycles_by_cause["first_load"] == 6


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda one: replace(one, reads=(one.reads[0],)), "two inputs"),
        (lambda one: replace(one, reads=(replace(one.reads[0], axes=(((0, -1),),)), one.reads[1])), "backwards"),
        (lambda one: replace(one, write=replace(one.write, axes=(((0, 1), (0, 1)),))), "twice"),
    ],
)
def test_what_is_not_simulated_is_refused(change, said):
    """In a sentence that names the nest and the machine."""
    one = run_of(tree(memory("dram", [port("all", 8)])), PAIRS, ((0, 4),), ((1,), (1,), (1,)))
    with pytest.raises(InputError, match=said) as error:
        simulate_on_tree(replace(one, nest=change(one.nest)))
    assert "on small" in str(error.value)


def test_networks_that_add_from_neighbour_to_neighbour_are_refused():
    """They are of PE arrays, whose simulator knows them."""
    axes = (Axis("units", 4, networks=(Network(("O",), passes_sums=True),)),)
    machine = tree(memory("dram", [port("all", 8)], serves=("units",)), axes=axes)
    with pytest.raises(InputError, match="passes_sums"):
        simulate_on_tree(run_of(machine, PAIRS, ((0, 4),), ((1,), (1,), (1,))))


def test_a_mapping_that_contradicts_its_nest_is_an_error_of_ours():
    """Factors that do not multiply to the loop."""
    one = run_of(tree(memory("dram", [port("all", 8)])), PAIRS, ((0, 2),), ((1,), (1,), (1,)))
    with pytest.raises(InvalidIR, match="multiply to 2, not 4"):
        simulate_on_tree(one)

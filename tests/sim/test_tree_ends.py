"""Factors that do not divide their loop, simulated on trees: values, what tiles move, cycles, and by hand."""

import random

import pytest

from tests.helpers.tiny_trees import memory, port, run, tree
from tests.helpers.tree_amounts import every_tile, kinds_of, work_of_port
from tests.helpers.tree_cycles import cycles_of
from tests.helpers.tree_draws import drawn, every_kind
from tilestitch.base.errors import InvalidIR
from tilestitch.base.progress import quiet
from tilestitch.commands.map.tree_value import map_on_tree
from tilestitch.commands.simulate.tree_layers import open_simulated, simulate_tree_layers
from tilestitch.hardware.tree import Axis, Flow
from tilestitch.ir.choices import Objective, Values
from tilestitch.mapping.tree.chain import window_rows
from tilestitch.mapping.tree.rooms import fullest, too_full
from tilestitch.sim.tree.simulated import simulate_on_tree
from tilestitch.sim.tree.streams import streams_of


def check(seed, count, most_loops):
    for _, _, one in drawn(seed, count, most_loops, every_kind, ragged=True):
        found = simulate_on_tree(one)  # holds the values against numpy's
        streams = streams_of(one)
        for stream in streams.every:
            assert every_tile(one, stream) == kinds_of(stream), (one, stream)
        assert found.cycles == cycles_of(one), one
        assert sum(found.cycles_by_cause.values()) == found.cycles
        assert found.cycles_by_cause["compute"] == one.iterations
        assert simulate_on_tree(one, values=Values.NONE).cycles == found.cycles
        if one.tree.reads_first_sums:
            assert {port.port: port.cycles for port in found.ports} == work_of_port(streams)


def test_ragged_mappings_compute_what_numpy_does_and_move_what_iterations_need():
    """Values; elements of every tile, counted index by index; cycles against the second clock; busy ports."""
    check(random.Random("ragged"), 40, 4)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(8))
def test_more_ragged_mappings(block):
    """The same of 320, of up to six prime loops."""
    check(random.Random(f"ragged {block}"), 40, 6)


ALONE = "O[x] += A[x] * W[x]; x=7"
SPREAD = (("units", 0, 3),)


def units(width):
    ports = [port(operand, width, operand) for operand in "AWO"]
    return tree(memory("dram", ports, serves=("units",)), axes=(Axis("units", 4),))


def test_the_last_step_moves_what_is_left():
    """Seven over three units: two steps of three and one of one, and ports that move an element in a cycle.

    Three cycles for the first inputs. Behind each step three for the next ones but one before the last, while results
    leave; then the last step, and its result.
    """
    found = simulate_on_tree(run(units(8), ALONE, ((0, 3),), ((1,), (1,), (1,)), SPREAD))
    assert {port.port: port.cycles for port in found.ports} == {"dram.A": 7, "dram.W": 7, "dram.O": 7}
    assert found.cycles == cycles_of(found.run) == 3 + 3 + 3 + 1 + 1
    fed = {(flow.operand, flow.flow): flow.accesses for flow in found.flows}
    assert fed == {("A", Flow.FEED): 7, ("W", Flow.FEED): 7, ("O", Flow.COLLECT): 7}


def test_units_behind_the_end_get_nothing():
    """Of a weight that is alike in all units three have work in two steps and one in the last: seven are written."""
    registers = memory("registers", [port("all", 8, "W")], operands="W")
    outside = memory("dram", [port(operand, 64, operand) for operand in "AWO"], serves=("units",))
    machine = tree(registers, outside, axes=(Axis("units", 4),))
    line = "O[x,y] += A[x,y] * W[y]; x=7 y=2"
    loops = ((1, 2), (0, 3))
    found = simulate_on_tree(run(machine, line, loops, ((2,), (0, 2), (2,)), SPREAD))
    written = [flow.accesses for flow in found.flows if (flow.memory, flow.flow) == ("registers", Flow.FILL)]
    assert written == [7 * 2]


def test_a_reduction_that_ends_early_is_whole():
    """Seven products of each sum over three units: those behind the last one add nothing."""
    registers = memory("registers", [port("all", 8, "O")], operands="O")
    outside = memory("dram", [port(operand, 64, operand) for operand in "AWO"], serves=("units",))
    machine = tree(registers, outside, axes=(Axis("units", 4),))
    line = "O[m] += A[k] * W[m,k]; m=2 k=7"
    loops = ((0, 2), (1, 3))
    found = simulate_on_tree(run(machine, line, loops, ((2,), (2,), (1, 2)), (("units", 1, 3),)))
    assert found.result is not None
    assert found.result.shape == (2,)


@pytest.mark.parametrize("ends", [250, 247])
@pytest.mark.parametrize("order", [((0, 50), (1, 8)), ((1, 8), (0, 50)), ((0, 10), (1, 8), (0, 5))])
def test_steps_that_are_counted_at_once_stop_before_the_end_of_a_loop(ends, order):
    """A last step of less work is shorter, wherever it comes in the nest."""
    ports = [port("in", 2000, "W", (Flow.FILL,)), port("out", 2000, "W", (Flow.FEED,))]
    inside = memory("buffer", ports, operands="W", buffers=2)
    outside = memory("dram", [port("W", 8, "W"), port("A", 8, "A"), port("O", 64, "O")], serves=("units",))
    machine = tree(inside, outside, axes=(Axis("units", 8),))
    line = f"O[x,y] += A[x,y] * W[y]; x={ends} y=8"
    one = run(machine, line, order, ((len(order),), (1, len(order)), (len(order),)), (("units", 0, 5),))
    assert simulate_on_tree(one).cycles == simulate_on_tree(one, values=Values.NONE).cycles == cycles_of(one)


@pytest.mark.parametrize("extent, said", [(6, "multiply to 9, not 6, or to less than 9"), (10, "not 10")])
def test_a_step_without_work_is_an_error_of_ours(extent, said):
    """And so are iterations that no step does."""
    with pytest.raises(InvalidIR, match=said):
        simulate_on_tree(run(units(8), ALONE.replace("7", str(extent)), ((0, 3),), ((1,), (1,), (1,)), SPREAD))


TIGHT = """
name: tight
mac_pj: 0.04
axes: [{name: D1, size: 4}]
memories:
  - {name: rf, size: 2, operands: [W], read_pj: 0.02, write_pj: 0.02, serves: [], ports: [{width_bits: 16}]}
  - {name: buffer, size: SIZE, operands: [I, W, O], read_pj: 20, write_pj: 25, serves: [D1],
     ports: [{width_bits: 256, granule_bits: 8}]}
  - {name: dram, size: 1 MiB, operands: [I, W, O], read_pj: 700, write_pj: 750, serves: [D1], ports: [{width_bits: 64}]}
"""


def test_what_is_not_simulated_is_said_with_what_was_simulated_instead(tmp_path):
    """A memory that holds an average step and not the fullest one: another mapping, which fits, and a sentence."""
    said = set()
    for size in range(12, 40):
        path = tmp_path / f"tight{size}.yaml"
        path.write_text(TIGHT.replace("SIZE", str(size)))
        task = open_simulated(
            "O[m,n] += A[m,k] * B[k,n]; m=5 n=7 k=3", str(path), (), batch=None, dims={}, fold_bn=True
        )
        (one,) = simulate_tree_layers(task, Objective.ENERGY, Values.INTEGERS, quiet)
        assert one.simulated.values is Values.INTEGERS
        if one.instead:
            said.add(one.instead.split(";")[-1].split("(")[0])
            assert "layer einsum: in the fullest step of its best mapping" in one.instead
            assert not too_full(fullest(one.mapped.found.placed), one.mapped.found.mapping)
    assert said == {
        " simulated instead: the best that spreads the same without that ",
        " simulated instead: the best of factors that divide ",
    }


SLIDING = """
name: sliding
mac_pj: 0.04
axes: [{name: D1, size: 3, loops: [m]}]
memories:
  - {name: line, size: LINE, operands: [I], read_pj: 0.02, write_pj: 0.02, sliding_window: true, serves: [],
     ports: [{width_bits: 16}]}
  - {name: buffer, size: BUFFER, operands: [I, W, O], read_pj: 7, write_pj: 7.5, serves: [D1],
     ports: [{width_bits: 64, granule_bits: 8}]}
  - {name: dram, size: 1 MiB, operands: [I, W, O], read_pj: 700, write_pj: 750, serves: [D1],
     ports: [{width_bits: 64, granule_bits: 8}]}
"""


def on_sliding(folder, line, buffer):
    """A layer of 5 channels in 2 steps over 3 units: its best mapping on such a machine, and what is simulated."""
    path = folder / f"sliding{line}-{buffer}.yaml"
    path.write_text(SLIDING.replace("LINE", str(line)).replace("BUFFER", str(buffer)))
    text = "O[m,x] += I[k,x+f] * W[m,k,f]; m=5 x=7 k=2 f=3"
    task = open_simulated(text, str(path), (), batch=None, dims={}, fold_bn=True)
    best = map_on_tree(task, progress=quiet, objective=Objective.ENERGY).layers[0].found
    (one,) = simulate_tree_layers(task, Objective.ENERGY, Values.INTEGERS, quiet)
    return best, one


@pytest.mark.parametrize("line, buffer", [(8, 30), (14, 36), (14, 60)])
def test_where_windows_slide_the_best_mapping_without_that_is_simulated(tmp_path, line, buffer):
    """Another mapping of the same spread, and a sentence with both prices."""
    best, one = on_sliding(tmp_path, line, buffer)
    chosen = one.mapped.found
    assert window_rows(best.placed, best.mapping)
    assert not chosen.mapping.rows
    assert chosen.placed.unrolled == best.placed.unrolled
    assert chosen.price.energy_pj > best.price.energy_pj
    assert one.simulated.values is Values.INTEGERS  # held against numpy's
    before, after = (f"({found.price.latency_cycles:,} cycles, " for found in (best, chosen))
    assert one.instead.startswith(f"layer einsum: windows slide in its best mapping {before}")
    assert f"simulated instead: the best that spreads the same without that {after}" in one.instead


@pytest.mark.parametrize("buffer, is_full", [(34, False), (42, True)])
def test_where_no_row_of_windows_has_steps_they_do_not_slide(tmp_path, buffer, is_full):
    """A mapping may end a row where it begins: it is simulated, unless its fullest step does not fit."""
    best, one = on_sliding(tmp_path, 8, buffer)
    chosen = one.mapped.found
    assert best.mapping.rows
    assert not window_rows(best.placed, best.mapping)
    assert not chosen.mapping.rows
    assert ("in the fullest step" in one.instead) == is_full
    assert "windows slide" not in one.instead
    assert (chosen.price == best.price) == (not is_full)

"""How far the model of trees is from their simulation: not at all for the best mappings of whole factors."""

import random
from dataclasses import replace
from fractions import Fraction

import pytest

from tests.helpers.tiny_trees import memory, nest, port, tree
from tests.helpers.tree_brute_force import timed_case
from tests.helpers.tree_draws import without_sliding
from tilestitch.base.errors import DoesNotFit
from tilestitch.commands.map.tree_run import map_on_tree
from tilestitch.commands.simulate.tree_layers import open_simulated, run_of
from tilestitch.hardware.tree import Axis, Flow
from tilestitch.ir.choices import Objective, Values
from tilestitch.mapping.tree.chain import TreeMapping, price
from tilestitch.mapping.tree.choices import Ragged, SpatialSpace, choices_of
from tilestitch.mapping.tree.labels import NEVER
from tilestitch.mapping.tree.pace import RESULT, RESULTS, Crossed, Pace
from tilestitch.mapping.tree.placed import PlacedNest, Unrolled
from tilestitch.mapping.tree.search import MOST_LABELS, best_mapping
from tilestitch.mapping.tree.spatial import Opener, placement
from tilestitch.mapping.tree.spread_task import task_of
from tilestitch.mapping.tree.tables import FEMTO, Sums
from tilestitch.mapping.tree.timed_search import best_in_time
from tilestitch.sim.tree.simulated import simulate_on_tree

ENGINE = """\
name: engine
clock: 1 GHz
mac_pj: 0.1
bits: 8
sum_bits: 32
axes:
  - {name: rows, size: 8, operands: [I, W]}
  - {name: columns, size: 8, operands: [W, O]}
memories:
  - name: sums
    size: 32 b
    operands: [O]
    read_pj: 0.02
    write_pj: 0.03
    serves: [rows]
    ports:
      - {name: out, width_bits: 32, directions: [collect, drain]}
      - {name: in, width_bits: 32, directions: [fill, feed]}
  - name: buffer
    size: 64 KiB
    operands: [I, W, O]
    read_pj: 20
    write_pj: 25
    serves: [rows, columns]
    buffers: 2
    ports:
      - {name: main, width_bits: 512, granule_bits: 8}
      - {name: weights, width_bits: 512, granule_bits: 8, operands: [W], directions: [feed]}
  - name: dram
    size: 2 GiB
    operands: [I, W, O]
    read_pj: 500
    write_pj: 550
    serves: [rows, columns]
    ports: [{width_bits: 64, granule_bits: 8}]
dma:
  - {name: loads, joins: [dram, buffer], setup_cycles: 20, bandwidth: 8 B/cycle}
"""


ONE_PORT = """\
name: one-port
mac_pj: 1
bits: 16
sum_bits: 32
axes: [{name: columns, size: 4, operands: [W, O]}]
memories:
  - {name: sums, size: 64, operands: [O], serves: [columns], read_pj: 1, write_pj: 1,
     ports: [{width_bits: 128, granule_bits: 32}]}
  - {name: dram, size: 1 GiB, operands: [I, W, O], serves: [columns], read_pj: 1, write_pj: 1,
     ports: [{width_bits: 64, granule_bits: 16}]}
"""


def errors_on(machine, model="resnet18:small"):
    """Of every layer of a network, in its best mapping of whole factors: cycles estimated less simulated."""
    task = open_simulated(model, machine, [], batch=None, dims={}, fold_bn=True)
    task = replace(task, space=replace(task.space, ragged=Ragged.NONE))
    found = [one.found for one in map_on_tree(task, objective=Objective.EDP).layers]
    runs = [run_of(one.placed, one.mapping) for one in found]
    simulated = [simulate_on_tree(run, values=Values.NONE).cycles for run in runs]
    return [one.price.latency_cycles - cycles for one, cycles in zip(found, simulated, strict=True)]


@pytest.mark.parametrize("machine", ["gemmini", "nvdla", "tpu-like", "eyeriss-like"])
def test_the_best_mappings_take_what_the_model_says(machine):
    """To the cycle."""
    assert errors_on(machine) == [0] * 12


def test_what_an_engine_brings_is_not_ahead_when_the_units_begin(tmp_path):
    """Everything passes one engine, and every memory has two buffers; the model has three cycles too many at most."""
    machine = tmp_path / "engine.yaml"
    machine.write_text(ENGINE)
    errors = errors_on(str(machine))
    assert errors.count(0) == 11
    assert max(map(abs, errors)) <= 3


@pytest.mark.parametrize("size", [2, 8])
def test_sums_that_come_and_go_through_one_port_take_what_the_model_says(tmp_path, size):
    """The port brings the next sums while the units work on these: they need not have left."""
    machine = tmp_path / "one-port.yaml"
    machine.write_text(ONE_PORT)
    assert errors_on(str(machine), f"O[m,n] += A[m,k] * B[k,n]; m={size} n=4 k=4") == [0]


@pytest.mark.parametrize("reads_first_sums", [True, False])
def test_the_bound_on_cycles_is_not_above_what_the_fastest_mapping_takes(reads_first_sums):
    """Also where the model has the time of first sums that the simulator does not read."""
    seed, compared, lower = random.Random("first sums"), 0, 0
    while compared < 60:
        one = without_sliding(timed_case(seed, 4))
        one = replace(one, tree=replace(one.tree, reads_first_sums=reads_first_sums, has_latches=True))
        try:
            best = best_in_time([one], Sums.FULL, MOST_LABELS, Objective.LATENCY)
        except DoesNotFit:
            continue
        found = simulate_on_tree(run_of(best.placed, best.mapping), values=Values.NONE)
        assert best.bound_cycles <= found.cycles, one
        compared += 1
        lower += found.cycles < best.price.latency_cycles
    assert lower >= 10 or reads_first_sums


def around_one_another(spread, by_zigzag):
    """Eight pixels of three taps each on two fan-outs: one to the units of a buffer, and one to the buffers."""
    machine = tree(
        memory("buffer", [port("buffer", 8)], serves=("taps",)),
        memory("dram", [port("dram", 8)], serves=("taps", "pixels")),
        axes=(Axis("taps", 3), Axis("pixels", 4)),
    )
    line = nest("O[x] += A[x+f] * W[f]; x=8 f=3")
    return PlacedNest(line, 8, ("A", "W", "O"), spread, machine, zigzag_windows=by_zigzag)


@pytest.mark.parametrize(("by_zigzag", "read"), [(False, 16), (True, 8)])
def test_neighbours_with_other_pixels_get_tiles_of_their_own(by_zigzag, read):
    """Four buffers with two pixels each, the three taps beside one another inside: four values for each of the four.

    ZigZag's evaluator has twice the four of one, as windows of one iteration begin at six places instead of three.
    """
    spread = (Unrolled("taps", 1, Fraction(3)), Unrolled("pixels", 0, Fraction(4)))
    placed = around_one_another(spread, by_zigzag)
    mapping = TreeMapping(((0, 2),), ((1, 1), (1, 1), (0, 1)))
    flows = price(placed, mapping).flows
    assert [one.accesses for one in flows if (one.operand, one.memory, one.flow) == (0, "dram", Flow.FEED)] == [read]
    found = simulate_on_tree(run_of(placed, mapping))
    assert [one.accesses for one in found.flows if (one.operand, one.memory, one.flow) == ("A", "dram", "feed")] == [16]


@pytest.mark.parametrize("by_zigzag", [False, True])
def test_compiled_searches_count_tiles_of_neighbours_alike(by_zigzag):
    """The least energy of every choice is that of the search with tables, which prices tiles as above."""
    task = task_of(around_one_another((), by_zigzag), Sums.FULL)
    several = choices_of(task.bare, SpatialSpace(Ragged.ALL))
    opener, compared = Opener(task, several), set()
    for number in range(len(several)):
        _, least_fj, _ = opener.least(number, MOST_LABELS, NEVER)
        found = best_mapping(placement(task.bare, several, number), Sums.FULL)
        assert least_fj / FEMTO + task.bare.nest.macs * task.bare.tree.mac_pj == pytest.approx(found.price.energy_pj)
        compared.add(least_fj)
    assert len(compared) > 10


def test_results_leave_one_after_the_other():
    """Three steps, and results for which a port of their own needs four cycles each: 2 + 1 + 3 x 4."""
    step = Pace().with_crossing(Crossed({}, {(1, 0): 4}, {}, RESULTS, RESULT, (RESULTS,)))
    assert step.repeated(3).with_crossing(Crossed({(0, 0): 2}, {}, {}, 0, delays=(0,))).latency == 15

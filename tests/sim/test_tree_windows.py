"""Convolutions that share windows, which are made again, simulated: values, traffic, cycles of a second clock."""

import json
import random
from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.chain_checking import check_group
from tests.helpers.command import run as command
from tests.helpers.fused_time_brute_force import timed_chain
from tests.helpers.fused_windows import convolutions_in_a_row
from tests.helpers.tiny_trees import memory, nest, port, tree
from tests.helpers.tree_cycles import chain_cycles
from tilestitch.base.errors import DoesNotFit, InvalidIR
from tilestitch.hardware.load import machine_text
from tilestitch.hardware.tree_load import load_tree
from tilestitch.ir.choices import Objective
from tilestitch.mapping.fused.search import best_chain
from tilestitch.sim.tree.chain import ChainLink, ChainRun, Moment
from tilestitch.sim.tree.chain_simulated import run_chain, simulate_chain
from tilestitch.sim.tree.run import TreeRun, Window


def as_simulated(chain):
    """A chain whose ports move whole granules, so that no part of an access is rounded, and that reads what it has."""

    def one(placed):
        ports = [[replace(port, width_bits=port.granule_bits) for port in one.ports] for one in placed.tree.memories]
        memories = [replace(one, ports=tuple(own)) for one, own in zip(placed.tree.memories, ports, strict=True)]
        nest = placed.nest
        reads = [
            replace(array, shape=tuple(map(max, zip(array.shape, array.extents(nest.extents), strict=True))))
            for array in nest.reads
        ]
        tree = replace(placed.tree, memories=tuple(memories))
        return replace(placed, tree=tree, nest=replace(nest, reads=tuple(reads)))

    return replace(chain, operators=tuple(map(one, chain.operators)))


def check(seed, count, most, objective):
    """Groups of the best mapping are simulated; of how many windows are made again, and of how many rows are kept."""
    chain = convolutions_in_a_row(seed, count, most=most)
    chain = as_simulated(chain if objective is Objective.ENERGY else timed_chain(chain, seed))
    try:
        found = best_chain(chain, objective=objective)
    except DoesNotFit:
        return np.array([0, 0])
    again = kept = 0
    for group in found.groups:
        if group.mapping is not None:
            check_group(group)
            kept += bool(group.mapping.kept_visits())
            again += bool(group.mapping.windows(0)) and not group.mapping.kept_visits()
    return np.array([again, kept])


@pytest.mark.parametrize(("count", "cases"), [(2, 30), (3, 24)])
def test_windows_are_made_again_with_what_numpy_makes_of_them(count, cases):
    """Or rows are kept: values, traffic of every operand in every memory, energy, and the cycles of a second clock."""
    seed = random.Random(f"windows of {count}")
    assert sum(check(seed, count, 3, Objective.ENERGY).sum() for _ in range(cases)) > 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "most", "cases", "objective"),
    [
        (2, 4, 150, Objective.ENERGY),
        (3, 4, 60, Objective.ENERGY),
        (2, 3, 200, Objective.EDP),
    ],
)
def test_more_windows_are_made_again(count, most, cases, objective):
    """The same of many."""
    seed = random.Random(f"more windows of {count}, {objective}")
    again, kept = sum(check(seed, count, most, objective) for _ in range(cases))
    assert again + kept > 2


def two_rows_at_a_time(*, step=2, part=4, rows=6):
    """Two convolutions of three taps; the second one makes two of four rows at a time, of four rows of the first."""
    inside = memory("buffer", [port("all", 64)], operands="AO")
    outside = memory("dram", [port("A", 8, "A"), port("W", 64, "W"), port("O", 8, "O")])
    machine = tree(inside, outside)
    first = replace(nest(f"S[y] += A[y+f] * W[f]; y={rows} f=3"), name="first")
    last = replace(nest("O[y] += S[y+f] * V[f]; y=4 f=3"), name="last")
    one = TreeRun(
        first, machine, ("A", "W", "O"), 8, (), ((1, 3), (0, part), (0, 2)), ((2, 3), (3,), (3,)),
        part=(part, 3), windows=(Window(2, step, part + step),),
    )  # fmt: skip
    two = TreeRun(last, machine, ("A", "W", "O"), 8, (), ((1, 3), (0, 2), (0, 2)), ((3,), (3,), (2, 3)))
    return ChainRun((one, two), (ChainLink(0, "buffer", 1),))


def test_rows_between_windows_are_made_twice():
    """Of six rows two are in both windows: eight are made, of 24 products, from six rows of the image each time."""
    found = simulate_chain(two_rows_at_a_time())
    first, second = found.run.operators
    assert (first.nest.macs, first.macs, second.macs) == (18, 24, 12)
    image = [flow.accesses for flow in found.flows[0] if (flow.operand, flow.memory) == ("A", "dram")]
    assert image == [12]
    assert found.cycles == chain_cycles(found.run)
    assert found.run.home_shape(0) == (4,)


def test_what_lies_behind_the_last_row_is_nothing():
    """Of an intermediate of five rows the sixth is padding: zero, although its window is made as a whole."""
    run = two_rows_at_a_time(rows=5)
    one, two = run.operators
    read = replace(two.nest.reads[0], shape=(6,))
    run = replace(run, operators=(one, replace(two, nest=replace(two.nest, reads=(read, two.nest.reads[1])))))
    image, ones = np.arange(1, 8, dtype=np.int32), np.ones(3, np.int32)
    rows = [6, 9, 12, 15, 18, 0]
    expected = [sum(rows[at : at + 3]) for at in range(4)]
    assert run_chain(run, [[image, ones], [None, ones]]).result.tolist() == expected
    assert run.valid_shape(0, 0) == (4,)
    assert run.valid_shape(0, 1) == (3,)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"step": 1}, "the outermost 1 loops are not the same"),
        ({"part": 3}, "3 of what is read along axis 0 is made at a time, and 4 needed"),
    ],
)
def test_windows_that_are_not_those_that_are_read_are_refused(changed, message):
    """They begin where the next operator's rows do, and have as many as it reads."""
    with pytest.raises(InvalidIR, match=message):
        simulate_chain(two_rows_at_a_time(**changed))


SMALL_MEMORIES = {"size: 128 MiB": "size: 3 KiB", "size: 4 MiB": "size: 1 KiB", "name: tpu-v4i": "name: small"}


def test_the_command_runs_windows(tmp_path):
    """Two 3 x 3 convolutions of 16 x 16 pixels in memories so small that halves of the image are made."""
    text = machine_text("tpu-v4i")[0]
    for old, new in SMALL_MEMORIES.items():
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "small.yaml").write_text(text)
    chain = (
        "A[k,y,x] += I[c,y+f,x+g] * W[k,c,f,g]; B[m,v,u] += A[k,v+h,u+j] * V[m,k,h,j]; "
        "k=8 c=8 y=18 x=18 f=3 g=3 m=8 v=16 u=16 h=3 j=3"
    )
    machine = tmp_path / "small.yaml"
    found = command("simulate", chain, "--machine", machine, "--fuse", 2, "--objective", "energy", "--json", "-")
    assert found.exit_code == 0, found.output
    (one,) = json.loads(found.stdout)["chains"]
    assert one["verified"]
    assert abs(one["cycle_error"]) < 0.02
    assert one["of_unfused"] < 0.9
    (group,) = one["groups"]
    made = group["simulated"]["energy"]["arithmetic"]
    assert made > one["macs"] * load_tree(machine).mac_pj  # rows between the halves twice


def rows_kept(*, made=2, visits=3, rows=6):
    """The same where the first one makes two new rows at a time, and begins one window before they are read."""
    run = two_rows_at_a_time(part=made, rows=rows)
    one, two = run.operators
    one = replace(one, loops=((1, 3), (0, made), (0, visits)), windows=(Window(2, 2, made * visits),))
    read = replace(two.nest.reads[0], shape=(6,))
    two = replace(two, nest=replace(two.nest, reads=(read, two.nest.reads[1])))
    return ChainRun((one, two), (replace(run.links[0], ahead=1),))


def test_rows_that_are_kept_are_made_once():
    """Six rows, two at a time, with four at home; of the image four rows come for each two."""
    found = simulate_chain(rows_kept())
    assert found.run.operators[0].macs == found.run.operators[0].nest.macs == 18
    assert found.run.home_shape(0) == (4,)
    image = [flow.accesses for flow in found.flows[0] if (flow.operand, flow.memory) == ("A", "dram")]
    assert image == [12]
    assert found.cycles == chain_cycles(found.run)
    first = [block.first for moment, block in found.run.events() if moment is Moment.STEPS]
    assert first == [0, 0, 1, 0, 1]


@pytest.mark.parametrize(("rows", "visits"), [(5, 3), (4, 2)])
def test_rows_that_there_are_none_of_are_nothing_where_others_are_kept(rows, visits):
    """Of five rows half of the last two are padding; of four nothing is made for the last window."""
    image, ones = np.arange(1, rows + 3, dtype=np.int32), np.ones(3, np.int32)
    made = [sum(image[at : at + 3]) for at in range(rows)] + [0] * (6 - rows)
    expected = [sum(made[at : at + 3]) for at in range(4)]
    run = rows_kept(rows=rows, visits=visits)
    assert run_chain(run, [[image, ones], [None, ones]]).result.tolist() == expected


def test_too_few_rows_at_home_are_refused():
    """One new row at a time, and one ahead: windows of four rows are never there."""
    with pytest.raises(InvalidIR, match="2 of what is read along axis 0 is made at a time, and 4 needed"):
        simulate_chain(rows_kept(made=1, visits=6))

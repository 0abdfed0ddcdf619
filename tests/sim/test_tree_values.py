"""The tables by which values move and are multiplied: what stands together, and in which order."""

import random
from itertools import product

import numpy as np
import pytest

from tests.helpers.tree_draws import drawn, every_kind
from tilestitch.formats.einsum import einsum_nest
from tilestitch.hardware.tree_load import load_tree
from tilestitch.ir.choices import Values
from tilestitch.sim.array.values import random_operands
from tilestitch.sim.tree.move import LANES
from tilestitch.sim.tree.run import TreeRun
from tilestitch.sim.tree.simulated import simulate_on_tree
from tilestitch.sim.tree.streams import streams_of
from tilestitch.sim.tree.tiles import Digit, count_of, iterations_of
from tilestitch.sim.tree.values import stores_of, values_of

POINTWISE = "O[m,x,y] += I[c,x,y] * W[m,c]"


def moves_of(run):
    return values_of(streams_of(run), random_operands(run.nest, Values.INTEGERS)).moves


def run_of(machine, sizes, spread, loops, cuts):
    """A pointwise convolution: its loops are m, c, x, y."""
    tree = load_tree(machine)
    homes = ("I1", "I2", "O") if machine == "tpu-like" else ("I", "W", "O")
    return TreeRun(einsum_nest(f"{POINTWISE}; {sizes}"), tree, homes, 8, spread, loops, cuts)


def on_nvdla():
    """32 x 64 units; every weight is at the units for the pixels of a row."""
    spread = (("atomic-c", 1, 64), ("atomic-k", 0, 32))
    return run_of("nvdla", "m=128 c=256 x=4 y=8", spread, ((3, 8), (1, 4), (0, 4), (2, 4)), ((2, 4), (1, 3, 4), (2, 4)))


def on_tpu_v4i():
    """Each of four arrays has its part of the results: so have the copies of what is read, and of what is written."""
    spread = (("array", 0, 4), ("rows", 1, 128), ("columns", 0, 128))
    loops = ((2, 2), (3, 4), (3, 7))
    return run_of("tpu-v4i", "m=512 c=128 x=2 y=28", spread, loops, ((1, 2, 3), (3, 3, 3), (1, 1, 3)))


def moved_by(run):
    """The loops that move the result."""
    return run.operands[run.written].indexed_by


def moved(moves, stream):
    """Each pair of places that a tile of a stream moves between by the tables, and whether it leads a sum."""
    pairs = range(moves.pairs[stream], moves.pairs[stream + 1])
    copies = range(moves.copies[stream], moves.copies[stream + 1])
    for pair, copy, at in product(pairs, copies, range(moves.stretch[stream])):
        yield (
            int(moves.pair_inner[pair] + moves.copy_inner[copy] + at * moves.stretch_inner[stream]),
            int(moves.pair_outer[pair] + moves.copy_outer[copy] + at * moves.stretch_outer[stream]),
            copy < copies[0] + moves.leads[stream],
        )


def expected(small, large, adding):
    """The same from the digits of the tile and of its copies, each place inside once; of what adds up one leads."""
    digits = (*small.shape.digits, *small.copies)
    found = set()
    for values in product(*(range(one.factor) for one in digits)):
        here = sum(value * small.strides[one] for one, value in zip(digits, values, strict=True))
        there = sum(value * large.strides.get(one, 0) for one, value in zip(digits, values, strict=True))
        leads = all(value == 0 or one not in adding for one, value in zip(digits, values, strict=True))
        found.add((here, there, leads))
    return sorted(found)


def test_stretches_are_all_elements_of_a_tile_in_all_copies():
    """Of random mappings, and stretches longer than an element among them."""
    lengths, followers = set(), set()
    for _, _, run in drawn(random.Random("stretches"), 60, 5, every_kind):
        streams, moves = streams_of(run), moves_of(run)
        stores, _ = stores_of(run, streams.digits)
        for number, one in enumerate(streams.every):
            if moves.moves[number]:
                small, large = stores[one.operand][one.crossing - 1 : one.crossing + 1]
                sums = [part for part in small.copies if part in large.shape.digits and part.loop not in moved_by(run)]
                adding = sums if one.operand == run.written else []
                assert sorted(moved(moves, number)) == expected(small, large, adding)
                lengths.add(int(moves.stretch[number]))
                followers.add(len(adding) > 0)
    assert len(lengths) > 4
    assert followers == {False, True}


def test_places_in_a_memory_are_each_of_one_element():
    """Those of near digits, too: as many as the tile has, from the first to the last."""
    run = on_nvdla()
    weights = stores_of(run, streams_of(run).digits)[0][1][1]
    assert [one.factor for one in weights.shape.near] == [32, 64]
    factors = [range(one.factor) for one in weights.shape.digits]
    steps = [weights.shape.strides[one] for one in weights.shape.digits]
    places = {sum(value * step for value, step in zip(values, steps, strict=True)) for values in product(*factors)}
    assert len(places) == 128 * 256 == weights.shape.size
    assert max(places) == weights.shape.size - 1


def test_what_goes_to_all_units_stands_together_in_the_memory_outside():
    """One stretch for the weights of all units."""
    run = on_nvdla()
    moves, streams = moves_of(run), streams_of(run)
    inwards = streams.find(1, 1, is_up=False)
    assert moves.stretch[inwards] == 32 * 64
    assert moves.stretch_inner[inwards] == moves.stretch_outer[inwards] == 1
    simulate_on_tree(run)


def test_copies_of_one_loop_stand_next_to_one_another():
    """128 channels in two parts on two axes, with pixels between: products go along all of them."""
    spread = (("D1", 0, 4), ("D1", 1, 4), ("D1", 3, 2), ("D2", 0, 32))
    loops, cuts = ((1, 2), (1, 4), (2, 4), (3, 4)), ((1, 4), (4, 4), (2, 2, 4))
    run = run_of("tpu-like", "m=128 c=32 x=4 y=8", spread, loops, cuts)
    moves = moves_of(run)
    assert (moves.run, moves.run_strides) == (128, (0, 1, 1))
    simulate_on_tree(run)


def test_rows_of_the_same_results_are_multiplied_one_after_another():
    """Two pixels at a time, 32 channels of input: two times 32 rows."""
    spread = (("D1", 0, 4), ("D1", 1, 4), ("D1", 3, 2), ("D2", 0, 32))
    loops, cuts = ((1, 2), (1, 4), (2, 4), (3, 4)), ((1, 4), (4, 4), (2, 2, 4))
    run = run_of("tpu-like", "m=128 c=32 x=4 y=8", spread, loops, cuts)
    results = moves_of(run).rows[:, 2]
    assert np.count_nonzero(np.diff(results)) == len(set(results.tolist())) - 1
    simulate_on_tree(run)


def test_rows_that_are_added_some_at_a_time_leave_none_out():
    """62 channels of input of one pixel: 15 times four, and two more. Compared inside."""
    spread, loops = (("atomic-c", 1, 62), ("atomic-k", 0, 32)), ((2, 2), (3, 4), (0, 2))
    run = run_of("nvdla", "m=64 c=62 x=2 y=4", spread, loops, ((3, 3), (2, 2, 3), (0, 3)))
    moves = moves_of(run)
    assert (len(moves.rows), moves.run, moves.run_strides) == (62, 32, (0, 1, 1))
    simulate_on_tree(run)


def test_products_whose_rows_are_strided_are_those_of_matrices():
    """Few of one operand, so little is used again; values and copies stand apart all the same. Compared inside."""
    run = on_tpu_v4i()
    moves = moves_of(run)
    assert 0 < len(moves.matrices.short) < len(moves.matrices.long)
    assert moves.run_strides == (1, 1, 1)  # what tells matrices apart: the arrays
    simulate_on_tree(run)
    simulate_on_tree(run, values=Values.FLOATS)


def test_copies_that_more_operands_have_stand_next_to_one_another():
    """On simba the chips stand inside the lanes of a vector, as only weights have copies of these."""
    spread = (("lane", 1, 8), ("vector", 0, 8), ("element", 1, 16), ("chip-row", 0, 4), ("chip-column", 0, 2))
    loops, cuts = ((2, 5), (3, 4), (0, 2)), ((3, 3, 3), (2, 2, 3), (2, 2, 3))
    run = run_of("simba", "m=128 c=128 x=5 y=4", spread, loops, cuts)
    stores, _ = stores_of(run, streams_of(run).digits)
    orders = [[one.axis for one in levels[0].copies if one.loop == 0] for levels in stores]
    assert orders == [["chip-row", "chip-column"], ["chip-row", "chip-column", "vector"], ["chip-row", "chip-column"]]
    simulate_on_tree(run)


def test_behind_the_last_memory_there_is_room_for_all_lanes_that_are_read_with_it():
    """Rows are read as a whole, however few of them are used."""
    run = on_nvdla()
    streams = streams_of(run)
    _, size = stores_of(run, streams.digits)
    assert len(values_of(streams, random_operands(run.nest, Values.INTEGERS)).memory) == size + LANES


@pytest.mark.parametrize("reach", [0, 9])
def test_iterations_are_counted_as_they_are_listed(reach):
    digits = (Digit(0, 3, 1, 0), Digit(1, 5, 1, 1), Digit(0, 4, 3, 2, reach=reach))
    assert [count_of(digits, loop) for loop in range(3)] == [len(iterations_of(digits, loop)) for loop in range(3)]


def test_the_numbers_are_those_that_were_drawn_before():
    """The same as when they were drawn as 64-bit integers: results of one version are those of another."""
    nest = einsum_nest("O[m,n] += A[m,k] * B[k,n]; m=5 n=7 k=11")
    rng = np.random.default_rng(len(nest.loops))
    for array in random_operands(nest, Values.INTEGERS):
        assert array.dtype == np.int32
        assert np.array_equal(array, rng.integers(-8, 9, array.shape))

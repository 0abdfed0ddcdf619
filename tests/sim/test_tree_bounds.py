"""Bounds that are stated without a machine or a mapping, against what is simulated of random mappings on trees."""

import random
from dataclasses import replace
from itertools import product
from math import ceil

import pytest

from tests.helpers.tree_draws import drawn, every_kind
from tilestitch.ir.choices import Values
from tilestitch.mapping.tree.traffic import BufferedNest
from tilestitch.sim.tree.simulated import simulate_on_tree
from tilestitch.sim.tree.streams import streams_of


def needed_bits(nest):
    """Every element that an iteration needs, once."""
    total = 0
    for array in nest.operands:
        used = {
            tuple(sum(step * at[loop] for loop, step in terms) for terms in array.axes)
            for at in product(*map(range, nest.extents))
        }
        total += len(used) * array.element_bits
    return total


def moved_and_held_bits(run):
    """What crosses the border of the outermost memory of each operand, both ways, and what is inside at a time."""
    moved, held = 0, {}
    for stream in streams_of(run).every:
        if stream.crossing == len(run.chains[stream.operand]) - 1:
            bits = run.operands[stream.operand].element_bits
            tiles = zip(stream.carried(), stream.crossed.kinds, strict=True)
            moved += bits * sum(count * kind.outer.total for count, kind in tiles)
            held[stream.operand] = bits * max(kind.outer.total for kind in stream.crossed.kinds)
    return moved, sum(held.values())


def in_one_width(placed, seed):
    """A random tree, on which complete results are as wide as sums: so is the least traffic counted."""
    placed = every_kind(placed, seed)
    return replace(placed, final_bits=placed.nest.write.element_bits)


def check(name, count, most_loops, *, ragged):
    tight = 0
    for placed, _, run in drawn(random.Random(name), count, most_loops, in_one_width, ragged=ragged):
        if any(array.element_bits == 0 for array in run.operands):
            continue
        found = simulate_on_tree(run, values=Values.NONE)
        moved, held = moved_and_held_bits(run)
        assert found.cycles >= ceil(run.nest.macs / run.tree.units)
        assert moved >= needed_bits(run.nest), run
        if not ragged:  # the least by capacity is that of factors that divide
            least = BufferedNest.of(placed.nest).least_bits(held)
            assert least is not None, run
            assert least <= moved, run
            tight += least == moved
    return tight


def test_nothing_moves_less_than_the_least_of_its_capacity():
    """Nor than what is compulsory, nor in fewer cycles than all units would need; some mappings meet the bound."""
    assert check("bounds", 60, 4, ragged=False) > 5


def test_factors_that_do_not_divide_move_no_less_than_is_compulsory():
    """Nor are they faster than all units at work."""
    check("ragged bounds", 60, 4, ragged=True)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
def test_more_mappings_against_bounds(block):
    """400 mappings of up to six prime loops."""
    check(f"bounds {block}", 50, 6, ragged=False)
    check(f"ragged bounds {block}", 50, 6, ragged=True)

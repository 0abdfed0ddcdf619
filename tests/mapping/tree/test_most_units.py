"""How many units of a tree work in a step at most, beside all ways to spread loops."""

import random
from math import prod

import pytest

from tests.helpers.tree_brute_force import random_case
from tilestitch.formats.einsum import einsum_nest
from tilestitch.hardware.tree_load import load_tree
from tilestitch.mapping.tree.bound import bound, most_units, wired
from tilestitch.mapping.tree.choices import SpatialSpace, choices_of
from tilestitch.mapping.tree.placed import PlacedNest


def most_at_work(placed: PlacedNest) -> float:
    """Of all choices of what is spread, how many units work on average where they are most."""
    choices = choices_of(placed, wired(placed, SpatialSpace()))
    return placed.nest.macs / int(choices.steps.prod(axis=1).min())


def test_no_choice_has_more_units_at_work():
    """And most random trees have one with as many."""
    seed, reached = random.Random(7), 0
    for _ in range(100):
        case = random_case(seed)
        placed = PlacedNest(case.nest, case.final_bits, case.homes, (), case.tree)
        least, found = most_at_work(placed), most_units(placed)
        assert least <= found <= prod(axis.size for axis in placed.tree.axes)
        reached += least == found
    assert reached > 50


@pytest.mark.parametrize(
    ("machine", "line", "most"),
    [
        ("gemmini", "O[c,x] += I[c,x+f] * W[c,f]; c=32 x=28 f=3", 3),  # no loop of weights and results alone
        ("gemmini", "O[m,n] += I[m,k] * W[k,n]; m=100 n=7 k=30", 16 * 7),
        ("nvdla", "O[m,n] += I[m,k] * W[k,n]; m=100 n=64 k=10", 32 * 10),
    ],
)
def test_an_axis_takes_the_loops_that_its_wires_let(machine, line, most):
    nest = einsum_nest(line)
    assert most_units(bound(nest, nest.write.element_bits, load_tree(machine))) == most

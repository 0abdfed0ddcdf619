"""Indices of several loops, and of loops that run backwards, on trees."""

from itertools import product

import pytest

from tests.helpers.command import run
from tilestitch.base.errors import InputError
from tilestitch.formats.einsum import einsum_nest
from tilestitch.mapping.tree.countable import countable
from tilestitch.mapping.tree.traffic import BufferedNest

EXTENTS = {"m": 6, "k": 4, "j": 3}


@pytest.mark.parametrize(
    "index", ["m+k", "m-k", "k-m", "2*m-3*k", "-m", "12*m+3*k+j", "j+24*m+4*k", "18*m+2*k+j", "24*m-6*k-j"]
)
def test_as_many_elements_are_counted_as_the_index_takes_values(index):
    """The least that must move is every value once, and what else the nest needs; with an enumeration."""
    facts = " ".join(f"{name}={extent}" for name, extent in EXTENTS.items())
    values = {eval(index, dict(zip(EXTENTS, at, strict=True))) for at in product(*map(range, EXTENTS.values()))}
    nest = einsum_nest(f"O[m] += I[{index}] * W[k,j]; {facts}")
    assert BufferedNest.of(nest).compulsory_bits() == 16 * (len(values) + 4 * 3 + 6)


def test_a_sum_of_three_loops_is_refused():
    """Its values are not counted on trees; the message names the loops and what can be done."""
    nest = einsum_nest("O[m] += I[m+k+j] * W[k,j]; m=8 k=4 j=4")
    with pytest.raises(
        InputError, match="an index of I is a sum of the loops m, k, j; trees count sums of at most two"
    ):
        countable(nest)
    found = run("map", "O[m] += I[m+k+j] * W[k,j]; m=8 k=4 j=4", "--machine", "gemmini")
    assert found.exit_code == 2
    assert "Make two of them one loop" in found.stderr
    assert run("map", "O[m] += I[m+k+j] * W[k,j]; m=8 k=4 j=4", "--machine", "eyeriss").exit_code == 0


def test_a_loop_costs_the_same_in_both_directions():
    """As much is read, so the best mappings take the same energy."""
    lines = [f"O[m,n] += I[m{sign}k] * W[k,n]; m=8 n=8 k=8" for sign in "+-"]
    forward, backward = (
        run("map", line, "--machine", "gemmini", "--objective", "energy", "--json", "-").stdout for line in lines
    )
    assert forward == backward.replace("m-k", "m+k")

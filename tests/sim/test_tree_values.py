"""Numbers to simulate with, and counts of iterations, that need not be listed."""

import numpy as np
import pytest

from tilestitch.formats.einsum import einsum_nest
from tilestitch.ir.choices import Values
from tilestitch.sim.array.values import random_operands
from tilestitch.sim.tree.tiles import Digit, count_of, iterations_of


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

"""The least traffic of a nest by the capacity of a buffer."""

import random
from math import inf

import pytest

from tests.helpers.tree_brute_force import least_energy, random_case
from tilestitch.base.errors import TooLarge
from tilestitch.formats.einsum import einsum_nest
from tilestitch.mapping.tree.tables import FEMTO
from tilestitch.mapping.tree.traffic import BufferedNest, buffered

SHARES = (0.05, 0.2, 0.5, 1.0)  # of room for everything


def check_block(name: str, cases: int, most_loops: int) -> None:
    seed = random.Random(name)
    fitting, above = 0, 0
    for number in range(cases):
        nest = random_case(seed, most_loops).nest
        found = BufferedNest.of(nest)
        for share in SHARES:
            capacity = max(1, int(share * found.whole_bits))
            least = found.least_bits(capacity)
            expected = FEMTO * least_energy(buffered(nest, capacity), final_sums=False)
            assert (inf if least is None else least) == pytest.approx(expected, rel=1e-12), (name, number, share)
            fitting += least is not None
            above += least is not None and least > found.compulsory_bits()
    assert fitting > cases
    assert above > cases / 4


def test_nothing_moves_less_than_what_is_found():
    """All orders and places of small random nests, counted by another program, have the same least."""
    check_block("traffic", 10, 3)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(5))
def test_nothing_moves_less_than_what_is_found_for_more_loops(block):
    """100 nests of up to four prime loops."""
    check_block(f"traffic {block}", 20, 4)


def test_more_room_never_moves_more_and_enough_is_the_first_that_moves_least():
    """A byte less than enough moves more; a matrix product needs one operand whole, and a row and an element."""
    found = BufferedNest.of(einsum_nest("O[m,n] += A[m,k] * B[k,n]; m=12 n=8 k=20"))
    least = [found.least_bits(bits) or inf for bits in range(0, found.whole_bits + 8, 64)]
    assert least == sorted(least, reverse=True)
    assert least[0] == inf
    assert least[-1] == found.compulsory_bits() == 16 * (12 * 8 + 12 * 20 + 20 * 8)
    enough = found.enough_bytes()
    assert enough == 2 * (12 * 8 + 8 + 1)  # all sums stay: a row of B, one element of A after another
    assert found.least_bits(8 * enough) == found.compulsory_bits()
    assert (found.least_bits(8 * (enough - 1)) or inf) > found.compulsory_bits()


def test_a_search_that_would_take_too_long_is_refused():
    """And says what to do."""
    found = BufferedNest.of(einsum_nest("O[m,n] += A[m,k] * B[k,n]; m=64 n=64 k=64"))
    with pytest.raises(TooLarge, match="ask for a larger capacity"):
        found.least_bits(8 * 512, most_labels=10)

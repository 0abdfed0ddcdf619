"""Numbers that are rounded for people."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from tilestitch.base.units import tenths


def test_thirds_add_up_to_the_whole():
    """Each alone would be 33.3, and six sixths of 100 add up to 100.2."""
    assert tenths([Fraction(100, 3)] * 3) == [Fraction(334, 10), Fraction(333, 10), Fraction(333, 10)]
    assert sum(tenths([Fraction(100, 6)] * 6)) == 100


@given(st.lists(st.fractions(-100, 100), max_size=20))
def test_tenths_add_up_and_are_near(values):
    found = tenths(values)
    assert all(one * 10 == int(one * 10) for one in found)
    assert all(abs(one - value) < Fraction(1, 10) for one, value in zip(found, values, strict=True))
    assert abs(sum(found) - sum(values)) <= Fraction(1, 20)

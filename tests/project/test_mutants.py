"""The table of mutants fits the code and names tests that are there."""

from dataclasses import replace

import pytest

from tests.mutants.mutant import Mutant, stale
from tests.mutants.table import MUTANTS

pytestmark = pytest.mark.quick

FITTING = Mutant(
    "a mistake",
    "base/units.py",
    "def ceil_div(",
    "def ceil_dif(",
    ("test_mutants", "test_mutants::test_a_table_that_fits"),
)


def test_every_mutant_changes_the_code_and_names_tests():
    assert stale(MUTANTS) == []


def test_a_table_that_does_not_fit_is_told_why():
    assert stale([FITTING]) == ["a mistake: test_mutants.py has no test test_a_table_that_fits"]
    assert stale([replace(FITTING, tests=("test_nowhere",))]) == [
        "a mistake: there is not one file test_nowhere.py below tests/"
    ]
    whole = replace(FITTING, tests=("test_mutants",))
    assert stale([whole]) == []
    assert stale([whole, whole]) == ["a mistake: several mutants have this name"]
    assert stale([replace(whole, after=whole.before)]) == [
        "a mistake: its text occurs 1 times in base/units.py; once, and a change, is right"
    ]

"""Products of several choices, of which only a part runs in the fast tests; the others are slow."""

from collections.abc import Collection, Sequence
from itertools import product

import pytest
from _pytest.mark import ParameterSet


def by_pairs(first: Sequence, second: Sequence, third: Sequence) -> list[tuple]:
    """As many combinations as the first two choices have, in which any two values of different choices meet."""
    assert len(third) <= min(len(first), len(second))
    return [(a, b, third[(i + j) % len(third)]) for (i, a), (j, b) in product(enumerate(first), enumerate(second))]


def covering(*choices: Sequence) -> list[tuple]:
    """As few combinations of choices as have every value: as many as the longest choice has values.

    The others step on after every round, so that they do not meet the same values again.
    """
    return [
        tuple(choice[at] for choice, at in zip(choices, places, strict=True)) for places in sorted(_covering(choices))
    ]


def each_once(*choices: Sequence) -> list[ParameterSet]:
    """Every combination of choices; of the fast ones, each value is in one or a few."""
    fast = _covering(choices)
    return [
        pytest.param(*(choice[at] for choice, at in zip(choices, places, strict=True)), marks=_fast_if(places in fast))
        for places in product(*(range(len(choice)) for choice in choices))
    ]


def one_each(first: Sequence, second: Sequence) -> list[ParameterSet]:
    """Every combination of two choices; each value of the first is in one fast one, with another of the second."""
    step = max(1, len(second) // len(first))
    return [
        pytest.param(a, b, marks=_fast_if(j == i * step % len(second)))
        for (i, a), (j, b) in product(enumerate(first), enumerate(second))
    ]


def _covering(choices: Sequence[Sequence]) -> set[tuple[int, ...]]:
    longest = max(map(len, choices))
    return {
        tuple((step + (step // len(choice) if len(choice) < longest else 0)) % len(choice) for choice in choices)
        for step in range(longest)
    }


def one_in(count: int, first: Sequence, second: Sequence) -> list[ParameterSet]:
    """Every combination of two choices, one in `count` of them fast; each value is in as many fast ones as others."""
    assert count <= min(len(first), len(second))
    return [
        pytest.param(a, b, marks=_fast_if((i + j) % count == 0))
        for (i, a), (j, b) in product(enumerate(first), enumerate(second))
    ]


def first(count: int, values: Sequence) -> list[ParameterSet]:
    """All values, the first `count` of them fast."""
    return [pytest.param(value, marks=_fast_if(at < count)) for at, value in enumerate(values)]


def slow_for(slow: Collection, values: Sequence) -> list[ParameterSet]:
    """All values, those in `slow` slow."""
    return [pytest.param(value, marks=_fast_if(value not in slow)) for value in values]


def one_of(count: int, values: Sequence) -> list[ParameterSet]:
    """All values, one in `count` of them fast."""
    return [pytest.param(value, marks=_fast_if(at % count == 0)) for at, value in enumerate(values)]


def _fast_if(fast: bool) -> list[pytest.MarkDecorator]:
    return [] if fast else [pytest.mark.slow]

"""Choices of what is spread where axes, or loops, may be exchanged."""

import random
from dataclasses import replace
from fractions import Fraction
from math import prod

import numpy as np
import pytest
from numba import njit

from tests.helpers.tree_brute_force import random_case
from tests.helpers.tree_spatial import with_axes
from tilestitch.base.errors import DoesNotFit
from tilestitch.formats.einsum import einsum_nest
from tilestitch.hardware.tree import MachineTree
from tilestitch.ir.choices import Objective
from tilestitch.mapping.tree import choices, quick_prices
from tilestitch.mapping.tree.choices import Ragged, SpatialSpace, choices_of
from tilestitch.mapping.tree.crossings import tile_elements
from tilestitch.mapping.tree.placed import PlacedNest, product_of
from tilestitch.mapping.tree.search import best_mapping
from tilestitch.mapping.tree.spatial import placement


def twins(bare, seed):
    """The nest on a tree where an axis is there once more, under another name."""
    at = seed.randrange(len(bare.tree.axes))
    axis = replace(bare.tree.axes[at], size=seed.choice((bare.tree.axes[at].size, 4, 6)))
    other = replace(axis, name="twin")
    axes = [*bare.tree.axes[:at], axis, *bare.tree.axes[at + 1 :]]
    axes.insert(seed.randrange(len(axes) + 1), other)
    serves = {memory.name: (*memory.serves, "twin") for memory in bare.tree.memories if axis.name in memory.serves}
    memories = tuple(replace(one, serves=serves.get(one.name, one.serves)) for one in bare.tree.memories)
    return replace(bare, tree=replace(bare.tree, axes=tuple(axes), memories=memories))


def test_axes_that_may_be_exchanged_leave_the_same_choices(monkeypatch):
    """The same choices in the same order, whether rows that are one another's exchange are made once or twice."""
    seed = random.Random("twins")
    cases = []
    while len(cases) < 150:
        bare = with_axes(random_case(seed, 3), seed)
        if not bare.tree.axes:
            continue
        bare = twins(bare, seed)
        cases.append((bare, SpatialSpace(seed.choice(list(Ragged)), seed.choice((0.0, 0.5)))))
    once = [choices_of(*case) for case in cases]
    monkeypatch.setattr(choices, "_are_twins", lambda *_: False)
    for one, case in zip(once, cases, strict=True):
        both = choices_of(*case)
        assert (one.over == both.over).all()
        assert (one.under == both.under).all()
        assert (one.steps == both.steps).all()
    assert sum(map(len, once)) > 700


def square_convolution(seed):
    """A small convolution whose rows and columns the nest does not tell apart."""
    pixels, taps = seed.choice((5, 7, 10)), seed.choice((1, 2, 3))
    loops = {"m": seed.choice((1, 3)), "c": seed.choice((1, 2, 3)), "x": pixels, "y": pixels, "fx": taps, "fy": taps}
    extents = " ".join(f"{name}={extent}" for name, extent in loops.items())
    return einsum_nest(f"O[m,x,y] += W[m,c,fx,fy] * I[c,x+fx,y+fy]; {extents}")


def with_rows_for_columns(placed):
    """The same with rows and columns in each other's place."""
    other = [0, 1, 3, 2, 5, 4]
    return replace(placed, unrolled=tuple(replace(one, loop=other[one.loop]) for one in placed.unrolled))


def least(placed, objective):
    """The energy and the latency of the best mapping; None where none fits."""
    try:
        price = best_mapping(placed, objective=objective).price
    except DoesNotFit:
        return None
    return price.energy_pj, price.latency_cycles


def test_loops_that_are_exchanged_cost_the_same_to_the_last_bit():
    """Also where up to two factors are not whole; then one of both choices is searched."""
    seed = random.Random("square")
    compared = broken = 0
    while compared < 400:
        bare = with_axes(replace(random_case(seed, 1), nest=square_convolution(seed), unrolled=()), seed)
        space = SpatialSpace(seed.choice((Ragged.FILLING, Ragged.ALL)))
        found = choices_of(bare, space)
        spread = {frozenset(placement(bare, found, number).unrolled) for number in range(len(found))}
        for number in seed.sample(range(len(found)), min(5, len(found))):
            one = placement(bare, found, number)
            other = with_rows_for_columns(one)
            fractions = sum(factor.factor.denominator > 1 for factor in one.unrolled)
            if one.unrolled == other.unrolled or fractions > 2:
                continue
            assert frozenset(other.unrolled) not in spread - {frozenset(one.unrolled)}
            objective = seed.choice((Objective.ENERGY, Objective.EDP))
            assert least(one, objective) == least(other, objective)
            compared, broken = compared + 1, broken + (fractions == 2)
    assert broken > 50


@pytest.mark.parametrize("moves_boxes, zigzag_windows", [(False, False), (False, True), (True, False)])
def test_elements_do_not_depend_on_which_of_two_loops_has_which_fraction(moves_boxes, zigzag_windows):
    """To the last bit, as half of an element is rounded up or down: 3 x 7/3 x 7/2 is 24.5, or a little less."""
    tree = MachineTree("any", (), (), mac_pj=0.0, moves_boxes=moves_boxes)
    seed, order, halves = random.Random("halves"), [0, 1, 3, 2, 5, 4], 0
    for _ in range(300):
        nest = square_convolution(seed)
        spread = [Fraction(1)] * 6
        for loop in seed.sample(range(2, 6), 2):
            spread[loop] = Fraction(seed.choice((5, 7, 9, 14)), seed.choice((2, 3, 4, 5, 6)))
        placed = PlacedNest(nest, 8, ("I", "W", "O"), (), tree, zigzag_windows=zigzag_windows)
        tiles = np.array([[seed.choice((1, 2, 3)) for _ in range(6)] for _ in range(20)], np.int64)
        for array in nest.operands:
            found = tile_elements(placed, array, tiles, tuple(spread))
            assert (found == tile_elements(placed, array, tiles[:, order], tuple(spread[at] for at in order))).all()
            halves += int((np.abs(found % 1 - 0.5) < 1e-9).sum())
    assert halves > 1000


@njit
def compiled_product(factors):
    return quick_prices.product_of(factors, len(factors))


def test_the_compiled_search_makes_the_same_products():
    """To the last bit, in any order of up to two fractions among whole factors."""
    seed, unlike = random.Random("products"), 0
    for _ in range(2000):
        factors = [float(seed.randint(1, 9)) for _ in range(2)]
        factors += [seed.choice((5, 7, 9, 14)) / seed.choice((2, 3, 4, 5, 6)) for _ in range(2)]
        other = seed.sample(factors, 4)
        one, two = (compiled_product(np.array(some)) for some in (factors, other))
        assert one == two == product_of(np.array(factors).reshape(4, 1))[0]
        unlike += prod(factors) != prod(other)
    assert unlike > 100

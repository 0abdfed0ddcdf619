"""Choices of what is spread over axes that may be exchanged."""

import random
from dataclasses import replace

from tests.helpers.tree_brute_force import random_case
from tests.helpers.tree_spatial import with_axes
from tilestitch.mapping.tree import choices
from tilestitch.mapping.tree.choices import Ragged, SpatialSpace, choices_of


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

"""Small random problems on trees, of every kind that proofs are about."""

from dataclasses import replace

from tests.helpers.tree_brute_force import like_arrays, timed_case, with_engines, with_networks
from tests.helpers.tree_spatial import with_limits
from tilestitch.mapping.tree.tables import Sums

KINDS = ("plain", "networks", "limits", "order", "arrays", "engines")
ROUNDED = ("networks", "arrays")  # where crossings have no whole femtojoules


def random_problem(seed, kind):
    """A nest of up to three primes on a random tree, with ports in time, and how wide sums are."""
    placed = timed_case(seed, 3)
    if kind == "networks":
        placed = with_networks(placed, seed)
    if kind == "arrays":
        placed = like_arrays(with_networks(placed, seed), seed)
    if kind == "engines":
        placed = with_engines(placed, seed)
    if kind == "limits":
        placed = with_limits(placed, seed)
    if kind == "order":
        placed = replace(placed, order=tuple((loop, 0) for loop in seed.sample(range(3), 2)))
    return placed, seed.choice(list(Sums))

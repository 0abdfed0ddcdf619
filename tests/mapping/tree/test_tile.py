"""What a tile of a product takes on the units of a tree: the fastest mapping inside the local buffer."""

from dataclasses import replace

import pytest

from tilestitch.base.errors import DoesNotFit
from tilestitch.formats.einsum import einsum_nest
from tilestitch.hardware.load import load_machine
from tilestitch.hardware.tree import MachineTree
from tilestitch.ir.choices import Objective
from tilestitch.mapping.tree.bound import as_wide, bound, wired
from tilestitch.mapping.tree.choices import SpatialSpace
from tilestitch.mapping.tree.spatial import best_spread
from tilestitch.mapping.tree.tile import tile_on_tree

TILES = (
    "O[m,x,y] += I[c,x+f,y+g] * W[m,c,f,g]; m=24 c=20 x=7 y=5 f=3 g=3",
    "O[m,n] += A[m,k] * B[k,n]; m=20 k=48 n=40",
    "O[c,x,y] += I[c,x+f,y+g] * W[c,f,g]; c=16 x=6 y=6 f=3 g=3",
    "O[m,n] += A[m,k] * B[k,n]; m=1 k=64 n=48",
    "O[m,n] += A[m,k] * B[k,n]; m=1 k=192 n=64",
)


def inside_of(machine: str) -> MachineTree:
    inside = load_machine(machine).cores[0].inside
    assert inside is not None
    return inside


@pytest.mark.parametrize("machine", ["gemmini", "nvdla", "tpu-v4i"])
@pytest.mark.parametrize("tile", TILES)
def test_the_choices_that_are_opened_come_near_the_proven_best(machine: str, tile: str) -> None:
    """Few are opened; the search of all of them finds little that is faster, for one row of a product, and nothing."""
    inside, nest = inside_of(machine), replace(einsum_nest(tile), name="")
    assert inside.bits is not None
    placed = bound(as_wide(nest, inside.bits, inside.sum_bits or 0), inside.bits, inside)
    best = best_spread(placed, wired(placed, SpatialSpace()), objective=Objective.LATENCY).found
    assert best.is_proven
    cycles, least = tile_on_tree(nest, inside).cycles, best.price.latency_cycles
    assert least <= cycles <= (1.06 if "m=1 " in tile else 1) * least


def test_a_tile_that_fits_nowhere_is_refused() -> None:
    """No register of a unit has room for a weight of 64 bits."""
    inside = inside_of("gemmini")
    tile = replace(einsum_nest("O[m,n] += A[m,k] * B[k,n]; m=4 k=4 n=4"), name="")
    with pytest.raises(DoesNotFit, match="has no mapping that fits the memories inside the local buffer of gemmini"):
        tile_on_tree(tile, replace(inside, bits=64, sum_bits=64))

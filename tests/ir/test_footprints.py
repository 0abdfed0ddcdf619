"""Footprints of affine accesses are those that the integer set library finds (islpy, as an oracle)."""

from random import Random

import islpy as isl
import pytest

from tilestitch.ir.graph import Access, Axis, Dim, DimKind
from tilestitch.ir.region import Region
from tilestitch.ir.verify import fills_box

pytestmark = pytest.mark.quick


def random_access(random: Random, dims: int) -> Access:
    """Of a tensor with up to three axes; strides are largest first, as a graph has them."""
    axes = []
    for _ in range(random.randint(1, 3)):
        moving = random.sample(range(dims), random.randint(0, min(2, dims)))
        strides = sorted((random.choice([-3, -2, -1, 1, 2, 3, 4]) for _ in moving), key=abs, reverse=True)
        axes.append(Axis(tuple(zip(moving, strides, strict=True)), random.randint(-2, 2)))
    return Access("t", tuple(axes))


def touched(access: Access, box: Region) -> isl.Map:
    """From the iterations of a box to the element that each touches, over the dims that move the access."""
    dims = sorted(access.dims)
    sums = [
        " + ".join([*(f"{stride} * d{dim}" for dim, stride in axis.terms), str(axis.offset)]) for axis in access.axes
    ]
    within = " and ".join(f"{box.start[dim]} <= d{dim} < {box.stop[dim]}" for dim in dims) or "true"
    return isl.Map(f"{{ [{', '.join(f'd{dim}' for dim in dims)}] -> [{', '.join(sums)}] : {within} }}")


def as_set(region: Region) -> isl.Set:
    names = [f"a{axis}" for axis in range(len(region.start))]
    within = " and ".join(f"{a} <= {name} < {b}" for name, a, b in zip(names, region.start, region.stop, strict=True))
    return isl.Set(f"{{ [{', '.join(names)}] : {within} }}")


@pytest.mark.parametrize("seed", range(200))
def test_the_hull_is_the_smallest_box_of_the_footprint(seed):
    random = Random(seed)
    start = tuple(random.randint(0, 3) for _ in range(4))
    box = Region(start, tuple(at + random.randint(1, 4) for at in start))
    access = random_access(random, len(start))
    footprint = touched(access, box).range()
    hull = access.hull(box)
    for axis in range(len(access.axes)):
        assert footprint.dim_min_val(axis).to_python() == hull.start[axis]
        assert footprint.dim_max_val(axis).to_python() == hull.stop[axis] - 1


@pytest.mark.parametrize("seed", range(300))
def test_a_box_is_filled_where_each_of_its_elements_is_touched_once(seed):
    random = Random(seed)
    dims = [Dim(f"d{number}", random.randint(2, 4), DimKind.PARALLEL) for number in range(3)]
    access = random_access(random, len(dims))
    box = Region((0,) * len(dims), tuple(dim.extent for dim in dims))
    found = touched(access, box)
    once = found.is_injective() and found.range().is_equal(as_set(access.hull(box)))
    assert fills_box(access, dims) == once

"""What the outputs of a network need: by trying all iterations."""

from itertools import product
from random import Random

import numpy as np
import pytest

from tilestitch.cost import needs
from tilestitch.ir.graph import Access, Axis, Dim, DimKind, Operator


@pytest.mark.quick
@pytest.mark.parametrize("seed", range(200))
def test_what_is_needed_of_an_axis_that_loops_share_writes_it(seed: int):
    """Every iteration that counts writes something that is wanted, and some do if any can; places may be left out."""
    random = Random(seed)
    dims: list[Dim] = []
    terms: list[tuple[int, int]] = []
    reach = 1
    for number in range(random.randint(1, 3)):
        extent, stride = random.randint(1, 4), reach + random.choice([0, 0, 1, 2])
        dims.append(Dim(f"d{number}", extent, DimKind.PARALLEL))
        terms.append((number, stride))
        reach += stride * (extent - 1)
    axis, size = Axis(tuple(terms), random.randint(0, 2)), reach + 4
    op = Operator("op", "add", tuple(dims), (), (Access("y", (axis,)),))
    wanted = sorted(random.sample(range(size), random.randint(1, size)))
    writes = {
        at: axis.offset + sum(stride * at[dim] for dim, stride in terms)
        for at in product(*(range(dim.extent) for dim in dims))
    }
    loops = needs._loops(op, op.writes[0], (np.array(wanted),))
    found = set() if loops is None else set(product(*(loop.tolist() for loop in loops)))
    assert found <= {at for at, place in writes.items() if place in wanted}
    assert bool(found) == any(place in wanted for place in writes.values())

"""Chains cut into every number of pieces along every axis give what onnxruntime gives."""

import numpy as np
import pytest

import tilestitch
from tests.gpu.builds import expect_equal
from tests.gpu.chains import convolutions, products
from tests.helpers.perceptrons import perceptron
from tests.helpers.verified import model
from tilestitch import KernelOptions
from tilestitch.ir.rewriting import Across

BATCH = 4


def cut(model, axis, pieces, dtype) -> tilestitch.Built:
    """A build in which all operators are one sub-graph of so many pieces, each of which is a module."""
    group = tilestitch.HandGroup("all", pieces=pieces, axis=axis)
    schedule = tilestitch.HandSchedule("by hand", (group,), "depth_first")
    options = tilestitch.Options(batch=BATCH, batch_per_cluster=BATCH)
    built = tilestitch.build(model, strategy=schedule, options=options, kernels=KernelOptions(dtype=dtype))
    count = pieces if isinstance(pieces, int) else len(pieces)
    assert len({row["module"] for row in built.records()}) == count
    for module in built.plan.modules:
        text = built.files[f"{module.name}.py"].decode()
        assert count == 1 or f" of {count}.\n" in text
    return built


# The extents of what leaves each chain, along the axes that are cut.
@pytest.mark.parametrize("seed, extents", [(7, {0: 4, 1: 3, 2: 8, 3: 9}), (1, {0: 4, 1: 8, 2: 9, 3: 4})])
def test_every_split_of_convolutions_is_right(tmp_path, seed, extents):
    """Samples, channels, rows and columns, with strides, ragged pads and halos between the pieces."""
    model = convolutions(np.random.default_rng([seed, 23]), 2)
    shape = [dim.dim_value for dim in model.graph.output[0].type.tensor_type.shape.dim]
    assert {axis: shape[axis] or BATCH for axis in extents} == extents
    splits = [(axis, pieces) for axis, extent in extents.items() for pieces in range(1, extent + 1)]
    builds = {f"float32-{axis}-{pieces}": cut(model, axis, pieces, "float32") for axis, pieces in splits}
    uneven = (1, extents[2] - 1)
    builds |= {"float32-uneven": cut(model, 2, uneven, "float32"), "float16-uneven": cut(model, 2, uneven, "float16")}
    builds |= {f"float16-{axis}": cut(model, axis, 3, "float16") for axis in extents}
    expect_equal(tmp_path, model, builds, BATCH)


@pytest.mark.parametrize("seed, rows", [(1, 6)])
def test_every_split_of_products_is_right(tmp_path, seed, rows):
    """Samples and rows, with what came in added at the end."""
    model = products(np.random.default_rng([seed, 24]), 3)
    shape = [dim.dim_value for dim in model.graph.output[0].type.tensor_type.shape.dim]
    assert shape[1] == rows
    splits = [(0, pieces) for pieces in range(1, BATCH + 1)] + [(1, pieces) for pieces in range(1, rows + 1)]
    builds = {
        f"{dtype}-{axis}-{pieces}": cut(model, axis, pieces, dtype)
        for axis, pieces in splits
        for dtype in ("float32", "float16")
    }
    expect_equal(tmp_path, model, builds, BATCH)


def test_pieces_along_two_axes_are_right(tmp_path):
    """Samples, and rows of each, with halos between these."""
    model = convolutions(np.random.default_rng([7, 23]), 2)
    group = tilestitch.HandGroup("all", pieces=2, further=((2, 2),))
    schedule = tilestitch.HandSchedule("by hand", (group,), "depth_first")
    options = tilestitch.Options(batch=BATCH, batch_per_cluster=BATCH)
    builds = {
        dtype: tilestitch.build(model, strategy=schedule, options=options, kernels=KernelOptions(dtype=dtype))
        for dtype in ("float32", "float16")
    }
    assert {len({row["module"] for row in built.records()}) for built in builds.values()} == {4}
    expect_equal(tmp_path, model, builds, BATCH)


def test_folded_norms_and_packed_constants_are_right(tmp_path):
    """Norms without scale and shift, and constants that begin somewhere in a pack."""
    network = model("vit-b16", small=True)
    schedule = tilestitch.HandSchedule("packed", (tilestitch.HandGroup("all"),), folded=True, packed=True)
    options = tilestitch.Options(batch=BATCH, batch_per_cluster=BATCH)
    builds = {
        dtype: tilestitch.build(network, strategy=schedule, options=options, kernels=KernelOptions(dtype=dtype))
        for dtype in ("float32", "float16")
    }
    expect_equal(tmp_path, network, builds, BATCH)


def test_divided_reductions_are_right(tmp_path):
    """Every part of a product by itself, and their sum with what follows."""
    model = perceptron(rows=6, width=16, hidden=48)
    options = tilestitch.Options(batch=BATCH, batch_per_cluster=BATCH)
    builds = {}
    for dtype in ("float32", "float16"):
        for parts in (2, 6):
            asked = (Across("second", parts), Across("first", 2))
            schedule = tilestitch.HandSchedule("divided", (tilestitch.HandGroup("all"),), across=asked)
            kernels = KernelOptions(dtype=dtype)
            builds[f"{dtype}-{parts}"] = tilestitch.build(model, strategy=schedule, options=options, kernels=kernels)
    expect_equal(tmp_path, model, builds, BATCH)

"""Three products in one kernel, and depthwise convolutions between two, give what onnxruntime gives."""

from dataclasses import replace

import pytest

import tilestitch
from tests.gpu.builds import expect_equal
from tests.gpu.chains import ALWAYS, chained, perceptron
from tilestitch import KernelOptions
from tilestitch.backends.triton.launch import Limits
from tilestitch.ops.contraction import KINDS

# Of every convolution: channels made (0: depthwise), window, stride, and padding at each of the four ends.
CHAINS = {
    "three of 3x3": (
        (12, (3, 3), (1, 1), (1, 1, 1, 1)),
        (10, (3, 3), (1, 1), (1, 1, 1, 1)),
        (7, (3, 3), (1, 1), (1, 1, 1, 1)),
    ),
    "with strides and ragged pads": (
        (12, (3, 2), (1, 2), (0, 1, 2, 0)),
        (10, (2, 3), (2, 1), (1, 2, 0, 0)),
        (7, (1, 3), (1, 1), (0, 0, 0, 2)),
    ),
    "bottleneck": ((6, (1, 1), (1, 1), (0,) * 4), (6, (3, 3), (1, 1), (1, 1, 1, 1)), (20, (1, 1), (1, 1), (0,) * 4)),
    "inverted residual": (
        (40, (1, 1), (1, 1), (0,) * 4),
        (0, (3, 3), (1, 1), (1, 1, 1, 1)),
        (9, (1, 1), (1, 1), (0,) * 4),
    ),
    "with stride": ((70, (1, 1), (1, 1), (0,) * 4), (0, (3, 3), (2, 2), (1, 1, 0, 0)), (9, (1, 1), (1, 1), (0,) * 4)),
    "depthwise at the end": (
        (12, (3, 3), (1, 1), (1, 1, 1, 1)),
        (10, (1, 1), (2, 1), (0,) * 4),
        (0, (5, 3), (1, 1), (2, 1, 2, 1)),
    ),
    "depthwise twice": (
        (11, (1, 1), (1, 1), (0,) * 4),
        (0, (3, 3), (1, 1), (1, 1, 1, 1)),
        (0, (3, 1), (1, 1), (0,) * 4),
    ),
}


def in_one_kernel(model, **limits) -> dict[str, tilestitch.Built]:
    """Builds in both types; all products are in one kernel."""
    chosen = replace(Limits.of_all(), again=ALWAYS, **limits)
    builds = {
        dtype: tilestitch.build(model, strategy="one-block", batch=2, kernels=KernelOptions(dtype=dtype, limits=chosen))
        for dtype in ("float32", "float16")
    }
    for built in builds.values():
        products = [op.name for op in built.plan.schedule.graph.operators if op.kind in KINDS]
        holding = [one for module in built.plan.modules for one in module.launches if {*one.operators} & {*products}]
        assert len(products) == 3
        assert [one.form for one in holding] == ["fused products"]
    return builds


@pytest.mark.parametrize("name", CHAINS)
def test_three_convolutions_are_one_kernel(tmp_path, name):
    """With halos of halos; a depthwise convolution takes as many channels at a time as the one after it asks for."""
    model = chained(CHAINS[name])
    expect_equal(tmp_path, model, in_one_kernel(model), 2)


# The first product is computed again for every block of 128 columns, and of 256 terms of the third.
@pytest.mark.parametrize("widths, again", [((20, 50, 30, 17), 1), ((64, 200, 130, 300), 3), ((20, 40, 300, 150), 4)])
def test_three_matrix_products_are_one_kernel(tmp_path, widths, again):
    """What lies between the second and the third is held whole where it can be."""
    model = perceptron(widths)
    builds = in_one_kernel(model)
    assert [one.again for module in builds["float32"].plan.modules for one in module.launches] == [again]
    expect_equal(tmp_path, model, builds, 2)


def test_a_chain_of_images_of_one_axis_is_one_kernel(tmp_path):
    """As in Conformer: a tile is longer where there is one axis."""
    layers = ((12, (1,), (1,), (0, 0)), (0, (9,), (1,), (4, 4)), (9, (1,), (1,), (0, 0)))
    model = chained(layers, (150,))
    expect_equal(tmp_path, model, in_one_kernel(model), 2)

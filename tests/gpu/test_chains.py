"""Random chains of convolutions and products, fused wherever they can be, give what onnxruntime gives."""

import numpy as np
import pytest

import tilestitch
from tests.gpu.builds import expect_equal
from tests.gpu.chains import ALWAYS, convolutions, products
from tilestitch import KernelOptions
from tilestitch.backends.triton.launch import Limits


@pytest.mark.parametrize("make, seed", [(make, seed) for make in (convolutions, products) for seed in range(8)])
def test_a_fused_chain_gives_what_onnxruntime_gives(tmp_path, make, seed):
    """In both types, in blocks of several sizes; something is fused in most of them."""
    generator = np.random.default_rng([seed, 22])
    model = make(generator, int(generator.integers(2, 4)))
    limits = Limits(*(int(2 ** generator.integers(4, 8)) for _ in range(3)), again=ALWAYS, windows=True)
    builds = {
        f"{dtype}-{name}": tilestitch.build(
            model, strategy="one-block", batch=2, kernels=KernelOptions(dtype=dtype, limits=chosen)
        )
        for dtype in ("float32", "float16")
        for name, chosen in (("chosen", Limits(again=ALWAYS, windows=True)), ("random", limits))
    }
    forms = {row["form"] for built in builds.values() for row in built.records()}
    assert "fused products" in forms
    expect_equal(tmp_path, model, builds, 2)

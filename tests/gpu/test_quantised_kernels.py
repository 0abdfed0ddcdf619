"""Quantised networks in Triton's interpreter: products of bytes are exact, and the rest rounds as ONNX says."""

from dataclasses import replace

import numpy as np
import pytest
from onnxruntime.quantization import QuantType

import tilestitch
from tests.gpu.builds import TOLERANCE, executed, written
from tests.gpu.chains import ALWAYS, chained
from tests.helpers.quantised_networks import quantised, quantised_while_it_runs, residual_network, transformer_layer
from tilestitch import KernelOptions
from tilestitch.backends.triton.launch import Limits
from tilestitch.ops.contraction import KINDS
from tilestitch.sim.chip.interpret import interpret
from tilestitch.sim.chip.reference import onnxruntime_outputs
from tilestitch.zoo.inputs import sample_inputs

BATCH = 2
FORMS = {
    "u8s8-per-channel": {"activations": QuantType.QUInt8, "per_channel": True},
    "s8s8-per-tensor": {"activations": QuantType.QInt8, "per_channel": False},
}


@pytest.mark.parametrize("strategy", ["tvm", "one-block"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("network", [residual_network, transformer_layer])
def test_a_quantised_network_gives_what_onnxruntime_gives(tmp_path, network, form, strategy):
    """Kernel by kernel and fused; every product is one of bytes."""
    model = quantised(network(), tmp_path, **FORMS[form])
    found = expect_steps(tmp_path, model, strategy, again=ALWAYS)
    forms = {row["form"] for row in found.records()}
    assert ("fused products" in forms) == (strategy == "one-block")
    text = "".join(content.decode() for name, content in found.files.items() if name.endswith(".py"))
    assert "dtype=tl.int32)" in text
    assert "acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)" not in text


@pytest.mark.parametrize("form", FORMS)
def test_a_quantised_inverted_residual_is_one_kernel(tmp_path, form):
    """The depthwise convolution adds up bytes of the tile before it, less what stands for zero."""
    layers = ((40, (1, 1), (1, 1), (0,) * 4), (0, (3, 3), (1, 1), (1,) * 4), (9, (1, 1), (1, 1), (0,) * 4))
    found = expect_steps(tmp_path, quantised(chained(layers), tmp_path, **FORMS[form]), "one-block")
    graph = found.plan.schedule.graph
    kernels = [one for module in found.plan.modules for one in module.launches]
    products = [sum(graph.by_name[name].kind in KINDS for name in one.operators) for one in kernels]
    assert max(products) == sum(products) == 3


@pytest.mark.parametrize("network", [residual_network, transformer_layer])
def test_scales_may_be_found_while_the_network_runs(tmp_path, network):
    """Zero points are operands then, and scales stay float32 where tensors are float16."""
    expect_steps(tmp_path, quantised_while_it_runs(network(), tmp_path), "tvm")


def expect_steps(tmp_path, model, strategy, again=Limits().again) -> tilestitch.Built:
    """The rules of docs/model.md: in float32 a step at most, seldom; in float16 4 times the untiled network's error.

    Returns the build in float32.
    """
    inputs = {
        name: value.astype(np.float16).astype(np.float32) for name, value in sample_inputs(model, batch=BATCH).items()
    }
    (wanted,) = onnxruntime_outputs(model, [inputs])
    limits = replace(Limits.of_all(), again=again)
    builds = {
        dtype: tilestitch.build(
            model, strategy=strategy, batch=BATCH, kernels=KernelOptions(dtype=dtype, limits=limits)
        )
        for dtype in ("float32", "float16")
    }
    folders = [written(tmp_path / dtype, built) for dtype, built in builds.items()]
    exact, rounded = executed(folders, inputs)
    graph = builds["float32"].plan.schedule.graph
    untiled = interpret(graph, inputs, wide=False)
    steps = {op.outputs[0]: op.attribute("scale", 0.0) for op in graph.operators if op.kind == "dequantize"}
    for name, right in wanted.items():
        largest = np.abs(right).max()
        errors = np.abs(exact[name].astype(np.float32) - right)
        differing = errors > TOLERANCE["float32"] * largest
        assert differing.sum() <= max(1, right.size // 1000), name
        step = float(steps.get(name, 0.0))  # type: ignore[arg-type]  # there is none where nothing is dequantised
        assert errors.max() <= step + TOLERANCE["float32"] * largest, name
        error = np.abs(rounded[name].astype(np.float32) - right).max()
        allowed = 4 * np.abs(untiled[name].astype(np.float32) - right).max()
        assert error <= max(allowed, TOLERANCE["float16"] * largest), f"{name}: {error:.3g}, at most {allowed:.3g}"
    return builds["float32"]

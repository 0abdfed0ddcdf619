"""What is known while reading, by rules of our own: windows, bands of the mel scale, and what nothing adds up to."""

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from tests.helpers.graphs import Net
from tilestitch import api
from tilestitch.base.errors import InputError
from tilestitch.frontend.reader import read_onnx


def value_of(model: onnx.ModelProto) -> np.ndarray:
    """The only output, which onnxruntime has not evaluated."""
    evaluated: list[str] = []
    graph = read_onnx(model, evaluated=evaluated)
    assert evaluated == []
    assert graph.operators == ()
    return graph.constants[graph.outputs[0]]


def by_onnxruntime(model: onnx.ModelProto) -> Any:
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, {})[0]


@pytest.mark.parametrize("periodic", [0, 1])
@pytest.mark.parametrize("size", [2, 7, 16])
@pytest.mark.parametrize("op", ["HannWindow", "HammingWindow", "BlackmanWindow"])
def test_windows_are_those_of_onnxruntime(op: str, size: int, periodic: int) -> None:
    net = Net()
    model = net.model(net.op(op, np.array(size), periodic=periodic))
    found, expected = value_of(model), by_onnxruntime(model)
    assert found.dtype == expected.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_window_has_the_type_that_is_asked_for() -> None:
    net = Net()
    found = value_of(net.model(net.op("HannWindow", np.array(5, np.int32), output_datatype=TensorProto.DOUBLE)))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, np.sin(np.pi * np.arange(5) / 5) ** 2, atol=1e-15)


def mel(bands: int, length: int, rate: int, low: float, high: float) -> onnx.ModelProto:
    net = Net()
    sizes = [np.array(size) for size in (bands, length, rate)]
    return net.model(net.op("MelWeightMatrix", *sizes, *(np.array(edge, np.float32) for edge in (low, high))))


@pytest.mark.parametrize(
    "sizes", [(8, 16, 8192, 0.0, 4096.0), (20, 256, 16000, 60.0, 7600.0), (40, 64, 8000, 0.0, 4000.0)]
)
def test_bands_of_the_mel_scale_are_those_of_onnxruntime(sizes: Any) -> None:
    model = mel(*sizes)
    found = value_of(model)
    np.testing.assert_allclose(found, by_onnxruntime(model), atol=1e-6)
    assert (found == 1).any(axis=0).all()


def test_a_spectrum_through_window_and_bands_means_what_onnxruntime_computes() -> None:
    net = Net()
    x = net.op("Mul", net.input(3, 16), net.op("HammingWindow", np.array(16)))
    spectrum = net.op("DFT", net.op("Unsqueeze", x, [2]), "", np.array(1), onesided=1)
    power = net.op("ReduceSumSquare", spectrum, [2], keepdims=0)
    sizes = [np.array(size) for size in (4, 16, 8000)]
    bands = net.op("MelWeightMatrix", *sizes, *(np.array(edge, np.float32) for edge in (0.0, 4000.0)))
    done = api.compile(net.model(net.op("MatMul", power, bands)), "toy", strategy="tvm", verify=True)
    assert done.report is not None
    assert done.report.verified, done.report.checks
    assert done.report.generic_operators == ()


@pytest.mark.parametrize(
    ("size", "kind", "message"),
    [
        (-1, TensorProto.FLOAT, "size -1; expected at least 0"),
        (10**12, TensorProto.FLOAT, "it needs constants of 7.28 TiB"),
        (4, TensorProto.UNDEFINED, "attribute output_datatype=0"),
    ],
)
def test_a_window_that_cannot_be_is_refused(size: int, kind: int, message: str) -> None:
    net = Net()
    with pytest.raises(InputError) as error:
        read_onnx(net.model(net.op("HannWindow", np.array(size), output_datatype=kind)))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((8, 16, 0, 0.0, 4000.0), "8 bands of 16 samples at 0 Hz"),
        ((8, 16, 8000, 0.0, float("inf")), "to inf Hz; expected numbers from 1 on, and finite edges"),
        ((8, 16, 8000, 0.0, 8000.0), "expected edges up to 4000.0 Hz"),
    ],
)
def test_bands_that_cannot_be_are_refused(sizes: Any, message: str) -> None:
    with pytest.raises(InputError) as error:
        read_onnx(mel(*sizes))
    assert message in str(error.value)


REDUCTIONS = {
    np.float32: ("L1", "L2", "LogSum", "LogSumExp", "Max", "Min", "Prod", "Sum", "SumSquare"),
    np.int32: ("L1", "Max", "Min", "Prod", "Sum", "SumSquare"),
    np.int8: ("Max", "Min"),
}


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize(("dtype", "op"), [(dtype, op) for dtype, ops in REDUCTIONS.items() for op in ops])
def test_what_nothing_adds_up_to(op: str, dtype: type, keepdims: int) -> None:
    net = Net(20)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    model = net.model(net.op(f"Reduce{op}", net.input(2, 0, 3, dtype=kind), [1], keepdims=keepdims))
    found = value_of(model)
    with np.errstate(divide="ignore"):
        (expected,) = ReferenceEvaluator(model).run(None, {"in0": np.zeros((2, 0, 3), dtype)})
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("op", ["Max", "Min"])
def test_the_extremes_of_no_truth_values(op: str) -> None:
    net = Net(20)
    model = net.model(net.op(f"Reduce{op}", net.input(2, 0, dtype=TensorProto.BOOL), [1]))
    assert value_of(model).tolist() == [[op == "Min"]] * 2

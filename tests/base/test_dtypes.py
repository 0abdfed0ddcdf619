"""Every element type has a place in memory, at both widths, and keeps its values there."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.helpers.graphs import Net
from tilestitch.base.dtypes import DType
from tilestitch.base.storage import STORAGE, array_type, memory_scale
from tilestitch.frontend.reader import read_onnx
from tilestitch.hardware.load import load_machine
from tilestitch.pipeline.compile import compile_network
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.strategies import strategy_named
from tilestitch.sim.chip.interpret import interpret

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("dtype", DType)
def test_a_stored_type_has_a_partner_of_twice_its_width(dtype):
    """Which the execution in float32 needs, as it doubles every address. Both stand for 8 bits without a format."""
    narrow, wide = array_type(dtype, wide=False), array_type(dtype, wide=True)
    assert wide.itemsize == 2 * narrow.itemsize
    assert narrow.itemsize == (2 if dtype is DType.FLOAT8 else 1) * dtype.size_bytes


@pytest.mark.parametrize(
    ("dtypes", "narrow", "wide"),
    [
        ((DType.FLOAT16, DType.INT32), 1, 2),
        ((DType.INT8,), 1, 2),
        ((DType.FLOAT8, DType.INT32), 2, 4),
    ],
)
def test_memories_are_as_much_larger_as_the_widest_stand_in(dtypes, narrow, wide):
    """A float16 stands for 8 bits, so that every address is doubled; a float32 doubles it again."""
    assert memory_scale(dtypes, wide=False) == narrow
    assert memory_scale(dtypes, wide=True) == wide


@pytest.mark.parametrize("element_type", [t for t in STORAGE if t.itemsize == 1], ids=str)
def test_every_value_of_a_byte_is_stored_exactly_at_both_widths(element_type):
    """Also of the types that share their array type with another one."""
    bits = np.arange(256, dtype=np.uint8)
    with np.errstate(invalid="ignore"):
        values = bits.view(element_type).astype(np.float64)
        for wide in (False, True):
            stored = values.astype(array_type(STORAGE[element_type], wide=wide)).astype(np.float64)
            assert np.array_equal(stored, values, equal_nan=True)


@pytest.mark.parametrize("wide", [False, True])
def test_integers_wrap_around_at_their_own_width(wide):
    """Although the wide execution has twice as many bits."""
    net = Net()
    y = net.op("Add", net.input(2, name="x", dtype=2), net.constant(np.array([3, 250], np.uint8)))
    found = interpret(read_onnx(net.model(y)), {"x": np.array([1, 10], np.uint8)}, wide=wide)
    assert found[y].tolist() == [4, 4]


def halves(element_type: int) -> onnx.ModelProto:
    """Two products and a softmax in floats of 16 bits."""
    net = Net(opset=22)
    kind = helper.tensor_dtype_to_np_dtype(element_type)
    weight = np.random.default_rng(0).standard_normal((64, 64)).astype(kind)
    x = net.op("Relu", net.op("MatMul", net.input(4, 64, name="x", dtype=element_type), net.constant(weight)))
    return net.model(net.op("Softmax", net.op("MatMul", x, net.constant(weight))))


def passed_on(element_type: int) -> onnx.ModelProto:
    """An input of any type as float32, doubled, and that again in the type."""
    net = Net(opset=23)
    x = net.op("Cast", net.input(4, 64, name="x", dtype=element_type), to=TensorProto.FLOAT)
    y = net.op("Mul", x, net.constant(0.5))
    return net.model(y, net.op("Cast", y, to=element_type))


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(halves(TensorProto.FLOAT16), id="float16"),
        pytest.param(halves(TensorProto.BFLOAT16), id="bfloat16"),
        *(
            pytest.param(passed_on(getattr(TensorProto, name)), id=name.lower())
            for name in ("BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "UINT8", "INT16")
        ),
    ],
)
def test_a_network_of_any_type_is_verified(model):
    """Though onnxruntime rounds 16 bits between operators, and exchanges no arrays of 8-bit floats."""
    options = Options(batch=4, verify=True)
    report = compile_network(model, "net", load_machine("toy"), strategy_named("tvm"), options).report
    assert report.verified, report.checks
    assert not report.generic_operators

"""Values that leave the range of a type: infinities, NaN, powers and casts of integers, and what is said of them."""

import warnings

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from tests.helpers.graphs import Net
from tilestitch import api
from tilestitch.base.errors import InputError
from tilestitch.ir.report import CheckRow, Report
from tilestitch.report.report_text import report_text
from tilestitch.sim.chip.values import constant_to_storage

pytestmark = pytest.mark.quick

LARGE = 2.0**15  # so that no product is rounded


def verified(model: onnx.ModelProto) -> Report:
    """A report without a failure, for which numpy has not warned the reader of infinities either."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = api.compile(model, "toy", verify=True, strategy="tvm").report
    assert report is not None
    assert report.verified, report.checks
    return report


@pytest.mark.parametrize("op", ["Log", "Sqrt", "Exp", "Tan", "Mish", "Softsign", "Gelu"])
def test_nan_and_infinities_are_values_like_others(op):
    """The operand has both signs, and in float16 infinities."""
    net = Net()
    x = net.op("Mul", net.input(4, 16), LARGE)
    verified(net.model(net.op(op, x), net.op("Sub", x, x), net.op("Reciprocal", net.op("Relu", x))))


def test_what_float16_cannot_carry_is_no_proof():
    """The reference overflows like the program, so that a comparison would say that all is well; float32 decides."""
    net = Net()
    x = net.op("Mul", net.input(4, 16), LARGE)
    report = verified(net.model(net.op("Mul", x, 2.0, name="y")))
    wide, narrow = report.checks
    assert wide.passed
    assert [narrow.conclusive, narrow.passed, narrow.failed] == [False] * 3
    assert 0.1 < narrow.lost < 1.0
    text = report_text(report)
    assert f"float16 cannot carry this network, tiled or not: {100 * narrow.lost:.3g} % of 'y' become infinite" in text
    assert "no proof" in text


@pytest.mark.parametrize("allowed", [1.0, float("nan")])
def test_a_tolerance_that_zeros_would_meet_is_no_proof(allowed):
    """However many values are decided: those of a network that float16 turns into NaN are compared with NaN."""
    row = CheckRow("float16", 0.5, allowed, "y", compared=100, decided=100)
    assert [row.conclusive, row.passed, row.failed] == [False] * 3


def test_rounding_that_leaves_nothing_is_no_proof():
    """A constant that float16 clamps to a thousandth of itself."""
    net = Net()
    report = verified(net.model(net.op("Add", net.input(4, 16), 1e8, name="y")))
    narrow = report.checks[1]
    assert (narrow.conclusive, narrow.lost) == (False, 0.0)
    assert "rounding costs 'y' a quarter or more" in report_text(report)


def test_infinite_constants_stay_infinite_and_only_finite_ones_are_clamped():
    """As masks of attention have them; a row that is masked wholly is NaN at both widths."""
    values = np.array([-np.inf, -1e30, 1.0, np.nan, np.inf], np.float32)
    stored = constant_to_storage(values, api.load_graph(masked()).tensors["scores"].dtype, wide=False)
    np.testing.assert_array_equal(stored, np.array([-np.inf, -65504.0, 1.0, np.nan, np.inf], np.float16))
    report = verified(masked())
    assert [check.passed for check in report.checks] == [True, True]
    assert report.notes == ()


def masked() -> onnx.ModelProto:
    net = Net()
    mask = np.zeros((4, 8), np.float32)
    mask[1, 3:] = mask[2] = -np.inf
    return net.model(net.op("Softmax", net.op("Add", net.input(4, 8), mask, name="scores")))


@pytest.mark.parametrize("kind", [TensorProto.INT32, TensorProto.INT64])
@pytest.mark.parametrize("exponent", [np.int64(-2), np.float32(-1), np.float32(0.5), np.int64(3)])
def test_integers_have_powers_of_any_exponent(kind, exponent):
    net = Net()
    x = net.op("Cast", net.op("Add", net.op("Relu", net.input(4, 16)), 1.0), to=kind)
    verified(net.model(net.op("Pow", x, net.constant(exponent))))


@pytest.mark.parametrize("kind", [TensorProto.INT8, TensorProto.UINT16, TensorProto.INT32])
def test_casts_of_what_an_integer_cannot_hold_are_those_of_onnxruntime(kind):
    net = Net()
    x = net.op("Mul", net.input(4, 16), 2.0**33)  # no product is rounded, so that the lowest bits are certain
    verified(net.model(net.op("Cast", net.op("Log", x), to=kind), net.op("Cast", x, to=kind)))


def test_outputs_beyond_what_the_machine_holds_are_refused():
    """Zero to a negative power is the least integer of 64 bits for onnxruntime; a double may leave float32."""
    net = Net()
    x = net.op("Cast", net.op("Relu", net.input(4, 16)), to=TensorProto.INT64)
    with pytest.raises(InputError, match=r"output 'y': .* -9223372036854775808 and .* -2147483648 to 2147483647"):
        verified(net.model(net.op("Pow", x, net.constant(np.int64(-1)), name="y")))
    net = Net()
    x = net.op("Cast", net.op("Mul", net.input(4, 16), 1e30), to=TensorProto.DOUBLE)
    with pytest.raises(InputError, match=r"output 'y': .* and [0-9.]+e\+60, .* so nothing can be verified"):
        verified(net.model(net.op("Mul", x, x, name="y")))

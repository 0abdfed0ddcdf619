"""Casts between element types mean what the ONNX project's own tests of single nodes say, and what the bits say."""

import ml_dtypes
import numpy as np
import pytest

from tests.helpers.onnx_nodes import CASTS, as_array, interpreted, node_cases
from tilestitch.base.dtypes import DType
from tilestitch.base.errors import InputError
from tilestitch.ops.conversion import FORMATS, convert

REFUSED = {
    "test_bitcast_float64_to_int64": "64",
    "test_bitcast_int64_to_float64": "64",
}
NUMPY = {
    DType.FLOAT8E4M3FN: ml_dtypes.float8_e4m3fn,
    DType.FLOAT8E4M3FNUZ: ml_dtypes.float8_e4m3fnuz,
    DType.FLOAT8E5M2: ml_dtypes.float8_e5m2,
    DType.FLOAT8E5M2FNUZ: ml_dtypes.float8_e5m2fnuz,
    DType.FLOAT6E2M3: ml_dtypes.float6_e2m3fn,
    DType.FLOAT6E3M2: ml_dtypes.float6_e3m2fn,
    DType.FLOAT4E2M1: ml_dtypes.float4_e2m1fn,
}


@pytest.mark.parametrize("operator", CASTS)
def test_a_cast_means_what_the_onnx_project_says(operator):
    """To the bit of the type that it casts to."""
    covered = 0
    for case in node_cases(operator):
        for arrays, expected in case.data_sets:
            if any(as_array(array).dtype.kind in "OU" for array in (*arrays, *expected)):
                continue  # text
            if case.name in REFUSED:
                with pytest.raises(InputError, match=REFUSED[case.name]):
                    interpreted(case, arrays)
                continue
            found = interpreted(case, arrays)
            for name, value in zip(found, expected, strict=True):
                value = as_array(value)
                as_declared = found[name].astype(value.dtype).astype(np.float64)
                np.testing.assert_array_equal(as_declared, value.astype(np.float64), err_msg=case.name)
            covered += 1
    assert covered == CASTS[operator]


@pytest.mark.parametrize("to", FORMATS)
@np.errstate(invalid="ignore")
def test_floats_round_as_their_bits_say(to):
    """Every float16, ties and subnormal numbers of the smaller types among them, as another implementation has it."""
    x = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float32)
    finite = x[np.isfinite(x)]
    with np.errstate(all="ignore"):
        expected = finite.astype(NUMPY[to]).astype(np.float32)
    found = convert(finite, to, saturate=False)
    assert np.array_equal(found, expected, equal_nan=True)
    saturated = convert(x, to)
    largest = float(ml_dtypes.finfo(NUMPY[to]).max)
    assert np.abs(saturated[~np.isnan(x)]).max() == largest
    inside = np.abs(expected) <= largest  # NaN and infinity are not
    assert np.array_equal(convert(finite, to)[inside], expected[inside])
    assert np.isnan(saturated[np.isnan(x)]).all() == (to.bits == 8)


@pytest.mark.parametrize(
    "round_mode, saturate, expected",
    [
        ("up", True, [2**-127, 2**-3, 0.5, 2.0, 4.0, 2.0**127, 2.0**127, np.nan]),
        ("down", True, [2**-127, 2**-4, 0.5, 1.0, 2.0, 2.0**127, 2.0**127, np.nan]),
        ("nearest", True, [2**-127, 2**-3, 0.5, 1.0, 4.0, 2.0**127, 2.0**127, np.nan]),
        ("nearest", False, [np.nan, 2**-3, 0.5, 1.0, 4.0, np.nan, np.nan, np.nan]),
    ],
)
def test_powers_of_two_round_in_three_ways(round_mode, saturate, expected):
    """float8e8m0: zero is the smallest of all; half-way goes up."""
    x = np.array([0.0, 0.124, 0.5, 1.1, 3.0, 3.4e38, np.inf, np.nan], np.float32)
    found = convert(x, DType.FLOAT8E8M0, saturate=saturate, round_mode=round_mode)
    assert np.array_equal(found, np.array(expected, np.float32), equal_nan=True)


def test_integers_keep_their_lower_bits():
    """Fractions go first; what the standard leaves open is the same on each machine."""
    x = np.array([200, -9, 8, 2**40 + 3])
    assert convert(x, DType.INT8).tolist() == [-56, -9, 8, 3]
    assert convert(x, DType.UINT4).tolist() == [8, 7, 8, 3]
    floats = np.array([2.9, -2.9, 300.0, np.nan, np.inf, 3e9], np.float32)
    assert convert(floats, DType.INT8).tolist() == [2, -2, 44, 0, 0, 0]
    assert convert(floats, DType.INT32).tolist() == [2, -2, 300, *[-(2**31)] * 3]
    assert convert(floats, DType.UINT32).tolist() == [2, 2**32 - 2, 300, 0, 0, 3_000_000_000]
    assert convert(floats, DType.BOOL).tolist() == [True] * 6

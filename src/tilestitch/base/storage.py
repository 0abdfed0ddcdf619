"""Element types as numpy knows them: the arrays that hold them at both widths, and how a network's are stored."""

from collections.abc import Iterable

import ml_dtypes
import numpy as np

from tilestitch.base.dtypes import DType


def array_type(dtype: DType, *, wide: bool) -> np.dtype:
    """The array type that holds an element; `wide` is the type of twice the size.

    The float32 check of a program runs it on memories in which every address and every size is doubled, so each
    stored type needs a partner of exactly twice its width, which can hold every value of it.
    """
    return _PARTNERS[dtype][wide]


def memory_scale(dtypes: Iterable[DType], *, wide: bool) -> int:
    """By how much every address and every size is multiplied, so that the array types of all elements have room."""
    return max((array_type(dtype, wide=wide).itemsize // dtype.size_bytes for dtype in dtypes), default=1)


# Per type the array type that holds it and the one of twice the size. Floating types of less than 8 bits lie in one of
# 8 bits that has a NaN, by which poisoned memory is recognised.
_PARTNERS = {
    dtype: (np.dtype(narrow), np.dtype(wide))
    for dtype, narrow, wide in (
        (DType.FLOAT16, np.float16, np.float32),
        (DType.FLOAT32, np.float32, np.float64),
        (DType.FLOAT8, np.float16, np.float32),  # without a format, so memories are twice and four times as large
        (DType.BFLOAT16, ml_dtypes.bfloat16, np.float32),
        (DType.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn, np.float16),
        (DType.FLOAT8E4M3FNUZ, ml_dtypes.float8_e4m3fnuz, np.float16),
        (DType.FLOAT8E5M2, ml_dtypes.float8_e5m2, np.float16),
        (DType.FLOAT8E5M2FNUZ, ml_dtypes.float8_e5m2fnuz, np.float16),
        (DType.FLOAT8E8M0, ml_dtypes.float8_e8m0fnu, ml_dtypes.bfloat16),  # from 2**-127 to 2**127
        (DType.FLOAT6E2M3, ml_dtypes.float8_e4m3fn, np.float16),
        (DType.FLOAT6E3M2, ml_dtypes.float8_e4m3fn, np.float16),
        (DType.FLOAT4E2M1, ml_dtypes.float8_e4m3fn, np.float16),
        (DType.INT8, np.int8, np.int16),
        (DType.UINT8, np.uint8, np.uint16),
        (DType.INT16, np.int16, np.int32),
        (DType.UINT16, np.uint16, np.uint32),
        (DType.INT32, np.int32, np.int64),
        (DType.UINT32, np.uint32, np.uint64),
        (DType.INT4, np.int8, np.int16),
        (DType.UINT4, np.uint8, np.uint16),
        (DType.INT2, np.int8, np.int16),
        (DType.UINT2, np.uint8, np.uint16),
        (DType.BOOL, np.uint8, np.uint16),
    )
}

# How a tensor of a network is stored; 64-bit integers are indices and shapes, which fit 32 bits.
STORAGE = {
    np.dtype(element_type): dtype
    for element_type, dtype in (
        (np.float16, DType.FLOAT16),
        (np.float32, DType.FLOAT16),
        (np.float64, DType.FLOAT16),
        (ml_dtypes.bfloat16, DType.BFLOAT16),
        (ml_dtypes.float8_e4m3fn, DType.FLOAT8E4M3FN),
        (ml_dtypes.float8_e4m3fnuz, DType.FLOAT8E4M3FNUZ),
        (ml_dtypes.float8_e5m2, DType.FLOAT8E5M2),
        (ml_dtypes.float8_e5m2fnuz, DType.FLOAT8E5M2FNUZ),
        (ml_dtypes.float8_e8m0fnu, DType.FLOAT8E8M0),
        (ml_dtypes.float6_e2m3fn, DType.FLOAT6E2M3),
        (ml_dtypes.float6_e3m2fn, DType.FLOAT6E3M2),
        (ml_dtypes.float4_e2m1fn, DType.FLOAT4E2M1),
        (np.int8, DType.INT8),
        (np.uint8, DType.UINT8),
        (np.int16, DType.INT16),
        (np.uint16, DType.UINT16),
        (np.int32, DType.INT32),
        (np.int64, DType.INT32),
        (np.uint32, DType.UINT32),
        (np.uint64, DType.UINT32),
        (ml_dtypes.int4, DType.INT4),
        (ml_dtypes.uint4, DType.UINT4),
        (ml_dtypes.int2, DType.INT2),
        (ml_dtypes.uint2, DType.UINT2),
        (np.bool_, DType.BOOL),
    )
}

"""Element types as they are stored in the machine's memories, and their numpy counterparts at both widths."""

import re
from enum import StrEnum

import ml_dtypes
import numpy as np

_WIDTH = re.compile(r"\d+")  # the first number of a type's name is its width


class DType(StrEnum):
    """An element type in memory. Floating tensors of a network are stored as float16 unless it is quantised.

    A name is that of ONNX. Types of less than 8 bits take a byte an element.
    """

    FLOAT16 = "float16"
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT8E4M3FN = "float8e4m3fn"
    FLOAT8E4M3FNUZ = "float8e4m3fnuz"
    FLOAT8E5M2 = "float8e5m2"
    FLOAT8E5M2FNUZ = "float8e5m2fnuz"
    FLOAT8E8M0 = "float8e8m0"
    FLOAT6E2M3 = "float6e2m3"
    FLOAT6E3M2 = "float6e3m2"
    FLOAT4E2M1 = "float4e2m1"
    INT8 = "int8"
    UINT8 = "uint8"
    INT16 = "int16"
    UINT16 = "uint16"
    INT32 = "int32"
    UINT32 = "uint32"
    INT4 = "int4"
    UINT4 = "uint4"
    INT2 = "int2"
    UINT2 = "uint2"
    BOOL = "bool"

    @property
    def size_bytes(self) -> int:
        """Bytes of one element in the machine."""
        return self.numpy(wide=False).itemsize

    @property
    def is_float(self) -> bool:
        return self.startswith(("float", "bfloat"))

    @property
    def bits(self) -> int:
        """Bits of one element, of which the machine may take more to store it."""
        return 8 if self is DType.BOOL else int(_WIDTH.findall(self)[0])

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest value of an integer type."""
        return (0, 2**self.bits - 1) if self.startswith("u") else (-(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1)

    def numpy(self, *, wide: bool) -> np.dtype:
        """The array type that holds an element; `wide` is the type of twice the size.

        The float32 check of a program runs it on memories in which every address and every size is doubled, so each
        stored type needs a partner of exactly twice its width, which can hold every value of it.
        """
        return _PARTNERS[self][wide]


# Per type the array type that holds it and the one of twice the size. Floating types of less than 8 bits lie in one of
# 8 bits that has a NaN, by which poisoned memory is recognised.
_PARTNERS = {
    dtype: (np.dtype(narrow), np.dtype(wide))
    for dtype, narrow, wide in (
        (DType.FLOAT16, np.float16, np.float32),
        (DType.FLOAT32, np.float32, np.float64),
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

FLOAT16_MAX = 65504.0

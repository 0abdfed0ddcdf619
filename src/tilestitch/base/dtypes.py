"""Element types as they are stored in the machine's memories."""

import re
from enum import StrEnum

_WIDTH = re.compile(r"\d+")  # the first number of a type's name is its width


class DType(StrEnum):
    """An element type in memory. Floating tensors of a network are stored as float16 unless it is quantised.

    A name is that of ONNX; `float8` alone is not in it: what a machine whose elements have 8 bits stores of a float16,
    in a format that nobody says. Types of less than 8 bits take a byte an element.
    """

    FLOAT16 = "float16"
    FLOAT32 = "float32"
    FLOAT8 = "float8"
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
        return _SIZE_BYTES[self]

    @property
    def is_float(self) -> bool:
        return self.startswith(("float", "bfloat"))

    @property
    def has_float16(self) -> bool:
        """Whether the values that stand for its elements, where a program is executed, are those of float16."""
        return self in (DType.FLOAT16, DType.FLOAT8)

    @property
    def bits(self) -> int:
        """Bits of one element, of which the machine may take more to store it."""
        return 8 if self is DType.BOOL else int(_WIDTH.findall(self)[0])

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest value of an integer type."""
        return (0, 2**self.bits - 1) if self.startswith("u") else (-(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1)


_SIZE_BYTES = {dtype: max(dtype.bits // 8, 1) for dtype in DType}  # asked for hundreds of thousands of times
FLOAT16_MAX = 65504.0

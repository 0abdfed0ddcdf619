"""Element types as they are stored in the machine's memories, and their numpy counterparts at both widths."""

from enum import StrEnum

import numpy as np


class DType(StrEnum):
    """An element type in memory. Floating tensors of a network are stored as float16 unless it is quantised."""

    FLOAT16 = "float16"
    FLOAT32 = "float32"
    INT8 = "int8"
    UINT8 = "uint8"
    INT16 = "int16"
    INT32 = "int32"
    BOOL = "bool"

    @property
    def size_bytes(self) -> int:
        """Bytes of one element in the machine."""
        return _SIZE_BYTES[self]

    @property
    def is_float(self) -> bool:
        return self in (DType.FLOAT16, DType.FLOAT32)

    def numpy(self, *, wide: bool) -> np.dtype:
        """The array type that holds an element; `wide` is the type of twice the size.

        The float32 check of a program runs it on memories in which every address and every size is doubled, so each
        stored type needs a partner of exactly twice its width.
        """
        return np.dtype(_WIDE[self] if wide else _NARROW[self])


_SIZE_BYTES = {
    DType.FLOAT16: 2,
    DType.FLOAT32: 4,
    DType.INT8: 1,
    DType.UINT8: 1,
    DType.INT16: 2,
    DType.INT32: 4,
    DType.BOOL: 1,
}
_NARROW = {
    DType.FLOAT16: np.float16,
    DType.FLOAT32: np.float32,
    DType.INT8: np.int8,
    DType.UINT8: np.uint8,
    DType.INT16: np.int16,
    DType.INT32: np.int32,
    DType.BOOL: np.uint8,
}
_WIDE = {
    DType.FLOAT16: np.float32,
    DType.FLOAT32: np.float64,
    DType.INT8: np.int16,
    DType.UINT8: np.uint16,
    DType.INT16: np.int32,
    DType.INT32: np.int64,
    DType.BOOL: np.uint16,
}

# How a tensor of a network is stored; 64-bit integers are indices and shapes, which fit 32 bits.
STORAGE = {
    np.dtype(np.float16): DType.FLOAT16,
    np.dtype(np.float32): DType.FLOAT16,
    np.dtype(np.float64): DType.FLOAT16,
    np.dtype(np.int8): DType.INT8,
    np.dtype(np.uint8): DType.UINT8,
    np.dtype(np.int16): DType.INT16,
    np.dtype(np.int32): DType.INT32,
    np.dtype(np.int64): DType.INT32,
    np.dtype(np.bool_): DType.BOOL,
}

FLOAT16_MAX = 65504.0

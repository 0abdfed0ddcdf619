"""Element types by their ONNX numbers."""

import numpy as np
from onnx import TensorProto, helper

BOOL, INT64 = np.dtype(np.bool_), np.dtype(np.int64)  # of comparisons; of places and indices


def numpy_type(number: int) -> np.dtype | None:
    """The array type of an ONNX element type, or None where there is none."""
    try:
        return np.dtype(helper.tensor_dtype_to_np_dtype(number))
    except KeyError:
        return None


def type_name(number: int) -> str:
    """`FLOAT` for 1; the number itself where ONNX has no such type."""
    return TensorProto.DataType.Name(number) if number in TensorProto.DataType.values() else str(number)


def schema_type(dtype: np.dtype) -> str:
    """`tensor(float)` for float32: the name in operator definitions."""
    return f"tensor({type_name(helper.np_dtype_to_tensor_dtype(dtype)).lower()})"


def type_text(dtype: np.dtype) -> str:
    """An array type for messages; numpy holds text as objects."""
    return "text" if dtype.kind == "O" else str(dtype)


def known_types() -> str:
    """The element types that have a place in the machine's memories, for messages."""
    return "booleans, integers of 2 to 64 bits and floats of 4 to 64 bits"

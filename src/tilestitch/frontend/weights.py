"""What must hold of a weight before anybody reads it: as much data as its shape needs."""

import re
import sys
from math import prod

import numpy as np
from onnx import TensorProto, helper

from tilestitch.base.errors import InputError, printable
from tilestitch.base.units import ceil_div
from tilestitch.frontend.element_types import numpy_type, type_name

_BITS = {"FLOAT": 32, "DOUBLE": 64, "BOOL": 8}  # of types whose names do not say how many


def bits_of(element_type: int) -> int | None:
    """Bits of one element of an ONNX type in a file; None where they have no fixed size, or there is no such type."""
    name = type_name(element_type)
    digits = re.search("[0-9]+", name)
    if name == str(element_type) or digits is None:
        return _BITS.get(name)
    return int(digits[0])


def checked_weight(where: str, tensor: TensorProto) -> np.ndarray | None:
    """The array of a weight that lies in the file as numpy has it; None where it must be converted first.

    Refuses a weight that does not hold what its shape needs; text is left to who reads it. Asking for the bytes copies
    them, so that whoever has looked at them keeps them.
    """
    bits = bits_of(tensor.data_type)
    if bits is None and tensor.data_type != TensorProto.STRING:
        found = type_name(tensor.data_type)
        raise InputError(f"{where}: tensor '{printable(tensor.name)}' is of type {found}; expected a known type.")
    if bits is None:
        return None
    where = f"{where}: tensor '{printable(tensor.name)}' holds"
    if tensor.HasField("raw_data"):
        content = tensor.raw_data
        expect_bytes(where, tensor, len(content))
        dtype = numpy_type(tensor.data_type)
        if dtype is None or dtype.isbuiltin != 1 or sys.byteorder == "big" or tensor.HasField("segment"):
            return None
        return np.frombuffer(content, dtype).reshape(tensor.dims)
    needed, found = _elements(where, tensor), len(getattr(tensor, helper.tensor_dtype_to_field(tensor.data_type)))
    if tensor.data_type in (TensorProto.COMPLEX64, TensorProto.COMPLEX128):
        needed *= 2
    elif bits in (2, 4):  # packed into bytes, of which each is a number of the field
        needed = ceil_div(needed * bits, 8)
    if found != needed:
        raise _damaged(f"{where} {found:,} numbers", tensor, f"{needed:,}")
    return None


def expect_bytes(where: str, tensor: TensorProto, size_bytes: int) -> None:
    """Refuse a tensor that has `size_bytes` of data where its shape needs more or fewer."""
    bits = bits_of(tensor.data_type)
    if bits is None:
        return
    needed = ceil_div(_elements(where, tensor) * bits, 8)
    if needed != size_bytes:
        raise _damaged(f"{where} {size_bytes:,} bytes", tensor, f"{needed:,}")


def _elements(where: str, tensor: TensorProto) -> int:
    if min(tensor.dims, default=0) < 0:
        raise _damaged(f"{where} a negative extent", tensor, "extents of at least 0")
    return prod(tensor.dims)


def _damaged(found: str, tensor: TensorProto, needed: str) -> InputError:
    shape = f"{type_name(tensor.data_type)}[{'x'.join(map(str, tensor.dims))}]"
    return InputError(f"{found}; {shape} needs {needed}. The file is damaged: export it again.")

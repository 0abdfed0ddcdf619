"""Arrays inside a document: their bytes, little-endian and in row-major order, as zlib's stream in base64."""

import base64
import zlib

import numpy as np

from tilestitch.base.json_text import JsonPart
from tilestitch.base.storage import STORAGE

MOST_BYTES = 2**40  # of an array; more than any file can hold
_SAMPLE_BYTES = 2**16
_WORTH = 0.8  # what a sample may keep of its size, so that the whole is compressed: weights are nearly random


def packed(array: np.ndarray) -> str:
    """The text of an array. Where a sample hardly gets smaller, the stream holds the bytes as they are.

    So it is with weights: to compress them would save 7 % of the room, and take twenty times as long.
    """
    data = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    sample = data[:_SAMPLE_BYTES]
    level = 6 if len(zlib.compress(sample, 6)) < _WORTH * len(sample) else 0
    return base64.b64encode(zlib.compress(data, level)).decode()


def unpacked(part: JsonPart, dtype: np.dtype, shape: tuple[int, ...], size: int) -> np.ndarray:
    """The array of a `shape` with `size` elements that a text stands for, read-only."""
    size_bytes = size * dtype.itemsize
    try:
        data = base64.b64decode(part.text("base64 of a stream of zlib"), validate=True)
        stream = zlib.decompressobj()
        found = stream.decompress(data, min(size_bytes, MOST_BYTES) + 1)  # whatever more the stream goes on to say
    except (ValueError, zlib.error):
        part.refuse("expected a zlib stream in base64, found something else")
    if len(found) != size_bytes or not stream.eof or stream.unused_data:
        ending = "" if stream.eof else " of a stream that breaks off"
        more = "more" if len(found) > size_bytes or stream.unused_data else f"{len(found):,}{ending}"
        part.refuse(f"expected {size_bytes:,} bytes for {size:,} elements of {dtype.name}, found {more}")
    array = np.frombuffer(found, dtype.newbyteorder("<")).astype(dtype, copy=False).reshape(shape)
    _check_elements(part, array)
    return array


def _check_elements(part: JsonPart, array: np.ndarray) -> None:
    """Refuse bytes that stand for no element of a type that has fewer values than its bytes."""
    few = array.dtype.kind == "b" or STORAGE[array.dtype].bits < 8
    if few and not np.array_equal(array.astype(np.float32).astype(array.dtype).view(np.uint8), array.view(np.uint8)):
        part.refuse(f"expected elements of {array.dtype.name}, found bytes that are none")

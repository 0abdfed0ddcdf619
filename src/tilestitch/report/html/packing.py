"""Columns of numbers and a header as text that a page decodes: a container, gzip, base64.

The container is the length of the header in 4 bytes, the header in JSON, and the columns, each of which begins at a
multiple of 8 bytes after it; all little-endian. `header["columns"]` says of each its type, its place and its length.
"""

import gzip
import json
from base64 import b64decode, b64encode
from collections.abc import Mapping

import numpy as np

from tilestitch.base.json_values import Json

_WHOLE = (np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32)
_ALIGNED = 8  # bytes
LARGEST = 2**53  # which a float64 holds exactly


def packed(header: Mapping[str, Json], columns: Mapping[str, np.ndarray]) -> str:
    """A header and columns of whole numbers below 2**53, each in the smallest type that holds it."""
    places: dict[str, Json] = {}
    parts: list[bytes] = []
    at = 0
    for name, values in columns.items():
        stored, kind = _stored(values)
        content = stored.tobytes()
        places[name] = [kind, at, len(values)]
        content += bytes(-len(content) % _ALIGNED)
        at += len(content)
        parts.append(content)
    text = json.dumps({**header, "columns": places}, separators=(",", ":"), allow_nan=False).encode()
    text += b" " * (-(4 + len(text)) % _ALIGNED)
    whole = b"".join([len(text).to_bytes(4, "little"), text, *parts])
    return b64encode(gzip.compress(whole, compresslevel=9, mtime=0)).decode()


def unpacked(text: str) -> tuple[dict[str, Json], dict[str, np.ndarray]]:
    """What was packed."""
    whole = gzip.decompress(b64decode(text))
    length = int.from_bytes(whole[:4], "little")
    header = json.loads(whole[4 : 4 + length])
    columns = {}
    for name, (kind, at, count) in header.pop("columns").items():
        stored = np.frombuffer(whole, np.dtype(kind.removeprefix("d")), count, 4 + length + at)
        columns[name] = np.cumsum(stored, dtype=np.int64) if kind.startswith("d") else stored.astype(np.int64)
    return header, columns


def _stored(values: np.ndarray) -> tuple[np.ndarray, str]:
    """A column as it is kept, and the name of its type: `d` before it where differences are kept, which are shorter."""
    if not len(values):
        return np.zeros(0, np.uint8), "u1"
    values = values.astype(np.int64)
    differences = np.diff(values, prepend=0)
    plain = _smallest(values)
    if plain.kind == "f":
        return values.astype(plain), plain.str[1:]
    between = _smallest(differences)
    if between.itemsize < plain.itemsize or (plain.itemsize >= 4 and _changes(differences) < _changes(values)):
        return differences.astype(between), f"d{between.str[1:]}"
    return values.astype(plain), plain.str[1:]


def _smallest(values: np.ndarray) -> np.dtype:
    least, most = int(values.min()), int(values.max())
    assert max(-least, most) < LARGEST, "numbers of a page must be exact in a float64"
    for kind in _WHOLE:
        if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max:
            return np.dtype(kind).newbyteorder("<")
    return np.dtype("<f8")


def _changes(values: np.ndarray) -> int:
    """How many different values there are: the fewer, the better they compress."""
    return len(np.unique(values))

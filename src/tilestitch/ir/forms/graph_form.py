"""A graph as text, and read back from it: a line for each tensor, operator and constant.

    {"name": "conv", "kind": "conv", "dims": "n:1 m:8 oh:8 ow:8 c+3 kh+3 kw+3",
     "reads": ["image[n, c, oh+kh-1, ow+kw-1]", "w[m, c, kh, kw]"], "writes": ["y[n, m, oh, ow]"]}

is one such line. Dims have the marks of `DimKind.mark`; an index is the sum that `Axis` says, its terms in the same
order. An access with padding other than 0, or with an indirect axis, is an object instead.
"""

import base64
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from math import isfinite, prod
from typing import Any

import numpy as np

from tilestitch.base.dtypes import DType
from tilestitch.base.errors import InputError, InvalidIR
from tilestitch.base.json_text import JsonPart, Rows, document_text, json_fields, json_number, json_value
from tilestitch.base.storage import STORAGE
from tilestitch.ir.forms.arrays import packed, unpacked
from tilestitch.ir.graph import Access, Attribute, Axis, Dim, DimKind, Graph, Operator, Tensor
from tilestitch.ir.verify import verify_graph

FORMAT = "tilestitch.graph"
VERSION = 1
FIELDS = ("name", "inputs", "outputs", "tensors", "operators", "constants")
LARGEST = 2**62  # of extents, strides and offsets
MOST_AXES = 64
MOST_FAULTS = 20  # that a message lists

_ELEMENT_TYPES = {dtype.name: dtype for dtype in STORAGE}
_DTYPES = {str(dtype): dtype for dtype in DType}
_KINDS = {kind.mark: kind for kind in DimKind}
_DIM = re.compile(r"([^\W\d][\w.]*)([:+=])([1-9][0-9]{0,18})")
_TERM = re.compile(r"([+-]?)(?:([1-9][0-9]{0,18})\*)?([^\W\d][\w.]*)")
_OFFSET = re.compile(r"[+-]?[0-9]{1,19}")


def graph_text(graph: Graph) -> str:
    """The whole graph, the values of its constants included."""
    constants = [
        {"tensor": name, "element_type": value.dtype.name, "zlib_base64": packed(value)}
        for name, value in graph.constants.items()
    ]
    return document_text(FORMAT, VERSION, {"name": graph.name, **_structure(graph), "constants": Rows(constants)})


def graph_digest(graph: Graph) -> str:
    """SHA-256, in hexadecimal, of what the graph's text says, but for its name and the values of its constants.

    No decision depends on those: graphs of one digest have the same schedules and the same programs.
    """
    names = {"constants": Rows([{"tensor": name} for name in graph.constants])}
    return hashlib.sha256(document_text(FORMAT, VERSION, {**_structure(graph), **names}).encode()).hexdigest()


def graph_from(text: str, where: str) -> Graph:
    """The graph that `graph_text` wrote; see `graph_in`."""
    return graph_in(JsonPart(json_value(text, where), where))


def graph_in(whole: JsonPart) -> Graph:
    """The graph that a document holds. Raises `InputError` with the place for anything else.

    Which operands and attributes an operator needs is for its kind to say: see `ops.known.verify_operators`.
    """
    fields = json_fields(whole, FORMAT, VERSION, FIELDS)
    tensors = _named(fields["tensors"].items("tensors"), _tensor)
    operators = tuple(map(_operator, fields["operators"].items("operators")))
    graph = Graph(
        fields["name"].text("a name"),
        tensors,
        operators,
        fields["inputs"].texts("names of tensors"),
        fields["outputs"].texts("names of tensors"),
        _named(fields["constants"].items("constants"), lambda part: _constant(part, tensors)),
    )
    try:
        verify_graph(graph)
    except InvalidIR as error:
        raise InputError(
            "\n".join(f"{whole.place}: {line}" for line in str(error).splitlines()[:MOST_FAULTS])
        ) from None
    return graph


def _structure(graph: Graph) -> dict[str, Any]:
    """Everything but the name and the constants."""
    tensors = [
        {"name": name, "dtype": str(tensor.dtype), "shape": list(tensor.shape), "layout": list(tensor.layout)}
        for name, tensor in graph.tensors.items()
    ]
    operators = [_operator_row(op) for op in graph.operators]
    inputs, outputs = list(graph.inputs), list(graph.outputs)
    return {"inputs": inputs, "outputs": outputs, "tensors": Rows(tensors), "operators": Rows(operators)}


def _named(parts: Sequence[JsonPart], read: Callable[[JsonPart], tuple[str, Any]]) -> dict[str, Any]:
    """Entries by name, each of which is there once."""
    found: dict[str, Any] = {}
    for part in parts:
        name, value = read(part)
        if name in found:
            part.refuse(f"{name!r} appears twice; keep one")
        found[name] = value
    return found


def _tensor(part: JsonPart) -> tuple[str, Tensor]:
    fields = part.fields(("name", "dtype", "shape", "layout"))
    name = fields["name"].text("a name")
    shape = fields["shape"].wholes(1, LARGEST)
    if len(shape) > MOST_AXES:
        fields["shape"].refuse(f"expected at most {MOST_AXES} axes, found {len(shape)}")
    return name, Tensor(name, shape, fields["dtype"].choice(_DTYPES), fields["layout"].wholes(0, MOST_AXES))


def _constant(part: JsonPart, tensors: Mapping[str, Tensor]) -> tuple[str, np.ndarray]:
    fields = part.fields(("tensor", "element_type", "zlib_base64"))
    name = fields["tensor"].text("the name of a tensor")
    if name not in tensors:
        fields["tensor"].expected("the name of a tensor of the graph")
    shape = tensors[name].shape
    dtype = fields["element_type"].choice(_ELEMENT_TYPES)
    return name, unpacked(fields["zlib_base64"], dtype, shape, prod(shape))


def _operator_row(op: Operator) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": op.name,
        "kind": op.kind,
        "dims": " ".join(map(str, op.dims)),
        "reads": [_access_row(access, op.dims) for access in op.reads],
        "writes": [_access_row(access, op.dims) for access in op.writes],
    }
    if op.attributes:
        row["attributes"] = {name: _attribute_row(value) for name, value in op.attributes}
    return row


def _operator(part: JsonPart) -> Operator:
    fields = part.fields(("name", "kind", "dims", "reads", "writes"), ("attributes",))
    dims = _dims(fields["dims"])
    attributes = fields["attributes"].entries() if "attributes" in fields else {}
    return Operator(
        fields["name"].text("a name"),
        fields["kind"].text("a kind of operator"),
        dims,
        tuple(_access(read, dims) for read in fields["reads"].items("accesses")),
        tuple(_access(write, dims) for write in fields["writes"].items("accesses")),
        tuple((name, _attribute(value)) for name, value in attributes.items()),
    )


def _dims(part: JsonPart) -> tuple[Dim, ...]:
    text = part.text("dims, such as 'n:1 c+3'")
    found = []
    for word in text.split(" ") if text else ():
        match = _DIM.fullmatch(word)
        if match is None:
            part.refuse(f"expected dims as name, ':', '+' or '=', and extent, such as 'n:1 c+3', found {word[:40]!r}")
        found.append(Dim(match[1], int(match[3]), _KINDS[match[2]]))
    if len({dim.name for dim in found}) != len(found):
        part.refuse("expected every dim once")
    return tuple(found)


def _access_row(access: Access, dims: Sequence[Dim]) -> str | dict[str, Any]:
    text = f"{access.tensor}[{', '.join(_index_text(axis, dims) for axis in access.axes)}]"
    row: dict[str, Any] = {}
    if str(access.pad_value) != "0.0":
        row["pad_value"] = json_number(access.pad_value)
    if access.indirect_axis is not None:
        row["indirect_axis"] = access.indirect_axis
    return {"access": text, **row} if row else text


def _access(part: JsonPart, dims: Sequence[Dim]) -> Access:
    pad_value, indirect_axis, place = 0.0, None, part
    if isinstance(part.value, dict):
        fields = part.fields(("access",), ("pad_value", "indirect_axis"))
        place = fields["access"]
        if "pad_value" in fields:
            pad_value = fields["pad_value"].real()
        if "indirect_axis" in fields:
            indirect_axis = fields["indirect_axis"].whole(0, MOST_AXES)
    text = place.text("an access, such as 'x[n, 2*h+kh-1]'")
    tensor, opened, rest = text.rpartition("[")
    if not opened or not rest.endswith("]"):
        place.expected("an access, such as 'x[n, 2*h+kh-1]'")
    inside = rest.removesuffix("]")
    axes = tuple(_index(word, dims, place) for word in inside.split(", ")) if inside else ()
    return Access(tensor, axes, pad_value, indirect_axis)


def _index_text(axis: Axis, dims: Sequence[Dim]) -> str:
    """`2*oh+kh-1`: the terms in their order, then the offset."""
    text = "".join(f"{_signed(stride)}{dims[dim].name}" for dim, stride in axis.terms)
    if axis.offset or not text:
        text += f"{axis.offset:+d}" if text else str(axis.offset)
    return text.removeprefix("+")


def _signed(stride: int) -> str:
    """What stands before the name of a dim: `+`, `-`, `+2*`."""
    sign = "-" if stride < 0 else "+"
    return sign if abs(stride) == 1 else f"{sign}{abs(stride)}*"


def _index(text: str, dims: Sequence[Dim], place: JsonPart) -> Axis:
    terms, at = [], 0
    while (match := _TERM.match(text, at)) is not None:
        dim = next((number for number, dim in enumerate(dims) if dim.name == match[3]), None)
        if dim is None:
            known = " ".join(dim.name for dim in dims) or "none"
            place.refuse(f"index {text[:60]!r}: found {match[3][:40]!r}, expected a dim of the operator: {known}")
        terms.append((dim, int(f"{match[1]}{match[2] or 1}")))
        at = match.end()
    offset = int(text[at:]) if _OFFSET.fullmatch(text, at) is not None else 0
    axis = Axis(tuple(terms), offset)
    if text != _index_text(axis, dims):  # a sum that breaks off, or that would be written otherwise
        place.refuse(f"index {text[:60]!r}: expected a sum of dims and a number, such as '2*h+kh-1'")
    return axis


def _attribute_row(value: Attribute) -> Any:
    if isinstance(value, tuple):
        return [_attribute_row(item) for item in value]
    if isinstance(value, bytes):
        return {"bytes_base64": base64.b64encode(value).decode()}
    if isinstance(value, float):
        return value if isfinite(value) else {"float": json_number(value)}
    return value


def _attribute(part: JsonPart) -> Attribute:
    value = part.value
    if isinstance(value, list):
        found = tuple(_attribute(item) for item in part.items("numbers"))
        if all(isinstance(item, int) for item in found) or all(isinstance(item, float) for item in found):
            return found  # pyright: ignore[reportReturnType]
        part.refuse("expected a list of whole numbers, or one of numbers with a point")
    if isinstance(value, dict):
        return _wrapped_attribute(part)
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return part.real()
    if isinstance(value, bool) or value is None:
        part.expected("a number, text, a list of numbers, or bytes")
    return part.whole(-LARGEST, LARGEST)


def _wrapped_attribute(part: JsonPart) -> Attribute:
    """A value that JSON has no form for: bytes, and numbers that are infinite or none."""
    if "float" in part.value:
        return part.fields(("float",))["float"].real()
    text = part.fields(("bytes_base64",))["bytes_base64"]
    try:
        return base64.b64decode(text.text("base64"), validate=True)
    except ValueError:
        text.expected("base64")

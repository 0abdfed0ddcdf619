"""An ONNX file as a model, with the weights that it keeps in other files."""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath

import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto, helper
from onnx.external_data_helper import uses_external_data

from tilestitch.base.errors import InputError, printable
from tilestitch.frontend.weights import expect_bytes

_PROTOBUF_LIMIT_BYTES = 2**31
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def load_model(path: Path, *, external: bool = True) -> onnx.ModelProto:
    """Parse a file, and where `external` read the weights that it keeps in other files of its folder."""
    where = printable(str(path))
    content = _content(path, where)
    if not content:
        raise InputError(f"{where}: the file is empty; expected an ONNX model.")
    try:
        model = onnx.load_model_from_string(content)
    except DecodeError:
        raise InputError(
            f"{where}: is not an ONNX model, or was cut off ({len(content):,} bytes); export or download it again."
        ) from None
    for tensor in tensors_of(model):
        if external and uses_external_data(tensor):
            _load_external(path, tensor)
    return model


def weight_files(model: onnx.ModelProto) -> tuple[str, ...]:
    """The files of weights that a model names, each once."""
    external = (tensor for tensor in tensors_of(model) if uses_external_data(tensor))
    return tuple(
        dict.fromkeys(one.value for tensor in external for one in tensor.external_data if one.key == "location")
    )


def tensors_of(model: onnx.ModelProto) -> Iterator[TensorProto]:
    """The weights of a model: initialisers and values in the attributes of nodes, wherever there are graphs."""
    yield from _tensors_of(model.graph)
    for function in model.functions:
        yield from _values_in(function.node)


def _tensors_of(graph: onnx.GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    yield from _values_in(graph.node)


def _values_in(nodes: Iterable[onnx.NodeProto]) -> Iterator[TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for graph in (attribute.g, *attribute.graphs):
                yield from _tensors_of(graph)


def with_own_outputs(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same network, in which an output that is an input itself is a copy of it, named `<input>.output`."""
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = {value.name for value in model.graph.input} - weights
    if inputs.isdisjoint(value.name for value in model.graph.output):
        return model
    copied = onnx.ModelProto()
    copied.CopyFrom(model)
    graph = copied.graph
    taken = {name for node in graph.node for name in (*node.output, node.name)} | inputs | weights
    for value in graph.output:
        if value.name in inputs:
            name = f"{value.name}.output"
            while name in taken:
                name += "_"
            taken.add(name)
            graph.node.append(helper.make_node("Identity", [value.name], [name], name))
            value.name = name
    return copied


def _content(path: Path, where: str) -> bytes:
    """The bytes of a regular file that is not too large; anything else may have no end."""
    try:
        found = path.stat()
        for holds, kind in _KINDS:
            if holds(found.st_mode):
                raise InputError(f"{where}: is {kind}; expected an ONNX file.")
        if found.st_size >= _PROTOBUF_LIMIT_BYTES:
            raise InputError(
                f"{where}: is larger than 2 GiB, which protobuf does not allow; save its weights externally."
            )
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{where}: there is no such file.") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the path
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{where}: cannot be read ({reason}).") from error


def _load_external(path: Path, tensor: TensorProto) -> None:
    """Read one tensor from a file in the model's folder, and from nowhere else."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    name = printable(tensor.name)
    where = f"{printable(str(path))}: tensor '{name}' is kept in '{printable(location)}'"
    if not all(isinstance(text, str) for text in entries.values()):
        raise InputError(f"{where}, a name that is not UTF-8; the file is damaged: export it again.")
    absolute = PurePosixPath(location).is_absolute() or PureWindowsPath(location).is_absolute()
    if not location or "\0" in location or absolute or ".." in PureWindowsPath(location).parts:
        raise InputError(f"{where}; expected a file in the model's own folder.")
    file = path.parent / location
    if not os.path.lexists(file):
        raise InputError(f"{where}, which is missing; put the file beside the model.")
    try:
        if not file.resolve().is_relative_to(path.parent.resolve()):
            raise InputError(f"{where}, a link that leaves the model's folder; put the file itself there.")
        if not file.is_file():
            raise InputError(f"{where}, which is not a file; put the file beside the model.")
        start, length = _extent(where, tensor, entries, file.stat().st_size)
        with open(file, "rb") as opened:
            opened.seek(start)
            tensor.raw_data = opened.read(length)
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a loop
        reason = error.strerror if isinstance(error, OSError) else "links in a loop"
        raise InputError(f"{where}, which cannot be read ({reason}).") from error
    tensor.data_location = TensorProto.DEFAULT
    del tensor.external_data[:]


def _extent(where: str, tensor: TensorProto, entries: Mapping[str, str], size_bytes: int) -> tuple[int, int]:
    """Offset and length in bytes of a tensor in its file, which holds them."""
    start = _number(where, entries, "offset", 0)
    length = _number(where, entries, "length", max(0, size_bytes - start))
    if start + length > size_bytes:
        raise InputError(
            f"{where}, from byte {start:,} on {length:,} bytes, and the file has {size_bytes:,}; "
            "it was cut off, or belongs to another model."
        )
    expect_bytes(f"{where}, where it has", tensor, length)
    return start, length


def _number(where: str, entries: Mapping[str, str], key: str, default: int) -> int:
    text = entries.get(key, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise InputError(f"{where}, with {key} '{printable(text)}'; expected a whole number of bytes.")
    return int(text)

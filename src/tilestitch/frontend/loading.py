"""An ONNX file as a model, with the weights that it keeps in other files."""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath

import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto
from onnx.external_data_helper import load_external_data_for_tensor, uses_external_data

from tilestitch.errors import InputError

_PROTOBUF_LIMIT_BYTES = 2**31


def load_model(path: Path) -> onnx.ModelProto:
    """Parse a file, and read external weights from its folder."""
    if path.is_dir():
        raise InputError(f"{path}: is a folder; expected an ONNX file.")
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file.") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}).") from error
    if not content:
        raise InputError(f"{path}: the file is empty; expected an ONNX model.")
    if len(content) >= _PROTOBUF_LIMIT_BYTES:
        raise InputError(f"{path}: is larger than 2 GiB, which protobuf does not allow; save its weights externally.")
    try:
        model = onnx.load_model_from_string(content)
    except DecodeError:
        raise InputError(
            f"{path}: is not an ONNX model, or was cut off ({len(content):,} bytes); export or download it again."
        ) from None
    for tensor in tensors_of(model.graph):
        if uses_external_data(tensor):
            _load_external(path, tensor)
    return model


def tensors_of(graph: onnx.GraphProto) -> Iterator[TensorProto]:
    """The weights of a graph: initialisers, and values in the attributes of nodes."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                yield attribute.t


def _load_external(path: Path, tensor: TensorProto) -> None:
    """Read one tensor from a file in the model's folder, and from nowhere else."""
    location = next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
    where = f"{path}: tensor '{tensor.name}' is kept in '{location}'"
    absolute = PurePosixPath(location).is_absolute() or PureWindowsPath(location).is_absolute()
    if not location or absolute or ".." in PureWindowsPath(location).parts:
        raise InputError(f"{where}; expected a file in the model's own folder.")
    if not (path.parent / location).is_file():
        raise InputError(f"{where}, which is missing; put the file beside the model.")
    try:
        load_external_data_for_tensor(tensor, str(path.parent))
    except (onnx.checker.ValidationError, OSError, ValueError) as error:
        reason = str(error).strip().split("\n")[0]
        raise InputError(f"{where}, which cannot be read ({reason}).") from error

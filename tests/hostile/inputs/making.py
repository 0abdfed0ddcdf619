"""How hostile inputs are made: small networks with one thing wrong, and files with one thing wrong."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17

COMPILE = "compile net.onnx --machine toy"


@dataclass(frozen=True, slots=True)
class Hostile:
    """One input that cannot be right: what it is, what is asked, and what lies in the working folder before."""

    name: str
    asked: str | list[str] | Callable[[], object]  # arguments of the command, or a call of the Python API
    make: Callable[[], object] = lambda: None
    others_say: str = ""  # in a message of onnx or onnxruntime, whose words are theirs to change


def network(name: str, model: Callable[[], onnx.ModelProto], asked: str = COMPILE, *, others_say: str = "") -> Hostile:
    """A network in the file net.onnx."""
    return Hostile(name, asked, lambda: Path("net.onnx").write_bytes(model().SerializeToString()), others_say)


def contents(name: str, data: bytes | Callable[[], bytes], asked: str = COMPILE) -> Hostile:
    """Any bytes in the file net.onnx."""
    return Hostile(name, asked, lambda: Path("net.onnx").write_bytes(data if isinstance(data, bytes) else data()))


def node(op_type: str, inputs: str = "x", outputs: str = "y", **attributes: object) -> onnx.NodeProto:
    """A node named after its operator in small letters; tensors are separated by spaces."""
    return helper.make_node(op_type, inputs.split(), outputs.split(), op_type.lower(), **attributes)


def value(text: str, dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    """`x:2,N` is a tensor x of shape [2, N], `x:` a scalar, and `x` one without a shape."""
    name, colon, axes = text.partition(":")
    shape = [int(axis) if axis.lstrip("-").isdecimal() else axis for axis in axes.split(",") if axis]
    return helper.make_tensor_value_info(name, dtype, shape if colon else None)


def weight(name: str, array: object, dtype: type = np.float32) -> TensorProto:
    """A constant of the file."""
    return numpy_helper.from_array(np.asarray(array, dtype), name)


def raw_weight(name: str, dims: Sequence[int], data: bytes = b"", dtype: int = TensorProto.FLOAT) -> TensorProto:
    """A constant whose bytes need not agree with its shape."""
    return TensorProto(name=name, dims=dims, data_type=dtype, raw_data=data)


def external_weight(name: str, dims: Sequence[int], **entries: str) -> TensorProto:
    """A constant that lies in another file."""
    tensor = TensorProto(name=name, dims=dims, data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    for key, text in entries.items():
        tensor.external_data.add(key=key, value=text)
    return tensor


def model(
    *nodes: onnx.NodeProto,
    inputs: Sequence[str | onnx.ValueInfoProto] = ("x:2,3",),
    outputs: Sequence[str | onnx.ValueInfoProto] = ("y",),
    weights: Sequence[TensorProto] = (),
    opsets: Mapping[str, int] = {"": OPSET},
    ir_version: int = 8,
) -> onnx.ModelProto:
    """A network of these nodes."""
    graph = helper.make_graph(
        nodes,
        "net",
        [value(one) if isinstance(one, str) else one for one in inputs],
        [value(one) if isinstance(one, str) else one for one in outputs],
        weights,
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid(*opset) for opset in opsets.items()], ir_version=ir_version
    )


RELU = node("Relu")


def whole() -> onnx.ModelProto:
    """A network that nothing is wrong with."""
    return model(node("MatMul", "x w", "h"), node("Relu", "h"), weights=[weight("w", np.ones((3, 4)))])


def whole_bytes() -> bytes:
    """The same as a file."""
    return whole().SerializeToString()

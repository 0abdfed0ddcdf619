"""The original network as onnxruntime can run it for a comparison: types that it computes in and exchanges."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tilestitch.dtypes import DType
from tilestitch.ops.conversion import FORMATS

_HALVES = frozenset({TensorProto.FLOAT16, TensorProto.BFLOAT16})
_TYPE_ATTRIBUTES = frozenset({"to", "dtype", "output_dtype", "precision", "softmax_precision", "stash_type"})
# Of these numpy has no arrays that onnxruntime takes or gives.
_FOREIGN = frozenset({*FORMATS, DType.FLOAT8E8M0, DType.INT4, DType.UINT4, DType.INT2, DType.UINT2})


def in_float32(model: onnx.ModelProto) -> onnx.ModelProto:
    """The network with every tensor of float16 and bfloat16 in float32 instead.

    That is what a network of such tensors means: how an implementation rounds between two operators is its own affair.
    Types whose bits a node reads stay as they are.
    """
    if any(node.op_type == "BitCast" for node in model.graph.node):
        return model
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    _widen(wide.graph)
    for function in wide.functions:
        _widen_nodes(function.node)
    return wide


def _widen(graph: onnx.GraphProto) -> None:
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.tensor_type.elem_type in _HALVES:
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    _widen_nodes(graph.node)


def _widen_nodes(nodes: Iterable[onnx.NodeProto]) -> None:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                _widen_tensor(attribute.t)
            elif attribute.type == onnx.AttributeProto.GRAPH:
                _widen(attribute.g)
            elif attribute.name in _TYPE_ATTRIBUTES and attribute.i in _HALVES:
                attribute.i = TensorProto.FLOAT


def _widen_tensor(tensor: TensorProto) -> None:
    if tensor.data_type in _HALVES:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float32), tensor.name))


def exchangeable(
    model: onnx.ModelProto, wanted: Sequence[str], dtypes: Mapping[str, DType]
) -> tuple[onnx.ModelProto, frozenset[str]]:
    """The network with the outputs `wanted`, in that order, and the inputs that it takes in float32 now.

    Inputs and outputs of types that onnxruntime does not exchange are cast at the border, without loss. `dtypes` are
    those of the tensors in the machine.
    """
    known = onnx.ModelProto()
    known.CopyFrom(model)
    weights = {tensor.name for tensor in known.graph.initializer}
    before, after, cast = [], [], set()
    for value in known.graph.input:
        number = value.type.tensor_type.elem_type
        if value.name not in weights and dtypes.get(value.name) in _FOREIGN:
            before.append(helper.make_node("Cast", [f"{value.name}.float32"], [value.name], to=number))
            cast.add(value.name)
            value.name, value.type.tensor_type.elem_type = f"{value.name}.float32", TensorProto.FLOAT
    del known.graph.output[:]
    for name in wanted:
        given = name
        if dtypes.get(name) in _FOREIGN:
            given = f"{name}.cast"
            after.append(helper.make_node("Cast", [name], [given], to=TensorProto.FLOAT))
        known.graph.output.append(onnx.ValueInfoProto(name=given))
    nodes = [*before, *known.graph.node, *after]
    del known.graph.node[:]
    known.graph.node.extend(nodes)
    return known, frozenset(cast)

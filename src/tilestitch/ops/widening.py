"""An ONNX network or node in float32, where it says float16 or bfloat16."""

from collections.abc import Iterable

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

_HALVES = frozenset({TensorProto.FLOAT16, TensorProto.BFLOAT16})
_TYPE_ATTRIBUTES = frozenset({"to", "dtype", "output_dtype", "precision", "softmax_precision", "stash_type"})


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

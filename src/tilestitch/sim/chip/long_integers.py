"""Which tensors of a graph hold integers that the file has in 64 bits, and the machine in 32."""

import onnx
from onnx import TensorProto, shape_inference

from tilestitch.base.dtypes import DType
from tilestitch.ir.graph import Graph

_LONG = frozenset({TensorProto.INT64, TensorProto.UINT64})
_STORED = frozenset({DType.INT32, DType.UINT32})


def long_tensors(model: onnx.ModelProto, graph: Graph) -> frozenset[str]:
    """By the types of the file; a tensor that only the graph has is as long as an operand of what writes it."""
    if all(tensor.dtype not in _STORED for tensor in graph.tensors.values()):
        return frozenset()
    types = _element_types(model)
    long = {name for name, kind in types.items() if kind in _LONG}
    for op in graph.operators:
        if any(name in long for name in op.inputs):
            long.update(name for name in op.outputs if name not in types)
    return frozenset(name for name in long if name in graph.tensors and graph.tensors[name].dtype in _STORED)


def _element_types(model: onnx.ModelProto) -> dict[str, int]:
    """Of every tensor where they can be told without any value: weights are taken for inputs."""
    light = onnx.ModelProto()
    light.ir_version = model.ir_version
    light.opset_import.extend(model.opset_import)
    light.functions.extend(model.functions)
    light.graph.name = model.graph.name
    light.graph.node.extend(model.graph.node)
    light.graph.input.extend(value for value in model.graph.input)
    there = {value.name for value in model.graph.input}
    for tensor in model.graph.initializer:
        if tensor.name not in there:
            light.graph.input.add(name=tensor.name).type.tensor_type.elem_type = tensor.data_type
    light.graph.output.extend(model.graph.output)
    try:
        found = shape_inference.infer_shapes(light).graph
    except (shape_inference.InferenceError, RuntimeError):
        found = light.graph
    values = (*found.input, *found.value_info, *found.output)
    types = {value.name: value.type.tensor_type.elem_type for value in values}
    return {name: kind for name, kind in types.items() if kind}

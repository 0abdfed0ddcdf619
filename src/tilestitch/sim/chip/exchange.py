"""The original network as onnxruntime can run it for a comparison: types that it computes in and exchanges."""

from collections.abc import Mapping, Sequence

import onnx
from onnx import TensorProto, helper

from tilestitch.base.dtypes import DType
from tilestitch.ops.conversion import FORMATS

# Of these numpy has no arrays that onnxruntime takes or gives.
_FOREIGN = frozenset({*FORMATS, DType.FLOAT8E8M0, DType.INT4, DType.UINT4, DType.INT2, DType.UINT2})


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

"""Models with sequences of tensors for inputs and outputs, as models of tensors for the lengths that come."""

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tilestitch.base.errors import InputError


def with_tensor_inputs(
    model: onnx.ModelProto, values: Mapping[str, object]
) -> tuple[onnx.ModelProto, dict[str, object]]:
    """The model with an input for every tensor of a sequence that comes, and the values by these inputs."""
    sequences = {value.name: value for value in model.graph.input if _element(value.type) is not None}
    lists = {name: value for name, value in values.items() if name in sequences and isinstance(value, list)}
    if not lists:
        return model, dict(values)
    found, feeds = _copied(model), {name: value for name, value in values.items() if name not in lists}
    kept = [value for value in found.graph.input if value.name not in lists]
    first: list[onnx.NodeProto] = []
    for name, tensors in lists.items():
        element = _element(sequences[name].type)
        assert element is not None
        parts = _names(model, name, len(tensors))
        for part, tensor in zip(parts, tensors, strict=True):
            if not isinstance(tensor, np.ndarray):
                raise InputError(f"input '{name}' holds a {type(tensor).__name__}; expected tensors.")
            kept.append(helper.make_tensor_value_info(part, element, tensor.shape))
            feeds[part] = tensor
        if parts:
            first.append(helper.make_node("SequenceConstruct", parts, [name]))
        else:
            first.append(helper.make_node("SequenceEmpty", [], [name], dtype=element))
    nodes = [*first, *found.graph.node]
    del found.graph.input[:], found.graph.node[:]
    found.graph.input.extend(kept)
    found.graph.node.extend(nodes)
    return found, feeds


def with_tensor_outputs(model: onnx.ModelProto, name: str, length: int) -> tuple[onnx.ModelProto, tuple[str, ...]]:
    """The model with an output for every tensor of one that is a sequence, and their names."""
    found, parts = _copied(model), _names(model, name, length)
    outputs: list[onnx.ValueInfoProto] = []
    for value in model.graph.output:
        if value.name != name:
            outputs.append(value)
            continue
        for number, part in enumerate(parts):
            place = numpy_helper.from_array(np.asarray(number, np.int64), f"{part}.place")
            found.graph.initializer.append(place)
            found.graph.node.append(helper.make_node("SequenceAt", [name, place.name], [part]))
            one = onnx.ValueInfoProto(name=part)
            one.type.tensor_type.elem_type = _element(value.type) or onnx.TensorProto.UNDEFINED
            outputs.append(one)
    del found.graph.output[:]
    found.graph.output.extend(outputs)
    return found, parts


def _copied(model: onnx.ModelProto) -> onnx.ModelProto:
    found = onnx.ModelProto()
    found.CopyFrom(model)
    return found


def _element(kind: onnx.TypeProto) -> int | None:
    """The element type of a sequence of tensors, which may be optional; None of any other type."""
    if kind.HasField("optional_type"):
        kind = kind.optional_type.elem_type
    return kind.sequence_type.elem_type.tensor_type.elem_type if kind.HasField("sequence_type") else None


def _names(model: onnx.ModelProto, name: str, count: int) -> tuple[str, ...]:
    """New names for the tensors of a sequence."""
    graph = model.graph
    taken = {value.name for value in (*graph.input, *graph.output, *graph.initializer)}
    taken.update(one for node in graph.node for one in (*node.input, *node.output))
    stem = name
    while any(one.startswith(f"{stem}.") for one in taken):
        stem += "_"
    return tuple(f"{stem}.{number}" for number in range(count))

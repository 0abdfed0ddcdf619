"""The generic path: standard operators without a rule, and features of known ones that their rules do not cover."""

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference

from tilestitch.base.errors import InputError
from tilestitch.base.storage import STORAGE
from tilestitch.frontend.element_types import numpy_type, type_name
from tilestitch.frontend.microsoft.schemas import is_microsofts
from tilestitch.frontend.network import Node, Reading
from tilestitch.frontend.operators.accesses import Nest, Shape, along
from tilestitch.ir.graph import Access, Attribute, Operator
from tilestitch.ops.generic import KIND
from tilestitch.ops.onnx_node import evaluator, first_line, node_model, results_of

_INT32 = np.iinfo(np.int32)
_COMPARES = frozenset({"TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor"})  # with thresholds
_SETTING_ELEMENTS = 4096  # shapes do not depend on larger constants, and inference need not copy them


def generic(node: Node, proto: onnx.NodeProto, network: Reading) -> None:
    """One operator, all dims whole, whose value its own node gives; raises `NotCovered` where its shapes are unknown.

    A constant operand on whose value a shape depends, or that no memory could hold, is a setting of the node: it costs
    no traffic, as an attribute does not. Every other operand is read.
    """
    wide = [name for name in node.inputs if name and network.element_type(name) == np.float64]
    if proto.op_type in _COMPARES and wide:
        raise node.not_covered(f"it compares '{wide[0]}' in 64 bits, and no memory holds so many of a number.")
    renamed = _renamed(node, proto)
    names = dict(zip(renamed.input, node.inputs, strict=True))
    operands = {local: name for local, name in names.items() if local}
    settings = {local: name for local, name in operands.items() if not _can_be_stored(network, name)}
    wanted = [name for name, original in zip(renamed.output, node.outputs, strict=True) if original]
    shapes = _settle(node, renamed, network, operands, settings, wanted)

    results = dict(zip(wanted, zip((name for name in node.outputs if name), shapes, strict=True), strict=True))
    for local, (name, (shape, element_type)) in list(results.items()):
        if 0 in shape:
            network.add_constant(name, np.zeros(shape, element_type))  # known, as it has no elements
            del results[local]
    if not results:
        return
    model = _model(node, renamed, network, operands, settings, list(results)).SerializeToString(deterministic=True)
    try:
        source = evaluator(model)
    except InputError as error:
        raise node.not_covered(f"nobody can evaluate it ({error}).") from error
    nest = Nest()
    attributes: list[tuple[str, Attribute]] = [("op_type", node.op_type), ("evaluator", source), ("model", model)]
    reads, writes = [], []
    for local, name in operands.items():
        if local not in settings:
            dims = _dims(nest, network.shape(name))
            attributes.append((f"read.{len(reads)}", dims))
            reads.append(Access(name, along(*dims)))
    if not reads:
        raise node.not_covered("it reads nothing but constants.")
    for name, (shape, element_type) in results.values():
        network.define(node, name, shape, element_type)
        dims = _dims(nest, shape)
        attributes.append((f"write.{len(writes)}", dims))
        writes.append(Access(name, along(*dims)))
    op = Operator(node.name, KIND, nest.dims, tuple(reads), tuple(writes), tuple(attributes))
    network.add(node, op)


def _renamed(node: Node, proto: onnx.NodeProto) -> onnx.NodeProto:
    """The node with names of its own for operands, each of which it reads once, so that alike nodes are equal."""
    locals_: dict[str, str] = {"": ""}
    for name in proto.input:
        locals_.setdefault(name, f"i{len(locals_) - 1}")
    renamed = onnx.NodeProto(op_type=proto.op_type, domain=proto.domain)
    renamed.attribute.extend(proto.attribute)
    renamed.input.extend(locals_[name] for name in proto.input)
    renamed.output.extend(f"o{number}" if name else "" for number, name in enumerate(proto.output))
    return renamed


def _settle(
    node: Node,
    renamed: onnx.NodeProto,
    network: Reading,
    operands: Mapping[str, str],
    settings: dict[str, str],
    wanted: Sequence[str],
) -> list[tuple[Shape, np.dtype]]:
    """Shapes and types of the wanted results; adds to `settings` the constants without which they are unknown."""

    def infer(known: Mapping[str, str]) -> list[tuple[Shape, np.dtype]] | str:
        return _inferred(node, _model(node, renamed, network, operands, known, wanted))

    found = infer(settings)
    microsofts = is_microsofts(renamed)
    if not isinstance(found, str) and not microsofts:
        return found
    small = {
        local: name
        for local, name in operands.items()
        if local not in settings and network.is_known(name) and prod(network.shape(name)) <= _SETTING_ELEMENTS
    }
    found = infer({**settings, **small})
    if isinstance(found, str):
        computed = tuple(name for name in operands.values() if not network.is_known(name))
        raise node.not_covered(found, depends_on=computed)
    for local, name in list(small.items()):
        del small[local]
        if infer({**settings, **small}) != found:  # onnxruntime gives other shapes for some without their constants
            settings[local] = name
    return found


def _inferred(node: Node, model: onnx.ModelProto) -> list[tuple[Shape, np.dtype]] | str:
    """Shapes and types of a model's outputs by the inference of who defines it, or why they are not known."""
    if is_microsofts(model.graph.node[0]):
        try:
            return results_of(model.SerializeToString())
        except InputError as error:
            raise node.not_covered(f"onnxruntime refuses it ({error}).") from error
    try:
        inferred = shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    except (shape_inference.InferenceError, RuntimeError, ValueError) as error:
        raise node.not_covered(f"the standard's shape inference refuses it ({first_line(error)}).") from error
    found = []
    for value in inferred.graph.output:
        kind = value.type.WhichOneof("value")
        if kind is not None and kind != "tensor_type":
            return f"a result is a {kind.removesuffix('_type')}, not a tensor."
        tensor = value.type.tensor_type
        if not tensor.elem_type or not tensor.HasField("shape"):
            return "the shape of a result is not known."
        if not all(dim.HasField("dim_value") for dim in tensor.shape.dim):
            return "the shape of a result depends on values that are computed."
        element_type = numpy_type(tensor.elem_type)
        if element_type is None or element_type not in STORAGE:
            return f"a result has elements of type {type_name(tensor.elem_type)}."
        found.append((tuple(dim.dim_value for dim in tensor.shape.dim), element_type))
    return found


def _model(
    node: Node,
    renamed: onnx.NodeProto,
    network: Reading,
    operands: Mapping[str, str],
    settings: Mapping[str, str],
    wanted: Sequence[str],
) -> onnx.ModelProto:
    """The node alone: `settings` with their values, the other operands as inputs."""
    inputs, constants = [], []
    for local, name in operands.items():
        if local in settings:
            value = network.value(name)
            assert value is not None, name
            constants.append(numpy_helper.from_array(value, local))
        else:
            number = helper.np_dtype_to_tensor_dtype(network.element_type(name))
            inputs.append(helper.make_tensor_value_info(local, number, network.shape(name)))
    opsets = [helper.make_opsetid(domain, version) for domain, version in node.opsets.items()]
    return node_model(renamed, opsets, inputs, wanted, constants)


def _can_be_stored(network: Reading, name: str) -> bool:
    """Whether a tensor can lie in the machine's memories: computed ones do, a constant may be empty, or text."""
    if not network.is_known(name):
        return True
    if network.element_type(name) not in STORAGE or 0 in network.shape(name):
        return False
    value = network.value(name)
    assert value is not None, name
    return value.dtype != np.int64 or bool(((value >= _INT32.min) & (value <= _INT32.max)).all())


def _dims(nest: Nest, shape: Shape) -> tuple[int, ...]:
    """A dim per axis, not twice the same; operands share dims of one extent, so that they are few."""
    dims: list[int] = []
    for extent in shape:
        shared = (d for d, dim in enumerate(nest.dims) if dim.extent == extent and d not in dims)
        found = next(shared, None)
        dims.append(nest.whole(f"d{len(nest.dims)}", extent) if found is None else found)
    return tuple(dims)

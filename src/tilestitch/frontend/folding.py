"""Evaluation of nodes that depend on nothing but constants."""

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper, shape_inference

from tilestitch.base.errors import InputError
from tilestitch.frontend.budget import Budget
from tilestitch.frontend.element_types import numpy_type
from tilestitch.frontend.network import Node
from tilestitch.frontend.structure import STANDARD
from tilestitch.ops.onnx_node import evaluate_node, first_line, node_model

# Their results differ from run to run.
RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)

MAY_BE_RANDOM = frozenset({"Dropout"})  # only its rule knows

_SETTING_ELEMENTS = 1024  # of an operand on whose value a shape may depend
_INFERENCE_FAILURES = (shape_inference.InferenceError, onnx.checker.ValidationError, RuntimeError, ValueError)
_NEVER_MORE = ("Compress", "NonMaxSuppression", "NonZero", "Unique")  # results as large as operands at most


def _size_of_results(node: Node, proto: onnx.NodeProto, values: Mapping[str, np.ndarray]) -> tuple[int, int]:
    """Elements and bytes that the results of a node of constants have, by the standard's shape inference."""
    try:
        try:
            found = _inferred(node, proto, values)
        except _INFERENCE_FAILURES:  # of a Range, for example, which the standard wants of scalars
            found = _inferred(node, proto, {k: v.reshape(()) if v.size == 1 else v for k, v in values.items()})
    except _INFERENCE_FAILURES as error:
        raise node.fault(f"its inputs are constants, but it cannot be evaluated ({first_line(error)}).") from error
    most = sum(value.size for value in values.values())
    elements = size_bytes = 0
    for result in found.values():
        tensor = result.tensor_type
        known = tensor.HasField("shape") and all(dim.HasField("dim_value") for dim in tensor.shape.dim)
        if not known and proto.op_type not in _NEVER_MORE:
            raise node.fault("its inputs are constants, but the size of its value is not known before it is computed.")
        count = prod(dim.dim_value for dim in tensor.shape.dim) if known else most
        element_type = numpy_type(tensor.elem_type)
        elements += count
        size_bytes += count * (element_type.itemsize if element_type is not None else 8)
    return elements, size_bytes


def _inferred(node: Node, proto: onnx.NodeProto, values: Mapping[str, np.ndarray]) -> Mapping[str, onnx.TypeProto]:
    """The types of the results; the values of small operands are looked at, large ones have only their shapes."""
    domain = "" if proto.domain in STANDARD else proto.domain
    types, settings = {}, {}
    for name, value in values.items():
        types[name] = helper.make_tensor_type_proto(_element_type(node, name, value), value.shape)
        if value.size <= _SETTING_ELEMENTS and value.dtype.kind in "iufb":
            settings[name] = numpy_helper.from_array(value, name)
    opsets = [helper.make_opsetid(name, version) for name, version in node.opsets.items()]
    schema = defs.get_schema(proto.op_type, node.opsets[domain], domain)
    return shape_inference.infer_node_outputs(
        schema, proto, types, settings, opset_imports=opsets, ir_version=onnx.IR_VERSION
    )


def _products_per_element(proto: onnx.NodeProto, values: Sequence[np.ndarray]) -> int:
    """Multiply-accumulates, or what takes as long, per element of the result."""
    shapes = [value.shape for value in values]
    match proto.op_type:
        case "MatMul" | "MatMulInteger" | "Gemm" | "QLinearMatMul":
            return max(shapes[0], default=1)
        case "Conv" | "ConvInteger" | "QLinearConv" | "DeformConv":
            return max((prod(shape[1:]) for shape in shapes[1:]), default=1)
        case "ConvTranspose" | "Einsum" | "GRU" | "LSTM" | "RNN" | "GridSample" | "RoiAlign" | "DFT" | "Det":
            return max(prod(shape) for shape in shapes)
    kernels = (prod(attribute.ints) for attribute in proto.attribute if attribute.name == "kernel_shape")
    return max(1, *kernels, 1)


def evaluate(
    node: Node, proto: onnx.NodeProto, values: Sequence[np.ndarray | None], budget: Budget
) -> list[np.ndarray]:
    """The outputs of one node; None is an absent optional input."""
    _expect_flags(node, proto)
    known = {name: value for name, value in zip(proto.input, values, strict=True) if value is not None}
    elements, size_bytes = _size_of_results(node, proto, known)
    products = elements * _products_per_element(proto, [known[name] for name in proto.input if name])
    budget.spend(size_bytes, products, node.fault)
    opsets = [helper.make_opsetid(domain, version) for domain, version in node.opsets.items()]
    inputs = [
        helper.make_tensor_value_info(name, _element_type(node, name, value), value.shape)
        for name, value in known.items()
    ]
    model = node_model(proto, opsets, inputs, [name for name in proto.output if name])
    try:
        found = evaluate_node(model.SerializeToString(), known)
    except InputError as error:
        raise node.fault(f"its inputs are constants, but it cannot be evaluated ({error}).") from error
    results = dict(zip(filter(None, proto.output), found, strict=True))
    return [results.get(name, np.zeros(0)) for name in proto.output]  # nobody reads an output without a name


def _expect_flags(node: Node, proto: onnx.NodeProto) -> None:
    """Refuse what onnxruntime takes and does not act on: its results are whatever lay in memory then."""
    for attribute in proto.attribute:
        if attribute.name == "saturate" and attribute.i not in (0, 1):
            raise node.fault(f"attribute saturate={attribute.i}: expected 0 or 1.")


def _element_type(node: Node, name: str, value: np.ndarray) -> int:
    try:
        return helper.np_dtype_to_tensor_dtype(value.dtype)
    except (KeyError, ValueError):
        raise node.fault(f"constant '{name}' has elements of type {value.dtype}, which cannot be evaluated.") from None

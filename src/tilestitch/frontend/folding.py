"""Evaluation of nodes that depend on nothing but constants."""

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper

from tilestitch.errors import InputError
from tilestitch.frontend.network import Node
from tilestitch.ops.onnx_node import evaluate_node, node_model

# Their results differ from run to run.
RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)


def evaluate(node: Node, proto: onnx.NodeProto, values: Sequence[np.ndarray | None]) -> list[np.ndarray]:
    """The outputs of one node; None is an absent optional input."""
    known = {name: value for name, value in zip(proto.input, values, strict=True) if value is not None}
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


def _element_type(node: Node, name: str, value: np.ndarray) -> int:
    try:
        return helper.np_dtype_to_tensor_dtype(value.dtype)
    except (KeyError, ValueError):
        raise node.fault(f"constant '{name}' has elements of type {value.dtype}, which cannot be evaluated.") from None

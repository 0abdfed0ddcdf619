"""Evaluation of nodes that depend on nothing but constants."""

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper

from tilestitch.frontend.network import Node

# Their results differ from run to run.
RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)


def evaluate(node: Node, proto: onnx.NodeProto, values: Sequence[np.ndarray | None]) -> list[np.ndarray]:
    """The outputs of one node, by onnxruntime without optimisations; None is an absent optional input."""
    import onnxruntime  # takes a while to import, and only networks with something to evaluate need it
    from onnxruntime.capi import onnxruntime_pybind11_state as state  # pyright: ignore[reportAttributeAccessIssue]

    known = {name: value for name, value in zip(proto.input, values, strict=True) if value is not None}
    opsets = [helper.make_opsetid("", node.opset)]
    graph = helper.make_graph(
        [proto],
        "constant",
        [
            helper.make_tensor_value_info(name, _element_type(node, name, value), value.shape)
            for name, value in known.items()
        ],
        [onnx.ValueInfoProto(name=name) for name in proto.output if name],
    )
    model = helper.make_model(graph, opset_imports=opsets, ir_version=helper.find_min_ir_version_for(opsets))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        found = session.run(None, known)
    except (
        state.Fail,
        state.InvalidArgument,
        state.InvalidGraph,
        state.NotImplemented,
        state.RuntimeException,
        RuntimeError,
        ValueError,
    ) as error:
        reason = str(error).strip().split("\n")[0]
        raise node.fault(f"its inputs are constants, but onnxruntime cannot evaluate it ({reason}).") from error
    results = dict(zip(filter(None, proto.output), found, strict=True))
    arrays = []
    for name in proto.output:
        array = results.get(name, np.zeros(0))  # nobody reads an output without a name
        if not isinstance(array, np.ndarray):
            raise node.fault(f"its result is a {type(array).__name__}, not a tensor; only tensors are supported.")
        arrays.append(array)
    return arrays


def _element_type(node: Node, name: str, value: np.ndarray) -> int:
    try:
        return helper.np_dtype_to_tensor_dtype(value.dtype)
    except (KeyError, ValueError):
        raise node.fault(f"constant '{name}' has elements of type {value.dtype}, which cannot be evaluated.") from None

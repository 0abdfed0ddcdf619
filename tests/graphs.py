"""Small networks for tests, written as ONNX nodes and read by the frontend; and random chains of views."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.interpreter import interpret
from tilestitch.frontend.reader import read_onnx
from tilestitch.ir.graph import Graph

OPSET = 20


class Net:
    """A network in the making: every method returns the name of a new tensor."""

    def __init__(self, opset: int = OPSET) -> None:
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.weights: list[onnx.TensorProto] = []

    def input(self, *shape: int, name: str = "", dtype: int = TensorProto.FLOAT) -> str:
        name = name or f"in{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def constant(self, value) -> str:
        """A weight; Python's numbers are float32, its lists of integers int64."""
        array = np.asarray(value)
        if array.dtype == np.float64:
            array = array.astype(np.float32)
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def random(self, *shape: int) -> str:
        """A weight of random numbers between 0.5 and 1.5, the same in each run."""
        return self.constant(np.random.default_rng(len(self.weights)).uniform(0.5, 1.5, shape))

    def op(self, op_type: str, *operands, name: str = "", **attributes) -> str:
        """One node; an operand that is no name is a weight."""
        return self.ops(1, op_type, *operands, name=name, **attributes)[0]

    def ops(self, outputs: int, op_type: str, *operands, name: str = "", **attributes) -> list[str]:
        operands = [x if isinstance(x, str) else self.constant(x) for x in operands]
        name = name or f"{op_type.lower()}{len(self.nodes)}"
        names = [name] if outputs == 1 else [f"{name}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op_type, operands, names, name, **attributes))
        return names

    def model(self, *outputs: str) -> onnx.ModelProto:
        results = [helper.make_empty_tensor_value_info(name) for name in outputs]
        graph = helper.make_graph(self.nodes, "net", self.inputs, results, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])

    def graph(self, *outputs: str) -> Graph:
        return read_onnx(self.model(*outputs))


def with_constants(graph: Graph, *names: str) -> Graph:
    """The same graph with random constants for some of its inputs; the frontend itself evaluates what they lead to."""
    values = random_inputs(graph)
    return replace(
        graph,
        inputs=tuple(name for name in graph.inputs if name not in names),
        constants={**graph.constants, **{name: values[name] for name in names}},
    )


def random_inputs(graph: Graph, seed: int = 0) -> dict[str, np.ndarray]:
    """An array per input: normal numbers, or indices 0 and 1."""
    rng = np.random.default_rng(seed)
    arrays = {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        if tensor.dtype.is_float:
            arrays[name] = rng.standard_normal(tensor.shape).astype(np.float32)
        else:
            arrays[name] = rng.integers(0, 2, tensor.shape)
    return arrays


def assert_same_meaning(before: Graph, after: Graph, *, seed: int = 0) -> Mapping[str, np.ndarray]:
    """Every tensor that both graphs have, and every output, has the same value in both."""
    inputs = random_inputs(before, seed)
    assert after.inputs == before.inputs
    assert after.outputs == before.outputs
    expected, found = interpret(before, inputs), interpret(after, inputs)
    assert set(before.outputs) <= set(found)
    for name, value in found.items():
        if name in expected:
            np.testing.assert_allclose(value, expected[name], rtol=1e-4, atol=1e-4, err_msg=name)
    return found

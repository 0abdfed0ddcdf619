"""Small networks for tests, written as ONNX nodes and read by the frontend; and random chains of views."""

from collections.abc import Mapping
from dataclasses import replace
from math import prod, sqrt

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tests.helpers.interpreter import interpret
from tilestitch.frontend.reader import read_onnx
from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.ir.graph import Graph

OPSET = 20


class Net:
    """A network in the making: every method returns the name of a new tensor."""

    def __init__(self, opset: int = OPSET) -> None:
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.weights: list[onnx.TensorProto] = []

    def input(self, *shape: int | str, name: str = "", dtype: int = TensorProto.FLOAT) -> str:
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
        opsets = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=helper.find_min_ir_version_for(opsets))

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


EXTENTS = st.sampled_from((1, 2, 3, 4, 6))


@st.composite
def chains(draw) -> Graph:
    """Random views between element-wise operators, products, windows and reductions; some inputs are constants."""
    net = Net()
    shapes: dict[str, tuple[int, ...]] = {}

    def put(name: str, shape) -> str:
        shapes[name] = tuple(shape)
        return name

    for _ in range(draw(st.integers(1, 2))):
        shape = draw(st.lists(EXTENTS, min_size=1, max_size=4))
        x = put(net.input(*shape), shape)
        if draw(st.booleans()):
            put(net.op("Exp", x), shape)
    for _ in range(draw(st.integers(1, 8))):
        _step(draw, net, shapes, put, draw(st.sampled_from(list(shapes)[-4:])))
    read = {name for node in net.nodes for name in node.input}
    outputs = [name for name in shapes if name not in read]
    outputs = [name if draw(st.booleans()) else net.op("Relu", name) for name in outputs]
    graph = net.graph(*outputs)
    frozen = [name for name in graph.inputs[1:] if draw(st.booleans())]
    return with_constants(graph, *frozen)


def _step(draw, net: Net, shapes, put, x: str) -> None:
    """One random node after `x`, if its shape allows the kind that was drawn."""
    shape = shapes[x]
    axis = draw(st.integers(0, len(shape) - 1)) if shape else 0
    kind = draw(
        st.sampled_from(("reshape", "transpose", "slice", "expand", "concat", "split", "arithmetic", "other", "other"))
    )
    if kind == "reshape":
        left, extents = prod(shape), []
        while left > 1:
            extents.append(draw(st.sampled_from([n for n in range(2, left + 1) if left % n == 0])))
            left //= extents[-1]
        for at in sorted(draw(st.sets(st.integers(0, len(extents)), max_size=1))):
            extents.insert(at, 1)
        put(net.op("Reshape", x, np.array(extents, np.int64)), extents)
    elif kind == "transpose" and shape:
        order = draw(st.permutations(range(len(shape))))
        put(net.op("Transpose", x, perm=order), [shape[i] for i in order])
    elif kind == "slice" and shape:
        step = draw(st.sampled_from((1, 2, -1, -2)))
        a, b = sorted(draw(st.lists(st.integers(0, shape[axis]), min_size=2, max_size=2, unique=True)))
        start, stop = (a, b) if step > 0 else (b - 1, a - 1 if a else -99)
        count = len(range(a, b)[::step])
        put(net.op("Slice", x, [start], [stop], [axis], [step]), [*shape[:axis], count, *shape[axis + 1 :]])
    elif kind == "expand" and 1 in shape and prod(shape) <= 200:
        wanted = [draw(st.sampled_from((1, 2, 3))) if extent == 1 else extent for extent in shape]
        put(net.op("Expand", x, wanted), wanted)
    elif kind == "concat" and shape and prod(shape) <= 200:
        others = [n for n, s in shapes.items() if len(s) == len(shape) and s[:axis] == shape[:axis]]
        others = [n for n in others if shapes[n][axis + 1 :] == shape[axis + 1 :]]
        parts = [x, *draw(st.lists(st.sampled_from(others), min_size=1, max_size=2))]
        extent = sum(shapes[part][axis] for part in parts)
        put(net.op("Concat", *parts, axis=axis), [*shape[:axis], extent, *shape[axis + 1 :]])
    elif kind == "split" and shape and shape[axis] > 1:
        at = draw(st.integers(1, shape[axis] - 1))
        parts = net.ops(2, "Split", x, [at, shape[axis] - at], axis=axis)
        for part, extent in zip(parts, (at, shape[axis] - at), strict=True):
            put(part, [*shape[:axis], extent, *shape[axis + 1 :]])
    elif kind == "arithmetic":
        partners = [name for name, other in shapes.items() if other == shape]
        put(net.op("Add", x, draw(st.sampled_from(partners))), shape)
    elif kind == "other" and shape:
        _other_step(draw, net, put, x, shape, axis)


def _other_step(draw, net: Net, put, x: str, shape, axis: int) -> None:
    windows = {3: ("pool", "conv"), 4: ("pool", "pool")}.get(len(shape), ())
    products = ("matmul",) if len(shape) > 1 else ()
    kind = draw(st.sampled_from((*windows, *products, "softmax", "sum", "gather")))
    if kind == "matmul":
        put(net.op("MatMul", x, net.random(shape[-1], 4)), [*shape[:-1], 4])
    elif kind == "softmax":
        put(net.op("Softmax", x, axis=axis), shape)
    elif kind == "sum":
        put(net.op("ReduceSum", x, [axis], keepdims=0), [*shape[:axis], *shape[axis + 1 :]])
    elif kind == "pool":
        put(net.op("MaxPool", x, kernel_shape=[3] * (len(shape) - 2), pads=[1, 1] * (len(shape) - 2)), shape)
    elif kind == "conv":
        put(net.op("Conv", x, net.random(2, shape[1], 3), pads=[1, 1]), [shape[0], 2, shape[2]])
    elif kind == "gather":
        put(net.op("Gather", x, np.array([0, 0, shape[axis] - 1]), axis=axis), [*shape[:axis], 3, *shape[axis + 1 :]])


def cramped(machine: Accelerator, *, local_bytes: int) -> Accelerator:
    """The same machine with smaller local buffers, so that what fits in one tile elsewhere takes several."""
    memories = (replace(m, size_bytes=local_bytes) if m.level is Level.LB else m for m in machine.memories)
    return replace(machine, memories=tuple(memories))


def weight(net: Net, *shape: int) -> str:
    """Normal numbers that keep activations at their size."""
    random = np.random.default_rng([len(net.weights), *shape])
    return net.constant((random.standard_normal(shape) * sqrt(2 / np.prod(shape[1:]))).astype(np.float32))


def conv(net: Net, x: str, out: int, into: int, kernel: int = 1, *, stride: int = 1, dilation: int = 1, group: int = 1):
    pads = [(kernel - 1) * dilation // 2] * 4
    shape = (out, into // group, kernel, kernel)
    settings = {"strides": [stride] * 2, "dilations": [dilation] * 2, "group": group, "pads": pads}
    return net.op("Conv", x, weight(net, *shape), net.constant(np.zeros(out, np.float32)), **settings)

"""Write an ONNX network node by node; weights are declared first and drawn only when the model is made."""

import zlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import onnx
from onnx import helper, numpy_helper

Dim: TypeAlias = int | str  # a string is a symbolic dim
Attribute: TypeAlias = int | float | tuple[int, ...]

AHEAD = 4  # weights that are drawn while others are written
BATCH = "N"  # the symbolic batch dim of every network in the zoo


@dataclass(frozen=True, slots=True)
class Normal:
    """Values from the normal distribution, less a share of the mean of their row (index of the first axis)."""

    mean: float
    deviation: float
    centred: float = 0.0


@dataclass(frozen=True, slots=True)
class Uniform:
    """Values from `low` up to `high`, all equally likely."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Weight:
    """A float32 parameter of a network, by how it is drawn rather than by its values."""

    name: str
    shape: tuple[int, ...]
    values: Normal | Uniform


def draw(weight: Weight, network: str) -> np.ndarray:
    """Draw the values of `weight`; they depend on the two names, the shape and the distribution, on nothing else."""
    generator = np.random.Generator(np.random.PCG64(zlib.crc32(f"{network}/{weight.name}".encode())))
    match weight.values:
        case Normal(mean, deviation, centred):
            array = generator.standard_normal(weight.shape, dtype=np.float32)
            if centred != 0.0:
                array -= np.float32(centred) * array.mean(axis=tuple(range(1, array.ndim)), keepdims=True)
            array *= np.float32(deviation)
            array += np.float32(mean)
        case Uniform(low, high):
            array = generator.random(weight.shape, dtype=np.float32)
            array *= np.float32(high - low)
            array += np.float32(low)
    return array


def _drawn(weights: Sequence[Weight], network: str) -> Iterator[np.ndarray]:
    """The values of all weights, in order: two are drawn at a time, each by itself, so that the order does not matter.

    Few are drawn ahead: those of all would take as much memory again.
    """
    with ThreadPoolExecutor(2) as threads:
        ahead: deque[Future[np.ndarray]] = deque()
        for weight in weights:
            ahead.append(threads.submit(draw, weight, network))
            if len(ahead) > AHEAD:
                yield ahead.popleft().result()
        for one in ahead:
            yield one.result()


class GraphBuilder:
    """Collect the nodes of one network in execution order, then make the model.

    The output of a node with one carries the node's name. `network` seeds the weights: two graphs of the same
    network have the same weights, whatever their nodes.
    """

    def __init__(self, name: str, *, network: str, opset: int) -> None:
        self._name = name
        self._network = network
        self._opset = opset
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[Weight] = []
        self._constants: dict[str, np.ndarray] = {}

    @property
    def weights(self) -> tuple[Weight, ...]:
        """Every weight declared so far, in order; reading them draws no values."""
        return tuple(self._weights)

    def input(self, name: str, element_type: onnx.TensorProto.DataType, shape: tuple[Dim, ...]) -> str:
        """Declare an input of the network."""
        self._inputs.append(helper.make_tensor_value_info(name, element_type, shape))
        return name

    def output(self, name: str, tensor: str, shape: tuple[Dim, ...]) -> str:
        """Make `tensor` a float32 output of the network, renaming it to `name` where it is written and read."""
        for node in self._nodes:
            node.input[:] = [name if operand == tensor else operand for operand in node.input]
            node.output[:] = [name if result == tensor else result for result in node.output]
        self._outputs.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape))
        return name

    def weight(self, name: str, shape: tuple[int, ...], values: Normal | Uniform) -> str:
        """Declare a float32 parameter."""
        self._weights.append(Weight(name, shape, values))
        return name

    def scalar(self, name: str, value: float) -> str:
        """Declare a float32 scalar; a name may be declared again with the same value."""
        return self.floats(name, np.asarray(value))

    def floats(self, name: str, values: np.ndarray) -> str:
        """Declare a float32 array; a name may be declared again with the same values."""
        return self._constant(name, values.astype(np.float32))

    def integers(self, name: str, values: int | tuple[int, ...] | np.ndarray) -> str:
        """Declare an int64 scalar or array; a name may be declared again with the same values."""
        return self._constant(name, np.asarray(values, dtype=np.int64))

    def node(
        self, operator: str, name: str, operands: tuple[str, ...], attributes: Mapping[str, Attribute] | None = None
    ) -> str:
        """Append one node with one output, which it returns."""
        return self.nodes(operator, name, operands, (name,), attributes)[0]

    def nodes(
        self,
        operator: str,
        name: str,
        operands: tuple[str, ...],
        results: tuple[str, ...],
        attributes: Mapping[str, Attribute] | None = None,
    ) -> tuple[str, ...]:
        """Append one node with several outputs, which it returns; "" for an operand or result is none."""
        node = helper.make_node(operator, operands, results, name=name)
        for key, value in sorted((attributes or {}).items()):
            node.attribute.append(helper.make_attribute(key, value))
        self._nodes.append(node)
        return results

    def model(self) -> onnx.ModelProto:
        """Draw the weights and return the finished model."""
        model = self._without_weights(self._inputs)
        tensors = model.graph.initializer  # filled in place: make_graph, make_model and append copy what they are given
        for weight, values in zip(self._weights, _drawn(self._weights, self._network), strict=True):
            tensor = tensors.add()
            tensor.name, tensor.data_type = weight.name, onnx.TensorProto.FLOAT
            tensor.dims.extend(weight.shape)
            tensor.raw_data = numpy_helper.tobytes_little_endian(values)
        return model

    def structure(self) -> onnx.ModelProto:
        """The model with its weights among its inputs; none is drawn."""
        weights = (helper.make_tensor_value_info(x.name, onnx.TensorProto.FLOAT, x.shape) for x in self._weights)
        return self._without_weights([*self._inputs, *weights])

    def _without_weights(self, inputs: list[onnx.ValueInfoProto]) -> onnx.ModelProto:
        opsets = [helper.make_opsetid("", self._opset)]
        graph = helper.make_graph(self._nodes, self._name, inputs, self._outputs)
        model = helper.make_model(graph, opset_imports=opsets, producer_name="tilestitch")
        model.ir_version = helper.find_min_ir_version_for(opsets)
        for name, array in self._constants.items():
            model.graph.initializer.append(numpy_helper.from_array(array, name))
        return model

    def _constant(self, name: str, array: np.ndarray) -> str:
        if not np.array_equal(self._constants.setdefault(name, array), array):
            raise ValueError(f"constant {name!r} is declared twice, with different values")
        return name

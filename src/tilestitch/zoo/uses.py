"""What a network does with its integer inputs, as far as that limits which values are valid."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

import onnx

_SAME_VALUES = ("Cast", "Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Expand", "Split")
_SAME_SHAPE = ("Cast", "Identity", "DequantizeLinear")

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Use:
    """The least and the largest valid value, and whether zero is one."""

    least: int
    largest: int
    zero: bool = True

    def both(self, other: "Use") -> "Use":
        return Use(max(self.least, other.least), min(self.largest, other.largest), self.zero and other.zero)


def uses(graph: onnx.GraphProto, shapes: Mapping[str, Shape], item_bytes: Mapping[str, int]) -> dict[str, Use]:
    """Of every network input that is an index, a length, a divisor or a count of bits, by name.

    Directly, or in another shape or type; `shapes` are those of the inputs, `item_bytes` the sizes of their elements.
    An index may count from the end where ONNX lets it. Of a table of unknown size only the first and last row count.
    """
    carried = {value.name: value.name for value in graph.input}  # tensor to the network input with the same values
    known = {**{tensor.name: tuple(tensor.dims) for tensor in graph.initializer}, **shapes}
    for value in graph.value_info:
        dims = value.type.tensor_type.shape.dim
        if value.name not in known and dims and all(dim.HasField("dim_value") for dim in dims):
            known[value.name] = tuple(dim.dim_value for dim in dims)
    found: dict[str, Use] = {}
    for node in graph.node:
        attributes = {attribute.name: attribute for attribute in node.attribute}
        if node.op_type == "Constant" and "value" in attributes:
            known[node.output[0]] = tuple(attributes["value"].t.dims)
        if node.op_type in _SAME_SHAPE and node.input[0] in known:
            known[node.output[0]] = known[node.input[0]]
        for slot, use in _limits(node, {name: one.i for name, one in attributes.items()}, known, item_bytes, carried):
            name = carried.get(node.input[slot]) if slot < len(node.input) else None
            if name is not None:
                found[name] = use.both(found[name]) if name in found else use
        if node.op_type in _SAME_VALUES and node.input[0] in carried:
            carried.update(dict.fromkeys(node.output, carried[node.input[0]]))
    return found


def _limits(
    node: onnx.NodeProto,
    integers: Mapping[str, int],
    shapes: Mapping[str, Shape],
    item_bytes: Mapping[str, int],
    carried: Mapping[str, str],
) -> Iterator[tuple[int, Use]]:
    """The numbers of the operands whose values are limited."""
    shape = shapes.get(node.input[0]) if node.input else None
    match node.op_type:
        case "Gather" | "GatherElements" | "ScatterElements" | "Scatter":
            yield 1, _row(shape, integers.get("axis", 0))
        case "GatherND" | "ScatterND":
            first = integers.get("batch_dims", 0)
            size = min(shape[first:], default=1) if shape is not None else 1
            yield 1, Use(-size, size - 1)
        case "OneHot":
            yield 0, Use(-8, 8)  # what is beyond the depth, which is seldom known here, sets nothing
        case "ReverseSequence":
            yield 1, Use(1, _size(shape, integers.get("time_axis", 0)))
        case "RNN" | "GRU" | "LSTM":
            yield 4, Use(1, _size(shape, 1 if integers.get("layout", 0) else 0))
        case "TensorScatter":
            axis = integers.get("axis", -2)
            yield 2, Use(0, max(0, _size(shape, axis) - _size(shapes.get(node.input[1]), axis)))
        case "RotaryEmbedding":
            yield 3, Use(0, _size(shapes.get(node.input[1]), 0) - 1)
        case "Attention":
            yield 6, Use(1, _size(shapes.get(node.input[1]), -2))
        case "RoiAlign":
            yield 2, Use(0, _size(shape, 0) - 1)
        case "MaxUnpool":
            yield 1, Use(0, prod(shape[2:]) - 1 if shape is not None else 0)
        case "NegativeLogLikelihoodLoss" | "SoftmaxCrossEntropyLoss":
            yield 1, Use(0, _size(shape, 1) - 1)
        case "BitShift":
            bits = 8 * item_bytes.get(carried.get(node.input[1], ""), 1)
            yield 1, Use(0, bits - 1)
        case "Div" | "Mod":
            yield 1, Use(-(2**63), 2**63, zero=False)
        case "Pow":
            yield 1, Use(-1, 4)
        case _:
            return


def _row(shape: Shape | None, axis: int) -> Use:
    size = _size(shape, axis)
    return Use(-size, size - 1)


def _size(shape: Shape | None, axis: int) -> int:
    """The extent of an axis, 1 where it is not known."""
    return shape[axis] if shape is not None and -len(shape) <= axis < len(shape) else 1

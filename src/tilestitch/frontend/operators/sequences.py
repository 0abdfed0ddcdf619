"""Sequences of tensors, which exporters write around loops: what is in them is known while reading."""

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper

from tilestitch.base.units import ceil_div
from tilestitch.frontend.functions import Definition, definition
from tilestitch.frontend.loops import MAX_TURNS, stacked
from tilestitch.frontend.network import Node, Reading
from tilestitch.frontend.operators.shapes import normalised_axes

SEQUENCES = frozenset(
    {
        "ConcatFromSequence",
        "SequenceAt",
        "SequenceConstruct",
        "SequenceEmpty",
        "SequenceErase",
        "SequenceInsert",
        "SequenceLength",
        "SequenceMap",
        "SplitToSequence",
    }
)


def reads_sequence(proto: onnx.NodeProto, network: Reading) -> bool:
    """Whether an operand is a sequence and no tensor."""
    return any(name in network.sequences for name in proto.input)


def sequence(node: Node, proto: onnx.NodeProto, network: Reading) -> Definition:
    """The nodes on tensors that stand for a node on sequences; the tensors of a new sequence are noted by name."""
    nodes: Sequence[onnx.NodeProto] = ()
    operands, target = proto.input, proto.output[0]
    match proto.op_type:
        case "SequenceEmpty" | "SequenceConstruct":
            node.ignore("dtype")
            network.sequences[target] = tuple(operands)
        case "Identity" | "Optional" | "OptionalGetElement":
            network.sequences[target] = _tensors(node, network)
        case "SequenceInsert":
            found = list(_tensors(node, network))
            found.insert(_position(node, network, 2, len(found), past=1), operands[1])
            network.sequences[target] = tuple(found)
        case "SequenceErase":
            found = list(_tensors(node, network))
            del found[_position(node, network, 1, len(found))]
            network.sequences[target] = tuple(found)
        case "SequenceLength":
            network.add_constant(target, np.asarray(len(_tensors(node, network)), np.int64))
        case "OptionalHasElement":
            network.add_constant(target, np.asarray(True))
        case "SequenceMap":
            return _mapped(node, proto, network)
        case "SequenceAt":
            found = _tensors(node, network)
            nodes = [helper.make_node("Identity", [found[_position(node, network, 1, len(found))]], [target], target)]
        case "ConcatFromSequence":
            axis, found = node.integer("axis", 0), _tensors(node, network)
            if node.flag("new_axis"):
                nodes = stacked(node, network, found, target, axis=axis)
            elif found:
                nodes = [helper.make_node("Concat", found, [target], target, axis=axis)]
            else:
                raise node.fault("it joins no tensors; export the network without it.")
        case "SplitToSequence":
            nodes = _split(node, network)
        case _:
            raise node.fault(f"an operand of {proto.op_type} is a sequence of tensors; expected a tensor.")
    node.expect_nothing_left()
    written = tuple(name for inner in nodes for name in inner.output)
    return Definition(tuple(nodes), node.opsets, written)


def _mapped(node: Node, proto: onnx.NodeProto, network: Reading) -> Definition:
    """The loop over sequences that the standard defines a SequenceMap as."""
    _tensors(node, network)
    found = definition(node, proto, network)
    if found is None:
        raise node.fault("the standard gives no definition of it.")
    return found


def _tensors(node: Node, network: Reading) -> tuple[str, ...]:
    """The tensors of the sequence that a node reads."""
    name = node.inputs[0]
    if name not in network.sequences:
        raise node.fault(f"operand '{name}' is a tensor; expected a sequence.")
    return network.sequences[name]


def _position(node: Node, network: Reading, number: int, length: int, *, past: int = 0) -> int:
    """An operand that counts tensors from the front or the back; the end where it is absent."""
    if node.operand(number) is None:
        return length - 1 + past
    (position,) = network.integers(node, number, "position")[:1] or (length,)
    if not -length <= position < length + past:
        raise node.fault(f"position {position} lies outside a sequence of {length}.")
    return position + length if position < 0 else position


def _split(node: Node, network: Reading) -> list[onnx.NodeProto]:
    """A sequence of the parts of one axis: of given lengths, or single indices."""
    x, target = node.inputs[0], node.outputs[0]
    (axis,) = normalised_axes(node, (node.integer("axis", 0),), len(network.shape(x)))
    keeps, size = node.flag("keepdims", default=True), network.shape(x)[axis]
    value = np.asarray(1)
    if node.operand(1) is not None:
        keeps, value = True, network.required_value(node, 1, "split")
    piece = int(value) if value.ndim == 0 else None
    if piece is not None and piece < 1:
        raise node.fault(f"split {piece}: expected a length of at least 1.")
    count = value.size if piece is None else ceil_div(size, piece)
    if count > MAX_TURNS:
        raise node.fault(f"it cuts an axis of {size:,} into {count:,} tensors; at most {MAX_TURNS:,} are known.")
    lengths = [int(length) for length in value.flat]
    if piece is not None:
        lengths = [min(piece, size - start * piece) for start in range(count)]
    parts = tuple(network.fresh(f"{target}.{number}") for number in range(len(lengths)))
    network.sequences[target] = parts
    if not keeps:
        indices = [network.new_constant(node, "index", np.asarray(number)) for number in range(size)]
        return [
            helper.make_node("Gather", [x, index], [part], part, axis=axis)
            for index, part in zip(indices, parts, strict=True)
        ]
    if node.opset < 13:
        return [helper.make_node("Split", [x], parts, f"{target}.split", axis=axis, split=lengths)]
    sizes = network.new_constant(node, "sizes", np.array(lengths))
    return [helper.make_node("Split", [x, sizes], parts, f"{target}.split", axis=axis)]

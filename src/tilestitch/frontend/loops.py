"""Loops whose number of turns is known while reading are written out, one turn after another."""

from collections.abc import Iterator, Sequence

import numpy as np
import onnx
from onnx import helper

from tilestitch.frontend.functions import Definition, inside
from tilestitch.frontend.network import Node, Reading
from tilestitch.frontend.operators.shapes import normalised_axes

MAX_TURNS = 250  # each is read, scheduled and run on its own, which takes time


def turns(node: Node, proto: onnx.NodeProto, network: Reading) -> Iterator[Definition]:
    """The nodes of each turn of a Loop, and at last those that give its outputs.

    Each must be read before the next is asked for: whether there is a next turn may depend on what is known then. What
    a turn leaves is what the next one begins with; results of single turns are joined along a new first axis. Raises
    `InputError` where it depends on the network's inputs how often the loop runs.
    """
    body = _body(proto)
    carried = list(proto.input[2:])
    joined: list[list[str]] = [[] for _ in body.output[1 + len(carried) :]]
    if len(proto.input) < 2 or len(body.input) != len(carried) + 2 or len(body.output) < len(carried) + 1:
        raise node.fault(
            f"its body has {len(body.input)} inputs and {len(body.output)} outputs; expected the number of the turn, a "
            f"condition and {len(carried)} tensors, and a condition and at least as many tensors."
        )
    if len(node.outputs) > len(carried) + len(joined):
        raise node.fault(f"it has {len(node.outputs)} outputs, and its body results for {len(carried) + len(joined)}.")

    limit = _known(node, network, proto.input[0], "number of turns")
    going, turn = _known(node, network, proto.input[1], "condition"), 0
    while (going is None or going.all()) and (limit is None or turn < int(limit.reshape(()))):
        number = network.new_constant(node, "turn", np.asarray(_bounded(node, turn + 1) - 1, np.int64))
        condition = network.new_constant(node, "condition", np.asarray(True))
        names = dict(zip((value.name for value in body.input), (number, condition, *carried), strict=True))
        nodes = inside(body, node, network, names)
        results = tuple(names.get(value.name, value.name) for value in body.output)
        yield Definition(nodes, node.opsets, results)
        going = _known(node, network, results[0], "condition")
        carried = list(results[1 : 1 + len(carried)])
        for together, result in zip(joined, results[1 + len(carried) :], strict=True):
            together.append(result)
        turn += 1

    yield _outputs(node, network, carried, joined, [0] * len(joined))


def scanned(node: Node, proto: onnx.NodeProto, network: Reading) -> Iterator[Definition]:
    """The same of a Scan, which runs once per index of an axis of its last operands and gives its body that part."""
    body, count = _body(proto), node.integer("num_scan_inputs", 0)
    node.attributes.pop("body", None)
    first = len(proto.input) - count
    if node.opset < 9 or not 0 < count <= len(proto.input) or len(body.input) != len(proto.input):
        raise node.fault(
            f"at opset {node.opset}, with {len(proto.input)} operands of which {count} are cut, and a body of "
            f"{len(body.input)} inputs; expected opset 9 or later, at least one cut, and as many inputs."
        )
    carried, cut = list(proto.input[:first]), list(proto.input[first:])
    results = len(body.output) - first
    if results < 0 or len(node.outputs) > len(body.output):
        raise node.fault(f"it has {len(node.outputs)} outputs, and its body {len(body.output)}.")
    backwards = node.integers("scan_input_directions") or (0,) * count
    listed = node.integers("scan_input_axes") or (0,) * count
    reversed_ = node.integers("scan_output_directions") or (0,) * results
    result_axes = node.integers("scan_output_axes") or (0,) * results
    if any(len(found) != count for found in (backwards, listed)) or any(
        len(found) != results for found in (reversed_, result_axes)
    ):
        raise node.fault(f"expected {count} axes and directions of operands, and {results} of results.")
    node.expect_nothing_left()
    axes = [normalised_axes(node, (axis,), len(network.shape(x)))[0] for axis, x in zip(listed, cut, strict=True)]
    extents = {network.shape(x)[axis] for x, axis in zip(cut, axes, strict=True)}
    if len(extents) != 1:
        raise node.fault(f"its operands have {sorted(extents)} parts along the axes that are cut; expected one number.")

    joined: list[list[str]] = [[] for _ in range(results)]
    (extent,) = extents
    for turn in range(_bounded(node, extent)):
        parts, nodes = [], []
        for x, axis, back in zip(cut, axes, backwards, strict=True):
            index = network.new_constant(node, "index", np.asarray(extent - 1 - turn if back else turn, np.int64))
            parts.append(network.fresh(f"{node.name}.part"))
            nodes.append(helper.make_node("Gather", [x, index], [parts[-1]], parts[-1], axis=axis))
        names = dict(zip((value.name for value in body.input), (*carried, *parts), strict=True))
        nodes += inside(body, node, network, names)
        found = tuple(names.get(value.name, value.name) for value in body.output)
        yield Definition(tuple(nodes), node.opsets, found)
        carried = list(found[:first])
        for together, result in zip(joined, found[first:], strict=True):
            together.append(result)
    ordered = [parts[::-1] if back else parts for parts, back in zip(joined, reversed_, strict=True)]
    yield _outputs(node, network, carried, ordered, result_axes)


def _body(proto: onnx.NodeProto) -> onnx.GraphProto:
    return next((attribute.g for attribute in proto.attribute if attribute.name == "body"), onnx.GraphProto())


def _bounded(node: Node, turns: int) -> int:
    if turns > MAX_TURNS:
        raise node.fault(f"it runs more than {MAX_TURNS:,} iterations, which are unrolled; export without the loop.")
    return turns


def _outputs(
    node: Node, network: Reading, carried: Sequence[str], joined: Sequence[Sequence[str]], axes: Sequence[int]
) -> Definition:
    """What the last turn left, and the results of all turns, each along a new axis."""
    last: list[onnx.NodeProto] = []
    for result, target in zip(carried, node.outputs, strict=False):
        if target:
            last.append(helper.make_node("Identity", [result], [target], target))
    for parts, axis, target in zip(joined, axes, node.outputs[len(carried) :], strict=False):
        if target:
            last += stacked(node, network, parts, target, axis=axis)
    return Definition(tuple(last), node.opsets, tuple(filter(None, node.outputs)))


def stacked(node: Node, network: Reading, parts: Sequence[str], target: str, *, axis: int) -> list[onnx.NodeProto]:
    """The nodes that join tensors of one shape along a new axis."""
    if not parts:
        raise node.fault(f"its output '{target}' joins no tensors and would be empty; export the network without it.")
    nodes, names = [], []
    for part in parts:
        names.append(network.fresh(f"{target}.part"))
        if node.opset < 13:
            nodes.append(helper.make_node("Unsqueeze", [part], [names[-1]], names[-1], axes=[axis]))
        else:
            axes = network.new_constant(node, "axis", np.array([axis]))
            nodes.append(helper.make_node("Unsqueeze", [part, axes], [names[-1]], names[-1]))
    return [*nodes, helper.make_node("Concat", names, [target], target, axis=axis)]


def _known(node: Node, network: Reading, name: str, meaning: str) -> np.ndarray | None:
    """The value of what decides how often the loop runs; None where nothing is given."""
    if not name:
        return None
    value = network.value(name)
    if value is None or value.size != 1:
        raise node.not_covered(
            f"control flow is not supported where its {meaning} ('{name}') depends on the network's inputs; export the "
            "network without loops.",
            depends_on=(name,),
        )
    return value

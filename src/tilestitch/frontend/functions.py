"""Nodes that stand for others: operators that the ONNX standard defines by others, and branches that are taken."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import defs, helper

from tilestitch.frontend.network import Node, Reading
from tilestitch.frontend.structure import STANDARD


@dataclass(frozen=True, slots=True)
class Definition:
    """The nodes that stand for one, in the order in which they run; their opsets, and which of their results count."""

    nodes: tuple[onnx.NodeProto, ...]
    opsets: Mapping[str, int]
    results: tuple[str, ...]


def definition(node: Node, proto: onnx.NodeProto, network: Reading) -> Definition | None:
    """What the standard defines a node as, with the node's own inputs, outputs and attributes; None where by itself.

    Of several definitions the newest that the node's opset allows. Tensors inside are `<node>.<name>`.
    """
    domain = "" if proto.domain in STANDARD else proto.domain
    opset = node.opsets[domain]
    schema = defs.get_schema(proto.op_type, opset, domain)
    complete = onnx.NodeProto()
    complete.CopyFrom(proto)
    given = {attribute.name for attribute in proto.attribute}
    for name, formal in schema.attributes.items():
        if name not in given and formal.default_value.name:
            complete.attribute.append(formal.default_value)

    body = _body(schema, opset, complete, [_type(network, name) for name in proto.input])
    if body is None:
        return None
    names = {"": ""}
    names.update(zip(body.input, (*proto.input, *[""] * (len(body.input) - len(proto.input))), strict=True))
    names.update((formal, name) for formal, name in zip(body.output, node.outputs, strict=False) if name)
    attributes = {attribute.name: attribute for attribute in complete.attribute}
    nodes = tuple(_written_out(inner, node, network, names, attributes) for inner in body.node)
    opsets = {**node.opsets, **{opset.domain: opset.version for opset in body.opset_import}}
    return Definition(nodes, opsets, tuple(filter(None, node.outputs)))


def _body(
    schema: defs.OpSchema, opset: int, node: onnx.NodeProto, types: Sequence[onnx.TypeProto]
) -> onnx.FunctionProto | None:
    """The newest definition of an operator that an opset allows; some depend on the node and the types it reads."""
    methods: Any = schema  # onnx's stubs leave these four out
    fixed = [version for version in methods.function_opset_versions if version <= opset]
    if fixed:
        return onnx.FunctionProto.FromString(methods.get_function_with_opset_version(max(fixed)))
    dependent = [version for version in methods.context_dependent_function_opset_versions if version <= opset]
    if not dependent:
        return None
    found = methods.get_context_dependent_function_with_opset_version(
        max(dependent), node.SerializeToString(), [one.SerializeToString() for one in types]
    )
    return onnx.FunctionProto.FromString(found) if found else None


def chosen_branch(node: Node, proto: onnx.NodeProto, network: Reading) -> Definition | None:
    """The nodes of the branch that an If takes, whose condition must be known; None where it is malformed."""
    condition = network.value(proto.input[0]) if len(proto.input) == 1 else None
    if len(proto.input) == 1 and condition is None:
        raise node.not_covered(
            f"control flow is not supported where its condition ('{proto.input[0]}') depends on the network's inputs; "
            "export the network without branches.",
            depends_on=(proto.input[0],),
        )
    wanted = "then_branch" if condition is not None and condition.all() else "else_branch"
    branch = next((attribute.g for attribute in proto.attribute if attribute.name == wanted), None)
    if condition is None or branch is None or len(branch.output) != len(node.outputs):
        return None
    written = {name for inner in branch.node for name in inner.output}
    names: dict[str, str] = {}
    copied: list[tuple[str, str]] = []
    for value, target in zip(branch.output, node.outputs, strict=True):
        if target and value.name in written and value.name not in names:
            names[value.name] = target
        elif target:
            copied.append((value.name, target))
    nodes = inside(branch, node, network, names)
    last = [helper.make_node("Identity", [names.get(name, name)], [target], target) for name, target in copied]
    return Definition((*nodes, *last), node.opsets, tuple(filter(None, node.outputs)))


def inside(graph: onnx.GraphProto, node: Node, network: Reading, names: dict[str, str]) -> tuple[onnx.NodeProto, ...]:
    """The nodes of a graph inside another node, with names of their own; `names` says what its inputs are.

    Extends `names` by all that the graph writes; what it reads from outside keeps its name.
    """
    for tensor in graph.initializer:
        names[tensor.name] = network.fresh(f"{node.name}.{tensor.name}")
        network.add_weight(names[tensor.name], tensor)
    return tuple(_written_out(inner, node, network, names, {}) for inner in graph.node)


def _written_out(
    inner: onnx.NodeProto,
    node: Node,
    network: Reading,
    names: dict[str, str],
    attributes: Mapping[str, onnx.AttributeProto],
) -> onnx.NodeProto:
    """A node inside another with names of its own, and the attributes of the other; extends `names`."""
    found = onnx.NodeProto(op_type=inner.op_type, domain=inner.domain)
    found.name = network.fresh(f"{node.name}.{inner.op_type}")
    found.input.extend(names.get(name, name) for name in inner.input)
    for name in inner.output:
        if name and name not in names:
            names[name] = network.fresh(f"{node.name}.{name}")
        found.output.append(names[name] if name else "")
    for attribute in inner.attribute:
        copied = onnx.AttributeProto()
        if not attribute.ref_attr_name:
            copied.CopyFrom(attribute)
        elif attribute.ref_attr_name in attributes:
            copied.CopyFrom(attributes[attribute.ref_attr_name])
            copied.name = attribute.name
        else:
            continue
        for graph in (copied.g, *copied.graphs):
            _rename(graph, names, attributes)
        found.attribute.append(copied)
    return found


def _rename(graph: onnx.GraphProto, names: Mapping[str, str], attributes: Mapping[str, onnx.AttributeProto]) -> None:
    """Let a graph inside a node read the tensors outside by their new names; its own keep theirs."""
    own = {value.name for value in (*graph.input, *graph.initializer)}
    own.update(name for inner in graph.node for name in inner.output)
    outside = {name: new for name, new in names.items() if name not in own}
    for inner in graph.node:
        inner.input[:] = [outside.get(name, name) for name in inner.input]
        for attribute in inner.attribute:
            if attribute.ref_attr_name in attributes:
                name = attribute.name
                attribute.CopyFrom(attributes[attribute.ref_attr_name])
                attribute.name = name
            for subgraph in (attribute.g, *attribute.graphs):
                _rename(subgraph, outside, attributes)


def _type(network: Reading, name: str) -> onnx.TypeProto:
    """The type of an operand, of no kind for one that is absent; that of an empty sequence is as good as any."""
    if not name:
        return onnx.TypeProto()
    if name in network.sequences:
        parts = network.sequences[name]
        return helper.make_sequence_type_proto(
            _type(network, parts[0]) if parts else helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None)
        )
    return helper.make_tensor_type_proto(
        helper.np_dtype_to_tensor_dtype(network.element_type(name)), network.shape(name)
    )

"""What must hold of an ONNX graph before its nodes are read, and which of them matter."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import onnx
from onnx import checker, defs

from tilestitch.base.errors import InputError, printable
from tilestitch.frontend.microsoft.schemas import DOMAIN as MICROSOFT
from tilestitch.frontend.microsoft.schemas import expect_known, is_microsofts

OLDEST_OPSET = 7  # numpy's broadcasting came with it
STANDARD = ("", "ai.onnx")  # two names of one domain
# What moves the cursor of a terminal or the direction of its text.
_CONTROL = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u2028-\\u202e\\u2066-\\u2069]")
EXTENSIONS = ("ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training")  # the standard's other domains


def opsets_of(where: str, model: onnx.ModelProto) -> dict[str, int]:
    """The version of each domain of the standard that the model uses, in a file format that is known.

    A model older than `OLDEST_OPSET` is read as one of it if all of its operators were the same then.
    """
    if not 1 <= model.ir_version <= onnx.IR_VERSION:
        raise InputError(
            f"{where}: the file's format has version {model.ir_version}; expected 1 to {onnx.IR_VERSION}: "
            "export the network again."
        )
    found: dict[str, int] = {}
    for opset in model.opset_import:
        domain = "" if opset.domain in STANDARD else opset.domain
        if found.setdefault(domain, opset.version) != opset.version:
            versions = f"{found[domain]} and {opset.version}"
            raise InputError(f"{where}: the model imports versions {versions} of domain '{domain}'; keep one.")
    known = f"expected {OLDEST_OPSET} to {defs.onnx_opset_version()}"
    if "" not in found and not any(domain in EXTENSIONS for domain in found):
        raise InputError(f"{where}: the model imports no version of the standard operators; {known}.")
    opset = found.setdefault("", defs.onnx_opset_version())
    if opset < OLDEST_OPSET and all(_unchanged(node, opset, OLDEST_OPSET) for node in model.graph.node):
        opset = found[""] = OLDEST_OPSET
    if not OLDEST_OPSET <= opset <= defs.onnx_opset_version():
        raise InputError(f"{where}: opset {opset} is not supported; {known}: export or convert it.")
    return found


def _unchanged(node: onnx.NodeProto, first: int, second: int) -> bool:
    """Whether a standard operator is defined alike at two opsets."""
    if node.domain not in STANDARD or not defs.has(node.op_type, first, ""):
        return False
    return defs.get_schema(node.op_type, first).since_version == defs.get_schema(node.op_type, second).since_version


def check_structure(where: str, graph: onnx.GraphProto) -> None:
    """Refuse a graph in which a tensor is written twice, or read before it is written, or has a damaged name."""
    _refuse_damaged_names(where, graph)
    if graph.sparse_initializer:
        name = graph.sparse_initializer[0].values.name
        raise InputError(f"{where}: weight '{name}' is sparse; expected dense weights.")
    if not graph.output:
        raise InputError(f"{where}: the network has no outputs, so there is nothing to compute.")
    for what, values in (("input", graph.input), ("weight", graph.initializer), ("output", graph.output)):
        nameless = [number for number, value in enumerate(values) if not value.name]
        if nameless:
            raise InputError(f"{where}: {what} {nameless[0]} has no name; every tensor needs a name of its own.")
    weights = [tensor.name for tensor in graph.initializer]
    inputs = [value.name for value in graph.input]
    outputs = [value.name for value in graph.output]
    written = [name for node in graph.node for name in node.output if name]
    # a file of the first format lists its weights among its inputs
    listed = set(inputs)
    defined = [*inputs, *(name for name in weights if name not in listed), *written]
    _refuse_twice(where, weights, "weights are")
    _refuse_twice(where, defined, "inputs, weights or node outputs are")
    _refuse_twice(where, outputs, "outputs are")
    producers = {name: number for number, node in enumerate(graph.node) for name in node.output if name}
    ready = {*inputs, *weights}
    names = node_names(graph)
    for number, node in enumerate(graph.node):
        for name in filter(None, node.input):
            if name not in ready:
                raise InputError(f"{where}: {_undefined(graph, names, producers, number, name)}")
        ready.update(node.output)
    for name in outputs:
        if name not in ready:
            raise InputError(f"{where}: output '{name}' is written by no node; expected a node, input or weight.")


def node_names(graph: onnx.GraphProto) -> list[str]:
    """A name per node: its own where no other node has it, or else `<operator>_<number among its kind>`."""
    counts = Counter(node.name for node in graph.node)
    taken = {name for name, count in counts.items() if count == 1}
    seen: Counter[str] = Counter()
    names = []
    for node in graph.node:
        name = f"{node.op_type}_{seen[node.op_type]}"
        seen[node.op_type] += 1
        if node.name and counts[node.name] == 1:
            name = node.name
        else:
            while name in taken:
                name += "_"
            taken.add(name)
        names.append(name)
    return names


def needed_outputs(nodes: Sequence[onnx.NodeProto], results: Collection[str]) -> list[tuple[str, ...]]:
    """Per node its outputs, "" for those that none of `results` depends on."""
    needed = set(results)
    found = []
    for node in reversed(nodes):
        outputs = tuple(name if name in needed else "" for name in node.output)
        if any(outputs):
            needed.update(read_by(node))
        found.append(outputs)
    return found[::-1]


def read_by(node: onnx.NodeProto) -> Iterator[str]:
    """What a node reads; of a graph inside it, also names that are its own."""
    yield from node.input
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            yield from (value.name for value in graph.output)
            for inner in graph.node:
                yield from read_by(inner)


def check_node(where: str, node: onnx.NodeProto, opsets: Mapping[str, int]) -> None:
    """Refuse a node that is not one of an operator of the standard, as ONNX defines it at this opset."""
    domain = "" if node.domain in STANDARD else node.domain
    if domain and domain not in EXTENSIONS and not is_microsofts(node):
        raise InputError(
            f"{where}: its domain '{node.domain}' is unknown; known are the operators of the ONNX standard and "
            f"onnxruntime's own ({MICROSOFT}). Export the network with a function that defines it, or add one "
            "(tilestitch.with_function)."
        )
    if domain not in opsets:
        raise InputError(f"{where}: the model imports no version of its domain '{node.domain}'; export it again.")
    if is_microsofts(node):
        expect_known(where, node)
        return
    if not defs.has(node.op_type, opsets[domain], domain):
        known = f"domain '{domain}'" if domain else "standard domain"
        raise InputError(
            f"{where}: the {known} has no operator {node.op_type} at opset {opsets[domain]}. Export the network "
            "without it: for an opset that has it, or with what it stands for in its place."
        )
    defined = _is_defined_by_others(defs.get_schema(node.op_type, opsets[domain], domain))
    for attribute in node.attribute:
        if attribute.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) and not defined:
            raise InputError(f"{where}: control flow is not supported; export the network without sub-graphs.")
        if attribute.ref_attr_name:
            raise InputError(
                f"{where}: attribute {attribute.name} refers to '{attribute.ref_attr_name}' of a function around the "
                "node, and there is none; the file is damaged: export it again."
            )
    context = checker.C.CheckerContext()
    context.ir_version = onnx.IR_VERSION
    context.opset_imports = dict(opsets)
    try:
        checker.check_node(node, context)
    except checker.ValidationError as error:
        raise InputError(f"{where}: {str(error).strip().splitlines()[0]}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: holds text that is not UTF-8; the file is damaged: export it again.") from error


def _is_defined_by_others(schema: Any) -> bool:
    """Whether the standard has a definition of the operator; onnx's stubs leave these two out."""
    return schema.has_function or schema.has_context_dependent_function


def _refuse_damaged_names(where: str, graph: onnx.GraphProto) -> None:
    """Protobuf gives a name that is not UTF-8 as bytes; and a name is printed, so that it must not move the cursor."""
    for name in _names(graph):
        if not isinstance(name, str):
            raise InputError(f"{where}: the name {name!r} is not UTF-8; the file is damaged: export it again.")
        if _CONTROL.search(name) is not None:
            raise InputError(f"{where}: the name '{printable(name)}' holds control characters; rename it.")


def _names(graph: onnx.GraphProto) -> Iterator[object]:
    """All of them, those in graphs inside nodes as well."""
    yield from (value.name for value in (*graph.input, *graph.output, *graph.initializer))
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        for attribute in node.attribute:
            yield attribute.name
            for inner in (attribute.g, *attribute.graphs):
                yield from _names(inner)


def _refuse_twice(where: str, names: Sequence[str], what: str) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise InputError(f"{where}: {count} {what} named '{name}'; every tensor needs a name of its own.")


def _undefined(
    graph: onnx.GraphProto, names: Sequence[str], producers: Mapping[str, int], reader: int, tensor: str
) -> str:
    """Why a node cannot read a tensor: nothing writes it, a later node does, or they wait for each other."""
    found = f"node '{names[reader]}' ({graph.node[reader].op_type}) reads '{tensor}'"
    if tensor not in producers:
        return f"{found}, which no node writes; expected a node, input or weight."
    before = {reader}  # nodes from which the reader can be reached, and that it waits for
    waiting = [producers[tensor]]
    while waiting:
        number = waiting.pop()
        if number == reader:
            return f"{found}, which depends on that node's own result; a network has no cycles."
        if number not in before:
            before.add(number)
            waiting += [producers[name] for name in graph.node[number].input if name in producers]
    return f"{found} before node '{names[producers[tensor]]}' writes it; sort the nodes in the order in which they run."

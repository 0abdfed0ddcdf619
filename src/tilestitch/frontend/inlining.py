"""Functions that a file defines itself, as exporters of PyTorch 2.0 to 2.5 do: written out where they are called."""

from collections.abc import Iterator, Mapping, Sequence

import onnx
from google.protobuf.message import DecodeError
from onnx import checker, helper, inliner, parser

from tilestitch.base.errors import InputError, printable

MAX_NODES = 10**5  # of a network when all is written out
MAX_DEPTH = 50  # of functions that call functions

_Key = tuple[str, str]  # domain and name
_Functions = Mapping[_Key, onnx.FunctionProto]


def without_functions(where: str, model: onnx.ModelProto) -> onnx.ModelProto:
    """The same network without functions of its own; raises `InputError` where they are endless or do not fit."""
    if not model.functions:
        return model
    functions = {(function.domain, function.name): function for function in model.functions}
    nodes = _written_out(where, model.graph.node, functions, {}, 0)
    if nodes > MAX_NODES:
        raise InputError(
            f"{where}: with its functions inlined the network has {nodes:,} nodes; expected at most {MAX_NODES:,}."
        )
    try:
        found = inliner.inline_local_functions(model)
    except (RuntimeError, TypeError, ValueError, checker.ValidationError) as error:
        reason = str(error).strip().split("\n")[0][:300]
        raise InputError(f"{where}: its functions cannot be inlined ({reason}); export it without them.") from error
    if found.functions:  # onnx leaves those whose opset is not that of the network
        left = found.functions[0]
        versions = ", ".join(f"'{opset.domain}' {opset.version}" for opset in left.opset_import)
        raise InputError(
            f"{where}: function '{left.name}' of domain '{left.domain}' is not of the network's opsets ({versions}); "
            "export it with one opset for all."
        )
    return found


def with_function(where: str, model: onnx.ModelProto, text: str) -> onnx.ModelProto:
    """The same network with one more function of its own, in the text form of ONNX.

    Raises `InputError` for what is no function, and for one that the network has already.
    """
    try:
        function = parser.parse_function(text)
        checked = onnx.FunctionProto.FromString(function.SerializeToString())
    except (parser.ParseError, DecodeError, UnicodeDecodeError) as error:
        lines = [line.strip() for line in str(error).strip().split("\n") if line.strip()]
        reason = printable(" ".join(lines), 300)
        raise InputError(
            f"{where}: the function cannot be read ({reason}); expected ONNX's text form: "
            '<domain: "mine", opset_import: ["" : 20]> Name (x) => (y) { y = Relu (x) }'
        ) from None
    if not checked.domain or not checked.name:
        raise InputError(f'{where}: the function has no domain of its own; write it as <domain: "mine", ...>.')
    key = f"'{printable(checked.name)}' of domain '{printable(checked.domain)}'"
    if any((other.domain, other.name) == (checked.domain, checked.name) for other in model.functions):
        raise InputError(f"{where}: function {key} is already defined; a network defines each function once.")
    found = onnx.ModelProto()
    found.CopyFrom(model)
    found.functions.append(checked)
    if all(opset.domain != checked.domain for opset in found.opset_import):
        found.opset_import.append(helper.make_opsetid(checked.domain, 1))
    return found


def _written_out(
    where: str, nodes: Sequence[onnx.NodeProto], functions: _Functions, known: dict[_Key, int], depth: int
) -> int:
    """How many nodes there are when all calls are written out; `known` keeps the numbers of functions."""
    if depth > MAX_DEPTH:
        raise InputError(f"{where}: its functions call one another more than {MAX_DEPTH} deep, or endlessly.")
    count = 0
    for node in _with_inner(nodes):
        key = node.domain, node.op_type
        if key in functions and key not in known:
            known[key] = _written_out(where, functions[key].node, functions, known, depth + 1)
        count += known.get(key, 1)
    return count


def _with_inner(nodes: Sequence[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Nodes, and those of the graphs inside them."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _with_inner(graph.node)

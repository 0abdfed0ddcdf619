"""What onnxruntime says of its own operators: how many operands they have, and which attributes."""

from functools import cache
from typing import Any

import onnx

from tilestitch.base.errors import InputError

DOMAIN = "com.microsoft"
_MISPLACED = ("SimplifiedLayerNormalization",)  # onnxruntime has it in the standard's domain


def is_microsofts(node: onnx.NodeProto) -> bool:
    """Whether a node is of an operator of onnxruntime's own."""
    return node.domain == DOMAIN or (node.domain in ("", "ai.onnx") and node.op_type in _MISPLACED)


@cache
def _schemas() -> dict[str, Any]:
    """The newest schema of every operator; onnxruntime's stubs leave this function out."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state  # pyright: ignore[reportAttributeAccessIssue]

    every: list[Any] = state.get_all_operator_schema()
    ours = [schema for schema in every if schema.domain == DOMAIN or schema.name in _MISPLACED]
    return {schema.name: schema for schema in sorted(ours, key=lambda schema: schema.since_version)}


def operators() -> tuple[str, ...]:
    """Their names, sorted."""
    return tuple(sorted(_schemas()))


def expect_known(where: str, node: onnx.NodeProto) -> None:
    """Refuse a node of the domain that is not one of an operator as the installed onnxruntime defines it."""
    schema = _schemas().get(node.op_type)
    if schema is None:
        raise InputError(
            f"{where}: the installed onnxruntime has no operator {node.op_type} of its domain '{DOMAIN}'; export the "
            "network without it, or with a function of the file that defines it."
        )
    for what, names, least, most in (
        ("operands", node.input, schema.min_input, schema.max_input),
        ("outputs", node.output, schema.min_output, schema.max_output),
    ):
        if not least <= len(names) <= most:
            raise InputError(f"{where}: it has {len(names)} {what}; expected {least} to {most}.")
    for number, formal in enumerate(schema.inputs):
        if formal.option == type(formal.option).Single and not node.input[number]:
            raise InputError(f"{where}: operand {number} ({formal.name}) is absent; expected a tensor.")
    given = {attribute.name: attribute for attribute in node.attribute}
    for name, attribute in given.items():
        if name not in schema.attributes:
            known = ", ".join(sorted(schema.attributes)) or "none"
            raise InputError(f"{where}: it has no attribute {name}; known: {known}.")
        wanted = str(schema.attributes[name].type).rpartition(".")[2]
        found = onnx.AttributeProto.AttributeType.Name(attribute.type)
        if found != wanted:
            raise InputError(f"{where}: attribute {name} is of type {found}; expected {wanted}.")
    for name, formal in schema.attributes.items():
        if formal.required and name not in given:
            raise InputError(f"{where}: attribute {name} is missing; export the network again.")

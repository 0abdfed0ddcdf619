"""Which way every operator of the ONNX standard, and of onnxruntime's own, takes: the lists of docs/onnx.md."""

from enum import StrEnum
from textwrap import fill
from typing import Any

from onnx import defs

from tilestitch.base.storage import STORAGE
from tilestitch.frontend.composed.definitions import COMPOSED
from tilestitch.frontend.element_types import schema_type
from tilestitch.frontend.folding import RANDOM
from tilestitch.frontend.microsoft.definitions import DEFINITIONS
from tilestitch.frontend.operators.handlers import ALWAYS_KNOWN, HANDLERS
from tilestitch.frontend.operators.sequences import SEQUENCES

CONTROL_FLOW = ("If", "Loop", "Scan")


class Way(StrEnum):
    """How an operator is read, the best way first."""

    RULE = "A rule of our own"
    DEFINITION = "By the standard's definition"
    WRITTEN_OUT = "Unrolled or evaluated while reading, if the values that decide are known then"
    GENERIC = "Generic, not independently verified"
    RANDOM = "Refused: differs from run to run"
    NO_TENSOR = "Refused: sequences of unknown length, optionals and text"


def ways() -> dict[str, Way]:
    """The way of the newest version of every operator of the installed onnx, by name; deprecated ones are left out.

    Operators of other domains than ai.onnx have the domain before their name.
    """
    found = {}
    for schema in defs.get_all_schemas():
        if not schema.deprecated:
            name = f"{schema.domain}.{schema.name}" if schema.domain else schema.name
            found[name] = _way(schema)
    return dict(sorted(found.items(), key=lambda item: (item[0].count("."), item[0])))


def _way(schema: defs.OpSchema) -> Way:
    methods: Any = schema  # onnx's stubs leave these two out
    if (schema.domain, schema.name) in COMPOSED or (not schema.domain and schema.name in {*HANDLERS, *ALWAYS_KNOWN}):
        return Way.RULE
    if schema.name in RANDOM:
        return Way.RANDOM
    if not schema.domain and schema.name in {*CONTROL_FLOW, *SEQUENCES}:
        return Way.WRITTEN_OUT
    if not _of_tensors(schema):
        return Way.NO_TENSOR
    if methods.has_function or methods.has_context_dependent_function:
        return Way.DEFINITION
    return Way.GENERIC


def _of_tensors(schema: defs.OpSchema) -> bool:
    """Whether every operand and every result may be a tensor of a type that can be stored."""
    stored = {schema_type(dtype) for dtype in STORAGE}
    single = defs.OpSchema.FormalParameterOption.Single
    required = [one for one in (*schema.inputs, *schema.outputs) if one.option == single]
    return all(stored.intersection(one.types) for one in required)


def listing() -> str:
    """A paragraph of names for each way, in Markdown."""
    found = ways()
    parts = []
    for way in Way:
        names = [f"`{name}`" for name, taken in found.items() if taken is way]
        text = fill(", ".join(names), 118, break_long_words=False, break_on_hyphens=False)
        parts.append(f"**{way}** ({len(names)}):\n{text}.\n")
    names = ", ".join(f"`{name}`" for name in sorted(DEFINITIONS))
    text = fill(names, 118, break_long_words=False, break_on_hyphens=False)
    parts.append(f"**From onnxruntime, rewritten in operators of the standard** ({len(DEFINITIONS)}):\n{text}.\n")
    return "\n".join(parts)

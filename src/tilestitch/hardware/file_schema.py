"""The JSON Schema of machine files, from the models that read them: for editors, which complete, explain and check.

What an editor finds right may still be refused where several fields contradict each other; what it finds wrong is
refused. Nothing here knows a field by name.
"""

import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from fractions import Fraction
from inspect import cleandoc
from types import NoneType, UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin

from pydantic import BaseModel, PlainValidator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from tilestitch.base.json_values import Json
from tilestitch.hardware.fields import FieldReader
from tilestitch.hardware.file_models import MachineModel

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_UNITS = {"_pj": "pJ", "_mm2": "mm2", "_bits": "bit", "_bytes": "B", "_cycles": "cycle", "_hz": "Hz"}
_RATES = {"_bytes_per_cycle": "B/cycle", "_pj_per_byte": "pJ/B"}


def file_schema() -> str:
    """The schema of a machine's file, as JSON."""
    models = _Models()
    found = {
        "$schema": DIALECT,
        "title": "A machine of Tilestitch",
        **models.reference(MachineModel),
        "$defs": models.definitions(),
    }
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


class _Models:
    """The models that the schema refers to, in the order in which they are met."""

    def __init__(self) -> None:
        self._found: dict[str, Mapping[str, Json]] = {}

    def reference(self, model: type[BaseModel]) -> dict[str, Json]:
        """A reference to a model, which is defined from now on."""
        name = model.__name__.removesuffix("Model")
        if name not in self._found:
            self._found[name] = {}
            self._found[name] = self._of_model(model)
        return {"$ref": f"#/$defs/{name}"}

    def definitions(self) -> Mapping[str, Json]:
        return self._found

    def _of_model(self, model: type[BaseModel]) -> Mapping[str, Json]:
        either: tuple[tuple[str, ...], ...] = getattr(model, "either", ())
        return {
            "type": "object",
            "description": cleandoc(model.__doc__ or "").replace("\n", " ").replace("  ", " "),
            "properties": {key: self._of_field(key, field) for key, field in model.model_fields.items()},
            "required": [key for key, field in model.model_fields.items() if field.is_required()],
            "additionalProperties": False,
            **({"oneOf": [{"required": list(keys)} for keys in either]} if either else {}),
        }

    def _of_field(self, key: str, field: FieldInfo) -> Mapping[str, Json]:
        reader = _reader(field.metadata)
        own = reader.schema if reader is not None else self._of_type(field.annotation)
        found: dict[str, Json] = {"description": _with_unit(field.description or "", unit_of(key)), **own}
        found |= _least(field.metadata)
        if field.default is not PydanticUndefined and field.default is not None:
            found["default"] = _plain(field.default)
        if field.examples:
            found["examples"] = [_plain(one) for one in field.examples]
        return found

    def _of_type(self, annotation: Any) -> dict[str, Json]:
        origin, arguments = get_origin(annotation), get_args(annotation)
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            return self.reference(annotation)
        if isinstance(annotation, type) and issubclass(annotation, StrEnum):
            return {"enum": [str(one) for one in annotation]}
        if origin is Annotated:
            reader = _reader(arguments[1:])
            return (
                dict(reader.schema) if reader is not None else {**self._of_type(arguments[0]), **_least(arguments[1:])}
            )
        if origin is list:
            return {"type": "array", "items": self._of_type(arguments[0])}
        if origin is dict:
            keys, values = (self._of_type(one) for one in arguments)
            return {"type": "object", "propertyNames": _of_texts(keys), "additionalProperties": values}
        assert origin in (Union, UnionType), f"no schema for {annotation}"
        options = [self._of_type(one) for one in arguments if one is not NoneType]
        return options[0] if len(options) == 1 else {"anyOf": options}


def _of_texts(schema: Mapping[str, Json]) -> Mapping[str, Json]:
    """What keys may be, which are always text."""
    return {name: value for name, value in schema.items() if name != "type"}


def _least(metadata: Iterable[object]) -> Mapping[str, Json]:
    """How many entries a list has at least, where its type says so."""
    inner = [piece for one in metadata for piece in (one, *getattr(one, "metadata", ()))]
    found = [least for one in inner if isinstance(least := getattr(one, "min_length", None), int)]
    return {"minItems": found[0]} if found else {}


def unit_of(key: str) -> str:
    """The unit that a field's name says; empty where it says none."""
    for units in (_RATES, _UNITS):
        for ending, unit in units.items():
            if key.endswith(ending):
                return unit
    return ""


def _with_unit(description: str, unit: str) -> str:
    return f"{description} [{unit}]" if unit else description


def _reader(metadata: Iterable[object]) -> FieldReader | None:
    found = [one.func for one in metadata if isinstance(one, PlainValidator)]
    return cast("FieldReader", found[0]) if found else None


def _plain(value: object) -> Json:
    """A default or an example as it would stand in a file."""
    if isinstance(value, tuple | list):
        return [_plain(one) for one in cast("Iterable[object]", value)]
    if isinstance(value, StrEnum | Fraction):
        return str(value)
    assert isinstance(value, bool | int | float | str), f"no form in JSON for {value!r}"
    return value

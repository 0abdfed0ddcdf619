"""JSON: files with a format and a version; frozen values, and back: fields by their names, tuples as lists."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import TypeAlias, TypeVar

from tilestitch.base.errors import InputError, printable

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

VERSION = 1  # of all formats

_Value = TypeVar("_Value")


def document(kind: str, body: Mapping[str, Json]) -> str:
    """The text of a file of the format `tilestitch.<kind>`."""
    tree = {"format": f"tilestitch.{kind}", "version": VERSION, **body}
    return json.dumps(tree, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def plain(value: object) -> Json:
    """A value made of dataclasses, tuples, texts and numbers, as JSON."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    assert is_dataclass(value), f"no form in JSON for {type(value)}"
    return {field.name: plain(getattr(value, field.name)) for field in fields(value)}


def value_of(kind: type[_Value], tree: object, where: str) -> _Value:
    """A value of a type from what JSON said; an `InputError` with the first field that is not as it should be.

    Unknown and missing fields are refused, and nothing is converted but lists to tuples and texts to choices.
    """
    from pydantic import TypeAdapter, ValidationError  # takes a while

    try:
        value = TypeAdapter(kind).validate_json(json.dumps(tree), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        found = printable(repr(first.get("input")), 60)
        raise InputError(f"{where}{_place(first['loc'])}: {first['msg'].lower()}, found {found}") from None
    _expect_all_said(plain(value), tree, where)
    return value


def _expect_all_said(known: Json, said: object, where: str) -> None:
    """Refuse fields that the value does not have, and those that it has by default alone."""
    if isinstance(known, dict) and isinstance(said, dict):
        for name in said:
            if name not in known:
                raise InputError(f"{where}: unknown field {printable(repr(name), 60)}; known: {', '.join(known)}")
        for name, value in known.items():
            if name not in said:
                raise InputError(f"{where}: field {name!r} is missing; expected {', '.join(known)}")
            _expect_all_said(value, said[name], f"{where}.{name}")
    elif isinstance(known, list) and isinstance(said, list):
        for number, (value, item) in enumerate(zip(known, said, strict=True)):
            _expect_all_said(value, item, f"{where}[{number}]")


def _place(path: Sequence[int | str]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)

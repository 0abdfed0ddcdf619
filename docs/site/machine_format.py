"""The reference of a machine's file, from the models that read it: every field, with what it may say.

Nothing here knows a field by name: a model that gets another field, or another model inside, gets its row and its
section.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from inspect import cleandoc
from types import NoneType, UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin

from pydantic import BaseModel, PlainValidator
from pydantic.fields import FieldInfo

from tilestitch.hardware.fields import ChoiceField, FieldReader
from tilestitch.hardware.file_models import MachineModel

INTRODUCTION = """# The machine file, key by key

<!-- Written by docs/site/machine_format.py from the models in src/tilestitch/hardware/file_models.py; not by hand. -->

This page lists every key of the YAML file that describes a machine. A key without a default is required. `[]` stands
for each entry of a list, `NAME` for a name of your choice. [The machine file](../tree-file.md) explains the parts and
has examples; `tilestitch show machine FILE` prints how a file was understood, or all mistakes in it, and `tilestitch
show schema` gives the same to editors.
"""


MOST_WORDS = 8  # of a choice that a cell of a table lists


@dataclass(frozen=True, slots=True)
class Section:
    """A model and the place of the file that it describes."""

    place: str
    model: type[BaseModel]


def machine_format() -> str:
    """The page, with a section for each model that the machine's leads to, and for each long choice."""
    places: dict[type[BaseModel], list[str]] = {}
    for one in sections(Section("", MachineModel)):
        places.setdefault(one.model, []).append(one.place)
    parts = [_section(model, where) for model, where in places.items()]
    choices = dict.fromkeys(one for model in places for one in _long_choices(model))
    return "\n".join([INTRODUCTION, *parts, *map(_words, choices)]).rstrip() + "\n"


def sections(section: Section) -> Iterator[Section]:
    """A model and those inside it, in the order of the file."""
    yield section
    for key, field in section.model.model_fields.items():
        place = f"{section.place}.{key}".removeprefix(".")
        for inner in _inner(place, field.annotation):
            yield from sections(inner)


def _inner(place: str, annotation: Any) -> Iterator[Section]:
    """The models that a type leads to, with their places."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield Section(place, annotation)
    elif origin is Annotated:
        yield from _inner(place, arguments[0])
    elif origin is list:
        yield from _inner(f"{place}[]", arguments[0])
    elif origin is dict:
        yield from _inner(f"{place}.NAME", arguments[1])
    elif origin in (Union, UnionType):
        for one in arguments:
            yield from _inner(place, one)


def _section(model: type[BaseModel], places: list[str]) -> str:
    kind = model.model_fields.get("kind")
    only = f" of kind {kind.description}" if kind is not None else ""
    heading = ", ".join(f"`{place}`{only}" if place else "The file" for place in places)
    rows = [_row(key, field) for key, field in model.model_fields.items()]
    table = ["| key | value | default | meaning |", "| --- | --- | --- | --- |", *rows]
    return "\n".join([f"## {heading}", "", cleandoc(model.__doc__ or ""), "", *table, ""])


def _words(choice: type[StrEnum]) -> str:
    words = ", ".join(f"`{one}`" for one in choice)
    return "\n".join([f"## {choice.__name__}", "", cleandoc(choice.__doc__ or ""), "", f"{words}.", ""])


def _row(key: str, field: FieldInfo) -> str:
    examples = "".join(f"; such as {_example(one)}" for one in field.examples or ())
    cells = [f"`{key}`", value_of(field), _default(field), (field.description or "") + examples]
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _example(value: object) -> str:
    return f"`[{', '.join(map(str, value))}]`" if isinstance(value, list) else f"`{value}`"


def value_of(field: FieldInfo) -> str:
    """What may stand there, in the words of the errors about it."""
    own = _reader(field.metadata)
    return own.expected if own is not None else _value_of_type(field.annotation)


def _reader(metadata: Iterable[object]) -> FieldReader | None:
    found = [one.func for one in metadata if isinstance(one, PlainValidator)]
    return cast("FieldReader", found[0]) if found else None


def _value_of_type(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "a mapping, below"
    if origin is Annotated:
        reader = _reader(arguments[1:])
        if reader is None:
            return _value_of_type(arguments[0])
        long = _long_choice(reader)
        return reader.expected.partition(":")[0] if long is None else f"[{long.__name__}](#{long.__name__.lower()})"
    if origin is list:
        return _value_of_type(arguments[0]).replace("a mapping", "a list of mappings")
    if origin is dict:
        return f"a mapping from {_value_of_type(arguments[0])} to {_value_of_type(arguments[1])}"
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(_value_of_type(one) for one in arguments if one is not NoneType))
    return getattr(annotation, "__name__", str(annotation))


def _long_choice(reader: FieldReader) -> type[StrEnum] | None:
    """The words of a choice that is too long for a cell of a table."""
    long = isinstance(reader, ChoiceField) and len(reader.options) > MOST_WORDS
    return type(reader.options[0]) if long else None


def _long_choices(model: type[BaseModel]) -> Iterator[type[StrEnum]]:
    for field in model.model_fields.values():
        for argument in get_args(field.annotation):
            reader = _reader(get_args(argument)[1:]) if get_origin(argument) is Annotated else None
            choice = _long_choice(reader) if reader is not None else None
            if choice is not None:
                yield choice


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return ""
    match field.default:
        case None:
            return "none"
        case bool() as switch:
            return f"`{str(switch).lower()}`"
        case tuple() as words:
            return f"`[{', '.join(map(str, words))}]`"
        case "" | []:
            return "none"
        case StrEnum() | int() as value:
            return f"`{value}`"
        case other:
            return f"`{other}`"

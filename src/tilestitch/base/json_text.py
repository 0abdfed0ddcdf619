"""JSON of our own: written a row a line, and read field by field, each part knowing the place where it stands."""

import json
import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from tilestitch.base.errors import InputError, printable

_WORDS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}  # numbers that JSON has no words for

_Choice = TypeVar("_Choice")


def json_value(text: str, where: str) -> Any:
    """What a JSON text holds. Raises `InputError` for anything else, and where a field appears twice."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            name = Counter(name for name, _ in pairs).most_common(1)[0][0]
            raise InputError(f"{where}: the field {_shown(name)} appears more than once; keep one")
        return found

    try:
        return json.loads(text, object_pairs_hook=once, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        opened, ended = text.lstrip()[:1] in ("{", "["), text.rstrip()[-1:] in ("}", "]")
        more = "; the end of the file is missing: write it again" if opened and not ended else ""
        if isinstance(error, json.JSONDecodeError) and error.msg == "Extra data":
            more = "; remove what stands behind its end"
        raise InputError(f"{where}: is not JSON ({printable(str(error), 200)}){more}") from None


@dataclass(frozen=True, slots=True)
class JsonPart:
    """A value of a document, with the document's name and the keys that lead here; every refusal begins with these."""

    value: Any
    where: str
    path: tuple[str | int, ...] = ()

    @property
    def place(self) -> str:
        """`net.json: operators[3].name`."""
        steps = (f"[{step}]" if isinstance(step, int) else f".{printable(step, 60)}" for step in self.path)
        path = "".join(steps).removeprefix(".")
        return f"{self.where}: {path}" if path else self.where

    def refuse(self, problem: str) -> NoReturn:
        raise InputError(f"{self.place}: {problem}")

    def expected(self, expected: str) -> NoReturn:
        """Refuse what stands here, which is something else."""
        self.refuse(f"expected {expected}, found {_shown(self.value)}")

    def fields(self, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, "JsonPart"]:
        """The fields of an object that has all of `required`, and nothing but them and `optional`."""
        found = self.entries()
        known = (*required, *optional)
        for name in found:
            if name not in known:
                self.refuse(f"unknown field {_shown(name)}; known: {', '.join(known)}")
        for name in required:
            if name not in found:
                self.refuse(f"the field {name} is missing")
        return found

    def entries(self) -> dict[str, "JsonPart"]:
        """What an object holds, whatever its fields are."""
        if not isinstance(self.value, dict):
            self.expected("an object")
        return {name: JsonPart(value, self.where, (*self.path, name)) for name, value in self.value.items()}

    def items(self, what: str) -> list["JsonPart"]:
        """What a list of `what` holds."""
        if not isinstance(self.value, list):
            self.expected(f"a list of {what}")
        return [JsonPart(value, self.where, (*self.path, at)) for at, value in enumerate(self.value)]

    def text(self, what: str = "text") -> str:
        if not isinstance(self.value, str):
            self.expected(what)
        return self.value

    def texts(self, what: str) -> tuple[str, ...]:
        """A list of texts."""
        if isinstance(self.value, list) and all(isinstance(value, str) for value in self.value):
            return tuple(self.value)
        return tuple(item.text() for item in self.items(what))

    def whole(self, least: int, most: int) -> int:
        value = self.value
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            self.expected(f"a whole number from {_bound(least)} to {_bound(most)}")
        return value

    def wholes(self, least: int, most: int) -> tuple[int, ...]:
        """A list of whole numbers."""
        if isinstance(self.value, list) and all(type(value) is int and least <= value <= most for value in self.value):
            return tuple(self.value)
        return tuple(item.whole(least, most) for item in self.items("whole numbers"))

    def real(self) -> float:
        """A number; "inf", "-inf" and "nan" are those that JSON has no words for, see `json_number`."""
        value = self.value
        if isinstance(value, str) and value in _WORDS:
            return _WORDS[value]
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
            self.expected('a number, or "inf", "-inf" or "nan"')
        return float(value)

    def choice(self, options: Mapping[str, _Choice]) -> _Choice:
        """What one of a few words stands for."""
        if not isinstance(self.value, str) or self.value not in options:
            self.expected(f"{'one of ' if len(options) > 1 else ''}{', '.join(options)}")
        return options[self.value]


def json_fields(whole: JsonPart, name: str, version: int, fields: Sequence[str]) -> dict[str, JsonPart]:
    """The `fields` of a document that says that it has the format `name` in this version; see `document_text`."""
    found = whole.entries()
    if "format" not in found or found["format"].value != name:
        shown = _shown(found["format"].value) if "format" in found else "no such field"
        whole.refuse(f'expected the field "format" with the value "{name}", found {shown}')
    given = found["version"].value if "version" in found else None
    if type(given) is not int or given != version:
        whole.refuse(f"version: expected {version}, found {_shown(given)}; write the file again with this Tilestitch")
    return whole.fields(("format", "version", *fields))


@dataclass(frozen=True, slots=True)
class Rows:
    """A list that a document writes one entry a line."""

    rows: Sequence[Any]


def document_text(name: str, version: int, fields: Mapping[str, Any]) -> str:
    """A document of a format in a version: its fields a line each, those that are `Rows` a line for each of these."""
    lines = [f'{{"format": "{name}", "version": {version}']
    for field, value in fields.items():
        head = f"{json_line(field)}: "
        if isinstance(value, Rows) and value.rows:
            head += "[\n " + ",\n ".join(map(json_line, value.rows)) + "\n]"
        else:
            head += json_line([] if isinstance(value, Rows) else value)
        lines.append(head)
    return ",\n".join(lines) + "}\n"


def json_line(value: Any) -> str:
    """A value as JSON on one line; text as it is unless something in it cannot be printed."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return text if text.isascii() or text.isprintable() else json.dumps(value, allow_nan=False)


def json_number(value: float) -> float | str:
    """A number as a document writes it, so that `JsonPart.real` reads the same; the payload of a NaN is lost."""
    return value if math.isfinite(value) else str(value)


def _bound(number: int) -> str:
    """`1,000`, `2^62`."""
    power = abs(number).bit_length() - 1
    return f"{'-' if number < 0 else ''}2^{power}" if power >= 30 and abs(number) == 2**power else f"{number:,}"


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number in JSON")


def _shown(value: Any) -> str:
    """What was found, as a message shows it; of a long value the beginning."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    if isinstance(value, str):
        return printable(json.dumps(value[:40], ensure_ascii=False) + ("..." if len(value) > 40 else ""), 80)
    return "nothing" if value is None else printable(json.dumps(value), 60)

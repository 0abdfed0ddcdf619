"""Files of other programs, YAML or JSON, taken field by field: each part knows the place where it stands."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NoReturn

from pydantic_core import PydanticCustomError

from tilestitch.base.errors import InputError, printable
from tilestitch.hardware.fields import EnergyField, RatioField, SwitchField, WholeField, closest, shown
from tilestitch.hardware.yaml_tree import TAG, Mistake, Scalar, Tree, read_tree

MAX_BYTES = 4 * 2**20
_NULL = ("", "~", "null")


@dataclass(frozen=True, slots=True)
class Part:
    """A value of a file, with the name of the file and the keys that lead here; every refusal begins with these."""

    value: Tree
    file: str
    path: tuple[str | int, ...] = ()

    @property
    def is_absent(self) -> bool:
        """Whether nothing is written: null, or no text."""
        return isinstance(self.value, Scalar) and not self.value.quoted and self.value.text in _NULL

    @property
    def place(self) -> str:
        """The file and the keys, as messages begin."""
        return f"{self.file}: {Mistake(self.path, '')}".removesuffix(": ")

    def refuse(self, problem: str) -> NoReturn:
        raise InputError(f"{self.file}: {Mistake(self.path, problem)}")

    def expected(self, expected: str, way_out: str = "") -> NoReturn:
        """Refuse what stands here, which is something else."""
        self.refuse(f"expected {expected}, found {shown(self.value)}{'; ' if way_out else ''}{way_out}")

    def fields(
        self, required: Sequence[str], optional: Sequence[str] = (), unsupported: Mapping[str, str] | None = None
    ) -> dict[str, "Part"]:
        """The fields of a mapping. An unknown one is refused, and one of `unsupported` with its reason."""
        found = self.entries()
        reasons = unsupported or {}
        known = (*required, *optional)
        for key, part in found.items():
            if key in reasons:
                part.refuse(f"not supported: {reasons[key]}")
            if key not in known:
                part.refuse(f"unknown field{closest(key, known)}; known: {', '.join(known)}")
        for key in required:
            if key not in found:
                self.refuse(f"the field {key} is missing")
        return found

    def entries(self) -> dict[str, "Part"]:
        """What a mapping holds, whatever the keys are."""
        if not isinstance(self.value, dict):
            self.expected("a mapping")
        return {key: Part(value, self.file, (*self.path, key)) for key, value in self.value.items()}

    def items(self, what: str, *, least: int = 1) -> tuple["Part", ...]:
        """What a list of at least so many `what` holds."""
        if not isinstance(self.value, list) or len(self.value) < least:
            self.expected(f"a list of {what}")
        return tuple(Part(value, self.file, (*self.path, at)) for at, value in enumerate(self.value))

    def text(self, what: str = "text") -> str:
        if (
            not isinstance(self.value, Scalar)
            or not self.value.text.isprintable()
            or not 0 < len(self.value.text) < 200
        ):
            self.expected(what)
        return self.value.text

    def whole(self, what: str, least: int, most: int) -> int:
        return self._read(WholeField(what, least, most))

    def ratio(self, what: str, most: int = 10**12) -> Fraction:
        """A number above 0, exactly as it is written."""
        return self._read(RatioField(what, most, "2 or 0.5"))

    def energy(self) -> float:
        """Picojoules of at least 0."""
        return self._read(EnergyField())

    def switch(self) -> bool:
        """true or false, in any of YAML's three cases."""
        if isinstance(self.value, Scalar) and self.value.text in ("True", "False", "TRUE", "FALSE"):
            return self.value.text.lower() == "true"
        return self._read(SwitchField())

    def _read(self, reader: Any) -> Any:
        try:
            return reader(self.value)
        except PydanticCustomError as error:
            self.refuse(error.message())


def yaml_file(text: str, where: str, *, tags: Sequence[str] = (), notes: list[str] | None = None) -> Part:
    """What a YAML text holds; see `read_tree` for tags. A template that still has to be filled in is refused.

    A field that is written twice is refused, or where `notes` are taken its last value counts, and a note says so.
    """
    _check_size(text, where)
    for sign in ("{{", "{%"):
        if sign in text:
            line = text.count("\n", 0, text.index(sign)) + 1
            raise InputError(
                f"{where}: line {line}: expected values, found '{sign}' of a jinja2 template, which is not supported; "
                "write out the file that the template produces"
            )
    mistakes: list[Mistake] = []
    tree = read_tree(text, where, mistakes, tags=tags, last_counts=notes is not None)
    if notes is not None:
        twice = [mistake for mistake in mistakes if mistake.problem.startswith("written twice")]
        notes += [f"{where}: {one}".replace("; keep one", "; the last counts") for one in twice]
        mistakes = [mistake for mistake in mistakes if mistake not in twice]
    if mistakes:
        raise InputError("\n".join(f"{where}: {mistake}" for mistake in mistakes[:20]))
    return Part(tree, where)


def json_file(text: str, where: str) -> Part:
    """What a JSON text holds; a field that appears twice is refused, and so are NaN and infinity."""
    _check_size(text, where)
    try:
        value = json.loads(
            text,
            object_pairs_hook=_once,
            parse_int=_number,
            parse_float=_number,
            parse_constant=_no_number,
        )
        return Part(_tree(value), where)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: is not JSON ({printable(str(error), 120)})") from None


def _check_size(text: str, where: str) -> None:
    if len(text) > MAX_BYTES:
        raise InputError(f"{where}: expected at most {MAX_BYTES:,} bytes, found more")


def _number(text: str) -> Scalar:
    return Scalar(text, quoted=False)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the field {printable(repr(key), 60)} appears twice")
            seen.add(key)
    if TAG in found:
        raise ValueError(f"a field {TAG!r} means nothing")
    return found


def _tree(value: Any) -> Tree:
    if isinstance(value, dict):
        return {printable(key, 64): _tree(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_tree(entry) for entry in value]
    if isinstance(value, str):
        return Scalar(value, quoted=True)
    return (
        value if isinstance(value, Scalar) else Scalar({True: "true", False: "false"}.get(value, "null"), quoted=False)
    )

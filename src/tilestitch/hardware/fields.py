"""What one field of a machine's file may say: its reader takes the text that stands there, or says what would fit.

Each reader has its JSON Schema too, for the values that an editor's YAML 1.2 makes of the text: `1_000` is text there.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from fractions import Fraction
from typing import ClassVar, Protocol

from pydantic_core import PydanticCustomError

from tilestitch.base.json_values import Json
from tilestitch.hardware.yaml_tree import Scalar, quoted

_PER_SECOND = (
    "divide the bytes per second by the clock; of a memory, read_pj, write_pj and ports: [{width_bits: 512, "
    "bandwidth: 34 GB/s}] may take the place of rates, bursts and energies in bytes"
)
_WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,39}|[1-9][0-9]{0,2}(?:_[0-9]{3}){1,12})")
_EXPONENT = r"(?:[eE](?:-[0-9]{1,2}|\+?[0-9]{1,3}))?"
_DECIMAL = re.compile(rf"[-+]?(?:(?:0|[1-9][0-9]{{0,39}})(?:\.[0-9]{{0,39}})?|\.[0-9]{{1,39}}){_EXPONENT}")
_RATIO = re.compile(r"[1-9][0-9]{0,39}/[1-9][0-9]{0,39}")
_WITH_PREFIX = re.compile(r"([0-9]{1,39}(?:\.[0-9]{1,39})?) ?([kKMGT]?)(i?)(B|Hz|)")
_GROUPED = re.compile(r"[1-9][0-9]{0,2}(?:[ ,'][0-9]{3}){1,12}")
_BASED = re.compile(r"0[xX][0-9a-fA-F]{1,16}|0b[01]{1,64}|0o[0-7]{1,22}")
_GROUPS = "^[-+]?[1-9][0-9]{0,2}(_[0-9]{3}){1,12}$"  # what is a number for us and text for YAML 1.2
_NAME = "[A-Za-z0-9][A-Za-z0-9._-]{0,63}"


@dataclass(frozen=True, slots=True)
class WholeField:
    """A whole number of something, within limits."""

    what: str
    least: int
    most: int

    @property
    def expected(self) -> str:
        what = f" of {self.what}" if self.what else ""
        return f"a whole number{what}{' above 0' if self.least == 1 else f' of at least {self.least}'}"

    @property
    def schema(self) -> Mapping[str, Json]:
        number = {"type": "integer", "minimum": self.least, "maximum": self.most}
        return {"anyOf": [number, {"type": "string", "pattern": _GROUPS}]}

    def __call__(self, found: object) -> int:
        if not isinstance(found, Scalar) or found.quoted or _WHOLE.fullmatch(found.text) is None:
            raise wrong(self.expected, found, self._instead(found))
        number = int(found.text)
        if number < self.least:
            raise wrong(self.expected, found)
        if number > self.most:
            raise wrong(f"at most {self.most}{' ' if self.what else ''}{self.what}", found)
        return number

    def _instead(self, found: object) -> str:
        """How to write what was probably meant: both readings of `4 MB`, the number in `4096.0`."""
        text = found.text if isinstance(found, Scalar) else ""
        numbers: list[Fraction] = []
        if _DECIMAL.fullmatch(text) is not None or _WHOLE.fullmatch(text) is not None:
            numbers = [Fraction(text)]
        elif _GROUPED.fullmatch(text) is not None:
            numbers = [Fraction(re.sub("[ ,']", "", text))]
        elif _BASED.fullmatch(text) is not None:
            numbers = [Fraction(int(text, base=0))]
        elif (match := _WITH_PREFIX.fullmatch(text)) is not None:
            power = " KMGT".index(match[2].upper() or " ")
            bases = {"bytes": [1024] if match[3] else [1000, 1024], "hertz": [] if match[3] else [1000]}
            numbers = [Fraction(match[1]) * base**power for base in bases.get(self.what, [])]
        fitting = {number.numerator: None for number in numbers if number.denominator == 1}  # in order, each once
        choices = [str(number) for number in fitting if self.least <= number <= self.most]
        return f"write {' or '.join(choices)}" if choices else ""


@dataclass(frozen=True, slots=True)
class RatioField:
    """An exact positive ratio, written as a whole number, a decimal or `"239/8"`."""

    what: str
    most: int
    examples: str

    @property
    def expected(self) -> str:
        return f"a number{f' of {self.what}' if self.what else ''} above 0, such as {self.examples}"

    @property
    def schema(self) -> Mapping[str, Json]:
        number = {"type": "number", "exclusiveMinimum": 0, "maximum": self.most}
        ratio = {"type": "string", "pattern": "^[1-9][0-9]{0,39}/[1-9][0-9]{0,39}$"}
        return {"anyOf": [number, ratio, {"type": "string", "pattern": _GROUPS}]}

    def __call__(self, found: object) -> Fraction:
        text = found.text if isinstance(found, Scalar) else ""
        if all(form.fullmatch(text) is None for form in (_WHOLE, _DECIMAL, _RATIO)) or Fraction(text) <= 0:
            per_second = text.endswith("B/s")
            raise wrong(self.expected, found, _PER_SECOND if per_second else "")
        number = Fraction(text)
        if number > self.most:
            raise wrong(f"at most {self.most}{' ' if self.what else ''}{self.what}", found)
        if number < Fraction(1, self.most):
            raise wrong(f"at least 1/{self.most}{' ' if self.what else ''}{self.what}", found)
        return number


@dataclass(frozen=True, slots=True)
class AmountField:
    """A number of something; zero is allowed, because it is written down."""

    what: str

    @property
    def expected(self) -> str:
        return f"a number of {self.what} of at least 0"

    @property
    def schema(self) -> Mapping[str, Json]:
        number = {"type": "number", "minimum": 0, "maximum": 10**9}
        return {"anyOf": [number, {"type": "string", "pattern": _GROUPS}]}

    def __call__(self, found: object) -> float:
        if (
            not isinstance(found, Scalar)
            or found.quoted
            or (_WHOLE.fullmatch(found.text) is None and _DECIMAL.fullmatch(found.text) is None)
            or Fraction(found.text) < 0
        ):
            raise wrong(self.expected, found)
        if Fraction(found.text) > 10**9:
            raise wrong(f"at most 1000000000 {self.what}", found)
        return float(found.text)


@dataclass(frozen=True, slots=True)
class EnergyField(AmountField):
    """Picojoules."""

    what: str = "picojoules"


@dataclass(frozen=True, slots=True)
class ChoiceField:
    """One of a few words."""

    options: tuple[StrEnum, ...]

    @property
    def expected(self) -> str:
        *most, last = self.options
        return f"{', '.join(most)} or {last}" if most else str(last)

    @property
    def schema(self) -> Mapping[str, Json]:
        return {"enum": [str(option) for option in self.options]}

    def __call__(self, found: object) -> StrEnum:
        text = found.text if isinstance(found, Scalar) else found
        for option in self.options:
            if option == text:
                return option
        hint = closest(text, self.options) if isinstance(text, str) else ""
        raise wrong(self.expected, found, hint.removeprefix("; "))


@dataclass(frozen=True, slots=True)
class SwitchField:
    """`true` or `false`; YAML's other spellings are refused, because readers disagree about them."""

    expected = "true or false"
    schema: ClassVar[Mapping[str, Json]] = {"type": "boolean"}

    def __call__(self, found: object) -> bool:
        if not isinstance(found, Scalar) or found.quoted or found.text not in ("true", "false"):
            meant = {"yes": "true", "on": "true", "1": "true", "no": "false", "off": "false", "0": "false"}
            text = found.text.lower() if isinstance(found, Scalar) else ""
            text = meant.get(text, text)
            raise wrong(self.expected, found, f"write {text}" if text in ("true", "false") else "")
        return found.text == "true"


@dataclass(frozen=True, slots=True)
class NameField:
    """A word that can stand in a report, a file name and a command line."""

    what: str = "a name"

    @property
    def expected(self) -> str:
        return f"{self.what}: at most 64 letters, digits, '.', '_' or '-', the first a letter or digit"

    @property
    def schema(self) -> Mapping[str, Json]:
        return {"type": ["string", "integer"], "pattern": f"^{_NAME}$"}

    def __call__(self, found: object) -> str:
        text = found.text if isinstance(found, Scalar) else found
        if not isinstance(text, str) or re.fullmatch(_NAME, text) is None:
            raise wrong(self.expected, found)
        return text


@dataclass(frozen=True, slots=True)
class LineField:
    """One line of text."""

    expected = "one line of at most 200 characters of text"
    schema: ClassVar[Mapping[str, Json]] = {"type": ["string", "number"], "minLength": 1, "pattern": "^[^\\n]*$"}

    def __call__(self, found: object) -> str:
        text = found.text.strip() if isinstance(found, Scalar) else ""
        if not text.isprintable() or not 0 < len(text) <= 200:
            raise wrong(self.expected, found)
        return text


class FieldReader(Protocol):
    """Takes what stands in the file; what would be right in words, and as JSON Schema."""

    @property
    def expected(self) -> str: ...

    @property
    def schema(self) -> Mapping[str, Json]: ...

    def __call__(self, found: object) -> object: ...


def wrong(expected: str, found: object, instead: str = "") -> PydanticCustomError:
    """What a reader raises; pydantic adds the place."""
    problem = f"expected {expected}, found {shown(found)}{'; ' if instead else ''}{instead}"
    return PydanticCustomError("wrong", "{problem}", {"problem": problem})


def shown(found: object) -> str:
    """A value of the file as a message shows it: numbers bare, text in quotes."""
    match found:
        case Scalar(text=text, quoted=False) if text in ("", "~", "null"):
            return "nothing"
        case Scalar(text=text, quoted=False) if _DECIMAL.fullmatch(text) or _WHOLE.fullmatch(text):
            return text
        case Scalar(text=text):
            return quoted(text)
        case str():
            return quoted(found)
        case dict():
            return "a mapping"
        case list():
            return "a list" if found else "an empty list"
        case _:
            return "nothing"


def closest(word: str, known: Iterable[str]) -> str:
    """The known word that was probably meant, as the end of a message; empty where none is near."""
    close = get_close_matches(word[:99], list(known), n=1)
    return f"; the closest is '{close[0]}'" if close else ""

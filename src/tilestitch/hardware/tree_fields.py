"""What fields of a tree's file may say besides those of every machine: sizes and rates with units, lists of names."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from tilestitch.base.json_values import Json
from tilestitch.hardware.fields import NameField, wrong
from tilestitch.hardware.yaml_tree import Scalar

MAX_BITS = 2**53
MAX_CLOCK_HZ = 10**12
MAX_BITS_PER_CYCLE = 2**24
_DECIMAL = r"(?:[0-9]{1,40}(?:\.[0-9]{1,15})?|[1-9][0-9]{0,2}(?:_[0-9]{3}){1,12})"
# of a rate, which a program may have printed
_ANY_DECIMAL = r"(?:[0-9]{1,40}(?:\.[0-9]{1,40})?(?:[eE][-+]?[0-9]{1,2})?|[1-9][0-9]{0,2}(?:_[0-9]{3}){1,5})"
_SIZE = rf"({_DECIMAL})(?: ?([KMGTP]i?)?(B|b))?"
_CLOCK = rf"({_DECIMAL})(?: ?([kMG]?)Hz)?"
_RATE = rf"({_ANY_DECIMAL}) ?([kKMGT]i?)?(B|b)/(cycle|s)"
_PREFIXES = {"": 1, **{f"{one}i": 1024**at for at, one in enumerate("KMGTP", 1)}, "k": 1000}
_PREFIXES |= {one: 1000**at for at, one in enumerate("KMGTP", 1)}


def _match(form: str, found: object) -> re.Match[str] | None:
    return re.fullmatch(form, found.text, re.ASCII) if isinstance(found, Scalar) else None


@dataclass(frozen=True, slots=True)
class SizeField:
    """A size in bits: a number of bytes, or one with B or b (bits) and a prefix: KiB is 1,024 B, KB is 1,000."""

    expected = "a size above 0 in bytes, such as 2048, 64 KiB or 16 b (bits)"
    schema: ClassVar[Mapping[str, Json]] = {
        "anyOf": [
            {"type": "integer", "minimum": 1, "maximum": MAX_BITS // 8},
            {"type": "string", "pattern": f"^{_SIZE}$"},
        ]
    }

    def __call__(self, found: object) -> int:
        match = _match(_SIZE, found)
        if match is None:
            raise wrong(self.expected, found)
        bits = Fraction(match[1]) * _PREFIXES[match[2] or ""] * (1 if match[3] == "b" else 8)
        if bits.denominator > 1:
            raise wrong(f"{self.expected}, a whole number of bits", found)
        if not 1 <= bits <= MAX_BITS:
            raise wrong(f"{self.expected}, at most 1 PiB", found)
        return int(bits)


@dataclass(frozen=True, slots=True)
class ClockField:
    """Cycles a second, in hertz or with a unit."""

    expected = "a clock above 0 in hertz, such as 200_000_000, 940 MHz or 1.05 GHz"
    schema: ClassVar[Mapping[str, Json]] = {
        "anyOf": [
            {"type": "integer", "minimum": 1, "maximum": MAX_CLOCK_HZ},
            {"type": "string", "pattern": f"^{_CLOCK}$"},
        ]
    }

    def __call__(self, found: object) -> int:
        match = _match(_CLOCK, found)
        if match is None:
            raise wrong(self.expected, found)
        hertz = Fraction(match[1]) * {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}[match[2] or ""]
        if hertz.denominator > 1 or not 1 <= hertz <= MAX_CLOCK_HZ:
            raise wrong(f"{self.expected}, a whole number of hertz and at most 1000 GHz", found)
        return int(hertz)


@dataclass(frozen=True, slots=True)
class Rate:
    """Bits in a cycle, or in a second."""

    bits: Fraction
    is_per_second: bool


@dataclass(frozen=True, slots=True)
class RateField:
    """Bits or bytes in a cycle or a second: any positive number."""

    expected = "a bandwidth above 0, such as 32 B/cycle, 12.5 b/cycle or 34.1 GB/s"
    schema: ClassVar[Mapping[str, Json]] = {"type": "string", "pattern": f"^{_RATE}$"}

    def __call__(self, found: object) -> Rate:
        match = _match(_RATE, found)
        if match is None or Fraction(match[1]) == 0:
            raise wrong(self.expected, found)
        bits = Fraction(match[1]) * _PREFIXES[match[2] or ""] * (1 if match[3] == "b" else 8)
        return Rate(bits, match[4] == "s")


@dataclass(frozen=True, slots=True)
class NamesField:
    """A list of names, each once."""

    what: str
    known: tuple[str, ...] = ()
    least: int = 0
    why: str = ""  # there has to be one

    @property
    def expected(self) -> str:
        return f"a list of {self.what}{': ' if self.known else ''}{', '.join(self.known)}, each once"

    @property
    def schema(self) -> Mapping[str, Json]:
        item: Mapping[str, Json] = {"enum": list(self.known)} if self.known else NameField().schema
        return {"type": "array", "items": item, "uniqueItems": True, "minItems": self.least}

    def __call__(self, found: object) -> tuple[str, ...]:
        if not isinstance(found, list):
            raise wrong(self.expected, found)
        if len(found) < self.least:
            raise wrong(f"at least one of the {self.what}", found, self.why)
        names = tuple(NameField()(one) for one in found)
        for name in names:
            if names.count(name) > 1 or (self.known and name not in self.known):
                raise wrong(self.expected, name)
        return names

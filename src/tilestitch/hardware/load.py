"""Machines from YAML: one page of text becomes an `Accelerator`, or one error that lists every mistake in it.

The file is read without YAML's guesses about types: each field reads the text that stands there, so `34.1` is exactly
341/10, and `1e6` or `yes` never turns into something else. What one field says is checked by the models below, what
several fields say together by `_contradictions`; neither stops at the first mistake.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from fractions import Fraction
from importlib.resources import files
from pathlib import Path
from typing import Annotated, NoReturn, TypeAlias, TypeVar, cast

import numpy as np
import yaml
from pydantic import BaseModel, ConfigDict, Discriminator, Field, PlainValidator, Tag, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from tilestitch.dtypes import DType
from tilestitch.errors import InputError
from tilestitch.hardware.accelerator import (
    Accelerator,
    Core,
    Dataflow,
    Level,
    Link,
    MatrixUnit,
    Memory,
    Setup,
    Sharing,
    VectorUnit,
)

MAX_FILE_BYTES = 256 * 1024
MAX_DEPTH = 16  # of nested mappings and lists; a machine needs four
MAX_CORES_PER_CLUSTER = 4096
MAX_CORES = 65536
MAX_MACS_PER_CYCLE = 2**24
MAX_TICKS_PER_CYCLE = 10**6  # the simulator counts time in whole ticks, each an exact fraction of a cycle
MAX_LINES = 100  # of one error message


def load_machine(name_or_path: str | Path) -> Accelerator:
    """The preset of that name, or else the machine in that file. Raises `InputError` for everything else.

    A `Path` is always a file, so a file called like a preset can be read too.
    """
    if isinstance(name_or_path, str) and name_or_path in preset_names():
        preset = files("tilestitch.hardware").joinpath("presets", f"{name_or_path}.yaml")
        return parse_machine(preset.read_text(encoding="utf-8"), f"{name_or_path}.yaml")
    return parse_machine(_file_text(name_or_path), str(name_or_path))


def preset_names() -> tuple[str, ...]:
    """The machines that come with the package, in alphabetical order."""
    found = files("tilestitch.hardware").joinpath("presets").iterdir()
    return tuple(sorted(entry.name.removesuffix(".yaml") for entry in found if entry.name.endswith(".yaml")))


def parse_machine(text: str, where: str) -> Accelerator:
    """The machine that a YAML text describes; `where` begins each line of an error, which lists every mistake."""
    if len(text) > MAX_FILE_BYTES:
        raise InputError(_too_long(where))
    mistakes: list[_Mistake] = []
    tree = _read_tree(text, where, mistakes)
    machine = None
    try:
        machine = _Machine.model_validate(tree)
    except ValidationError as error:
        mistakes += [_mistake(details) for details in error.errors(include_url=False)]
    mistakes += _contradictions(tree)
    if machine is None or mistakes:
        lines = [f"{where}: {mistake}" for mistake in mistakes[:MAX_LINES]]
        if len(mistakes) > MAX_LINES:
            lines.append(f"{where}: and {len(mistakes) - MAX_LINES} more mistakes")
        raise InputError("\n".join(lines))
    return _accelerator(machine)


@dataclass(frozen=True, slots=True)
class _Mistake:
    """One line of the error: the keys and list positions that lead to the mistake, and what would be right."""

    path: tuple[str | int, ...]
    problem: str

    def __str__(self) -> str:
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path)
        return f"{path.removeprefix('.')}: {self.problem}" if path else self.problem


def _file_text(path: str | Path) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        name = str(path)
        raise InputError(
            f"machine {_quoted(name)}: expected the name of a preset or the path of a file, found neither"
            f"{_closest(name, preset_names())}; known presets: {', '.join(preset_names())}; "
            "for a machine of your own write the path of its file, ending in .yaml"
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the path
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"machine {_quoted(str(path))}: expected a readable YAML file, found: {reason}") from None
    if len(data) > MAX_FILE_BYTES:
        raise InputError(_too_long(str(path)))
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{path}: line {line}: expected UTF-8 text, found the byte 0x{data[error.start]:02x}; save it as UTF-8"
        ) from None


def _too_long(where: str) -> str:
    return f"{where}: expected at most {MAX_FILE_BYTES} bytes, found more; a machine is about one page of YAML"


@dataclass(frozen=True, slots=True)
class _Scalar:
    """A value as it stands in the file: what it means is for the field to say."""

    text: str
    quoted: bool


_Tree: TypeAlias = "dict[str, _Tree] | list[_Tree] | _Scalar"


class _Refusal(yaml.MarkedYAMLError):
    """Good YAML that no machine needs."""


class _Loader(yaml.SafeLoader):
    """Refuses what can make a short file mean a huge or surprising one: anchors, aliases, tags, deep nesting."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent):
            self._refuse(f"an alias '*{event.anchor}'", "write the values themselves", event)
        if event.anchor is not None:
            self._refuse(f"an anchor '&{event.anchor}'", "remove it and write the values where they belong", event)
        if event.tag is not None:
            self._refuse(f"a tag '{event.tag.replace('tag:yaml.org,2002:', '!!')}'", "remove it", event)
        if self.depth > MAX_DEPTH:
            self._refuse(f"more than {MAX_DEPTH} levels of nesting", "a machine needs four", event)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def _refuse(self, found: str, instead: str, event: yaml.NodeEvent) -> NoReturn:
        raise _Refusal(None, None, f"expected plain values, found {_shortened(found)}; {instead}", event.start_mark)


def _read_tree(text: str, where: str, mistakes: list[_Mistake]) -> _Tree:
    """The values of the file; adds to `mistakes` what one document can still be read around."""
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        code = f"U+{ord(text[error.position]):04X}"
        raise InputError(f"{where}: line {line}: expected printable text, found the character {code}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}" if mark is not None else "somewhere"
        problem = error.problem or error.context or "not readable"
        if not isinstance(error, _Refusal):
            problem = f"not valid YAML: {problem}; check the indentation, colons, brackets and quotes there"
        raise InputError(f"{where}: {place}: {problem}") from None
    except (yaml.YAMLError, ValueError, OverflowError):  # PyYAML lets "\UFFFFFFFF" and %YAML 9...9 through to Python
        problem = "not valid YAML: a number in an escape or a directive is out of range"
        raise InputError(f"{where}: {problem}; write the text without escapes and directives") from None
    return _Scalar("", quoted=False) if node is None else _plain(node, (), mistakes)


def _plain(node: yaml.Node, path: tuple[str | int, ...], mistakes: list[_Mistake]) -> _Tree:
    if isinstance(node, yaml.ScalarNode):
        return _Scalar(node.value, quoted=node.style is not None)
    if isinstance(node, yaml.SequenceNode):
        return [_plain(child, (*path, index), mistakes) for index, child in enumerate(node.value)]
    tree: dict[str, _Tree] = {}
    lines: dict[str, int] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        key = key_node.value
        if not isinstance(key_node, yaml.ScalarNode) or not key.isprintable() or not 0 < len(key) <= 64:
            found = _quoted(key) if isinstance(key, str) else "a list or a mapping"
            mistakes.append(
                _Mistake(path, f"expected a word of at most 64 characters as the key in line {line}, found {found}")
            )
        elif key in tree:
            mistakes.append(_Mistake((*path, key), f"written twice, in lines {lines[key]} and {line}; keep one"))
        else:
            lines[key] = line
            tree[key] = _plain(value_node, (*path, key), mistakes)
    return tree


_WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,39}|[1-9][0-9]{0,2}(?:_[0-9]{3}){1,12})")
_DECIMAL = re.compile(r"[-+]?(?:(?:0|[1-9][0-9]{0,39})(?:\.[0-9]{0,39})?|\.[0-9]{1,39})(?:[eE][-+]?[0-9]{1,2})?")
_RATIO = re.compile(r"[1-9][0-9]{0,39}/[1-9][0-9]{0,39}")
_WITH_PREFIX = re.compile(r"([0-9]{1,39}(?:\.[0-9]{1,39})?) ?([kKMGT]?)(i?)(B|Hz|)")
_GROUPED = re.compile(r"[1-9][0-9]{0,2}(?:[ ,'][0-9]{3}){1,12}")
_BASED = re.compile(r"0[xX][0-9a-fA-F]{1,16}|0b[01]{1,64}|0o[0-7]{1,22}")


@dataclass(frozen=True, slots=True)
class _WholeField:
    """A whole number of something, within limits."""

    what: str
    least: int
    most: int

    @property
    def expected(self) -> str:
        what = f" of {self.what}" if self.what else ""
        return f"a whole number{what}{' above 0' if self.least == 1 else f' of at least {self.least}'}"

    def __call__(self, found: object) -> int:
        if not isinstance(found, _Scalar) or found.quoted or _WHOLE.fullmatch(found.text) is None:
            raise _wrong(self.expected, found, self._instead(found))
        number = int(found.text)
        if number < self.least:
            raise _wrong(self.expected, found)
        if number > self.most:
            raise _wrong(f"at most {self.most}{' ' if self.what else ''}{self.what}", found)
        return number

    def _instead(self, found: object) -> str:
        """How to write what was probably meant: both readings of `4 MB`, the number in `4096.0`."""
        text = found.text if isinstance(found, _Scalar) else ""
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
class _RatioField:
    """An exact positive ratio, written as a whole number, a decimal or `"239/8"`."""

    what: str
    most: int
    examples: str

    @property
    def expected(self) -> str:
        return f"a number{f' of {self.what}' if self.what else ''} above 0, such as {self.examples}"

    def __call__(self, found: object) -> Fraction:
        text = found.text if isinstance(found, _Scalar) else ""
        if all(form.fullmatch(text) is None for form in (_WHOLE, _DECIMAL, _RATIO)) or Fraction(text) <= 0:
            per_second = text.endswith("B/s")
            raise _wrong(self.expected, found, "divide the bytes per second by clock_hz" if per_second else "")
        number = Fraction(text)
        if number > self.most:
            raise _wrong(f"at most {self.most}{' ' if self.what else ''}{self.what}", found)
        if number < Fraction(1, self.most):
            raise _wrong(f"at least 1/{self.most}{' ' if self.what else ''}{self.what}", found)
        return number


@dataclass(frozen=True, slots=True)
class _EnergyField:
    """Picojoules; zero is allowed, because it is written down."""

    expected = "a number of picojoules of at least 0"

    def __call__(self, found: object) -> float:
        if (
            not isinstance(found, _Scalar)
            or found.quoted
            or (_WHOLE.fullmatch(found.text) is None and _DECIMAL.fullmatch(found.text) is None)
            or Fraction(found.text) < 0
        ):
            raise _wrong(self.expected, found)
        if Fraction(found.text) > 10**9:
            raise _wrong("at most 1000000000 picojoules", found)
        return float(found.text)


@dataclass(frozen=True, slots=True)
class _ChoiceField:
    """One of a few words."""

    options: tuple[StrEnum, ...]

    @property
    def expected(self) -> str:
        *most, last = self.options
        return f"{', '.join(most)} or {last}" if most else str(last)

    def __call__(self, found: object) -> StrEnum:
        text = found.text if isinstance(found, _Scalar) else found
        for option in self.options:
            if option == text:
                return option
        hint = _closest(text, self.options) if isinstance(text, str) else ""
        raise _wrong(self.expected, found, hint.removeprefix("; "))


@dataclass(frozen=True, slots=True)
class _SwitchField:
    """`true` or `false`; YAML's other spellings are refused, because readers disagree about them."""

    expected = "true or false"

    def __call__(self, found: object) -> bool:
        if not isinstance(found, _Scalar) or found.quoted or found.text not in ("true", "false"):
            meant = {"yes": "true", "on": "true", "1": "true", "no": "false", "off": "false", "0": "false"}
            text = found.text.lower() if isinstance(found, _Scalar) else ""
            text = meant.get(text, text)
            raise _wrong(self.expected, found, f"write {text}" if text in ("true", "false") else "")
        return found.text == "true"


@dataclass(frozen=True, slots=True)
class _NameField:
    """A word that can stand in a report, a file name and a command line."""

    what: str = "a name"

    @property
    def expected(self) -> str:
        return f"{self.what}: at most 64 letters, digits, '.', '_' or '-', the first a letter or digit"

    def __call__(self, found: object) -> str:
        text = found.text if isinstance(found, _Scalar) else found
        if not isinstance(text, str) or re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", text) is None:
            raise _wrong(self.expected, found)
        return text


@dataclass(frozen=True, slots=True)
class _LineField:
    """One line of text."""

    expected = "one line of at most 200 characters of text"

    def __call__(self, found: object) -> str:
        text = found.text.strip() if isinstance(found, _Scalar) else ""
        if not text.isprintable() or not 0 < len(text) <= 200:
            raise _wrong(self.expected, found)
        return text


_Field: TypeAlias = _WholeField | _RatioField | _EnergyField | _ChoiceField | _SwitchField | _NameField | _LineField


def _wrong(expected: str, found: object, instead: str = "") -> PydanticCustomError:
    problem = f"expected {expected}, found {_shown(found)}{'; ' if instead else ''}{instead}"
    return PydanticCustomError("wrong", "{problem}", {"problem": problem})


def _shown(found: object) -> str:
    """A value of the file as a message shows it: numbers bare, text in quotes."""
    match found:
        case _Scalar(text=text, quoted=False) if text in ("", "~", "null"):
            return "nothing"
        case _Scalar(text=text, quoted=False) if _DECIMAL.fullmatch(text) or _WHOLE.fullmatch(text):
            return text
        case _Scalar(text=text):
            return _quoted(text)
        case str():
            return _quoted(found)
        case dict():
            return "a mapping"
        case list():
            return "a list" if found else "an empty list"
        case _:
            return "nothing"


def _quoted(text: str) -> str:
    return _shortened(repr(text[:99]))


def _shortened(text: str) -> str:
    return text if len(text) <= 50 else f"{text[:40]}..."


def _closest(word: str, known: Iterable[str]) -> str:
    close = get_close_matches(word[:99], list(known), n=1)
    return f"; the closest is '{close[0]}'" if close else ""


class _UnitKind(StrEnum):
    """What `kind` of a unit may say."""

    MATRIX = "matrix"
    VECTOR = "vector"


_CLOCK_HZ = _WholeField("hertz", 1, 10**12)
_CLUSTERS = _WholeField("clusters", 1, 4096)
_CORE_COUNT = _WholeField("cores", 1, MAX_CORES_PER_CLUSTER)
_EXTENT = _WholeField("", 1, MAX_MACS_PER_CYCLE)
_LANES = _WholeField("lanes", 1, 65536)
_SIZE_BYTES = _WholeField("bytes", 1, 2**50)
_CHUNK_BYTES = _WholeField("bytes", 1, 2**30)
_SETUP_CYCLES = _WholeField("cycles", 0, 10**9)
_BANDWIDTH = _RatioField("bytes per cycle", 10**6, '34, 29.875 or "239/8"')
_RATE = _RatioField("", 1024, '1, 0.5 or "1/3"')
_DTYPE = _ChoiceField(tuple(DType))
_KIND = _ChoiceField(tuple(_UnitKind))

_Energy: TypeAlias = Annotated[float, PlainValidator(_EnergyField())]
_Name: TypeAlias = Annotated[str, PlainValidator(_NameField())]
_Extent: TypeAlias = Annotated[int, PlainValidator(_EXTENT)]
_ElementType: TypeAlias = Annotated[DType, PlainValidator(_DTYPE)]
_SetupCycles: TypeAlias = Annotated[int, PlainValidator(_SETUP_CYCLES)]
_Bandwidth: TypeAlias = Annotated[Fraction, PlainValidator(_BANDWIDTH)]
_Switch: TypeAlias = Annotated[bool, PlainValidator(_SwitchField())]


class _Model(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, arbitrary_types_allowed=True)


class _CoreGroup(_Model):
    count: Annotated[int, PlainValidator(_CORE_COUNT)]
    vector: Annotated[str, PlainValidator(_NameField("the name of a vector unit"))]
    matrix: Annotated[str, PlainValidator(_NameField("the name of a matrix unit"))] | None = None


class _Matrix(_Model):
    kind: Annotated[_UnitKind, PlainValidator(_KIND)]
    m: _Extent
    k: _Extent
    n: _Extent
    dataflow: Annotated[Dataflow, PlainValidator(_ChoiceField(tuple(Dataflow)))]
    systolic: _Switch = False
    overlapped_folds: _Switch = True
    rates: dict[_ElementType, Annotated[Fraction, PlainValidator(_RATE)]]
    mac_pj: _Energy


class _Vector(_Model):
    kind: Annotated[_UnitKind, PlainValidator(_KIND)]
    lanes: dict[_ElementType, Annotated[int, PlainValidator(_LANES)]]
    operation_pj: _Energy


class _Memory(_Model):
    per: Sharing
    size_bytes: Annotated[int, PlainValidator(_SIZE_BYTES)]
    bandwidth_bytes_per_cycle: _Bandwidth
    burst_bytes: Annotated[int, PlainValidator(_CHUNK_BYTES)]
    read_pj_per_byte: _Energy
    write_pj_per_byte: _Energy


class _OuterMemory(_Memory):
    per: Annotated[Sharing, PlainValidator(_ChoiceField((Sharing.CLUSTER, Sharing.CHIP)))]


class _CoreMemory(_Memory):
    per: Annotated[Sharing, PlainValidator(_ChoiceField((Sharing.CORE,)))]


class _Memories(_Model):
    ddr: _OuterMemory
    gb: _OuterMemory | None = None
    lb: _CoreMemory | None = None
    weights: _CoreMemory | None = None
    accumulators: _CoreMemory | None = None


class _Link(_Model):
    bandwidth_bytes_per_cycle: _Bandwidth
    pj_per_byte: _Energy


class _Setup(_Model):
    dma_cycles: _SetupCycles
    mover_cycles: _SetupCycles
    compute_cycles: _SetupCycles
    launch_cycles: _SetupCycles


def _kind(tree: object) -> str | None:
    kind = tree.get("kind") if isinstance(tree, dict) else None
    return kind.text if isinstance(kind, _Scalar) and kind.text in tuple(_UnitKind) else None


_Unit: TypeAlias = Annotated[
    Annotated[_Matrix, Tag(_UnitKind.MATRIX.value)] | Annotated[_Vector, Tag(_UnitKind.VECTOR.value)],
    Discriminator(_kind),
]


class _Machine(_Model):
    name: _Name
    description: Annotated[str, PlainValidator(_LineField())]
    clock_hz: Annotated[int, PlainValidator(_CLOCK_HZ)]
    clusters: Annotated[int, PlainValidator(_CLUSTERS)]
    cores: Annotated[list[_CoreGroup], Field(min_length=1)]
    units: dict[_Name, _Unit]
    memories: _Memories
    link: _Link
    setup: _Setup
    granule_bytes: Annotated[int, PlainValidator(_CHUNK_BYTES)] = 4096


_MODELS: dict[tuple[str, ...], type[_Model]] = {  # by the keys that lead there; "*" is any name or position
    (): _Machine,
    ("cores", "*"): _CoreGroup,
    ("units", "*", "matrix"): _Matrix,
    ("units", "*", "vector"): _Vector,
    ("memories",): _Memories,
    ("memories", "ddr"): _OuterMemory,
    ("memories", "gb"): _OuterMemory,
    ("memories", "lb"): _CoreMemory,
    ("memories", "weights"): _CoreMemory,
    ("memories", "accumulators"): _CoreMemory,
    ("link",): _Link,
    ("setup",): _Setup,
}


def _model_at(location: tuple[str | int, ...]) -> type[_Model] | None:
    keys = tuple(str(part) for part in location)
    if keys[:1] in (("cores",), ("units",)) and len(keys) > 1:
        keys = (keys[0], "*", *keys[2:])
    return _MODELS.get(keys)


def _mistake(details: ErrorDetails) -> _Mistake:
    """Pydantic's error in our words."""
    location = details["loc"]
    path = _path(location)
    found = details["input"]
    match details["type"]:
        case "wrong":
            return _Mistake(path, details["msg"])
        case "extra_forbidden":
            return _Mistake(path, _unknown_key(str(location[-1]), _model_at(location[:-1])))
        case "missing":
            return _Mistake(path, f"expected {_expected(location)}, found nothing")
        case "union_tag_not_found" if isinstance(found, dict):
            return _Mistake((*path, "kind"), f"expected {_KIND.expected}, found {_shown(found.get('kind'))}")
        case _:
            return _Mistake(path, f"expected {_expected(location)}, found {_shown(found)}")


def _path(location: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Where that is in the file: pydantic inserts the kind of a unit after its name, and marks bad keys."""
    if location[0:1] == ("units",) and len(location) > 3:
        location = location[:2] + location[3:]
    return location[:-1] if location[-1:] == ("[key]",) else location


def _unknown_key(key: str, model: type[_Model] | None) -> str:
    known = list(model.model_fields) if model is not None else []
    close = get_close_matches(key, known, n=len(known) or 1)
    others = [name for name in known if name not in close]
    return f"unknown key; known{', closest first' if close else ''}: {', '.join(close + others)}"


def _expected(location: tuple[str | int, ...]) -> str:
    """What belongs at a place of the file, for a place where something else or nothing stands."""
    model = _model_at(location)
    if model is not None:
        keys = f"a mapping with the keys {', '.join(model.model_fields)}"
        return f"{keys} (every network starts in DDR)" if location == ("memories", "ddr") else keys
    if location == ("cores",):
        return "a list with at least one group of cores, such as [{count: 8, matrix: mme, vector: vme}]"
    if location == ("units",):
        return "a mapping from the names of units to what they are"
    if location[0] == "units" and len(location) == 2:
        return f"a mapping whose kind is {_KIND.expected}"
    key = str(location[-1])
    if key in ("rates", "lanes"):
        return f"a mapping from element types to numbers, such as {{float16: {16 if key == 'lanes' else 1}}}"
    parent = _model_at(location[:-1])
    assert parent is not None, f"the models know no place {location}"
    readers = [piece.func for piece in parent.model_fields[key].metadata if isinstance(piece, PlainValidator)]
    return cast("_Field", readers[0]).expected


def _contradictions(tree: _Tree) -> list[_Mistake]:
    """Mistakes across fields, as far as the fields that they need can be read."""
    return [*_core_mistakes(tree), *_unit_mistakes(tree), *_memory_mistakes(tree), *_bandwidth_mistakes(tree)]


def _part(tree: _Tree, *path: str) -> Mapping[str, _Tree]:
    """The mapping at `path`, empty where there is none."""
    for key in path:
        tree = tree.get(key, {}) if isinstance(tree, dict) else {}
    return tree if isinstance(tree, dict) else {}


def _number(tree: Mapping[str, _Tree], key: str, field: _WholeField) -> int | None:
    try:
        return field(tree.get(key))
    except PydanticCustomError:
        return None


def _core_mistakes(tree: _Tree) -> Iterator[_Mistake]:
    groups = _part(tree).get("cores")
    units = _part(tree, "units")
    cores = 0
    for index, group in enumerate(groups if isinstance(groups, list) else []):
        if not isinstance(group, dict):
            continue
        cores += _number(group, "count", _CORE_COUNT) or 0
        for kind in _UnitKind:
            name = group.get(kind)
            if not units or not isinstance(name, _Scalar):
                continue
            known = [unit for unit, fields in units.items() if _kind(fields) == kind]
            problem = f"expected a unit of kind {kind}, found {_shown(name)}"
            if name.text not in units:
                hint = _closest(name.text, known) or f"; known: {', '.join(known) or 'none'}"
                yield _Mistake(("cores", index, kind), f"{problem}, which units does not define{hint}")
            elif (other := _kind(units[name.text])) not in (kind, None):
                yield _Mistake(
                    ("cores", index, kind), f"{problem} of kind {other}; known: {', '.join(known) or 'none'}"
                )
    if cores > MAX_CORES_PER_CLUSTER:
        yield _Mistake(("cores",), f"expected at most {MAX_CORES_PER_CLUSTER} cores per cluster, found {cores}")
    clusters = _number(_part(tree), "clusters", _CLUSTERS) or 0
    if clusters * cores > MAX_CORES:
        product = f"{clusters} clusters x {cores} cores = {clusters * cores}"
        yield _Mistake(("clusters",), f"expected at most {MAX_CORES} cores in all, found {product}")


def _unit_mistakes(tree: _Tree) -> Iterator[_Mistake]:
    for name, fields in _part(tree, "units").items():
        match _kind(fields):
            case _UnitKind.MATRIX:
                speeds = "rates"
                m, k, n = (_number(_part(fields), key, _EXTENT) or 0 for key in ("m", "k", "n"))
                if m * k * n > MAX_MACS_PER_CYCLE:
                    limit = f"at most {MAX_MACS_PER_CYCLE} multiply-accumulates a cycle"
                    product = f"m x k x n = {m} x {k} x {n} = {m * k * n}"
                    yield _Mistake(("units", name), f"expected {limit}, found {product}")
            case _UnitKind.VECTOR:
                speeds = "lanes"
            case _:
                continue
        types = _part(fields).get(speeds)
        if isinstance(types, dict) and DType.FLOAT16 not in types:
            found = ", ".join(key for key in types if key in tuple(DType)) or "none"
            yield _Mistake(
                ("units", name, speeds), f"expected {speeds} for float16, in which networks run, found {found}"
            )


def _memory_mistakes(tree: _Tree) -> Iterator[_Mistake]:
    memories = _part(tree, "memories")
    for level in (Level.WEIGHTS, Level.ACCUMULATORS):
        if level in memories and Level.LB not in memories:
            yield _Mistake(
                ("memories", level), f"expected memories.lb beside it, found none; add lb or leave {level} out"
            )
    ddr, gb = (_part(memories.get(level, {})).get("per") for level in (Level.DDR, Level.GB))
    apart = isinstance(ddr, _Scalar) and ddr.text == Sharing.CLUSTER
    if apart and isinstance(gb, _Scalar) and gb.text == Sharing.CHIP:
        yield _Mistake(
            ("memories", "gb", "per"),
            "expected cluster, because memories.ddr is per cluster, found 'chip'; write cluster, or share ddr too",
        )


def _bandwidth_mistakes(tree: _Tree) -> Iterator[_Mistake]:
    """Bandwidths that leave the simulator no tick short enough for all of them and long enough to count.

    A byte at p/q bytes per cycle takes q/p cycles, so the longest tick that divides every such time is 1/LCM(p).
    """
    key = "bandwidth_bytes_per_cycle"
    places = [("memories", level) for level in Level] + [("link",)]
    bandwidths: dict[tuple[str, ...], Fraction] = {}
    for place in places:
        try:
            bandwidths[place] = _BANDWIDTH(_part(tree, *place).get(key))
        except PydanticCustomError:
            continue  # absent, or reported already
    ticks = _ticks_per_cycle(bandwidths.values())
    kept = dict(bandwidths)
    while _ticks_per_cycle(kept.values()) > MAX_TICKS_PER_CYCLE:
        # without the oddest one the rest agree best; the later one where two are alike
        del kept[min(reversed(kept), key=lambda place: _ticks_per_cycle(v for p, v in kept.items() if p != place))]
    for place, found in bandwidths.items():
        if place not in kept:
            kept[place] = _nearest(found, _ticks_per_cycle(kept.values()))
            yield _Mistake(
                (*place, key),
                f"expected a bandwidth that shares a tick of at least 1/{MAX_TICKS_PER_CYCLE} cycle with the others, "
                f"found {_shown(_part(tree, *place).get(key))}, which needs 1/{ticks} cycle; "
                f"round it, for example to {kept[place]}, or round the others",
            )


def _ticks_per_cycle(bandwidths: Iterable[Fraction]) -> int:
    return math.lcm(*(bandwidth.numerator for bandwidth in bandwidths))


def _nearest(bandwidth: Fraction, ticks: int) -> Fraction:
    """The ratio nearest to `bandwidth`, with a denominator up to 8, that keeps the common tick long enough."""
    numerators = np.arange(1, MAX_TICKS_PER_CYCLE + 1)
    numerators = numerators[np.lcm(numerators, ticks) <= MAX_TICKS_PER_CYCLE]
    candidates: list[Fraction] = []
    for denominator in range(1, 9):
        above = int(np.searchsorted(numerators, math.ceil(bandwidth * denominator)))
        for index in (above - 1, above):
            index = min(max(index, 0), len(numerators) - 1)
            candidates.append(Fraction(int(numerators[index]), denominator))
    return min(candidates, key=lambda candidate: (abs(candidate - bandwidth), candidate.denominator))


_Number = TypeVar("_Number", int, Fraction)


def _accelerator(machine: _Machine) -> Accelerator:
    units = {name: _unit(name, unit) for name, unit in machine.units.items()}
    cores: list[Core] = []
    for group in machine.cores:
        matrix = units[group.matrix] if group.matrix is not None else None
        vector = units[group.vector]
        assert isinstance(vector, VectorUnit), "checked with the file"
        assert not isinstance(matrix, VectorUnit), "checked with the file"
        cores += [Core(matrix, vector)] * group.count
    levels = [(level, getattr(machine.memories, level)) for level in Level]
    return Accelerator(
        name=machine.name,
        description=machine.description,
        clock_hz=machine.clock_hz,
        clusters=machine.clusters,
        cores=tuple(cores),
        memories=tuple(_memory(level, memory) for level, memory in levels if memory is not None),
        link=Link(machine.link.bandwidth_bytes_per_cycle, machine.link.pj_per_byte),
        setup=Setup(
            dma_cycles=machine.setup.dma_cycles,
            mover_cycles=machine.setup.mover_cycles,
            compute_cycles=machine.setup.compute_cycles,
            launch_cycles=machine.setup.launch_cycles,
        ),
        granule_bytes=machine.granule_bytes,
    )


def _unit(name: str, unit: _Matrix | _Vector) -> MatrixUnit | VectorUnit:
    match unit:
        case _Matrix():
            return MatrixUnit(
                name=name,
                m=unit.m,
                k=unit.k,
                n=unit.n,
                dataflow=unit.dataflow,
                systolic=unit.systolic,
                overlapped_folds=unit.overlapped_folds,
                rates=_by_type(unit.rates),
                mac_pj=unit.mac_pj,
            )
        case _Vector():
            return VectorUnit(name, _by_type(unit.lanes), unit.operation_pj)


def _by_type(numbers: Mapping[DType, _Number]) -> tuple[tuple[DType, _Number], ...]:
    return tuple((dtype, numbers[dtype]) for dtype in DType if dtype in numbers)


def _memory(level: Level, memory: _OuterMemory | _CoreMemory) -> Memory:
    return Memory(
        level=level,
        sharing=memory.per,
        size_bytes=memory.size_bytes,
        bandwidth_bytes_per_cycle=memory.bandwidth_bytes_per_cycle,
        burst_bytes=memory.burst_bytes,
        read_pj_per_byte=memory.read_pj_per_byte,
        write_pj_per_byte=memory.write_pj_per_byte,
    )

"""Chains and graphs of products that a user writes as one line."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tilestitch.base.errors import InputError
from tilestitch.commands.map.named_chain import NamedChain, backwards
from tilestitch.formats.einsum import einsum_nest
from tilestitch.ir.loop_nest import LoopNest
from tilestitch.mapping.fused.chain import Link, Reading

_SOFTMAX = re.compile(r"softmax\(\s*([A-Za-z_]\w*)(\[[^\]]*\])\s*\)")
_ARRAY = re.compile(r"([A-Za-z_]\w*)\s*\[")
_ACCESS = r"[A-Za-z_]\w*\s*\[[^\]]*\]"
_MEETING = re.compile(rf"\(\s*({_ACCESS}(?:\s*\*\s*{_ACCESS})+|{_ACCESS}(?:\s*\+\s*{_ACCESS})+)\s*\)")
_ADDED = re.compile(rf"(?<=[\])])\s*\+\s*({_ACCESS})\s*$")


def einsum_chain(text: str) -> NamedChain:
    """The chain that one line of several products describes, such as `S[m,n] += Q[m,d] * K[n,d]; O[m,e] += ...; m=8`.

    `softmax(S[m,n])` needs all of the last index at once, and of `(G[m,f] * U[m,f])` the elements are multiplied before
    they are read, or added. What stands behind a product and a `+` is added to its result. A result may be read by
    several lines. Raises `InputError` for lines that do not all lead to the last.
    """
    parts = [part.strip() for part in text.split(";")]
    lines, facts = [part for part in parts if "+=" in part], [part for part in parts if "+=" not in part]
    if len(facts) != 1 or len(lines) < 2 or parts[-1] != facts[0]:
        raise InputError(
            "einsum: expected products one after another and then the extents of all loops, each part behind a ';', "
            "such as 'S[m,n] += Q[m,d] * K[n,d]; O[m,e] += S[m,n] * V[n,e]; m=8 n=8 d=4 e=4'"
        )
    rows = [{found.group(1) for found in _SOFTMAX.finditer(line)} for line in lines]
    every = [_line(_SOFTMAX.sub(r"\1\2", line), facts[0]) for line in lines]
    found = _Found()
    for number, line in enumerate(every):
        for name in sorted(rows[number] - set(found.made)):
            raise InputError(f"einsum: softmax({name}) is not of a result that a line before it makes")
        _take(found, number, line, rows[number])
        name = line.nest.write.name
        if name in found.made and not found.uses[found.made[name]]:
            _expect_read(every, found.made[name])
        found.made[name] = number
        found.uses.append([])
        found.links.append(Link(0))
        found.between.append(None)
    count = len(every) - 1
    for number, uses in enumerate(found.uses[:count]):
        if all(one.read == len(every[one.reader].nest.reads) for one in uses):
            _expect_read(every, number)
    last = [uses[-1] for uses in found.uses[:count]]
    links = zip(found.links, last, strict=False)
    more = tuple(one for uses in found.uses for one in uses[:-1])
    readers = tuple(one.reader for one in last)
    return NamedChain(
        tuple(line.nest.name for line in every),
        tuple(_named_as_it_meets(line) for line in every),
        tuple(replace(link, read=one.read, is_factor=one.is_factor) for link, one in links),
        tuple(kinds or () for kinds in found.between[:count]),
        readers=() if not more and readers == tuple(range(1, count + 1)) else readers,
        more=more,
    )


@dataclass(frozen=True, slots=True)
class _Line:
    """One line: its product, what meets by the first of it and whether it is multiplied, and what is added."""

    text: str
    nest: LoopNest
    meeting: Mapping[str, tuple[tuple[str, ...], bool]]
    added: tuple[str, ...]


@dataclass(slots=True)
class _Found:
    """What lines make and read: the results that may be read, and of each line who reads its result and how."""

    made: dict[str, int] = field(default_factory=dict)
    uses: list[list[Reading]] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    between: list[tuple[str, ...] | None] = field(default_factory=list)


def _line(text: str, facts: str) -> _Line:
    added: list[str] = []
    product = text
    while (last := _ADDED.search(product)) is not None:
        product = product[: last.start()].rstrip()
        added.append(last.group(1))
    written = product.split("+=")[0].strip()
    for one in added:
        if _indices(one) != _indices(written):
            raise InputError(f"einsum: {one} is added to {written}; expected the same indices")
    single = _MEETING.sub(lambda found: _arrays_in(found.group(1))[0][1], product)
    nest = einsum_nest(f"{single}; {_facts_of(single, facts)}", product.split("[")[0].strip())
    return _Line(text, nest, _meeting_in(product), tuple(_arrays_in(one)[0][0] for one in reversed(added)))


def _take(found: _Found, number: int, line: _Line, rows: Collection[str]) -> None:
    """Note what a line reads of those before it, with softmax of some."""
    for at, array in enumerate(line.nest.reads):
        names, is_factor = line.meeting.get(array.name, ((array.name,), False))
        for name in names if len(names) > 1 else [name for name in names if name in found.made]:
            if name not in found.made:
                raise InputError(
                    f"einsum: {' and '.join(names)} meet in {line.text!r}, but no line before it makes {name}"
                )
            _note(found, Reading(found.made[name], number, at, is_factor), line, ("softmax",) if name in rows else ())
    for name in line.added:
        if name not in found.made:
            raise InputError(
                f"einsum: {name} is added in {line.text!r}, but no line before it makes it; leave out what comes from "
                "outside, as it costs nothing"
            )
        _note(found, Reading(found.made[name], number, len(line.nest.reads)), line, ())


def _note(found: _Found, reading: Reading, line: _Line, kinds: tuple[str, ...]) -> None:
    link, array = reading.link, line.nest.operands[reading.read]
    is_added = reading.read == len(line.nest.reads)
    name = next(name for name, number in found.made.items() if number == link)
    if reading in found.uses[link]:
        raise InputError(f"einsum: {line.text!r} adds {name} twice; expected once")
    if found.between[link] not in (None, kinds):
        raise InputError(f"einsum: softmax({name}) is in some lines that read {name}; expected it in all or none")
    found.between[link] = kinds
    found.uses[link].append(reading)
    whole = found.links[link].whole | frozenset({len(array.axes) - 1} if kinds else ())
    its = Link(reading.read, whole, len(kinds))
    found.links[link] = its if is_added else backwards(its, line.nest)


def _named_as_it_meets(line: _Line) -> LoopNest:
    """A nest that reads what meets by a name of all its parts, such as `(G*U)`."""
    names = {first: ("*" if is_factor else "+").join(parts) for first, (parts, is_factor) in line.meeting.items()}
    reads = [replace(one, name=f"({names[one.name]})") if one.name in names else one for one in line.nest.reads]
    return replace(line.nest, reads=tuple(reads))


def _expect_read(lines: Sequence[_Line], number: int) -> None:
    raise InputError(
        f"einsum: what {lines[number].text!r} makes is read 0 times behind it; expected one line at least that reads it"
    )


def _arrays_in(text: str) -> list[tuple[str, str]]:
    """The arrays in a part of a line: name, and the whole access."""
    return [(found.split("[")[0].strip(), found) for found in re.findall(_ACCESS, text)]


def _meeting_in(line: str) -> dict[str, tuple[tuple[str, ...], bool]]:
    """By the first of results that meet all of them, and whether they are multiplied.

    Raises `InputError` where their indices are not the same.
    """
    found: dict[str, tuple[tuple[str, ...], bool]] = {}
    for one in _MEETING.finditer(line):
        arrays = _arrays_in(one.group(1))
        if len({_indices(access) for _, access in arrays}) > 1:
            raise InputError(f"einsum: {one.group(0)}: what meets has the same indices everywhere")
        names = tuple(name for name, _ in arrays)
        if len(set(names)) < len(names):
            raise InputError(f"einsum: {one.group(0)}: expected every array once")
        found[names[0]] = names, "*" in re.sub(r"\[[^\]]*\]", "", one.group(1))
    return found


def _indices(access: str) -> str:
    return re.sub(r"\s", "", access[access.index("[") :])


def _facts_of(line: str, facts: str) -> str:
    """What is said of the loops and arrays of one line."""
    arrays = set(_ARRAY.findall(line))
    loops = set(re.findall(r"[A-Za-z_]\w*", " ".join(re.findall(r"\[([^\]]*)\]", line))))
    return " ".join(one for one in facts.split() if re.split(r"[=\[:]", one)[0] in (loops if "=" in one else arrays))

"""Lines of a kernel as they are written: names, nested loops, and what was computed before."""

import keyword
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

WIDTH = 110  # of a line, at most, before what closes it
LINE = 120  # characters of a line
_INDENT = "    "
# A parameter of every kernel that is always 0, which its compiler does not know. Lanes begin there, because ptxas from
# 12.8 to 13.0 loses the constant of some packed additions of 16 bits (Triton issue 11581), and LLVM packs numbers
# that it knows to be small. Kernels are also shorter by it.
ORIGIN = "origin"


@dataclass(frozen=True, slots=True)
class Value:
    """A variable of a kernel with what it holds: `kind` is "float" (32 bits), "int" or "bool"."""

    name: str
    kind: str
    axes: frozenset[int] = frozenset()
    depth: int = 0


@dataclass(slots=True)
class _Scope:
    """The body of the kernel or of a loop, as far as it is written."""

    lines: list[str] = field(default_factory=list)
    known: dict[object, Value] = field(default_factory=dict)


class Code:
    """The body of one kernel. What does not depend on a loop is written before the loop."""

    def __init__(self) -> None:
        self._scopes = [_Scope()]
        self._used: dict[str, int] = {}

    @property
    def depth(self) -> int:
        """Of the loop that is being written; 0 outside all."""
        return len(self._scopes) - 1

    @property
    def lines(self) -> list[str]:
        assert self.depth == 0, "a loop is still open"
        return [_INDENT + line for line in _used_lines(self._scopes[0].lines)]

    def name(self, wish: str) -> str:
        """A name like the one that is wished for, which nothing else has."""
        clean = identifier(wish)
        self._used[clean] = self._used.get(clean, 0) + 1
        if self._used[clean] == 1:
            return clean
        return self.name(f"{clean}_{self._used[clean]}")

    def line(self, text: str, depth: int | None = None) -> None:
        self._scopes[self.depth if depth is None else depth].lines.append(text)

    def let(self, wish: str, text: str, depth: int | None = None) -> str:
        """Name a value; `depth` is that of the loops it depends on, by default all that are open."""
        name = self.name(wish)
        room = LINE - len(_INDENT) * (1 + (self.depth if depth is None else depth))
        while len(f"{name} = {text}") > room and (part := _longest_part(text, room - len("step_99 = "))):
            step = self.name("step")
            self.line(f"{step} = {part[1:-1] if part.startswith('(') else part}", depth)
            text = text.replace(part, step)
        self.line(f"{name} = {text}", depth)
        return name

    @contextmanager
    def loop(self, head: str) -> Iterator[None]:
        """Lines that are written meanwhile are the body of a loop."""
        self._scopes.append(_Scope())
        yield
        body = self._scopes.pop().lines
        self.line(head)
        for line in body:
            self.line(_INDENT + line)

    def known(self, key: object) -> Value | None:
        """What was computed under this key in a loop that is still open."""
        for scope in self._scopes:
            if key in scope.known:
                return scope.known[key]
        return None

    def remember(self, key: object, value: Value) -> Value:
        self._scopes[value.depth].known[key] = value
        return value


def _longest_part(text: str, room: int) -> str:
    """The longest call or bracket inside an expression that is no longer than `room`; empty where there is none."""
    found = [text[at.start() : _closed(text, at.end())] for at in _PART.finditer(text)]
    return max((one for one in found if one != text and len(one) <= room), key=len, default="")


def _closed(text: str, start: int) -> int:
    """Where the bracket that is open at `start` is closed, behind it."""
    level = 1
    for place in range(start, len(text)):
        level += {"(": 1, ")": -1}.get(text[place], 0)
        if level == 0:
            return place + 1
    return len(text)


def _used_lines(lines: list[str]) -> list[str]:
    """Lines without names that nothing takes."""
    while True:
        words = Counter(word for line in lines for word in _WORD.findall(line))
        kept = [line for line in lines if not ((found := _NAMED.match(line)) and words[found[1]] == 1)]
        if len(kept) == len(lines):
            return kept
        lines = kept


_PART = re.compile(r"(?<![\w.)])(?:[A-Za-z_][\w.]*)?\(")
_WORD, _NAMED = re.compile(r"[A-Za-z_]\w*"), re.compile(r"\s*(\w+) = ")


def identifier(text: str) -> str:
    """A short name for Python, made of the last words of another."""
    words = [word for word in re.split(r"\W+|_", text) if word]
    kept: list[str] = []
    for word in reversed(words):
        if kept and sum(map(len, kept)) + len(kept) + len(word) > 22:
            break
        kept.insert(0, word[:22])
    clean = "_".join(kept).lower() or "value"
    return f"v{clean}" if clean[0].isdigit() or clean in _RESERVED else clean


_RESERVED = frozenset((*keyword.kwlist, "tl", "triton", "torch", "range", "float", "int", "to_nearest", ORIGIN))

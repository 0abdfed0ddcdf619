"""A loop nest that a user writes as one line.

    O[n,m,x,y] += I[n,c,2*x+fx,2*y+fy] * W[m,c,fx,fy]; n=1 m=64 c=3 x=112 y=112 fx=7 fy=7

Before the semicolon stands what one iteration does; after it, in any order, the extent of every loop, and where it is
not what the loops say the shape and the bits of an array: `I[1,3,230,230]`, `W:8`, `I[1,3,230,230]:8`. Loops are
numbered in the order of their extents.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from tilestitch.base.errors import InputError
from tilestitch.formats.limits import MAX_BITS, MAX_EXTENT, MAX_STEP, checked, operand, span
from tilestitch.ir.loop_nest import Loop, LoopNest, LoopOperand

MAX_CHARACTERS = 4000
_TOKEN = re.compile(r"\s*(?:(?P<name>[A-Za-z_]\w*)|(?P<number>[0-9]+)|(?P<sign>\+=|[][*+\-=,;:]))", re.ASCII)
_DIGITS = 12  # of the longest number that can be right
_SHOWN = 50  # characters to each side of a mistake


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # name, number, sign, or end
    text: str
    at: int


@dataclass(frozen=True, slots=True)
class _Access:
    """An array in the first part of the text: for each axis its terms by loop name, and what is added to them."""

    array: _Token
    axes: tuple[tuple[Mapping[str, int], int], ...]


@dataclass(slots=True)
class _Facts:
    """What the second part of the text says; tokens for the place of a mistake."""

    extents: dict[str, int] = field(default_factory=dict)
    shapes: dict[str, tuple[tuple[int, ...], _Token]] = field(default_factory=dict)
    bits: dict[str, int] = field(default_factory=dict)


def einsum_nest(text: str, name: str = "einsum") -> LoopNest:
    """The nest that one line of text describes. Raises `InputError` with the column where anything is wrong.

    An index is a sum of loops with whole factors and of constants. A constant only moves the place in memory: without a
    shape of its own an array reaches from index 0, or from the least index where that is negative, to the greatest.
    """
    if len(text) > MAX_CHARACTERS:
        raise InputError(f"{name}: expected at most {MAX_CHARACTERS:,} characters, found {len(text):,}")
    return _Reader(text.rstrip(), name).nest()


def nest_text(nest: LoopNest) -> str:
    """The loops and arrays of a nest as one line, for people."""
    reads = " * ".join(_access_text(nest, read) for read in nest.reads)
    loops = " ".join(f"{loop.name}={loop.extent}" for loop in nest.loops)
    return f"{_access_text(nest, nest.write)} += {reads}; {loops}"


def einsum_text(nest: LoopNest) -> str:
    """The same with every shape and every size of elements that is not what the loops say.

    `einsum_nest` reads the nest back from it, but for its name and its kind.
    """
    facts = []
    for array in nest.operands:
        usual = operand(array.name, array.axes, nest.extents)
        shape = "" if array.shape == usual.shape else f"[{','.join(map(str, array.shape))}]"
        bits = "" if array.element_bits == usual.element_bits else f":{array.element_bits}"
        if shape or bits:
            facts.append(f" {array.name}{shape}{bits}")
    return nest_text(nest) + "".join(facts)


def _access_text(nest: LoopNest, array: LoopOperand) -> str:
    indices = []
    for terms in array.axes:
        text = "".join(f"{'-' if step < 0 else '+'}{_factor(abs(step))}{nest.loops[at].name}" for at, step in terms)
        indices.append(text.removeprefix("+") or "0")
    return f"{array.name}[{','.join(indices)}]"


def _factor(step: int) -> str:
    return "" if step == 1 else f"{step}*"


class _Reader:
    """The text, the place reached in it, and the loops used so far."""

    def __init__(self, text: str, name: str) -> None:
        self.text, self.name = text, name
        self.tokens = self._tokens()
        self.at = 0
        self.used: dict[str, _Token] = {}  # loops, where each is first

    def nest(self) -> LoopNest:
        write = self._access()
        self._take("+=", "'+=' and what is multiplied")
        reads = [self._access()]
        while self._is("*"):
            self._next()
            reads.append(self._access())
        self._take(";", "'*' and another array, or ';' and the extents of the loops")
        accesses = [*reads, write]
        arrays: dict[str, _Token] = {}
        for access in (write, *reads):
            if access.array.text in arrays:
                self._wrong(access.array, "every array once; give what is read twice two names")
            arrays[access.array.text] = access.array
        facts = self._facts(arrays)
        for loop, token in self.used.items():
            if loop not in facts.extents:
                self._wrong(token, f"a loop with an extent: write {loop}=SIZE after the ';'")
        numbers = {loop: number for number, loop in enumerate(facts.extents)}
        extents = tuple(facts.extents.values())
        operands = [self._operand(access, numbers, extents, facts) for access in accesses]
        loops = tuple(Loop(loop, extent) for loop, extent in facts.extents.items())
        return checked(LoopNest(self.name, "einsum", loops, tuple(operands[:-1]), operands[-1]), self.name)

    def _operand(
        self, access: _Access, numbers: dict[str, int], extents: tuple[int, ...], facts: _Facts
    ) -> LoopOperand:
        name = access.array.text
        axes = tuple(tuple((numbers[loop], step) for loop, step in terms.items()) for terms, _ in access.axes)
        ends = [span(terms, extents) for terms in axes]
        low = [least + added for (least, _), (_, added) in zip(ends, access.axes, strict=True)]
        high = [most + added for (_, most), (_, added) in zip(ends, access.axes, strict=True)]
        shape = tuple(most - min(0, least) + 1 for least, most in zip(low, high, strict=True))
        if name in facts.shapes:
            needed, (shape, token) = shape, facts.shapes[name]
            if len(shape) != len(needed):
                self._wrong(token, f"a size for each of the {len(needed)} axes")
            if any(size < least for size, least in zip(shape, needed, strict=True)):
                sizes = ",".join(map(str, needed))
                self._wrong(token, f"an array that holds all indices, of at least [{sizes}]")
        return LoopOperand(name, axes, shape, facts.bits.get(name, 16))

    def _access(self) -> _Access:
        array = self._take_name("an array such as A[i,j]")
        self._take("[", f"'[' and the indices of {array.text}")
        axes: list[tuple[dict[str, int], int]] = []
        while not self._is("]") or axes:
            axes.append(self._index())
            if not self._is(","):
                break
            self._next()
        self._take("]", "'+', ',' or ']'; an index is a sum such as 2*x+fx")
        return _Access(array, tuple(axes))

    def _index(self) -> tuple[dict[str, int], int]:
        terms: dict[str, int] = {}
        added = 0
        sign = 1
        if self._is("-"):
            self._next()
            sign = -1
        while True:
            start = self._peek()
            step, loop = self._term()
            if loop is None:
                added += sign * step
            else:
                if step == 0:
                    self._wrong(start, "a factor other than 0; leave the loop out")
                self.used.setdefault(loop.text, loop)
                terms[loop.text] = terms.get(loop.text, 0) + sign * step
                if terms[loop.text] == 0:
                    self._wrong(start, f"terms of {loop.text} that do not cancel; leave it out")
            if not (self._is("+") or self._is("-")):
                return terms, added
            sign = 1 if self._next().text == "+" else -1

    def _term(self) -> tuple[int, _Token | None]:
        """A factor and a loop, or a constant and None."""
        token = self._next()
        if token.kind == "name":
            if not self._is("*"):
                return 1, token
            self._next()
            factor = self._next()
            if factor.kind == "name":
                self._wrong(factor, "a whole number; an index is a sum of loops with constant factors")
            return self._number(factor, "a whole number", 0, MAX_STEP), token
        step = self._number(token, "a loop, or a whole number", 0, MAX_EXTENT)
        if not self._is("*"):
            return step, None
        self._next()
        return step, self._take_name("a loop")

    def _facts(self, arrays: dict[str, _Token]) -> _Facts:
        facts = _Facts()
        while self._peek().kind != "end":
            token = self._take_name("a loop with its extent such as n=4")
            name = token.text
            if self._is("="):
                self._next()
                if name in facts.extents:
                    self._wrong(token, "the extent of a loop once")
                facts.extents[name] = self._number(self._next(), "an extent", 1, MAX_EXTENT)
                if name not in self.used and facts.extents[name] > 1:
                    self._wrong(token, "a loop that an array is indexed by")
            elif self._is("[") or self._is(":"):
                if name not in arrays:
                    self._wrong(token, f"one of the arrays {', '.join(arrays)}")
                if name in facts.shapes or name in facts.bits:
                    self._wrong(token, "the shape and the bits of an array once, as in I[1,3,230,230]:8")
                self._about_array(token, facts)
            else:
                self._wrong(self._peek(), f"'=' and the extent of {name}")
            while self._is(",") or self._is(";"):
                self._next()
        return facts

    def _about_array(self, array: _Token, facts: _Facts) -> None:
        if self._is("["):
            self._next()
            sizes: list[int] = []
            while not self._is("]") or sizes:
                sizes.append(self._number(self._next(), "a size", 1, MAX_EXTENT))
                if not self._is(","):
                    break
                self._next()
            self._take("]", "',' or ']'")
            facts.shapes[array.text] = (tuple(sizes), array)
        if self._is(":"):
            self._next()
            facts.bits[array.text] = self._number(self._next(), "bits of an element", 1, MAX_BITS)

    def _number(self, token: _Token, what: str, least: int, most: int) -> int:
        if token.kind != "number":
            self._wrong(token, what)
        if len(token.text) > _DIGITS or not least <= int(token.text) <= most:
            self._wrong(token, f"{what} from {least:,} to {most:,}")
        return int(token.text)

    def _tokens(self) -> list[_Token]:
        tokens: list[_Token] = []
        at = 0
        while at < len(self.text):
            match = _TOKEN.match(self.text, at)
            if match is None or match.lastgroup is None:
                at += len(self.text[at:]) - len(self.text[at:].lstrip())
                self._wrong(
                    _Token("sign", self.text[at], at), "names, whole numbers and the signs [ ] , * + - += ; = :"
                )
            tokens.append(_Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup)))
            at = match.end()
        return [*tokens, _Token("end", "", len(self.text))]

    def _peek(self) -> _Token:
        return self.tokens[self.at]

    def _next(self) -> _Token:
        token = self.tokens[self.at]
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def _is(self, sign: str) -> bool:
        return self._peek().kind == "sign" and self._peek().text == sign

    def _take(self, sign: str, expected: str) -> None:
        if not self._is(sign):
            self._wrong(self._peek(), expected)
        self._next()

    def _take_name(self, expected: str) -> _Token:
        if self._peek().kind != "name":
            self._wrong(self._peek(), expected)
        return self._next()

    def _wrong(self, token: _Token, expected: str) -> NoReturn:
        """Refuse with the place: the column, and a mark under it."""
        found = "the end" if token.kind == "end" else repr(token.text[:_SHOWN])
        start = max(0, token.at - _SHOWN)
        line = "".join(c if c.isprintable() else " " for c in self.text[start : token.at + _SHOWN])
        mark = " " * (token.at - start) + "^"
        raise InputError(f"{self.name}: column {token.at + 1}: expected {expected}, found {found}\n  {line}\n  {mark}")

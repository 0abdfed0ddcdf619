"""The text of a YAML file as plain values, read without YAML's guesses about types.

Each field reads the text that stands there, so `34.1` is exactly 341/10, and `1e6` or `yes` never turns into something
else. What can make a short file mean a huge or surprising one is refused.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NoReturn, TypeAlias

import yaml
from yaml.composer import Composer
from yaml.cyaml import CParser  # pyright: ignore[reportAttributeAccessIssue]  # written in C, not in its stubs
from yaml.resolver import Resolver

from tilestitch.base.errors import InputError

TAG = "!"
_PLAIN = re.compile(r"(?:-?[A-Za-z0-9_.+/](?:[A-Za-z0-9_.+/ -]*[A-Za-z0-9_.+/-])?)?")  # text that needs no quotes
MAX_DEPTH = 16  # of nested mappings and lists; a machine needs four


@dataclass(frozen=True, slots=True)
class Mistake:
    """One line of the error: the keys and list positions that lead to the mistake, and what would be right."""

    path: tuple[str | int, ...]
    problem: str

    def __str__(self) -> str:
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path)
        return f"{path.removeprefix('.')}: {self.problem}" if path else self.problem


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value as it stands in the file: what it means is for the field to say."""

    text: str
    quoted: bool


Tree: TypeAlias = "dict[str, Tree] | list[Tree] | Scalar"


class _Refusal(yaml.MarkedYAMLError):
    """Good YAML that no machine needs."""


class _Plain(Composer):
    """Refuses what can make a short file mean a huge or surprising one: anchors, aliases, tags, deep nesting."""

    depth = 0
    known_tags: tuple[str, ...] = ()

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: Any = self.peek_event()  # pyright: ignore[reportAttributeAccessIssue]  # of the parser
        if isinstance(event, yaml.AliasEvent):
            _refuse(f"an alias '*{event.anchor}'", "write the values themselves", event)
        if event.anchor is not None:
            _refuse(f"an anchor '&{event.anchor}'", "remove it and write the values where they belong", event)
        if event.tag is not None and event.tag not in self.known_tags:
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            close = get_close_matches(tag[:99], self.known_tags, n=1)
            _refuse(f"a tag '{tag}'", f"the closest is '{close[0]}'" if close else "remove it", event)
        if self.depth > MAX_DEPTH:
            _refuse(f"more than {MAX_DEPTH} levels of nesting", "a machine needs four", event)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def _refuse(found: str, instead: str, event: yaml.NodeEvent) -> NoReturn:
    raise _Refusal(None, None, f"expected plain values, found {shortened(found)}; {instead}", event.start_mark)


class _Fast(_Plain, CParser, Resolver):
    """Events by libyaml."""

    def __init__(self, text: str, tags: tuple[str, ...]) -> None:
        CParser.__init__(self, text)
        Composer.__init__(self)
        Resolver.__init__(self)
        self.known_tags = tags


class _Exact(_Plain, yaml.SafeLoader):
    """Events by PyYAML."""

    def __init__(self, text: str, tags: tuple[str, ...]) -> None:
        yaml.SafeLoader.__init__(self, text)
        self.known_tags = tags


def read_tree(
    text: str, where: str, mistakes: list[Mistake], *, tags: Sequence[str] = (), last_counts: bool = False
) -> Tree:
    """The values of the file; adds to `mistakes` what one document can still be read around.

    A mapping with one of `tags` ("!Component") has the tag as the value of its key "!"; on other values a tag says
    nothing. A key that is written twice has its first value, or its last one where `last_counts`.
    """

    try:
        node = _composed(text, tuple(tags))
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
    return Scalar("", quoted=False) if node is None else _plain(node, (), mistakes, last_counts=last_counts)


def _composed(text: str, tags: tuple[str, ...]) -> yaml.Node | None:
    """The document as nodes. libyaml is much the faster; what is wrong with a file is said by PyYAML's own parser."""
    try:
        return _Fast(text, tags).get_single_node()
    except (yaml.YAMLError, ValueError, OverflowError):
        return _Exact(text, tags).get_single_node()


def _plain(node: yaml.Node, path: tuple[str | int, ...], mistakes: list[Mistake], *, last_counts: bool = False) -> Tree:
    if isinstance(node, yaml.ScalarNode):
        return Scalar(node.value, quoted=bool(node.style))
    if isinstance(node, yaml.SequenceNode):
        children = enumerate(node.value)
        return [_plain(child, (*path, index), mistakes, last_counts=last_counts) for index, child in children]
    tree: dict[str, Tree] = {}
    lines: dict[str, int] = {}
    if node.tag.startswith("!"):
        tree[TAG], lines[TAG] = Scalar(node.tag, quoted=False), node.start_mark.line + 1
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        key = key_node.value
        if not isinstance(key_node, yaml.ScalarNode) or not key.isprintable() or not 0 < len(key) <= 64:
            found = quoted(key) if isinstance(key, str) else "a list or a mapping"
            mistakes.append(
                Mistake(path, f"expected a word of at most 64 characters as the key in line {line}, found {found}")
            )
            continue
        if key in tree:
            mistakes.append(Mistake((*path, key), f"written twice, in lines {lines[key]} and {line}; keep one"))
        if key not in tree or last_counts:
            lines[key] = line
            tree[key] = _plain(value_node, (*path, key), mistakes, last_counts=last_counts)
    return tree


def tree_text(tree: Tree) -> str:
    """A YAML text from which `read_tree` reads the same values; the comments of another text are not in it."""
    return "\n".join(_lines(tree)) + "\n"


def _lines(tree: Tree) -> list[str]:
    match tree:
        case Scalar():
            return [
                tree.text
                if _PLAIN.fullmatch(tree.text) and not tree.quoted
                else json.dumps(tree.text, ensure_ascii=False)
            ]
        case dict() if tree:
            return [line for key, value in tree.items() for line in _under(f"{key}:", value, "  ")]
        case list() if tree:
            return [f"{'- ' if number == 0 else '  '}{line}" for one in tree for number, line in enumerate(_lines(one))]
        case _:
            return ["[]" if isinstance(tree, list) else "{}"]


def _under(key: str, tree: Tree, indent: str) -> list[str]:
    """A key and its value: on one line where that has one and is no list or mapping, else below it."""
    lines = _lines(tree)
    return [f"{key} {lines[0]}"] if isinstance(tree, Scalar) or not tree else [key, *(indent + line for line in lines)]


def quoted(text: str) -> str:
    """Text of the file as a message shows it."""
    return shortened(repr(text[:99]))


def shortened(text: str) -> str:
    """At most 50 characters of it."""
    return text if len(text) <= 50 else f"{text[:40]}..."

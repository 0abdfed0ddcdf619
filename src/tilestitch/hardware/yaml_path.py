"""Places of a machine's YAML form: `memories.ddr.size` as keys and list positions, and other values there."""

import re
from collections.abc import Mapping, Sequence
from numbers import Rational
from typing import TypeAlias

from tilestitch.base.errors import InputError, printable
from tilestitch.hardware.fields import closest
from tilestitch.hardware.file_models import MachineModel
from tilestitch.hardware.yaml_tree import MAX_DEPTH, Scalar, Tree

Path: TypeAlias = tuple[str | int, ...]  # keys and list positions from the top of a machine's file


def path_text(path: Path) -> str:
    """`cores.0.count`, as it is given."""
    return ".".join(map(str, path))


def named(tree: Tree, path: Path) -> Path:
    """A path with the names of entries of lists in the place of their positions, where no other entry has that name."""
    found: list[str | int] = []
    at: Tree | None = tree
    for part in path:
        names = [_name(one) for one in at] if isinstance(at, list) else []
        own = names[part] if isinstance(part, int) and part < len(names) else ""
        found.append(own if own and names.count(own) == 1 else part)
        at = value_at(at, (part,)) if at is not None else None
    return tuple(found)


def known_path(tree: Tree, name: str, where: str, also: Sequence[str] = ()) -> Path:
    """The keys of a path; the last one may be missing, where the file leaves a default.

    An entry of a list goes by its `name`, where it has one, or by its position, also as in messages (`ports[0]`).
    `also` has other names that may stand in the place of a path.
    """
    whole, path = tree, list[str | int]()
    parts = re.sub(r"\[([0-9]{1,8})\]", r".\1", name).split(".")
    for number, part in enumerate(parts):
        at = f" of {path_text(named(whole, tuple(path)))}" if path else ""
        if isinstance(tree, list):
            position = _position(tree, part, at, where)
            path.append(position)
            tree = tree[position]
        elif isinstance(tree, dict):
            may_miss = number == len(parts) - 1 and part and (path or part in MachineModel.model_fields)
            if part not in tree and not may_miss:
                near = closest(part, [*tree, *([] if path else also)])
                others = f"; and short for what is often varied: {', '.join(also)}" if also and not path else ""
                known = f"known{at}: {', '.join(tree)}{others}"
                raise InputError(f"{where}: the machine has no '{printable(part, 60)}'{at}{near}; {known}")
            path.append(part)
            tree = tree.get(part, Scalar("", quoted=False))
        else:
            place = path_text(named(whole, tuple(path)))
            raise InputError(f"{where}: {place} is one value, which has no '{printable(part, 60)}'; leave that out")
    return tuple(path)


def _position(items: Sequence[Tree], part: str, at: str, where: str) -> int:
    names = [_name(one) for one in items]
    if part in names:
        return names.index(part)
    position = int(part) if part.isascii() and part.isdecimal() and len(part) < 9 else len(items)
    if position >= len(items):
        named = [name for name in names if name]
        known = f", or a name: {', '.join(named)}" if named else ""
        raise InputError(
            f"{where}: expected a position{at} from 0 to {len(items) - 1}{known}, found '{printable(part, 60)}'"
        )
    return position


def _name(item: Tree) -> str:
    found = item.get("name") if isinstance(item, dict) else None
    return found.text if isinstance(found, Scalar) else ""


def value_at(tree: Tree, path: Path) -> "Tree | None":
    """What stands at a place, None where nothing does."""
    for part in path:
        if isinstance(tree, dict) and str(part) in tree:
            tree = tree[str(part)]
        elif isinstance(tree, list) and isinstance(part, int) and part < len(tree):
            tree = tree[part]
        else:
            return None
    return tree


def replaced(tree: Tree, path: Path, new: Tree) -> Tree:
    """The same tree with something else at a place that `known_path` gave; what is not changed is shared."""
    if not path:
        return new
    first, rest = path[0], path[1:]
    if isinstance(tree, list):
        assert isinstance(first, int), "the path is of this tree"
        return [replaced(one, rest, new) if number == first else one for number, one in enumerate(tree)]
    assert isinstance(tree, dict), "the path is of this tree"
    return {**tree, str(first): replaced(tree.get(str(first), {}), rest, new)}


def tree_of(value: object, where: str, depth: int = 0) -> Tree:
    """Plain values of Python as they would stand in a file; refuses what no file has."""
    if depth > MAX_DEPTH:
        raise InputError(f"{where}: more than {MAX_DEPTH} levels of nesting; a machine needs four")
    match value:
        case bool():
            return Scalar(str(value).lower(), quoted=False)
        case str() | Rational():
            return Scalar(str(value), quoted=False)
        case float():
            return Scalar(repr(float(value)), quoted=False)
        case Mapping():
            for key in value:
                if not isinstance(key, str) or not key.isprintable() or not 0 < len(key) <= 64:
                    shown = printable(repr(key), 60)
                    raise InputError(f"{where}: expected words of at most 64 characters as keys, found {shown}")
            return {str(key): tree_of(one, where, depth + 1) for key, one in value.items()}
        case list() | tuple():
            return [tree_of(one, where, depth + 1) for one in value]
        case _:
            shown = f"{type(value).__name__} {printable(repr(value), 60)}"
            raise InputError(f"{where}: expected a number, text, true or false, a list or a mapping, found {shown}")

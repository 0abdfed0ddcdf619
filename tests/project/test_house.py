"""The shape of the code: frozen values stay as they are, arguments are few, and some words mean one thing."""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.helpers.sources import syntax_of

SOURCE = Path(__file__).parent.parent.parent / "src" / "tilestitch"

# What a value that never changes has no field of; a `Mapping` or a `Sequence` says that nobody changes it later.
MUTABLE = frozenset({"Counter", "MutableMapping", "bytearray", "defaultdict", "deque", "dict", "list", "set"})


MOST_PARAMETERS = 8
# These take plain numbers and arrays.
COMPILED = frozenset({"compiled", "tiered", "borrowing", "inner", "lending", "inlined"})


@cache
def modules() -> tuple[tuple[str, ast.Module], ...]:
    """Every module under src/tilestitch: its path from there, and its syntax."""
    paths = sorted(SOURCE.rglob("*.py"))
    assert paths, f"no modules under {SOURCE}"
    return tuple((path.relative_to(SOURCE).as_posix(), syntax_of(path.read_text(encoding="utf-8"))) for path in paths)


def aliases_of(trees: Iterable[ast.Module], names: frozenset[str]) -> frozenset[str]:
    """Names that modules give to types made of one of `names`, such as `Rows = list[int]`."""
    found = set()
    for tree in trees:
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript):
                outer = node.value.value
                if isinstance(outer, ast.Name) and outer.id in names:
                    found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return frozenset(found)


def is_frozen(node: ast.ClassDef) -> bool:
    """Whether a class is a dataclass whose fields cannot be set."""
    return any(
        isinstance(decorator, ast.Call)
        and any(one.arg == "frozen" and ast.unparse(one.value) == "True" for one in decorator.keywords)
        for decorator in node.decorator_list
    )


def names_in(annotation: ast.expr) -> set[str]:
    """All names of an annotation, also of one that is written as text; of a function type only the function."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = ast.parse(annotation.value, mode="eval").body
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Callable":
        return set()
    own = {annotation.id} if isinstance(annotation, ast.Name) else set()
    inner = (child for child in ast.iter_child_nodes(annotation) if isinstance(child, ast.expr))
    return own.union(*map(names_in, inner))


def stores_into_itself(function: ast.FunctionDef) -> Iterator[ast.expr]:
    """Where a method puts something into a part of its object, as in `self.known[key] = value`."""
    for node in ast.walk(function):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            inside = node.value
            while isinstance(inside, ast.Attribute | ast.Subscript):
                inside = inside.value
            if isinstance(inside, ast.Name) and inside.id == "self":
                yield node


def changing_parts(name: str, tree: ast.Module, mutable: frozenset[str]) -> list[str]:
    """What of the frozen classes of a module can change after they were made, one line each."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef) or not is_frozen(node):
            continue
        for part in node.body:
            where = f"{name}:{part.lineno}: frozen {node.name}"
            if isinstance(part, ast.AnnAssign) and names_in(part.annotation) & mutable:
                found.append(f"{where} has a field that can change: {ast.unparse(part)}")
            if isinstance(part, ast.FunctionDef):
                kept = any(ast.unparse(decorator) == "cached_property" for decorator in part.decorator_list)
                if kept and part.returns is not None and names_in(part.returns) & mutable:
                    found.append(f"{where} keeps what can change: {part.name} -> {ast.unparse(part.returns)}")
                found += [f"{where} changes a part of itself: {ast.unparse(one)}" for one in stores_into_itself(part)]
    return found


def test_a_frozen_value_has_no_part_that_changes():
    """What is remembered between calls belongs to a class that says so, not to a value."""
    mutable = MUTABLE | aliases_of((tree for _, tree in modules()), MUTABLE)
    found = [line for name, tree in modules() for line in changing_parts(name, tree, mutable)]
    if found:
        pytest.fail("\n".join(found), pytrace=False)


@pytest.mark.parametrize(
    "body",
    [
        "known: dict[int, int]",
        "known: list[int] = field(default_factory=list)",
        "known: 'dict[int, int] | None' = None",
        "known: tuple[set[int], ...]",
        "known: Rows",
        "@cached_property\n    def known(self) -> dict[int, int]: ...",
        "known: Mapping[int, int]\n    def find(self, key: int) -> int:\n        self.known[key] = 1\n        return 1",
    ],
)
def test_a_part_that_changes_is_found(body):
    """However it is annotated, and where a method fills it."""
    tree = ast.parse(f"Rows = list[int]\n@dataclass(frozen=True)\nclass Value:\n    {body}")
    assert len(changing_parts("module.py", tree, MUTABLE | aliases_of([tree], MUTABLE))) == 1


@pytest.mark.parametrize(
    "body",
    [
        "known: Mapping[int, int]",
        "rule: Callable[[int], list[int]]",
        "known: Sequence[int]\n    def find(self):\n        found = [1]\n        found[0] = 2",
    ],
)
def test_a_part_that_stays_is_no_fault(body):
    """A function that makes a list is a value, and what a method makes for itself may change."""
    tree = ast.parse(f"@dataclass(frozen=True, slots=True)\nclass Value:\n    {body}")
    assert changing_parts("module.py", tree, MUTABLE) == []


def functions(body: Iterable[ast.stmt]) -> Iterator[tuple[ast.FunctionDef, int]]:
    """Public functions and methods, each with how many parameters a caller gives it."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            for method, count in functions(node.body):
                yield method, count - ("staticmethod" not in map(ast.unparse, method.decorator_list))
        elif isinstance(node, ast.FunctionDef) and (node.name == "__init__" or not node.name.startswith("_")):
            given = node.args
            yield node, len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs)


def long_lists(name: str, tree: ast.Module) -> list[str]:
    """Functions of a module that take more than they should, one line each."""
    return [
        f"{name}:{function.lineno}: {function.name} takes {count} arguments; name what several of them are together"
        for function, count in functions(tree.body)
        if count > MOST_PARAMETERS and COMPILED.isdisjoint(map(ast.unparse, function.decorator_list))
    ]


def test_no_function_takes_a_long_list_of_arguments():
    """But compiled ones, and the commands, which have one for each option."""
    found = [line for name, tree in modules() if not name.startswith("cli/") for line in long_lists(name, tree)]
    if found:
        pytest.fail("\n".join(found), pytrace=False)


@pytest.mark.parametrize(
    "source, faults",
    [
        ("def f(a, b, c, d, e, /, f, g, *, h): ...", 0),
        ("def f(a, b, c, d, e, /, f, g, *, h, i): ...", 1),
        ("class C:\n    def f(self, a, b, c, d, e, f, g, h): ...", 0),
        ("class C:\n    def __init__(self, a, b, c, d, e, f, g, h, i): ...", 1),
        ("class C:\n    @staticmethod\n    def f(a, b, c, d, e, f, g, h, i): ...", 1),
        ("@compiled\ndef f(a, b, c, d, e, f, g, h, i): ...", 0),
        ("def _f(a, b, c, d, e, f, g, h, i): ...", 0),
    ],
)
def test_a_long_list_of_arguments_is_found(source, faults):
    """The object of a method does not count, nor does what nobody outside the module calls."""
    assert len(long_lists("module.py", ast.parse(source))) == faults


# Words that mean one thing here: what they name is one class, or none where the word has a longer form everywhere.
ONE_THING = frozenset({"Block", "Job", "Layer", "Network", "Outcome", "Progress"})


def classes_of(tree: ast.Module) -> list[str]:
    return [node.name for node in tree.body if isinstance(node, ast.ClassDef)]


def test_a_word_that_means_one_thing_names_one_class():
    counts = Counter(name for _, tree in modules() for name in classes_of(tree) if name in ONE_THING)
    assert [name for name, count in counts.items() if count > 1] == []
    assert counts.total() > 0


def test_a_module_is_called_after_what_it_holds():
    """The name `text.py` does not say whose text it is."""
    vague = {"common.py", "helpers.py", "misc.py", "text.py", "utils.py"}
    assert [name for name, _ in modules() if Path(name).name in vague] == []

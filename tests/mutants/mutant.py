"""One mistake, and whether the table of mistakes still fits the code and the tests."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True, slots=True)
class Mutant:
    """One plausible mistake: in `file` of the package, `before`, which occurs there once, becomes `after`."""

    name: str
    file: str
    before: str
    after: str
    tests: tuple[
        str, ...
    ]  # one must fail; a file without folder and ending, or a test: `test_tiles`, `test_tiles::test_x`

    @property
    def interpreted(self) -> bool:
        """Whether to run without compiled code: a changed file of compiled functions would be compiled anew."""
        return self.file == "sim/chip/timing.py" or self.file.startswith(("sim/array/", "sim/tree/"))


def path_of(file: str) -> Path | None:
    """Where below tests/ the one module of this name lies."""
    found = _modules().get(file, ())
    return found[0] if len(found) == 1 else None


def stale(mutants: Sequence[Mutant]) -> list[str]:
    """What in the table no longer fits the code or the tests, one line each."""
    found = []
    for mutant in mutants:
        file = ROOT / "src" / "tilestitch" / mutant.file
        count = file.read_text(encoding="utf-8").count(mutant.before) if file.exists() else 0
        if count != 1 or mutant.before == mutant.after:
            found.append(f"{mutant.name}: its text occurs {count} times in {mutant.file}; once, and a change, is right")
        for name in mutant.tests:
            module, _, test = name.partition("::")
            if path_of(module) is None:
                found.append(f"{mutant.name}: there is not one file {module}.py below tests/")
            elif test and test not in _tests_in(module):
                found.append(f"{mutant.name}: {module}.py has no test {test}")
    names = [mutant.name for mutant in mutants]
    found += [f"{name}: several mutants have this name" for name in sorted(set(names)) if names.count(name) > 1]
    return found


@cache
def _modules() -> dict[str, list[Path]]:
    """By name, the test modules of every folder."""
    found: dict[str, list[Path]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        found.setdefault(path.stem, []).append(path)
    return found


@cache
def _tests_in(module: str) -> set[str]:
    path = path_of(module)
    assert path is not None
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}

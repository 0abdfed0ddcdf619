"""How the tests lie: quick ones for every package, helpers in modules of their own, no name twice."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PACKAGES = sorted(path.parent.name for path in (ROOT / "src" / "tilestitch").glob("*/__init__.py"))

pytestmark = pytest.mark.quick


def quick_tests(source: str) -> list[str]:
    """The tests of a module that are marked quick, each or all of them, and not slow."""
    module = ast.parse(source)
    marks = [ast.unparse(node) for node in module.body if isinstance(node, ast.Assign)]
    whole = "pytestmark = pytest.mark.quick" in marks
    found = []
    for node in module.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            own = {ast.unparse(mark) for mark in node.decorator_list}
            if (whole or "pytest.mark.quick" in own) and "pytest.mark.slow" not in own:
                found.append(node.name)
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_has_quick_tests(package: str) -> None:
    """In the folder of its name."""
    modules = sorted((ROOT / "tests" / package).glob("test_*.py"))
    assert any(quick_tests(path.read_text(encoding="utf-8")) for path in modules), f"no quick test in tests/{package}/"


def test_marks_are_found() -> None:
    test = "def test_a(): pass"
    assert quick_tests(test) == []
    assert quick_tests(f"@pytest.mark.quick\n{test}") == ["test_a"]
    assert quick_tests(f"pytestmark = pytest.mark.quick\n{test}") == ["test_a"]
    assert quick_tests(f"@pytest.mark.slow\n@pytest.mark.quick\n{test}") == []


def test_nothing_imports_from_a_test_module() -> None:
    """What several tests use is in tests/helpers."""
    for path in (ROOT / "tests").rglob("*.py"):
        found = re.findall(r"^\s*(?:from|import) tests\.\S*\btest_\w+", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert not found, f"{path.relative_to(ROOT)}: {found[0]}"


def test_no_two_test_modules_have_one_name() -> None:
    """So that a page and the table of mutants can name them without their folders."""
    counts = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert max(counts.values()) == 1, counts.most_common(3)

"""Imports only go down: every module under src/tilestitch keeps to the table of layers, and none imports itself."""

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

import pytest

from tests.helpers.sources import syntax_of

pytestmark = pytest.mark.quick

SOURCE = Path(__file__).parent.parent.parent / "src"
ROOT = "tilestitch"

LAYERS = {
    9: ("__main__",),
    8: ("cli", "serve"),
    7: ("__init__", "api", "commands", "exploration", "onnx_backend", "reproduction"),
    6: ("pipeline",),
    5: ("backends", "formats", "frontend", "lower", "partition", "passes", "report", "schedule", "sim", "zoo"),
    4: ("blame", "cost", "kernels", "mapping"),
    3: ("ops",),
    2: ("ir",),
    1: ("hardware",),
    0: ("base",),
}
LAYER_OF = {part: layer for layer, parts in LAYERS.items() for part in parts}

# Parts of one layer do not know each other, but for these.
BESIDE = {
    ("__init__", "api"),  # the names that users import
    ("__init__", "commands"),
    ("__init__", "reproduction"),
    ("cli", "serve"),
    ("commands", "api"),
    ("commands", "exploration"),
    ("kernels", "mapping"),  # the time of a tile on an array
    ("cost", "kernels"),
    ("blame", "cost"),  # the bounds
}
# The judge does not ask the model, and a program says what was decided, whatever it was estimated to cost.
NEVER = {("sim", "cost"), ("sim", "kernels"), ("sim", "mapping"), ("lower", "cost")}


def part_of(module: str) -> str:
    """The folder or file under tilestitch/ that a dotted module name belongs to; `__init__` for the package itself."""
    return module.split(".")[1] if "." in module else "__init__"


def imported_names(source: str, module: str, *, is_package: bool) -> Iterator[tuple[int, str, str]]:
    """Line, module and name of every import in `source`, wherever it stands, relative ones resolved.

    The name is empty where the module itself is imported.
    """
    package = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(syntax_of(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level > 0 else []
            origin = ".".join([*above, *([node.module] if node.module is not None else [])])
            yield from ((node.lineno, origin, alias.name) for alias in node.names)


def imported_parts(source: str, module: str, *, is_package: bool) -> Iterator[tuple[int, str]]:
    """Line and part of every import from tilestitch in `source`, wherever it stands, relative ones resolved."""
    for line, origin, name in imported_names(source, module, is_package=is_package):
        # `from tilestitch import x` means the part x if there is one, and else an attribute of the package.
        whole = f"{ROOT}.{name}" if origin == ROOT and name in LAYER_OF else origin
        if whole.split(".")[0] == ROOT:
            yield line, part_of(whole)


def imported_modules(sources: Mapping[str, str], packages: frozenset[str]) -> dict[str, set[str]]:
    """Of every module of `sources`, which others of them it imports; `packages` are those that are an `__init__.py`."""
    edges: dict[str, set[str]] = {}
    for module, source in sources.items():
        names = imported_names(source, module, is_package=module in packages)
        wanted = [f"{origin}.{name}" if f"{origin}.{name}" in sources else origin for _, origin, name in names]
        edges[module] = {other for other in wanted if other in sources}
    return edges


def cycle_in(edges: Mapping[str, set[str]]) -> list[str]:
    """Modules that import one another in a ring, the first again at the end; none where there is no ring."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return error.args[1][::-1]  # it goes from what is imported to what imports it
    return []


def modules_of_the_package() -> Iterator[tuple[str, Path]]:
    """Dotted name and file of every module under src/tilestitch."""
    paths = sorted((SOURCE / ROOT).rglob("*.py"))
    assert paths, f"no modules under {SOURCE / ROOT}"
    for path in paths:
        inside = path.relative_to(SOURCE)
        yield ".".join((inside.parent if path.name == "__init__.py" else inside.with_suffix("")).parts), path


def faults(source: str, module: str, *, is_package: bool = False) -> list[str]:
    """What `module` with this source does against the table, one line each."""
    importer = part_of(module)
    known = ", ".join(sorted(LAYER_OF))
    if importer not in LAYER_OF:
        return [f"{module}: {importer!r} is in no layer; give it one in tests/project/test_layers.py (known: {known})"]
    found = []
    for line, imported in imported_parts(source, module, is_package=is_package):
        edge = (importer, imported)
        if imported not in LAYER_OF:
            found.append(f"{module}:{line}: imports {imported!r}, which is in no layer (known: {known})")
        elif edge in NEVER:
            found.append(f"{module}:{line}: {importer} never imports {imported}")
        elif importer != imported and edge not in BESIDE and LAYER_OF[imported] >= LAYER_OF[importer]:
            found.append(
                f"{module}:{line}: {importer} (layer {LAYER_OF[importer]}) imports {imported} "
                f"(layer {LAYER_OF[imported]}); imports only go down, so take what it gives as an argument"
            )
    return found


def test_imports_only_go_down():
    """No module imports from its own layer or from one above."""
    found = []
    for module, path in modules_of_the_package():
        found += faults(path.read_text(encoding="utf-8"), module, is_package=path.name == "__init__.py")
    if found:
        pytest.fail("\n".join(found), pytrace=False)


def test_no_module_imports_itself():
    """Not through others either, nor from inside a function: any module can be understood without what uses it."""
    paths = dict(modules_of_the_package())
    sources = {module: path.read_text(encoding="utf-8") for module, path in paths.items()}
    packages = frozenset(module for module, path in paths.items() if path.name == "__init__.py")
    ring = cycle_in(imported_modules(sources, packages))
    if ring:
        pytest.fail(" imports ".join(ring), pytrace=False)


@pytest.mark.parametrize(
    "sources, ring",
    [
        ({"a": "import b", "b": "def f():\n    from c import x", "c": "from a import y"}, {"a", "b", "c"}),
        ({"p": "", "p.a": "from p import b", "p.b": "from . import a"}, {"p.a", "p.b"}),
        ({"p": "from p.a import x", "p.a": "from p import y"}, {"p", "p.a"}),
        ({"a": "import a"}, {"a"}),
        ({"p": "from p import a", "p.a": "", "p.b": "import p, numpy"}, set()),
    ],
)
def test_a_ring_of_modules_is_found(sources, ring):
    """Whether a module is imported by its name or from its package, and wherever the import stands."""
    found = cycle_in(imported_modules(sources, frozenset({"p"})))
    assert set(found) == ring
    edges = imported_modules(sources, frozenset({"p"}))
    assert all(after in edges[before] for before, after in pairwise(found))


@pytest.mark.parametrize(
    "module, source",
    [
        ("tilestitch.ir.graph", "from tilestitch.ops import conv"),
        ("tilestitch.ir.graph", "import numpy, tilestitch.cost.bounds as bounds"),
        ("tilestitch.ir.graph", "from tilestitch import cost"),
        ("tilestitch.ir.graph", "from tilestitch import __version__"),
        ("tilestitch.sim.chip.run", "def f():\n    from ...lower import lower"),
        ("tilestitch.sim.chip.run", "class C:\n    from ... import schedule"),
        ("tilestitch.sim.chip.run", "from tilestitch.cost.bounds import roofline"),
        ("tilestitch.schedule.order", "if TYPE_CHECKING:\n    from ..partition import fuse"),
        ("tilestitch.base.errors", "from tilestitch.ir import graph"),
        ("tilestitch.ir.graph", "from tilestitch.helpers import first"),
        ("tilestitch.helpers", ""),
    ],
)
def test_a_forbidden_import_is_found(module, source):
    """Each way to write an import is seen: absolute, relative, inside a function, of a name that no layer holds."""
    assert len(faults(source, module)) == 1


@pytest.mark.parametrize(
    "module, source",
    [
        ("tilestitch.sim.chip.run", "from ..trace import Trace\nfrom ...ir import Program\nfrom . import engines"),
        ("tilestitch.cost.bounds", "import tilestitch.hardware.units, numpy\nfrom onnx import sim"),
        ("tilestitch.cli.main", "import tilestitch\nfrom tilestitch import __version__, pipeline"),
        ("tilestitch.api", "from tilestitch.pipeline.compile import compile"),
    ],
)
def test_a_downward_import_is_not_a_fault(module, source):
    """Lower layers, the part's own modules and other packages may be imported."""
    assert faults(source, module) == []


def test_a_package_resolves_its_relative_imports_from_itself():
    """One dot in `sim/__init__.py` is `sim`, and in `sim/trace.py` too; two dots are tilestitch."""
    assert faults("from .chip import run\nfrom ..ir import Program", "tilestitch.sim", is_package=True) == []
    assert len(faults("from ..lower import lower", "tilestitch.sim", is_package=True)) == 1
    assert len(faults("from .api import compile\nfrom .cli import main", "tilestitch", is_package=True)) == 1

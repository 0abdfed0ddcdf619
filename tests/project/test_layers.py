"""Imports only go down: every module under src/tilestitch keeps to the table of layers."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

SOURCE = Path(__file__).parent.parent.parent / "src"
ROOT = "tilestitch"

LAYERS = {
    8: ("cli",),
    7: ("__init__", "api", "commands", "explore", "onnx_backend", "reproduce"),
    6: ("pipeline",),
    5: ("formats", "frontend", "lower", "partition", "passes", "report", "schedule", "sim", "zoo"),
    4: ("cost", "kernels", "mapping"),
    3: ("ops",),
    2: ("ir",),
    1: ("hardware",),
    0: ("base",),
}
LAYER_OF = {part: layer for layer, parts in LAYERS.items() for part in parts}

# Parts of one layer do not know each other, but for these.
BESIDE = {
    ("__init__", "api"),
    ("api", "commands"),
    ("kernels", "mapping"),  # the time of a tile on an array
    ("cost", "kernels"),
}
# The judge does not ask the model, and a program says what was decided, whatever it was estimated to cost.
NEVER = {("sim", "cost"), ("sim", "kernels"), ("sim", "mapping"), ("lower", "cost")}


def part_of(module: str) -> str:
    """The folder or file under tilestitch/ that a dotted module name belongs to; `__init__` for the package itself."""
    return module.split(".")[1] if "." in module else "__init__"


def imported_parts(source: str, module: str, *, is_package: bool) -> Iterator[tuple[int, str]]:
    """Line and part of every import from tilestitch in `source`, wherever it stands, relative ones resolved."""
    package = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(ast.parse(source, filename=module)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level > 0 else []
            origin = ".".join([*above, *([node.module] if node.module is not None else [])])
            # `from tilestitch import x` means the part x if there is one, and else an attribute of the package.
            names = [f"{ROOT}.{a.name}" if a.name in LAYER_OF else ROOT for a in node.names]
            names = names if origin == ROOT else [origin]
        else:
            continue
        for name in names:
            if name.split(".")[0] == ROOT:
                yield node.lineno, part_of(name)


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
    paths = sorted((SOURCE / ROOT).rglob("*.py"))
    assert paths, f"no modules under {SOURCE / ROOT}"
    found = []
    for path in paths:
        is_package = path.name == "__init__.py"
        inside = path.relative_to(SOURCE)
        module = ".".join((inside.parent if is_package else inside.with_suffix("")).parts)
        found += faults(path.read_text(encoding="utf-8"), module, is_package=is_package)
    if found:
        pytest.fail("\n".join(found), pytrace=False)


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

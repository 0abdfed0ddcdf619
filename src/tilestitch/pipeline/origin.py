"""How a page was made: with which options and versions, and what makes it again."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from importlib.metadata import version
from pathlib import Path

from tilestitch.pipeline.options import Options
from tilestitch.report.html.page import Origin

_PACKAGES = ("tilestitch", "numpy", "onnx", "onnxruntime")
_OF_ARRAYS = ("tilestitch", "numpy", "numba", "onnx")
_SAID_ELSEWHERE = ("batch", "verify", "beside_map", "stop_after")  # by the report itself


def origin_of(options: Options, command: str) -> Origin:
    """Of a page that `command` makes again."""
    return Origin(command, _option_rows(options), versions(_PACKAGES))


def made_by(command: str, options: Sequence[tuple[str, object]]) -> Origin:
    """Of a page of results that `command` makes again; options that are empty are left out."""
    rows = [(name, ("no", "yes")[value] if isinstance(value, bool) else str(value)) for name, value in options]
    return Origin(command, tuple(row for row in rows if row[1]), versions(_OF_ARRAYS))


def versions(packages: Sequence[str] = _PACKAGES) -> tuple[tuple[str, str], ...]:
    """Of the programs that a page is made with."""
    return (("Python", platform.python_version()), *((name, version(name)) for name in packages))


def _option_rows(options: Options) -> tuple[tuple[str, str], ...]:
    found = []
    for field in fields(Options):
        value = getattr(options, field.name)
        if field.name not in _SAID_ELSEWHERE and value != {}:
            shown = ("no", "yes")[value] if isinstance(value, bool) else str(value)
            found.append((field.name.replace("_", " "), shown))
    return tuple(found)


def call_text(function: str, network: str, machine: str, strategies: Sequence[str], options: Options) -> str:
    """The call in Python that gives a page again; a network or a machine of one's own is named as it names itself."""
    given = [repr(network), repr(machine)]
    given.append(f"strategy={strategies[0]!r}" if function == "compile" else repr(list(strategies)))
    default = Options()
    changed = {
        field.name: getattr(options, field.name)
        for field in fields(Options)
        if getattr(options, field.name) != getattr(default, field.name)
    }
    given += [f"{name}={changed.pop(name)!r}" for name in ("batch", "verify") if name in changed]
    if changed:
        others = ", ".join(f"{name}={_literal(value)}" for name, value in changed.items())
        given.append(f"options=tilestitch.Options({others})")
    return f"tilestitch.{function}({', '.join(given)}).to_html()"


def named_again(given: object, own: str) -> str:
    """What a call says of a network or a machine: the name or the path that was given, else what it calls itself."""
    return str(given) if isinstance(given, str | Path) else own


def of_network(
    layers: Sequence[str], batch: int | None, dims: Mapping[str, int], *, fold_bn: bool
) -> dict[str, object]:  # fmt: skip
    """How a network was opened, as a call says it."""
    found: dict[str, object] = {"layers": tuple(layers), "batch": batch, "dims": dict(dims)}
    return found if fold_bn else {**found, "fold_bn": False}


def python_call(function: str, *given: object, **options: object) -> str:
    """A call in Python that gives a page again; what is empty is left out, and what options have by default."""
    words = [_written(value) for value in given]
    words += [f"{name}={_written(value)}" for name, value in options.items() if value not in ((), "", None, {})]
    return f"tilestitch.{function}({', '.join(words)}).to_html()"


def _written(value: object) -> str:
    if not is_dataclass(value) or isinstance(value, type):
        return repr(list(value)) if isinstance(value, tuple) else _literal(value)
    if any(one.default is MISSING and one.default_factory is MISSING for one in fields(value)):
        return repr(value)
    default = type(value)()
    changed = [
        f"{one.name}={_written(getattr(value, one.name))}"
        for one in fields(value)
        if getattr(value, one.name) != getattr(default, one.name)
    ]
    return f"tilestitch.{type(value).__name__}({', '.join(changed)})"


def _literal(value: object) -> str:
    return repr(str(value)) if isinstance(value, str) else repr(value)  # a choice by its name

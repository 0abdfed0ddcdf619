"""The reference of the Python interface: every name of `tilestitch`, rendered by mkdocstrings from its docstring."""

import inspect
from collections.abc import Iterable

import tilestitch

INTRODUCTION = """# Python, name by name

Every name of the package `tilestitch`, from its docstring. [Python, by example](../api.md) shows them at work.
"""


def name_reference() -> str:
    """The page: functions, then classes, then errors."""
    names = [name for name in tilestitch.__all__ if not name.startswith("_")]
    values = {name: getattr(tilestitch, name) for name in names}
    classes = {name: value for name, value in values.items() if inspect.isclass(value)}
    errors = [name for name, value in classes.items() if issubclass(value, Exception)]
    functions = [name for name in names if name not in classes]
    rest = [name for name in classes if name not in errors]
    return "\n".join([INTRODUCTION, *_part("Functions", functions), *_part("Classes", rest), *_part("Errors", errors)])


def _part(heading: str, names: Iterable[str]) -> list[str]:
    return [f"## {heading}\n", *(f"::: tilestitch.{name}\n" for name in names)]

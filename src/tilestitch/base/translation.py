"""Translating inner loops to machine code before they are called, by several processes.

`translations.json` lists by command which compiled functions it calls, and with which types, in the order in which a
first run comes to them; after one that is never interpreted those that it calls in turn, from the last to the first.
What a command calls on trees of memories alone is a list of its own (`map on a tree`).
`python -m tests.helpers.translations` writes it. A list that is out of date costs time, and nothing else: what it lacks
is translated when it is called.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Any, TypeAlias, cast

import numba
from numba import types

from tilestitch.base.interruption import end_with
from tilestitch.base.jit import instructions_of

FILE = "translations.json"
Spelled: TypeAlias = str | dict[str, list["Spelled"]]
Call: TypeAlias = tuple[str, list[Spelled]]  # module:function, and the types of its arguments


def spelled(found: types.Type) -> Spelled:
    """A type as `int64`, an array as `int64 2 C`, a tuple as its class with the types of its fields."""
    if isinstance(found, types.Array):
        return f"{found.dtype} {found.ndim} {found.layout}{'' if found.mutable else ' readonly'}"
    if isinstance(found, types.BaseTuple):
        owner, fields = getattr(found, "instance_class", tuple), cast(Any, found).types
        return {f"{owner.__module__}:{owner.__qualname__}": [spelled(one) for one in fields]}
    if isinstance(found, types.Number | types.Boolean):
        return str(found)
    raise TypeError(f"arguments of type {found} are not listed in {FILE}")


def type_of(text: Spelled) -> types.Type:
    """The type that `spelled` writes so."""
    if isinstance(text, dict):
        ((owner, fields),) = text.items()
        found = _named(owner)
        return cast(Any, types.BaseTuple).from_types(
            [type_of(one) for one in fields], None if found is tuple else found
        )
    name, *array = text.split()
    scalar = getattr(numba, "boolean" if name == "bool" else name)
    if not array:
        return scalar
    return types.Array(scalar, int(array[0]), array[1], readonly="readonly" in array)


def _named(name: str) -> type:
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)


def calls_of(command: str | None) -> list[Call]:
    """What a list says, nothing where there is none of that name; without a name what all say, each call once."""
    listed = _lists()
    rows = [row for name in listed for row in listed[name]] if command is None else listed.get(command, [])
    return [
        (name, arguments) for number, (name, arguments) in enumerate(rows) if [name, arguments] not in rows[:number]
    ]


def list_of(command: str, function: str) -> str:
    """The name of that list of a command which has a function, module:function; else that of the command."""
    with_it = (
        name
        for name, rows in _lists().items()
        if name.partition(" ")[0] == command and any(called == function for called, _ in rows)
    )
    return next(with_it, command)


@cache
def _lists() -> dict[str, list[list]]:
    return json.loads(files("tilestitch.base").joinpath(FILE).read_text(encoding="utf-8"))


def translate(call: Call) -> None:
    """Compile a function, or load it where that was done before."""
    name, arguments = call
    function = _named(name)
    function.compile(tuple(type_of(one) for one in arguments))


def is_tiered(function: Any) -> bool:
    """Whether a compiled function is interpreted at first."""
    return hasattr(function, "tier")


def ahead_of(command: str | None) -> list[Call]:
    """What a second process translates for a command, while the first one runs it.

    First what the other has to wait for, beginning with what it comes to last; then what it interprets meanwhile,
    beginning with what does most. Of all that is listed it begins at the end, to meet the other, which translates it
    from the beginning: in the same order one would wait for the other at every function.
    """
    if command is None:
        return calls_of(None)[::-1]
    functions = [(_named(name), (name, arguments)) for name, arguments in calls_of(command)]
    waited_for = [call for function, call in functions if not is_tiered(function)]
    tiered = [(instructions_of(function), call) for function, call in functions if is_tiered(function)]
    tiered.sort(key=lambda one: -one[0])
    return [*waited_for[1:], *waited_for[:1], *(call for _, call in tiered)]


class Helper:
    """A process that translates what a command calls, while this one runs it."""

    def __init__(self, command: str | None) -> None:
        self.command = command
        self.process: subprocess.Popen | None = None

    def start(self, function: str) -> None:
        """Begin with the list that has a function, where that was not done before, if there is a second core."""
        if self.process is not None or (os.cpu_count() or 1) < 2:
            return
        name = None if self.command is None else list_of(self.command, function)
        if calls_of(name):
            command = [sys.executable, "-m", __name__, *([] if name is None else [name])]
            nowhere = subprocess.DEVNULL
            with suppress(OSError):  # no room for another process
                self.process = subprocess.Popen(command, stdin=nowhere, stdout=nowhere, stderr=nowhere)

    def end(self) -> None:
        """Leave the rest undone."""
        if self.process is not None:
            self.process.kill()  # it may have begun with signals blocked
            self.process.wait()


def main(arguments: Sequence[str]) -> None:
    """What the process of a `Helper` does; it ends with the process that began it, if not sooner."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends this process
    parent = os.getppid()
    for call in ahead_of(arguments[0] if arguments else None):
        if os.getppid() != parent:
            return  # it is gone
        translate(call)


if __name__ == "__main__":
    end_with(os.getppid())
    main(sys.argv[1:])

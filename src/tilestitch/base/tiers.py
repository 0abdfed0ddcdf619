"""When a function is interpreted, and when it is compiled.

Compiling a function of numbers and arrays takes seconds, and it must be done once on every machine. A small network
needs each function for a fraction of a second, even interpreted. So a function of this kind is interpreted until it
has taken as long as compiling it would; whoever compiles then has lost no more than half of the time. A version that
another process has compiled meanwhile is taken at once. Both give the same results to the bit: compiled code neither
reorders nor fuses operations on floats.
"""

from collections.abc import Callable
from functools import cached_property
from time import monotonic, thread_time
from types import FunctionType
from typing import Any

from numpy import errstate

# Measured with numba 0.67 on one core: 2.0 to 2.5 ms for the eight longest functions of `compile`, `map`, `simulate`.
SECONDS_PER_INSTRUCTION = 0.002
LOOK_AGAIN_S = 0.25  # looking for a version on disk takes 0.1 ms

_namespaces: dict[int, dict[str, Any]] = {}  # by the identity of a module's own: the same names, all interpreted


class Tier:
    """How much a function may still be interpreted.

    Args:
        function: As it was written.
        instructions: Counts those of its byte code and of all that it calls: how long compiling takes follows.
    """

    def __init__(self, function: Callable, instructions: Callable[[], int]) -> None:
        self._function = function
        self._instructions = instructions
        self._spent_s = 0.0
        self._next_look = 0.0

    @cached_property
    def _limit_s(self) -> float:
        """How long compiling takes. Known at the first call, when every name of the module has its value."""
        return self._instructions() * SECONDS_PER_INSTRUCTION

    @property
    def is_spent(self) -> bool:
        """Whether compiling pays now."""
        return self._spent_s >= self._limit_s

    def looks(self) -> bool:
        """Whether it is time to see if another process has compiled it."""
        now = monotonic()
        is_time = now >= self._next_look
        if is_time:
            self._next_look = now + LOOK_AGAIN_S
        return is_time

    def interpret(self, *arguments: Any) -> Any:
        """What the function gives."""
        began = thread_time()
        try:
            with errstate(all="ignore"):  # compiled code wraps around, and divides by zero, without a word
                return interpreted(self._function)(*arguments)
        finally:
            self._spent_s += thread_time() - began


def interpreted(function: Callable) -> Callable:
    """The function such that it, and whatever it calls, is interpreted."""
    return _namespace_of(function)[function.__name__]


def _namespace_of(function: Any) -> dict[str, Any]:
    """The names that a function sees, with each compiled function as it was written."""
    known = function.__globals__
    found = _namespaces.get(id(known))
    if found is None:
        found = _namespaces[id(known)] = dict(known)
        for name, value in known.items():
            written = getattr(value, "py_func", None)
            if written is not None:
                own = found if written.__globals__ is known else _namespace_of(written)
                found[name] = FunctionType(
                    written.__code__, own, written.__name__, written.__defaults__, written.__closure__
                )
    return found

"""Compiled code and interruptions."""

import signal
from typing import Any

import pytest
from numba.core.caching import FunctionCache

from tilestitch.base.jit import compiled

pytestmark = pytest.mark.quick


def test_an_interruption_waits_until_code_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a callback of LLVM it would be lost, and with it the code: now and then the process crashed."""
    loaded = []

    def load(cache: FunctionCache, *arguments: object) -> None:
        signal.raise_signal(signal.SIGINT)
        loaded.append(arguments)

    monkeypatch.setattr(FunctionCache, "load_overload", load)
    function: Any = compiled(lambda number: number + 1)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            function._cache.load_overload("int64")
    finally:
        signal.signal(signal.SIGINT, before)
    assert loaded == [("int64",)]

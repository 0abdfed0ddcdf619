"""Compiled code and interruptions."""

import importlib
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from numba.core.caching import FunctionCache

from tilestitch.base.jit import borrowing, compiled, contents_of, inlined, inner, lending, telling

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


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for modules of a test, first on the path; what was imported from it is forgotten afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    forget()


def forget() -> None:
    for name in ("deep_caller", "deep_callee", "deep_constant"):
        sys.modules.pop(name, None)


def compiled_with(modules: Path, constant: str) -> int:
    """The result of compiled code whose callee names a constant of a third module, imported anew."""
    (modules / "deep_constant.py").write_text(f"ALIGNMENT = {constant}\n")
    forget()
    importlib.invalidate_caches()
    return importlib.import_module("deep_caller").aligned(1)


@pytest.mark.parametrize("changed", ["256", "32.0", "(128, 0)[0]"])
def test_a_constant_that_changes_in_another_file_is_seen(modules: Path, changed: str) -> None:
    (modules / "deep_callee.py").write_text(
        "from tilestitch.base.jit import compiled\nfrom deep_constant import ALIGNMENT\n\n"
        "@compiled\ndef up(number):\n    return -(-number // ALIGNMENT) * ALIGNMENT\n"
    )
    (modules / "deep_caller.py").write_text(
        "from tilestitch.base.jit import compiled\nfrom deep_callee import up\n\n"
        "@compiled\ndef aligned(number):\n    return up(number)\n"
    )
    assert compiled_with(modules, "64") == 64
    assert compiled_with(modules, changed) == eval(changed)
    assert compiled_with(modules, "64") == 64
    kept = {file.name.split("-")[0] for file in modules.rglob("*.nbi")}
    assert kept == {"deep_caller.aligned", "deep_callee.up"}  # so nothing was right for want of a cache


def test_what_is_compiled_is_told_once(modules: Path) -> None:
    (modules / "deep_constant.py").write_text("ALIGNMENT = 64\n")
    (modules / "deep_callee.py").write_text(
        "from tilestitch.base.jit import compiled\nfrom deep_constant import ALIGNMENT\n\n"
        "@compiled\ndef up(number):\n    return -(-number // ALIGNMENT) * ALIGNMENT\n"
    )
    told: list[str] = []
    with telling(told.append, lambda _: None):
        forget()
        up = importlib.import_module("deep_callee").up
        assert (up(1), up(2)) == (64, 64)
        forget()
        assert importlib.import_module("deep_callee").up(3) == 64  # from disk
    assert told == ["deep_callee:up"]
    assert up(1.5) == 64.0
    assert told == ["deep_callee:up"]


def test_what_only_compiled_code_may_call_says_so(modules: Path) -> None:
    """There is no way in, and numba would jump there all the same; and what was kept with one is not taken."""
    for decorator in ("compiled", "inner", "compiled", "lending", "borrowing"):
        (modules / "deep_callee.py").write_text(
            f"from tilestitch.base.jit import {decorator}\n\n"
            f"@{decorator}\ndef next_to(number):\n    return number + 1\n"
        )
        (modules / "deep_caller.py").write_text(
            "from tilestitch.base.jit import compiled\nfrom deep_callee import next_to\n\n"
            "@compiled\ndef after(number):\n    return next_to(number) + 1\n"
        )
        forget()
        importlib.invalidate_caches()
        assert importlib.import_module("deep_caller").after(1) == 3
        next_to = importlib.import_module("deep_callee").next_to
        if decorator in ("compiled", "borrowing"):
            assert next_to(1) == 2
        else:
            with pytest.raises(TypeError, match="next_to is called by compiled code only"):
                next_to(1)


def test_how_a_function_is_kept_is_part_of_what_is_compiled() -> None:
    """Else the code of its callers from before would go on being used."""

    def up(number: int) -> int:
        return -(-number // 64) * 64

    digests = set()
    for kept in (lending, inlined, inner, borrowing):
        callee = kept(up)

        def caller(number: int, callee: Any = callee) -> int:
            return callee(number)

        digests.add(contents_of(caller))
    assert len(digests) == 4


def test_a_field_may_have_the_name_of_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """What that function is, such as a decorator, is no part of what is compiled: it may differ from run to run."""

    def reading() -> Callable:
        def read(pair: Any) -> int:
            return pair.inner + len(pair)

        return read

    before = contents_of(reading())
    monkeypatch.setitem(globals(), "inner", forget)
    assert contents_of(reading()) == before

"""Functions that are interpreted until compiling them pays."""

import importlib
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from numba import types

from tilestitch.base import tiers
from tilestitch.base.jit import telling
from tilestitch.cli.main import main

NAMES = ("tiered_caller", "tiered_callee")
CALLEE = """
from tilestitch.base.jit import compiled, inner, tiered

WIDTH = 3

@inner
def doubled(number):
    return 2 * number

@compiled
def next_to(number):
    return doubled(number) + WIDTH
"""
CALLER = """
import numpy as np
from tilestitch.base.jit import tiered
from tiered_callee import next_to

@tiered
def total(numbers):
    found = 0
    for index in range(len(numbers)):
        found += next_to(numbers[index])
    numbers[0] = -1
    return found

@tiered
def squared(numbers):
    return numbers[0] * numbers[0]
"""


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A function that is interpreted at first, and compiled ones that it calls, in two modules."""
    (tmp_path / "tiered_callee.py").write_text(CALLEE)
    (tmp_path / "tiered_caller.py").write_text(CALLER)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield
    forget()


def forget() -> None:
    for name in NAMES:
        sys.modules.pop(name, None)


def imported() -> tuple[ModuleType, ModuleType]:
    """The caller and the callee, as in a process that has just begun."""
    forget()
    importlib.invalidate_caches()
    caller, callee = (importlib.import_module(name) for name in NAMES)
    return caller, callee


def results_of(total: Any, calls: int) -> list[tuple[int, list[int]]]:
    """What each call gives, and what it leaves in its argument."""
    found = []
    for _ in range(calls):
        numbers = np.array([1, 2, 3])
        found.append((int(total(numbers)), numbers.tolist()))
    return found


RIGHT = (21, [-1, 2, 3])


def test_a_function_is_interpreted_while_that_costs_less(modules: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all that it calls: nothing is compiled, and who waits is told."""
    monkeypatch.setattr(tiers, "SECONDS_PER_INSTRUCTION", 1000)
    caller, callee = imported()
    compiled: list[str] = []
    interpreted: list[str] = []
    with telling(compiled.append, interpreted.append):
        assert results_of(caller.total, 3) == 3 * [RIGHT]
    assert (compiled, len(interpreted)) == ([], 3)
    assert not caller.total.overloads
    assert not callee.next_to.overloads


def test_it_is_compiled_when_it_has_cost_as_much(modules: None, monkeypatch: pytest.MonkeyPatch) -> None:
    caller, _ = imported()
    times = iter(range(0, 100, 10))
    monkeypatch.setattr(tiers, "thread_time", lambda: next(times))  # each call takes ten seconds
    monkeypatch.setattr(tiers, "SECONDS_PER_INSTRUCTION", 15 / caller.total.tier._instructions())
    compiled: list[str] = []
    interpreted: list[str] = []
    with telling(compiled.append, interpreted.append):
        assert results_of(caller.total, 5) == 5 * [RIGHT]
    told = [name.partition(":")[2] for name in compiled]
    assert (told, len(interpreted)) == (["total", "next_to", "doubled"], 2)


def test_what_another_process_compiled_is_taken(modules: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the first call, and later when it is time to look again."""
    monkeypatch.setattr(tiers, "SECONDS_PER_INSTRUCTION", 1000)
    monkeypatch.setattr(tiers, "LOOK_AGAIN_S", 0.0)
    waiting, _ = imported()
    assert results_of(waiting.total, 1) == [RIGHT]
    other, _ = imported()
    other.total.compile((types.Array(types.int64, 1, "C"),))
    assert not waiting.total.overloads
    assert results_of(waiting.total, 1) == [RIGHT]
    assert waiting.total.overloads
    third, _ = imported()
    assert results_of(third.total, 1) == [RIGHT]
    assert third.total.overloads


@pytest.mark.filterwarnings("error")
def test_arithmetic_wraps_around_as_in_compiled_code(modules: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nobody is warned of it."""
    monkeypatch.setattr(tiers, "SECONDS_PER_INSTRUCTION", 1000)
    caller, _ = imported()
    numbers = np.array([2**40 + 1])
    assert caller.squared(numbers) == 2**41 + 1
    assert not caller.squared.overloads


@pytest.mark.parametrize(
    "command",
    [
        "compile bert-base-8:small --machine toy",
        pytest.param("compile resnet18:small --machine stcp920 --batch 2", marks=pytest.mark.slow),
        pytest.param("simulate 'O[m,n] += A[m,k] * B[k,n]; m=12 n=6 k=8' --stats", marks=pytest.mark.slow),
        pytest.param("why resnet18:small --machine stcp920", marks=pytest.mark.slow),
    ],
)
def test_interpreted_and_compiled_code_give_the_same(command: str) -> None:
    """To the byte: whatever is compiled in this process, with nothing compiled at all."""
    compiled = CliRunner().invoke(main, shlex.split(command), prog_name="tilestitch")
    interpreted = subprocess.run(
        [sys.executable, "-m", "tilestitch", *shlex.split(command)],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert compiled.exit_code == 0
    assert interpreted.stdout == compiled.stdout != ""
    assert interpreted.stderr == ""

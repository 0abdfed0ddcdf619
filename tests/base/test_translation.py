"""Inner loops that are translated before they are called, by several processes."""

import os
import signal
import subprocess
import sys
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.helpers import translations
from tilestitch.base import translation
from tilestitch.base.jit import instructions_of
from tilestitch.base.translation import FILE, Helper, ahead_of, calls_of, spelled, type_of
from tilestitch.cli import main as cli

start = Helper.start  # before `conftest.py` takes it away


def test_types_are_read_as_they_were_written() -> None:
    """All that are listed, and every call once."""
    calls = calls_of(None)
    assert len({str(call) for call in calls}) == len(calls) > 10
    for _, arguments in calls:
        assert [spelled(type_of(one)) for one in arguments] == arguments
    assert type_of("float32 2 A readonly").mutable is False
    assert calls_of("models") == []


def test_the_command_translates_all_that_is_listed() -> None:
    result = CliRunner().invoke(cli.main, ["translate", "--quiet"], prog_name="tilestitch")
    assert (result.exit_code, result.output) == (0, "")
    for call in calls_of(None):
        assert tuple(map(type_of, call[1])) in function_of(call).overloads


def test_a_helper_begins_with_what_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """From its end; then what is interpreted, from the longest. And it ends when the process that began it is gone."""
    done: list[translation.Call] = []
    monkeypatch.setattr(translation, "translate", done.append)
    before = signal.getsignal(signal.SIGINT)
    try:
        translation.main(["map"])
        assert done == ahead_of("map") != []
        parents = iter((1, 1, 2, 2))
        monkeypatch.setattr(translation.os, "getppid", lambda: next(parents))
        translation.main(["map"])
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(done) == len(calls_of("map")) + 1
    assert sorted(map(str, ahead_of("map"))) == sorted(map(str, calls_of("map")))
    assert [translation.is_tiered(function_of(call)) for call in ahead_of("map")] == sorted(
        translation.is_tiered(function_of(call)) for call in calls_of("map")
    )
    lengths = [instructions_of(function_of(call)) for call in ahead_of("compile")]
    assert lengths == sorted(lengths, reverse=True)


def test_what_translates_all_is_helped_from_the_other_end() -> None:
    assert ahead_of(None) == calls_of(None)[::-1]


def function_of(call: translation.Call) -> Any:
    module, _, function = call[0].partition(":")
    return getattr(import_module(module), function)


def test_a_helper_takes_the_list_that_has_the_function() -> None:
    """The first function that is compiled tells arrays from trees."""
    assert translation.list_of("map", "tilestitch.mapping.walk:walk") == "map"
    assert translation.list_of("map", "tilestitch.mapping.tree.choice_walk:judged") == "map on a tree"
    assert translation.list_of("map", "tilestitch.no:such") == "map"
    assert calls_of("map on a tree")


TWICE = """
import sys
from tilestitch.base.jit import telling
with telling(print, print):
    import slow_to_compile
    print(slow_to_compile.outer(3), file=sys.stderr)
"""


def test_two_processes_translate_a_function_once(tmp_path: Path) -> None:
    """The second waits for the first, and loads what that compiled."""
    (tmp_path / "slow_to_compile.py").write_text(
        "from tilestitch.base.jit import compiled\n\n"
        "@compiled\ndef inside(number):\n    return max(number, 2)\n\n"
        "@compiled\ndef outer(number):\n    return inside(number) + 1\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(tmp_path), *sys.path))}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", TWICE], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    found = [one.communicate(timeout=120) for one in running]
    assert [error for _, error in found] == ["4\n", "4\n"]
    assert sorted("".join(told for told, _ in found).split()) == ["slow_to_compile:inside", "slow_to_compile:outer"]


def test_a_helper_ends_when_it_is_told() -> None:
    helper = Helper(None)
    start(helper, "tilestitch.sim.chip.timing:_run")
    process = helper.process
    if process is None:
        pytest.skip("one core only, so nobody helps")
    helper.end()
    assert process.returncode is not None


@pytest.mark.slow
def test_the_list_is_what_the_commands_call() -> None:
    """Recorded again, from empty caches. `python -m tests.helpers.translations` writes the list anew."""
    assert translations.text_of(translations.listed()) == files("tilestitch.base").joinpath(FILE).read_text()


def test_a_helper_ends_that_began_with_signals_blocked() -> None:
    """As one does that is begun while modules are imported: else it would be waited for to its end."""
    helper = Helper("map")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        helper.process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)"])
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    helper.end()
    assert helper.process.returncode == -signal.SIGKILL

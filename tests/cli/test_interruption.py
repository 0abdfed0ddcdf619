"""Ctrl-C and the order to end, at any moment: an exit code, a line, whole files or none, and nobody left behind."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tilestitch.base import interruption

START = "print('go', flush=True)\nfrom tilestitch.cli.start import main\nmain()"
STRATEGIES = ("--strategy", "layerwise", "--strategy", "graphturbo")
# The first is verified in two processes: its program has more than 5,000 instructions.
COMMANDS = (
    ("compile", "resnet18:small", "--machine", "toy", "--batch", "64", "--batch-per-cluster", "4", "--verify", "-o"),
    ("compare", "resnet18:small", "--machine", "toy", *STRATEGIES, "--verify", "-o"),
    ("models", "resnet18:small", "resnet50:small", "bert-base-8:small", "--write"),
)
FILES = (4, 10, 3)
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


def start(command: tuple[str, ...], folder: Path, **options) -> subprocess.Popen:
    """The command in a session of its own, from the moment at which Python runs."""
    arguments = [sys.executable, "-c", START, *command, str(folder)]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "start_new_session": True, **options}
    process = subprocess.Popen(arguments, **options)
    assert process.stdout is not None
    assert process.stdout.readline() == b"go\n"
    return process


def expect_alone(group: int) -> None:
    """No process of the group is left; the last one may take a moment."""
    for _ in range(100):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    os.killpg(group, signal.SIGKILL)
    pytest.fail("a process was left behind")


def interrupted(seed: int, folder: Path, seconds: tuple[float, ...]) -> None:
    """Run one command, interrupt it once, and see what is left."""
    rng = random.Random(seed)
    number, which = rng.randrange(len(COMMANDS)), rng.choice(list(CODES))
    process = start(COMMANDS[number], folder / "out")
    time.sleep(rng.uniform(0, 1.1 * seconds[number]))
    everybody = rng.random() < 0.5  # as a terminal sends Ctrl-C
    if process.poll() is None:
        (os.killpg if everybody else os.kill)(process.pid, which)
    _, complaint = process.communicate(timeout=120)
    assert b"Traceback" not in complaint, complaint.decode()
    assert b"Exception ignored" not in complaint, complaint.decode()
    written = sorted(path for path in folder.rglob("*") if path.is_file())
    assert not [path for path in written if path.name.endswith(".tmp")]
    if process.returncode == 0:
        assert len(written) == FILES[number]
    else:
        early = which == signal.SIGTERM and process.returncode == -which  # before anybody could catch it
        assert early or process.returncode == CODES[which], complaint.decode()
        assert complaint.strip() in (b"error: interrupted", b"error: terminated", b"")
        if COMMANDS[number][0] != "models":  # which writes one network after another
            assert len(written) in (0, FILES[number])
            assert written or not (folder / "out").exists()
    expect_alone(process.pid)


@pytest.fixture(scope="module")
def seconds(tmp_path_factory) -> tuple[float, ...]:
    """How long each command takes when nobody disturbs it."""
    found = []
    for number, command in enumerate(COMMANDS):
        folder = tmp_path_factory.mktemp("whole")
        process = start(command, folder)
        begin = time.perf_counter()
        _, complaint = process.communicate(timeout=300)
        found.append(time.perf_counter() - begin)
        assert process.returncode == 0, complaint.decode()
        assert len([path for path in folder.rglob("*") if path.is_file()]) == FILES[number]
        expect_alone(process.pid)
    return tuple(found)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_an_interruption_leaves_whole_files_or_none(tmp_path, seconds, seed):
    """Exit with 130 after Ctrl-C and 143 after SIGTERM, no traceback, no process of the verification left."""
    interrupted(seed, tmp_path, seconds)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 300))
def test_an_interruption_at_any_moment_leaves_whole_files_or_none(tmp_path, seconds, seed):
    """Spread over the whole run, the end of the process included."""
    interrupted(seed, tmp_path, seconds)


@pytest.mark.slow
def test_an_interrupted_bar_gives_the_cursor_back(tmp_path):
    """It is hidden while the bar moves."""
    ours, theirs = os.openpty()
    process = start(COMMANDS[0], tmp_path / "out", stderr=theirs)
    os.close(theirs)
    drawn: list[bytes] = []

    def drain() -> None:
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:
                return
            if not piece:
                return
            drawn.append(piece)
            if b"verif" in piece or b"execute" in piece or b"lower" in piece:
                drawing.set()

    drawing = threading.Event()
    reader = threading.Thread(target=drain)
    reader.start()
    assert drawing.wait(120)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    reader.join(timeout=60)
    os.close(ours)
    text = b"".join(drawn)
    assert process.returncode == 130
    assert text.rindex(b"\x1b[?25h") > text.rindex(b"\x1b[?25l")
    assert text.rstrip().endswith(b"error: interrupted")


@pytest.mark.parametrize(
    ("module", "waits"),
    [
        ("numba.core.typing", True),
        ("namedtuple_Result", True),
        ("pydantic._internal._generate_schema", True),
        ("tilestitch.pipeline.stages", False),
        ("joblib", False),
    ],
)
def test_an_interruption_waits_while_compiled_code_calls_python(monkeypatch, module, waits):
    """A failing constructor of a named tuple that compiled code gives back would crash the process."""
    again, raised = [], []
    monkeypatch.setattr(interruption, "_pending", {})
    monkeypatch.setattr(interruption, "come_again", lambda number, is_open: again.append(number))
    handler = interruption.between_compiled(lambda number, frame: raised.append(number))
    code = compile("handler(2, sys._getframe())", module, "exec")
    exec(code, {"__name__": module, "handler": handler, "sys": sys})
    assert (again, raised) == (([2], []) if waits else ([], [2]))


def test_an_interruption_that_waited_is_answered_behind_the_compiler(monkeypatch):
    """Between two functions little time passes: a signal that comes again now and then may never meet it."""
    monkeypatch.setattr(interruption, "_pending", {})
    monkeypatch.setattr(interruption, "come_again", lambda number, is_open: None)
    handler = interruption.between_compiled(signal.default_int_handler)
    reached = []

    def compiled() -> None:
        with interruption.compiling():
            exec("handler(2, sys._getframe())", {"__name__": "numba.core", "handler": handler, "sys": sys})
            reached.append(1)

    with pytest.raises(KeyboardInterrupt):
        compiled()
    assert reached == [1]
    with interruption.compiling():
        pass  # it was answered once


STUCK = r"""
import signal, sys, time
from contextlib import nullcontext
from tilestitch.base import interruption
from tilestitch.cli.start import _end_now
signal.signal(signal.SIGINT, interruption.between_compiled(signal.default_int_handler))
interruption.end_if_stuck(_end_now)
text = "print('go', flush=True); end = time.monotonic() + 4\nwhile time.monotonic() < end: time.sleep(0.01)"
try:
    with WAITS, interruption.compiling():
        exec(text, {"__name__": "numba.core.compiler", "time": time})
except KeyboardInterrupt:
    sys.exit(3)
"""


@pytest.mark.parametrize(("waits", "code"), [("nullcontext()", 130), ("interruption.answered_later()", 3)])
def test_an_interruption_does_not_wait_long_for_the_compiler(waits, code):
    """The process ends within a second, unless it does something else on an interruption."""
    arguments = [sys.executable, "-c", STUCK.replace("WAITS", waits)]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"go\n"
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (code, b"error: interrupted\n" if code == 130 else b"")
    assert code == 3 or time.monotonic() - begin < 3

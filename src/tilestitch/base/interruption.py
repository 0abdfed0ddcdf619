"""What must not be interrupted half-way."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from types import FrameType
from typing import Any, TypeVar

# Python that compiled code calls: numba and its compiler, and constructors of the named tuples that it takes and gives;
# pydantic, which makes an error of its own of an interruption while it builds a model.
_CALLED_BY_COMPILED = ("numba", "llvmlite", "namedtuple_", "pydantic")
_AGAIN_SECONDS = 0.01
_WATCH_SECONDS = 1.0
_STUCK_SECONDS = 0.7  # from a signal on, until a process ends in the middle of compiling
_ENDING = (signal.SIGINT, signal.SIGTERM)

_Result = TypeVar("_Result")
Handler = Callable[[int, FrameType | None], None]

_pending: dict[int, Handler] = {}  # signals that came while compiled code called Python


class TerminatedError(BaseException):
    """SIGTERM came. It unwinds as Ctrl-C does, so that no partial file stays."""


def between_compiled(handler: Handler) -> Handler:
    """A handler that raises, made to wait while compiled code calls Python, which crashes where that fails."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        if _called_by_compiled(frame):
            _pending[number] = handler
            come_again(number, lambda: number in _pending)
        else:
            _pending.pop(number, None)
            handler(number, frame)

    return on_signal


def come_again(number: int, is_open: Callable[[], bool] = lambda: True) -> None:
    """Send this process a signal a little later, if nobody has answered it by then."""

    def send() -> None:
        if is_open():
            os.kill(os.getpid(), number)

    later = threading.Timer(_AGAIN_SECONDS, send)
    later.daemon = True
    later.start()


class _Watch:
    """Ends the process where a signal comes while something is compiled, and stays without an answer."""

    def __init__(self, end: Callable[[int], None]) -> None:
        self._end = end
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._compiling = 0  # counts what is compiled; even where nothing is
        self.process = os.getpid()
        threading.Thread(target=self._run, name="signals", daemon=True).start()

    @contextmanager
    def compiling(self) -> Iterator[None]:
        before = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._compiling += 1
        try:
            yield
        finally:
            self._compiling += 1
            signal.set_wakeup_fd(before)

    def _run(self) -> None:
        while True:
            (number,) = os.read(self._read, 1)
            at = self._compiling
            if number not in _ENDING or at % 2 == 0:
                continue
            until = time.monotonic() + _STUCK_SECONDS
            while self._compiling == at and time.monotonic() < until:
                time.sleep(_AGAIN_SECONDS)
            if self._compiling == at and not _patient:
                self._end(number)


_end: Callable[[int], None] | None = None
_watch: _Watch | None = None  # from when something is compiled for the first time
_patient: list[None] = []  # an entry for each that does something else on an interruption than to end


def end_if_stuck(end: Callable[[int], None]) -> None:
    """From now on end the process by `end` if a signal has no answer soon while something is compiled.

    The compiler, most of which is not Python, may take many seconds for a function.
    """
    global _end
    _end = end


@contextmanager
def answered_later() -> Iterator[None]:
    """A block that an interruption ends, but not the process: the interruption waits for the compiler."""
    _patient.append(None)
    try:
        yield
    finally:
        _patient.pop()


@contextmanager
def compiling() -> Iterator[None]:
    """A block in which something is compiled; a signal that came in it is answered behind it."""
    global _watch
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    if _watch is None and _end is not None:
        _watch = _Watch(_end)
    with _watch.compiling() if _watch is not None and _watch.process == os.getpid() else nullcontext():
        yield
    for number in tuple(_pending):
        _pending.pop(number)(number, None)


def in_worker(function: Callable[..., _Result], *arguments: Any) -> _Result:
    """Call a function in a process whose parent ends it: an interruption of the whole group is the parent's to see."""
    with suppress(ValueError):  # not in the main thread, where nobody is interrupted
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return function(*arguments)


def with_parent() -> dict[str, Any]:
    """Options of `joblib.Parallel`: its processes end soon after this one, however it ends."""
    return {"initializer": end_with, "initargs": (os.getpid(),)}


def end_with(parent: int) -> None:
    """Watch a parent that may be killed: whoever is left would wait for work, and nobody could clean up behind it.

    What was shared is removed by joblib's tracker when the last process has ended. On Windows, where a process keeps
    the number of its parent, nothing is noticed.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_WATCH_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, name="parent", daemon=True).start()


def _called_by_compiled(frame: FrameType | None) -> bool:
    """Whether what runs, up to the first function of ours, may have been called by compiled code."""
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        if module.startswith(_CALLED_BY_COMPILED):
            return True
        if module.startswith("tilestitch"):
            return False
        frame = frame.f_back
    return False


@contextmanager
def undisturbed() -> Iterator[None]:
    """Signals that would end the command come after the block."""
    came: list[tuple[int, FrameType | None]] = []
    before = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(ValueError):  # not in the main thread, where nobody is interrupted
            before[number] = signal.signal(number, lambda *signalled: came.append(signalled))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for number, frame in came:
        handler = before[number]
        if callable(handler):
            handler(number, frame)

"""What must not be interrupted half-way."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, TypeVar

# Python that compiled code calls: numba and its compiler, and constructors of the named tuples that it takes and gives;
# pydantic, which makes an error of its own of an interruption while it builds a model.
_CALLED_BY_COMPILED = ("numba", "llvmlite", "namedtuple_", "pydantic")
_AGAIN_SECONDS = 0.01
_WATCH_SECONDS = 1.0

_Result = TypeVar("_Result")
Handler = Callable[[int, FrameType | None], None]


class TerminatedError(BaseException):
    """SIGTERM came. It unwinds as Ctrl-C does, so that no partial file stays."""


def between_compiled(handler: Handler) -> Handler:
    """A handler that raises, made to wait while compiled code calls Python, which crashes where that fails."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        if _called_by_compiled(frame):
            come_again(number)
        else:
            handler(number, frame)

    return on_signal


def come_again(number: int) -> None:
    """Send this process a signal a little later."""
    later = threading.Timer(_AGAIN_SECONDS, os.kill, (os.getpid(), number))
    later.daemon = True
    later.start()


def in_worker(function: Callable[..., _Result], *arguments: Any) -> _Result:
    """Call a function in a process whose parent ends it: an interruption of the whole group is the parent's to see."""
    with suppress(ValueError):  # not in the main thread, where nobody is interrupted
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return function(*arguments)


def with_parent() -> dict[str, Any]:
    """Options of `joblib.Parallel`: its processes end soon after this one, however it ends."""
    return {"initializer": _end_with, "initargs": (os.getpid(),)}


def _end_with(parent: int) -> None:
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

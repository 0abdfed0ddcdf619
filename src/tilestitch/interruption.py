"""What must not be interrupted half-way."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType


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

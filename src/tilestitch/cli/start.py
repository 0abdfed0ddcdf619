"""Where the command begins and ends: Ctrl-C is an exit with 130 while modules are imported, and nothing in the end."""

import gc
import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn

from tilestitch.base.interruption import TerminatedError, between_compiled, come_again, end_if_stuck

_INTERRUPTED, _TERMINATED = 130, 143
_SHOW_CURSOR = b"\r\x1b[2K\x1b[?25h"  # which bars of progress hide
_NEW_OBJECTS = 100_000  # between two searches for garbage in cycles, of which a command makes next to none


def main() -> NoReturn:
    """Run the command in this process, which it ends."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # closed, and the next file that is opened would be written to by whoever prints
            os.open(os.devnull, os.O_RDWR)
    sys.unraisablehook = _again
    gc.set_threshold(_NEW_OBJECTS)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # and not ignored
        signal.signal(signal.SIGINT, between_compiled(signal.default_int_handler))
        end_if_stuck(_end_now)
    try:
        from tilestitch.cli.main import main as command

        command(prog_name="tilestitch")
    except KeyboardInterrupt:  # while the command itself was imported, or said how it ended
        with suppress(OSError, ValueError, AttributeError):  # stderr may be closed
            sys.stderr.write("error: interrupted\n")
        sys.exit(_INTERRUPTED)
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # the interpreter is on its way out, and takes a while
        gc.freeze()  # else it looks for cycles among all that the command made, several times
    raise AssertionError("unreachable: the command exits")


def _end_now(number: int) -> None:
    """End in the middle of compiling, of which nothing stays."""
    name, code = ("interrupted", _INTERRUPTED) if number == signal.SIGINT else ("terminated", _TERMINATED)
    with suppress(OSError):
        os.write(2, (_SHOW_CURSOR if os.isatty(2) else b"") + f"error: {name}\n".encode())
    os._exit(code)


def _again(unraisable: "sys.UnraisableHookArgs") -> None:
    """A signal that came where Python can raise nothing, such as in a callback of the compiler, comes again."""
    if isinstance(unraisable.exc_value, KeyboardInterrupt):
        come_again(signal.SIGINT)  # at once it would be lost here again
    elif isinstance(unraisable.exc_value, TerminatedError):
        come_again(signal.SIGTERM)
    else:
        sys.__unraisablehook__(unraisable)

"""How the command ends: one line for an error, and an exit code that says whose fault it was (docs/report.md)."""

import errno
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import click

from tilestitch.base.errors import InvalidIR, TilestitchError, printable
from tilestitch.base.interruption import TerminatedError, between_compiled
from tilestitch.base.memory import is_shortage, shortage_text

SUCCESS, FAILURE, WRONG_INPUT, INTERRUPTED, BROKEN_PIPE, TERMINATED = 0, 1, 2, 130, 141, 143

SHOWN_CHARACTERS = 2000  # of one line of an error

BUG = "this is a bug of Tilestitch; please report it with the command and its input (--debug shows where it happened)"


@dataclass(slots=True)
class State:
    """What holds for a whole run of the command."""

    debug: bool = False


class Application(click.Group):
    """A group of commands, each of which returns its exit code or None."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> NoReturn:
        """Run a command, and exit."""
        state = State()
        for stream in (sys.stdout, sys.stderr):
            with suppress(AttributeError):  # a stream in memory, in tests
                stream.reconfigure(errors="backslashreplace")  # pyright: ignore[reportAttributeAccessIssue]
        before = None
        with suppress(ValueError):  # not in the main thread
            before = signal.signal(signal.SIGTERM, between_compiled(_on_sigterm))
        try:
            found = super().main(
                args,
                prog_name,
                complete_var,
                standalone_mode=False,
                windows_expand_args=windows_expand_args,
                obj=state,
                **extra,
            )
            if sys.stdout is not None:  # it may be closed
                sys.stdout.flush()
            code = found if isinstance(found, int) else SUCCESS
        except BaseException as error:
            code = _exit_code(error, sys.argv[1:] if args is None else args, debug=state.debug)
        finally:
            if before is not None:
                signal.signal(signal.SIGTERM, before)
        sys.exit(code)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; click would end with 1 where nobody reads its output any more."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise _ReaderGoneError from None


@contextmanager
def held_back() -> Iterator[None]:
    """Interruptions wait while compiled modules are imported, which an exception in between would crash or break."""
    held = {signal.SIGINT, signal.SIGTERM}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, held) if hasattr(signal, "pthread_sigmask") else None
    try:
        yield
    finally:
        if before is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _ReaderGoneError(Exception):
    """Whoever read stdout stopped reading."""


def _on_sigterm(number: int, frame: FrameType | None) -> None:
    raise TerminatedError


def complain(message: str) -> None:
    """An error, on stderr; what it quotes neither moves the cursor nor fills the screen."""
    lines = [printable(line, SHOWN_CHARACTERS) for line in message.split("\n")]
    with suppress(OSError):  # there may be nobody left to read it
        click.echo("error: " + "\n".join(lines), err=True)


def _exit_code(error: BaseException, words: Sequence[str], *, debug: bool) -> int:
    """Say what went wrong."""
    if debug:
        import traceback

        traceback.print_exception(error)
    match error:
        case SystemExit():
            raise error
        case click.Abort() | KeyboardInterrupt():
            complain("interrupted")
            return INTERRUPTED
        case TerminatedError():
            complain("terminated")
            return TERMINATED
        case click.exceptions.NoArgsIsHelpError():
            error.show()
            return WRONG_INPUT
        case click.UsageError():
            way_out = f" (see {error.ctx.command_path} --help)" if error.ctx is not None else ""
            complain(error.format_message().rstrip(".") + way_out)
            return WRONG_INPUT
        case click.ClickException():
            complain(error.format_message())
            return WRONG_INPUT
        case InvalidIR():
            complain(f"{error}\n{BUG}")
            return FAILURE
        case TilestitchError():
            complain(str(error))
            return WRONG_INPUT
        case _ReaderGoneError() | BrokenPipeError():
            _abandon_stdout()
            return BROKEN_PIPE
        case _ if is_shortage(error):
            complain(f"{shortage_text(error)}; {_less_memory(words)}")
            return WRONG_INPUT
        case OSError(errno=errno.ENOSPC, filename=None):
            _abandon_stdout()
            complain(f"standard output: {error.strerror}")
            return WRONG_INPUT
        case OSError():
            complain(f"{error.filename}: {error.strerror}" if error.filename is not None else str(error))
            return WRONG_INPUT
        case _:
            complain(f"{type(error).__name__}: {error}{_place_of(error)}\n{BUG}")
            return FAILURE


def _place_of(error: BaseException) -> str:
    """Where an error was raised, and which line of ours led there: it may not happen twice."""
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if Path(frame.filename).is_relative_to(Path(__file__).parents[1])]
    places = [f"{'/'.join(Path(one.filename).parts[-3:])}:{one.lineno}" for one in (*frames[-1:], *ours[-1:])]
    return f" ({', called by '.join(dict.fromkeys(places))})" if places else ""


def _less_memory(words: Sequence[str]) -> str:
    """What would take less than the command with these words."""
    given = [word.partition("=")[0] for word in words]
    ways = ["a smaller --batch"] if "--batch" in given else []
    ways += ["fewer --workers"] if "--workers" in given else []
    ways += ["no --verify"] if "--verify" in given else []
    return f"try {', '.join(ways or ['a smaller network'])}, or a computer with more"


def _abandon_stdout() -> None:
    """Let what is left in its buffer go nowhere: nobody reads it, or nothing more fits."""
    with suppress(OSError, ValueError, AttributeError):  # closed, or a stream in memory
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

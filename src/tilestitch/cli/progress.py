"""What is being done: a bar on the terminal. Elsewhere nothing, but for one line if code has to be translated first."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import click

from tilestitch.base.progress import Progress, quiet
from tilestitch.cli.application import held_back

TRANSLATING = "translating inner loops to machine code"
AHEAD = "'tilestitch translate' does it ahead"
_CALLS_AS: dict[str, str | None] = {  # commands that call what another one does, and one that calls everything
    "compare": "compile",
    "why": "compile",
    "validate": "simulate",
    "translate": None,
}


@contextmanager
def shown_progress(*, silent: bool) -> Iterator[Progress]:
    """A function to call with each step: it draws a bar on stderr, which is gone in the end.

    Where inner loops have to be translated first, a second process helps.
    """
    with ExitStack() as open_:
        if silent or sys.stderr is None:  # None where it is closed
            show = tell = quiet
        elif sys.stderr.isatty():
            show = tell = open_.enter_context(_bar())
        else:
            show, tell = quiet, _Line()
        open_.enter_context(_helped(tell))
        yield show


@contextmanager
def _bar() -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("start", total=None)

        def show(step: str, done: int, total: int) -> None:
            bars.update(task, description=step, completed=done, total=total if total > 1 else None)

        yield show


@contextmanager
def _helped(tell: Progress) -> Iterator[None]:
    """Say what is translated. A second process translates what comes later, or is interpreted meanwhile."""
    with held_back():
        from tilestitch.base.jit import telling
        from tilestitch.base.translation import Helper

    command = click.get_current_context().info_name or ""
    helper = Helper(_CALLS_AS.get(command, command))

    def translating(name: str) -> None:
        tell(f"{TRANSLATING}: {name.partition(':')[2]}", 0, 1)
        helper.start(name)

    try:
        with telling(translating, helper.start):
            yield
    finally:
        helper.end()


class _Line:
    """Says once that code is translated."""

    def __init__(self) -> None:
        self.said = False

    def __call__(self, step: str, done: int, total: int) -> None:
        if not self.said and sys.stderr is sys.__stderr__:
            self.said = True
            with suppress(OSError):  # there may be nobody left to read it
                print(f"{TRANSLATING}: half a minute, once for each command; {AHEAD}", file=sys.stderr)

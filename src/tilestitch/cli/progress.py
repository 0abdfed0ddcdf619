"""What is being done: a bar on the terminal. Elsewhere nothing, but for one line if code has to be translated first."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tilestitch.base.progress import Progress, quiet

TRANSLATING = "translating inner loops to machine code"


@contextmanager
def shown_progress(*, silent: bool) -> Iterator[Progress]:
    """A function to call with each step: it draws a bar on stderr, which is gone in the end."""
    if silent or sys.stderr is None:  # None where it is closed
        yield quiet
        return
    from tilestitch.base.jit import telling

    if not sys.stderr.isatty():
        with telling(_Line()):
            yield quiet
        return
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

        with telling(lambda name: show(f"{TRANSLATING}: {name}", 0, 1)):
            yield show


class _Line:
    """Says once that code is translated."""

    def __init__(self) -> None:
        self.said = False

    def __call__(self, name: str) -> None:
        if not self.said and sys.stderr is sys.__stderr__:
            self.said = True
            with suppress(OSError):  # there may be nobody left to read it
                print(f"{TRANSLATING}; this takes about a minute, and later runs skip it", file=sys.stderr)

"""What is being done, on the terminal; nothing where there is none."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tilestitch.base.progress import Progress, quiet


@contextmanager
def shown_progress(*, silent: bool) -> Iterator[Progress]:
    """A function to call with each step: it draws a bar on stderr, which is gone in the end."""
    if silent or sys.stderr is None or not sys.stderr.isatty():  # None where it is closed
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

        yield show

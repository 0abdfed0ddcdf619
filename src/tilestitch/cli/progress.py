"""What is being done, on the terminal; nothing where there is none."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[str, int, int], None]  # step, done, total


@contextmanager
def shown_progress(*, quiet: bool) -> Iterator[Progress]:
    """A function to call with each step: it draws a bar on stderr, which is gone in the end."""
    if quiet or sys.stderr is None or not sys.stderr.isatty():  # None where it is closed
        yield _nothing
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("start", total=None)

        def show(step: str, done: int, total: int) -> None:
            bars.update(task, description=step, completed=done, total=total if total > 1 else None)

        yield show


def _nothing(step: str, done: int, total: int) -> None:
    pass

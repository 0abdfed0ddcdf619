"""Tables of plain text."""

from collections.abc import Sequence
from io import StringIO

Row = Sequence[str]


def title(text: str, underline: str = "-") -> list[str]:
    """A line, and one under it."""
    return [text, underline * len(text)]


def table(head: Row | None, rows: Sequence[Row], align: str, *, gap: int = 3) -> list[str]:
    """Columns aligned to the left or right, `l` or `r` for each, every line indented by two."""
    from rich.console import Console  # most of what a compilation imports for text that nobody may ask for
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, show_header=head is not None, pad_edge=False, padding=(0, gap, 0, 0))
    for name, side in zip(head if head is not None else [""] * len(align), align, strict=True):
        grid.add_column(Text(name), justify="right" if side == "r" else "left", no_wrap=True)
    for row in rows:
        grid.add_row(*(Text(cell) for cell in row))
    # as wide as need be, without colour, whatever the terminal and the environment say
    console = Console(
        file=StringIO(),
        width=400,
        height=100,
        color_system=None,
        force_terminal=False,
        legacy_windows=False,
        _environ={},
    )
    with console.capture() as captured:
        console.print(grid)
    return ["  " + line.rstrip() for line in captured.get().splitlines()]

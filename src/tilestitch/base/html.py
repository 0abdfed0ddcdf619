"""Values as HTML for a notebook: headings, tables, pictures, and text as it is printed; all that is text is escaped."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import TypeAlias

Cell: TypeAlias = bool | int | float | str | None
Record: TypeAlias = Mapping[str, Cell]  # the columns of a row by name, with their units

MOST_ROWS = 30
MOST_LINES = 400  # of text
_STYLE = (
    ":root { color-scheme: light dark; font-family: sans-serif; } body { margin: 1.5rem; } "
    "h4 { font-size: 1.3rem; margin: 1.5rem 0 1rem; } body > div > div, pre { overflow-x: auto; } "
    "table { border-collapse: collapse; margin-bottom: 1.5rem; display: block; overflow-x: auto; } "
    "th, td { border-bottom: 1px solid #8886; padding: 0.25rem 0.8rem; white-space: nowrap; }"
)


def page_html(heading: str, records: Sequence[Record], pictures: Sequence[str], text: str) -> str:
    """A heading, a table of the first records, pictures in SVG, and the text, which opens on a click."""
    parts = [f"<h4>{escape(heading)}</h4>"]
    if records:
        parts.append(table_html(records))
    parts += [f"<div>{picture.strip()}</div>" for picture in pictures]
    lines = text.splitlines()
    if len(lines) > 1:
        shown = lines[:MOST_LINES]
        if len(lines) > MOST_LINES:
            shown.append(f"... {len(lines) - MOST_LINES:,} more lines")
        parts.append(f"<details><summary>as text</summary><pre>{escape(chr(10).join(shown))}</pre></details>")
    return "\n".join(["<div>", *parts, "</div>"]) + "\n"


def document_html(title: str, bodies: Sequence[str]) -> str:
    """A file that opens by itself: what `page_html` gives of some values, one below another."""
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f"<style>{_STYLE}</style>",
            "</head>",
            "<body>",
            *(body.strip() for body in bodies),
            "</body>",
            "</html>",
        ]
    )


def table_html(records: Sequence[Record]) -> str:
    """The first records, each a row, under the names of all their columns; then how many more there are."""
    columns = list(dict.fromkeys(name for record in records for name in record))
    head = "".join(f"<th>{escape(name.replace('_', ' '))}</th>" for name in columns)
    rows = ["<tr>" + "".join(_cell(record.get(name)) for name in columns) + "</tr>" for record in records[:MOST_ROWS]]
    if len(records) > MOST_ROWS:
        rows.append(f'<tr><td colspan="{len(columns)}">... {len(records) - MOST_ROWS:,} more</td></tr>')
    return "\n".join(["<table>", f"<thead><tr>{head}</tr></thead>", "<tbody>", *rows, "</tbody>", "</table>"])


def _cell(value: Cell) -> str:
    if value is None:
        return "<td></td>"
    if isinstance(value, bool | str):
        return f'<td style="text-align: left">{escape(str(value))}</td>'
    shown = f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
    return f'<td style="text-align: right">{shown}</td>'

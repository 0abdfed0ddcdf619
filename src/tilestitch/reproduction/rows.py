"""One published value beside ours, and all of them as a table and as JSON."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from tilestitch.base.html import Record
from tilestitch.base.shown import Shown
from tilestitch.report.table import table, title

LARGE = 1e12  # from here on numbers are shown with an exponent
CLOSE = 0.3  # relative difference up to which a value that need not match is called close

Value = float | int | str | None


@dataclass(frozen=True, slots=True)
class Row:
    """A published value beside ours.

    `ok` is whether they agree: equal where they must, or within the tolerance that the source names where a number is
    read off a figure; within 30 % or inside a published range where they need not; None where one is missing.
    """

    what: str
    source: str
    published: Value
    ours: Value
    ratio: float | None  # ours / published, of numbers
    must_match: bool
    ok: bool | None
    why: str  # what is wrong with the published value, or why ours differs; often nothing


@dataclass(frozen=True, slots=True, repr=False)
class Reproduction(Shown):
    """The rows of one publication."""

    name: str
    rows: tuple[Row, ...]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> Row:
        return self.rows[number]

    @property
    def wrong(self) -> tuple[Row, ...]:
        """Those that must match and do not."""
        return tuple(row for row in self.rows if row.must_match and not row.ok)

    def __str__(self) -> str:
        return rows_text(self.heading(), self.rows)

    def to_json(self) -> str:
        """What `tilestitch reproduce --json` writes."""
        return rows_json(self.rows)

    def heading(self) -> str:
        """Which publication."""
        return f"{self.name}: published and ours"

    def records(self) -> tuple[Record, ...]:
        """Every row."""
        return tuple(asdict(row) for row in self.rows)


def exact(what: str, source: str, published: Value, ours: Value, why: str = "") -> Row:
    """A row that must match."""
    return Row(what, source, published, ours, _ratio(published, ours), True, published == ours, why)


def close(what: str, source: str, published: Value, ours: Value, why: str = "") -> Row:
    """A row that need not match: a measurement beside a simulation, or a number read off a figure."""
    ratio = _ratio(published, ours)
    return Row(what, source, published, ours, ratio, False, None if ratio is None else abs(ratio - 1) <= CLOSE, why)


def near(what: str, source: str, published: float, ours: float, tolerance: float, why: str = "") -> Row:
    """A row that must match up to a relative difference, which `source` says: numbers read off a figure."""
    return Row(what, source, published, ours, ours / published, True, abs(ours / published - 1) <= tolerance, why)


def rows_json(rows: Sequence[Row]) -> str:
    """`{"rows": [...]}`, each row with the fields of `Row`."""
    return json.dumps({"rows": [asdict(row) for row in rows]}, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def rows_text(heading: str, rows: Sequence[Row]) -> str:
    """A table for each source, with the reasons below it."""
    lines = title(heading, "=")
    for source in dict.fromkeys(row.source for row in rows):
        lines += ["", *title(source)]
        reasons: dict[str, int] = {}
        cells = []
        for row in rows:
            if row.source == source:
                note = f"[{reasons.setdefault(row.why, len(reasons) + 1)}]" if row.why else ""
                ratio = "" if row.ratio is None else f"{row.ratio:.2f} x"
                cells.append((row.what, _shown(row.published), _shown(row.ours), ratio, _verdict(row), note))
        lines += table(("", "published", "ours", "ratio", "", ""), cells, "lrrrll")
        lines += [f"  [{number}] {why}" for why, number in reasons.items()]
    must = [row for row in rows if row.must_match]
    matching = sum(row.ok is True for row in must)
    lines += ["", f"{matching} of {len(must)} rows that must match do."]
    return "\n".join(lines) + "\n"


def _ratio(published: Value, ours: Value) -> float | None:
    if isinstance(published, str) or isinstance(ours, str) or published is None or ours is None or published == 0:
        return None
    return ours / published


def _verdict(row: Row) -> str:
    if row.must_match:
        return "matches" if row.ok else "DOES NOT MATCH"
    return "" if row.ok is None else "close" if row.ok else "apart"


def _shown(value: Value) -> str:
    if value is None:
        return "-"
    if isinstance(value, float) and abs(value) >= LARGE:
        return f"{value:.6e}"
    return (
        f"{value:,.4g}"
        if isinstance(value, float) and abs(value) < 10_000
        else f"{value:,.0f}"
        if isinstance(value, float)
        else str(value)
    )

"""Two runs side by side as text."""

from collections.abc import Callable, Sequence

from tilestitch.base.errors import printable
from tilestitch.base.units import counted, format_bytes, format_energy, format_seconds
from tilestitch.commands.diff.compared import Change, Differences, Figure, OperatorChange
from tilestitch.commands.diff.saved import SavedOperator, SavedReport, SavedSubGraph
from tilestitch.report.table import table, title

TOP = 12  # operators in each table
_NAME_CHARACTERS = 34
_TEXT_CHARACTERS = 60
_SUB_GRAPHS = 8


def diff_text(found: Differences) -> str:
    """What is faster, where the bytes went, which decisions differ, and the operators that changed most."""
    a, b = found.a, found.b
    sections = [
        [*title(heading(found), "="), f"A  {_named(a)}", f"B  {_named(b)}", verdict(found)],
        [*title("Numbers of both"), *_figures(found.figures)],
        _changes("Settings that differ", found.settings, "the same in both"),
        [*title("Where the bytes went: ports of one cluster, a batch (simulated)"), *_figures(found.traffic)],
        _changes("Decisions that differ, of one iteration (decided)", found.decisions, "the same in both"),
        *_sub_graphs(found),
        _operators("Operators whose occupied cycles changed most (simulated)", found, lambda one: one.cycles),
        _operators("Operators whose DDR traffic changed most (simulated)", found, lambda one: one.ddr_bytes),
    ]
    note = "  An operator is occupied while any of its instructions runs; times of several operators overlap."
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + f"\n{note}\n"


def heading(found: Differences) -> str:
    """What is compared, in one line."""
    a, b = found.a, found.b
    name = a.network if a.network == b.network else f"{a.network} and {b.network}"
    machine = a.machine if a.machine == b.machine else f"{a.machine} and {b.machine}"
    strategy = a.strategy if a.strategy == b.strategy else f"{a.strategy} and {b.strategy}"
    return f"{_short(name, 80)} on {machine}, {strategy}: differences"


def verdict(found: Differences) -> str:
    """Which one is faster, by how much: the time of a sample where the batches differ."""
    a, b = found.a, found.b
    if a.batch == b.batch and a.latency_seconds == b.latency_seconds:
        return "Both have the same latency (simulated)."
    ratio = b.samples_per_second / a.samples_per_second
    what = "latency" if a.batch == b.batch else "throughput, of batches that differ"
    if ratio == 1:
        return f"Both have the same {what} (simulated)."
    faster, slower = ("B", "A") if ratio > 1 else ("A", "B")
    return f"{faster} is {max(ratio, 1 / ratio):,.3f} x as fast as {slower} ({what}, simulated)."


def figure_text(value: float, unit: str) -> str:
    """A number with its unit."""
    match unit:
        case "s":
            return format_seconds(value)
        case "bytes":
            return format_bytes(int(value))
        case "pJ":
            return format_energy(value)
        case "% of latency":
            return f"{value:.1f} %"
        case _:
            shown = f"{int(value):,}" if value == int(value) else f"{value:,.2f}"
            return f"{shown} {unit}".strip()


def ratio_text(figure: Figure) -> str:
    """How much larger the second one is."""
    return "" if figure.ratio is None else f"{figure.ratio:,.3f} x"


def _named(report: SavedReport) -> str:
    batch = f"batch {report.batch:,}"
    return f"{_short(report.where, _TEXT_CHARACTERS)}: {report.machine}, strategy {report.strategy}, {batch}"


def _figures(figures: Sequence[Figure]) -> list[str]:
    rows = [
        (
            figure.what,
            figure_text(figure.a, figure.unit),
            figure_text(figure.b, figure.unit),
            ratio_text(figure),
            f"({figure.origin})",
        )
        for figure in figures
    ]
    return table(("", "A", "B", "B / A", ""), rows, "lrrrl")


def _changes(name: str, changes: Sequence[Change], nothing: str) -> list[str]:
    if not changes:
        return [*title(name), f"  {nothing}"]
    rows = [(one.what, _short(one.a, _TEXT_CHARACTERS), _short(one.b, _TEXT_CHARACTERS)) for one in changes]
    return [*title(name), *table(("", "A", "B"), rows, "lll")]


def _sub_graphs(found: Differences) -> list[list[str]]:
    """Those whose operators are no sub-graph of the other run."""
    sections: list[list[str]] = []
    for run, rows in (("A", found.only_a), ("B", found.only_b)):
        if rows:
            shown = rows[:_SUB_GRAPHS]
            cells = [(_short(one.name, _NAME_CHARACTERS), counted(one.pieces, "piece"), _ends(one)) for one in shown]
            more = [f"  ... {len(rows) - len(shown):,} more"] if len(shown) < len(rows) else []
            sections.append([*title(f"Sub-graphs of {run} alone (decided)"), *table(None, cells, "lrl"), *more])
    return sections


def _ends(sub_graph: SavedSubGraph) -> str:
    first, last, count = sub_graph.operators[0], sub_graph.operators[-1], len(sub_graph.operators)
    if count == 1:
        return _short(first, _NAME_CHARACTERS)
    return f"{_short(first, _NAME_CHARACTERS)} to {_short(last, _NAME_CHARACTERS)}, {counted(count, 'operator')}"


def _operators(name: str, found: Differences, amount: Callable[[OperatorChange], int]) -> list[str]:
    changed = sorted((one for one in found.operators if amount(one)), key=lambda one: -abs(amount(one)))
    if not changed:
        return [*title(name), "  the same in both"]
    rows = [
        (
            _short(one.name, _NAME_CHARACTERS),
            *(_cycles(side) for side in (one.a, one.b)),
            f"{one.cycles:+,}",
            *(_bytes(side) for side in (one.a, one.b)),
            _signed_bytes(one.ddr_bytes),
            decided_text(one),
        )
        for one in changed[:TOP]
    ]
    head = ("operator", "A cycles", "B cycles", "change", "A DDR", "B DDR", "change", "decided differently")
    more = [f"  ... {len(changed) - TOP:,} more"] if len(changed) > TOP else []
    return [*title(name), *table(head, rows, "lrrrrrrl", gap=2), *more]


def decided_text(one: OperatorChange) -> str:
    """Which decisions about an operator differ."""
    if one.a is None or one.b is None:
        return f"in {'B' if one.a is None else 'A'} alone"
    return ", ".join(change.what for change in one.decided)


def _cycles(one: SavedOperator | None) -> str:
    return "-" if one is None else f"{one.occupied_cycles:,}"


def _bytes(one: SavedOperator | None) -> str:
    return "-" if one is None else format_bytes(one.ddr_bytes)


def _signed_bytes(count: int) -> str:
    return ("+" if count > 0 else "") + format_bytes(count)


def _short(name: str, characters: int) -> str:
    return printable(name, characters)

"""Two runs side by side as JSON."""

from collections.abc import Sequence

from tilestitch.base.json_values import Json, document, plain
from tilestitch.commands.diff.compared import Change, Differences, Figure, OperatorChange
from tilestitch.commands.diff.diff_text import heading, verdict
from tilestitch.commands.diff.saved import SavedReport


def diff_json(found: Differences) -> str:
    """Everything that the text says, and every operator, of the format `tilestitch.diff`."""
    return document("diff", diff_tree(found))


def diff_tree(found: Differences) -> dict[str, Json]:
    """The same as what JSON can hold."""
    return {
        "heading": heading(found),
        "verdict": verdict(found),
        "a": _run(found.a),
        "b": _run(found.b),
        "figures": _figures(found.figures),
        "traffic": _figures(found.traffic),
        "settings": _changes(found.settings),
        "decisions": _changes(found.decisions),
        "sub_graphs": {"a": plain(found.a.sub_graphs), "b": plain(found.b.sub_graphs)},
        "sub_graphs_of_one": {
            "a": [one.name for one in found.only_a],
            "b": [one.name for one in found.only_b],
        },
        "operators": [_operator(one) for one in found.operators],
    }


def _run(report: SavedReport) -> Json:
    return {
        "file": report.where,
        "network": report.network,
        "machine": report.machine,
        "strategy": report.strategy,
        "batch": report.batch,
        "latency_cycles": report.latency_cycles,
        "latency_seconds": report.latency_seconds,
    }


def _figures(figures: Sequence[Figure]) -> Json:
    return [
        {"what": one.what, "unit": one.unit, "origin": one.origin, "a": one.a, "b": one.b, "ratio": one.ratio}
        for one in figures
    ]


def _changes(changes: Sequence[Change]) -> Json:
    return [{"what": one.what, "a": one.a, "b": one.b} for one in changes]


def _operator(one: OperatorChange) -> Json:
    return {
        "name": one.name,
        "kind": one.kind,
        "a": None if one.a is None else plain(one.a),
        "b": None if one.b is None else plain(one.b),
        "more_cycles": one.cycles,
        "more_ddr_bytes": one.ddr_bytes,
        "decided": _changes(one.decided),
    }

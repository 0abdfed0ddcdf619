"""One HTML file with everything in it: it opens from disk, and asks nobody for anything."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files

from tilestitch.base.json_values import Json
from tilestitch.ir.report import Misfit, Report
from tilestitch.report.html.contents import SimulatedRun, contents
from tilestitch.report.html.packing import packed
from tilestitch.report.report_text import compare_text, report_text


@dataclass(frozen=True, slots=True)
class Origin:
    """How a page was made."""

    command: str  # that makes it again
    options: tuple[tuple[str, str], ...]  # that somebody may choose, with what was chosen
    versions: tuple[tuple[str, str], ...]  # of the programs that it was made with


@dataclass(frozen=True, slots=True)
class Result:
    """What a command other than compile and compare found."""

    kind: str  # the command
    title: str
    text: str  # what the command prints
    report: Json  # what its JSON says
    drawn: Mapping[str, Json]  # what the page draws besides, by name
    runs: tuple[str, ...] = field(default=())  # of packed columns


def run_page(results: Sequence[SimulatedRun | Misfit], origin: Origin) -> str:
    """The page of one network by one or several strategies, at least one of which fits; the same each time."""
    runs = [result for result in results if isinstance(result, SimulatedRun)]
    texts = [packed(*contents(run)) for run in runs]
    reports = [result.report if isinstance(result, SimulatedRun) else result for result in results]
    text = report_text(runs[0].report) if len(results) == 1 else compare_text(reports)
    return _filled(_summary(reports, origin), text, texts, "page.js")


def result_page(result: Result, origin: Origin) -> str:
    """The page of a result; the same each time."""
    summary: dict[str, Json] = {
        "kind": result.kind,
        "title": result.title,
        **_made(origin),
        "report": result.report,
        **result.drawn,
    }
    return _filled(summary, result.text, result.runs, "results.js")


def _summary(results: Sequence[Report | Misfit], origin: Origin) -> dict[str, Json]:
    reports = [result for result in results if isinstance(result, Report)]
    first = reports[0]
    place = {id(report): number for number, report in enumerate(reports)}
    by = f"by {first.strategy}" if len(results) == 1 else "strategies compared"
    return {
        "title": f"{first.network} on {first.machine}, batch {first.batch:,}, {by}",
        **_made(origin),
        "strategies": [
            {"strategy": result.strategy, "does_not_fit": None, "report": place[id(result)]}
            if isinstance(result, Report)
            else {"strategy": result.strategy, "does_not_fit": result.reason, "report": -1}
            for result in results
        ],
        "compared": [
            {
                "strategy": report.strategy,
                "latency_cycles": report.latency_cycles,
                "latency_seconds": report.latency_seconds,
                "speed_up": first.latency_cycles / report.latency_cycles,
                "latency_to_bound": report.ratio_to_bound,
                "ddr_bytes": report.ddr_bytes,
                "energy_pj": report.total_energy_pj,
                "verification": report.verdict,
            }
            for report in reports
        ],
    }


def differences_page(summary: Mapping[str, Json], text: str) -> str:
    """The page of two runs side by side; `text` is the same for who has no JavaScript."""
    return _filled({**summary, "title": summary["heading"]}, text, (), "diff.js")


def _made(origin: Origin) -> dict[str, Json]:
    return {
        "command": origin.command,
        "options": [list(option) for option in origin.options],
        "versions": [list(version) for version in origin.versions],
    }


def _filled(summary: Mapping[str, Json], text: str, runs: Sequence[str], script: str) -> str:
    """The page: what it says without JavaScript, what is packed, and the code that draws it."""
    parts = {
        "title": escape(str(summary["title"])),
        "style": _part("page.css"),
        "text": escape(text),
        # In a script element only `<` could end it, or begin what is none.
        "summary": json.dumps(summary, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"),
        "runs": "\n".join(
            f'<script type="text/plain" id="run-{number}">{run}</script>' for number, run in enumerate(runs)
        ),
        "script": _part(script),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place.group(1)], _part("page.html"))


def _part(name: str) -> str:
    return files("tilestitch.report.html").joinpath(name).read_text(encoding="utf-8")

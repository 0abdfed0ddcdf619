"""Two reports of one network side by side."""

from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tilestitch.api import shown
from tilestitch.base.errors import InputError, printable
from tilestitch.base.html import Record
from tilestitch.base.shown import Shown, as_kind
from tilestitch.base.text_files import file_text
from tilestitch.commands.diff.compared import Differences, OperatorChange, differences
from tilestitch.commands.diff.diff_json import diff_json, diff_tree
from tilestitch.commands.diff.diff_text import decided_text, diff_text, heading
from tilestitch.commands.diff.saved import SavedOperator, SavedReport, expect_same_network, saved_report
from tilestitch.pipeline.compilation import Compilation
from tilestitch.pipeline.origin import versions
from tilestitch.report.html.page import differences_page

MOST_BYTES = 2**28  # of a report

Reported: TypeAlias = str | Path | Compilation


@dataclass(frozen=True, repr=False)
class Diff(Differences, Shown):
    """What differs between two runs of one network; A is the first one, B the second."""

    def __str__(self) -> str:
        return diff_text(self)

    def to_json(self) -> str:
        """What `tilestitch diff --json` writes."""
        return diff_json(self)

    def to_html(self, command: str = "") -> str:
        """What `tilestitch diff --html` writes: a page to look at; `command` is said to make it again."""
        if not command:
            command = f"tilestitch.diff({self.a.where!r}, {self.b.where!r}).to_html()"
        made = {"command": command, "versions": [list(one) for one in versions()]}
        return differences_page({**diff_tree(self), **made}, str(self))

    def heading(self) -> str:
        """Network, machines and strategies."""
        return heading(self)

    def records(self) -> tuple[Record, ...]:
        """Every operator."""
        return tuple(_record(one) for one in self.operators)


def diff(a: Reported, b: Reported) -> Diff:
    """Set two runs of one network side by side: files of `compile --json`, or what `compile` gave.

    Raises `InputError` for what is no report of this version, and for reports of different networks.
    """
    first, second = _report(a, "a"), _report(b, "b")
    expect_same_network(first, second)
    return as_kind(Diff, differences(first, second))


def _report(given: Reported, name: str) -> SavedReport:
    if isinstance(given, Compilation):
        return saved_report(given.to_json(), f"{given.loaded.name} by {given.run.strategy}")
    if not isinstance(given, str | Path):
        raise InputError(f"{name}: expected the path of a report or what compile gave, found {shown(given)}")
    return saved_report(file_text(given, "JSON", MOST_BYTES), printable(str(given)))


def _record(one: OperatorChange) -> Record:
    def side(name: str, found: SavedOperator | None) -> Record:
        return {
            f"{name}_occupied_cycles": None if found is None else found.occupied_cycles,
            f"{name}_ddr_bytes": None if found is None else found.ddr_bytes,
            f"{name}_cores": None if found is None else found.cores,
        }

    return {
        "operator": one.name,
        "kind": one.kind,
        **side("a", one.a),
        **side("b", one.b),
        "more_cycles": one.cycles,
        "more_ddr_bytes": one.ddr_bytes,
        "decided_differently": decided_text(one),
    }

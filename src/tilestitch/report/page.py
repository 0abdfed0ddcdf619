"""A report that prints itself: as a page, as JSON, as a table."""

from dataclasses import dataclass

from tilestitch.ir.report import Report
from tilestitch.report.report_json import report_json
from tilestitch.report.report_text import report_text


@dataclass(frozen=True, repr=False)
class ReportPage(Report):
    """A report with its page and its JSON."""

    def page(self) -> str:
        """What the command compile prints."""
        return report_text(self)

    def to_json(self) -> str:
        """What `tilestitch compile --json` writes, but for its groups `operators` and `decisions`."""
        return report_json(self)

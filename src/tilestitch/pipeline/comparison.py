"""Several strategies for one network, side by side."""

from collections.abc import Iterator
from dataclasses import dataclass

from tilestitch.base.html import Record
from tilestitch.base.shown import Shown
from tilestitch.ir.report import Misfit
from tilestitch.pipeline.compilation import Compilation, given
from tilestitch.report.page import ReportPage
from tilestitch.report.report_json import compare_json
from tilestitch.report.report_text import compare_text


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """What each strategy came to, in their order; at least one fits the machine, and all that fit are simulated."""

    results: tuple[Compilation | Misfit, ...]

    def __iter__(self) -> Iterator[Compilation | Misfit]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, number: int) -> Compilation | Misfit:
        return self.results[number]

    @property
    def fitting(self) -> tuple[Compilation, ...]:
        """Those that the machine is large enough for."""
        return tuple(one for one in self.results if isinstance(one, Compilation))

    @property
    def reports(self) -> tuple[ReportPage, ...]:
        """Of those that fit."""
        return tuple(given(one.report) for one in self.fitting)

    def __str__(self) -> str:
        return compare_text(self._rows())

    def to_json(self) -> str:
        """What `tilestitch compare --json` writes."""
        return compare_json(self._rows())

    def to_html(self, command: str = "") -> str:
        """What `tilestitch compare --html` writes: one page of all strategies; `command` is said to make it again."""
        from tilestitch.pipeline.origin import call_text, origin_of
        from tilestitch.report.html.page import run_page

        first = self.fitting[0]
        if not command:
            names = [one.strategy for one in self._rows()]
            command = call_text("compare", first.loaded.name, first.machine.name, names, first.options)
        results = [one if isinstance(one, Misfit) else one.simulated_run() for one in self.results]
        return run_page(results, origin_of(first.options, command))

    def heading(self) -> str:
        """Network, machine and batch."""
        first = self.reports[0]
        return f"{first.network} on {first.machine}, batch {first.batch:,}: strategies compared"

    def records(self) -> tuple[Record, ...]:
        """A row for each strategy; the first that fits is the one that speed-ups refer to."""
        first = self.reports[0].latency_cycles
        return tuple(
            {"strategy": one.strategy, "does_not_fit": one.reason}
            if isinstance(one, Misfit)
            else {
                "strategy": one.strategy,
                "latency_cycles": one.latency_cycles,
                "latency_seconds": one.latency_seconds,
                "speed_up": first / one.latency_cycles,
                "latency_to_bound": one.ratio_to_bound,
                "ddr_bytes": one.ddr_bytes,
                "energy_pj": one.total_energy_pj,
                "kernels": len(one.kernels),
                "instructions": one.instructions,
            }
            for one in self._rows()
        )

    def _rows(self) -> list[ReportPage | Misfit]:
        return [one if isinstance(one, Misfit) else given(one.report) for one in self.results]

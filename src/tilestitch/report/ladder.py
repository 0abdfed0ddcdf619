"""Many strategies, one a row: what each step buys, and where that shows."""

from collections.abc import Sequence
from itertools import pairwise

from tilestitch.base.errors import printable
from tilestitch.base.units import format_bytes, format_energy, format_seconds
from tilestitch.ir.report import Misfit, Report, misfit_lines
from tilestitch.report.table import Row, table, title


def ladder_text(results: Sequence[Report | Misfit]) -> str:
    """Strategies as rows, in the order given; a step is the speed-up over the row before, of those that fit."""
    reports = [result for result in results if isinstance(result, Report)]
    misfits = [result for result in results if isinstance(result, Misfit)]
    first = reports[0]
    before = {one.strategy: other for other, one in pairwise(reports)}

    def times(result: Report | Misfit) -> Row:
        name = printable(result.strategy)
        if isinstance(result, Misfit):
            return (name, "does not fit", *("-" for _ in range(7)))
        step = before.get(result.strategy, result).latency_cycles / result.latency_cycles
        return (
            name,
            format_seconds(result.latency_seconds),
            f"{step:,.2f} x",
            f"{first.latency_cycles / result.latency_cycles:,.2f} x",
            f"{result.ratio_to_bound:,.2f} x",
            f"{result.clusters} x {result.iterations} x {result.batch_per_iteration}",
            f"{len(result.kernels):,}",
            format_energy(result.total_energy_pj),
            result.verdict,
        )

    def causes(report: Report) -> Row:
        busy = {row.kind: row.busy_cycles / report.latency_cycles for row in report.engines}
        bytes_of = {row.level: row.size_bytes for row in report.traffic}
        counts = " / ".join(f"{row.count:,}" for row in report.places)
        return (
            printable(report.strategy),
            format_bytes(report.ddr_bytes),
            f"{report.ddr_bytes / report.compulsory_bytes:,.2f} x",
            *(format_bytes(bytes_of[level]) if level in bytes_of else "-" for level in ("gb", "lb")),
            counts,
            *(
                f"{busy[kind]:.1%}".replace("%", " %") if kind in busy else "-"
                for kind in ("matrix", "vector", "dma_in")
            ),
        )

    what = f"{printable(first.network)} on {printable(first.machine)}, batch {first.batch}: strategies compared"
    times_head = ("", "latency", "step", "in all", "/ bound", "split", "kernels", "energy", "verification")
    causes_head = (
        "",
        "DDR",
        "/ compulsory",
        "GB",
        "LB",
        "stay: ddr / gb / lb",
        "matrix busy",
        "vector busy",
        "dma in busy",
    )
    lines = [
        *title(what, "="),
        "Latency and energy are simulated; a step is the speed-up over the row before; the bound is the largest one of",
        "the latency; split is clusters x iterations x samples of one.",
        "",
        *table(times_head, list(map(times, results)), "lrrrrrrrr"),
        *(f"  {printable(line)}" for line in misfit_lines(misfits)),
        "",
        *title("What changes: bytes of a cluster, where results stay, how long engines are occupied (simulated)"),
        *table(causes_head, list(map(causes, reports)), "lrrrrrrrr"),
    ]
    notes = [f"  {printable(note)}" for report in reports for note in report.notes if note.startswith(report.strategy)]
    return "\n".join([*lines, *notes]) + "\n"

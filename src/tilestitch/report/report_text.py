"""A report as a page for people, and several strategies side by side; plain ASCII but for names of the network.

Every title says where its numbers come from: (simulated) was measured on the simulated machine, (estimated) is what
the search believed, (bound) is what no schedule can beat.
"""

from collections.abc import Callable, Sequence

from tilestitch.base.units import counted, format_bytes, format_energy, format_seconds
from tilestitch.ir.report import STEPS, CheckRow, KernelRow, Misfit, Outcome, Report, misfit_lines
from tilestitch.ir.trace import Trace
from tilestitch.report.beside_text import beside_lines
from tilestitch.report.ladder import ladder_text
from tilestitch.report.search_text import search_lines
from tilestitch.report.table import Row
from tilestitch.report.table import table as _table
from tilestitch.report.table import title as _title

_NAME_CHARACTERS = 34
_KIND_CHARACTERS = 24
_WORK = ("MACs", "a cycle", "of peak", "matrix", "vector", "est.")
_WORK_IS = (
    "  of peak: multiply-accumulates on matrix units beside what all of these could do; matrix, vector: how long units",
    "  are occupied, whether or not all of a unit works; est.: estimated / simulated time.",
)
_GENERIC_SHOWN = 12
_COLUMNS = 3  # strategies side by side


def report_text(report: Report, *, top: int = 12) -> str:
    """The page of one report; `top` kernels have a line of their own, the others share one."""
    sections = (
        [*_header(report), *report.notes],
        *([_generic(report)] if report.generic_operators else []),
        _times(report),
        _bounds(report),
        *([] if report.beside is None else [beside_lines(report.beside)]),
        *([] if report.searched is None else [search_lines(report, report.searched)]),
        _checks(report),
        _kernels(report, top),
        _kinds(report),
        _places(report),
        _traffic(report),
        _engines(report),
        _energy(report),
    )
    return "\n\n".join("\n".join(lines) for lines in sections) + "\n"


def compare_text(results: Sequence[Report | Misfit]) -> str:
    """Strategies for the same network, machine and batch; speed-ups are relative to the first that fits.

    A few are columns, with all that is known; of more each is a row, with what it gains over the row before.
    """
    if len(results) > _COLUMNS:
        return ladder_text(results)
    reports = [result for result in results if isinstance(result, Report)]
    misfits = [result for result in results if isinstance(result, Misfit)]
    first = reports[0]

    def row(name: str, cell: Callable[[Report], str], misfit: str = "-") -> Row:
        return (name, *(cell(one) if isinstance(one, Report) else misfit for one in results))

    rows: list[Row] = [
        row("latency (simulated)", lambda r: format_seconds(r.latency_seconds), "does not fit"),
        row(f"speed-up over {first.strategy}", lambda r: _ratio(first.latency_cycles, r.latency_cycles)),
        row("throughput (simulated)", lambda r: _rate(r.throughput_per_second)),
    ]
    if first.batches > 1:
        rows.append(row(f"sustained over {first.batches} batches (simulated)", lambda r: _rate(r.sustained_per_second)))
    rows += [
        row("latency / compute roofline (bound)", lambda r: _ratio(r.latency_cycles, r.compute_bound_cycles)),
        row("latency / attainable (bound)", lambda r: _ratio(r.latency_cycles, r.attainable_bound_cycles)),
        row("latency / compulsory traffic (bound)", lambda r: _ratio(r.latency_cycles, r.traffic_bound_cycles)),
        row("latency / largest bound", lambda r: _ratio(r.latency_cycles, r.bound_cycles)),
        row("DDR traffic of a cluster (simulated)", lambda r: format_bytes(r.ddr_bytes)),
        row("DDR traffic / compulsory (bound)", lambda r: _ratio(r.ddr_bytes, r.compulsory_bytes)),
        row("energy of a cluster (simulated)", lambda r: format_energy(r.total_energy_pj)),
        row("kernels", lambda r: f"{len(r.kernels):,}"),
        row("instructions of a cluster", lambda r: f"{r.instructions:,}"),
        row("clusters x iterations x samples", _split),
        row("verification", lambda r: r.verdict),
    ]
    if any(r.generic_operators for r in reports):
        rows.append(row("generic operators, not independently verified", lambda r: f"{len(r.generic_operators):,}"))
    title = f"{_printable(first.network)} on {_printable(first.machine)}, batch {first.batch}: strategies compared"
    names = [_printable(result.strategy) for result in results]
    lines = [*_title(title, "="), *_table(["", *names], rows, "l" + "r" * len(names))]
    return "\n".join([*lines, *(f"  {_printable(line)}" for line in misfit_lines(misfits))]) + "\n"


def trace_text(trace: Trace, *, limit: int | None = None) -> str:
    """When the instructions started and ended, in cycles; at most `limit` of them."""
    program, ticks = trace.program, trace.ticks_per_cycle
    shown = len(program) if limit is None else min(limit, len(program))
    lines = [f"trace of {counted(len(program), 'instruction')}, {trace.latency_cycles:,} cycles (simulated)"]
    columns = (program.engine, program.kernel, program.operator, trace.start_ticks, trace.end_ticks)
    for number, (engine, kernel, operator, start, end) in enumerate(
        zip(*(column[:shown].tolist() for column in columns), strict=True)
    ):
        what = f" {program.operators[operator]}" if operator >= 0 else ""
        lines.append(
            f"  {number:6d} {program.engines[engine].name:10s} {_cycles(start, ticks)} to {_cycles(end, ticks)}  "
            f"{program.kernels[kernel]}{what}"
        )
    if shown < len(program):
        lines.append(f"  ... {len(program) - shown:,} more")
    return "\n".join(lines)


def _header(report: Report) -> list[str]:
    title = f"{_printable(report.network)} on {_printable(report.machine)}, strategy {_printable(report.strategy)}"
    work = (
        f"batch {report.batch:,}: {counted(report.clusters, 'cluster')}, "
        f"{counted(report.iterations, 'iteration')} each, "
        f"{counted(report.batch_per_iteration, 'sample')} an iteration; {counted(len(report.kernels), 'kernel')}; "
        f"clock {report.clock_hz / 1e6:,.6g} MHz"
    )
    lines = [*_title(title, "="), work]
    if report.clusters_simulated < report.clusters:
        stand = "which stands" if report.clusters_simulated == 1 else "which stand"
        lines.append(f"{counted(report.clusters_simulated, 'cluster')} simulated, {stand} for all of them.")
    if report.batch_per_cluster * report.clusters != report.batch:
        lines.append(
            f"{report.batch:,} samples do not divide evenly; a cluster takes up to {report.batch_per_cluster:,}."
        )
    return lines


def _generic(report: Report) -> list[str]:
    """Operators whose value is not ours, so that the verification below says nothing about them."""
    count = len(report.generic_operators)
    shown = report.generic_operators[:_GENERIC_SHOWN]
    rows = [(_short(row.name, _NAME_CHARACTERS), row.operator, f"value from {row.evaluator}") for row in shown]
    more = [f"  ... {count - len(shown):,} more"] if len(shown) < count else []
    return [
        *_title(f"Operators: {report.own_operators:,} by rules of their own, {count:,} generic"),
        "  Generic, not independently verified; one core, one operation for each element of a result:",
        *_table(None, rows, "lll"),
        *more,
    ]


def _times(report: Report) -> list[str]:
    rows: list[Row] = [
        (
            "latency",
            format_seconds(report.latency_seconds),
            f"{report.latency_cycles:,} cycles",
            "of one cold batch: everything starts in DDR",
        ),
        ("throughput", _rate(report.throughput_per_second), "", "batch / latency"),
    ]
    if report.batches > 1:
        seconds = report.sustained_cycles_per_batch / report.clock_hz
        rows.append(
            (
                "sustained",
                format_seconds(seconds),
                f"{report.sustained_cycles_per_batch:,.0f} cycles",
                f"a batch, over {report.batches} batches back to back",
            )
        )
        rows.append(("", _rate(report.sustained_per_second), "", ""))
    return [*_title("Time (simulated)"), *_table(None, rows, "lrrl")]


def _bounds(report: Report) -> list[str]:
    def row(name: str, cycles: int, rests_on: str) -> Row:
        seconds = cycles / report.clock_hz
        largest = ", the largest bound" if cycles == report.bound_cycles else ""
        return (
            name,
            format_seconds(seconds),
            f"{cycles:,} cycles",
            _ratio(report.latency_cycles, cycles),
            rests_on + largest,
        )

    executed, compulsory = sum(kernel.macs for kernel in report.kernels), format_bytes(report.compulsory_bytes)
    rows = [
        row("compute roofline", report.compute_bound_cycles, "units at their peak"),
        row("attainable", report.attainable_bound_cycles, "best tiles on these units"),
        row("compulsory traffic", report.traffic_bound_cycles, f"{compulsory} of DDR traffic"),
    ]
    return [
        *_title("What no schedule can beat (bound)"),
        *_table(["", "time", "", "latency / bound", "rests on"], rows, "lrrrl"),
        f"  DDR traffic of a cluster: {format_bytes(report.ddr_bytes)} (simulated), "
        f"{_ratio_of(report.ddr_bytes, report.compulsory_bytes)}the compulsory {compulsory} (bound).",
        f"  MACs of a cluster: {_scaled(executed)} (simulated), {_ratio_of(executed, report.macs)}the "
        f"{_scaled(report.macs)} of the network (bound).",
    ]


def _checks(report: Report) -> list[str]:
    lines = _title("Verification: the program's outputs against onnxruntime's")
    if not report.checks:
        return [*lines, "  not verified"]
    rows = [
        (
            check.precision,
            f"error {check.error:.2e}",
            f"allowed {check.allowed:.2e}",
            "no proof" if check.outcome is Outcome.INCONCLUSIVE else check.outcome.upper(),
            f"{check.decided:,} of {check.compared:,} values decided",
            f"worst output: {_short(check.output, _NAME_CHARACTERS)}",
        )
        for check in report.checks
    ]
    lines += [*_table(None, rows, "llllll"), "  Errors are relative to the largest magnitude of the output."]
    lines += [f"  {_each_value(check)}" for check in report.checks if check.failed and not check.ratio <= 1]
    lines += [f"  Disputed: {_printable(check.dispute)}." for check in report.checks if check.dispute]
    lines += [f"  {_inconclusive(check)}" for check in report.checks if check.outcome is Outcome.INCONCLUSIVE]
    if any(check.precision == STEPS for check in report.checks):
        lines.append("  Steps: the share of quantised elements, each computed from onnxruntime's own, one step off.")
    return lines


def _kernels(report: Report, top: int) -> list[str]:
    slowest = sorted(report.kernels, key=lambda kernel: -kernel.cycles)  # stable: ties stay in order
    shown, others = slowest[:top], slowest[top:]
    rows = [_kernel_cells(report, [kernel], kernel.name, _operators(kernel), f"{kernel.cores}") for kernel in shown]
    if others:
        rows.append(_kernel_cells(report, others, f"{len(others):,} more", "", ""))
    rows.append(_kernel_cells(report, list(report.kernels), "all", "", ""))
    head = ["kernel", "operators", "time", "share", "DDR", "cores", *_WORK]
    return [
        *_title("Where the time goes: the slowest kernels (simulated)"),
        *_table(head, rows, "llrrrrrrrrrr", gap=2),
        *_WORK_IS,
    ]


def _kinds(report: Report) -> list[str]:
    """Kernels by the kinds of their operators: what runs together is timed together."""
    alike: dict[tuple[str, ...], list[KernelRow]] = {}
    for kernel in report.kernels:
        alike.setdefault(kernel.kinds, []).append(kernel)
    slowest = sorted(alike.items(), key=lambda item: -sum(kernel.cycles for kernel in item[1]))
    rows = [
        _kernel_cells(report, kernels, _short(" + ".join(kinds), 2 * _KIND_CHARACTERS), None, f"{len(kernels):,}")
        for kinds, kernels in slowest
    ]
    head = ["operators of the kernel", "time", "share", "DDR", "kernels", *_WORK]
    return [
        *_title("By kinds of operators that run together (simulated)"),
        *_table(head, rows, "lrrrrrrrrrr", gap=2),
    ]


def _kernel_cells(report: Report, kernels: Sequence[KernelRow], name: str, operators: str | None, count: str) -> Row:
    """One line for one or more kernels together; shares are of their own spans, of all kernels of the latency."""
    cycles = sum(kernel.cycles for kernel in kernels)
    spans = cycles if len(kernels) == len(report.kernels) else sum(kernel.span_cycles for kernel in kernels)
    return (
        name,
        *(() if operators is None else (operators,)),
        format_seconds(cycles / report.clock_hz),
        _share(cycles, report.latency_cycles),
        format_bytes(sum(kernel.ddr_read_bytes + kernel.ddr_written_bytes for kernel in kernels)),
        count,
        _scaled(sum(kernel.macs for kernel in kernels)),
        f"{sum(kernel.macs for kernel in kernels) / spans:,.1f}" if spans else "",
        _share(sum(kernel.matrix_peak_cycles for kernel in kernels), spans),
        _share(sum(kernel.matrix_busy_cycles for kernel in kernels), spans),
        _share(sum(kernel.vector_busy_cycles for kernel in kernels), spans),
        _ratio(sum(kernel.estimated_cycles for kernel in kernels), spans),
    )


def _operators(kernel: KernelRow) -> str:
    first, *others = kernel.operators
    more = f" +{len(others)}" if others else ""
    return _short(first, _NAME_CHARACTERS - len(more)) + more


def _places(report: Report) -> list[str]:
    rows = [(row.level, f"{row.count:,}", format_bytes(row.size_bytes)) for row in report.places if row.count]
    return [
        *_title("Where results stay until the last kernel that reads them, an iteration (decided)"),
        *_table(["", "results", "bytes"], rows, "lrr"),
    ]


def _traffic(report: Report) -> list[str]:
    rows = [
        (
            row.level,
            f"{row.ports:,}",
            format_bytes(row.size_bytes),
            _share(row.busy_cycles, report.sustained_cycles_per_batch),
        )
        for row in report.traffic
    ]
    return [
        *_title("Where the bytes go: ports of one cluster, a batch (simulated)"),
        *_table(["", "ports", "bytes, bursts included", "port occupied"], rows, "lrrr"),
    ]


def _engines(report: Report) -> list[str]:
    rows = [
        (row.kind, f"{row.count:,}", f"{row.instructions:,}", _share(row.busy_cycles, report.latency_cycles))
        for row in report.engines
    ]
    return [
        *_title("Engines of one cluster (simulated)"),
        *_table(["", "engines", "instructions", "engine occupied"], rows, "lrrr"),
    ]


def _energy(report: Report) -> list[str]:
    total = report.total_energy_pj
    rows: list[Row] = [(part, format_energy(value), _share(value, total)) for part, value in report.energy_pj]
    rows.append(("all", format_energy(total), _share(total, total)))
    rows.append(("a sample", format_energy(total / report.batch_per_cluster), ""))
    return [
        *_title("Energy of one cluster, a batch (simulated bytes and arithmetic x the machine's energy for each)"),
        *_table(None, rows, "lrr"),
    ]


def _split(report: Report) -> str:
    return f"{report.clusters} x {report.iterations} x {report.batch_per_iteration}"


def _each_value(check: CheckRow) -> str:
    """Why a check failed where the largest magnitude of the output would hide it."""
    name = f"'{_short(check.output, _NAME_CHARACTERS)}'"
    return f"{check.precision}: a value of {name} is {check.ratio:.3g} times as far off as rounding explains."


def _inconclusive(check: CheckRow) -> str:
    """Why a check proves nothing."""
    if check.allowed < 1:
        share = f"{100 * check.decided / max(1, check.compared):.3g} %"
        return f"{check.precision} decides {share} of the values only: rounding could hide an error in the others."
    name = f"'{_short(check.output, _NAME_CHARACTERS)}'"
    lost = f"{100 * check.lost:.3g} % of {name} become infinite or NaN"
    reason = lost if check.lost else f"rounding costs {name} a quarter or more"
    return f"{check.precision} cannot carry this network, tiled or not: {reason}."


def _ratio(value: float, base: float) -> str:
    return f"{value / base:,.2f} x" if base else "-"


def _ratio_of(value: float, base: float) -> str:
    """How many times the base, before its name; nothing where the base is none: `0 (simulated), the 0 (bound)`."""
    return f"{_ratio(value, base)} " if base else ""


def _share(value: float, whole: float) -> str:
    return f"{100 * value / whole:.1f} %" if whole else "-"


def _rate(per_second: float) -> str:
    return f"{per_second:,.2f} samples/s"


def _cycles(ticks: int, ticks_per_cycle: int) -> str:
    """Whole cycles as they are; instructions end on whole cycles."""
    return f"{ticks / ticks_per_cycle:,.10g}" if ticks % ticks_per_cycle else f"{ticks // ticks_per_cycle:,}"


def _scaled(count: int) -> str:
    """`1234567` -> `1.23 M`."""
    for power, prefix in ((12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if count >= 10**power:
            return f"{count / 10**power:,.2f} {prefix}"
    return f"{count:,}"


def _printable(name: str) -> str:
    """A name from the user's file without what would move the cursor."""
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in name)


def _short(name: str, characters: int) -> str:
    """The name, or its ends: exporters put what differs at the end."""
    name = _printable(name)
    if len(name) <= characters:
        return name
    head = (characters - 3) // 3
    return f"{name[:head]}...{name[-(characters - 3 - head) :]}"

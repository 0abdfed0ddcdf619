"""A gap for people: a table of its parts, where the large ones are, and the longest waits."""

from fractions import Fraction

from tilestitch.base.errors import printable
from tilestitch.base.units import counted, rounded, tenths
from tilestitch.commands.why.explain import Explanation
from tilestitch.ir.gap import MEANINGS, PORT, Gap
from tilestitch.report.table import table, title

_NAME_CHARACTERS = 40


def why_text(found: Explanation) -> str:
    """Everything that is shown of a gap."""
    report, gap, taken = found.report, found.gap, found.blame
    where = f"{printable(report.network)} on {printable(report.machine)}, strategy {printable(report.strategy)}"
    lines = title(f"{where}, batch {report.batch:,}: why not faster", "=")
    unit = f'the {PORT}, "it" below'
    if taken.unit != PORT:
        unit = f'the mean of {counted(len(taken.lanes), taken.unit[:-1])}, "it" below'
    lines += [
        f"{gap.what}: {_cycles(gap.latency_cycles)} cycles (simulated), {_cycles(gap.bound_cycles)} of which the bound "
        f"counts; the gap is {_cycles(gap.gap_cycles)}.",
        f"Times are those of {unit}.",
        "",
        *title("The gap"),
        *_parts(gap),
    ]
    for kind in ("operator", "sub-graph"):
        rows = _heaviest(found, kind)
        if rows:
            lines += ["", *title(f"The heaviest {kind}s of each part"), *table(None, rows, "llrr")]
    if found.waits:
        lines += ["", *title("The longest waits"), *_waits(found)]
    return "\n".join(lines) + "\n"


def _parts(gap: Gap) -> list[str]:
    total = round(gap.gap_cycles)
    cycles = dict(zip((one.part for one in gap.parts), rounded([p.cycles for p in gap.parts], total), strict=True))
    whole = gap.gap_cycles or Fraction(1)  # of none the parts are no share
    shares = dict(zip(cycles, tenths([100 * part.cycles / whole for part in gap.parts]), strict=True))
    rows = [
        (
            str(one.part),
            f"{cycles[one.part]:,}",
            f"{float(shares[one.part]):.1f} %",
            *(_share(some, gap.gap_cycles) for some in (one.setup_cycles, one.sharing_cycles, one.room_cycles)),
            MEANINGS[one.part],
        )
        for one in sorted(gap.parts, key=lambda one: -one.cycles)
    ]
    rows.append(("all", f"{total:,}", _share(gap.gap_cycles, gap.gap_cycles), "", "", "", ""))
    head = ("part", "cycles", "of the gap", "in set-up", "at ports", "for room", "")
    lines = table(head, rows, "lrrrrrl", gap=2)
    if gap.ends:
        ends = sorted(gap.ends, key=lambda one: -one[1])
        lines.append(f"  At start and end it waits for {', '.join(f'{part} {_cycles(some)}' for part, some in ends)}.")
    return lines


def _heaviest(found: Explanation, kind: str) -> list[tuple[str, str, str, str]]:
    rows: list[tuple[str, str, str, str]] = []
    for heavy in found.heaviest:
        if heavy.kind == kind:
            first = not rows or all(row[0] != str(heavy.part) for row in rows)
            of_part = _share(heavy.cycles, found.gap.cycles(heavy.part))
            rows.append((str(heavy.part) if first else "", _short(heavy.name), _cycles(heavy.cycles), of_part))
    return rows


def _waits(found: Explanation) -> list[str]:
    rows = [
        (
            wait.unit,
            f"{wait.begin_cycle:,}",
            f"{wait.end_cycle - wait.begin_cycle:,}",
            str(wait.part),
            _short(wait.waiting),
            _short(wait.waited_for),
        )
        for wait in found.waits
    ]
    return table(("unit", "from cycle", "cycles", "part", "before", "waits for"), rows, "lrrlll", gap=2)


def _cycles(cycles: Fraction) -> str:
    return f"{round(cycles):,}"


def _share(some: Fraction, whole: Fraction) -> str:
    return f"{float(100 * some / whole):.1f} %" if whole and some else ""


def _short(name: str) -> str:
    return printable(name, _NAME_CHARACTERS)

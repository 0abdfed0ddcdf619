"""What differs between two runs of one network."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilestitch.base.shown import Brief
from tilestitch.base.units import counted, format_bytes
from tilestitch.commands.diff.saved import SavedOperator, SavedReport, SavedSubGraph

INSIDE = "inside its kernel"  # where a result that does not leave it is


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of both runs."""

    what: str
    unit: str
    origin: str  # simulated, bound or decided
    a: float
    b: float

    @property
    def ratio(self) -> float | None:
        """b / a, None where a is 0."""
        return self.b / self.a if self.a else None


@dataclass(frozen=True, slots=True)
class Change:
    """A setting or a decision that is not the same, as text."""

    what: str
    a: str
    b: str


@dataclass(frozen=True, slots=True)
class OperatorChange:
    """An operator of one run or of both, and which decisions about it differ."""

    name: str
    kind: str
    a: SavedOperator | None
    b: SavedOperator | None
    decided: tuple[Change, ...]

    @property
    def cycles(self) -> int:
        """How many more cycles it is occupied in the second run."""
        return _cycles(self.b) - _cycles(self.a)

    @property
    def ddr_bytes(self) -> int:
        """How many more bytes of DDR traffic it has in the second run."""
        return _ddr_bytes(self.b) - _ddr_bytes(self.a)


@dataclass(frozen=True, repr=False)
class Differences(Brief):
    """Two runs of one network, number by number and decision by decision."""

    a: SavedReport
    b: SavedReport
    figures: tuple[Figure, ...]
    traffic: tuple[Figure, ...]  # bytes through the ports of each level
    settings: tuple[Change, ...]  # what was asked for
    decisions: tuple[Change, ...]  # of the whole network
    only_a: tuple[SavedSubGraph, ...]  # whose operators are no sub-graph of the other run
    only_b: tuple[SavedSubGraph, ...]
    operators: tuple[OperatorChange, ...]  # in the order of the first run, then those of the second alone


def differences(a: SavedReport, b: SavedReport) -> Differences:
    """Everything that differs between two runs of one network."""
    only_a, only_b = _others(a, b), _others(b, a)
    return Differences(
        a,
        b,
        _figures(a, b),
        _traffic(a, b),
        _settings(a, b),
        _decisions(a, b, only_a, only_b),
        only_a,
        only_b,
        _operators(a, b),
    )


def _figures(a: SavedReport, b: SavedReport) -> tuple[Figure, ...]:
    def figure(what: str, unit: str, origin: str, of: Callable[[SavedReport], float]) -> Figure:
        return Figure(what, unit, origin, of(a), of(b))

    kinds = list(dict.fromkeys(one.kind for report in (a, b) for one in report.engines))
    return (
        figure("latency", "s", "simulated", lambda one: one.latency_seconds),
        figure("latency", "cycles", "simulated", lambda one: one.latency_cycles),
        figure("throughput", "samples/s", "simulated", lambda one: one.samples_per_second),
        figure("largest bound", "cycles", "bound", lambda one: one.bound_cycles),
        figure("latency / largest bound", "", "simulated / bound", lambda one: one.latency_cycles / one.bound_cycles),
        figure("DDR traffic of a cluster", "bytes", "simulated", lambda one: one.ddr_bytes),
        figure("multiply-accumulates of a cluster", "MACs", "simulated", lambda one: one.macs),
        figure("energy of a cluster", "pJ", "simulated", lambda one: one.energy_pj),
        figure("instructions of a cluster", "", "simulated", lambda one: one.instructions),
        figure("kernels", "", "decided", lambda one: one.kernels),
        *(
            figure(f"{kind} engines occupied", "% of latency", "simulated", lambda one, kind=kind: _occupied(one, kind))
            for kind in kinds
        ),
    )


def _occupied(report: SavedReport, kind: str) -> float:
    return 100 * sum(one.busy_cycles for one in report.engines if one.kind == kind) / report.latency_cycles


def _traffic(a: SavedReport, b: SavedReport) -> tuple[Figure, ...]:
    first, second = ({one.level: one.size_bytes for one in report.traffic} for report in (a, b))
    return tuple(
        Figure(level, "bytes", "simulated", first.get(level, 0), second.get(level, 0))
        for level in dict.fromkeys((*first, *second))
    )


def _settings(a: SavedReport, b: SavedReport) -> tuple[Change, ...]:
    rows: Sequence[tuple[str, Callable[[SavedReport], object]]] = (
        ("network", lambda one: one.network),
        ("machine", lambda one: one.machine),
        ("clock", lambda one: f"{one.clock_hz / 1e6:,.6g} MHz"),
        ("strategy", lambda one: one.strategy),
        ("batch", lambda one: f"{one.batch:,} samples"),
        ("clusters at work", lambda one: f"{one.clusters:,}"),
        ("samples of an iteration", lambda one: f"{one.batch_per_iteration:,}"),
        ("iterations of a cluster", lambda one: f"{one.iterations:,}"),
        ("batches back to back", lambda one: f"{one.batches:,}"),
        ("verification", lambda one: one.verification),
    )
    found = (Change(what, str(of(a)), str(of(b))) for what, of in rows)
    return tuple(one for one in found if one.a != one.b)


def _decisions(
    a: SavedReport, b: SavedReport, only_a: Sequence[SavedSubGraph], only_b: Sequence[SavedSubGraph]
) -> tuple[Change, ...]:
    found = [
        Change("sub-graphs", f"{len(a.sub_graphs):,}", f"{len(b.sub_graphs):,}"),
        Change("of these, not in the other run", f"{len(only_a):,}", f"{len(only_b):,}"),
        Change("pieces", f"{len(a.order):,}", f"{len(b.order):,}"),
        Change("order of operators", *_orders(a, b)),
    ]
    for level in dict.fromkeys(home.level for report in (a, b) for home in report.homes):
        found.append(Change(f"results that wait in {level.upper()}", _held(a, level), _held(b, level)))
    return tuple(one for one in found if one.a != one.b)


def _held(report: SavedReport, level: str) -> str:
    rows = [home for home in report.homes if home.level == level]
    size = format_bytes(sum(home.size_bytes for home in rows))
    return f"{counted(sum(home.count for home in rows), 'result')}, {size}"


def _orders(a: SavedReport, b: SavedReport) -> tuple[str, str]:
    """Where the operators that both have first run in another order; twice the same where they do not."""
    first, second = a.by_name, b.by_name
    common = [[name for name in one if name in other] for one, other in ((first, second), (second, first))]
    for number, (left, right) in enumerate(zip(*common, strict=True)):
        if left != right:
            return f"{left} is number {number + 1:,}", f"{right} is"
    return "", ""


def _others(report: SavedReport, other: SavedReport) -> tuple[SavedSubGraph, ...]:
    known = {frozenset(one.operators) for one in other.sub_graphs}
    return tuple(one for one in report.sub_graphs if frozenset(one.operators) not in known)


def _operators(a: SavedReport, b: SavedReport) -> tuple[OperatorChange, ...]:
    first, second = a.by_name, b.by_name
    members = [{name: frozenset(one.operators) for one in run.sub_graphs for name in one.operators} for run in (a, b)]
    found: list[OperatorChange] = []
    for name in dict.fromkeys((*first, *second)):
        left, right = first.get(name), second.get(name)
        kind = left.kind if left is not None else second[name].kind
        decided = () if left is None or right is None else _decided(left, right, members)
        found.append(OperatorChange(name, kind, left, right, decided))
    return tuple(found)


def _decided(a: SavedOperator, b: SavedOperator, members: Sequence[dict[str, frozenset[str]]]) -> tuple[Change, ...]:
    found: list[Change] = []
    if members[0].get(a.name) != members[1].get(a.name):
        sizes = [len(of.get(a.name, ())) for of in members]
        found.append(Change("sub-graph", *(f"{one.sub_graph} of {n}" for one, n in zip((a, b), sizes, strict=True))))
    rows: Sequence[tuple[str, Callable[[SavedOperator], str]]] = (
        ("pieces", lambda one: f"{one.pieces}"),
        ("runs with", lambda one: ", ".join(one.runs_with) or "nothing else"),
        ("results in", lambda one: " and ".join(level.upper() for level in one.results_in) or INSIDE),
        ("tiling", lambda one: one.tiling),
        ("cores", lambda one: f"{one.cores}"),
    )
    found += [Change(what, of(a), of(b)) for what, of in rows if of(a) != of(b)]
    return tuple(found)


def _cycles(one: SavedOperator | None) -> int:
    return 0 if one is None else one.occupied_cycles


def _ddr_bytes(one: SavedOperator | None) -> int:
    return 0 if one is None else one.ddr_bytes

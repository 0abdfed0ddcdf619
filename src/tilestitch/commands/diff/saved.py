"""A report of `compile` as its JSON has it, read again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilestitch.base.errors import InputError, printable
from tilestitch.base.json_text import JsonPart, json_value
from tilestitch.base.json_values import VERSION
from tilestitch.base.shown import Brief

_FORMAT = "tilestitch.report"
_MOST = 2**62
_WRITE_AGAIN = "write it again with this Tilestitch: tilestitch compile ... --json FILE"


@dataclass(frozen=True, slots=True)
class SavedOperator:
    """What was decided for an operator, and what was simulated."""

    name: str
    kind: str
    sub_graph: str
    pieces: int
    runs_with: tuple[str, ...]  # in the same kernel
    results_in: tuple[str, ...]  # levels of memory; none where they never leave their kernel
    tiling: str  # of its first kernel
    occupied_cycles: int
    ddr_bytes: int
    gb_bytes: int
    macs: int
    vector_operations: int
    cores: int


@dataclass(frozen=True, slots=True)
class SavedSubGraph:
    """Operators that are scheduled together, and into how many pieces they are cut."""

    name: str
    operators: tuple[str, ...]
    pieces: int


@dataclass(frozen=True, slots=True)
class SavedHome:
    """Where the results of kernels that are parts of one tensor wait."""

    tensor: str
    level: str
    count: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class SavedPort:
    """The ports of one level of memory: bytes through them with bursts, and the mean time in which one passed bytes."""

    level: str
    size_bytes: int
    busy_cycles: float


@dataclass(frozen=True, slots=True)
class SavedEngine:
    """The engines of one kind: the mean time in which one was occupied."""

    kind: str
    count: int
    busy_cycles: float


@dataclass(frozen=True, repr=False)
class SavedReport(Brief):
    """One run of a network."""

    where: str  # the file
    network: str
    machine: str
    strategy: str
    clock_hz: int
    batch: int
    clusters: int
    iterations: int
    batch_per_iteration: int
    batches: int
    latency_cycles: int
    samples_per_second: float
    instructions: int
    ddr_bytes: int
    macs: int
    energy_pj: float
    bound_cycles: int
    verification: str
    kernels: int
    engines: tuple[SavedEngine, ...]
    traffic: tuple[SavedPort, ...]
    operators: tuple[SavedOperator, ...]
    sub_graphs: tuple[SavedSubGraph, ...]
    order: tuple[str, ...]  # of pieces
    homes: tuple[SavedHome, ...]

    @property
    def latency_seconds(self) -> float:
        return self.latency_cycles / self.clock_hz

    @property
    def by_name(self) -> Mapping[str, SavedOperator]:
        return {one.name: one for one in self.operators}


def saved_report(text: str, where: str) -> SavedReport:
    """The report in a JSON text; raises `InputError` for anything else."""
    whole = JsonPart(json_value(text, where), where)
    _expect_report(whole)
    what, simulated = _Group(whole, "what"), _Group(whole, "simulated")
    decisions = _Group(whole, "decisions")
    return SavedReport(
        where=where,
        network=what["network"].text(),
        machine=what["machine"].text(),
        strategy=what["strategy"].text(),
        clock_hz=what.whole("clock_hz", least=1),
        batch=what.whole("batch", least=1),
        clusters=what.whole("clusters", least=1),
        iterations=what.whole("iterations", least=1),
        batch_per_iteration=what.whole("batch_per_iteration", least=1),
        batches=what.whole("batches", least=1),
        latency_cycles=simulated.whole("latency_cycles", least=1),
        samples_per_second=simulated["samples_per_second"].real(),
        instructions=simulated.whole("instructions"),
        ddr_bytes=simulated.whole("ddr_bytes"),
        macs=simulated.whole("macs"),
        energy_pj=simulated["energy_pj"].real(),
        bound_cycles=_Group(whole, "bounds").whole("largest_cycles", least=1),
        verification=_Group(whole, "verification")["result"].text(),
        kernels=len(_field(whole, "kernels").items("kernels")),
        engines=tuple(
            SavedEngine(one["kind"].text(), one.whole("count"), one["busy_cycles"].real())
            for one in simulated.groups("engines")
        ),
        traffic=tuple(
            SavedPort(one["level"].text(), one.whole("size_bytes"), one["busy_cycles"].real())
            for one in simulated.groups("traffic")
        ),
        operators=_unlike(whole, [_operator(_Group(one)) for one in _field(whole, "operators").items("operators")]),
        sub_graphs=tuple(
            SavedSubGraph(one["name"].text(), one["operators"].texts("names"), one.whole("pieces", least=1))
            for one in decisions.groups("sub_graphs")
        ),
        order=decisions["order"].texts("names of pieces"),
        homes=tuple(
            SavedHome(one["tensor"].text(), one["level"].text(), one.whole("count"), one.whole("size_bytes"))
            for one in decisions.groups("homes")
        ),
    )


def expect_same_network(a: SavedReport, b: SavedReport) -> None:
    """Refuse reports of two networks: none of their operators, or neither name nor all operators, are the same."""
    first, second = set(a.by_name), set(b.by_name)
    if first & second and (a.network == b.network or first == second):
        return
    raise InputError(
        f"{a.where} is of the network {printable(a.network, 60)} with {len(first):,} operators, {b.where} of "
        f"{printable(b.network, 60)} with {len(second):,}, {len(first & second):,} of the same name; give two reports "
        "of one network"
    )


class _Group:
    """An object of the document; a field that is missing is said to be."""

    def __init__(self, part: JsonPart, name: str = "") -> None:
        self.part = _field(part, name) if name else part
        self._entries = self.part.entries()

    def __getitem__(self, name: str) -> JsonPart:
        if name not in self._entries:
            self.part.refuse(f"the field {name} is missing; {_WRITE_AGAIN}")
        return self._entries[name]

    def whole(self, name: str, *, least: int = 0) -> int:
        return self[name].whole(least, _MOST)

    def groups(self, name: str) -> "list[_Group]":
        return [_Group(one) for one in self[name].items("objects")]


def _field(part: JsonPart, name: str) -> JsonPart:
    entries = part.entries()
    if name not in entries:
        part.refuse(f"the field {name} is missing; {_WRITE_AGAIN}")
    return entries[name]


def _expect_report(whole: JsonPart) -> None:
    """Refuse what is no report of this version, with what it is where that is known."""
    found = whole.value.get("format") if isinstance(whole.value, dict) else None
    if not isinstance(found, str):
        whole.refuse(f"is not a report of Tilestitch; {_WRITE_AGAIN}")
    if found == "tilestitch.comparison":
        whole.refuse("holds several reports; give that of one strategy (tilestitch compare -o DIR writes each)")
    if found != _FORMAT:
        whole.refuse(f"has the format {printable(found, 60)}, expected {_FORMAT}; {_WRITE_AGAIN}")
    version = whole.value.get("version")
    if type(version) is not int or version != VERSION:
        shown = printable(str(version), 40)
        whole.refuse(f"is a report of version {shown}, expected {VERSION}; {_WRITE_AGAIN}")


def _operator(one: _Group) -> SavedOperator:
    decided, simulated = _Group(one.part, "decided"), _Group(one.part, "simulated")
    return SavedOperator(
        name=one["name"].text(),
        kind=one["kind"].text(),
        sub_graph=decided["sub_graph"].text(),
        pieces=decided.whole("pieces", least=1),
        runs_with=decided["runs_with"].texts("names"),
        results_in=decided["results_in"].texts("levels of memory"),
        tiling=decided["tiling"].text(),
        occupied_cycles=simulated.whole("occupied_cycles"),
        ddr_bytes=simulated.whole("ddr_bytes"),
        gb_bytes=simulated.whole("gb_bytes"),
        macs=simulated.whole("macs"),
        vector_operations=simulated.whole("vector_operations"),
        cores=simulated.whole("cores"),
    )


def _unlike(whole: JsonPart, operators: Sequence[SavedOperator]) -> tuple[SavedOperator, ...]:
    """Operators that go by their names, each of which is there once."""
    seen: set[str] = set()
    for one in operators:
        if one.name in seen:
            whole.refuse(f"operators: '{printable(one.name, 60)}' appears twice; each has one row")
        seen.add(one.name)
    return tuple(operators)

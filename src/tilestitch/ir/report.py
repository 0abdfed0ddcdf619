"""Numbers beside their lower bounds, and what produced them; every field has its unit in its name."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from tilestitch.base.html import Record
from tilestitch.base.shown import Shown
from tilestitch.base.units import counted, format_bytes, format_seconds
from tilestitch.ir.beside import BesideMap
from tilestitch.ir.searched import Searched


@dataclass(frozen=True, slots=True)
class KernelRow:
    """One kernel, summed over the iterations. Times are simulated; the estimate is what the search believed."""

    name: str
    operators: tuple[str, ...]
    kinds: tuple[str, ...]
    cycles: int  # by which it ends later than all that ended before: these add up to the latency
    span_cycles: int  # from its first instruction to the end of its last one, with what overlaps
    estimated_cycles: int
    macs: int
    vector_operations: int
    ddr_read_bytes: int
    ddr_written_bytes: int
    matrix_busy_cycles: float  # in which a matrix unit is occupied; mean over those of a cluster
    matrix_peak_cycles: float  # that its products would take if every multiplier of these units worked in each
    vector_busy_cycles: float
    cores: int


@dataclass(frozen=True, slots=True)
class EngineRow:
    """Engines of one kind in one cluster: mean over them of the cycles in which one was occupied."""

    kind: str
    count: int
    busy_cycles: float
    instructions: int


@dataclass(frozen=True, slots=True)
class TrafficRow:
    """Ports of one level of memory, or the links of the cores: bytes through them, bursts included."""

    level: str
    ports: int
    size_bytes: int
    busy_cycles: float  # mean over the ports


@dataclass(frozen=True, slots=True)
class PlaceRow:
    """Results of one iteration's kernels that stay at one level until they are read: how many, and their bytes."""

    level: str
    count: int
    size_bytes: int


class Outcome(StrEnum):
    """What a verification says."""

    PASSED = "passed"
    FAILED = "failed"
    DISPUTED = "disputed"  # onnxruntime differs from the program and from onnx's reference evaluator, which agree
    INCONCLUSIVE = "not conclusive"


STEPS = "steps"  # the check of quantised tensors, in the float32 execution
DECIDING_SHARE = 0.99  # of the values; a comparison that decides fewer proves nothing


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One comparison of the executed program with onnxruntime: of all outputs, the worst of them named.

    A value is decided where a wrong one would show: rounding, which is bounded for each value, does less than that.
    """

    precision: str  # float32 or float16, or `STEPS`
    error: float  # largest difference, relative to the output's largest magnitude; of steps the share that differs
    allowed: float
    output: str  # the output of the worst error; of steps the tensor
    lost: float = 0.0  # of that output's values, the share that float16 makes infinite or NaN without any tiling
    ratio: float = 0.0  # largest difference of one value / what rounding may do to it; of that output
    compared: int = 1  # values of all outputs
    decided: int = 1
    dispute: str = ""  # a value that onnxruntime and onnx's reference evaluator see differently, with both

    @property
    def conclusive(self) -> bool:
        """Whether a wrong program would show: with zeros for an output the error is 1."""
        # what is allowed is NaN where float16 turns values into NaN
        return self.allowed < 1 and self.decided >= DECIDING_SHARE * self.compared

    @property
    def outcome(self) -> Outcome:
        if self.dispute:
            return Outcome.DISPUTED
        right = self.error <= self.allowed and self.ratio <= 1  # a NaN is not
        if self.conclusive:
            return Outcome.PASSED if right else Outcome.FAILED
        # In float32 a value that is further off than rounding explains is wrong, however many others are undecided.
        wrong = self.precision == "float32" and not self.ratio <= 1
        return Outcome.FAILED if wrong else Outcome.INCONCLUSIVE

    @property
    def passed(self) -> bool:
        return self.outcome is Outcome.PASSED

    @property
    def failed(self) -> bool:
        return self.outcome is Outcome.FAILED


@dataclass(frozen=True, slots=True)
class GenericRow:
    """An operator without a rule of its own: costed as one operation an element, and not independently verified."""

    name: str
    operator: str  # of the ONNX standard
    evaluator: str  # where its value comes from: onnxruntime or onnx.reference


@dataclass(frozen=True, repr=False)
class Report(Shown):
    """What one strategy makes of one network on one machine."""

    network: str
    machine: str
    strategy: str
    batch: int
    clusters: int  # at work
    clusters_simulated: int  # identical clusters with DDR of their own are simulated once
    batch_per_cluster: int
    batch_per_iteration: int
    iterations: int  # of one batch
    batches: int  # back to back, for sustained throughput
    clock_hz: int
    latency_cycles: int  # of one cold batch, simulated
    sustained_cycles_per_batch: float  # simulated over `batches` batches
    compute_bound_cycles: int
    attainable_bound_cycles: int
    traffic_bound_cycles: int
    compulsory_bytes: int  # of one cluster
    ddr_bytes: int  # of one cluster, payload, without rounding to bursts
    macs: int  # of one cluster
    vector_operations: int
    instructions: int
    own_operators: int  # with a rule of their own
    generic_operators: tuple[GenericRow, ...]
    places: tuple[PlaceRow, ...]  # from the farthest level to the nearest
    kernels: tuple[KernelRow, ...]
    engines: tuple[EngineRow, ...]
    traffic: tuple[TrafficRow, ...]
    energy_pj: tuple[tuple[str, float], ...]  # of one cluster, by part
    checks: tuple[CheckRow, ...]  # empty: not verified
    notes: tuple[str, ...]  # what a reader of the numbers must know, a sentence each
    beside: BesideMap | None = None  # the sum of its layers mapped alone, where that was asked for
    searched: Searched | None = None  # how the search came to it, where there was one

    def __str__(self) -> str:
        """What matters most, in four lines; `report.report_text.report_text` gives the page."""
        bounds = f"{self.ratio_to_bound:,.2f} x the largest bound of {self.bound_cycles:,} cycles"
        checks = "not done" if self.outcome is None else str(self.outcome).replace("failed", "FAILED")
        return "\n".join(
            (
                f"{self.network} on {self.machine}, strategy {self.strategy}, batch {self.batch:,}",
                f"  latency {format_seconds(self.latency_seconds)}, {self.latency_cycles:,} cycles (simulated), "
                f"{bounds}",
                f"  DDR traffic of a cluster {format_bytes(self.ddr_bytes)} (simulated), of which "
                f"{format_bytes(self.compulsory_bytes)} are compulsory",
                f"  {counted(len(self.kernels), 'kernel')}, {counted(self.instructions, 'instruction')}; verification "
                f"{checks}",
            )
        )

    def heading(self) -> str:
        """The first line of its text."""
        return str(self).split("\n", 1)[0]

    def records(self) -> tuple[Record, ...]:
        """Every kernel, with what was simulated and what was estimated."""
        return tuple(
            {
                "kernel": kernel.name,
                "operators": len(kernel.operators),
                "kinds": " ".join(kernel.kinds),
                "cores": kernel.cores,
                "cycles": kernel.cycles,
                "span_cycles": kernel.span_cycles,
                "estimated_cycles": kernel.estimated_cycles,
                "macs": kernel.macs,
                "vector_operations": kernel.vector_operations,
                "ddr_read_bytes": kernel.ddr_read_bytes,
                "ddr_written_bytes": kernel.ddr_written_bytes,
                "matrix_busy_cycles": kernel.matrix_busy_cycles,
                "matrix_peak_cycles": kernel.matrix_peak_cycles,
                "vector_busy_cycles": kernel.vector_busy_cycles,
            }
            for kernel in self.kernels
        )

    @property
    def latency_seconds(self) -> float:
        return self.latency_cycles / self.clock_hz

    @property
    def throughput_per_second(self) -> float:
        """Samples a second of one cold batch: batch / latency."""
        return self.batch / self.latency_seconds

    @property
    def sustained_per_second(self) -> float:
        """Samples a second when batches follow one another."""
        return self.batch * self.clock_hz / self.sustained_cycles_per_batch

    @property
    def bound_cycles(self) -> int:
        """The largest lower bound of the latency."""
        return max(self.compute_bound_cycles, self.attainable_bound_cycles, self.traffic_bound_cycles)

    @property
    def ratio_to_bound(self) -> float:
        return self.latency_cycles / self.bound_cycles

    @property
    def total_energy_pj(self) -> float:
        """Of one cluster."""
        return sum(value for _, value in self.energy_pj)

    @property
    def outcome(self) -> Outcome | None:
        """What the checks say together, None where there are none.

        A failure decides, then a dispute, then one check that passed, as the one in float32 mostly can. Where quantised
        tensors are compared in steps that check must pass as well: execution goes on with the expected integers.
        """
        if not self.checks:
            return None
        found = {check.outcome for check in self.checks}
        if any(check.precision == STEPS and check.outcome is Outcome.INCONCLUSIVE for check in self.checks):
            found.discard(Outcome.PASSED)
        order = (Outcome.FAILED, Outcome.DISPUTED, Outcome.PASSED, Outcome.INCONCLUSIVE)
        return next(one for one in order if one in found)

    @property
    def verified(self) -> bool:
        """That the program is right as far as it was compared: no check failed or is disputed, and one passed."""
        return self.outcome is Outcome.PASSED

    @property
    def verdict(self) -> str:
        """The outcome as tables show it: what must be seen in capitals."""
        if self.outcome is None:
            return "not verified"
        return self.outcome.upper() if self.outcome in (Outcome.PASSED, Outcome.FAILED) else str(self.outcome)


@dataclass(frozen=True, slots=True)
class Misfit:
    """What there is instead of a report, of a strategy for which the machine is too small."""

    strategy: str
    reason: str

    def __str__(self) -> str:
        return f"strategy {self.strategy} does not fit: {self.reason}"


def misfit_lines(misfits: Iterable[Misfit]) -> list[str]:
    """Why strategies do not fit, a line for all that have the same reason."""
    names: dict[str, list[str]] = {}
    for one in misfits:
        names.setdefault(one.reason, []).append(one.strategy)
    return [
        str(Misfit(own[0], reason)) if len(own) == 1 else f"strategies {', '.join(own)} do not fit: {reason}"
        for reason, own in names.items()
    ]

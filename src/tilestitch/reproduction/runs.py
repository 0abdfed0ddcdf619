"""Networks compiled and simulated for a table: what to run, and the few numbers of it that tables need."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from joblib import Parallel, delayed

from tilestitch import zoo
from tilestitch.base.errors import DoesNotFit
from tilestitch.base.interruption import in_worker, with_parent
from tilestitch.base.progress import Progress
from tilestitch.hardware.load import load_machine
from tilestitch.ir.program import EngineKind
from tilestitch.ir.report import Report
from tilestitch.ir.schedule import Schedule
from tilestitch.ir.trace import Trace
from tilestitch.pipeline.compile import compile_network
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.strategies import strategy_by_hand, strategy_named
from tilestitch.reproduction.quantised import SUFFIX, quantised
from tilestitch.reproduction.vendor import hand_schedule

VENDOR = "vendor"  # the strategy of the one schedule that is written by hand


@dataclass(frozen=True, slots=True)
class Case:
    """One compilation."""

    network: str
    machine: str
    strategy: str
    batch: int  # of all clusters
    per_cluster: int | str  # samples of one iteration of a cluster, or "auto"

    def __str__(self) -> str:
        return f"{self.network} on {self.machine} by {self.strategy}"


@dataclass(frozen=True, slots=True)
class StrategyRun:
    """What a compilation came to; shares are of the time from the first instruction to the last."""

    batch: int
    per_cluster: int  # samples of one iteration of a cluster, as chosen
    seconds: float
    bound_seconds: float  # that no schedule can beat
    matrix_share: float
    vector_share: float
    dma_share: float  # of the DMA engine that reads
    ddr_bytes_per_sample: float
    stages: tuple[tuple[float, float], ...]  # of matrix and vector units, for each stage of a ResNet
    results: tuple[int, int, int]  # of kernels, that wait for their readers in DDR, in GB and in LB

    @property
    def per_second(self) -> float:
        return self.batch / self.seconds


Outcomes = dict[Case, StrategyRun | None]  # None: the machine is too small


def run(cases: Sequence[Case], *, jobs: int, progress: Progress) -> Outcomes:
    """Simulate every case, `jobs` networks at a time; the outcomes do not depend on how many."""
    networks = list(dict.fromkeys(case.network for case in cases))
    shares = [[case for case in cases if case.network == network] for network in networks]
    found: Outcomes = {}
    if jobs == 1 or len(shares) == 1:
        for share in shares:
            for case, outcome in _each(share):
                found[case] = outcome
                progress(str(case), len(found), len(cases))
        return found
    progress(", ".join(networks), 0, len(cases))
    parallel = Parallel(n_jobs=jobs, return_as="generator", **with_parent())
    for outcomes in parallel(delayed(in_worker)(_all, share) for share in shares):
        assert outcomes is not None  # which joblib's types allow
        found.update(outcomes)
        progress("networks", len(found), len(cases))
    return found


def _all(cases: Sequence[Case]) -> Outcomes:
    return dict(_each(cases))


def _each(cases: Sequence[Case]) -> Iterator[tuple[Case, StrategyRun | None]]:
    """All cases of one network, which is built once."""
    model = zoo.build(cases[0].network.removesuffix(SUFFIX))
    model = quantised(model) if cases[0].network.endswith(SUFFIX) else model
    for case in cases:
        yield case, _simulated(case, model)


def _simulated(case: Case, model: onnx.ModelProto) -> StrategyRun | None:
    options = Options(batch=case.batch, batch_per_cluster=case.per_cluster)
    machine = load_machine(case.machine)
    try:
        strategy = strategy_by_hand(hand_schedule()) if case.strategy == VENDOR else strategy_named(case.strategy)
        done = compile_network(model, case.network, machine, strategy, options)
    except DoesNotFit:
        return None
    assert done.report is not None
    assert done.schedule is not None
    assert done.trace is not None
    return _outcome(done.report, done.schedule, done.trace)


def _outcome(report: Report, schedule: Schedule, trace: Trace) -> StrategyRun:
    shares = {row.kind: row.busy_cycles / report.latency_cycles for row in report.engines}
    in_ddr, in_gb, in_lb = (row.count for row in report.places)
    return StrategyRun(
        batch=report.batch,
        per_cluster=report.batch_per_iteration,
        seconds=report.latency_seconds,
        bound_seconds=report.bound_cycles / report.clock_hz,
        matrix_share=shares.get("matrix", 0.0),
        vector_share=shares.get("vector", 0.0),
        dma_share=shares.get("dma_in", 0.0),
        ddr_bytes_per_sample=report.ddr_bytes / report.batch_per_cluster,
        stages=tuple(_stage_shares(trace, schedule, f"layer{number}.") for number in range(1, 5)),
        results=(in_ddr, in_gb, in_lb),
    )


def _stage_shares(trace: Trace, schedule: Schedule, prefix: str) -> tuple[float, float]:
    """How much of the time in which kernels of one stage compute, the matrix and the vector units are at work."""
    names = {kernel.name for kernel in schedule.kernels if kernel.operators[0].startswith(prefix)}
    program = trace.program
    inside = np.array([name in names for name in program.kernels], bool)[program.kernel]
    kinds = np.array([engine.kind for engine in program.engines])[program.engine]
    computing = inside & ((kinds == EngineKind.MATRIX) | (kinds == EngineKind.VECTOR))
    if not computing.any():
        return 0.0, 0.0
    run = program.iteration[computing].astype(np.int64) * len(program.kernels) + program.kernel[computing]
    runs, run = np.unique(run, return_inverse=True)
    first, last = np.full(len(runs), np.iinfo(np.int64).max), np.zeros(len(runs), np.int64)
    np.minimum.at(first, run, trace.start_ticks[computing])
    np.maximum.at(last, run, trace.end_ticks[computing])
    order = np.argsort(first, kind="stable")
    first, last = first[order], np.maximum.accumulate(last[order])
    begun = np.maximum(first, np.concatenate(([0], last[:-1])))  # of what runs at once, time counts once
    ticks = int(np.maximum(last - begun, 0).sum())
    busy = trace.end_ticks - trace.start_ticks

    def share(kind: EngineKind) -> float:
        units = sum(engine.kind is kind for engine in program.engines)
        return float(busy[computing & (kinds == kind)].sum()) / units / ticks

    return share(EngineKind.MATRIX), share(EngineKind.VECTOR)

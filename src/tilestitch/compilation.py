"""What a compilation is asked for and what it gives: strategies, options, and the value of every stage."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from tilestitch.errors import InputError
from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.ir.by_hand import HandSchedule
from tilestitch.ir.graph import Graph
from tilestitch.ir.partition import SubGraph
from tilestitch.ir.program import Program
from tilestitch.ir.report import Report
from tilestitch.ir.schedule import Schedule
from tilestitch.ir.trace import Trace
from tilestitch.partition.fuse_ops import fuse_ops
from tilestitch.partition.layerwise import layerwise
from tilestitch.report.pieces import schedule_text
from tilestitch.report.text import report_text, trace_text
from tilestitch.schedule.binding import BindingRule
from tilestitch.schedule.spilling import Spill
from tilestitch.units import counted


class Stage(StrEnum):
    """Where a compilation can be stopped; each names the value that it ends with."""

    LOAD = "load"
    SIMPLIFY = "simplify"
    PARTITION = "partition"
    SCHEDULE = "schedule"
    LOWER = "lower"
    SIMULATE = "simulate"


@dataclass(frozen=True, slots=True)
class Strategy:
    """A way to decide; all strategies share kernels, lowering and simulator."""

    name: str
    description: str
    partition: Callable[[Graph], tuple[SubGraph, ...]]
    levels: tuple[Level, ...] = ()  # where results may stay between kernels, first choice first; else in DDR
    instances: bool = False  # whether coarse sub-graphs are split into instances, which run depth or breadth first
    stitched: bool = False  # whether all kernels are one, without a barrier between them
    fallback: str | None = None  # the strategy whose schedule is taken where that is faster
    by_hand: HandSchedule | None = None  # groups, pieces, their order and places, written by somebody


STRATEGIES = (
    Strategy("layerwise", "every operator alone, through DDR", layerwise),
    Strategy("tvm", "TVM's FuseOps groups, through DDR", fuse_ops),
    Strategy("stay-in-gb", "TVM's groups, results in GB where they fit", fuse_ops, (Level.GB,)),
    Strategy(
        "stay-in-lb", "TVM's groups, results in the cores where they fit, else in GB", fuse_ops, (Level.LB, Level.GB)
    ),
    Strategy(
        "graphturbo-ordering",
        "coarse sub-graphs split into ordered instances, results in the cores where they fit",
        fuse_ops,
        (Level.LB, Level.GB),
        instances=True,
    ),
    Strategy(
        "graphturbo",
        "ordered instances stitched into one kernel, so that the next operators' weights load early",
        fuse_ops,
        (Level.LB, Level.GB),
        instances=True,
        stitched=True,
        fallback="tvm",
    ),
    Strategy(
        "astitch",
        "all kernels stitched into one, without instances, results in the cores, else in GB",
        fuse_ops,
        (Level.LB, Level.GB),
        stitched=True,
    ),
)


def strategy_by_hand(schedule: HandSchedule) -> Strategy:
    """A schedule written by hand as a strategy, on the same kernels and with the same memories as the others."""
    text = "groups, pieces, order and places as written by hand"
    return Strategy(schedule.name, text, fuse_ops, (Level.LB, Level.GB), stitched=schedule.stitched, by_hand=schedule)


def strategy_named(name: str) -> Strategy:
    """The strategy of that name, or an `InputError` that lists them."""
    for strategy in STRATEGIES:
        if strategy.name == name:
            return strategy
    known = ", ".join(strategy.name for strategy in STRATEGIES)
    raise InputError(f"strategy {name!r} is not known; the strategies are: {known}")


@dataclass(frozen=True, slots=True)
class Options:
    """What a user may choose besides network, machine and strategy."""

    batch: int | None = None  # samples of the whole machine; None: the network's own batch, else 1
    batch_per_cluster: int | str = "rule"  # samples of one cluster's iteration: a number, "rule" or "auto"
    batches: int = 1  # back to back, for sustained throughput
    dims: Mapping[str, int] = field(default_factory=dict)
    fold_bn: bool = True
    spill: Spill = Spill.NEWEST  # which result gives way where not all that should stay on chip finds room
    binding: BindingRule = BindingRule.NEAREST  # over how many cores each dim of a kernel is divided
    verify: bool = False
    stop_after: Stage = Stage.SIMULATE


@dataclass(frozen=True)
class Compilation:
    """The values after every stage that was reached; those after it are None."""

    machine: Accelerator
    loaded: Graph
    simplified: Graph | None = None
    groups: tuple[SubGraph, ...] | None = None
    schedule: Schedule | None = None
    program: Program | None = None
    trace: Trace | None = None
    report: Report | None = None

    def up_to(self, last: Stage) -> "Compilation":
        """Without the values of the stages after `last`."""
        kept = list(Stage)[: list(Stage).index(last) + 1]
        return replace(
            self,
            simplified=self.simplified if Stage.SIMPLIFY in kept else None,
            groups=self.groups if Stage.PARTITION in kept else None,
            schedule=self.schedule if Stage.SCHEDULE in kept else None,
            program=self.program if Stage.LOWER in kept else None,
            trace=self.trace if Stage.SIMULATE in kept else None,
        )

    def texts(self, *, limit: int | None = None) -> list[tuple[str, str]]:
        """What each stage that was reached ended with, by its name; `limit` instructions of a program and its trace."""
        found = [(Stage.LOAD.value, str(self.loaded))]
        if self.simplified is not None:
            found.append((Stage.SIMPLIFY.value, str(self.simplified)))
        if self.groups is not None:
            groups = (f"  {group.name}: {' + '.join(group.operators)}" for group in self.groups)
            found.append((Stage.PARTITION.value, "\n".join((counted(len(self.groups), "group"), *groups))))
        if self.schedule is not None:
            found.append((Stage.SCHEDULE.value, schedule_text(self.schedule, self.machine, limit=limit)))
        if self.program is not None:
            found.append((Stage.LOWER.value, self.program.text(limit=limit)))
        if self.trace is not None:
            found.append((Stage.SIMULATE.value, trace_text(self.trace, limit=limit)))
        if self.report is not None:
            found.append(("report", report_text(self.report).removesuffix("\n")))
        return found

    def __str__(self) -> str:
        """The report as a page, or else what the last stage ended with."""
        return self.texts(limit=100)[-1][1]

"""What a compilation is asked for and what it gives: strategies, options, and the value of every stage."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial

from tilestitch.base.errors import InputError
from tilestitch.base.units import counted
from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.ir.by_hand import FusionPlan, HandSchedule
from tilestitch.ir.graph import Graph
from tilestitch.ir.partition import FusedBlock, SubGraph
from tilestitch.ir.program import Program
from tilestitch.ir.report import Report
from tilestitch.ir.schedule import Schedule
from tilestitch.ir.trace import Trace
from tilestitch.partition.blocks.model import BlockCost
from tilestitch.partition.blocks.plans import block_cost, blocks_of, plan_given, plan_named
from tilestitch.partition.groups.fuse_ops import fuse_ops
from tilestitch.partition.groups.layerwise import layerwise
from tilestitch.partition.ideals import Plan
from tilestitch.partition.subgraphs.grouping import GroupingRule
from tilestitch.report.pieces import schedule_text
from tilestitch.report.report_text import report_text, trace_text
from tilestitch.schedule.binding import BindingRule
from tilestitch.schedule.spilling import Spill


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
    blocks: Callable[[Graph, Accelerator], tuple[FusedBlock, ...]] | None = None  # fused, each on a number of cores


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


_PLANS = {
    "baseline": "every layer a block on one core",
    "fixed-cores": "every layer a block, all on the best number of cores for all",
    "dynamic-cores": "every layer a block on the number of cores that suits it",
    "one-block": "the whole network one block on all cores",
    "fixed-fusion": "DLFusion's blocks, all on the best number of cores for all",
    "dlfusion": "DLFusion's blocks and numbers of cores",
    "oracle": "the best of the cuts of DLFusion and those every few layers",
    "annealing": "blocks by simulated annealing",
    "genetic": "blocks by a genetic search",
    "exact": "the best blocks and numbers of cores of the block model",
    "exact-by-layer": "the best where only the transfers of a layer hide behind its arithmetic",
}


def _fused(name: str, description: str, plan: Callable[[BlockCost], Plan]) -> Strategy:
    """A plan of fused blocks as a strategy, on the same kernels and with the same memories as the others."""

    def blocks(graph: Graph, machine: Accelerator) -> tuple[FusedBlock, ...]:
        cost = block_cost(graph, machine)
        return blocks_of(cost.network, plan(cost))

    return Strategy(name, description, fuse_ops, (Level.LB, Level.GB), blocks=blocks)


FUSION_PLANS = tuple(_fused(name, text, partial(plan_named, name=name)) for name, text in _PLANS.items())


def strategy_of_plan(plan: FusionPlan) -> Strategy:
    """A plan of fused blocks that somebody wrote, as a strategy."""
    text = "blocks and numbers of cores as written by hand"
    return _fused(plan.name, text, lambda cost: plan_given(cost, plan.blocks, plan.name))


def strategy_by_hand(schedule: HandSchedule) -> Strategy:
    """A schedule written by hand as a strategy, on the same kernels and with the same memories as the others."""
    text = "groups, pieces, order and places as written by hand"
    return Strategy(schedule.name, text, fuse_ops, (Level.LB, Level.GB), stitched=schedule.stitched, by_hand=schedule)


def strategy_named(name: str) -> Strategy:
    """The strategy of that name, or an `InputError` that lists them."""
    for strategy in (*STRATEGIES, *FUSION_PLANS):
        if strategy.name == name:
            return strategy
    known, plans = (", ".join(strategy.name for strategy in found) for found in (STRATEGIES, FUSION_PLANS))
    raise InputError(f"strategy {name!r} is not known; the strategies are: {known}; and plans of fused blocks: {plans}")


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
    grouping: GroupingRule = GroupingRule.PAPER  # which operators are a sub-graph that is split into instances
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

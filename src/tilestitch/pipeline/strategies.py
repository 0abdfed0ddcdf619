"""Strategies by name: what is decided about a network; all share the same kernels, lowering and simulator."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from tilestitch.base.errors import InputError
from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.ir.by_hand import FusionPlan, HandSchedule
from tilestitch.ir.choices import Effort, GroupingRule
from tilestitch.ir.graph import Graph
from tilestitch.ir.partition import Blocks, ByHand, Group, Groups, Partition
from tilestitch.ir.rewriting import Rewriting
from tilestitch.partition.blocks.model import BlockCost
from tilestitch.partition.blocks.plans import block_cost, blocks_of, plan_given, plan_named
from tilestitch.partition.groups.fuse_ops import fuse_ops
from tilestitch.partition.groups.layerwise import layerwise
from tilestitch.partition.ideals import Plan
from tilestitch.partition.subgraphs.cuts import as_sub_graphs
from tilestitch.pipeline.views import Composed, without_views

Decide: TypeAlias = Callable[[Composed, Accelerator, GroupingRule], Partition]


def as_groups(composed: Composed, machine: Accelerator, rule: GroupingRule) -> Groups:
    """Kernel after kernel."""
    return Groups(composed.kernels)


def in_pieces(composed: Composed, machine: Accelerator, rule: GroupingRule) -> Partition:
    """Coarse sub-graphs, cut into pieces."""
    return as_sub_graphs(composed.graph, composed.kernels, machine, rule)


@dataclass(frozen=True, slots=True)
class Strategy:
    """A way to decide; all strategies share kernels, lowering and simulator."""

    name: str
    description: str
    decide: Decide  # what is scheduled together
    levels: tuple[Level, ...] = ()  # where results may stay between kernels, first choice first; else in DDR
    stitched: bool = False  # whether all kernels are one launch, without a barrier between them
    fallback: str | None = None  # the strategy whose schedule is taken where that is faster
    groups: Callable[[Graph], tuple[Group, ...]] = fuse_ops  # which operators may be one kernel
    tries: tuple[str, ...] = ()  # the strategies whose fastest schedule is taken; this one has none of its own
    rewriting: Rewriting = field(default_factory=Rewriting)  # of the network, before anything is decided
    improves: bool = False  # whether it searches, beginning with the schedules of others: see `seeds_of`

    @property
    def cuts(self) -> bool:
        """Whether sub-graphs are cut into pieces, or left whole where that is better."""
        return self.decide is in_pieces


STRATEGIES = (
    Strategy("layerwise", "every operator alone, through DDR", as_groups, groups=layerwise),
    Strategy("tvm", "TVM's FuseOps groups, through DDR", as_groups),
    Strategy("stay-in-gb", "TVM's groups, results in GB where they fit", as_groups, (Level.GB,)),
    Strategy(
        "stay-in-lb", "TVM's groups, results in the cores where they fit, else in GB", as_groups, (Level.LB, Level.GB)
    ),
    Strategy(
        "graphturbo-ordering",
        "coarse sub-graphs split into ordered instances, results in the cores where they fit",
        in_pieces,
        (Level.LB, Level.GB),
    ),
    Strategy(
        "graphturbo",
        "ordered instances stitched into one kernel, so that the next operators' weights load early",
        in_pieces,
        (Level.LB, Level.GB),
        stitched=True,
        fallback="tvm",
    ),
    Strategy(
        "astitch",
        "all kernels stitched into one, without instances, results in the cores, else in GB",
        as_groups,
        (Level.LB, Level.GB),
        stitched=True,
    ),
)

_TRIED = ("graphturbo", "astitch", "stay-in-lb")
AUTO = Strategy(
    "auto",
    f"the fastest of {', '.join(_TRIED[:-1])} and {_TRIED[-1]}",
    in_pieces,
    (Level.LB, Level.GB),
    tries=_TRIED,
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

    def decide(composed: Composed, machine: Accelerator, rule: GroupingRule) -> Blocks:
        cost = block_cost(composed.simplified, machine)
        return Blocks(composed.kernels, without_views(composed, blocks_of(cost.network, plan(cost))))

    return Strategy(name, description, decide, (Level.LB, Level.GB))


FUSION_PLANS = tuple(_fused(name, text, partial(plan_named, name=name)) for name, text in _PLANS.items())


BEST = Strategy(
    "best",
    "searched by simulation, beginning with the schedules of others",
    in_pieces,
    (Level.LB, Level.GB),
    improves=True,
)
NAMED = (AUTO, BEST, *STRATEGIES)  # all but the plans of fused blocks


def seeds_of(effort: Effort) -> tuple[str, ...]:
    """The strategies with whose schedules `best` begins, where any of them fits.

    With low effort the first of `auto` alone, with medium two: others take a tenth to half of the time with low effort,
    and none made a result better.
    """
    if effort is Effort.HIGH:
        return tuple(strategy.name for strategy in (*STRATEGIES, *FUSION_PLANS))
    return AUTO.tries[: 1 if effort is Effort.LOW else 2]


def outdone_by_best(effort: Effort) -> tuple[str, ...]:
    """The strategies than which `best` is never slower."""
    return seeds_of(effort if effort is Effort.LOW else Effort.HIGH)


def strategy_of_plan(plan: FusionPlan) -> Strategy:
    """A plan of fused blocks that somebody wrote, as a strategy."""
    text = "blocks and numbers of cores as written by hand"
    return _fused(plan.name, text, lambda cost: plan_given(cost, plan.blocks, plan.name))


def strategy_by_hand(schedule: HandSchedule) -> Strategy:
    """A schedule written by hand as a strategy, on the same kernels and with the same memories as the others."""

    def decide(composed: Composed, machine: Accelerator, rule: GroupingRule) -> ByHand:
        return ByHand(composed.kernels, schedule)

    text = "groups, pieces, order and places as written by hand"
    levels = Level.LB, Level.GB
    return Strategy(schedule.name, text, decide, levels, stitched=schedule.stitched, rewriting=schedule.rewriting)


def strategy_named(name: str) -> Strategy:
    """The strategy of that name, or an `InputError` that lists them."""
    for strategy in (*NAMED, *FUSION_PLANS):
        if strategy.name == name:
            return strategy
    known, plans = (", ".join(strategy.name for strategy in found) for found in (NAMED, FUSION_PLANS))
    raise InputError(f"strategy {name!r} is not known; the strategies are: {known}; and plans of fused blocks: {plans}")


def strategy_of(name: str, partition: Partition) -> Strategy:
    """The strategy of that name; where somebody wrote the partition, what plans such partitions."""
    for strategy in (*STRATEGIES, *FUSION_PLANS):
        if strategy.name == name:
            return strategy
    if isinstance(partition, ByHand):
        return strategy_by_hand(partition.schedule)
    if isinstance(partition, Blocks):
        return strategy_of_plan(FusionPlan(name, ()))
    return strategy_named(name)

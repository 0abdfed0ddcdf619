"""A plan of fused blocks for a network, by a strategy or from a file, priced and set beside the best one."""

from collections.abc import Sequence
from dataclasses import dataclass

from tilestitch.base.errors import InputError, InvalidIR
from tilestitch.base.shown import Brief
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.ir.by_hand import NamedBlock
from tilestitch.ir.graph import Graph
from tilestitch.partition.blocks.bounds import FusionBounds, fusion_bounds
from tilestitch.partition.blocks.checker import check
from tilestitch.partition.blocks.dlfusion import PLANS, alone
from tilestitch.partition.blocks.model import BlockCost
from tilestitch.partition.blocks.plans import BY_LAYER, EXACT, NAMES, plan_given, plan_named, time_of
from tilestitch.partition.blocks.plans import block_cost as simplified_cost
from tilestitch.partition.ideals import Exact, Plan, exact
from tilestitch.partition.moves import nearly_best
from tilestitch.passes import simplify


@dataclass(frozen=True, repr=False)
class Fused(Brief):
    """A plan, what it is held against, and the model that prices both."""

    machine: str
    plan_name: str
    cost: BlockCost
    plan: Plan
    baseline: Plan  # no fusion, one core
    best: Plan  # the best plan if `proof` is there, else one that moves do not improve
    proof: Exact | None
    bounds: FusionBounds

    @property
    def fits(self) -> bool:
        """Whether every block fits the machine; `one-block` is priced all the same."""
        return all(
            time_of(self.cost, block, cores) >= 0
            for block, cores in zip(self.plan.blocks, self.plan.choices, strict=True)
        )

    @property
    def least(self) -> int:
        """What no plan can cost less than, in picoseconds: the best plan where it is proven."""
        return self.best.cost if self.proof is not None else self.bounds.best


def block_cost(graph: Graph, machine: Accelerator, *, fold_bn: bool = True) -> BlockCost:
    """The block model of a network on the cores of one cluster of a machine."""
    return simplified_cost(simplify(graph, fold_bn=fold_bn), machine)


def fuse_blocks(cost: BlockCost, machine: str, plan: str | Sequence[NamedBlock], name: str) -> Fused:
    """The plan of a strategy, or the one whose blocks are given, beside the best plan and the bounds."""
    before = cost.network.before()
    proof = exact(before, cost.price)
    best = nearly_best(before, cost.price) if proof is None else proof.plan
    if not isinstance(plan, str):
        found = plan_given(cost, plan, name)
    elif plan == EXACT:
        found = best
    elif plan in NAMES:
        found = plan_named(cost, plan)
    else:
        raise InputError(
            f"--plan {plan!r} is not known. Known: {', '.join(NAMES)}, or the path of a plan ending in .json"
        )
    return Fused(machine, name, cost, found, alone(cost, 1), best, proof, fusion_bounds(cost))


def verify_proof(fused: Fused) -> None:
    """Let the independent checker go through the proof of the best plan: every block of it is priced anew."""
    if fused.proof is None:
        raise InputError(f"--verify: {fused.cost.network.name} has too many ideals for a proof; leave it out")
    plan, network = fused.best, fused.cost.network
    try:
        check(network.before(), plan.blocks, plan.choices, plan.costs, fused.proof.potentials, fused.cost.price)
    except InputError as error:
        raise InvalidIR(str(error)) from None


def every_plan(fused: Fused) -> list[tuple[str, Plan]]:
    """The plans of all strategies, by name."""
    plans = [(name, make(fused.cost)) for name, make in PLANS.items()]
    return [*plans, (EXACT, fused.best), (BY_LAYER, plan_named(fused.cost, BY_LAYER))]

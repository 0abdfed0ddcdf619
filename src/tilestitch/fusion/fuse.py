"""A plan of fused blocks for a network, by a strategy or from a file, priced and set beside the best one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tilestitch.cost.fused import BlockCost, block_model
from tilestitch.errors import DoesNotFit, InputError, InvalidIR
from tilestitch.fusion.plan_file import NamedBlock
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.ir.graph import Graph
from tilestitch.partition.certificate import check
from tilestitch.partition.dlfusion import PLANS, alone
from tilestitch.partition.fusion_bounds import FusionBounds, fusion_bounds
from tilestitch.partition.ideals import Exact, Plan, exact
from tilestitch.partition.layers import layers_of
from tilestitch.partition.moves import nearly_best
from tilestitch.passes import simplify

EXACT = "exact"
NAMES = (*PLANS, EXACT)


@dataclass(frozen=True)
class Fused:
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
            _time(self.cost, block, cores) >= 0
            for block, cores in zip(self.plan.blocks, self.plan.choices, strict=True)
        )

    @property
    def least(self) -> int:
        """What no plan can cost less than, in picoseconds: the best plan where it is proven."""
        return self.best.cost if self.proof is not None else self.bounds.best


def block_cost(graph: Graph, machine: Accelerator, *, fold_bn: bool = True) -> BlockCost:
    """The block model of a network on the cores of one cluster of a machine."""
    model = block_model(machine)
    return BlockCost(layers_of(simplify(graph, fold_bn=fold_bn), granule=model.granule), model)


def fuse(cost: BlockCost, machine: str, plan: str | Sequence[NamedBlock], name: str) -> Fused:
    """The plan of a strategy, or the one whose blocks are given, beside the best plan and the bounds."""
    before = cost.network.before()
    proof = exact(before, cost.price)
    best = nearly_best(before, cost.price) if proof is None else proof.plan
    if not isinstance(plan, str):
        found = _given(cost, plan, name)
    elif plan == EXACT:
        found = best
    elif plan in PLANS:
        found = PLANS[plan](cost)
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
    return [*plans, (EXACT, fused.best)]


def _given(cost: BlockCost, named: Sequence[NamedBlock], where: str) -> Plan:
    """Blocks from a file as a plan: every layer once, in an order in which they can run, on cores that there are."""
    numbers = {layer.name: number for number, layer in enumerate(cost.network.layers)}
    before, most = cost.network.before(), max(cost.model.core_counts)
    done: set[int] = set()
    blocks, costs = [], []
    for index, block in enumerate(named):
        here = f"{where}: blocks[{index}]"
        for name in block.layers:
            if name not in numbers:
                raise InputError(f"{here}: there is no layer {name!r} in {cost.network.name}")
        members = tuple(sorted(numbers[name] for name in block.layers))
        for member in members:
            layer = cost.network.layers[member].name
            if member in done or members.count(member) > 1:
                raise InputError(f"{here}: layer {layer!r} is in two places; expected each once")
            missing = [number for number in before[member] if number not in done and number not in members]
            if missing:
                raise InputError(
                    f"{here}: layer {layer!r} reads {cost.network.layers[missing[0]].name!r}, which runs later; "
                    "expected blocks in an order in which they can run"
                )
        if not 1 <= block.cores <= most:
            raise InputError(f"{here}: cores: expected 1 to {most}, found {block.cores}")
        time = _time(cost, members, block.cores)
        if time < 0:
            raise DoesNotFit(
                f"{here}: {len(members)} layers on {block.cores} cores do not fit into {cost.model.local_bytes:,} B of "
                "each core; choose fewer layers, or another number of cores"
            )
        done.update(members)
        blocks.append(members)
        costs.append(time)
    missing = [layer.name for number, layer in enumerate(cost.network.layers) if number not in done]
    if missing:
        raise InputError(f"{where}: layer {missing[0]!r} is in no block; expected each once")
    return Plan(tuple(blocks), tuple(block.cores for block in named), tuple(costs))


def _time(cost: BlockCost, block: Sequence[int], cores: int) -> int:
    row = np.zeros((1, len(cost.network.layers)), np.uint8)
    row[0, list(block)] = 1
    return int(replace(cost, model=replace(cost.model, core_counts=(cores,))).times(row)[0, 0])

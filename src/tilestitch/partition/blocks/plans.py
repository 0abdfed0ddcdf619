"""Plans of fused blocks by name or as somebody wrote them, and as what the schedule takes."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tilestitch.base.errors import DoesNotFit, InputError
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.ir.by_hand import NamedBlock
from tilestitch.ir.graph import Graph
from tilestitch.ir.partition import FusedBlock
from tilestitch.partition.blocks.dlfusion import PLANS
from tilestitch.partition.blocks.layers import layers_of
from tilestitch.partition.blocks.model import BlockCost, FusionNetwork, block_model
from tilestitch.partition.ideals import Plan, exact
from tilestitch.partition.moves import nearly_best

EXACT = "exact"
BY_LAYER = "exact-by-layer"
NAMES = (*PLANS, EXACT, BY_LAYER)


def block_cost(graph: Graph, machine: Accelerator) -> BlockCost:
    """The block model of a simplified network on the cores of one cluster of a machine."""
    model = block_model(machine)
    return BlockCost(layers_of(graph, granule=model.granule), model)


def plan_named(cost: BlockCost, name: str) -> Plan:
    """The plan of a strategy; of `exact`, one that need not be the best where the ideals are too many.

    `exact-by-layer` is the best where only the transfers of a layer hide behind its arithmetic, priced as all others.
    The plan of a network without layers, which only hands out constants, has no blocks.
    """
    if not cost.network.layers:
        return Plan((), (), ())
    if name == BY_LAYER:
        found = plan_named(replace(cost, model=replace(cost.model, by_layer=True)), EXACT)
        pairs = zip(found.blocks, found.choices, strict=True)
        return replace(found, costs=tuple(time_of(cost, block, cores) for block, cores in pairs))
    if name != EXACT:
        return PLANS[name](cost)
    before = cost.network.before()
    proof = exact(before, cost.price)
    return nearly_best(before, cost.price) if proof is None else proof.plan


def blocks_of(network: FusionNetwork, plan: Plan) -> tuple[FusedBlock, ...]:
    """The operators of each block of a plan, and its cores."""
    return tuple(
        FusedBlock(tuple(name for number in block for name in network.layers[number].operators), cores)
        for block, cores in zip(plan.blocks, plan.choices, strict=True)
    )


def plan_given(cost: BlockCost, named: Sequence[NamedBlock], where: str) -> Plan:
    """Blocks with names as a plan: every layer once, in an order in which they can run, on cores that there are.

    Raises `InputError` where that is not so, `DoesNotFit` where a block does not; `where` says whose blocks they are.
    """
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
        time = time_of(cost, members, block.cores)
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


def time_of(cost: BlockCost, block: Sequence[int], cores: int) -> int:
    """Picoseconds of one block; `ILLEGAL` where it does not fit."""
    row = np.zeros((1, len(cost.network.layers)), np.uint8)
    row[0, list(block)] = 1
    return int(replace(cost, model=replace(cost.model, core_counts=(cores,))).times(row)[0, 0])

"""The provably best sub-graphs of GraphTurbo's schedule under a cost that adds up over them: `cost.sub_graph`."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilestitch.cost.sub_graph import Pieces, SubGraphCost
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.ir.graph import Graph
from tilestitch.partition.ideals import Exact, Plan, exact
from tilestitch.partition.moves import nearly_best

MAX_IDEALS = 700  # beyond which the best of all sub-graphs takes too long to find
LONGEST = 200  # nodes of a sub-graph then
MOST_PRICED = 100_000  # sub-graphs then, after which no other order is begun


@dataclass(frozen=True)
class Grouping:
    """Sub-graphs in an order in which they can run: operators in the order of the graph, pieces, estimated cycles."""

    groups: tuple[tuple[str, ...], ...]
    pieces: tuple[Pieces, ...]
    cost: SubGraphCost
    plan: Plan
    proof: Exact | None  # that no grouping costs less; None where the network has too many ideals


def grouping_cost(graph: Graph, kernels: Sequence[tuple[str, ...]], machine: Accelerator) -> SubGraphCost:
    """The cost of sub-graphs of kernels in running order; copies that make one tensor are one node."""
    nodes: list[list[int]] = []
    of_tensor: dict[str, int] = {}
    for number, kernel in enumerate(kernels):
        operators = [graph.by_name[name] for name in kernel]
        tensor = operators[-1].outputs[0]
        if len(operators) == 1 and operators[0].kind == "copy" and len(graph.producers[tensor]) > 1:
            if tensor in of_tensor:
                nodes[of_tensor[tensor]].append(number)
                continue
            of_tensor[tensor] = len(nodes)
        nodes.append([number])
    nodes.sort(key=lambda node: node[-1])
    return SubGraphCost(graph, machine, tuple(kernels), tuple(map(tuple, nodes)))


def before(cost: SubGraphCost) -> list[tuple[int, ...]]:
    """For each node of a cost those whose results it reads."""
    graph = cost.graph
    node_of = {name: at for at, node in enumerate(cost.nodes) for number in node for name in cost.kernels[number]}
    found = []
    for at, node in enumerate(cost.nodes):
        operators = [graph.by_name[name] for number in node for name in cost.kernels[number]]
        makers = {
            node_of[maker.name] for op in operators for name in op.inputs for maker in graph.producers.get(name, ())
        }
        found.append(tuple(sorted(makers - {at})))
    return found


def best_grouping(
    graph: Graph, kernels: Sequence[tuple[str, ...]], machine: Accelerator, *, limit: int = MAX_IDEALS
) -> Grouping:
    """The sub-graphs of least cost; good ones without a proof where the network has more ideals than `limit`."""
    cost = grouping_cost(graph, kernels, machine)
    waits = before(cost)
    proof = exact(waits, cost.price, limit=limit)

    def limited(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = np.full((2, len(blocks)), -1, np.int64)
        short = blocks.sum(axis=1) <= LONGEST
        found[:, short] = cost.price(blocks[short])
        return found[0], found[1]

    plan = nearly_best(waits, limited, most=MOST_PRICED) if proof is None else proof.plan
    groups = []
    for block in plan.blocks:
        names = [name for node in block for number in cost.nodes[node] for name in cost.kernels[number]]
        groups.append(tuple(sorted(names, key=graph.position.__getitem__)))
    return Grouping(tuple(groups), tuple(cost.pieces(choice) for choice in plan.choices), cost, plan, proof)

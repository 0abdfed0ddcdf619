"""Plans of graphs with too many ideals: legal, priced right, never below the best, and better than one order's."""

import random

import numpy as np
import pytest

from benchmarks.fusion import wired
from tests.helpers.fused_plans import MODEL, arbitrary, random_graph
from tests.helpers.pairs import first
from tilestitch.commands.fuse.fuse import fuse_blocks
from tilestitch.partition.blocks.model import BlockCost
from tilestitch.partition.ideals import Before, Plan, Price, along, exact
from tilestitch.partition.moves import depth_first, nearly_best, with_moves


def assert_legal(plan: Plan, before: Before, price: Price) -> None:
    """Every node once, after all that it reads, and every block at its price."""
    done: set[int] = set()
    for block, choice, cost in zip(plan.blocks, plan.choices, plan.costs, strict=True):
        assert done.isdisjoint(block)
        done.update(block)
        assert all(done.issuperset(before[node]) for node in block)
        row = np.zeros((1, len(before)), np.uint8)
        row[0, list(block)] = 1
        costs, choices = price(row)
        assert (int(costs[0]), int(choices[0])) == (cost, choice)
    assert len(done) == len(before)


@pytest.mark.parametrize("seed", first(20, range(60)))
def test_a_plan_after_moves_is_legal_and_between_the_best_and_where_it_began(seed: int) -> None:
    before, price = random_graph(random.Random(seed), 9), arbitrary(seed)
    start = along(before, price)
    moved = with_moves(before, price, start)
    proof = exact(before, price)
    assert proof is not None
    assert_legal(moved, before, price)
    assert proof.plan.cost <= moved.cost <= start.cost
    assert_legal(nearly_best(before, price), before, price)


def test_depth_first_is_an_order_in_which_nodes_can_run() -> None:
    before = random_graph(random.Random(1), 40)
    orders = [depth_first(before, seed) for seed in range(5)]
    for order in orders:
        place = {node: at for at, node in enumerate(order)}
        assert sorted(place) == list(range(40))
        assert all(place[needed] < place[node] for node in range(40) for needed in before[node])
    assert len(set(map(tuple, orders))) > 1


@pytest.mark.slow
def test_a_network_wired_at_random_gets_a_plan_and_an_honest_gap() -> None:
    cost = BlockCost(wired(200), MODEL)
    before = cost.network.before()
    found = fuse_blocks(cost, "mlu100", "exact", "exact")
    assert found.proof is None
    assert_legal(found.best, before, cost.price)
    assert found.least < found.best.cost < along(before, cost.price, shrinks=True).cost

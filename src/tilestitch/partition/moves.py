"""A good partition of a graph that has too many ideals for the proven best one (docs/dlfusion.md#too-many-ideals).

Stretches of an order of the nodes are blocks, the best of them (`ideals.along`); then nodes move from a block to its
neighbour while that makes the plan cheaper, and the order that results is cut anew.
"""

import random
from collections.abc import Sequence

import numpy as np

from tilestitch.partition.ideals import Before, Plan, Price, along

MOST_ORDERS = 20  # besides the given one
ELSEWHERE = 0.3  # how often a shuffled order goes on at another node than the last one that is ready
MOST_PRICED = 1_500_000  # blocks; where so many were priced, no further order is begun


def nearly_best(before: Before, price: Price, *, most: int = MOST_PRICED) -> Plan:
    """The best of the plans from several orders: the given one, depth first, and depth first with readers shuffled.

    No order is begun when `most` blocks were priced. Raises `DoesNotFit` like `along`.
    """
    counted = _Counted(price)
    best = _settled(before, counted, list(range(len(before))))
    for seed in range(MOST_ORDERS):
        found = _settled(before, counted, depth_first(before, seed))
        best = min(best, found, key=lambda plan: plan.cost)
        if counted.blocks > most:
            break
    return best


class _Counted:
    """A price that counts what it is asked for."""

    def __init__(self, price: Price) -> None:
        self.price, self.blocks = price, 0

    def __call__(self, blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.blocks += len(blocks)
        return self.price(blocks)


def depth_first(before: Before, seed: int = 0) -> list[int]:
    """An order in which a node comes as soon as all that it reads is there, right after the last of it.

    Seeds above 0 shuffle the readers of a node, and take another node that is ready than the last one now and then.
    """
    chosen = random.Random(seed)
    after, missing = readers(before), [len(nodes) for nodes in before]
    waiting = [node for node in range(len(before) - 1, -1, -1) if not before[node]]
    found = []
    while waiting:
        other = seed and chosen.random() < ELSEWHERE
        node = waiting.pop(chosen.randrange(len(waiting)) if other else -1)
        found.append(node)
        following = after[node][::-1]
        if seed:
            chosen.shuffle(following)
        for reader in following:
            missing[reader] -= 1
            if not missing[reader]:
                waiting.append(reader)
    return found


def _settled(before: Before, price: Price, order: Sequence[int]) -> Plan:
    """The best stretches of an order, improved by moves and cut anew until nothing changes."""
    plan = _cut(before, price, order)
    while True:
        moved = with_moves(before, price, plan)
        again = _cut(before, price, [node for block in moved.blocks for node in block])
        best = min(moved, again, key=lambda one: one.cost)
        if best.cost == plan.cost:
            return best
        plan = best


def _cut(before: Before, price: Price, order: Sequence[int]) -> Plan:
    """The best plan whose blocks are stretches of an order."""
    place = {node: at for at, node in enumerate(order)}
    columns = np.array(order)

    def reordered(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        given = np.zeros_like(blocks)
        given[:, columns] = blocks
        return price(given)

    found = along([tuple(place[needed] for needed in before[node]) for node in order], reordered, shrinks=True)
    blocks = tuple(tuple(sorted(order[at] for at in block)) for block in found.blocks)
    return Plan(blocks, found.choices, found.costs)


def with_moves(before: Before, price: Price, plan: Plan) -> Plan:
    """The plan after moves of single nodes between neighbouring blocks, each the best of its pair, until none helps."""
    after = readers(before)
    blocks = [
        (set(block), cost, choice) for block, cost, choice in zip(plan.blocks, plan.costs, plan.choices, strict=True)
    ]
    changed = True
    while changed:
        changed, at = False, 0
        while at + 1 < len(blocks):
            (first, one, _), (second, other, _) = blocks[at : at + 2]
            pairs = [
                *((first - {n}, second | {n}) for n in sorted(first) if not first.intersection(after[n])),
                *((first | {n}, second - {n}) for n in sorted(second) if not second.intersection(before[n])),
            ]
            rows = np.zeros((2 * len(pairs), len(before)), np.uint8)
            for number, block in enumerate(block for pair in pairs for block in pair):
                rows[number, list(block)] = 1
            costs, choices = price(rows)
            costs = np.where(rows.any(axis=1), costs, 0)
            totals = np.where((costs < 0).reshape(-1, 2).any(axis=1), one + other, costs.reshape(-1, 2).sum(axis=1))
            best = int(np.argmin(totals))
            if totals[best] >= one + other:
                at += 1
                continue
            new = zip(pairs[best], costs[2 * best :].tolist(), choices[2 * best :].tolist(), strict=False)
            blocks[at : at + 2] = [part for part in new if part[0]]
            changed = True
    return Plan(
        tuple(tuple(sorted(block)) for block, _, _ in blocks),
        tuple(choice for _, _, choice in blocks),
        tuple(cost for _, cost, _ in blocks),
    )


def readers(before: Before) -> list[list[int]]:
    """For each node those that read it."""
    after: list[list[int]] = [[] for _ in before]
    for node, nodes in enumerate(before):
        for needed in nodes:
            after[needed].append(node)
    return after

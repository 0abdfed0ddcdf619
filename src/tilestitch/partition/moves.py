"""A good partition of a graph that has too many ideals for the proven best one (docs/dlfusion.md#too-many-ideals).

Stretches of an order of the nodes are blocks, the best of them (`ideals.along`); then nodes move from a block to its
neighbour while that makes the plan cheaper, and the order that results is cut anew.
"""

from collections.abc import Sequence

import numpy as np

from tilestitch.partition.ideals import Before, Plan, Price, along

MOST_PRICED = 1_000_000  # blocks that are priced for moves; beyond, the plan stays as it is


def nearly_best(before: Before, price: Price) -> Plan:
    """The better of the plans from two orders, the given one and depth first; raises `DoesNotFit` like `along`."""
    found = [_settled(before, price, order) for order in (list(range(len(before))), depth_first(before))]
    return min(found, key=lambda plan: plan.cost)


def depth_first(before: Before) -> list[int]:
    """An order in which a node comes as soon as all that it reads is there, right after the last of it."""
    after, missing = _readers(before), [len(nodes) for nodes in before]
    waiting = [node for node in range(len(before) - 1, -1, -1) if not before[node]]
    found = []
    while waiting:
        node = waiting.pop()
        found.append(node)
        for reader in reversed(after[node]):
            missing[reader] -= 1
            if not missing[reader]:
                waiting.append(reader)
    return found


def _settled(before: Before, price: Price, order: Sequence[int]) -> Plan:
    plan, left = _cut(before, price, order), MOST_PRICED
    while True:
        moved, priced = with_moves(before, price, plan, left)
        left -= priced
        again = _cut(before, price, [node for block in moved.blocks for node in block])
        best = min(moved, again, key=lambda one: one.cost)
        if best.cost == plan.cost or left <= 0:
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


def with_moves(before: Before, price: Price, plan: Plan, most: int = MOST_PRICED) -> tuple[Plan, int]:
    """The plan after moves of single nodes between neighbouring blocks, each the best of its pair, until none helps.

    Gives also how many blocks were priced; no more moves are looked for beyond `most`.
    """
    after = _readers(before)
    blocks = [
        (set(block), cost, choice) for block, cost, choice in zip(plan.blocks, plan.costs, plan.choices, strict=True)
    ]
    priced, changed = 0, True
    while changed and priced < most:
        changed, at = False, 0
        while at + 1 < len(blocks) and priced < most:
            (first, one, _), (second, other, _) = blocks[at : at + 2]
            pairs = [
                *((first - {n}, second | {n}) for n in sorted(first) if not first.intersection(after[n])),
                *((first | {n}, second - {n}) for n in sorted(second) if not second.intersection(before[n])),
            ]
            rows = np.zeros((2 * len(pairs), len(before)), np.uint8)
            for number, block in enumerate(block for pair in pairs for block in pair):
                rows[number, list(block)] = 1
            costs, choices = price(rows)
            priced += len(rows)
            costs = np.where(rows.any(axis=1), costs, 0)
            totals = np.where((costs < 0).reshape(-1, 2).any(axis=1), one + other, costs.reshape(-1, 2).sum(axis=1))
            best = int(np.argmin(totals))
            if totals[best] >= one + other:
                at += 1
                continue
            new = zip(pairs[best], costs[2 * best :].tolist(), choices[2 * best :].tolist(), strict=False)
            blocks[at : at + 2] = [part for part in new if part[0]]
            changed = True
    found = Plan(
        tuple(tuple(sorted(block)) for block, _, _ in blocks),
        tuple(choice for _, _, choice in blocks),
        tuple(cost for _, cost, _ in blocks),
    )
    return found, priced


def _readers(before: Before) -> list[list[int]]:
    after: list[list[int]] = [[] for _ in before]
    for node, nodes in enumerate(before):
        for needed in nodes:
            after[needed].append(node)
    return after

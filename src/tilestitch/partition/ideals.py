"""The provably best partition of a graph into blocks: a shortest path over its order ideals (docs/dlfusion.md#exact).

An ideal is a set of nodes that holds all that its members read. A plan runs blocks one after the other, so what has
run is an ideal after each block, and each block is the difference of two; conversely every chain of ideals is a plan,
and no plan is lost. Where the cost of a plan is the sum of the costs of its blocks, the best one is a shortest path
from the empty ideal to the whole graph.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tilestitch.base.errors import DoesNotFit

MAX_IDEALS = 6_000
BATCH = 4_096  # blocks that are priced at once
STRETCH = 64  # the same, of those that end at one place of an order

Before = Sequence[Sequence[int]]  # for each node those that must have run


class Price(Protocol):
    """The cost of blocks, whatever it counts."""

    def __call__(self, blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A whole number for each row (a block; a column a node), below zero where it is not allowed, and a choice."""
        ...


@dataclass(frozen=True)
class Plan:
    """Blocks in the order in which they run, the choice (such as a number of cores) of each, and what each costs."""

    blocks: tuple[tuple[int, ...], ...]
    choices: tuple[int, ...]
    costs: tuple[int, ...]

    @property
    def cost(self) -> int:
        """Of the whole plan."""
        return sum(self.costs)


@dataclass(frozen=True)
class Exact:
    """A plan and the proof that none is better: for each ideal the least cost with which it can be reached."""

    plan: Plan
    potentials: Mapping[int, int]  # ideal as a bit mask -> cost
    pairs: int  # blocks that were compared


def ideals(before: Before, limit: int = MAX_IDEALS) -> np.ndarray | None:
    """Every ideal as a row of zeros and ones, by size and then by number; None where there are more than the limit."""
    masks = [sum(1 << node for node in nodes) for nodes in before]
    level, found = [0], [0]
    for _ in range(len(before)):
        following: dict[int, None] = {}
        for ideal in level:
            for node, needed in enumerate(masks):
                if not ideal >> node & 1 and needed & ~ideal == 0:
                    following[ideal | 1 << node] = None
        level = sorted(following)
        found += level
        if len(found) > limit:
            return None
    return _rows(found, len(before))


def exact(before: Before, price: Price, *, limit: int = MAX_IDEALS) -> Exact | None:
    """The best plan with its proof; None where the graph has more ideals than the limit.

    Ties go to the smaller last block. Raises `DoesNotFit` where no plan is allowed.
    """
    table = ideals(before, limit)
    if table is None:
        return None
    sizes = table.sum(axis=1).astype(np.int64)
    wide = table.astype(np.float32)
    best = np.full(len(table), -1, np.int64)
    best[0] = 0
    came = np.zeros(len(table), np.int64)
    choice = np.zeros(len(table), np.int64)
    pairs = 0
    for start in range(1, len(table), 256):
        stop = min(len(table), start + 256)
        inside = wide[start:stop] @ wide[:stop].T == sizes[None, :stop]
        for row in range(start, stop):
            subsets = np.flatnonzero(inside[row - start, :row])
            subsets = subsets[(sizes[subsets] < sizes[row]) & (best[subsets] >= 0)][::-1]
            for first in range(0, len(subsets), BATCH):
                chosen = subsets[first : first + BATCH]
                costs, choices = price(table[row] - table[chosen])
                pairs += len(chosen)
                totals = np.where(costs < 0, np.iinfo(np.int64).max, best[chosen] + costs)
                place = int(np.argmin(totals))
                if costs[place] >= 0 and (best[row] < 0 or totals[place] < best[row]):
                    best[row], came[row], choice[row] = totals[place], chosen[place], choices[place]
    if best[-1] < 0:
        raise DoesNotFit("no partition of the network into blocks fits the machine; it needs a larger local memory")
    blocks, choices_taken, costs_paid = [], [], []
    row = len(table) - 1
    while row:
        source = int(came[row])
        blocks.append(tuple(int(node) for node in np.flatnonzero(table[row] - table[source])))
        choices_taken.append(int(choice[row]))
        costs_paid.append(int(best[row] - best[source]))
        row = source
    plan = Plan(tuple(blocks[::-1]), tuple(choices_taken[::-1]), tuple(costs_paid[::-1]))
    keys = _keys(table)
    potentials = {keys[row]: int(best[row]) for row in range(len(table)) if best[row] >= 0}
    return Exact(plan, potentials, pairs)


def along(before: Before, price: Price, *, shrinks: bool = False) -> Plan:
    """The best plan whose blocks are stretches of the order of the nodes: for any graph, and at or above the best.

    `shrinks` says that a block that is not allowed never becomes so by taking more nodes before it.
    """
    count = len(before)
    best, came, choice = [0] + [-1] * count, [0] * (count + 1), [0] * (count + 1)
    for stop in range(1, count + 1):
        for first in range(stop, 0, -STRETCH):
            starts = list(range(first - 1, max(-1, first - 1 - STRETCH), -1))
            table = np.zeros((len(starts), count), np.uint8)
            for row, start in enumerate(starts):
                table[row, start:stop] = 1
            costs, choices = price(table)
            for row, start in enumerate(starts):
                if costs[row] >= 0 and best[start] >= 0:
                    total = best[start] + int(costs[row])
                    if best[stop] < 0 or total < best[stop]:
                        best[stop], came[stop], choice[stop] = total, start, int(choices[row])
            if shrinks and costs[-1] < 0:
                break
    if best[-1] < 0:
        raise DoesNotFit("no partition of the network into blocks fits the machine; it needs a larger local memory")
    blocks, choices_taken, costs_paid = [], [], []
    stop = count
    while stop:
        blocks.append(tuple(range(came[stop], stop)))
        choices_taken.append(choice[stop])
        costs_paid.append(best[stop] - best[came[stop]])
        stop = came[stop]
    return Plan(tuple(blocks[::-1]), tuple(choices_taken[::-1]), tuple(costs_paid[::-1]))


def _rows(masks: Sequence[int], width: int) -> np.ndarray:
    size = (width + 7) // 8
    raw = np.frombuffer(b"".join(mask.to_bytes(size, "little") for mask in masks), np.uint8)
    return np.unpackbits(raw.reshape(len(masks), size), axis=1, count=width, bitorder="little")


def _keys(table: np.ndarray) -> list[int]:
    packed = np.packbits(table, axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in packed]

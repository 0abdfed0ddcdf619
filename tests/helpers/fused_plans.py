"""Layers to fuse, what blocks of them cost (by the model, or anything at all), and the best plan by brute force."""

import random
from functools import cache

import numpy as np

from tests.helpers.unweighted import unweighted
from tilestitch import api
from tilestitch.hardware.load import load_machine
from tilestitch.partition.blocks.layers import layers_of
from tilestitch.partition.blocks.model import BlockCost, FusionLayer, FusionNetwork, Read, block_model
from tilestitch.passes import simplify

MODEL = block_model(load_machine("mlu100"))


@cache
def network(name: str) -> FusionNetwork:
    """A network of the zoo as layers."""
    return layers_of(simplify(api.load_graph(unweighted(name), batch=1)), granule=MODEL.granule)


def arbitrary(seed: int, *, refuse: float = 0.1):
    """A cost without any structure: a number for each block, some not allowed, never a single node."""

    def price(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        costs, choices = [], []
        for row in blocks:
            chosen = random.Random(f"{seed} {row.tolist()}")
            size = int(row.sum())
            refused = size > 1 and chosen.random() < refuse
            costs.append(-1 if refused else chosen.randint(1, 40) + 10 * size)
            choices.append(chosen.choice((1, 2, 4)))
        return np.array(costs), np.array(choices)

    return price


def random_graph(chosen: random.Random, nodes: int) -> list[tuple[int, ...]]:
    """Mostly a chain, with branches and shortcuts."""
    before = []
    for node in range(nodes):
        earlier = [other for other in range(node) if chosen.random() < 0.25]
        if node and chosen.random() < 0.8:
            earlier.append(node - 1)
        before.append(tuple(sorted(set(earlier))))
    return before


def best_by_brute_force(before, price) -> int:
    """Every plan, block after block; a plan is cut off only when it costs as much as the best so far."""
    count = len(before)
    needs = [sum(1 << other for other in nodes) for nodes in before]
    costs: dict[int, int] = {}

    def cost(mask: int) -> int:
        if mask not in costs:
            costs[mask] = int(price(np.array([[mask >> n & 1 for n in range(count)]], np.uint8))[0][0])
        return costs[mask]

    def blocks(done: int):
        """All that can run next, each once."""
        seen, waiting = set(), [0]
        while waiting:
            block = waiting.pop()
            for node in range(count):
                larger = block | 1 << node
                if not (done | block) >> node & 1 and needs[node] & ~(done | block) == 0 and larger not in seen:
                    seen.add(larger)
                    waiting.append(larger)
        return seen

    best = 10**9

    def extend(done: int, paid: int) -> None:
        nonlocal best
        if done == (1 << count) - 1:
            best = min(best, paid)
            return
        for block in blocks(done):
            found = cost(block)
            if found >= 0 and paid + found < best:
                extend(done | block, paid + found)

    extend(0, 0)
    return best


def costs(name: str) -> BlockCost:
    return BlockCost(network(name), MODEL)


def wide(branches: int) -> BlockCost:
    """Many branches side by side between two layers: more ideals than anybody counts."""
    chosen = random.Random(0)
    layers = [FusionLayer("start", ("start",), 10**8, 1.0, 64, 56, 400_000, 10_000, (Read(2 * branches + 2, 3),))]
    for branch in range(branches):
        for step in range(2):
            source = 0 if step == 0 else len(layers) - 1
            work = chosen.randint(10**7, 10**8)
            name = f"branch{branch}.{step}"
            layers.append(FusionLayer(name, (name,), work, 1.0, 64, 56, 400_000, 10_000, (Read(source, 3),)))
    reads = tuple(Read(2 * branch + 2) for branch in range(branches))
    layers.append(FusionLayer("end", ("end",), 10**6, 1 / 32, 64, 56, 400_000, 0, reads))
    found = FusionNetwork("wide", tuple(layers), ((56, 400_000),), frozenset([len(layers) - 1]))
    return BlockCost(found, MODEL)

"""DLFusion's joint choice of blocks and core numbers, and what it is compared with (docs/dlfusion.md#strategies).

The body of the paper is not available: the algorithm is INFERRED from its abstract (two features, operation count and
channels; a joint strategy; much less search time than a reduced brute-force search).
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

import numpy as np

from tilestitch.base.units import ceil_div
from tilestitch.partition.blocks.model import BlockCost, BlockModel, FusionNetwork, Read
from tilestitch.partition.blocks.synthetic import Score, critical_operations, fit, rounded
from tilestitch.partition.ideals import Plan, along

GRID = 4  # layers between two cuts of the reduced search
EVALUATIONS = 2_000  # blocks that each of the two random searches prices


class Members(StrEnum):
    """What the core number of a block is predicted from."""

    MEAN = "mean"  # the mean of its products' own core numbers
    SUM = "sum"  # the sum of their operations and the mean of their channels


class Close(StrEnum):
    """Where a block ends that has enough work."""

    AFTER = "after"  # behind the layer that makes it enough
    BEFORE = "before"  # in front of it


@dataclass(frozen=True)
class Joint:
    """The options of DLFusion's algorithm; every one is INFERRED."""

    members: Members = Members.MEAN
    close: Close = Close.AFTER
    units: bool = False  # cut only where a single result passes from what has run to the rest
    threshold: float | None = None  # operations a core; None: where a core is saturated by synthetic layers
    score: Score = Score.LEAST_SQUARES  # how core numbers are predicted


def joint(cost: BlockCost, options: Joint = Joint()) -> Plan:
    """DLFusion's plan, in one pass over the layers: a block grows until its cores have enough work, or it is full."""
    network, model = cost.network, cost.model
    predicted = _Predicted(network, model, options)
    threshold = critical_operations(model) if options.threshold is None else options.threshold
    count = len(network.layers)
    blocks: list[tuple[int, int]] = []
    start = last = 0
    for stop in _cuts(network) if options.units else range(1, count + 1):
        if last > start and not _allowed(cost, range(start, stop), predicted.cores(start, stop)):
            blocks.append((start, last))
            start = last
        enough = predicted.operations(start, stop) / predicted.cores(start, stop) >= threshold
        if enough and options.close is Close.BEFORE and last > start:
            blocks.append((start, last))
            start, enough = last, False
        if enough:
            blocks.append((start, stop))
            start = stop
        last = stop
    if start < count:
        blocks.append((start, count))
    members = [tuple(range(start, stop)) for start, stop in blocks]
    return priced(cost, members, [predicted.cores(start, stop) for start, stop in blocks])


class _Predicted:
    """Operations and core numbers of stretches of the layers, each in constant time."""

    def __init__(self, network: FusionNetwork, model: BlockModel, options: Joint) -> None:
        predictor = fit(model, options.score)
        self.predictor, self.counts, self.members = predictor, model.core_counts, options.members
        every = [
            (1.0, layer.operations, layer.channels, predictor.cores(layer.operations, layer.channels))
            for layer in network.layers
        ]
        products = [row if layer.weight_bytes else (0.0,) * 4 for row, layer in zip(every, network.layers, strict=True)]
        start = np.zeros((1, 4))
        self.every = np.concatenate([start, np.cumsum(np.array(every, np.float64).reshape(-1, 4), axis=0)])
        self.products = np.concatenate([start, np.cumsum(np.array(products, np.float64).reshape(-1, 4), axis=0)])

    def operations(self, start: int, stop: int) -> float:
        """Of the layers from `start` on, before `stop`."""
        return float(self.every[stop, 1] - self.every[start, 1])

    def cores(self, start: int, stop: int) -> int:
        """What is predicted of the products, or, where there are none, of all layers; rounded to a number there is."""
        number, operations, channels, cores = self.products[stop] - self.products[start]
        if not number:
            number, operations, channels, cores = self.every[stop] - self.every[start]
        if self.members is Members.MEAN:
            wanted = cores / number
        else:
            wanted = self.predictor.cores(operations, channels / number)
        return rounded(self.counts, wanted)


def _cuts(network: FusionNetwork) -> list[int]:
    """Numbers of layers behind which only one result is still to be read, and the number of all."""
    last: dict[int, int] = {}
    for number, layer in enumerate(network.layers):
        for read in layer.reads:
            last[read.tensor] = number
    count = len(network.layers)
    open_results = np.zeros(count + 1, np.int64)
    for tensor in range(count):
        if tensor in last:
            open_results[tensor + 1] += 1
            open_results[last[tensor] + 1] -= 1
    still = np.cumsum(open_results)
    return [*(stop for stop in range(1, count) if still[stop] == 1), count]


def priced(cost: BlockCost, blocks: Sequence[Sequence[int]], cores: Sequence[int]) -> Plan:
    """A plan of these blocks on these core numbers; where one does not fit, on the best number on which it does.

    A block that fits on no number is taken apart into its layers.
    """
    counts = cost.model.core_counts
    found: list[tuple[tuple[int, ...], int, int]] = []
    for block, wanted in zip(blocks, cores, strict=True):
        times = _times(cost, block)
        column = counts.index(wanted)
        if times[column] < 0:
            fitting = [index for index, time in enumerate(times) if time >= 0]
            if not fitting:
                alone = priced(cost, [(member,) for member in block], [wanted] * len(block))
                found += zip(alone.blocks, alone.choices, alone.costs, strict=True)
                continue
            column = min(fitting, key=lambda index: times[index])
        found.append((tuple(block), counts[column], int(times[column])))
    return Plan(*(tuple(column) for column in zip(*found, strict=True)))  # pyright: ignore[reportArgumentType]


def _times(cost: BlockCost, block: Sequence[int]) -> np.ndarray:
    row = np.zeros((1, len(cost.network.layers)), np.uint8)
    row[0, list(block)] = 1
    return cost.times(row)[0]


def _allowed(cost: BlockCost, block: Sequence[int], cores: int) -> bool:
    return _times(cost, block)[cost.model.core_counts.index(cores)] >= 0


# What it is compared with


def alone(cost: BlockCost, cores: int | None = None) -> Plan:
    """No fusion: every layer on so many cores, or on the number that suits it."""
    times = cost.times(np.eye(len(cost.network.layers), dtype=np.uint8))
    counts = cost.model.core_counts
    columns = [counts.index(cores) if cores is not None else int(np.argmin(row)) for row in times]
    blocks = tuple((number,) for number in range(len(times)))
    costs = tuple(int(row[column]) for row, column in zip(times, columns, strict=True))
    return Plan(blocks, tuple(counts[column] for column in columns), costs)


def fixed(cost: BlockCost) -> Plan:
    """No fusion, one core number for the whole network: the best one."""
    return min((alone(cost, cores) for cores in cost.model.core_counts), key=lambda plan: plan.cost)


def one_block(cost: BlockCost) -> Plan:
    """The whole network as one block on every core, whether it fits or not."""
    unlimited = cost.relaxed(capacity=False)
    block = tuple(range(len(cost.network.layers)))
    cores = max(cost.model.core_counts)
    return Plan((block,), (cores,), (int(_times(unlimited, block)[cost.model.core_counts.index(cores)]),))


def fixed_fusion(cost: BlockCost, options: Joint = Joint()) -> Plan:
    """DLFusion's blocks, one core number for all: the best one (another only where that does not fit)."""
    blocks = joint(cost, options).blocks
    plans = (priced(cost, blocks, [cores] * len(blocks)) for cores in cost.model.core_counts)
    return min(plans, key=lambda plan: plan.cost)


def oracle(cost: BlockCost, options: Joint = Joint()) -> Plan:
    """The reduced brute-force search: cuts every few layers, and those of DLFusion, every core number for each block.

    Times of blocks add up, so a shortest path over the cuts finds what trying every combination would.
    """
    count = len(cost.network.layers)
    cuts = {*range(0, count, GRID), count}
    stop = 0
    for block in joint(cost, options).blocks:
        stop += len(block)
        cuts.add(stop)
    return stretches(cost, sorted(cuts))


def stretches(cost: BlockCost, cuts: Sequence[int]) -> Plan:
    """The best plan that is cut only at these places of the order; single layers where a stretch does not fit."""
    parts = [tuple(range(start, stop)) for start, stop in pairwise(cuts)]
    counts = cost.model.core_counts

    def price(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        wide = np.zeros((len(blocks), len(cost.network.layers)), np.uint8)
        for column, part in enumerate(parts):
            wide[:, list(part)] = blocks[:, column : column + 1]
        times, cores = cost.price(wide)
        for row in np.flatnonzero((times < 0) & (blocks.sum(axis=1) == 1)):
            part = parts[int(np.flatnonzero(blocks[row])[0])]
            times[row], cores[row] = priced(cost, [part], [counts[-1]]).cost, 0
        return times, cores

    found = along([()] * len(parts), price)
    blocks = [tuple(member for part in block for member in parts[part]) for block in found.blocks]
    return priced(cost, blocks, [cores or counts[-1] for cores in found.choices])


def anneal(cost: BlockCost, seed: int = 0, evaluations: int = EVALUATIONS) -> Plan:
    """Simulated annealing over the cuts of one order: a move sets or removes a cut."""
    chosen = random.Random(seed)
    search = _Search(cost, evaluations)
    state = [True] * (search.count - 1)
    value = best_value = search.value(state)
    best = list(state)
    temperature = 0.1 * value
    while not search.over:
        place = chosen.randrange(len(state)) if state else 0
        if not state:
            break
        state[place] = not state[place]
        found = search.value(state)
        if found <= value or chosen.random() < math.exp((value - found) / max(temperature, 1.0)):
            value = found
        else:
            state[place] = not state[place]
        if value < best_value:
            best, best_value = list(state), value
        temperature *= 0.997
    return search.plan(best)


def genetic(cost: BlockCost, seed: int = 0, evaluations: int = EVALUATIONS) -> Plan:
    """A genetic search over the cuts of one order: crossing at one place, a few changed cuts, the better half stays."""
    chosen = random.Random(seed)
    search = _Search(cost, evaluations)
    length = search.count - 1
    people = [[chosen.random() < share for _ in range(length)] for share in (1.0, 0.8, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)]
    ranked = sorted((search.value(person), number, person) for number, person in enumerate(people))
    born = len(people)
    while not search.over and length > 0:
        parents = ranked[: max(2, len(ranked) // 2)]
        children = []
        for _ in range(len(people)):
            first, second = chosen.choice(parents)[2], chosen.choice(parents)[2]
            cut = chosen.randrange(length + 1)
            child = [bit != (chosen.random() < 1.5 / length) for bit in (*first[:cut], *second[cut:])]
            children.append((search.value(child), born, child))
            born += 1
        ranked = sorted([*parents, *children])[: len(people)]
    return search.plan(ranked[0][2])


class _Search:
    """Prices of the stretches of one order, counted: each block that is priced is one evaluation, known or not."""

    def __init__(self, cost: BlockCost, evaluations: int) -> None:
        self.cost, self.left = cost, evaluations
        self.count = len(cost.network.layers)
        self.known: dict[tuple[int, int], int] = {}

    @property
    def over(self) -> bool:
        return self.left <= 0

    def value(self, cuts: Sequence[bool]) -> int:
        """The time of the plan with these cuts; blocks that do not fit count as their layers alone."""
        total = 0
        for start, stop in self._stretches(cuts):
            if (start, stop) not in self.known:
                self.left -= 1
                self.known[start, stop] = priced(self.cost, [tuple(range(start, stop))], [self._best(start, stop)]).cost
            total += self.known[start, stop]
        self.left -= 1  # a plan of known blocks is not free either, or the search might not end
        return total

    def _best(self, start: int, stop: int) -> int:
        times = _times(self.cost, range(start, stop))
        counts = self.cost.model.core_counts
        return min(zip(times, counts, strict=True), key=lambda pair: (pair[0] < 0, pair[0], pair[1]))[1]

    def _stretches(self, cuts: Sequence[bool]) -> list[tuple[int, int]]:
        places = [0, *(index + 1 for index, cut in enumerate(cuts) if cut), self.count]
        return list(pairwise(places))

    def plan(self, cuts: Sequence[bool]) -> Plan:
        stretches = self._stretches(cuts)
        blocks = [tuple(range(start, stop)) for start, stop in stretches]
        return priced(self.cost, blocks, [self._best(start, stop) for start, stop in stretches])


PLANS: dict[str, Callable[[BlockCost], Plan]] = {
    "baseline": lambda cost: alone(cost, 1),
    "fixed-cores": fixed,
    "dynamic-cores": alone,
    "one-block": one_block,
    "fixed-fusion": fixed_fusion,
    "dlfusion": joint,
    "oracle": oracle,
    "annealing": anneal,
    "genetic": genetic,
}


def strip_rows(network: FusionNetwork, block: Sequence[int], cores: int) -> dict[int, int]:
    """Rows of each layer of a block that a core computes, those included that its neighbours compute too."""
    inside = set(block)
    readers: dict[int, list[tuple[int, Read]]] = {}
    for number, layer in enumerate(network.layers):
        for read in layer.reads:
            readers.setdefault(read.tensor, []).append((number, read))
    need: dict[int, int] = {}
    for number in sorted(block, reverse=True):
        layer = network.layers[number]
        reads = readers.get(number, [])
        leaves = number in network.outputs or any(reader not in inside for reader, _ in reads)
        rows = ceil_div(layer.rows, cores) if leaves else 0
        for reader, read in reads:
            if reader in inside:
                wanted = layer.rows if read.whole else (need[reader] - 1) * read.stride + read.kernel
                rows = max(rows, wanted)
        need[number] = min(rows, layer.rows)
    return need


def repeated_arithmetic(cost: BlockCost, block: Sequence[int], cores: int) -> float:
    """How much more the cores of a block compute together than the block has: 0 is nothing twice."""
    network = cost.network
    need = strip_rows(network, block, cores)
    working = max(1, min(cores, max(network.layers[member].rows for member in block)))
    done = whole = 0.0
    for number in sorted(block, reverse=True):
        layer = network.layers[number]
        done += layer.operations * max(1.0, working * need[number] / layer.rows)
        whole += layer.operations
    return done / whole - 1 if whole else 0.0

"""Synthetic convolutions, and what DLFusion's strategy learns from them (docs/dlfusion.md#characterisation).

INFERRED, as the rest of the strategy is: the abstract says that synthesized layers were used, and that operation count
and channels are the two features. Two things come of them: a function that predicts core numbers, and how many
operations of a core are enough.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from statistics import median

import numpy as np

from tilestitch.partition.blocks.model import BlockCost, BlockModel, FusionLayer, FusionNetwork, Read, filled

EXTENTS = (7, 14, 28, 56, 112, 224)  # INFERRED, as the next two: sizes that networks for images have
CHANNELS = (16, 32, 64, 128, 256, 512, 1024)
KERNELS = (1, 3, 5, 7)
DEPTH = 32  # layers of a stack, at most
SATURATED = 0.9  # INFERRED: part of its greatest rate at which a core counts as saturated


@dataclass(frozen=True, slots=True)
class Convolution:
    """A square image, as many channels in as out, a square window, stride 1, results in float16."""

    extent: int
    channels: int
    kernel: int

    @property
    def operations(self) -> int:
        """Multiplications and additions."""
        return 2 * (self.extent * self.channels * self.kernel) ** 2


GRID = tuple(Convolution(extent, channels, kernel) for extent in EXTENTS for channels in CHANNELS for kernel in KERNELS)


@dataclass(frozen=True)
class Predictor:
    """log2 of the best core number as a linear function of log2 of operations and of channels."""

    operations: float
    channels: float
    constant: float
    error: float  # root mean square over the layers that it was fitted to, in powers of two

    def cores(self, operations: float, channels: float) -> float:
        """The core number, not rounded."""
        score = self.operations * math.log2(max(operations, 1)) + self.channels * math.log2(max(channels, 1))
        return 2.0 ** (score + self.constant)


def stack(model: BlockModel, layer: Convolution, depth: int = 1) -> BlockCost:
    """The cost of as many equal layers one behind the other."""
    size = 2 * layer.extent**2 * layer.channels
    weights = 2 * (layer.channels * layer.kernel) ** 2
    utilization = filled(layer.channels, model.granule) ** 2
    layers = tuple(
        FusionLayer(
            name=f"conv{number}",
            operators=(),
            operations=layer.operations,
            utilization=utilization,
            channels=layer.channels,
            rows=layer.extent,
            result_bytes=size,
            weight_bytes=weights,
            reads=(Read(number - 1 if number else depth, layer.kernel),),
        )
        for number in range(depth)
    )
    return BlockCost(FusionNetwork("synthetic", layers, ((layer.extent, size),), frozenset([depth - 1])), model)


@cache
def layer_times(model: BlockModel) -> np.ndarray:
    """Picoseconds of each convolution of the grid (row) on each number of cores (column)."""
    alone = np.ones((1, 1), np.uint8)
    return np.concatenate([stack(model, layer).times(alone) for layer in GRID])


class Score(StrEnum):
    """How the function is fitted that predicts core numbers."""

    LEAST_SQUARES = "least squares"
    PRINCIPAL = "principal component"  # of both features and the core number; then a line from it to the core number


@cache
def fit(model: BlockModel, score: Score = Score.LEAST_SQUARES) -> Predictor:
    """The function that is nearest to the core numbers on which the layers of the grid take the least time."""
    features = np.log2(np.array([(layer.operations, layer.channels) for layer in GRID], np.float64))
    wanted = np.log2(np.array(model.core_counts, np.float64)[np.argmin(layer_times(model), axis=1)])
    weights = np.eye(2) if score is Score.LEAST_SQUARES else _principal(features, wanted)
    table = np.column_stack([features @ weights, np.ones(len(GRID))])
    solution = np.linalg.lstsq(table, wanted, rcond=None)[0]
    operations, channels = weights @ solution[:-1]
    error = float(np.sqrt(np.mean((table @ solution - wanted) ** 2)))
    return Predictor(float(operations), float(channels), float(solution[-1]), error)


def _principal(features: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """What each feature weighs in the first principal component, all three columns taken to be of equal spread."""
    table = np.column_stack([features, wanted])
    spread = table.std(axis=0)
    spread[spread == 0] = 1.0  # one core: nothing to predict
    _, _, directions = np.linalg.svd((table - table.mean(axis=0)) / spread, full_matrices=False)
    direction = directions[0] * np.sign(directions[0, 0] or 1.0)
    return (direction[:2] / spread[:2]).reshape(2, 1)


def rounded(core_counts: Sequence[int], wanted: float) -> int:
    """The nearest of these numbers, by their ratio; the smaller of two."""
    return min(core_counts, key=lambda count: (abs(math.log2(count) - math.log2(wanted)), count))


def stack_times(model: BlockModel, layer: Convolution, depth: int) -> np.ndarray:
    """Picoseconds of blocks of 1 to `depth` equal layers (row) on each number of cores (column); illegal below zero."""
    return stack(model, layer, depth).times(np.tri(depth, dtype=np.uint8))


@cache
def critical_operations(model: BlockModel, share: float = SATURATED) -> float:
    """Operations at which a layer of the grid, on one core, reaches a share of the greatest rate of any."""
    points = [(layer.operations, int(time)) for layer, time in zip(GRID, layer_times(model)[:, 0], strict=True)]
    return saturation(points, share)


def saturation(points: Sequence[tuple[int, int]], share: float) -> float:
    """Operations at which the rate of the fastest layers reaches a share of its maximum; between two, time is linear.

    `points` are operations and picoseconds.
    """
    rising = fastest(points)
    enough = share * rising[-1][0] / rising[-1][1]
    place = next(place for place, (operations, time) in enumerate(rising) if operations / time >= enough)
    if place == 0:
        return rising[0][0]
    (below, start), (above, stop) = rising[place - 1], rising[place]
    slope = (stop - start) / (above - below)
    return enough * (start - slope * below) / (1 - enough * slope)


def fastest(points: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Of operations and times those whose rate is above that of all with fewer operations."""
    rising: list[tuple[int, int]] = []
    for operations, time in sorted(points):
        if not rising or operations / time > rising[-1][0] / rising[-1][1]:
            rising.append((operations, time))
    return rising


@cache
def stack_operations(model: BlockModel) -> float | None:
    """Operations of a core at which one more layer no longer helps a stack: another reading of what is enough.

    The median over the stacks, on the best core number of their layer alone, that take the least time by layer
    somewhere between one layer and all.
    """
    found = []
    for layer, column in zip(GRID, np.argmin(layer_times(model), axis=1), strict=True):
        times = stack_times(model, layer, DEPTH)[:, column]
        by_layer = np.where(times < 0, np.inf, times / np.arange(1, DEPTH + 1))
        depth = int(np.argmin(by_layer)) + 1
        if 1 < depth < DEPTH:
            found.append(depth * layer.operations / model.core_counts[column])
    return median(found) if found else None

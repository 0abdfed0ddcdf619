"""The study of synthetic layers, as curves: what DLFusion's strategy is derived from (docs/dlfusion.md).

Every time is that of the block model, which is INFERRED: all of this is estimated, nothing is measured.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import geometric_mean

import numpy as np

from tilestitch.base.shown import Brief
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.partition.blocks.model import PICOSECONDS, BlockModel, block_model
from tilestitch.partition.blocks.synthetic import (
    CHANNELS,
    DEPTH,
    EXTENTS,
    GRID,
    Convolution,
    Predictor,
    Score,
    critical_operations,
    fastest,
    fit,
    layer_times,
    rounded,
    stack_operations,
    stack_times,
)
from tilestitch.report.curves import Axis, Curve, Series

NARROW = (4, 8)  # channels that the grid does not go down to
SPANS = (1_792, 7_168, 28_672)  # rows times channels: layers of equal operations
LARGEST = 1_792  # rows of such a layer
STACKS = (Convolution(56, 64, 3), Convolution(14, 256, 3))  # an early and a late layer of a ResNet
OPERATIONS = Axis("operations", "", logarithmic=True)
RATE = Axis("rate", "GFLOP/s", logarithmic=True)
CORES = Axis("cores", "", logarithmic=True)


@dataclass(frozen=True, slots=True)
class Fit:
    """A function that predicts core numbers, and how far it is off."""

    score: Score
    predictor: Predictor
    mean_slowdown: float  # time on the predicted core number over the least, geometric mean over the grid
    worst_slowdown: float


@dataclass(frozen=True, slots=True, repr=False)
class Study(Brief):
    """What synthetic layers say about a machine; every figure is estimated by the block model."""

    machine: str
    model: BlockModel
    times: np.ndarray  # picoseconds of each layer of the grid (row) on each number of cores (column)
    critical_operations: float  # at which one core is saturated
    stack_operations: float | None  # of a core, where one more layer no longer helps a stack: the median
    fits: tuple[Fit, ...]
    curves: tuple[Curve, ...]

    @property
    def greatest_rate(self) -> float:
        """Operations a second of one core, of the layer that suits it best."""
        return max(_rate(layer, int(time)) for layer, time in zip(GRID, self.times[:, 0], strict=True))

    @property
    def best_cores(self) -> tuple[int, ...]:
        """Of each layer of the grid."""
        return tuple(self.model.core_counts[column] for column in np.argmin(self.times, axis=1))


def study_of(machine: Accelerator) -> Study:
    """The study of a machine. Raises `InputError` where it has no block model."""
    model = block_model(machine)
    times = layer_times(model)
    curves = [_saturation(model, times), _channels(model), _cores(model), _best_cores(model, times)]
    for layer in STACKS:
        curves += [_fusion(model, layer), _repeated(model, layer)]
    return Study(
        machine=machine.name,
        model=model,
        times=times,
        critical_operations=critical_operations(model),
        stack_operations=stack_operations(model),
        fits=tuple(_fit(model, times, score) for score in Score),
        curves=tuple(curves),
    )


def _rate(layer: Convolution, time: int) -> float:
    return layer.operations / time * PICOSECONDS


def _saturation(model: BlockModel, times: np.ndarray) -> Curve:
    series = []
    for column, cores in enumerate(model.core_counts):
        points = fastest([(layer.operations, int(time)) for layer, time in zip(GRID, times[:, column], strict=True)])
        rates = tuple((operations, operations / time * PICOSECONDS / 1e9) for operations, time in points)
        series.append(Series(_on(cores), rates))
    title = "Rate of the fastest layers of at most so many operations"
    return Curve("saturation", title, OPERATIONS, RATE, tuple(series))


def _channels(model: BlockModel) -> Curve:
    series = []
    for span in SPANS:
        layers = [Convolution(span // channels, channels, 3) for channels in (*NARROW, *CHANNELS)]
        layers = [layer for layer in layers if min(EXTENTS) <= layer.extent <= LARGEST]
        rates = tuple((layer.channels, _rate(layer, int(stack_times(model, layer, 1)[0, 0])) / 1e9) for layer in layers)
        series.append(Series(f"{layers[0].operations / 1e6:,.0f} million operations", rates))
    axis = Axis("channels", "", logarithmic=True)
    return Curve("channels", "Rate of one core at equal operations, windows of 3", axis, RATE, tuple(series))


def _cores(model: BlockModel) -> Curve:
    series = []
    for extent in EXTENTS:
        layer = Convolution(extent, 128, 3)
        times = stack_times(model, layer, 1)[0]
        gains = tuple((cores, float(times[0] / time)) for cores, time in zip(model.core_counts, times, strict=True))
        series.append(Series(f"{layer.operations / 1e6:,.0f} million operations", gains))
    gain = Axis("speed-up over one core", "", logarithmic=False)
    return Curve("cores", "Speed-up by cores, 128 channels, windows of 3", CORES, gain, tuple(series))


def _best_cores(model: BlockModel, times: np.ndarray) -> Curve:
    best = np.argmin(times, axis=1)
    series = []
    for channels in CHANNELS:
        points = [
            (layer.operations, model.core_counts[column])
            for layer, column in zip(GRID, best, strict=True)
            if layer.channels == channels
        ]
        series.append(Series(f"{channels} channels", tuple(sorted(points))))
    return Curve("best-cores", "Core number of the least time", OPERATIONS, CORES, tuple(series), lines=False)


def _fusion(model: BlockModel, layer: Convolution) -> Curve:
    """Where it is above 1 fusion helps; below, what is computed again costs more than it saves."""
    gain = Axis("speed-up over layers alone", "", logarithmic=False)

    def of(cores: int, column: int, times: np.ndarray, depth: int) -> float:
        return depth * times[0, column] / times[depth - 1, column]

    return _stacked("fusion", "Speed-up of a block over its layers alone on as many cores", gain, model, layer, of)


def _repeated(model: BlockModel, layer: Convolution) -> Curve:
    again = Axis("computed again", "%", logarithmic=False)

    def of(cores: int, column: int, times: np.ndarray, depth: int) -> float:
        return 100 * repeated(layer, cores, depth)

    return _stacked("repeated", "Rows that a core computes beyond its strip", again, model, layer, of)


def _stacked(
    name: str,
    title: str,
    axis: Axis,
    model: BlockModel,
    layer: Convolution,
    value: Callable[[int, int, np.ndarray, int], float],
) -> Curve:
    times = stack_times(model, layer, DEPTH)
    series = []
    for column, cores in enumerate(model.core_counts):
        fitting = [depth for depth in range(1, DEPTH + 1) if times[depth - 1, column] >= 0]
        series.append(Series(_on(cores), tuple((depth, value(cores, column, times, depth)) for depth in fitting)))
    shown = f"{layer.extent} rows, {layer.channels} channels, windows of {layer.kernel}"
    name = f"{name}-{layer.extent}x{layer.channels}"
    return Curve(name, f"{title}: {shown}", Axis("layers", "", logarithmic=False), axis, tuple(series))


def repeated(layer: Convolution, cores: int, depth: int) -> float:
    """Rows that a core computes in a stack, over those of its strip in every layer; 0 is nothing twice.

    `(depth - 1) * (kernel - 1) / (2 * rows)` as long as the halo ends inside the image, with `rows` of a strip.
    """
    strip = math.ceil(layer.extent / cores)
    rows = [min(layer.extent, strip + behind * (layer.kernel - 1)) for behind in range(depth)]
    return sum(rows) / (depth * strip) - 1


def _fit(model: BlockModel, times: np.ndarray, score: Score) -> Fit:
    predictor = fit(model, score)
    slowdowns = []
    for layer, row in zip(GRID, times, strict=True):
        cores = rounded(model.core_counts, predictor.cores(layer.operations, layer.channels))
        slowdowns.append(float(row[model.core_counts.index(cores)] / row.min()))
    return Fit(score, predictor, geometric_mean(slowdowns), max(slowdowns))


def _on(cores: int) -> str:
    return f"{cores} core{'' if cores == 1 else 's'}"

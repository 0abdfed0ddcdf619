"""What no solution can cost less than."""

import itertools
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tilestitch.base.units import ceil_div
from tilestitch.commands.contest import price
from tilestitch.commands.contest.blocks import Prices, extents, run_table, slice_table, unit_table
from tilestitch.commands.contest.instance import Instance, Kind
from tilestitch.commands.contest.rules import Rules
from tilestitch.commands.contest.structure import Axis, Structure

MAX_COVERED = 10  # operators of a graph whose sub-graphs are all tried
MAX_EXACT = 2.0**53  # ticks: below, sums of whole numbers are exact


@dataclass(frozen=True)
class Bound:
    """A lower bound in time units, and what it rests on."""

    value: Fraction
    reason: str


def lower_bound(prices: Prices) -> Bound:
    """The largest of the bounds."""
    instance, rules = prices.instance, prices.rules
    bounds = [
        Bound(least_compute(instance, rules), "compute: every operator once, in tiles of the native granularity"),
        Bound(least_traffic(instance), "traffic: every input that is read and every result once"),
    ]
    covering = least_cover(prices)
    if covering is not None:
        reason = "cover: every operator in some sub-graph, each at its cheapest granularity, whatever the order"
        bounds.append(Bound(covering, reason))
    return max(bounds, key=lambda bound: bound.value)


def least_compute(instance: Instance, rules: Rules) -> Fraction:
    """Every operator runs at least once, each of its tiles at least at the base cost, a product over its whole depth.

    A product in front of another one may be cut by the other's steps along one axis, where it pays for what it is: for
    parts of native tiles, and, where a base cost pays for all of a depth, for one tile in all.
    """
    native_width, native_height = instance.native
    total = Fraction(0)
    for number, operator in enumerate(instance.operators):
        width, height = instance.widths[operator.output], instance.heights[operator.output]
        columns, rows = ceil_div(width, native_width), ceil_div(height, native_height)
        if operator.kind is Kind.POINTWISE:
            total += operator.base_cost * columns * rows
        elif rules.native_depth:
            tiles = min(columns * Fraction(height, native_height), rows * Fraction(width, native_width))
            total += operator.base_cost * tiles * Fraction(instance.depth(number), native_width)
        else:
            total += operator.base_cost * min(columns, rows)
    return total


def least_traffic(instance: Instance) -> Fraction:
    """What is read of the inputs is loaded once at least, and the results are stored."""
    tensors = {tensor for operator in instance.operators for tensor in operator.inputs} - set(instance.producers)
    return Fraction(sum(map(instance.size, tensors | instance.results)), instance.bandwidth)


def least_cover(prices: Prices) -> Fraction | None:
    """The least sum over allowed sub-graphs that hold every operator, each at less than it can ever cost.

    A solution is such a cover: operators may be repeated, and in which order sub-graphs run is left out. Only for
    graphs of few operators, whose sub-graphs can all be tried, and where granularities are limited.
    """
    count = len(prices.instance.operators)
    if count > MAX_COVERED or not prices.rules.native_limit:
        return None
    ticks: list[tuple[int, float]] = []
    for size in range(1, count + 1):
        for operators in itertools.combinations(range(count), size):
            structure = prices.structure(frozenset(operators))
            found = None if structure is None else _least_ticks(prices, structure)
            if found is not None:
                ticks.append((sum(1 << operator for operator in operators), found))
    whole = (1 << count) - 1
    least = [float("inf")] * whole + [0.0]
    for covered in range(whole - 1, -1, -1):
        first = ~covered & (covered + 1)  # the first operator that is missing
        least[covered] = min(
            (cost + least[covered | mask] for mask, cost in ticks if mask & first), default=float("inf")
        )
    if least[0] >= MAX_EXACT:
        return None
    return Fraction(int(least[0])) / prices.ticks


def _least_ticks(prices: Prices, structure: Structure) -> float | None:
    """Less than a sub-graph costs at any granularity, in any order, with anything retained; None where none fits.

    Left out are: what may be resident or retained, all loads that the order of the tiles may save, and what runs or is
    loaded once a tile before its steps. What remains does not depend on the order, is convex in the extents of the
    tiles, and falls as the last step of a reduction grows; so for each number of parts of an axis the smallest extent
    is the best, and those are all tried. That a tile must span a depth only counts where none can.
    """
    instance = prices.instance

    width_limit, height_limit, depth_limit = prices.limits(structure)
    if structure.least_width > max(width_limit, depth_limit) or structure.least_height > max(height_limit, depth_limit):
        return None

    def stays(tensor: int) -> bool:
        return tensor in instance.producers and instance.size(tensor) <= instance.capacity

    resident = {part.tensor for part in structure.inputs if stays(part.tensor)}
    retained = [tensor for tensor in structure.outputs if stays(tensor) and tensor not in instance.results]
    slices = slice_table(instance, structure, resident)
    runs = run_table(instance, structure, prices.rules, prices.ticks)
    tile, step = int(Axis.TILE), int(Axis.STEP)
    per_tile = (slices[:, 1] == tile) & (slices[:, 2] == tile)
    per_step = (slices[:, 1] == step) | (slices[:, 2] == step)
    # a tile may be all of its tensor, and then the same as another slice of it that is left out
    beside_tiles = per_tile & ~np.isin(slices[:, 0], slices[~per_tile & ~per_step, 0])
    only_tiles = per_tile & ~np.isin(slices[:, 0], slices[~per_tile, 0])
    at_end_or_along = ((runs[:, 0] == tile) & (runs[:, 1] == tile)) | (runs[:, 0] == step) | (runs[:, 1] == step)
    depths = extents(structure.depth, depth_limit, fine=True) if structure.depth else np.array([1])
    in_steps = depths[depths < structure.depth] if structure.depth else depths
    found = []
    for chosen, kept in ((in_steps, beside_tiles | per_step), (depths[depths >= structure.depth], only_tiles)):
        if len(chosen) == 0:
            continue
        least = price.cheapest(
            structure.width,
            structure.height,
            structure.depth,
            extents(structure.width, width_limit, fine=True),
            extents(structure.height, height_limit, fine=True),
            chosen,
            slices[kept],
            runs[at_end_or_along],
            unit_table(instance, structure, prices.rules, prices.ticks),
            instance.capacity,
            len(structure.outputs) - len(retained),
            max(0, sum(run.split for run in structure.runs) - len(retained)),
            0,
            0,
        )[0]
        if least >= 0:
            found.append(float(least))
    return min(found, default=None)

"""What no solution can cost less than."""

from dataclasses import dataclass
from fractions import Fraction

from tilestitch.contest.blocks import Prices
from tilestitch.contest.instance import Instance, Kind
from tilestitch.contest.rules import Rules
from tilestitch.units import ceil_div


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

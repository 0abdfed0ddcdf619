"""dMazeRunner's layers as nests, the spaces that its rules leave of them, and mappings in their best orders."""

from collections.abc import Sequence
from dataclasses import replace

from tilestitch.ir.loop_nest import LoopMapping, LoopNest, SlidingWindow, convolution
from tilestitch.mapping.dataflow import pruned_limits
from tilestitch.mapping.dmazerunner import OPT1
from tilestitch.mapping.evaluate import Priced, Pricer
from tilestitch.mapping.factors import Limits
from tilestitch.reproduction.published_dmazerunner import Shape, Tiling

# Rules of the four columns in which tilings are counted: none, OPT1, OPT1 and 2, OPT1 to 3.
RULES = ("all", "OPT1", "OPT1-2", "OPT1-3")


def nest_of(name: str, shape: Shape, batch: int) -> LoopNest:
    """A square convolution."""
    return convolution(
        name,
        n=batch,
        m=shape.m,
        c=shape.c,
        output=(shape.output, shape.output),
        window=SlidingWindow((shape.window, shape.window), stride=(shape.stride, shape.stride)),
        groups=shape.groups,
        padded=(shape.padded, shape.padded),
    )


def rule_limits(nest: LoopNest, rules: str, least: tuple[float, float, float] = OPT1) -> Limits:
    """What the rules of one column leave."""
    number = RULES.index(rules)
    if number == 0:
        return Limits()
    return pruned_limits(nest, least, windows_in_scratchpad=number >= 2, no_spatial_reduction=number == 3)


def of_the_paper(limits: Limits, nest: LoopNest) -> Limits:
    """The limits with the register check of the code at the time of the paper.

    It paired Ox with Fy and Oy with Fx where it counted the inputs that a register file holds. The released code does
    not; the numbers of the paper and the spreadsheets need it.
    """
    inputs, weights = nest.reads
    *outer, (rows, window_row), (columns, window_column) = inputs.axes
    swapped = replace(inputs, axes=(*outer, (rows, window_column), (columns, window_row)))
    return replace(limits, held=replace(nest, reads=(swapped, weights)))


def best_orders(price: Pricer, tiling: Tiling) -> tuple[LoopMapping, Priced]:
    """The tiling in the orders of least energy, one operand innermost at each level: its mapping and price."""
    loops = range(len(price.nest.loops))
    orders = []
    for operand in price.nest.operands:
        stays = [loop for loop in loops if loop not in operand.indexed_by]
        orders.append((*(loop for loop in loops if loop not in stays), *stays))
    found = [mapping_of(tiling, outside, inside) for outside in orders for inside in orders]
    return min(((mapping, price(mapping)) for mapping in found), key=lambda pair: pair[1].energy_pj)


def mapping_of(tiling: Tiling, dram_order: Sequence[int], spm_order: Sequence[int]) -> LoopMapping:
    """A tiling in given orders."""
    return LoopMapping(
        tuple(tiling.dram),
        tuple(tiling.spm),
        tuple(tiling.rf),
        tuple(tiling.spatial),
        tuple(dram_order),
        tuple(spm_order),
    )


def digits(value: float, count: int) -> float:
    """The value with so many significant digits."""
    return float(f"{value:.{count - 1}e}")

"""What a mapping takes of every memory: on average over its steps, or in the fullest of them."""

from dataclasses import replace
from fractions import Fraction
from math import ceil, prod

import numpy as np

from tilestitch.ir.loop_nest import Loop
from tilestitch.mapping.tree.chain import TreeMapping
from tilestitch.mapping.tree.crossings import OperandOnTree, Tiles, operands_on_tree
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.tables import stored_bits


def fullest(placed: PlacedNest) -> PlacedNest:
    """A nest as it would be if the fullest step of every factor that does not divide were all of its steps."""
    unrolled = tuple(replace(one, factor=Fraction(ceil(one.factor))) for one in placed.unrolled)
    extents = list(placed.steps)
    for one in unrolled:
        extents[one.loop] *= int(one.factor)
    loops = tuple(Loop(loop.name, extent) for loop, extent in zip(placed.nest.loops, extents, strict=True))
    return replace(placed, unrolled=unrolled, nest=replace(placed.nest, loops=loops))


def stored(operand: OperandOnTree, level: int, tile: Tiles, inside: Tiles) -> float:
    """Bits of one tile in a memory of an operand; `inside` is the tile of the memory further in, of one step there.

    Sums have their full width while they are added to.
    """
    bits = operand.array.element_bits
    if operand.is_write and not operand.is_partial(level, inside)[0]:
        bits = operand.placed.final_bits
    return float(stored_bits(operand, level, tile, bits)[0])


def too_full(placed: PlacedNest, mapping: TreeMapping) -> str:
    """The first memory that does not hold its tiles, as "acc needs 40 of 32 bits"; nothing where all of them fit."""
    for memory in placed.tree.memories:
        taken = 0.0
        for operand in operands_on_tree(placed):
            if memory in operand.memories:
                level, cuts = operand.memories.index(memory), mapping.cuts[operand.number]
                inside = _tile(placed, mapping, cuts[level - 1] if level > 0 else 0)
                taken += stored(operand, level, _tile(placed, mapping, cuts[level]), inside)
        if taken > memory.size_bits * (1 + 1e-12):
            return f"{memory.name} needs {taken:,.0f} of {memory.size_bits:,} bits"
    return ""


def _tile(placed: PlacedNest, mapping: TreeMapping, place: int) -> Tiles:
    """The steps of every loop inside a place of a mapping."""
    loops, count = mapping.loops[:place], len(placed.nest.loops)
    return np.array([[prod(factor for loop, factor in loops if loop == at) for at in range(count)]], np.int64)

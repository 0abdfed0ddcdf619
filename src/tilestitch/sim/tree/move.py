"""Values: what a tile that has arrived leaves in the memory where it goes, and what the units make of theirs.

All memories stand in one array. Of results the inner tile is added to what others brought, where a fan-out adds up; the
first of those that add brings the sum so far.
"""

from typing import Any

import numpy as np

from tilestitch.base.jit import lending


@lending
def move(values: Any, memory: np.ndarray, stream: int, tile: int) -> None:
    """Move the values of one tile of a stream, in all copies of the memories."""
    if not values.moves[stream]:
        return
    jumps = values.jumps[stream + 1] - values.jumps[stream]
    part, outer = tile % jumps, tile // jumps
    source = values.outer[stream] + (outer % values.outer_buffers[stream]) * values.outer_size[stream]
    target = values.inner[stream] + (tile % values.inner_buffers[stream]) * values.inner_size[stream]
    if values.clears[stream] and part == 0:
        memory[source : source + values.outer_size[stream]] = 0
    source += values.jump[values.jumps[stream] + part]
    first, last = values.pairs[stream], values.pairs[stream + 1]
    for copy in range(values.copies[stream], values.copies[stream + 1]):
        here, there = target + values.copy_inner[copy], source + values.copy_outer[copy]
        leads = values.leads[copy]
        if not values.up[stream]:
            for at in range(first, last):
                memory[here + values.pair_inner[at]] = memory[there + values.pair_outer[at]] if leads else 0
        elif leads:
            for at in range(first, last):
                memory[there + values.pair_outer[at]] = memory[here + values.pair_inner[at]]
        else:
            for at in range(first, last):
                memory[there + values.pair_outer[at]] += memory[here + values.pair_inner[at]]


@lending
def compute(values: Any, memory: np.ndarray, step: int) -> None:
    """At the first of a block of steps for which the innermost memories keep their tiles: all of its products."""
    if values.block == 0 or step % values.block != 0:
        return
    left_first = _tile_of(values, 0, step)
    right_first = _tile_of(values, 1, step)
    result_first = _tile_of(values, 2, step)
    if values.begins and step % values.held[2] == 0:
        memory[result_first : result_first + values.kept_size[2]] = 0
    left, right, result = values.run_strides
    for row in range(len(values.rows)):
        a = left_first + values.rows[row, 0]
        b = right_first + values.rows[row, 1]
        c = result_first + values.rows[row, 2]
        if result == 0:
            total = memory[c]
            for at in range(values.run):
                total += memory[a + at * left] * memory[b + at * right]
            memory[c] = total
        elif result == 1 and left == 0 and right == 1:
            factor = memory[a]
            for at in range(values.run):
                memory[c + at] += factor * memory[b + at]
        elif result == 1 and left == 1 and right == 0:
            factor = memory[b]
            for at in range(values.run):
                memory[c + at] += memory[a + at] * factor
        else:
            for at in range(values.run):
                memory[c + at * result] += memory[a + at * left] * memory[b + at * right]


@lending
def _tile_of(values: Any, operand: int, step: int) -> int:
    """Where the part of an operand's innermost tile begins that a block of steps works on."""
    tile, part = step // values.held[operand], (step % values.held[operand]) // values.block
    first = values.kept[operand] + (tile % values.kept_buffers[operand]) * values.kept_size[operand]
    return first + values.blocks[values.block_first[operand] + part]

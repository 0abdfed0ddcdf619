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
    up, first, last = values.up[stream], values.pairs[stream], values.pairs[stream + 1]
    begin, end = values.copies[stream], values.copies[stream + 1]
    if last - first < end - begin:
        for at in range(first, last):
            here, there = target + values.pair_inner[at], source + values.pair_outer[at]
            for copy in range(begin, end):
                inner, outer = here + values.copy_inner[copy], there + values.copy_outer[copy]
                _carry(memory, inner, outer, up, values.leads[copy])
        return
    for copy in range(begin, end):
        here, there = target + values.copy_inner[copy], source + values.copy_outer[copy]
        for at in range(first, last):
            inner, outer = here + values.pair_inner[at], there + values.pair_outer[at]
            _carry(memory, inner, outer, up, values.leads[copy])


@lending
def _carry(memory: np.ndarray, inner: int, outer: int, up: bool, leads: bool) -> None:
    """Move one value; of those that add to the same the first brings the sum so far, the others begin at zero."""
    if not up:
        memory[inner] = memory[outer] if leads else 0
    elif leads:
        memory[outer] = memory[inner]
    else:
        memory[outer] += memory[inner]


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
    if len(values.matrices.short) > 0:
        left, right, result = values.run_strides
        for row in range(len(values.rows)):
            for at in range(values.run):
                first = left_first + values.rows[row, 0] + at * left
                second = right_first + values.rows[row, 1] + at * right
                target = result_first + values.rows[row, 2] + at * result
                if values.matrices.is_swapped:
                    _multiply(values.matrices, memory, second, first, target)
                else:
                    _multiply(values.matrices, memory, first, second, target)
        return
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
def _multiply(matrices: Any, memory: np.ndarray, first: int, second: int, result: int) -> None:
    """One product of matrices: some rows of the long operand at a time, brought next to one another before.

    Addresses are those of the long operand, of the other one, and of the result.
    """
    long, short, sums = matrices.long, matrices.short, matrices.sums
    width, packed, total = matrices.width, matrices.packed, matrices.total
    last = len(sums) - 1
    for begin in range(0, len(long), width):
        count = min(width, len(long) - begin)
        for at in range(last + 1):
            row, source = packed[at * width : (at + 1) * width], first + sums[at, 0]
            for place in range(count):
                row[place] = memory[source + long[begin + place, 0]]
        for column in range(len(short)):
            other, target = second + short[column, 0], result + short[column, 1]
            for place in range(count):
                total[place] = memory[target + long[begin + place, 1]]
            for at in range(0, last + 1, 4):  # behind the last of the sums there are zeros
                one, two = packed[at * width : (at + 1) * width], packed[(at + 1) * width : (at + 2) * width]
                three, four = packed[(at + 2) * width : (at + 3) * width], packed[(at + 3) * width : (at + 4) * width]
                a, b = memory[other + sums[at, 1]], memory[other + sums[min(at + 1, last), 1]]
                c, d = memory[other + sums[min(at + 2, last), 1]], memory[other + sums[min(at + 3, last), 1]]
                for place in range(width):
                    total[place] += one[place] * a + two[place] * b + three[place] * c + four[place] * d
            for place in range(count):
                memory[target + long[begin + place, 1]] = total[place]


@lending
def _tile_of(values: Any, operand: int, step: int) -> int:
    """Where the part of an operand's innermost tile begins that a block of steps works on."""
    tile, part = step // values.held[operand], (step % values.held[operand]) // values.block
    first = values.kept[operand] + (tile % values.kept_buffers[operand]) * values.kept_size[operand]
    return first + values.blocks[values.block_first[operand] + part]

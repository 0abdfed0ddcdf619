"""Values: what a tile that has arrived leaves in the memory where it goes, and what the units make of theirs.

All memories stand in one array. Of those results that a fan-out adds up the first brings the sum so far, and the others
begin at zero; on their way out they are added to the first.
"""

from typing import Any

import numpy as np

from tilestitch.base.jit import contracting, lending

LANES = 32  # rows of the one operand that are multiplied at once
COLUMNS = 4  # and rows of the other; so many products of a sum are added at once, too


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
    begin, end = values.copies[stream], values.copies[stream + 1]
    lead = begin + values.leads[stream]
    if end - begin == 1:
        target, source = target + values.copy_inner[begin], source + values.copy_outer[begin]
        for at in range(values.pairs[stream], values.pairs[stream + 1]):
            if values.up[stream]:
                memory[source + values.pair_outer[at]] = memory[target + values.pair_inner[at]]
            else:
                memory[target + values.pair_inner[at]] = memory[source + values.pair_outer[at]]
        return
    for at in range(values.pairs[stream], values.pairs[stream + 1]):
        here, there = target + values.pair_inner[at], source + values.pair_outer[at]
        if values.up[stream]:
            for copy in range(begin, lead):
                memory[there + values.copy_outer[copy]] = memory[here + values.copy_inner[copy]]
            for copy in range(lead, end):
                memory[there + values.copy_outer[copy]] += memory[here + values.copy_inner[copy]]
        else:
            for copy in range(begin, lead):
                memory[here + values.copy_inner[copy]] = memory[there + values.copy_outer[copy]]
            for copy in range(lead, end):
                memory[here + values.copy_inner[copy]] = 0


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
    _multiply_rows(values, memory, left_first, right_first, result_first)


@lending
def _multiply_rows(values: Any, memory: np.ndarray, left_first: int, right_first: int, result_first: int) -> None:
    """Rows of products, one after another."""
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
        elif result == 1 and left + right > 0 and left <= 1 and right <= 1:
            totals, lefts, rights = memory[c : c + values.run], memory[a : a + values.run], memory[b : b + values.run]
            if left == 0:
                factor = memory[a]
                for at in range(values.run):
                    totals[at] += factor * rights[at]
            elif right == 0:
                factor = memory[b]
                for at in range(values.run):
                    totals[at] += lefts[at] * factor
            else:
                for at in range(values.run):
                    totals[at] += lefts[at] * rights[at]
        else:
            for at in range(values.run):
                memory[c + at * result] += memory[a + at * left] * memory[b + at * right]


@lending
def _multiply(matrices: Any, memory: np.ndarray, first: int, second: int, result: int) -> None:
    """One product of matrices: some rows of the long operand at a time, brought next to one another before.

    Addresses are those of the long operand, of the other one, and of the result.
    """
    long, short, sums = matrices.long, matrices.short, matrices.sums
    packed, total = matrices.packed, matrices.total
    for begin in range(0, len(long), LANES):
        count, adjoins = min(LANES, len(long) - begin), matrices.adjoins[begin // LANES]
        for at in range(len(sums)):
            found = packed[at * LANES : at * LANES + count]
            _gather(memory, first + sums[at, 0], long, 0, begin, adjoins[0], found)
        for column in range(0, len(short), COLUMNS):
            columns = min(COLUMNS, len(short) - column)
            for at in range(columns):
                found = total[at * LANES : at * LANES + count]
                _gather(memory, result + short[column + at, 1], long, 1, begin, adjoins[1], found)
            _add_products(packed, memory, second, sums, short[column:, 0], total)
            for at in range(columns):
                found = total[at * LANES : at * LANES + count]
                _scatter(memory, result + short[column + at, 1], long, begin, adjoins[1], found)


@lending
def _gather(
    memory: np.ndarray, first: int, long: np.ndarray, side: int, begin: int, adjoin: bool, found: np.ndarray
) -> None:
    """Bring some elements next to one another; as a whole where they stand so."""
    if adjoin:
        at = first + long[begin, side]
        source = memory[at : at + len(found)]
        for place in range(len(found)):
            found[place] = source[place]
        return
    for place in range(len(found)):
        found[place] = memory[first + long[begin + place, side]]


@lending
def _scatter(
    memory: np.ndarray, first: int, long: np.ndarray, begin: int, adjoin: bool, found: np.ndarray
) -> None:  # fmt: skip
    """Put some results back where they stand."""
    if adjoin:
        at = first + long[begin, 1]
        target = memory[at : at + len(found)]
        for place in range(len(found)):
            target[place] = found[place]
        return
    for place in range(len(found)):
        memory[first + long[begin + place, 1]] = found[place]


@contracting
def _add_products(
    packed: np.ndarray, memory: np.ndarray, second: int, sums: np.ndarray, columns: np.ndarray, total: np.ndarray
) -> None:
    """So many rows of one operand times so many of the other, added up; behind the last of the sums there are zeros."""
    last, most = len(sums) - 1, len(columns) - 1
    first, third = columns[0], columns[min(2, most)]
    other, fourth = columns[min(1, most)], columns[min(3, most)]
    for begin in range(0, len(sums), 4):
        rows = packed[begin * LANES : (begin + 4) * LANES]
        one, two = second + sums[begin, 1], second + sums[min(begin + 1, last), 1]
        a, b, c, d = memory[one + first], memory[one + other], memory[one + third], memory[one + fourth]
        e, f, g, h = memory[two + first], memory[two + other], memory[two + third], memory[two + fourth]
        one, two = second + sums[min(begin + 2, last), 1], second + sums[min(begin + 3, last), 1]
        i, j, k, m = memory[one + first], memory[one + other], memory[one + third], memory[one + fourth]
        n, p, q, r = memory[two + first], memory[two + other], memory[two + third], memory[two + fourth]
        for at in range(LANES):
            u, v, w, x = rows[at], rows[LANES + at], rows[2 * LANES + at], rows[3 * LANES + at]
            total[at] = total[at] + u * a + v * e + w * i + x * n
            total[LANES + at] = total[LANES + at] + u * b + v * f + w * j + x * p
            total[2 * LANES + at] = total[2 * LANES + at] + u * c + v * g + w * k + x * q
            total[3 * LANES + at] = total[3 * LANES + at] + u * d + v * h + w * m + x * r


@lending
def _tile_of(values: Any, operand: int, step: int) -> int:
    """Where the part of an operand's innermost tile begins that a block of steps works on."""
    tile, part = step // values.held[operand], (step % values.held[operand]) // values.block
    first = values.kept[operand] + (tile % values.kept_buffers[operand]) * values.kept_size[operand]
    return first + values.blocks[values.block_first[operand] + part]

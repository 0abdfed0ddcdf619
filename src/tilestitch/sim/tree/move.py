"""Values: what a tile that has arrived leaves in the memory where it goes, and what the units make of theirs.

All memories stand in one array. Of those results that a fan-out adds up the first brings the sum so far, and the others
begin at zero; on their way out they are added to the first.
"""

from typing import Any

import numpy as np

from tilestitch.base.jit import contracting, inlined, lending

LANES = 32  # rows of the one operand that are multiplied at once
COLUMNS = 8  # and rows of the other
SUMS = 4  # products of a sum that are added at once


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
    inside, outside, count = values.stretch_inner[stream], values.stretch_outer[stream], values.stretch[stream]
    for at in range(values.pairs[stream], values.pairs[stream + 1]):
        here, there = target + values.pair_inner[at], source + values.pair_outer[at]
        for copy in range(begin, end):
            inner, outer = here + values.copy_inner[copy], there + values.copy_outer[copy]
            if copy < lead:
                if values.up[stream]:
                    _bring(memory, outer, outside, inner, inside, count)
                else:
                    _bring(memory, inner, inside, outer, outside, count)
            elif values.up[stream]:
                for one in range(count):
                    memory[outer + one * outside] += memory[inner + one * inside]
            else:
                for one in range(count):
                    memory[inner + one * inside] = 0


@inlined
def _bring(memory: np.ndarray, to: int, to_step: int, start: int, step: int, count: int) -> None:
    """Bring some elements at even distances to where they are at even distances; as a whole where these are 1."""
    if to_step == 1 and step == 1:
        target, source = memory[to : to + count], memory[start : start + count]
        for at in range(count):
            target[at] = source[at]
        return
    for at in range(count):
        memory[to + at * to_step] = memory[start + at * step]


@inlined
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
                    first, second = second, first
                _multiply(values.matrices, memory, first, second, target)
        return
    _multiply_rows(values.rows, values.run, values.run_strides, memory, left_first, right_first, result_first)


@lending
def _multiply_rows(
    rows: np.ndarray,
    run: int,
    strides: tuple[int, int, int],
    memory: np.ndarray,
    left_first: int,
    right_first: int,
    result_first: int,
) -> None:
    """Rows of products, one after another, or some at a time that are added to the same results."""
    left, right, result = strides
    row = 0
    while row < len(rows):
        a, b, c = left_first + rows[row, 0], right_first + rows[row, 1], result_first + rows[row, 2]
        if result == 1 and left + right == 1 and _add_to_the_same(rows, row):
            if left == 0:
                _add_rows(memory, rows[row:, 0], left_first, rows[row:, 1], right_first, c, run)
            else:
                _add_rows(memory, rows[row:, 1], right_first, rows[row:, 0], left_first, c, run)
            row += SUMS
            continue
        if result == 0:
            total = memory[c]
            for at in range(run):
                total += memory[a + at * left] * memory[b + at * right]
            memory[c] = total
        elif result == 1 and left + right > 0 and left <= 1 and right <= 1:
            totals, lefts, rights = memory[c : c + run], memory[a : a + run], memory[b : b + run]
            if left == 0:
                factor = memory[a]
                for at in range(run):
                    totals[at] += factor * rights[at]
            elif right == 0:
                factor = memory[b]
                for at in range(run):
                    totals[at] += lefts[at] * factor
            else:
                for at in range(run):
                    totals[at] += lefts[at] * rights[at]
        else:
            for at in range(run):
                memory[c + at * result] += memory[a + at * left] * memory[b + at * right]
        row += 1


@inlined
def _add_to_the_same(rows: np.ndarray, row: int) -> bool:
    """Whether `SUMS` rows from one on are added to the same results."""
    last, first = row + SUMS - 1, rows[row, 2]
    return bool(last < len(rows) and first == rows[row + 1, 2] == rows[row + 2, 2] == rows[last, 2])


@inlined
def _add_rows(
    memory: np.ndarray, factors: np.ndarray, factor: int, rows: np.ndarray, first: int, result: int, count: int
) -> None:
    """To so many results `SUMS` rows one after another, each times a factor."""
    a, b, c, d = _factors(memory, factor, (factors[0], factors[1], factors[2], factors[3]))
    u, v = memory[first + rows[0] :], memory[first + rows[1] :]
    w, x = memory[first + rows[2] :], memory[first + rows[3] :]
    totals = memory[result : result + count]
    for at in range(len(totals)):
        totals[at] = totals[at] + a * u[at] + b * v[at] + c * w[at] + d * x[at]


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
            found = packed[at * LANES : (at + 1) * LANES]
            _gather(memory, first + sums[at, 0], long, 0, begin, adjoins[0], found)
        for column in range(0, len(short), COLUMNS):
            columns = min(COLUMNS, len(short) - column)
            for at in range(columns):
                found = total[at * LANES : (at + 1) * LANES]
                _gather(memory, result + short[column + at, 1], long, 1, begin, adjoins[1], found)
            _add_products(packed, memory, second, sums, short[column:, 0], total)
            for at in range(columns):
                found = total[at * LANES : at * LANES + count]
                _scatter(memory, result + short[column + at, 1], long, begin, adjoins[1], found)


@inlined
def _gather(
    memory: np.ndarray, first: int, long: np.ndarray, side: int, begin: int, adjoin: bool, found: np.ndarray
) -> None:
    """Bring some elements next to one another; as a whole where they stand so, with whatever stands behind the last."""
    if adjoin:
        at = first + long[begin, side]
        source = memory[at : at + len(found)]
        for place in range(len(found)):
            found[place] = source[place]
        return
    for place in range(min(LANES, len(long) - begin)):
        found[place] = memory[np.uint64(first + long[begin + place, side])]  # a signed index would count from the end


@inlined
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
        memory[np.uint64(first + long[begin + place, 1])] = found[place]


@contracting
def _add_products(
    packed: np.ndarray, memory: np.ndarray, second: int, sums: np.ndarray, columns: np.ndarray, total: np.ndarray
) -> None:
    """So many rows of one operand times so many of the other, added up; behind the last of the sums there are zeros."""
    last, most = len(sums) - 1, len(columns) - 1
    places = columns[0], columns[min(1, most)], columns[min(2, most)], columns[min(3, most)]
    others = columns[min(4, most)], columns[min(5, most)], columns[min(6, most)], columns[min(7, most)]
    for begin in range(0, len(sums), SUMS):
        rows = packed[begin * LANES : (begin + SUMS) * LANES]
        one, two = second + sums[begin, 1], second + sums[min(begin + 1, last), 1]
        three, four = second + sums[min(begin + 2, last), 1], second + sums[min(begin + 3, last), 1]
        a, e = _factors(memory, one, places), _factors(memory, one, others)
        b, f = _factors(memory, two, places), _factors(memory, two, others)
        c, g = _factors(memory, three, places), _factors(memory, three, others)
        d, h = _factors(memory, four, places), _factors(memory, four, others)
        for at in range(LANES):
            u, v, w, x = rows[at], rows[LANES + at], rows[2 * LANES + at], rows[3 * LANES + at]
            total[at] = total[at] + u * a[0] + v * b[0] + w * c[0] + x * d[0]
            total[LANES + at] = total[LANES + at] + u * a[1] + v * b[1] + w * c[1] + x * d[1]
            total[2 * LANES + at] = total[2 * LANES + at] + u * a[2] + v * b[2] + w * c[2] + x * d[2]
            total[3 * LANES + at] = total[3 * LANES + at] + u * a[3] + v * b[3] + w * c[3] + x * d[3]
            total[4 * LANES + at] = total[4 * LANES + at] + u * e[0] + v * f[0] + w * g[0] + x * h[0]
            total[5 * LANES + at] = total[5 * LANES + at] + u * e[1] + v * f[1] + w * g[1] + x * h[1]
            total[6 * LANES + at] = total[6 * LANES + at] + u * e[2] + v * f[2] + w * g[2] + x * h[2]
            total[7 * LANES + at] = total[7 * LANES + at] + u * e[3] + v * f[3] + w * g[3] + x * h[3]


@inlined
def _factors(memory: np.ndarray, first: int, places: tuple[int, int, int, int]) -> tuple[Any, Any, Any, Any]:
    """The elements at some places behind an address."""
    a, b, c, d = (
        np.uint64(first + places[0]),
        np.uint64(first + places[1]),
        np.uint64(first + places[2]),
        np.uint64(first + places[3]),
    )
    return memory[a], memory[b], memory[c], memory[d]


@inlined
def _tile_of(values: Any, operand: int, step: int) -> int:
    """Where the part of an operand's innermost tile begins that a block of steps works on."""
    tile, part = step // values.held[operand], (step % values.held[operand]) // values.block
    first = values.kept[operand] + (tile % values.kept_buffers[operand]) * values.kept_size[operand]
    return first + values.blocks[values.block_first[operand] + part]

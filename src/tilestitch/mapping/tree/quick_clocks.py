"""The least cycles that the cuts of each operand alone take from a tile on, compiled: as `quick_bounds` has energies.

A table has the sums that an operand adds to, and of what is read one side: no partial sums arrive there.
"""

from typing import TypeAlias

import numpy as np

from tilestitch.base.jit import lending, tiered
from tilestitch.mapping.tree.labels import NEVER
from tilestitch.mapping.tree.quick_arrays import Arrays, Placed
from tilestitch.mapping.tree.quick_bounds import divisors, placed_alone
from tilestitch.mapping.tree.quick_prices import axis_elements, is_within, no_choice, product_of, room_of
from tilestitch.mapping.tree.timed_pace import SUMS
from tilestitch.mapping.tree.timed_quick import INWARDS, OUTWARDS, Timing, serve_crossing

# that a table is made in: tile and powers; cycles by direction and port; indices touched along each axis; ports
_Room: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]

_MOST_CYCLES = 2.0**48  # of one cut; the search that makes tables says which sums are too large


@lending
def _ports_of(timing: Timing, operand: int, crossing: int, ports: np.ndarray) -> int:
    """Write the ports that a crossing may occupy: how many."""
    count = 0
    for end in range(2 if crossing > 0 else 1):
        for which in range(2):
            count = _noted(ports, count, timing.number[operand, crossing - end, end, which])
    for at in range(timing.network.shape[2]):
        count = _noted(ports, count, timing.network[operand, crossing, at])
    for at in range(timing.engine.shape[2]):
        count = _noted(ports, count, timing.engine[operand, crossing, at])
    return count


@lending
def _noted(ports: np.ndarray, count: int, port: int) -> int:
    """Add a port, if it is any and not known: how many there are."""
    if port < 0:
        return count
    for at in range(count):
        if ports[at] == port:
            return count
    ports[count] = port
    return count + 1


@lending
def _add(
    timing: Timing, cut: tuple[int, int], times: int, ports: np.ndarray, served: np.ndarray, here: np.ndarray
) -> bool:
    """Add what a crossing occupies, so many times; false where there are too many cycles. `here` is [sum]."""
    operand, crossing = cut
    hides = timing.hides[operand, crossing] or timing.through[operand, crossing]
    for port in ports:
        inwards, outwards = served[INWARDS, port], served[OUTWARDS, port]
        if (inwards + outwards) * times > _MOST_CYCLES:
            return False
        both = int(inwards + outwards) * times
        for kind in range(4):
            column = timing.slot[kind, port]
            if column >= 0:
                cycles = both
                if kind == 0 and hides:
                    cycles = 0
                elif kind == 1:
                    cycles = int(inwards)
                elif kind == 2:
                    cycles = int(outwards)
                at = timing.place[operand, column - SUMS]
                here[at] = min(NEVER, here[at] + cycles)
    return True


@lending
def _fill_row(row: np.ndarray, number: int) -> None:
    for at in range(len(row)):
        row[at] = number


@lending
def _copy_row(row: np.ndarray, to: np.ndarray) -> None:
    for at in range(len(row)):
        to[at] = row[at]


@lending
def _fill_outermost(
    arrays: Arrays, placed: Placed, operand: int, rooms: tuple[tuple[int, int], tuple[int, int]], found: np.ndarray
) -> None:
    """Nothing crosses into the outermost memory, which holds everything, whatever lies inside."""
    level = arrays.levels[operand] - 1
    size_bits = arrays.size_bits[operand, level] * (1 + 1e-12)
    bits, whole_bits = rooms
    for side in range(len(found)):
        whole = placed.whole[operand, level]
        room = room_of(
            whole * bits[side], arrays.bank_bits[operand, level], arrays.buffers[operand, level],
            whole * whole_bits[side],
        )  # fmt: skip
        fits = room <= size_bits and is_within(arrays, operand, level, placed.steps)
        for point in range(found.shape[1]):
            _fill_row(found[side, point], 0 if fits else NEVER)


@lending
def _rooms(
    arrays: Arrays, placed: Placed, operand: int, level: int, final_sums: bool
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Bits of an element of a tile in a memory, and of everything there: if complete or partial sums arrive."""
    if operand < len(arrays.axes) - 1:
        bits = (arrays.bits[operand, 0], arrays.bits[operand, 0])
        return bits, bits
    if not final_sums:
        bits = (arrays.bits[operand, 1], arrays.bits[operand, 0])
        return bits, bits
    is_top = level == arrays.levels[operand] - 1
    stored = arrays.bits[operand, 0 if not is_top and placed.outside[operand, level + 1] else 1]
    return (stored, stored), (stored, stored)


@lending
def _fill_units(
    arrays: Arrays, timing: Timing, placed: Placed, operand: int,
    room: _Room, behind: np.ndarray, found: np.ndarray,
) -> bool:  # fmt: skip
    """The part of `clocks_alone` at the units: only loops that leave the operand alone lie inside."""
    tile, _, served, _, ports = room
    times = placed.total
    for loop in range(len(tile)):
        tile[loop] = 1 if arrays.moving[operand, loop] or not arrays.has_latches else placed.steps[loop]
        times //= tile[loop]
    for point in range(len(found)):
        _fill_row(found[point], NEVER)
    _copy_row(behind[0], found[0])
    serve_crossing(arrays, timing, placed, (operand, 0), tile, 1.0, False, served)
    count = _ports_of(timing, operand, 0, ports)
    return _add(timing, (operand, 0), times, ports[:count], served, found[0])


@lending
def _fill(
    arrays: Arrays, timing: Timing, placed: Placed, cut: tuple[int, int], axes: np.ndarray,
    rooms: tuple[tuple[int, int], tuple[int, int]], room: _Room, behind: np.ndarray,
    found: np.ndarray,
) -> bool:  # fmt: skip
    """The part of `clocks_alone` of one crossing; false where there are too many cycles. `room` is written to."""
    operand, crossing = cut
    tile, powers, served, touched, _ = room
    sides, points, _ = found.shape
    level, array_axes = crossing - 1, arrays.axes[operand]
    size_bits, bank_bits = arrays.size_bits[operand, level] * (1 + 1e-12), arrays.bank_bits[operand, level]
    buffers, whole = arrays.buffers[operand, level], placed.whole[operand, level]
    over, under = placed.over[operand, crossing], placed.under[operand, crossing]
    share = placed.share[operand, crossing]
    partial = sides == 2 and placed.outside[operand, crossing]
    to = 1 if partial else 0
    ports = room[4][: _ports_of(timing, operand, crossing, room[4])]
    times = 1
    for axis in range(len(axes)):
        tile[axes[axis, 0]], powers[axis] = 1, 0
        times *= axes[axis, 1] ** (axes[axis, 2] - 1)
    for axis in range(array_axes):
        touched[axis] = axis_elements(arrays.terms[operand, axis], tile, over, under, share)
    for point in range(points):
        elements = product_of(touched, array_axes)
        known = -1  # what crosses is alike for both sides
        for side in range(sides):
            needed = room_of(elements * rooms[0][side], bank_bits, buffers, whole * rooms[1][side])
            here = found[side, point]
            if needed > size_bits or not is_within(arrays, operand, level, tile):
                _fill_row(here, NEVER)
            elif known >= 0:
                _copy_row(found[known, point], here)
            else:
                known = side
                _copy_row(behind[to, point], here)
                serve_crossing(arrays, timing, placed, cut, tile, elements, partial, served)
                if not _add(timing, cut, times, ports, served, here):
                    return False
        for axis in range(len(axes) - 1, -1, -1):
            loop = axes[axis, 0]
            powers[axis] += 1
            if powers[axis] < axes[axis, 2]:
                tile[loop] *= axes[axis, 1]
                times //= axes[axis, 1]
            else:
                for _ in range(axes[axis, 2] - 1):
                    tile[loop] //= axes[axis, 1]
                    times *= axes[axis, 1]
                powers[axis] = 0
            for own in range(array_axes):
                terms = arrays.terms[operand, own]
                if (terms[0] >= 1 and terms[1] == loop) or (terms[0] == 2 and terms[3] == loop):
                    touched[own] = axis_elements(terms, tile, over, under, share)
            if powers[axis] > 0:
                break
    for side in range(sides):
        _rows_outwards(found[side], axes)
    return True


@lending
def _rows_outwards(here: np.ndarray, axes: np.ndarray) -> None:
    """Of every point and sum the least of it and all larger points."""
    stride = len(here)
    for axis in range(len(axes)):
        block, stride = stride, stride // axes[axis, 2]
        for start in range(0, len(here), block):
            for point in range(start + block - stride - 1, start - 1, -1):
                for at in range(here.shape[1]):
                    here[point, at] = min(here[point, at], here[point + stride, at])


@tiered
def clocks_alone(
    arrays: Arrays, timing: Timing, operand: int, spread: tuple[np.ndarray, np.ndarray, np.ndarray],
    options: tuple[bool, bool],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """The least cycles that each cut and the later ones take an operand from a tile on, of many choices.

    One choice after another, each [cut, side, point, sum] of the loops that move it; where each begins; and those of
    the first cut at the least tile: [choice, partial, sum of all], of which [0, 0, 0] is -1 where there are too many.
    `spread` are numerators and denominators [choice, fan-out, loop] and the steps; `options` whether sums are stored at
    their final width, and whether the tables are kept. The operands are `relaxed`: then the other loops are best all
    inside.
    """
    over, under, steps = spread
    final_sums, keeps = options
    is_write, levels, kinds = operand == len(arrays.axes) - 1, arrays.levels[operand], timing.many_sums[operand]
    sides, cuts = (2, levels) if is_write else (1, levels + 1)
    first, largest = np.zeros(len(over) + 1, np.int64), 0
    for number in range(len(over)):
        size = cuts * sides * kinds
        for row in divisors(steps[number], arrays.moving[operand]):
            size *= row[2]
        first[number + 1], largest = first[number] + size, max(largest, size)
    table = np.empty(first[len(over)] if keeps else largest, np.int64)
    roots = np.zeros((len(over), 2, timing.columns.until - SUMS), np.int64)
    empty, served, ports = no_choice(arrays), np.zeros((2, timing.many)), np.empty(timing.many, np.int64)
    touched = np.ones(max(1, arrays.axes[operand]))
    for number in range(len(over)):
        placed = placed_alone(arrays, empty, operand, over[number], under[number], steps[number])
        axes, begin = divisors(placed.steps, arrays.moving[operand]), first[number] if keeps else 0
        points = 1
        for row in axes:
            points *= row[2]
        found = table[begin : begin + cuts * sides * points * kinds].reshape((cuts, sides, points, kinds))
        room = placed.steps.copy(), np.zeros(len(axes), np.int64), served, touched, ports
        for cut in range(cuts - 1, -1, -1):
            crossing = cut + 1 if is_write else cut
            fits = True
            if cut == cuts - 1:
                rooms = _rooms(arrays, placed, operand, levels - 1, final_sums)
                _fill_outermost(arrays, placed, operand, rooms, found[cut])
            elif crossing > 0:
                rooms = _rooms(arrays, placed, operand, crossing - 1, final_sums)
                fits = _fill(arrays, timing, placed, (operand, crossing), axes, rooms, room, found[cut + 1], found[cut])
            else:
                fits = _fill_units(arrays, timing, placed, operand, room, found[1, 0], found[0, 0])
            if not fits:
                roots[0, 0, 0] = -1
                return table, first, roots
        for side in range(2):
            for at in range(kinds):
                roots[number, side, timing.sums[operand, at] - SUMS] = found[0, side % sides, 0, at]
    return table, first, roots

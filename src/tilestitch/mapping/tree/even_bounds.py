"""What a spatial choice costs at least where every memory stores evenly: of all operands together, compiled.

At the place of a memory the tiles of all operands change. Outside of it only loops that leave an operand alone let it
stay, so it stays together with those alone that the same loop leaves alone. From the outermost place inwards, the least
of all places that are still to come is known at every tile.
"""

import numpy as np

from tilestitch.base.jit import compiled, inner, lending
from tilestitch.mapping.tree.labels import NEVER
from tilestitch.mapping.tree.quick_arrays import Arrays, Placed
from tilestitch.mapping.tree.quick_bounds import divisors, least_outwards, placed_alone
from tilestitch.mapping.tree.quick_prices import TOO_MUCH, crossing_fj, held_elements, is_within, no_choice, room_of

MOST = 2**59  # femtojoules of one operand in one memory; more count as so many
# What one operand costs at the place of one memory, by the tile of the loops that move it: if all other loops lie
# inside; if not, for each step of those, and again for each but the first; its bits, if complete sums arrive or partial
INSIDE, EACH, AGAIN, ROOM, ROOM_OF_PARTIAL, KINDS = range(6)
# before all of these: what the units read; where reductions are spread outside: bit 0 of the units, 1 of the innermost
# memory, and so on
AT_UNITS, SPREAD, HEAD = range(3)


@compiled
def even_tables(
    arrays: Arrays, operand: int, over: np.ndarray, under: np.ndarray, steps: np.ndarray, final_sums: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The tables of one operand for many choices, one after another, and where each begins; [0] is -1 if too much."""
    found, first = np.empty(4096, np.int64), np.zeros(len(over) + 1, np.int64)
    empty, last, is_write = no_choice(arrays), arrays.levels[operand] - 1, operand == len(arrays.axes) - 1
    for number in range(len(over)):
        placed = placed_alone(arrays, empty, operand, over[number], under[number], steps[number])
        axes = divisors(placed.steps, arrays.moving[operand])
        points = 1
        for axis in range(len(axes)):
            points *= axes[axis, 2]
        first[number + 1] = first[number] + HEAD + last * KINDS * points
        while first[number + 1] > len(found):
            found = np.concatenate((found, np.empty(len(found), np.int64)))
        here = found[first[number] : first[number + 1]]
        here[AT_UNITS] = 0 if is_write else _at_units(arrays, placed, operand)
        here[SPREAD] = 0
        for crossing in range(last + 1):
            here[SPREAD] |= (1 if is_write and placed.outside[operand, crossing] else 0) << crossing
        levels = here[HEAD:].reshape(last, KINDS, points)
        is_compared = here[AT_UNITS] >= 0
        for level in range(last):
            is_compared = is_compared and _fill(arrays, placed, operand, level, axes, final_sums, levels[level])
        if not is_compared:
            found[0] = -1
            return found[:1], first
    return found[: first[len(over)]], first


@inner
def _at_units(arrays: Arrays, placed: Placed, operand: int) -> int:
    """What the units read at least; -1 if too much."""
    times, one = 1, np.ones(len(placed.steps), np.int64)
    for loop in range(len(placed.steps)):
        times *= placed.steps[loop] if arrays.moving[operand, loop] or not arrays.has_latches else 1
    shared = np.rint(held_elements(arrays, placed, operand, 1, one))
    return int(crossing_fj(arrays, placed, operand, 0, 1.0, shared, times, 0, False))


@inner
def _fill(
    arrays: Arrays, placed: Placed, operand: int, level: int, axes: np.ndarray, final_sums: bool, found: np.ndarray
) -> bool:
    """The table of one memory; false where it is too much to compare."""
    is_write = operand == len(arrays.axes) - 1
    partial = is_write and placed.outside[operand, level + 1]
    bits = arrays.bits[operand, 1 if is_write else 0], arrays.bits[operand, 1 if is_write and final_sums else 0]
    tile, powers = placed.steps.copy(), np.zeros(len(axes), np.int64)
    times = 1
    for axis in range(len(axes)):
        tile[axes[axis, 0]] = 1
        times *= axes[axis, 1] ** (axes[axis, 2] - 1)
    for point in range(found.shape[1]):
        elements = held_elements(arrays, placed, operand, level + 1, tile)
        fits = is_within(arrays, operand, level, tile)
        for side in range(2):
            whole = placed.whole[operand, level] * bits[side]
            room = room_of(
                elements * bits[side], arrays.bank_bits[operand, level], arrays.buffers[operand, level], whole
            )
            found[ROOM + side, point] = int(room)
        fits = fits and found[ROOM, point] <= arrays.size_bits[operand, level] * (1 + 1e-12)
        found[INSIDE, point] = found[EACH, point] = found[AGAIN, point] = NEVER
        if fits:
            held = np.rint(elements)
            shared = np.rint(held_elements(arrays, placed, operand, level + 2, tile))
            at_once = times if partial and arrays.reads_first_sums else 0
            inside = crossing_fj(arrays, placed, operand, level + 1, held, shared, times, at_once, partial)
            each, again = inside, 0.0
            if is_write:
                first = times if arrays.reads_first_sums else 0
                each = crossing_fj(arrays, placed, operand, level + 1, held, shared, times, first, True)
                if not arrays.reads_first_sums:
                    again = crossing_fj(arrays, placed, operand, level + 1, held, shared, times, times, True) - each
            if inside == TOO_MUCH or each == TOO_MUCH or again < 0:
                return False
            found[INSIDE, point], found[EACH, point], found[AGAIN, point] = int(inside), int(each), int(again)
        for axis in range(len(axes) - 1, -1, -1):
            loop = axes[axis, 0]
            powers[axis] += 1
            if powers[axis] < axes[axis, 2]:
                tile[loop] *= axes[axis, 1]
                times //= axes[axis, 1]
                break
            for _ in range(axes[axis, 2] - 1):
                tile[loop] //= axes[axis, 1]
                times *= axes[axis, 1]
            powers[axis] = 0
    return True


@inner
def _staying(moving: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Which operands may stay outside of a place: of each loop with steps those that it leaves alone, as bits."""
    found, count = np.zeros(len(steps) + 1, np.int64), 0
    for loop in range(len(steps)):
        mask = 0
        for operand in range(len(moving)):
            if steps[loop] > 1 and not moving[operand, loop]:
                mask |= 1 << operand
        is_new = mask > 0
        for other in range(count):
            is_new = is_new and found[other] != mask
        if is_new:
            found[count] = mask
            count += 1
    return found[: max(1, count)]


@lending
def _at_place(part: np.ndarray, point: int, alone: int) -> int:
    """What an operand costs at a place with so many steps of what leaves it alone outside of it."""
    inside = part[INSIDE, point]
    if alone == 1 or inside >= NEVER:
        return inside
    # what each step costs is rounded by itself: so much less it may be
    each, again = max(0, part[EACH, point] - 1), max(0, part[AGAIN, point] - 1)
    if float(each) * alone + float(again) * (alone - 1) > MOST:
        return MOST
    return each * alone + again * (alone - 1)


@compiled
def least_together(
    moving: np.ndarray, steps: np.ndarray, tables: np.ndarray, first: np.ndarray, size_bits: np.ndarray
) -> np.ndarray:
    """What each of many choices costs at least, in femtojoules, without what results cost at the units.

    NEVER where nothing fits. `tables` are those of `even_tables`, and `first` says where those of a choice and an
    operand begin; `size_bits` are of every memory but the outermost, from the innermost.
    """
    found = np.empty(len(steps), np.int64)
    operands, levels, every = len(moving), len(size_bits), np.ones(moving.shape[1], np.bool_)
    write = operands - 1
    alone, at = np.empty(operands, np.int64), np.empty(operands, np.int64)
    cost, least = np.empty(operands, np.int64), np.empty(operands, np.int64)
    for number in range(len(steps)):
        axes = divisors(steps[number], every)
        staying, points = _staying(moving, steps[number]), 1
        own, all_alone = np.zeros((operands, len(axes)), np.int64), np.ones(operands, np.int64)
        sizes = np.ones(operands, np.int64)
        for axis in range(len(axes) - 1, -1, -1):
            points *= axes[axis, 2]
            for operand in range(operands):
                if moving[operand, axes[axis, 0]]:
                    own[operand, axis] = sizes[operand]
                    sizes[operand] *= axes[axis, 2]
                else:
                    all_alone[operand] *= axes[axis, 1] ** (axes[axis, 2] - 1)
        total, starts = 0, 0
        for operand in range(operands):
            head = tables[first[number, operand] : first[number, operand] + HEAD]
            total = min(NEVER, total + head[AT_UNITS])
            starts |= head[SPREAD] & 1
        if all_alone[write] > 1:
            starts = 1
        later, powers = np.zeros((2, points), np.int64), np.empty(len(axes), np.int64)
        for level in range(levels - 1, -1, -1):
            here = np.empty((2, points), np.int64)
            powers[:] = 0
            at[:] = 0
            alone[:] = all_alone
            for point in range(points):
                here[0, point] = here[1, point] = NEVER
                fits, room, room_of_partial, together = True, 0, 0, 0
                for operand in range(operands):
                    begin = first[number, operand] + HEAD + level * KINDS * sizes[operand]
                    part = tables[begin : begin + KINDS * sizes[operand]].reshape(KINDS, sizes[operand])
                    inside = part[INSIDE, at[operand]]
                    if inside >= NEVER:
                        fits = False
                        break
                    room += part[ROOM, at[operand]]
                    room_of_partial += part[ROOM_OF_PARTIAL, at[operand]]
                    if room > size_bits[level]:
                        fits = False
                        break
                    cost[operand] = _at_place(part, at[operand], alone[operand])
                    least[operand] = min(inside, part[EACH, at[operand]])
                    together += cost[operand]
                if fits:
                    begin = first[number, write] + HEAD + level * KINDS * sizes[write]
                    spread = tables[first[number, write] + SPREAD] >> (level + 1) & 1
                    goes_on = 1 if alone[write] > 1 else spread
                    best = NEVER
                    for mask in staying:
                        value = together
                        for operand in range(operands):
                            if mask >> operand & 1:
                                value += least[operand] - cost[operand]
                        if mask >> write & 1:
                            value += min(later[0, point], later[1, point])
                        else:
                            value += later[goes_on, point]
                        best = min(best, value)
                    here[0, point] = best
                    if room_of_partial <= size_bits[level]:
                        here[1, point] = best
                for axis in range(len(axes) - 1, -1, -1):
                    powers[axis] += 1
                    back = axes[axis, 2] - 1 if powers[axis] == axes[axis, 2] else 0
                    for operand in range(operands):
                        if own[operand, axis] > 0:
                            at[operand] += -back * own[operand, axis] if back > 0 else own[operand, axis]
                        elif back > 0:
                            alone[operand] *= axes[axis, 1] ** back
                        else:
                            alone[operand] //= axes[axis, 1]
                    if back == 0:
                        break
                    powers[axis] = 0
            if level > 0:
                least_outwards(here[0], axes)
                least_outwards(here[1], axes)
            later = here
        best = NEVER
        for point in range(points):
            best = min(best, later[starts, point])
        found[number] = min(NEVER, best + total)
    return found

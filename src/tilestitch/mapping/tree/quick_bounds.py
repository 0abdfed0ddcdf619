"""What a spatial choice costs at least, compiled: of every operand alone, as if it had all memories for itself."""

import numpy as np

from tilestitch.base.jit import compiled, inner, lending
from tilestitch.mapping.tree.labels import NEVER
from tilestitch.mapping.tree.quick_arrays import TOGETHER, Arrays, Placed
from tilestitch.mapping.tree.quick_prices import (
    TOO_MUCH,
    axis_elements,
    crossing_fj,
    ends_pj,
    from_units,
    held_elements,
    in_femtojoules,
    is_within,
    no_choice,
    place,
    product_of,
    room_of,
)


@inner
def divisors(steps: np.ndarray, moving: np.ndarray) -> np.ndarray:
    """The axes of the lattice of some loops: rows of loop, prime and how many powers it has, 1 included."""
    found = np.empty((64, 3), np.int64)
    count = 0
    for loop in range(len(steps)):
        left, prime = (steps[loop] if moving[loop] else 1), 2
        while left > 1:
            if prime * prime > left:
                prime = left
            power = 0
            while left % prime == 0:
                left, power = left // prime, power + 1
            if power > 0:
                found[count, 0], found[count, 1], found[count, 2] = loop, prime, power + 1
                count += 1
            prime += 1
    return found[:count]


@lending
def _fill(
    arrays: Arrays,
    placed: Placed,
    operand: int,
    level: int,
    axes: np.ndarray,
    bits: tuple[tuple[int, int], tuple[int, int]],
    partial: bool,
    room: tuple[np.ndarray, np.ndarray, np.ndarray],
    found: np.ndarray,
) -> bool:
    """The part of `least_from` of one cut, without the outermost; false where it is too much to compare.

    `bits` of an element are those at a tile and at the whole, of complete and of partial sums; `room` is written to.
    """
    is_write = operand == len(arrays.axes) - 1
    cut, points, array_axes = level + (0 if is_write else 1), found.shape[2], arrays.axes[operand]
    (rooms, last_bits), (tile, powers, touched) = bits, room
    size_bits = arrays.size_bits[operand, level] * (1 + 1e-12)
    buffers, bank_bits = arrays.buffers[operand, level], arrays.bank_bits[operand, level]
    whole = placed.whole[operand, level]
    over, under = placed.over[operand, level + 1], placed.under[operand, level + 1]
    share = placed.share[operand, level + 1]
    cost_bits = arrays.bits[operand, 1 if is_write and not partial else 0]
    inner_copies, outer_copies = placed.instances[operand, level + 1], placed.instances[operand, level + 2]
    ports, energies = arrays.ports[operand, level], arrays.access_pj[operand, level]
    above, above_pj = arrays.ports[operand, level + 1], arrays.access_pj[operand, level + 1]
    differing = placed.differing[operand, level + 1]
    is_plain = arrays.network_pj[operand, level + 1, 0] == 0 and arrays.sharing[operand, level + 1] < TOGETHER
    together = placed.over[operand, level + 2], placed.under[operand, level + 2], placed.share[operand, level + 2]
    for axis in range(len(axes)):
        tile[axes[axis, 0]], powers[axis] = 1, 0
    for axis in range(array_axes):
        touched[0, axis] = axis_elements(arrays.terms[operand, axis], tile, over, under, share)
        touched[1, axis] = axis_elements(arrays.terms[operand, axis], tile, *together)
    times = 1
    for axis in range(len(axes)):
        times *= axes[axis, 1] ** (axes[axis, 2] - 1)
    for point in range(points):
        elements = product_of(touched[0], array_axes)
        cost = 0.0
        if elements * min(rooms) <= size_bits:
            # what leaves the operand alone lies inside: only sums that others add to come back, and all are the first
            back = times if partial and arrays.reads_first_sums else 0
            held = np.rint(elements)
            if is_plain:
                energy = ends_pj(above[0], above_pj[0], held * differing, cost_bits, times, back, outer_copies)
                energy += ends_pj(ports[1], energies[1], held, cost_bits, times, back, inner_copies)
                cost = in_femtojoules(energy)
            else:
                shared = np.rint(product_of(touched[1], array_axes))
                cost = crossing_fj(arrays, placed, operand, level + 1, held, shared, times, back, partial)
            if cost == TOO_MUCH:
                return False
        for side in range(2 if is_write else 1):
            needed = room_of(elements * rooms[side], bank_bits, buffers, whole * last_bits[side])
            rest = found[cut + 1, 1 if partial else 0, point]
            fits = needed <= size_bits and is_within(arrays, operand, level, tile)
            found[cut, side, point] = min(int(cost) + rest, NEVER) if fits else NEVER
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
                    touched[0, own] = axis_elements(terms, tile, over, under, share)
                    if not is_plain:
                        touched[1, own] = axis_elements(terms, tile, *together)
            if powers[axis] > 0:
                break
    least_outwards(found[cut, 0], axes)
    if is_write:
        least_outwards(found[cut, 1], axes)
    else:
        for point in range(points):
            found[cut, 1, point] = found[cut, 0, point]
    return True


@inner
def least_from(arrays: Arrays, placed: Placed, operand: int, final_sums: bool) -> np.ndarray:
    """The least that each cut and the later ones cost an operand from a tile on: [cut, partial, point]; -1 if too much.

    Points are tiles of the loops that move it. The others are best all inside the next cut: they cost nothing there
    and complete its sums. The operands are `relaxed`.
    """
    is_write, levels = operand == len(arrays.axes) - 1, arrays.levels[operand]
    first = 0 if is_write else 1
    axes = divisors(placed.steps, arrays.moving[operand])
    points, array_axes = 1, arrays.axes[operand]
    for axis in range(len(axes)):
        points *= axes[axis, 2]
    found = np.empty((levels + first, 2, points), np.int64)
    tile, powers, touched = placed.steps.copy(), np.zeros(len(axes), np.int64), np.ones((2, array_axes))
    if first == 1:
        found[0, :, :] = NEVER
    for level in range(levels - 1, -1, -1):
        is_top, cut = level == levels - 1, level + first
        partial = is_write and not is_top and placed.outside[operand, level + 1]
        rooms = (arrays.bits[operand, 1 if is_write else 0], arrays.bits[operand, 0])
        last_bits = rooms
        if is_write and final_sums:
            bits = arrays.bits[operand, 0 if partial else 1]
            rooms = last_bits = (bits, bits)
        if is_top:  # which holds everything, whatever lies inside
            for side in range(2):
                bits = placed.whole[operand, level] * rooms[side if is_write else 0]
                room = room_of(bits, arrays.bank_bits[operand, level], arrays.buffers[operand, level], bits)
                found[cut, side] = 0 if room <= arrays.size_bits[operand, level] * (1 + 1e-12) else NEVER
            continue
        if not _fill(arrays, placed, operand, level, axes, (rooms, last_bits), partial, (tile, powers, touched), found):
            found[0, 0, 0] = -1
            return found
    if first == 1:  # at the units: only loops that leave the operand alone lie inside
        moved = 1
        for loop in range(len(placed.steps)):
            moved *= placed.steps[loop] if arrays.moving[operand, loop] else 1
        times = moved if arrays.has_latches else placed.total
        shared = np.rint(held_elements(arrays, placed, operand, 1, np.ones(len(placed.steps), np.int64)))
        cost = crossing_fj(arrays, placed, operand, 0, 1.0, shared, times, 0, False)
        if cost == TOO_MUCH:
            found[0, 0, 0] = -1
        else:
            found[0, :, 0] = min(int(cost) + found[1, 0, 0], NEVER)
    return found


@lending
def least_outwards(here: np.ndarray, axes: np.ndarray) -> None:
    """Of every point the least of it and all larger ones."""
    stride = len(here)
    for axis in range(len(axes)):
        block, stride = stride, stride // axes[axis, 2]
        for start in range(0, len(here), block):
            for point in range(start + block - stride - 1, start - 1, -1):
                here[point] = min(here[point], here[point + stride])


@inner
def placed_alone(
    arrays: Arrays, empty: Placed, operand: int, over: np.ndarray, under: np.ndarray, steps: np.ndarray
) -> Placed:
    """One choice for one operand, in the arrays of another."""
    placed = Placed(
        empty.over, empty.under, empty.share, empty.differing, empty.exchanging, empty.outside, empty.whole,
        empty.instances,
        steps, int(np.prod(steps)),
    )  # fmt: skip
    # a doubtful third digit must not make more memories of it than there are
    place(arrays, placed, operand, over, under, 1e-6)
    return placed


@compiled
def units_alone(arrays: Arrays, over: np.ndarray, under: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """What results of many choices cost at the units at every step, in femtojoules; -1 where it is not compared."""
    found = np.empty(len(over), np.int64)
    empty = no_choice(arrays)
    for number in range(len(over)):
        write = len(arrays.axes) - 1
        placed = placed_alone(arrays, empty, write, over[number], under[number], steps[number])
        found[number] = int(from_units(arrays, placed)[1])
    return found


@compiled
def least_alone(
    arrays: Arrays, operand: int, over: np.ndarray, under: np.ndarray, steps: np.ndarray, options: tuple[bool, bool]
) -> np.ndarray:
    """What each of many choices costs an operand at least, in femtojoules, if it had all memories for itself.

    Without what results cost at the units. NEVER where it fits nowhere, -1 where it is too much to compare. `over` and
    `under` are [choice, fan-out, loop]; `options` are whether sums are stored at their final width, and whether those
    that come from the units are taken as complete.
    """
    found = np.empty(len(over), np.int64)
    empty = no_choice(arrays)
    for number in range(len(over)):
        placed = placed_alone(arrays, empty, operand, over[number], under[number], steps[number])
        side = 0
        if operand == len(arrays.axes) - 1 and not options[1]:
            side = 1 if from_units(arrays, placed)[0] else 0
        least = least_from(arrays, placed, operand, options[0])
        found[number] = -1 if least[0, 0, 0] < 0 else min(least[0, side, 0], NEVER)
    return found


@inner
def in_turn_fj(arrays: Arrays, placed: Placed, operand: int, common: np.ndarray) -> int:
    """What an operand costs more at the units if only the common loops go on while it stays there; -1 if too much."""
    alone, times = 1, placed.total
    for loop in range(len(common)):
        if arrays.moving[operand, loop]:
            alone *= placed.steps[loop]
        elif common[loop]:
            times //= placed.steps[loop]
    if not arrays.has_latches:  # nothing stays at the units
        return 0
    shared = np.rint(held_elements(arrays, placed, operand, 1, np.ones(len(common), np.int64)))
    cost = crossing_fj(arrays, placed, operand, 0, 1.0, shared, times, 0, False)
    least = crossing_fj(arrays, placed, operand, 0, 1.0, shared, alone, 0, False)
    if cost == TOO_MUCH or least == TOO_MUCH:
        return -1
    return int(cost) - int(least) if least < NEVER else 0


@inner
def common_loops(arrays: Arrays) -> np.ndarray:
    """The loops that leave all that is read alone."""
    common = np.ones(arrays.moving.shape[1], np.bool_)
    for operand in range(len(arrays.axes) - 1):
        for loop in range(len(common)):
            common[loop] = common[loop] and not arrays.moving[operand, loop]
    return common


@compiled
def in_turn_alone(arrays: Arrays, operand: int, over: np.ndarray, under: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """`in_turn_fj` of many choices.

    Of two operands that are read, one or the other stays at the units only while loops go on that leave both alone:
    where the one stays for a loop of its own, the other one has been there before, or changes with that loop.
    """
    found, empty, common = np.empty(len(over), np.int64), no_choice(arrays), common_loops(arrays)
    for number in range(len(over)):
        placed = placed_alone(arrays, empty, operand, over[number], under[number], steps[number])
        found[number] = in_turn_fj(arrays, placed, operand, common)
    return found


@compiled
def tables_alone(
    arrays: Arrays, operand: int, over: np.ndarray, under: np.ndarray, steps: np.ndarray, final_sums: bool
) -> tuple[np.ndarray, np.ndarray]:
    """What `least_from` says of many choices, one after another, and where each begins; [0] is -1 if too much."""
    found, first = np.empty(4096, np.int64), np.zeros(len(over) + 1, np.int64)
    empty = no_choice(arrays)
    for number in range(len(over)):
        placed = placed_alone(arrays, empty, operand, over[number], under[number], steps[number])
        least = least_from(arrays, placed, operand, final_sums).reshape(-1)
        first[number + 1] = first[number] + len(least)
        while first[number + 1] > len(found):
            found = np.concatenate((found, np.empty(len(found), np.int64)))
        found[first[number] : first[number + 1]] = least
        if least[0] < 0:
            found[0] = -1
            return found[:1], first
    return found[: first[len(over)]], first

"""What a spatial choice costs at least where every memory stores evenly: of all operands together, compiled.

At the place of a memory the tiles of all operands change. Outside of it only loops that leave an operand alone let it
stay, so it stays together with those alone that the same loop leaves alone. From the outermost place inwards, the least
of all places that are still to come is known at every tile: of energy, and of the cycles of every port. At the
innermost place they are put together.
"""

import numpy as np

from tilestitch.base.jit import compiled, inner, lending
from tilestitch.mapping.tree.even_tables import (
    AGAIN,
    COSTS,
    EACH,
    FJ,
    HEAD,
    INSIDE,
    KINDS,
    MOST,
    ROOM,
    ROOM_OF_PARTIAL,
    SPREAD,
    Totals,
    count_of,
)
from tilestitch.mapping.tree.labels import NEVER
from tilestitch.mapping.tree.quick_bounds import divisors

CYCLES, FASTEST_FJ = 1, 2  # beside femtojoules: the least cycles; the least femtojoules with so few


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
def _at_place(part: np.ndarray, row: int, point: int, alone: int, doubt: int) -> int:
    """What an operand adds to a total at a place with so many steps of what leaves it alone outside of it.

    What each step costs is rounded by itself, and may be less by the `doubt`.
    """
    if alone == 1:
        return part[row + INSIDE, point]
    each, again = max(0, part[row + EACH, point] - doubt), max(0, part[row + AGAIN, point] - doubt)
    if float(each) * alone + float(again) * (alone - 1) > MOST:
        return MOST
    return each * alone + again * (alone - 1)


@lending
def _least_outwards(here: np.ndarray, axes: np.ndarray, totals: int) -> None:
    """Of every point and total the least of it and all larger points."""
    stride = len(here)
    for axis in range(len(axes)):
        block, stride = stride, stride // axes[axis, 2]
        for start in range(0, len(here), block):
            for point in range(start + block - stride - 1, start - 1, -1):
                for total in range(totals):
                    here[point, total] = min(here[point, total], here[point + stride, total])


@lending
def _cycles_of(value: np.ndarray, totals: Totals, steps: int) -> int:
    """Below what no latency comes with such totals."""
    found = steps
    for port in range(len(totals.busy)):
        if totals.busy[port] >= 0:
            found = max(found, value[totals.busy[port]])
        if totals.stops[port] >= 0:
            found = max(found, steps + value[totals.stops[port]])
    return int(found)


@compiled
def least_together(
    moving: np.ndarray, steps: np.ndarray, totals: Totals, tables: np.ndarray, first: np.ndarray,
    size_bits: np.ndarray, fixed: tuple[np.ndarray, int],
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """What each of many choices costs at least.

    Three numbers: femtojoules, NEVER where nothing fits; cycles; and femtojoules with so few cycles. Then the least
    product of femtojoules and cycles, these to the power that `fixed` says behind the femtojoules that every mapping of
    a choice costs beside what the tables say. `tables` are those of `even_tables`, and `first` says where those of a
    choice and an operand begin; `size_bits` are of every memory but the outermost, from the innermost.
    """
    found, products = np.full((len(steps), 3), NEVER, np.int64), np.full(len(steps), np.inf)
    operands, levels, every = len(moving), len(size_bits), np.ones(moving.shape[1], np.bool_)
    write, (fixed_fj, power) = operands - 1, fixed
    alone, at, begin = np.empty(operands, np.int64), np.empty(operands, np.int64), np.empty(operands, np.int64)
    listed = np.empty((operands, levels), np.int64)
    for operand in range(operands):
        for level in range(levels):
            listed[operand, level] = count_of(totals.listed[operand, level])
    all_, spared = np.zeros(totals.many, np.int64), np.zeros((operands, totals.many), np.int64)
    best, value = np.empty(totals.many, np.int64), np.empty(totals.many, np.int64)
    units = np.empty(totals.many, np.int64)
    for number in range(len(steps)):
        axes = divisors(steps[number], every)
        staying, points = _staying(moving, steps[number]), 1
        own, all_alone = np.zeros((operands, len(axes)), np.int64), np.ones(operands, np.int64)
        sizes, iterations = np.ones(operands, np.int64), 1
        for axis in range(len(axes) - 1, -1, -1):
            points *= axes[axis, 2]
            iterations *= axes[axis, 1] ** (axes[axis, 2] - 1)
            for operand in range(operands):
                if moving[operand, axes[axis, 0]]:
                    own[operand, axis] = sizes[operand]
                    sizes[operand] *= axes[axis, 2]
                else:
                    all_alone[operand] *= axes[axis, 1] ** (axes[axis, 2] - 1)
        units[:] = 0
        units[FJ] = fixed_fj[number]
        for operand in range(operands):
            head = tables[first[number, operand] : first[number, operand] + HEAD + totals.many]
            begin[operand] = first[number, operand] + HEAD + totals.many
            for level in range(levels):
                begin[operand] += (COSTS + KINDS * listed[operand, level]) * sizes[operand]
            for total in range(totals.many):
                units[total] = min(NEVER, units[total] + head[HEAD + total])
        spread = tables[first[number, write] + SPREAD]
        starts = 1 if all_alone[write] > 1 else spread & 1
        later, powers = np.zeros((2, points, 1), np.int64), np.empty(len(axes), np.int64)
        known = 0  # totals to which memories further out add
        for level in range(levels - 1, -1, -1):
            many = totals.active[level]
            here = np.empty((2, points, many if level > 0 else 1), np.int64)
            powers[:] = 0
            at[:] = 0
            alone[:] = all_alone
            for operand in range(operands):
                begin[operand] -= (COSTS + KINDS * listed[operand, level]) * sizes[operand]
            for point in range(points):
                fits, room, room_of_partial = True, 0, 0
                for operand in range(operands):
                    rows, size = COSTS + KINDS * listed[operand, level], sizes[operand]
                    part = tables[begin[operand] : begin[operand] + rows * size].reshape(rows, size)
                    if part[COSTS + INSIDE, at[operand]] >= NEVER:
                        fits = False
                        break
                    room += part[ROOM, at[operand]]
                    room_of_partial += part[ROOM_OF_PARTIAL, at[operand]]
                    if room > size_bits[level]:
                        fits = False
                        break
                if level == 0 and starts == 1 and room_of_partial > size_bits[level]:
                    fits = False
                if level > 0:
                    here[:, point] = NEVER
                if fits:
                    all_[:] = 0
                    for operand in range(operands):
                        rows, size = COSTS + KINDS * listed[operand, level], sizes[operand]
                        part = tables[begin[operand] : begin[operand] + rows * size].reshape(rows, size)
                        spared[operand, :] = 0
                        for entry in range(listed[operand, level]):
                            row, total = COSTS + KINDS * entry, totals.listed[operand, level, entry]
                            cost = _at_place(part, row, at[operand], alone[operand], 1 if total == FJ else 0)
                            least = min(part[row + INSIDE, at[operand]], part[row + EACH, at[operand]])
                            all_[total] += cost
                            spared[operand, total] = cost - least
                    goes_on = 1 if alone[write] > 1 else spread >> (level + 1) & 1
                    best[:] = NEVER
                    for mask in staying:
                        for total in range(many):
                            value[total] = all_[total]
                            for operand in range(operands):
                                if mask >> operand & 1:
                                    value[total] -= spared[operand, total]
                            if total < known and mask >> write & 1:
                                value[total] += min(later[0, point, total], later[1, point, total])
                            elif total < known:
                                value[total] += later[goes_on, point, total]
                            best[total] = min(best[total], value[total])
                        if level == 0 and value[FJ] < NEVER:
                            for total in range(many, totals.many):
                                value[total] = 0
                            for total in range(totals.many):
                                value[total] = min(NEVER, value[total] + units[total])
                            cycles = _cycles_of(value, totals, iterations)
                            row = found[number]
                            row[FJ] = min(row[FJ], value[FJ])
                            if cycles < row[CYCLES] or (cycles == row[CYCLES] and value[FJ] < row[FASTEST_FJ]):
                                row[CYCLES], row[FASTEST_FJ] = cycles, value[FJ]
                            product = float(value[FJ]) * float(cycles) ** power
                            products[number] = min(products[number], product)
                    if level > 0:
                        here[0, point] = best[:many]
                        if room_of_partial <= size_bits[level]:
                            here[1, point] = best[:many]
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
                _least_outwards(here[0], axes, many)
                _least_outwards(here[1], axes, many)
                later, known = here, many
    return found, products

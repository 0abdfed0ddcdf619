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

# Of an operand at a place: where its table begins, its points, that of its tile, and how many tiles it may stay for
BEGIN, SIZE, AT, ALONE = range(4)
ENERGY, LATENCY, EDP, ED2P = -1, 0, 1, 2  # what is least; of products the power of the cycles


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
def _take(
    tables: np.ndarray, listed: np.ndarray, place: np.ndarray, entries: tuple[int, int], costs: np.ndarray
) -> None:
    """Enter what an operand adds to some of the totals that are listed, by whether it stays: [stays, total]."""
    alone, size = place[ALONE], place[SIZE]
    for entry in range(*entries):
        total = listed[entry]
        point = place[BEGIN] + (COSTS + KINDS * entry) * size + place[AT]
        inside, each, again = tables[point + INSIDE * size], tables[point + EACH * size], tables[point + AGAIN * size]
        costs[1, total] = min(inside, each)
        if alone > 1:
            if total == FJ:  # what each step costs is rounded by itself: so much less it may be
                each, again = max(0, each - 1), max(0, again - 1)
            is_much = float(each) * alone + float(again) * (alone - 1) > MOST
            inside = MOST if is_much else each * alone + again * (alone - 1)
        costs[0, total] = inside


@lending
def _fitting(tables: np.ndarray, places: np.ndarray, size_bits: float) -> int:
    """How many kinds of sums may arrive where the tiles of all operands share a memory: none, complete ones, or all."""
    room, room_of_partial = 0, 0
    for operand in range(len(places)):
        size, point = places[operand, SIZE], places[operand, BEGIN] + places[operand, AT]
        if tables[point + (COSTS + INSIDE) * size] >= NEVER:
            return 0
        room += tables[point + ROOM * size]
        room_of_partial += tables[point + ROOM_OF_PARTIAL * size]
        if room > size_bits:
            return 0
    return 2 if room_of_partial <= size_bits else 1


@lending
def _added(costs: np.ndarray, mask: int, total: int) -> int:
    """What all operands add to a total if those of a mask stay."""
    found = 0
    for operand in range(len(costs)):
        found += costs[operand, mask >> operand & 1, total]
    return found


@lending
def _changing(costs: np.ndarray, mask: int, total: int) -> int:
    """What those that are not in the mask add to a total."""
    found = 0
    for operand in range(len(costs)):
        found += 0 if mask >> operand & 1 else costs[operand, 0, total]
    return found


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
def _at_once(totals: Totals, places: np.ndarray, costs: np.ndarray, left: int) -> int:
    """What some port brings before the first tile at least, and some port takes away behind the last one."""
    write, first, last = len(places) - 1, 0, 0
    for port in range(len(totals.busy)):
        total = totals.busy[port]
        if total >= 0:
            inwards = 0
            for operand in range(write):
                inwards += costs[operand, 1, total] * places[operand, ALONE] // left
            first = max(first, inwards)
            # of partial sums half of it comes back
            last = max(last, costs[write, 1, total] * places[write, ALONE] // left // 2)
    return first + last


@lending
def _cycles_of(
    value: np.ndarray, totals: Totals, places: np.ndarray, costs: np.ndarray, mask: int, left: int, steps: int
) -> int:
    """Below what no latency comes where the operands of a mask stay while so many innermost tiles are `left`.

    `value` are the totals of all places, `costs` those of the innermost. docs/trees.md#the-search has the reasons.
    """
    found, turns, stopping = steps, steps, 0
    for port in range(len(totals.busy)):
        busy, stops = totals.busy[port], totals.stops[port]
        if busy >= 0:
            found, turns = max(found, value[busy]), max(turns, _changing(costs, mask, busy))
        if stops >= 0:
            found, stopping = max(found, steps + value[stops]), max(stopping, _changing(costs, mask, stops))
    turns = max(turns, steps + stopping)
    # by so much the last of several tiles may end before its turn does, times all tiles
    early = max(turns - steps, 2 * (turns - steps) - stopping)
    found = max(found, turns - -(-early // left) + _at_once(totals, places, costs, left))
    for port in range(len(totals.stops)):
        stops = totals.stops[port]
        if stops >= 0:
            for operand in range(len(places)):
                if mask >> operand & 1:
                    found = max(found, turns + costs[operand, 1, stops] - -(-early // places[operand, ALONE]))
    return int(found)


@lending
def _behind(later: np.ndarray, point: int, total: int, side: int) -> int:
    """What memories further out add; `side` is 1 if partial sums go on there, and 2 if either is possible."""
    if side == 2:
        return min(later[0, point, total], later[1, point, total])
    return later[side, point, total]


@lending
def _worth(objective: int, fj: int, cycles: int) -> float:
    if objective == ENERGY:
        return float(fj)
    if objective == LATENCY:
        return float(cycles)
    return float(fj) * float(cycles) ** objective


@lending
def _is_less(objective: int, fj: int, cycles: int, value: float, least_fj: int) -> bool:
    """Whether so many femtojoules and cycles are worth less than what is known, of as few cycles with less energy."""
    own = _worth(objective, fj, cycles)
    return own < value or (own == value and fj < least_fj)


@compiled
def least_together(
    moving: np.ndarray, steps: np.ndarray, totals: Totals, tables: np.ndarray, first: np.ndarray,
    size_bits: np.ndarray, fixed_fj: np.ndarray, objective: int,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """What each of many choices is worth at least, and femtojoules with so little latency, or at all for energy.

    Infinite and NEVER where nothing fits. `tables` are those of `even_tables`, and `first` says where those of a choice
    and an operand begin; `fixed_fj` is what every mapping of a choice costs beside these, and `size_bits` are of every
    memory but the outermost, from the innermost.
    """
    found, least_fj = np.full(len(steps), np.inf), np.full(len(steps), NEVER, np.int64)
    operands, levels, every = len(moving), len(size_bits), np.ones(moving.shape[1], np.bool_)
    write, places = operands - 1, np.empty((operands, 4), np.int64)
    costs = np.zeros((operands, 2, totals.many), np.int64)
    entries = np.empty((operands, levels), np.int64)
    for operand in range(operands):
        for level in range(levels):
            entries[operand, level] = count_of(totals.listed[operand, level])
    value, units = np.empty(totals.many, np.int64), np.empty(totals.many, np.int64)
    for number in range(len(steps)):
        axes = divisors(steps[number], every)
        staying, points = _staying(moving, steps[number]), 1
        own, all_alone, iterations = np.zeros((operands, len(axes)), np.int64), np.ones(operands, np.int64), 1
        places[:, SIZE] = 1
        for axis in range(len(axes) - 1, -1, -1):
            points *= axes[axis, 2]
            iterations *= axes[axis, 1] ** (axes[axis, 2] - 1)
            for operand in range(operands):
                if moving[operand, axes[axis, 0]]:
                    own[operand, axis] = places[operand, SIZE]
                    places[operand, SIZE] *= axes[axis, 2]
                else:
                    all_alone[operand] *= axes[axis, 1] ** (axes[axis, 2] - 1)
        units[:] = 0
        units[FJ] = fixed_fj[number]
        for operand in range(operands):
            places[operand, BEGIN] = first[number, operand] + HEAD + totals.many
            for total in range(totals.many):
                units[total] = min(NEVER, units[total] + tables[first[number, operand] + HEAD + total])
            for level in range(levels):
                places[operand, BEGIN] += (COSTS + KINDS * entries[operand, level]) * places[operand, SIZE]
        spread = int(tables[first[number, write] + SPREAD])
        starts = all_alone[write] > 1 or spread & 1 > 0
        later, powers = np.zeros((2, points, 1), np.int64), np.empty(len(axes), np.int64)
        known = 0  # totals to which memories further out add
        for level in range(levels - 1, -1, -1):
            many = totals.active[level]
            here = np.full((2, points if level > 0 else 0, many), NEVER, np.int64)
            powers[:], costs[:], places[:, AT], places[:, ALONE], left = 0, 0, 0, all_alone, iterations
            for operand in range(operands):
                places[operand, BEGIN] -= (COSTS + KINDS * entries[operand, level]) * places[operand, SIZE]
            for point in range(points):
                fitting = _fitting(tables, places, size_bits[level])
                if fitting > (1 if level == 0 and starts else 0):
                    goes_on = 1 if places[write, ALONE] > 1 else spread >> (level + 1) & 1
                    taken = (0, 1)
                    for operand in range(operands):
                        if level > 0:
                            taken = (0, entries[operand, level])
                        _take(tables, totals.listed[operand, level], places[operand], taken, costs[operand])
                    is_taken = level > 0
                    for mask in staying:
                        side = 2 if mask >> write & 1 else goes_on
                        if level > 0:
                            for total in range(many):
                                cost = _added(costs, mask, total)
                                if total < known:
                                    cost += _behind(later, point, total, side)
                                here[0, point, total] = min(here[0, point, total], cost)
                            continue
                        fj = units[FJ] + _added(costs, mask, FJ) + (_behind(later, point, FJ, side) if known else 0)
                        if fj >= NEVER or not _is_less(objective, fj, iterations, found[number], least_fj[number]):
                            continue
                        cycles = iterations
                        if objective != ENERGY:
                            if not is_taken:
                                for operand in range(operands):
                                    taken = (1, entries[operand, level])
                                    _take(tables, totals.listed[operand, level], places[operand], taken, costs[operand])
                                is_taken = True
                            for total in range(1, totals.many):
                                value[total] = units[total] + (_added(costs, mask, total) if total < many else 0)
                                value[total] += _behind(later, point, total, side) if total < known else 0
                            cycles = _cycles_of(value, totals, places, costs, mask, left, iterations)
                        if _is_less(objective, fj, cycles, found[number], least_fj[number]):
                            found[number], least_fj[number] = _worth(objective, fj, cycles), fj
                    if level > 0 and fitting == 2:
                        here[1, point] = here[0, point]
                for axis in range(len(axes) - 1, -1, -1):
                    powers[axis] += 1
                    back = axes[axis, 2] - 1 if powers[axis] == axes[axis, 2] else 0
                    left = left * axes[axis, 1] ** back if back > 0 else left // axes[axis, 1]
                    for operand in range(operands):
                        if own[operand, axis] > 0:
                            places[operand, AT] += -back * own[operand, axis] if back > 0 else own[operand, axis]
                        elif back > 0:
                            places[operand, ALONE] *= axes[axis, 1] ** back
                        else:
                            places[operand, ALONE] //= axes[axis, 1]
                    if back == 0:
                        break
                    powers[axis] = 0
            if level > 0:
                _least_outwards(here[0], axes, many)
                _least_outwards(here[1], axes, many)
                later, known = here, many
    return found, least_fj

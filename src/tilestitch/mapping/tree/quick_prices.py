"""What crossings and rooms cost for energy, compiled: one spatial choice after another asks for them.

The formulas and the order of the operations are those of `crossings.py` and `tables.py`, so that both give the same
numbers to the last bit; tests compare them.
"""

from math import gcd

import numpy as np

from tilestitch.base.jit import inner, lending
from tilestitch.mapping.tree.labels import NEVER
from tilestitch.mapping.tree.quick_arrays import LEAST, OWN, TOGETHER, Arrays, Placed
from tilestitch.mapping.tree.tables import FEMTO, MOST_FJ

TOO_MUCH = -1.0  # energies that are not compared


@lending
def axis_elements(terms: np.ndarray, tile: np.ndarray, over: np.ndarray, under: np.ndarray, share: np.ndarray) -> float:
    """Indices of one axis of an array that a tile touches with what is spread."""
    loop = terms[1]
    if terms[6] > 0:
        extent = 1.0 + terms[6] * (tile[loop] * share[loop] - 1)
        return extent + terms[7] * (tile[terms[3]] * share[terms[3]] - 1) if terms[0] == 2 else extent
    if terms[0] == 2:
        other = terms[3]
        a, b = tile[loop] * over[loop] / under[loop], tile[other] * over[other] / under[other]
        if terms[8] > 0:
            a, b = np.floor(a), np.floor(b)
        behind = float(a - terms[4])
        if terms[8] == 0:
            behind = max(0.0, behind)
        return min(float(terms[5]), float(a * b - max(0.0, b - terms[2]) * behind))
    return float(tile[loop] * share[loop]) if terms[0] == 1 else 1.0


@lending
def with_factor(whole: float, broken: float, factor: float) -> tuple[float, float]:
    """A product of whole and of other factors with one more; see `placed.product_of`."""
    return (whole * factor, broken) if factor == np.floor(factor) else (whole, broken * factor)


@lending
def product_of(factors: np.ndarray, count: int) -> float:
    """The product of the first so many factors; see `placed.product_of`."""
    whole, broken = 1.0, 1.0
    for at in range(count):
        whole, broken = with_factor(whole, broken, factors[at])
    return whole * broken


@lending
def held_elements(arrays: Arrays, placed: Placed, operand: int, fan_outs: int, tile: np.ndarray) -> float:
    """`crossings.elements` of one tile with what is spread over so many fan-outs."""
    whole, broken = 1.0, 1.0
    for axis in range(arrays.axes[operand]):
        here = axis_elements(
            arrays.terms[operand, axis],
            tile,
            placed.over[operand, fan_outs],
            placed.under[operand, fan_outs],
            placed.share[operand, fan_outs],
        )
        whole, broken = with_factor(whole, broken, here)
    return whole * broken


@lending
def _distinct(arrays: Arrays, operand: int, over: np.ndarray, under: np.ndarray) -> float:
    """`placed.distinct` of what is spread so far, as fractions by loop."""
    whole, broken = 1.0, 1.0
    for axis in range(arrays.axes[operand]):
        terms, loop = arrays.terms[operand, axis, 0], arrays.terms[operand, axis, 1]
        if terms == 2:
            other = arrays.terms[operand, axis, 3]
            a, b = over[loop] / under[loop], over[other] / under[other]
            if arrays.terms[operand, axis, 8] > 0:
                a, b = np.floor(a + 1e-9), np.floor(b + 1e-9)
            behind = float(a - arrays.terms[operand, axis, 4])
            if arrays.terms[operand, axis, 8] == 0:
                behind = max(0.0, behind)
            twice = max(0.0, b - arrays.terms[operand, axis, 2]) * behind
            here = min(float(arrays.terms[operand, axis, 5]), float(a * b - twice))
            whole, broken = with_factor(whole, broken, here)
        elif terms == 1:
            whole, broken = with_factor(whole, broken, float(over[loop] / under[loop]))
    return whole * broken


@lending
def _parts(arrays: Arrays, placed: Placed, operand: int, level: int, over: np.ndarray, under: np.ndarray) -> float:
    """Into how many parts a fan-out where so much is spread divides what crosses it: as `OperandOnTree.fan_out`."""
    as_zigzag = False
    for axis in range(arrays.axes[operand]):
        as_zigzag = as_zigzag or arrays.terms[operand, axis, 8] > 0
    if not as_zigzag:
        return _distinct(arrays, operand, over, under)
    inside = _distinct(arrays, operand, placed.over[operand, level], placed.under[operand, level])
    return _distinct(arrays, operand, placed.over[operand, level + 1], placed.under[operand, level + 1]) / inside


@inner
def no_choice(arrays: Arrays) -> Placed:
    """Room for one choice."""
    operands, levels = arrays.size_bits.shape
    loops = arrays.moving.shape[1]
    return Placed(
        np.ones((operands, levels + 2, loops), np.int64),
        np.ones((operands, levels + 2, loops), np.int64),
        np.ones((operands, levels + 2, loops), np.float64),
        np.ones((operands, levels + 1), np.float64),
        np.ones((operands, levels + 1), np.float64),
        np.zeros((operands, levels + 1), np.bool_),
        np.ones((operands, levels + 1), np.float64),
        np.ones((operands, levels + 2), np.float64),
        np.ones(loops, np.int64),
        1,
    )


@lending
def place(arrays: Arrays, placed: Placed, operand: int, over: np.ndarray, under: np.ndarray, doubt: float) -> None:
    """Enter what the fan-outs of one operand spread; `over` and `under` are [fan-out, loop].

    `doubt` is taken from a thousand times the memories in use before that is rounded.
    """
    levels, loops = arrays.levels[operand], over.shape[1]
    for level in range(levels + 1):
        for loop in range(loops):
            a, b = placed.over[operand, level, loop] * over[level, loop], placed.under[operand, level, loop]
            b *= under[level, loop]
            common = 1 if b == 1 else gcd(a, b)
            placed.over[operand, level + 1, loop], placed.under[operand, level + 1, loop] = a // common, b // common
            placed.share[operand, level + 1, loop] = a / b
        whole, broken = 1.0, 1.0
        for outer in range(level, levels + 1):
            for loop in range(loops):
                whole, broken = with_factor(whole, broken, over[outer, loop] / under[outer, loop])
        count = whole * broken
        placed.instances[operand, level] = np.rint(np.rint(count * 1000 - doubt) / 1000) if arrays.counts_copies else 1
    for level in range(levels):
        sharing, is_write = arrays.sharing[operand, level], operand == len(arrays.axes) - 1
        every, every_broken, apart, apart_broken = 1.0, 1.0, 1.0, 1.0
        for loop in range(loops):
            every, every_broken = with_factor(every, every_broken, over[level, loop] / under[level, loop])
            for outer in range(level, levels + 1):
                if outer > level or arrays.moving[operand, loop]:
                    apart, apart_broken = with_factor(apart, apart_broken, over[outer, loop] / under[outer, loop])
        every, apart = every * every_broken, apart * apart_broken
        placed.exchanging[operand, level] = placed.instances[operand, level]
        if is_write and sharing >= TOGETHER and arrays.counts_copies:
            placed.exchanging[operand, level] = np.rint(np.rint(apart * 1000 - doubt) / 1000)
        if sharing == OWN:
            placed.differing[operand, level] = np.rint(every)
        else:
            parts = _parts(arrays, placed, operand, level, over[level], under[level])
            placed.differing[operand, level] = np.rint(parts)
        placed.whole[operand, level] = held_elements(arrays, placed, operand, level + 1, placed.steps)
        is_spread = False
        for outer in range(level if is_write and sharing == OWN else level + 1, levels + 1):
            for loop in range(loops):
                if not arrays.moving[operand, loop] and over[outer, loop] > under[outer, loop]:
                    is_spread = True
        placed.outside[operand, level] = is_spread


@lending
def _accesses_pj(granule: int, width: int, access_pj: float, bits: float, times: int, copies: float) -> float:
    if granule == 0:
        return np.inf if bits > 0 else 0.0
    accesses = np.trunc(np.ceil(bits / granule) * (granule / width) * times * copies)
    return accesses * access_pj if accesses > 0 else 0.0


@lending
def ends_pj(
    ports: np.ndarray, energies: np.ndarray, amount: float, bits: int, times: int, back: int, copies: float
) -> float:
    """What goes through the two ports of one end of a crossing; `ports` are granule, width of both, in turn.

    Partial sums come `back` through the second one.
    """
    energy = _accesses_pj(ports[0], ports[1], energies[0], amount * bits, times, copies)
    if back > 0:
        energy += _accesses_pj(ports[2], ports[3], energies[1], amount * bits, back, copies)
    return energy


@lending
def _delivered_pj(
    arrays: Arrays, placed: Placed, operand: int, crossing: int, held: float, bits: int, times: int, back: int
) -> float:
    """What the networks of a crossing cost: `crossings.delivered_pj`."""
    per_bit, copies = arrays.network_pj[operand, crossing, 0], placed.exchanging[operand, crossing]
    adding = placed.instances[operand, crossing] - copies
    if (per_bit == 0 and adding == 0) or arrays.sharing[operand, crossing] == LEAST:
        return 0.0
    energy = held * bits * times * copies * per_bit
    if back > 0:
        energy += held * bits * back * copies * per_bit
    return energy + times * adding * held * (bits * (per_bit + arrays.network_pj[operand, crossing, 1]) + arrays.mac_pj)


@lending
def around(arrays: Arrays, placed: Placed, operand: int, crossing: int, held: float, shared: float) -> float:
    """Elements that the memory around exchanges at once for `held` in each inside, or `shared` in them together."""
    sharing, apart = arrays.sharing[operand, crossing], held * placed.differing[operand, crossing]
    if sharing < TOGETHER or operand == len(arrays.axes) - 1:
        return apart
    return (
        min(apart, shared) if sharing == LEAST else shared
    )  # a box around all may have gaps, so it is not always less


@lending
def crossing_fj(
    arrays: Arrays,
    placed: Placed,
    operand: int,
    crossing: int,
    held: float,
    shared: float,
    times: int,
    back: int,
    partial: bool,
) -> float:
    """What a crossing costs in whole femtojoules; NEVER where it cannot be, `TOO_MUCH` where it is not compared.

    `held` are elements in each memory inside, `shared` those that they hold together.
    """
    is_write = operand == len(arrays.axes) - 1
    bits = arrays.bits[operand, 1 if is_write and not partial else 0]
    energy = _delivered_pj(arrays, placed, operand, crossing, held, bits, times, back)
    for end in range(2 if crossing > 0 else 1):
        level = crossing - end
        copies = placed.instances[operand, level + 1]
        amount = held
        if end == 1:
            copies = placed.exchanging[operand, crossing]
        else:
            amount = around(arrays, placed, operand, crossing, held, shared)
        energy += ends_pj(
            arrays.ports[operand, level, end], arrays.access_pj[operand, level, end], amount, bits, times, back, copies
        )
    return in_femtojoules(energy)


@lending
def _returns(arrays: Arrays, placed: Placed, operand: int, tile: np.ndarray, times: int, partial: bool) -> int:
    """How often partial sums come back to be added to."""
    if not partial or arrays.reads_first_sums:
        return times if partial else 0
    first = 1
    for loop in range(len(tile)):
        if arrays.moving[operand, loop]:
            first *= placed.steps[loop] // tile[loop]
    return times - first


@lending
def room_of(bits: float, bank_bits: int, buffers: int, whole_bits: float) -> float:
    """The bits that a tile takes with its second buffer, and of whole banks."""
    if bank_bits > 0:
        return np.ceil(bits / bank_bits) * bank_bits * buffers
    return 2 * bits if buffers == 2 and bits < whole_bits else bits


@lending
def in_femtojoules(energy_pj: float) -> float:
    if not np.isfinite(energy_pj):
        return float(NEVER)
    return np.rint(energy_pj * FEMTO) if energy_pj * FEMTO <= MOST_FJ else TOO_MUCH


@lending
def is_within(arrays: Arrays, operand: int, level: int, tile: np.ndarray) -> bool:
    """Whether the user's limits allow a memory to hold a tile."""
    found = True
    if arrays.is_limited:
        for loop in range(len(tile)):
            limits = arrays.limits[operand, level, loop]
            found = found and limits[0] <= tile[loop] <= limits[1]
    return found


@lending
def is_reducing(arrays: Arrays, placed: Placed, operand: int, tile: np.ndarray) -> bool:
    """Whether loops that leave an operand alone go on outside a tile."""
    found = False
    for loop in range(len(tile)):
        found = found or (not arrays.moving[operand, loop] and tile[loop] < placed.steps[loop])
    return found


@lending
def tile_at(
    arrays: Arrays, placed: Placed, operand: int, level: int, tile: np.ndarray, side: int, final_sums: bool
) -> tuple[float, float, bool, bool]:
    """A tile in a memory: its elements, the bits that it takes, whether it fits, and whether partial sums go on.

    `side` is 1 if partial sums arrive. The outermost memory holds nothing but everything.
    """
    is_write, is_top = operand == len(arrays.axes) - 1, level == arrays.levels[operand] - 1
    elements = held_elements(arrays, placed, operand, level + 1, tile)
    partial = False
    if is_write and not is_top:
        partial = placed.outside[operand, level + 1] or is_reducing(arrays, placed, operand, tile)
    bits, all_bits = arrays.bits[operand, 0], arrays.bits[operand, 0]
    if is_write and final_sums:
        bits = arrays.bits[operand, 0 if partial else 1]
        all_bits = arrays.bits[operand, 0 if not is_top and placed.outside[operand, level + 1] else 1]
    elif is_write and side == 0:
        bits = all_bits = arrays.bits[operand, 1]
    whole_bits = placed.whole[operand, level] * all_bits
    room = room_of(elements * bits, arrays.bank_bits[operand, level], arrays.buffers[operand, level], whole_bits)
    fits = room <= arrays.size_bits[operand, level] * (1 + 1e-12) and is_within(arrays, operand, level, tile)
    if is_top:
        for loop in range(len(tile)):
            fits = fits and tile[loop] == placed.steps[loop]
    return elements, room, fits, partial


@lending
def cut_of(
    arrays: Arrays, placed: Placed, operand: int, cut: int, tile: np.ndarray, side: int, final_sums: bool
) -> tuple[float, float, bool]:
    """What a cut at a tile costs, the bits that it takes, and whether partial sums go on; `side` 1 if some arrive."""
    level = cut if operand == len(arrays.axes) - 1 else cut - 1
    iterations, moved = 1, False
    for loop in range(len(tile)):
        iterations *= tile[loop]
        moved = moved or (arrays.moving[operand, loop] and tile[loop] > 1)
    times = placed.total // iterations
    if level < 0:
        if moved or (not arrays.has_latches and iterations > 1):
            return float(NEVER), 0.0, False
        shared = np.rint(held_elements(arrays, placed, operand, 1, tile))
        return crossing_fj(arrays, placed, operand, 0, 1.0, shared, times, 0, False), 0.0, False
    elements, room, fits, partial = tile_at(arrays, placed, operand, level, tile, side, final_sums)
    if not fits:
        return float(NEVER), room, partial
    if level == arrays.levels[operand] - 1:
        return 0.0, room, partial
    shared = 0.0  # only asked for where a network brings together what neighbours need
    if arrays.sharing[operand, level + 1] >= TOGETHER:
        shared = np.rint(held_elements(arrays, placed, operand, level + 2, tile))
    back = _returns(arrays, placed, operand, tile, times, partial)
    cost = crossing_fj(arrays, placed, operand, level + 1, np.rint(elements), shared, times, back, partial)
    return cost, room, partial


@lending
def from_units(arrays: Arrays, placed: Placed) -> tuple[bool, float]:
    """Whether partial sums come from the units, and what results cost there at every step."""
    write = len(arrays.axes) - 1
    partial, first = placed.outside[write, 0], 1
    for loop in range(len(placed.steps)):
        partial = partial or (not arrays.moving[write, loop] and placed.steps[loop] > 1)
        first *= placed.steps[loop] if arrays.moving[write, loop] else 1
    back = placed.total if partial or not arrays.has_latches else 0
    if arrays.has_latches and partial and not arrays.reads_first_sums:
        back = placed.total - first
    return partial, crossing_fj(arrays, placed, write, 0, 1.0, 1.0, placed.total, back, partial)

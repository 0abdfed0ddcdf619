"""What crossings and rooms cost for energy, compiled: one spatial choice after another asks for them.

The formulas and the order of the operations are those of `crossings.py` and `tables.py`, so that both give the same
numbers to the last bit; tests compare them. What does not depend on what is spread is made once, as `Arrays`.
"""

from collections.abc import Sequence
from math import gcd
from typing import NamedTuple

import numpy as np

from tilestitch.base.jit import compiled, inner, lending
from tilestitch.hardware.tree import Flow, Network
from tilestitch.mapping.tree.crossings import OperandOnTree
from tilestitch.mapping.tree.labels import NEVER
from tilestitch.mapping.tree.tables import FEMTO, MOST_FJ

# of what is read and of results: what goes through a memory towards the units, and outwards; partial sums come back
READ_FLOWS = ((Flow.FEED,), (Flow.FILL,))
RESULT_FLOWS = ((Flow.COLLECT, Flow.FEED), (Flow.DRAIN, Flow.FILL))
TOO_MUCH = -1.0
# What a fan-out makes of what crosses it: what differs by the loops that are spread; every unit's own; what units need
# together, or sums that they add from neighbour to neighbour; the least of these, for bounds where axes differ.
DIFFERING, OWN, TOGETHER, LEAST = range(4)


class Arrays(NamedTuple):
    """The operands that move anything and their memories, as far as nothing depends on what is spread; O by number.

    The last one is the result.
    """

    axes: np.ndarray  # [O] how many axes it has
    terms: np.ndarray  # [O, axis] how many terms; first loop, its step; second loop, its step; size; steps of a box
    moving: np.ndarray  # [O, loop] whether a loop moves the operand
    bits: np.ndarray  # [O, complete]: of an element, and of a complete sum
    levels: np.ndarray  # [O]
    ports: np.ndarray  # [O, level, side, 4] towards units and outwards: bits of the granule (0: no port) and the width
    access_pj: np.ndarray  # [O, level, side, 2] of an access of the whole width, there and, of partial sums, back
    size_bits: np.ndarray  # [O, level]
    buffers: np.ndarray
    bank_bits: np.ndarray
    limits: np.ndarray  # [O, level, loop, 2] the least and most steps of a loop inside
    is_limited: bool
    sharing: np.ndarray  # [O, crossing]
    network_pj: np.ndarray  # [O, crossing, 2] of a bit that is delivered, and of one that is added at a neighbour's
    mac_pj: float
    has_latches: bool
    reads_first_sums: bool
    counts_copies: bool  # whether what each of several memories moves adds up, as energies do and cycles do not


class Placed(NamedTuple):
    """One spatial choice: for every operand what its fan-outs come to."""

    over: np.ndarray  # [O, fan-outs, loop] how far a loop is spread over so many inner fan-outs, as a fraction
    under: np.ndarray
    share: np.ndarray  # the same as a number
    differing: np.ndarray  # [O, crossing]
    exchanging: np.ndarray  # [O, crossing] memories or units inside that what is around exchanges with
    outside: np.ndarray  # [O, crossing] whether what leaves the operand alone is spread further out
    whole: np.ndarray  # [O, level] elements of all steps
    instances: np.ndarray  # [O, level + 1] memories in use; the first is that of the units
    steps: np.ndarray  # [loop]
    total: int


def sharing_of(operand: OperandOnTree, crossing: int) -> int | None:
    """What a fan-out makes of what crosses it, if that is alike along all of its axes."""
    found = _sharings(operand, crossing)
    return found.pop() if len(found) == 1 else None


def _sharings(operand: OperandOnTree, crossing: int) -> set[int]:
    home = operand.placed.homes[operand.number]
    names = operand.placed.tree.fan_outs(home)[crossing]
    networks = [axis.network(home) for axis in operand.placed.tree.axes if axis.name in names]
    return {_sharing_along(one, is_write=operand.is_write) for one in networks} or {DIFFERING}


def _sharing_along(network: Network | None, *, is_write: bool) -> int:
    if network is None:
        return DIFFERING
    if network.passes_sums if is_write else network.shares_windows:
        return TOGETHER
    return DIFFERING if (network.reduction if is_write else network.multicast) else OWN


def arrays_of(operands: Sequence[OperandOnTree]) -> Arrays:
    """What the compiled functions ask about operands that move anything."""
    count, loops = len(operands), len(operands[0].placed.nest.loops)
    levels = max(len(one.memories) for one in operands)
    tree = operands[0].placed.tree
    found = Arrays(
        np.array([len(one.array.axes) for one in operands], np.int64),
        np.zeros((count, max(1, *(len(one.array.axes) for one in operands)), 8), np.int64),
        np.array([[loop in one.array.indexed_by for loop in range(loops)] for one in operands], np.bool_),
        np.array(
            [
                [one.array.element_bits, one.placed.final_bits if one.is_write else one.array.element_bits]
                for one in operands
            ],
            np.int64,
        ),
        np.array([len(one.memories) for one in operands], np.int64),
        np.zeros((count, levels, 2, 4), np.int64),
        np.zeros((count, levels, 2, 2), np.float64),
        np.zeros((count, levels), np.int64),
        np.ones((count, levels), np.int64),
        np.zeros((count, levels), np.int64),
        np.tile(np.array([1, 2**62], np.int64), (count, levels, loops, 1)),
        bool(operands[0].placed.limits),
        np.zeros((count, levels), np.int64),
        np.zeros((count, levels, 2), np.float64),
        tree.mac_pj,
        tree.has_latches,
        tree.reads_first_sums,
        True,
    )
    for number, one in enumerate(operands):
        home = one.placed.homes[one.number]
        for axis, (given, size) in enumerate(zip(one.array.axes, one.array.shape, strict=True)):
            common = gcd(*(step for _, step in given))
            flat = (
                [part for loop, step in given for part in (loop, step // common)]
                if len(given) == 2
                else [given[0][0], 1]
                if given
                else []
            )
            found.terms[number, axis, 0], found.terms[number, axis, 5] = len(given), size
            found.terms[number, axis, 1 : 1 + len(flat)] = flat
            if tree.moves_boxes:
                found.terms[number, axis, 6 : 6 + len(given)] = [abs(step) for _, step in given]
        for level, memory in enumerate(one.memories):
            bits, limits = one.placed.limits_of(one.number, memory)
            found.size_bits[number, level], found.buffers[number, level] = bits, memory.buffers
            found.bank_bits[number, level] = memory.bank_bits
            kinds = _sharings(one, level)
            found.sharing[number, level] = max(kinds) if len(kinds) == 1 else LEAST if TOGETHER in kinds else DIFFERING
            per_bit = sum(network.pj_per_bit for _, network in one.networks(level))
            found.network_pj[number, level] = per_bit, one.addition_pj(level) if one.is_write else 0.0
            for loop, least, most in limits:
                here = found.limits[number, level, loop]
                here[0], here[1] = max(here[0], least), min(here[1], most)
            for side, flows in enumerate(RESULT_FLOWS if one.is_write else READ_FLOWS):
                for at, flow in enumerate(flows):
                    port = memory.port(home, flow)
                    found.access_pj[number, level, side, at] = memory.read_pj if flow.is_read else memory.write_pj
                    if port is not None:
                        found.ports[number, level, side, 2 * at : 2 * at + 2] = port.granule_bits, port.width_bits
    return found


def relaxed(arrays: Arrays, *, final_sums: bool) -> Arrays:
    """The operands where completing sums is never worse, so that doing it at once is best."""
    bits = arrays.bits.copy()
    bits[-1, 1] = min(bits[-1])
    buffers = arrays.buffers.copy()
    if final_sums:
        buffers[-1] = 1
    return arrays._replace(bits=bits, buffers=buffers)


@lending
def _axis_elements(
    terms: np.ndarray, tile: np.ndarray, over: np.ndarray, under: np.ndarray, share: np.ndarray
) -> float:
    """Indices of one axis of an array that a tile touches with what is spread."""
    loop = terms[1]
    if terms[6] > 0:
        extent = 1.0 + terms[6] * (tile[loop] * share[loop] - 1)
        return extent + terms[7] * (tile[terms[3]] * share[terms[3]] - 1) if terms[0] == 2 else extent
    if terms[0] == 2:
        other = terms[3]
        a, b = tile[loop] * over[loop], tile[other] * over[other]
        if under[loop] > 1:
            a //= under[loop]
        if under[other] > 1:
            b //= under[other]
        return float(min(terms[5], a * b - max(0, b - terms[2]) * (a - terms[4])))
    return float(tile[loop] * share[loop]) if terms[0] == 1 else 1.0


@lending
def _elements(arrays: Arrays, placed: Placed, operand: int, fan_outs: int, tile: np.ndarray) -> float:
    """`crossings.elements` of one tile with what is spread over so many fan-outs."""
    count = 1.0
    for axis in range(arrays.axes[operand]):
        count *= _axis_elements(
            arrays.terms[operand, axis],
            tile,
            placed.over[operand, fan_outs],
            placed.under[operand, fan_outs],
            placed.share[operand, fan_outs],
        )
    return count


@lending
def _distinct(arrays: Arrays, placed: Placed, operand: int, fan_outs: int) -> float:
    """`placed.distinct` of what is spread over so many fan-outs."""
    count = 1.0
    for axis in range(arrays.axes[operand]):
        terms, loop = arrays.terms[operand, axis, 0], arrays.terms[operand, axis, 1]
        if terms == 2:
            other = arrays.terms[operand, axis, 3]
            a = int(placed.share[operand, fan_outs, loop] + 1e-9)
            b = int(placed.share[operand, fan_outs, other] + 1e-9)
            twice = max(0, b - arrays.terms[operand, axis, 2]) * (a - arrays.terms[operand, axis, 4])
            count *= min(arrays.terms[operand, axis, 5], a * b - twice)
        elif terms == 1:
            count *= placed.share[operand, fan_outs, loop]
    return count


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
        count = 1.0
        for outer in range(level, levels + 1):
            for loop in range(loops):
                count *= over[outer, loop] / under[outer, loop]
        placed.instances[operand, level] = np.rint(np.rint(count * 1000 - doubt) / 1000) if arrays.counts_copies else 1
    for level in range(levels):
        sharing, is_write = arrays.sharing[operand, level], operand == len(arrays.axes) - 1
        every, apart = 1.0, 1.0
        for loop in range(loops):
            every *= over[level, loop] / under[level, loop]
            for outer in range(level, levels + 1):
                if outer > level or arrays.moving[operand, loop]:
                    apart *= over[outer, loop] / under[outer, loop]
        placed.exchanging[operand, level] = placed.instances[operand, level]
        if is_write and sharing >= TOGETHER and arrays.counts_copies:
            placed.exchanging[operand, level] = np.rint(np.rint(apart * 1000 - doubt) / 1000)
        if sharing == OWN:
            placed.differing[operand, level] = np.rint(every)
        else:
            here = _distinct(arrays, placed, operand, level + 1)
            placed.differing[operand, level] = np.rint(here / _distinct(arrays, placed, operand, level))
        placed.whole[operand, level] = _elements(arrays, placed, operand, level + 1, placed.steps)
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
def _ends_pj(
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
    is_together = arrays.sharing[operand, crossing] >= TOGETHER and not is_write
    energy = _delivered_pj(arrays, placed, operand, crossing, held, bits, times, back)
    for end in range(2 if crossing > 0 else 1):
        level = crossing - end
        copies = placed.instances[operand, level + 1]
        amount = held
        if end == 1:
            copies = placed.exchanging[operand, crossing]
        elif is_together:
            amount = shared
        else:
            amount = held * placed.differing[operand, crossing]
        energy += _ends_pj(
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
def _room(bits: float, bank_bits: int, buffers: int, whole_bits: float) -> float:
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
def cut_of(
    arrays: Arrays, placed: Placed, operand: int, cut: int, tile: np.ndarray, side: int, final_sums: bool
) -> tuple[float, float, bool]:
    """What a cut at a tile costs, the bits that it takes, and whether partial sums go on; `side` 1 if some arrive."""
    is_write = operand == len(arrays.axes) - 1
    level = cut if is_write else cut - 1
    iterations, moved, is_last = 1, False, True
    for loop in range(len(tile)):
        iterations *= tile[loop]
        moved = moved or (arrays.moving[operand, loop] and tile[loop] > 1)
        is_last = is_last and tile[loop] == placed.steps[loop]
    times = placed.total // iterations
    if level < 0:
        if moved or (not arrays.has_latches and iterations > 1):
            return float(NEVER), 0.0, False
        shared = np.rint(_elements(arrays, placed, operand, 1, tile))
        return crossing_fj(arrays, placed, operand, 0, 1.0, shared, times, 0, False), 0.0, False
    elements = _elements(arrays, placed, operand, level + 1, tile)
    is_top = level == arrays.levels[operand] - 1
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
    room = _room(elements * bits, arrays.bank_bits[operand, level], arrays.buffers[operand, level], whole_bits)
    if room > arrays.size_bits[operand, level] * (1 + 1e-12) or not is_within(arrays, operand, level, tile):
        return float(NEVER), room, partial
    if is_top:
        return (0.0 if is_last else float(NEVER)), room, partial
    shared = np.rint(_elements(arrays, placed, operand, level + 2, tile))
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
        touched[0, axis] = _axis_elements(arrays.terms[operand, axis], tile, over, under, share)
        touched[1, axis] = _axis_elements(arrays.terms[operand, axis], tile, *together)
    times = 1
    for axis in range(len(axes)):
        times *= axes[axis, 1] ** (axes[axis, 2] - 1)
    for point in range(points):
        elements = 1.0
        for axis in range(array_axes):
            elements *= touched[0, axis]
        cost = 0.0
        if elements * min(rooms) <= size_bits:
            # what leaves the operand alone lies inside: only sums that others add to come back, and all are the first
            back = times if partial and arrays.reads_first_sums else 0
            held = np.rint(elements)
            if is_plain:
                energy = _ends_pj(above[0], above_pj[0], held * differing, cost_bits, times, back, outer_copies)
                energy += _ends_pj(ports[1], energies[1], held, cost_bits, times, back, inner_copies)
                cost = in_femtojoules(energy)
            else:
                shared = 1.0
                for axis in range(array_axes):
                    shared *= touched[1, axis]
                cost = crossing_fj(arrays, placed, operand, level + 1, held, np.rint(shared), times, back, partial)
            if cost == TOO_MUCH:
                return False
        for side in range(2 if is_write else 1):
            needed = _room(elements * rooms[side], bank_bits, buffers, whole * last_bits[side])
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
                    touched[0, own] = _axis_elements(terms, tile, over, under, share)
                    if not is_plain:
                        touched[1, own] = _axis_elements(terms, tile, *together)
            if powers[axis] > 0:
                break
    _least_outwards(found[cut, 0], axes)
    if is_write:
        _least_outwards(found[cut, 1], axes)
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
                room = _room(bits, arrays.bank_bits[operand, level], arrays.buffers[operand, level], bits)
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
        shared = np.rint(_elements(arrays, placed, operand, 1, np.ones(len(placed.steps), np.int64)))
        cost = crossing_fj(arrays, placed, operand, 0, 1.0, shared, times, 0, False)
        if cost == TOO_MUCH:
            found[0, 0, 0] = -1
        else:
            found[0, :, 0] = min(int(cost) + found[1, 0, 0], NEVER)
    return found


@lending
def _least_outwards(here: np.ndarray, axes: np.ndarray) -> None:
    """Of every point the least of it and all larger ones."""
    stride = len(here)
    for axis in range(len(axes)):
        block, stride = stride, stride // axes[axis, 2]
        for start in range(0, len(here), block):
            for point in range(start + block - stride - 1, start - 1, -1):
                here[point] = min(here[point], here[point + stride])


@inner
def _placed_alone(
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
        placed = _placed_alone(arrays, empty, write, over[number], under[number], steps[number])
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
        placed = _placed_alone(arrays, empty, operand, over[number], under[number], steps[number])
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
    shared = np.rint(_elements(arrays, placed, operand, 1, np.ones(len(common), np.int64)))
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
        placed = _placed_alone(arrays, empty, operand, over[number], under[number], steps[number])
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
        placed = _placed_alone(arrays, empty, operand, over[number], under[number], steps[number])
        least = least_from(arrays, placed, operand, final_sums).reshape(-1)
        first[number + 1] = first[number] + len(least)
        while first[number + 1] > len(found):
            found = np.concatenate((found, np.empty(len(found), np.int64)))
        found[first[number] : first[number + 1]] = least
        if least[0] < 0:
            found[0] = -1
            return found[:1], first
    return found[: first[len(over)]], first

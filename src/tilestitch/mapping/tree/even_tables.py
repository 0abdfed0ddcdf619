"""What the operands of a tree that stores evenly cost at the place of each memory, compiled: tables for bounds.

Costs are totals of several kinds: femtojoules, and cycles of every port.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tilestitch.base.jit import compiled, inner, lending
from tilestitch.mapping.tree.labels import NEVER
from tilestitch.mapping.tree.port_uses import PortUses, occupy
from tilestitch.mapping.tree.quick_arrays import Arrays, Placed
from tilestitch.mapping.tree.quick_bounds import divisors, placed_alone
from tilestitch.mapping.tree.quick_prices import (
    TOO_MUCH,
    crossing_fj,
    from_units,
    held_elements,
    is_within,
    no_choice,
    room_of,
)

MOST = 2**59  # femtojoules or cycles of one operand in one memory; more count as so many
# What one operand costs at the place of one memory, by the tile of the loops that move it: its bits, if complete sums
# arrive or partial; then of each of its totals what it adds if all other loops lie inside; if not, for each step of
# those, and again for each but the first
ROOM, ROOM_OF_PARTIAL, COSTS = range(3)
INSIDE, EACH, AGAIN, KINDS = range(4)
SPREAD = 0  # first of all where reductions are spread outside: bit 0 of the units, 1 of the innermost memory, and so on
HEAD = 1  # then what is added at the units, of every total
FJ = 0  # the total of energy, to which every crossing adds


class Totals(NamedTuple):
    """What is added up beside energy: cycles of a port, and those of it for which the units stop.

    Those to which memories further out add come first.
    """

    listed: np.ndarray  # [operand, level, *] the totals to which a crossing into a memory adds, energy first; -1 behind
    busy: np.ndarray  # [port] which total its cycles are, or -1
    stops: np.ndarray  # [port] likewise of the crossings that stop the units
    active: np.ndarray  # [level] to how many totals the crossings into this memory and those further out add
    many: int


def only_energy(arrays: Arrays) -> Totals:
    """No other total."""
    operands, levels = arrays.size_bits.shape
    nothing = np.full(1, -1, np.int64)
    return Totals(np.full((operands, levels - 1, 1), FJ, np.int64), nothing, nothing, np.ones(levels - 1, np.int64), 1)


def totals_of(uses: PortUses) -> Totals:
    """All totals to which any crossing adds."""
    operands, levels = uses.hides.shape
    added = [[_ports(uses, operand, level) for level in range(levels - 1)] for operand in range(operands)]
    at_units = (int(port) for port in (*uses.number[:, 0, 0].flat, *uses.network[:, 0].flat) if port >= 0)
    outermost = {(False, port): -1 for port in at_units}  # of each total the memory furthest out that adds to it
    for level in range(levels - 1):
        for operand in range(operands):
            for port in added[operand][level]:
                outermost[False, port] = level
                if not uses.hides[operand, level + 1]:
                    outermost[True, port] = level
    keys = sorted(outermost, key=lambda key: (-outermost[key], key))
    busy, stops = (np.full(max(1, uses.many), -1, np.int64) for _ in range(2))
    for number, (stopping, port) in enumerate(keys, FJ + 1):
        (stops if stopping else busy)[port] = number
    listed = np.full((operands, levels - 1, len(keys) + 1), -1, np.int64)
    for operand in range(operands):
        for level in range(levels - 1):
            ports = added[operand][level]
            own = [busy[port] for port in ports]
            own += [] if uses.hides[operand, level + 1] else [stops[port] for port in ports]
            listed[operand, level, : len(own) + 1] = [FJ, *sorted(own)]
    active = [1 + sum(at >= level for at in outermost.values()) for level in range(levels - 1)]
    return Totals(listed, busy, stops, np.array(active, np.int64), len(keys) + 1)


def _ports(uses: PortUses, operand: int, level: int) -> Sequence[int]:
    """The ports of the crossing into a memory."""
    crossing = level + 1
    ends = uses.number[operand, crossing, 0], uses.number[operand, level, 1]
    found = np.concatenate([*ends, uses.network[operand, crossing], uses.engine[operand, crossing]])
    return sorted({int(port) for port in found if port >= 0})


@compiled
def even_tables(
    arrays: Arrays, uses: PortUses, totals: Totals, operand: int,
    spread: tuple[np.ndarray, np.ndarray, np.ndarray], final_sums: bool,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """The tables of one operand for many choices, one after another, and where each begins; [0] is -1 if too much.

    `spread` are numerators and denominators [choice, fan-out, loop] and the steps.
    """
    over, under, steps = spread
    found, first = np.empty(4096, np.int64), np.zeros(len(over) + 1, np.int64)
    empty, last, is_write = no_choice(arrays), arrays.levels[operand] - 1, operand == len(arrays.axes) - 1
    occupied, rows = np.zeros(max(1, len(uses.bits))), np.empty(last, np.int64)
    for level in range(last):
        rows[level] = COSTS + KINDS * count_of(totals.listed[operand, level])
    for number in range(len(over)):
        placed = placed_alone(arrays, empty, operand, over[number], under[number], steps[number])
        axes = divisors(placed.steps, arrays.moving[operand])
        points = 1
        for axis in range(len(axes)):
            points *= axes[axis, 2]
        first[number + 1] = first[number] + HEAD + totals.many + rows.sum() * points
        while first[number + 1] > len(found):
            found = np.concatenate((found, np.empty(len(found), np.int64)))
        here = found[first[number] : first[number + 1]]
        here[SPREAD] = 0
        for crossing in range(last + 1):
            here[SPREAD] |= (1 if is_write and placed.outside[operand, crossing] else 0) << crossing
        is_compared = _at_units(arrays, uses, totals, placed, operand, occupied, here[HEAD : HEAD + totals.many])
        begin = HEAD + totals.many
        for level in range(last):
            end = begin + rows[level] * points
            part = here[begin:end].reshape(rows[level], points)
            cut = (operand, level)
            is_compared = is_compared and _fill(arrays, uses, totals, placed, cut, axes, final_sums, occupied, part)
            begin = end
        if not is_compared:
            found[0] = -1
            return found[:1], first
    return found[: first[len(over)]], first


@lending
def count_of(listed: np.ndarray) -> int:
    """How many totals are listed."""
    found = 0
    for one in listed:
        found += 1 if one >= 0 else 0
    return found


@lending
def _cycles(occupied: np.ndarray, totals: Totals, wanted: int) -> float:
    """Of one crossing, once, the cycles of a total."""
    for port in range(len(occupied)):
        if wanted in (totals.busy[port], totals.stops[port]):
            return occupied[port]
    return 0.0


@inner
def _at_units(
    arrays: Arrays, uses: PortUses, totals: Totals, placed: Placed, operand: int, occupied: np.ndarray,
    found: np.ndarray,
) -> bool:  # fmt: skip
    """What the units add at least, but for what results cost there; false if too much."""
    times, one, is_write = 1, np.ones(len(placed.steps), np.int64), operand == len(arrays.axes) - 1
    found[:] = 0
    for loop in range(len(placed.steps)):
        times *= placed.steps[loop] if arrays.moving[operand, loop] or is_write or not arrays.has_latches else 1
    if not is_write:
        shared = np.rint(held_elements(arrays, placed, operand, 1, one))
        found[FJ] = int(crossing_fj(arrays, placed, operand, 0, 1.0, shared, times, 0, False))
    if totals.many > 1:
        partial = is_write and from_units(arrays, placed)[0]
        occupy(arrays, uses, placed, (operand, 0), one, 1.0, partial, occupied)
        for port in range(len(occupied)):
            if totals.busy[port] >= 0:
                found[totals.busy[port]] = int(min(float(MOST), occupied[port] * times))
    return found[FJ] >= 0


@inner
def _fill(
    arrays: Arrays, uses: PortUses, totals: Totals, placed: Placed, cut: tuple[int, int], axes: np.ndarray,
    final_sums: bool, occupied: np.ndarray, found: np.ndarray,
) -> bool:  # fmt: skip
    """The table of one memory of an operand; false where it is too much to compare."""
    operand, level = cut
    is_write = operand == len(arrays.axes) - 1
    partial = is_write and placed.outside[operand, level + 1]
    bits = arrays.bits[operand, 1 if is_write else 0], arrays.bits[operand, 1 if is_write and final_sums else 0]
    tile, powers = placed.steps.copy(), np.zeros(len(axes), np.int64)
    listed = totals.listed[operand, level]
    many, times = count_of(listed), 1
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
        found[COSTS + INSIDE, point] = NEVER
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
            found[COSTS + INSIDE, point] = int(inside)
            found[COSTS + EACH, point], found[COSTS + AGAIN, point] = int(each), int(again)
        if fits and many > 1:
            for at_once in range(2):
                is_partial = is_write and (at_once == 0 or partial)
                occupy(arrays, uses, placed, (operand, level + 1), tile, elements, is_partial, occupied)
                for at in range(1, many):
                    row = COSTS + KINDS * at
                    cycles = int(min(float(MOST), _cycles(occupied, totals, listed[at]) * times))
                    found[row + (INSIDE if at_once == 1 else EACH), point] = cycles
                    found[row + AGAIN, point] = 0
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

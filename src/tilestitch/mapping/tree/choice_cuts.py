"""What the cuts of one spatial choice cost and hold, compiled and in whole numbers: for the checker's walks.

Tiles are tuples of divisors, rooms parts of a bit. Only the price of a crossing is the search's.
"""

from math import gcd
from typing import NamedTuple

import numpy as np

from tilestitch.base.jit import inner, lending
from tilestitch.mapping.tree.outside_in import NEVER
from tilestitch.mapping.tree.quick_arrays import OWN, Arrays, Placed
from tilestitch.mapping.tree.quick_prices import TOO_MUCH, crossing_fj, place

_MOST_ROOM = 2.0**58


class Task(NamedTuple):
    """What all choices have in common."""

    arrays: Arrays  # the operands as the price knows them
    relaxed: Arrays  # the same, where completing sums early is never worse: potentials are made of these
    first: np.ndarray  # by operand: its first cut, which is the innermost; one more at the end
    memory: np.ndarray  # by cut: the memory that it lies in; -1 at the units
    sharing: np.ndarray  # by memory: how many operands have a cut there
    size: np.ndarray  # by memory: its bits
    final_sums: bool


class Choice(NamedTuple):
    """One choice: what is spread, the divisors of what is left, and rooms in parts of a bit."""

    placed: Placed  # for prices
    over: np.ndarray  # [operand, fan-outs, loop] how far a loop is spread over so many inner fan-outs
    under: np.ndarray
    outside: np.ndarray  # [operand, fan-out] whether what leaves the operand alone is spread there or further out
    divisors: np.ndarray  # [loop, number]
    counts: np.ndarray  # by loop: its divisors
    primes: np.ndarray  # rows of loop and prime
    above: np.ndarray  # [prime, number of a divisor] that of the one so much larger, or -1
    units: np.ndarray  # [operand, loop] what a divisor's number counts in the number of a tile; the last row: of all
    sizes: np.ndarray  # by operand: its tiles; the last: all
    scale: np.ndarray  # by memory: parts of a bit
    whole: np.ndarray  # [operand, level] elements of all steps
    per_part: np.ndarray  # [operand, level] parts of a bit in each part of an element
    room: np.ndarray  # [operand, level] what it may take, in parts of a bit
    bank: np.ndarray  # [operand, level] what a bank has, of which it takes whole ones; 0 where it takes any bits
    stays: np.ndarray  # by operand: steps of the loops that leave it alone
    is_comparable: bool


@inner
def _divisors(steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    counts = np.zeros(len(steps), np.int64)
    found = np.ones((len(steps), 512), np.int64)
    for loop in range(len(steps)):
        large = np.empty(512, np.int64)
        many, number, one = 0, int(steps[loop]), 1
        while one * one <= number:
            if number % one == 0:
                found[loop, counts[loop]] = one
                counts[loop] += 1
                if one * one < number:
                    large[many] = number // one
                    many += 1
            one += 1
        for at in range(many):
            found[loop, counts[loop]] = large[many - 1 - at]
            counts[loop] += 1
    return found, counts


@inner
def _primes(divisors: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of loop and prime, and of each divisor the number of the one that is a prime larger."""
    rows = np.empty((256, 2), np.int64)
    many = 0
    for loop in range(len(counts)):
        for at in range(1, counts[loop]):
            is_prime = True
            for before in range(1, at):
                is_prime = is_prime and divisors[loop, at] % divisors[loop, before] > 0
            if is_prime:
                rows[many, 0], rows[many, 1] = loop, divisors[loop, at]
                many += 1
    above = np.full((many, 512), -1, np.int64)
    for row in range(many):
        loop = rows[row, 0]
        for at in range(counts[loop]):
            for other in range(at + 1, counts[loop]):
                if divisors[loop, other] == divisors[loop, at] * rows[row, 1]:
                    above[row, at] = other
    return rows[:many], above


@inner
def taken_choice(task: Task, empty: Placed, over: np.ndarray, under: np.ndarray, steps: np.ndarray) -> Choice:
    """Take one choice; `over` and `under` are [operand, fan-out, loop]."""
    arrays = task.arrays
    operands, loops = arrays.moving.shape
    levels = over.shape[1]
    placed = Placed(
        empty.over, empty.under, empty.share, empty.differing, empty.exchanging, empty.outside, empty.whole,
        empty.instances, steps, int(np.prod(steps)),
    )  # fmt: skip
    all_over = np.ones((operands, levels + 1, loops), np.int64)
    all_under = np.ones((operands, levels + 1, loops), np.int64)
    outside = np.zeros((operands, levels + 1), np.bool_)
    divisors, counts = _divisors(steps)
    primes, above = _primes(divisors, counts)
    scale = np.ones(len(task.sharing), np.int64)
    units, sizes = np.zeros((operands + 1, loops), np.int64), np.ones(operands + 1, np.int64)
    for operand in range(operands + 1):
        for loop in range(loops - 1, -1, -1):
            if operand == operands or arrays.moving[operand, loop]:
                units[operand, loop] = sizes[operand]
                sizes[operand] *= counts[loop]
    for operand in range(operands):
        place(arrays, placed, operand, over[operand], under[operand], 0.0)
        for level in range(levels):
            for loop in range(loops):
                a = all_over[operand, level, loop] * over[operand, level, loop]
                b = all_under[operand, level, loop] * under[operand, level, loop]
                common = gcd(a, b)
                all_over[operand, level + 1, loop], all_under[operand, level + 1, loop] = a // common, b // common
        for level in range(levels - 1, -1, -1):
            outside[operand, level] = outside[operand, level + 1]
            for loop in range(loops):
                if not arrays.moving[operand, loop] and over[operand, level, loop] != under[operand, level, loop]:
                    outside[operand, level] = True
        start = 0 if operand == operands - 1 else 1
        for cut in range(start, task.first[operand + 1] - task.first[operand]):
            memory = task.memory[task.first[operand] + cut]
            parts = 1
            for axis in range(arrays.axes[operand]):
                terms = arrays.terms[operand, axis]
                is_mean = terms[0] == 2 and terms[8] == 0
                if terms[0] == 1 or terms[6] > 0 or is_mean:
                    parts *= all_under[operand, cut + 1 - start, terms[1]]
                if terms[7] > 0 or is_mean:
                    parts *= all_under[operand, cut + 1 - start, terms[3]]
            scale[memory] = scale[memory] // gcd(scale[memory], parts) * parts
    whole, per_part = np.ones((operands, levels), np.int64), np.ones((operands, levels), np.int64)
    room, stays = np.full((operands, levels), 2**62, np.int64), np.ones(operands, np.int64)
    bank = np.zeros((operands, levels), np.int64)
    is_comparable = True
    for operand in range(operands):
        start = 0 if operand == operands - 1 else 1
        for loop in range(loops):
            stays[operand] *= 1 if arrays.moving[operand, loop] else steps[loop]
        for level in range(arrays.levels[operand]):
            memory = task.memory[task.first[operand] + level + start]
            count, parts = elements_of(
                arrays, all_over[operand, level + 1], all_under[operand, level + 1], operand, steps
            )
            whole[operand, level], per_part[operand, level] = count, scale[memory] // parts
            if arrays.size_bits[operand, level] < 2**62 // scale[memory]:
                room[operand, level] = arrays.size_bits[operand, level] * scale[memory]
            most = max(arrays.bits[operand, 0], arrays.bits[operand, 1])
            bank[operand, level] = arrays.bank_bits[operand, level] * scale[memory]
            largest = 1.0 * count * per_part[operand, level] * most + bank[operand, level]
            is_comparable = is_comparable and 2.0 * largest <= _MOST_ROOM
    return Choice(
        placed, all_over, all_under, outside, divisors, counts, primes, above, units, sizes, scale, whole, per_part,
        room, bank, stays, is_comparable,
    )  # fmt: skip


@lending
def elements_of(arrays: Arrays, over: np.ndarray, under: np.ndarray, operand: int, tile: np.ndarray) -> tuple[int, int]:
    """Elements of a tile with so much spread, as a fraction."""
    count, parts = 1, 1
    for axis in range(arrays.axes[operand]):
        terms = arrays.terms[operand, axis]
        if terms[6] > 0:  # a box: one more than its steps, which lie so far apart
            box, of = terms[6] * (tile[terms[1]] * over[terms[1]] - under[terms[1]]), under[terms[1]]
            if terms[0] == 2:
                box = box * under[terms[3]] + of * terms[7] * (tile[terms[3]] * over[terms[3]] - under[terms[3]])
                of *= under[terms[3]]
            count *= of + box
            parts *= of
        elif terms[0] == 1:
            count *= tile[terms[1]] * over[terms[1]]
            parts *= under[terms[1]]
        elif terms[0] == 2:
            a, b = tile[terms[1]] * over[terms[1]], tile[terms[3]] * over[terms[3]]
            of, to = under[terms[1]], under[terms[3]]
            if terms[8] > 0:  # whole iterations alone
                a, b, of, to = a // of, b // to, 1, 1
            behind = a - terms[4] * of
            if terms[8] == 0:
                behind = max(0, behind)
            count *= min(terms[5] * of * to, a * b - max(0, b - terms[2] * to) * behind)
            parts *= of * to
    return int(count), int(parts)


@lending
def fits(size_bits: int, scale: int, room: int) -> bool:
    """Whether a room, in parts of a bit, is within a memory, or a part of it."""
    return size_bits >= 2**62 // scale or room <= size_bits * scale


@lending
def others_add(arrays: Arrays, choice: Choice, crossing: int) -> bool:
    """Whether sums that cross are added to others further out, or at this fan-out where its network does not."""
    write = len(arrays.axes) - 1
    here = arrays.sharing[write, crossing] == OWN and choice.outside[write, crossing]
    return here or choice.outside[write, crossing + 1]


@lending
def leave_partial(arrays: Arrays, choice: Choice) -> bool:
    """Whether sums leave the units partial: more is added to them in time, or by others."""
    return choice.stays[len(arrays.axes) - 1] > 1 or others_add(arrays, choice, 0)


@lending
def returns(arrays: Arrays, choice: Choice, tile: np.ndarray, times: int) -> int:
    """How often partial sums of a tile come back: at every time, or at all but the first of each tile."""
    if arrays.reads_first_sums:
        return times
    write, tiles = len(arrays.axes) - 1, 1
    for loop in range(len(tile)):
        tiles *= choice.placed.steps[loop] // tile[loop] if arrays.moving[write, loop] else 1
    return times - tiles


@lending
def cut_at(
    arrays: Arrays, choice: Choice, operand: int, cut: int, tile: np.ndarray, left_alone: int, how: tuple[int, bool]
) -> tuple[int, int, int]:
    """What a cut at a tile costs, its room in parts of a bit, and whether partial sums leave; NEVER where it cannot be.

    Of the loops that leave the operand alone so many steps are inside. `how`: 1 if partial sums arrive, and whether
    sums are stored at their final width. -1 where energies are not compared.
    """
    is_write = operand == len(arrays.axes) - 1
    level, iterations = cut if is_write else cut - 1, left_alone
    is_whole, is_small, is_allowed = left_alone == choice.stays[operand], True, True
    for loop in range(len(tile)):
        if arrays.moving[operand, loop]:
            iterations *= tile[loop]
            is_whole = is_whole and tile[loop] == choice.placed.steps[loop]
            is_small = is_small and tile[loop] == 1
            if arrays.is_limited and level >= 0:
                limits = arrays.limits[operand, level, loop]
                is_allowed = is_allowed and limits[0] <= tile[loop] <= limits[1]
    times = choice.placed.total // iterations
    if level < 0:
        if not is_small or (left_alone > 1 and not arrays.has_latches):
            return NEVER, 0, 0
        together, apart = elements_of(arrays, choice.over[operand, 1], choice.under[operand, 1], operand, tile)
        price = crossing_fj(arrays, choice.placed, operand, 0, 1.0, np.rint(together / apart), times, 0, False)
        return -1 if price == TOO_MUCH else int(price), 0, 0
    is_top = level == arrays.levels[operand] - 1
    partial = 0
    if is_write and not is_top and (left_alone < choice.stays[operand] or others_add(arrays, choice, level + 1)):
        partial = 1
    count, parts = elements_of(arrays, choice.over[operand, level + 1], choice.under[operand, level + 1], operand, tile)
    is_complete = is_write and (partial if how[1] else how[0]) == 0
    room = count * choice.per_part[operand, level] * arrays.bits[operand, 1 if is_complete else 0]
    if choice.bank[operand, level] > 0:
        room = -(-room // choice.bank[operand, level]) * choice.bank[operand, level] * arrays.buffers[operand, level]
    elif arrays.buffers[operand, level] == 2 and count < choice.whole[operand, level]:
        room = 2 * room
    if room > choice.room[operand, level] or not is_allowed or (is_top and not is_whole):
        return NEVER, room, partial
    if is_top:
        return 0, room, partial
    together, apart = elements_of(
        arrays, choice.over[operand, level + 2], choice.under[operand, level + 2], operand, tile
    )
    back = returns(arrays, choice, tile, times) if partial == 1 else 0
    price = crossing_fj(
        arrays, choice.placed, operand, level + 1, np.rint(count / parts), np.rint(together / apart), times, back,
        partial == 1,
    )  # fmt: skip
    return -1 if price == TOO_MUCH else int(price), room, partial


@lending
def kept_inside(arrays: Arrays, choice: Choice, operand: int, cut: int) -> int:
    """Of the steps that leave an operand alone, those inside its cut where that costs least.

    All, but none at units without latches, which read it again at every step.
    """
    is_at_units = cut == 0 and operand < len(arrays.axes) - 1
    return 1 if is_at_units and not arrays.has_latches else choice.stays[operand]


@inner
def own_tiles(arrays: Arrays, choice: Choice, operand: int) -> tuple[np.ndarray, np.ndarray]:
    """The tiles of the loops that move an operand, [tile, loop]; by prime and tile that one so much larger, or -1."""
    tiles, loops = choice.sizes[operand], len(choice.counts)
    own = np.empty(len(choice.primes), np.int64)
    many = 0
    for row in range(len(choice.primes)):
        if arrays.moving[operand, choice.primes[row, 0]]:
            own[many] = row
            many += 1
    up, sizes = np.full((many, tiles), -1, np.int64), np.ones((tiles, loops), np.int64)
    for at in range(tiles):
        for loop in range(loops):
            if arrays.moving[operand, loop]:
                sizes[at, loop] = choice.divisors[loop, at // choice.units[operand, loop] % choice.counts[loop]]
        for prime in range(many):
            loop = choice.primes[own[prime], 0]
            number = at // choice.units[operand, loop] % choice.counts[loop]
            larger = choice.above[own[prime], number]
            if larger >= 0:
                up[prime, at] = at + (larger - number) * choice.units[operand, loop]
    return sizes, up


@lending
def from_larger(up: np.ndarray, many: int, here: np.ndarray) -> None:
    """Of every tile the least of itself and of all larger ones; `here` is [tile, number], the first so many count."""
    for prime in range(len(up)):
        for tile in range(len(here) - 1, -1, -1):
            larger = up[prime, tile]
            if larger >= 0:
                for number in range(many):
                    if here[larger, number] < here[tile, number]:
                        here[tile, number] = here[larger, number]


@lending
def above_larger(up: np.ndarray, many: int, here: np.ndarray) -> int:
    """How many numbers are more than at a tile that is a prime larger."""
    broken = 0
    for prime in range(len(up)):
        for tile in range(len(here)):
            larger = up[prime, tile]
            if larger >= 0:
                for number in range(many):
                    broken += here[tile, number] > here[larger, number]
    return broken

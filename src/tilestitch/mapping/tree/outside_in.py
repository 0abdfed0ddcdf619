"""The compiled part of the checker: cuts are placed from the outermost memory inwards, tiles only become smaller.

A state is how many cuts of each operand are left, and whether the next cut of the result, further in, has to pass
partial sums on. The memory outside it was given room for one or the other before that cut was known.
"""

from typing import NamedTuple

import numpy as np

from tilestitch.base.jit import compiled, tiered

NEVER = 2**61  # what cannot be; three times as much is still a number
SETTLED, SURVIVED, TOO_MANY = 0, 1, 2


class Cuts(NamedTuple):
    """The cuts of all operands at every tile; tiles are numbered so that a divisor has a smaller number.

    What is read has no partial sums: it is alike whether they arrive or not.
    """

    price: np.ndarray  # by cut and tile, in whole units
    possible: np.ndarray  # by cut, whether partial sums arrive, and tile: it has a price, and fits its memory alone
    partial: np.ndarray  # by cut and tile: whether partial sums leave
    room: np.ndarray  # by cut, whether partial sums arrive, and tile
    shared: np.ndarray  # by cut: which of the shared memories it lies in, or -1
    limit: np.ndarray  # by shared memory: its room
    inmost: np.ndarray  # by operand and shared memory: the number of its cut there, or -1
    first: np.ndarray  # by operand: its first cut, which is the innermost; one more at the end
    write: int  # the operand that is the result
    from_units: int  # whether partial sums come from the units
    down: np.ndarray  # by prime of a loop and tile: the tile without it, or -1


@tiered
def _can_be(cuts: Cuts, cut: int, leaving: int, arriving: int, tile: int) -> bool:
    """Whether a cut can be at a tile, if what arrives and what leaves are partial sums or not."""
    return cuts.possible[cut, arriving, tile] and cuts.partial[cut, tile] == (leaving == 1)


@compiled
def potentials(cuts: Cuts) -> np.ndarray:
    """Of each operand the least that its innermost cuts cost inside a tile, by how many are left and what must leave.

    The rows of an operand begin at its first cut plus its number: none left, one left, and so on.
    """
    operands, tiles = len(cuts.first) - 1, cuts.price.shape[1]
    found = np.full((cuts.first[operands] + operands, 2, tiles), NEVER, np.int64)
    for operand in range(operands):
        row = cuts.first[operand] + operand
        is_write = operand == cuts.write
        if not is_write or cuts.from_units == 0:
            found[row, 0] = 0
        if is_write and cuts.from_units == 1:
            found[row, 1] = 0
        for cut in range(cuts.first[operand], cuts.first[operand + 1]):
            row += 1
            for leaving in range(2 if is_write else 1):
                for tile in range(tiles):
                    least = NEVER
                    for arriving in range(2 if is_write else 1):
                        if _can_be(cuts, cut, leaving, arriving, tile):
                            least = min(least, cuts.price[cut, tile] + found[row - 1, arriving, tile])
                    for prime in range(len(cuts.down)):
                        if cuts.down[prime, tile] >= 0:
                            least = min(least, found[row, leaving, cuts.down[prime, tile]])
                    found[row, leaving, tile] = least
    return found


@compiled
def broken_edges(cuts: Cuts, found: np.ndarray) -> int:
    """On how many edges a potential is more than the edge costs and the potential behind it."""
    operands, tiles = len(cuts.first) - 1, cuts.price.shape[1]
    broken = 0
    for operand in range(operands):
        row = cuts.first[operand] + operand
        is_write = operand == cuts.write
        for tile in range(tiles):
            if found[row, cuts.from_units if is_write else 0, tile] > 0:
                broken += 1
        for cut in range(cuts.first[operand], cuts.first[operand + 1]):
            row += 1
            for leaving in range(2 if is_write else 1):
                for tile in range(tiles):
                    here = found[row, leaving, tile]
                    for prime in range(len(cuts.down)):
                        if cuts.down[prime, tile] >= 0 and here > found[row, leaving, cuts.down[prime, tile]]:
                            broken += 1
                    for arriving in range(2 if is_write else 1):
                        inner = min(NEVER, cuts.price[cut, tile] + found[row - 1, arriving, tile])
                        if here > inner and _can_be(cuts, cut, leaving, arriving, tile):
                            broken += 1
    return broken


@tiered
def _units_of(cuts: Cuts) -> np.ndarray:
    """How much one cut of each operand counts in the number of a state; how many states there are at the end."""
    operands = len(cuts.first) - 1
    units = np.ones(operands + 1, np.int64)
    for operand in range(operands):
        units[operand + 1] = units[operand] * (cuts.first[operand + 1] - cuts.first[operand] + 1)
    return units


@tiered
def _added(one: int, other: int, modulus: int) -> int:
    """The sum of two numbers below a modulus."""
    total = one + other
    return total - modulus if total >= modulus else total


@compiled
def chains_modulo(cuts: Cuts, modulus: int) -> int:
    """How many chains there are if no memory is shared, modulo a number below 2^62.

    A chain says the tile of every cut. It is counted once: at one tile cuts are placed in the order of operands.
    `ways[k]` counts those that end at larger tiles, or at this one with cuts of the operands up to k.
    """
    operands, tiles = len(cuts.first) - 1, cuts.price.shape[1]
    units = _units_of(cuts)
    ways = np.zeros((operands, units[operands], 2, tiles), np.int64)
    ended, larger = np.empty(tiles, np.int64), np.empty(tiles, np.int64)
    total = 0
    for state in range(units[operands] - 1, -1, -1):
        for arriving in range(2):
            ended[:] = 0
            for operand in range(operands):
                left = state % units[operand + 1] // units[operand]
                cut = cuts.first[operand] + left
                if cut < cuts.first[operand + 1]:
                    before, leaving = state + units[operand], arriving
                    for tile in range(tiles):
                        if cuts.possible[cut, arriving, tile]:
                            if operand == cuts.write:
                                leaving = 1 if cuts.partial[cut, tile] else 0
                            ended[tile] = _added(ended[tile], ways[operand, before, leaving, tile], modulus)
                ways[operand, state, arriving] = ended
            starts = 1 if state == units[operands] - 1 and arriving == 0 else 0
            if starts == 0 and not ended.any():
                continue
            larger[:] = ended
            for prime in range(len(cuts.down)):
                for tile in range(tiles - 1, -1, -1):
                    if cuts.down[prime, tile] >= 0:
                        below = int(cuts.down[prime, tile])
                        larger[below] = _added(larger[below], larger[tile], modulus)
            for tile in range(tiles):
                outside = _added(_added(larger[tile], modulus - ended[tile], modulus), starts, modulus)
                for operand in range(operands):
                    ways[operand, state, arriving, tile] = _added(
                        ways[operand, state, arriving, tile], outside, modulus
                    )
            if state == 0 and arriving == cuts.from_units:
                for tile in range(tiles):
                    total = _added(total, ended[tile], modulus)
    return total


class Labels(NamedTuple):
    """Beginnings of chains, from the outside; those of one place are a list."""

    spent: np.ndarray
    following: np.ndarray
    taken: np.ndarray  # by label and shared memory


@tiered
def _with_room(labels: Labels, used: int) -> Labels:
    """The same labels, and room for at least one more."""
    if used < len(labels.spent):
        return labels
    more = Labels(
        np.empty(2 * used, np.int64),
        np.empty(2 * used, np.int64),
        np.empty((2 * used, labels.taken.shape[1]), np.int64),
    )
    more.spent[:used], more.following[:used], more.taken[:used] = labels.spent, labels.following, labels.taken
    return more


@tiered
def _is_needless(labels: Labels, heads: np.ndarray, place: int, spent: int, taken: np.ndarray) -> bool:
    """Whether a label of a place spent and takes no more; if not, those that spent and take no less are let go."""
    other, before = heads[place], -1
    while other >= 0:
        no_more, no_less = labels.spent[other] <= spent, labels.spent[other] >= spent
        for memory in range(len(taken)):
            no_more = no_more and labels.taken[other, memory] <= taken[memory]
            no_less = no_less and labels.taken[other, memory] >= taken[memory]
        if no_more:
            return True
        if not no_less:
            before = other
        elif before < 0:
            heads[place] = labels.following[other]
        else:
            labels.following[before] = labels.following[other]
        other = labels.following[other]
    return False


@tiered
def _least_left(cuts: Cuts, found: np.ndarray, left: np.ndarray, leaving: int, tile: int) -> int:
    """The potential of a state at a tile."""
    total = 0
    for operand in range(len(left)):
        row = cuts.first[operand] + operand + left[operand]
        least = found[row, leaving if operand == cuts.write else 0, tile]
        if least >= NEVER:
            return NEVER
        total += least
    return total


@tiered
def _take(cuts: Cuts, cut: int, arriving: int, tile: int, left: np.ndarray, taken: np.ndarray) -> bool:
    """Add the room of a cut to what is taken, where `left` are the cuts after it; whether it fits."""
    memory = cuts.shared[cut]
    if memory < 0:
        return True
    taken[memory] += cuts.room[cut, arriving, tile]
    if taken[memory] > cuts.limit[memory]:
        return False
    for operand in range(len(left)):
        if cuts.inmost[operand, memory] >= 0 and left[operand] > cuts.inmost[operand, memory]:
            return True
    taken[memory] = 0  # all that share it have their room
    return True


@compiled
def survivor(cuts: Cuts, found: np.ndarray, claim: int, most: int) -> tuple[int, int, int]:
    """How it ended, what a chain costs that is below the claim, and how many labels there were.

    All beginnings of chains are followed whose cost and potential are below the claim, but for those that another one
    of the same place makes needless. If none becomes complete there is no such chain.
    """
    operands, tiles = len(cuts.first) - 1, cuts.price.shape[1]
    units = _units_of(cuts)
    states, primes = units[operands], len(cuts.down)
    heads = np.full(tiles * states * 2, -1, np.int32)
    memories = len(cuts.limit)
    labels = Labels(np.empty(1024, np.int64), np.empty(1024, np.int64), np.empty((1024, memories), np.int64))
    left, taken = np.empty(operands, np.int64), np.zeros(memories, np.int64)
    for operand in range(operands):
        left[operand] = cuts.first[operand + 1] - cuts.first[operand]
    if _least_left(cuts, found, left, 0, tiles - 1) >= claim:
        return SETTLED, 0, 0
    labels.spent[0], labels.following[0] = 0, -1
    labels.taken[0] = 0
    heads[((tiles - 1) * states + states - 1) * 2] = 0
    used = 1
    for tile in range(tiles - 1, -1, -1):
        for place in range(states * 2 - 1, -1, -1):
            label = heads[tile * states * 2 + place]
            leaving, state = place % 2, place // 2
            while label >= 0:
                for move in range(primes + 2 * operands):
                    operand, arriving = (move - primes) // 2, (move - primes) % 2
                    target, new_state, spent, new_leaving = tile, state, int(labels.spent[label]), leaving
                    taken[:] = labels.taken[label]
                    for one in range(operands):
                        left[one] = state % units[one + 1] // units[one]
                    if move < primes:
                        target = cuts.down[move, tile]
                        if target < 0:
                            continue
                    else:
                        if left[operand] == 0:
                            continue
                        left[operand] -= 1
                        cut = cuts.first[operand] + left[operand]
                        if operand == cuts.write:
                            new_leaving = arriving
                        elif arriving == 1:
                            continue
                        if not _can_be(cuts, cut, leaving if operand == cuts.write else 0, arriving, tile):
                            continue
                        if not _take(cuts, cut, arriving, tile, left, taken):
                            continue
                        new_state, spent = state - units[operand], spent + int(cuts.price[cut, tile])
                    least = _least_left(cuts, found, left, new_leaving, target)
                    if least >= NEVER or spent + least >= claim:
                        continue
                    if new_state == 0:
                        return SURVIVED, spent, used
                    new_place = (target * states + new_state) * 2 + new_leaving
                    if _is_needless(labels, heads, new_place, spent, taken):
                        continue
                    if used >= most:
                        return TOO_MANY, 0, used
                    labels = _with_room(labels, used)
                    labels.spent[used], labels.following[used] = spent, heads[new_place]
                    labels.taken[used] = taken
                    heads[new_place] = used
                    used += 1
                label = labels.following[label]
    return SETTLED, 0, used

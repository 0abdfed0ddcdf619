"""The search of `labels.py` for one spatial choice, without tables over the lattice.

What a cut costs is asked when a label comes to it. What the later cuts of an operand cost at least from a tile on
depends only on the loops that move it, so those tables are small. A choice that has nothing below what is known is left
after a few labels, and many are opened one after another.
"""

import numpy as np

from tilestitch.base.jit import compiled
from tilestitch.mapping.tree.labels import FOUND, NEVER, NOTHING, STOPPED, empty, grown, is_beaten, order_of
from tilestitch.mapping.tree.quick import (
    TOO_MUCH,
    Arrays,
    Placed,
    cut_of,
    divisors,
    from_units,
    least_from,
    no_choice,
    place,
)
from tilestitch.mapping.tree.waiting import chain_of, pop, push

TOO_LARGE = 3  # energies that are not compared


@compiled
def _have_room(
    bounds: Arrays, placed: Placed, first: np.ndarray, shared: np.ndarray, limit: np.ndarray, final_sums: bool
) -> bool:
    """Whether the operands fit together into the outermost memories, where all of them lie whole."""
    taken = np.zeros(len(limit))
    for operand in range(len(bounds.axes)):
        component = shared[first[operand + 1] - 1]
        if component >= 0:
            cut = first[operand + 1] - first[operand] - 1
            _, room, _ = cut_of(bounds, placed, operand, cut, placed.steps, 0, final_sums)
            taken[component] += room
            if taken[component] > limit[component]:
                return False
    return True


@compiled
def least_of_choice(
    arrays: Arrays,
    bounds: Arrays,
    over: np.ndarray,
    under: np.ndarray,
    steps: np.ndarray,
    shared: np.ndarray,
    limit: np.ndarray,
    heads: np.ndarray,
    most: int,
    below: int,
    final_sums: bool,
) -> tuple[int, int, int, np.ndarray]:
    """How the search of one choice ended, its least cost or a bound of it, how many labels there were, and its chain.

    `over` and `under` are [operand, fan-out, loop], `shared` of every cut the memory that operands share, or -1, and
    `limit` the bits of those. `heads` is all -1, before and after. What does not cost less than `below` is no chain.
    """
    operands, loops = arrays.moving.shape
    unplaced = no_choice(arrays)
    placed = Placed(
        unplaced.over, unplaced.under, unplaced.share, unplaced.differing, unplaced.outside, unplaced.whole,
        unplaced.instances, steps, int(np.prod(steps)),
    )  # fmt: skip
    nothing = np.empty((0, 2), np.int64)
    everything = np.ones(loops, np.bool_)
    axes = divisors(steps, everything)
    strides = np.ones((operands + 1, len(axes)), np.int64)  # of the lattice of each operand, and of all loops
    points = 1
    for axis in range(len(axes) - 1, -1, -1):
        strides[operands, axis] = points
        points *= axes[axis, 2]
    first, offsets = np.zeros(operands + 1, np.int64), np.zeros(operands + 1, np.int64)
    inner = np.ones(operands, np.int64)
    for operand in range(operands):
        place(arrays, placed, operand, over[operand], under[operand], 0.0)
        for axis in range(len(axes) - 1, -1, -1):
            strides[operand, axis] = 0
            if arrays.moving[operand, axes[axis, 0]]:
                strides[operand, axis] = inner[operand]
                inner[operand] *= axes[axis, 2]
        cuts = arrays.levels[operand] + (0 if operand == operands - 1 else 1)
        first[operand + 1] = first[operand] + cuts
        offsets[operand + 1] = offsets[operand] + cuts * 2 * inner[operand]
    togo = np.empty(offsets[operands], np.int64)
    for operand in range(operands):
        least = least_from(bounds, placed, operand, final_sums)
        if least[0, 0, 0] < 0:
            return TOO_LARGE, NEVER, 0, nothing
        togo[offsets[operand] : offsets[operand + 1]] = least.reshape(-1)
    is_partial, units_fj = from_units(arrays, placed)
    if units_fj < 0:
        return TOO_LARGE, NEVER, 0, nothing
    fixed = int(units_fj)
    below = min(below, NEVER) - fixed if below < NEVER else NEVER
    place_of, states = np.empty(operands, np.int64), 2
    for operand in range(operands):
        place_of[operand] = states
        states *= first[operand + 1] - first[operand] + 1
    if not _have_room(bounds, placed, first, shared, limit, final_sums):
        return NOTHING, NEVER, 0, nothing
    labels = empty(1024, len(limit))
    order = order_of(labels)
    cuts_placed, chosen = np.zeros(operands, np.int64), np.zeros(operands, np.int64)
    taken = np.zeros(len(limit), np.float64)
    at, here = np.zeros(operands, np.int64), np.zeros(operands, np.int64)  # of each operand the point; of the label too
    powers = np.zeros(len(axes), np.int64)
    is_early = np.zeros(len(axes), np.bool_)
    keeps_complete = arrays.bits[operands - 1, 1] <= arrays.bits[operands - 1, 0]
    tile = np.ones(loops, np.int64)
    count, waiting = 0, 0
    label, move, moves = -1, 0, 0
    state, partial, spent, target = 1 if is_partial else 0, 1 if is_partial else 0, 0, 0
    ended, value, chain = NOTHING, NEVER, nothing
    rank, can = 0, True
    while True:
        if can:
            rest = 0
            for operand in range(operands):
                cut = chosen[operand]
                cuts = first[operand + 1] - first[operand]
                if cut < cuts:
                    side = partial if operand == operands - 1 else 0
                    rest += togo[offsets[operand] + (cut * 2 + side) * inner[operand] + at[operand]]
                    if rest >= NEVER:
                        break
            if spent + rest < below and not is_beaten(labels, heads, state * points + target, spent, taken):
                if count == len(labels.bound):
                    labels = grown(labels, count)
                    order = order_of(labels)
                labels.bound[count], labels.rank[count] = spent + rest, rank
                labels.spent[count], labels.state[count], labels.point[count] = spent, state, target
                labels.parent[count], labels.dead[count] = label, False
                labels.action[count] = first[move] + cuts_placed[move] if label >= 0 and move < operands else -1
                for component in range(len(taken)):
                    labels.taken[count, component] = taken[component]
                labels.following[count] = heads[state * points + target]
                heads[state * points + target] = count
                push(labels.heap, order, waiting, count)
                count, waiting = count + 1, waiting + 1
        move += 1
        if label < 0 or move >= moves:
            label = -1
            while waiting > 0 and (label < 0 or labels.dead[label]):
                label = pop(labels.heap, order, waiting)
                waiting -= 1
            if label < 0 or labels.dead[label]:
                break
            if labels.rank[label] // points == first[operands]:
                ended, value, chain = FOUND, labels.spent[label] + fixed, chain_of(labels, label, int(first[operands]))
                break
            if count > most:
                ended, value = STOPPED, labels.bound[label] + fixed
                break
            move, moves = 0, operands + len(axes)
            for operand in range(operands):
                size = first[operand + 1] - first[operand] + 1
                cuts_placed[operand] = labels.state[label] // place_of[operand] % size
            tile[:] = 1
            here[:] = 0
            for axis in range(len(axes)):
                powers[axis] = labels.point[label] // strides[operands, axis] % axes[axis, 2]
                tile[axes[axis, 0]] *= axes[axis, 1] ** powers[axis]
                is_early[axis] = False
                for operand in range(operands):
                    here[operand] += powers[axis] * strides[operand, axis]
            last = label
            while labels.action[last] >= 0:  # what was placed at this tile would rather be placed after such a loop
                operand = 0
                while labels.action[last] >= first[operand + 1]:
                    operand += 1
                if operand < operands - 1 or keeps_complete:
                    for axis in range(len(axes)):
                        is_early[axis] = is_early[axis] or strides[operand, axis] == 0
                last = labels.parent[last]
        state, partial = labels.state[label], labels.state[label] % 2
        spent, target = labels.spent[label], labels.point[label]
        for component in range(len(taken)):
            taken[component] = labels.taken[label, component]
        depth = 0
        for operand in range(operands):
            chosen[operand] = cuts_placed[operand]
            depth += cuts_placed[operand]
        can = False
        if move < operands:
            cut = cuts_placed[move]
            if first[move] + cut >= first[move + 1]:
                continue
            side = partial if move == operands - 1 else 0
            cost, room, after = cut_of(arrays, placed, move, cut, tile, side, final_sums)
            if cost == TOO_MUCH:
                ended = TOO_LARGE
                break
            chosen[move] += 1
            component = shared[first[move] + cut]
            if component >= 0:
                taken[component] += room
                if taken[component] > limit[component]:
                    continue
                is_open = False
                for operand in range(operands):
                    for other in range(first[operand] + chosen[operand], first[operand + 1]):
                        is_open = is_open or shared[other] == component
                if not is_open:
                    taken[component] = 0.0
            if cost >= NEVER:
                continue
            state += place_of[move]
            if move == operands - 1:
                state += (1 if after else 0) - partial
                partial = 1 if after else 0
            spent, depth = spent + int(cost), depth + 1
        else:
            axis = move - operands
            if is_early[axis] or powers[axis] + 1 >= axes[axis, 2]:
                continue
            target += strides[operands, axis]
        can, rank = True, depth * points + target
        for operand in range(operands):
            at[operand] = here[operand] + (strides[operand, move - operands] if move >= operands else 0)
    for number in range(count):
        heads[labels.state[number] * points + labels.point[number]] = -1
    return ended, value, count, chain

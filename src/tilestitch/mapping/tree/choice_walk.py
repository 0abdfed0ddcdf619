"""The checker's walk through one spatial choice after another, compiled.

Potentials are made for each operand alone: what its next cut and the later ones cost at least from a tile on. They are
held against every edge of its lattice. Then all beginnings of chains below the claim are followed, from the units
outwards and in the order of their length, without a heap: those of one place all have the same length, so each is held
against all others of its place before it goes on.
"""

from typing import NamedTuple

import numpy as np

from tilestitch.base.jit import compiled, inner, lending
from tilestitch.mapping.tree.choice_cuts import (
    Choice,
    Task,
    above_larger,
    cut_at,
    fits,
    from_larger,
    kept_inside,
    leave_partial,
    own_tiles,
    taken_choice,
)
from tilestitch.mapping.tree.outside_in import NEVER, SETTLED, SURVIVED, TOO_MANY
from tilestitch.mapping.tree.quick_arrays import Arrays
from tilestitch.mapping.tree.quick_prices import TOO_MUCH, crossing_fj, no_choice

BROKEN, TOO_LARGE = 4, 5  # a potential does not hold; rooms or energies are too large to compare


@inner
def _potentials(task: Task, choice: Choice, operand: int) -> tuple[np.ndarray, int]:
    """The least that each cut and the later ones cost from a tile on, and how many edges do not hold.

    [cut, whether partial sums arrive, tile of the loops that move the operand]; of the other loops `kept_inside` lie
    inside. -1 edges where something is too large.
    """
    arrays = task.relaxed
    cuts, tiles = task.first[operand + 1] - task.first[operand], choice.sizes[operand]
    sizes, up = own_tiles(arrays, choice, operand)
    found = np.full((cuts + 1, 2, tiles, 1), NEVER, np.int64)
    prices, leaving = np.empty((2, tiles), np.int64), np.empty((2, tiles), np.int64)
    found[cuts] = 0
    sides = 2 if operand == len(arrays.axes) - 1 else 1
    broken = 0
    for cut in range(cuts - 1, -1, -1):
        kept = kept_inside(arrays, choice, operand, cut)
        for side in range(sides):
            for at in range(tiles):
                price, _, partial = cut_at(arrays, choice, operand, cut, sizes[at], kept, (side, task.final_sums))
                if price < 0:
                    return found, -1
                found[cut, side, at, 0] = min(NEVER, price + found[cut + 1, partial, at, 0])
                prices[side, at], leaving[side, at] = price, partial
            from_larger(up, 1, found[cut, side])
            for at in range(tiles):
                if prices[side, at] < NEVER:
                    behind = found[cut + 1, leaving[side, at], at, 0]
                    broken += found[cut, side, at, 0] > prices[side, at] + behind
            broken += above_larger(up, 1, found[cut, side])
        if sides == 1:
            found[cut, 1] = found[cut, 0]
    return found, broken


class Walk(NamedTuple):
    """Beginnings of chains in the order in which they were found."""

    spent: np.ndarray
    state: np.ndarray  # cuts placed, and whether partial sums go on
    tile: np.ndarray
    following: np.ndarray  # of the same place
    dead: np.ndarray
    taken: np.ndarray  # by memory


@inner
def _room_for(size: int, memories: int) -> Walk:
    return Walk(
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.zeros(size, np.bool_),
        np.zeros((size, memories), np.int64),
    )


@inner
def _longer(old: Walk, used: int) -> Walk:
    new = _room_for(2 * used, old.taken.shape[1])
    new.spent[:used], new.state[:used], new.tile[:used] = old.spent, old.state, old.tile
    new.following[:used], new.dead[:used], new.taken[:used] = old.following, old.dead, old.taken
    return new


@lending
def _is_needless(walk: Walk, heads: np.ndarray, at: int, spent: int, taken: np.ndarray) -> bool:
    """Whether another one of a place spent and takes no more; those that spent and take no less are let go."""
    other = heads[at]
    while other >= 0:
        if not walk.dead[other]:
            no_more, no_less = walk.spent[other] <= spent, walk.spent[other] >= spent
            for memory in range(len(taken)):
                no_more = no_more and walk.taken[other, memory] <= taken[memory]
                no_less = no_less and walk.taken[other, memory] >= taken[memory]
            if no_more:
                return True
            if no_less:
                walk.dead[other] = True
        other = walk.following[other]
    return False


@lending
def _is_wanted(task: Task, memory: int, cuts: np.ndarray) -> bool:
    """Whether an operand has yet to place its cut in a memory."""
    for operand in range(len(cuts)):
        for cut in range(task.first[operand] + cuts[operand], task.first[operand + 1]):
            if task.memory[cut] == memory:
                return True
    return False


@inner
def _walked(
    task: Task,
    choice: Choice,
    potentials: np.ndarray,
    offsets: np.ndarray,
    start: int,
    claim: int,
    heads: np.ndarray,
    most: int,
) -> tuple[int, int, int]:
    """How it ended, what a chain costs that is below the claim, and how many beginnings there were.

    `heads` is all -1, before and after.
    """
    arrays = task.arrays
    operands, loops, memories = len(arrays.axes), len(choice.counts), len(task.sharing)
    points = choice.sizes[operands]
    in_state, states = np.ones(operands, np.int64), 2
    for operand in range(operands):
        in_state[operand] = states
        states *= task.first[operand + 1] - task.first[operand] + 1
    walk = _room_for(256, memories)
    walk.spent[0], walk.state[0], walk.tile[0], walk.following[0] = 0, start, 0, -1
    used, ended, value = 1, SETTLED, 0
    heads[start * points] = 0
    cuts, own = np.zeros(operands, np.int64), np.zeros(operands, np.int64)
    numbers, tile, taken = np.zeros(loops, np.int64), np.ones(loops, np.int64), np.zeros(memories, np.int64)
    label = 0
    while label < used and ended == SETTLED:
        if walk.dead[label]:
            label += 1
            continue
        state, here, partial = walk.state[label], walk.tile[label], walk.state[label] % 2
        own[:] = 0
        for loop in range(loops):
            numbers[loop] = here // choice.units[operands, loop] % choice.counts[loop]
            tile[loop] = choice.divisors[loop, numbers[loop]]
            for operand in range(operands):
                own[operand] += numbers[loop] * choice.units[operand, loop]
        for operand in range(operands):
            cuts[operand] = state // in_state[operand] % (task.first[operand + 1] - task.first[operand] + 1)
        for move in range(operands + len(choice.primes)):
            spent, new_state, target, passes = walk.spent[label], state, here, partial
            taken[:] = walk.taken[label]
            row, step, chosen = move - operands, 0, -1
            if move < operands:
                cut = task.first[move] + cuts[move]
                if cut == task.first[move + 1]:
                    continue
                left_alone = 1
                for loop in range(loops):
                    left_alone *= 1 if arrays.moving[move, loop] else tile[loop]
                side = partial if move == operands - 1 else 0
                price, room, leaves = cut_at(
                    arrays, choice, move, cuts[move], tile, left_alone, (side, task.final_sums)
                )
                if price < 0:
                    ended = TOO_LARGE
                    break
                if price >= NEVER:
                    continue
                chosen = move
                memory = int(task.memory[cut])
                cuts[move] += 1
                if memory >= 0 and task.sharing[memory] > 1:
                    taken[memory] += room
                    if not fits(int(task.size[memory]), int(choice.scale[memory]), int(taken[memory])):
                        cuts[move] -= 1
                        continue
                    if not _is_wanted(task, memory, cuts):
                        taken[memory] = 0
                spent, new_state = spent + price, state + in_state[move]
                if move == operands - 1:
                    new_state += leaves - partial
                    passes = leaves
            else:
                loop = choice.primes[row, 0]
                if choice.above[row, numbers[loop]] < 0:
                    continue
                step = choice.above[row, numbers[loop]] - numbers[loop]
                target += step * choice.units[operands, loop]
            least, complete = spent, True
            for operand in range(operands):
                if cuts[operand] < task.first[operand + 1] - task.first[operand]:
                    complete = False
                    at = own[operand]
                    if row >= 0:
                        at += step * choice.units[operand, choice.primes[row, 0]]
                    side = passes if operand == operands - 1 else 0
                    at += (cuts[operand] * 2 + side) * choice.sizes[operand]
                    least = min(NEVER, least + potentials[offsets[operand] + at])
            if chosen >= 0:
                cuts[chosen] -= 1
            if least >= claim:
                continue
            if complete:
                ended, value = SURVIVED, spent
                break
            if used >= most:
                ended = TOO_MANY
                break
            at = new_state * points + target
            if _is_needless(walk, heads, at, spent, taken):
                continue
            if used == len(walk.spent):
                walk = _longer(walk, used)
            walk.spent[used], walk.state[used], walk.tile[used] = spent, new_state, target
            walk.following[used], walk.dead[used] = heads[at], False
            walk.taken[used] = taken
            heads[at] = used
            used += 1
        label += 1
    for one in range(used):
        heads[walk.state[one] * points + walk.tile[one]] = -1
    return ended, value, used


@inner
def _only_moving(arrays: Arrays, over: np.ndarray, under: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A choice as if what leaves an operand alone were not spread."""
    over, under = over.copy(), under.copy()
    for operand in range(len(arrays.moving)):
        for loop in range(arrays.moving.shape[1]):
            if not arrays.moving[operand, loop]:
                over[operand, :, loop], under[operand, :, loop] = 1, 1
    return over, under


@lending
def results_fj(arrays: Arrays, choice: Choice) -> float:
    """What results cost at the units, whatever the mapping; TOO_MUCH where energies are not compared."""
    write, total = len(arrays.axes) - 1, choice.placed.total
    is_partial, back = leave_partial(arrays, choice), total
    if arrays.has_latches:
        tiles = 1
        for loop in range(len(choice.counts)):
            tiles *= choice.placed.steps[loop] if arrays.moving[write, loop] else 1
        back = 0 if not is_partial else total if arrays.reads_first_sums else total - tiles
    return crossing_fj(arrays, choice.placed, write, 0, 1.0, 1.0, total, back, is_partial)


@compiled
def judged(
    task: Task,
    spread: tuple[np.ndarray, np.ndarray, np.ndarray],
    skipped: np.ndarray,
    loose: bool,
    limits: np.ndarray,
    heads: np.ndarray,
    most: int,
) -> np.ndarray:
    """Of many choices: the bound, how the walk ended, what a chain costs below the limit, and how many beginnings.

    `spread` are two arrays [choice, operand, fan-out, loop], numerators and denominators, and the steps that are left.
    The bound is NEVER where nothing fits; operands that are `skipped` add nothing to it, and loosely all sums are
    complete when they come from the units. A choice is walked through only where its bound is below its limit. All
    energies are without arithmetic. `heads` is all -1, before and after.
    """
    over, under, steps = spread
    operands = len(task.arrays.axes)
    write = operands - 1
    found = np.zeros((len(steps), 4), np.int64)
    empty = no_choice(task.arrays)
    for number in range(len(steps)):
        choice = taken_choice(task, empty, over[number], under[number], steps[number])
        start = 1 if leave_partial(task.arrays, choice) else 0
        at_units = results_fj(task.arrays, choice)
        offsets = np.zeros(operands + 1, np.int64)
        for operand in range(operands):
            cuts = task.first[operand + 1] - task.first[operand] + 1
            offsets[operand + 1] = offsets[operand] + cuts * 2 * choice.sizes[operand]
        potentials = np.empty(offsets[operands], np.int64)
        if loose:
            moved = _only_moving(task.arrays, over[number], under[number])
            choice = taken_choice(task, empty, moved[0], moved[1], steps[number])
        is_comparable = choice.is_comparable and at_units != TOO_MUCH
        bound, ended = int(at_units), SETTLED if is_comparable else TOO_LARGE
        for operand in range(operands):
            if skipped[operand]:
                continue
            own, broken = _potentials(task, choice, operand)
            if broken < 0:
                ended = TOO_LARGE
            elif broken > 0:
                ended = BROKEN
            potentials[offsets[operand] : offsets[operand + 1]] = own.reshape(-1)
            bound = min(NEVER, bound + own[0, start if operand == write and not loose else 0, 0, 0])
        value, used = 0, 0
        if ended == SETTLED and bound < limits[number]:
            beside = int(at_units)
            ended, value, used = _walked(
                task, choice, potentials, offsets, start, limits[number] - beside, heads, most
            )  # fmt: skip
            value += beside
        found[number, 0], found[number, 1], found[number, 2], found[number, 3] = bound, ended, value, used
    return found

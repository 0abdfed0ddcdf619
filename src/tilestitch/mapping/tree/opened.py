"""The search of `labels.py` for one spatial choice, without tables over the lattice.

A choice that has nothing below what is known is left after a few labels, and many are opened one after another. The
search begins with what each operand costs alone. After some labels it begins anew, with what the `near` cuts cost
together: a table that takes longer to make than short searches take.
"""

from typing import Protocol

import numpy as np

from tilestitch.base.jit import compiled, inlined, inner, lending
from tilestitch.mapping.tree.ground import TOO_LARGE, Desk, Ground, Sheet, closes, desk_of, ground_of, lay, rest_of
from tilestitch.mapping.tree.labels import (
    FOUND,
    NEVER,
    NOTHING,
    STOPPED,
    Labels,
    Trail,
    empty,
    enter,
    grown,
    is_beaten,
    order_of,
)
from tilestitch.mapping.tree.near import (
    MOST_POINTS,
    Near,
    more_together,
    near_box,
    near_of,
    point_in,
    step_in,
    to_come,
    without_box,
)
from tilestitch.mapping.tree.quick_arrays import Arrays, Placed
from tilestitch.mapping.tree.quick_prices import TOO_MUCH, cut_of
from tilestitch.mapping.tree.waiting import Order, chain_of, pop, push

GROWS, GOES_ON = 4, 5  # labels have no room; there is one to go on from
LABEL_POINTS = 32  # a table is made after one label for so many points of its box
UNMADE, USELESS, USEFUL = range(3)  # of a table


@lending
def _go_on(
    labels: Labels,
    order: Order,
    heads: np.ndarray,
    arrays: Arrays,
    placed: Placed,
    ground: Ground,
    near: Near,
    desk: Desk,
    label: int,
    count: int,
    waiting: int,
    below: int,
) -> tuple[int, int]:
    """All labels that come of one: how many there are then and how many wait; -1 where energies are not compared."""
    trail = labels.trail
    state, point = trail.state[label], trail.point[label]
    lay(ground, desk, state, point)
    at, operands, depth = point_in(near, desk), len(desk.placed), 0
    for operand in range(operands):
        depth += desk.placed[operand]
    for move in range(operands + len(ground.axes)):
        for component in range(len(desk.taken)):
            desk.taken[component] = trail.taken[label, component]
        for operand in range(operands):
            desk.chosen[operand] = desk.placed[operand]
        to_state, partial, spent, target, action, axis = state, state % 2, trail.spent[label], point, -1, -1
        if move < operands:
            action = ground.first[move] + desk.placed[move]
            if action >= ground.first[move + 1]:
                continue
            side = partial if move == operands - 1 else 0
            cost, room, after = cut_of(arrays, placed, move, desk.placed[move], desk.tile, side, ground.final_sums)
            if cost == TOO_MUCH:
                return -1, waiting
            desk.chosen[move] += 1
            component = int(ground.shared[action])
            if component >= 0:
                desk.taken[component] += room
                if desk.taken[component] > ground.limit[component]:
                    continue
                if closes(ground, desk, component):
                    desk.taken[component] = 0.0
            if cost >= NEVER:
                continue
            to_state += ground.place_of[move]
            if move == operands - 1:
                to_state += (1 if after else 0) - partial
                partial = 1 if after else 0
            spent += int(cost)
        else:
            axis = move - operands
            if desk.powers[axis] + 1 >= ground.axes[axis, 2]:
                continue
            target += ground.strides[operands, axis]
        rest = rest_of(ground, desk, partial, axis) + more_together(
            near, to_come(near, desk), step_in(near, desk, at, axis)
        )
        place_number = to_state * ground.points + target
        if spent + rest >= below or is_beaten(trail, heads, place_number, spent, desk.taken):
            continue
        labels.bound[count] = spent + rest
        labels.rank[count] = (depth + (1 if move < operands else 0)) * ground.points + target
        enter(trail, heads, count, place_number, (spent, to_state, target, label, action), desk.taken)
        push(labels.heap, order, waiting, count)
        count, waiting = count + 1, waiting + 1
    return count, waiting


class Waiting(Protocol):
    """What the labels of a search have in common."""

    @property
    def trail(self) -> Trail: ...
    @property
    def rank(self) -> np.ndarray: ...
    @property
    def heap(self) -> np.ndarray: ...


@inlined
def take_next(
    labels: Waiting, order: Order, ground: Ground, counts: tuple[int, int], most: int
) -> tuple[int, int, int]:
    """Take the first label that waits and was not dropped: how it ends or goes on, the label, and how many wait.

    `counts` are labels and how many of them wait.
    """
    count, waiting = counts
    while waiting > 0:
        if count + len(ground.place_of) + len(ground.axes) > len(labels.rank):
            return GROWS, -1, waiting
        label = pop(labels.heap, order, waiting)
        waiting -= 1
        if not labels.trail.dead[label]:
            if labels.rank[label] // ground.points == ground.first[len(ground.place_of)]:
                return FOUND, label, waiting
            return STOPPED if count > most else GOES_ON, label, waiting
    return NOTHING, -1, waiting


@lending
def _run(
    labels: Labels, order: Order, heads: np.ndarray, tools: tuple[Arrays, Placed, Ground, Near], desk: Desk,
    counts: tuple[int, int], limits: tuple[int, int],
) -> tuple[int, int, int, int]:  # fmt: skip
    """Go on from label to label as long as there is room: how it ended, the last label, how many there are and wait.

    `limits` are the most labels, and what costs must be below.
    """
    (arrays, placed, ground, near), (count, waiting), (most, below) = tools, counts, limits
    ended, label = GOES_ON, -1
    while ended == GOES_ON:
        ended, label, waiting = take_next(labels, order, ground, (count, waiting), most)
        if ended == GOES_ON:
            more, waiting = _go_on(
                labels, order, heads, arrays, placed, ground, near, desk, label, count, waiting, below
            )
            ended, count = (TOO_LARGE, count) if more < 0 else (GOES_ON, more)
    return ended, label, count, waiting


@inner
def _search(
    tools: tuple[Arrays, Placed, Ground, Near], start: int, heads: np.ndarray, limits: tuple[int, int]
) -> tuple[int, int, int, np.ndarray]:
    """How a search ended, the least cost or a bound of it, labels, and the chain.

    `limits` are the most labels, and what costs must be below. Partial sums come from the units if `start` is 1; what
    results cost there is not counted.
    """
    _, placed, ground, near = tools
    _, below = limits
    operands, points = len(ground.place_of), ground.points
    cuts, desk = int(ground.first[operands]), desk_of(ground, len(placed.steps))
    labels = empty(1024, len(ground.limit))
    order = order_of(labels)
    count, waiting = 0, 0
    value, chain = NEVER, np.empty((0, 2), np.int64)
    least_of_all = rest_of(ground, desk, start, -1) + more_together(near, to_come(near, desk), 0)
    if least_of_all < below:
        labels.bound[0], labels.rank[0], labels.heap[0] = least_of_all, 0, 0
        enter(labels.trail, heads, 0, start * points, (0, start, 0, -1, -1), desk.taken)
        count, waiting = 1, 1
    ended = GROWS
    while ended == GROWS:
        if count + operands + len(ground.axes) > len(labels.bound):
            labels = grown(labels, len(labels.bound))
            order = order_of(labels)
        ended, label, count, waiting = _run(labels, order, heads, tools, desk, (count, waiting), limits)
        if ended == FOUND:
            value, chain = labels.trail.spent[label], chain_of(labels.trail, label, cuts)
        elif ended == STOPPED:
            value = labels.bound[label]
    for number in range(count):
        heads[labels.trail.state[number] * points + labels.trail.point[number]] = -1
    return ended, value, count, chain


@compiled
def least_of_choice(
    tables: tuple[Arrays, Arrays], sheet: Sheet, heads: np.ndarray, limits: tuple[int, int], options: tuple[bool, bool]
) -> tuple[int, int, int, np.ndarray, int]:
    """How the search of one choice ended, its least cost or a bound of it, how many labels there were, and its chain.

    At last whether a table of near cuts was of use: one of `UNMADE`, `USELESS` and `USEFUL`.

    `tables` are the operands, and the same relaxed; `limits` the most labels, and what costs must be below to be a
    chain. `heads` is all -1, before and after. `options` are whether sums are stored at their final width, and whether
    near cuts may have a table.
    """
    (arrays, bounds), (most, below), (final_sums, may_have) = tables, limits, options
    ended, placed, ground, (fixed, start) = ground_of(arrays, bounds, sheet, final_sums)
    if ended != FOUND:
        return ended, NEVER, 0, np.empty((0, 2), np.int64), UNMADE
    below = min(below, NEVER) - fixed if below < NEVER else NEVER
    box, points = near_box(ground, start)
    may_have = may_have and 0 < points <= MOST_POINTS
    few, use = min(most, points // LABEL_POINTS) if may_have else most, UNMADE
    tools = arrays, placed, ground, without_box(box)
    ended, value, count, chain = _search(tools, start, heads, (few, below))
    if ended == STOPPED and count <= most:
        near, is_useful = near_of(arrays, placed, ground, start, box, points)
        tools = arrays, placed, ground, near
        ended, value, more, chain = _search(tools, start, heads, (most - count, below))
        count, use = count + more, USEFUL if is_useful else USELESS
    return ended, value + fixed if ended in (FOUND, STOPPED) else NEVER, count, chain, use

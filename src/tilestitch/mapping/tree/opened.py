"""The search of `labels.py` for one spatial choice, without tables over the lattice.

What a cut costs is asked when a label comes to it. What the later cuts of an operand cost at least from a tile on
depends only on the loops that move it, so those tables are small. A choice that has nothing below what is known is left
after a few labels, and many are opened one after another.
"""

from typing import NamedTuple, Protocol

import numpy as np

from tilestitch.base.jit import compiled, inlined, inner, lending, tiered
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
from tilestitch.mapping.tree.quick_arrays import Arrays, Placed
from tilestitch.mapping.tree.quick_bounds import common_loops, divisors, in_turn_fj
from tilestitch.mapping.tree.quick_prices import TOO_MUCH, cut_of, from_units, no_choice, place
from tilestitch.mapping.tree.waiting import Order, chain_of, pop, push

TOO_LARGE = 3  # energies that are not compared
GROWS, GOES_ON = 4, 5  # labels have no room; there is one to go on from


class Ground(NamedTuple):
    """What the search of one choice stands on."""

    first: np.ndarray  # by operand: its first cut; one more at the end
    place_of: np.ndarray  # by operand: what a cut that is placed adds to the state
    axes: np.ndarray  # of the lattice: loop, prime, how many powers
    strides: np.ndarray  # [operand, axis] of the lattice of each operand, at the end of all loops
    inner: np.ndarray  # by operand: points of its lattice
    offsets: np.ndarray  # by operand: where its part of `togo` begins
    togo: np.ndarray  # by cut, whether partial sums arrive, and point: what it and the later cuts cost at least
    in_turn_fj: int  # what two operands cost more at the units because only one of them can stay
    shared: np.ndarray  # by cut: which of the shared memories it lies in, or -1
    limit: np.ndarray  # by shared memory: its bits
    points: int
    final_sums: bool


class Desk(NamedTuple):
    """The label that is at hand, and the one that comes of it."""

    placed: np.ndarray  # by operand: cuts that are placed
    chosen: np.ndarray  # and in the one that comes of it
    here: np.ndarray  # by operand: its point
    powers: np.ndarray  # by axis
    tile: np.ndarray
    taken: np.ndarray  # by shared memory


@lending
def lay(ground: Ground, desk: Desk, state: int, point: int) -> None:
    """Take a label at this state and point."""
    desk.tile[:] = 1
    desk.here[:] = 0
    for operand in range(len(desk.placed)):
        size = ground.first[operand + 1] - ground.first[operand] + 1
        desk.placed[operand] = state // ground.place_of[operand] % size
    for axis in range(len(ground.axes)):
        power = point // ground.strides[len(desk.placed), axis] % ground.axes[axis, 2]
        desk.powers[axis] = power
        for _ in range(power):
            desk.tile[ground.axes[axis, 0]] *= ground.axes[axis, 1]
        for operand in range(len(desk.placed)):
            desk.here[operand] += power * ground.strides[operand, axis]


@lending
def rest_of(ground: Ground, desk: Desk, partial: int, axis: int) -> int:
    """The least that all cuts that are not chosen cost, if no memory were shared, a step along an axis further."""
    rest, last = 0, len(desk.placed) - 1
    for operand in range(last + 1):
        cut = desk.chosen[operand]
        if cut < ground.first[operand + 1] - ground.first[operand]:
            side = partial if operand == last else 0
            at = desk.here[operand] + (ground.strides[operand, axis] if axis >= 0 else 0)
            rest += int(ground.togo[ground.offsets[operand] + (cut * 2 + side) * ground.inner[operand] + at])
            if rest >= NEVER:
                return NEVER
    return rest + ground.in_turn_fj if last == 2 and desk.chosen[0] + desk.chosen[1] == 0 else rest


@lending
def closes(ground: Ground, desk: Desk, component: int) -> bool:
    """Whether all operands that share a memory have their cut there."""
    for operand in range(len(desk.placed)):
        for other in range(ground.first[operand] + desk.chosen[operand], ground.first[operand + 1]):
            if ground.shared[other] == component:
                return False
    return True


@lending
def _go_on(
    labels: Labels,
    order: Order,
    heads: np.ndarray,
    arrays: Arrays,
    placed: Placed,
    ground: Ground,
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
    operands, depth = len(desk.placed), 0
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
        rest = rest_of(ground, desk, partial, axis)
        place_number = to_state * ground.points + target
        if spent + rest >= below or is_beaten(trail, heads, place_number, spent, desk.taken):
            continue
        labels.bound[count] = spent + rest
        labels.rank[count] = (depth + (1 if move < operands else 0)) * ground.points + target
        enter(trail, heads, count, place_number, (spent, to_state, target, label, action), desk.taken)
        push(labels.heap, order, waiting, count)
        count, waiting = count + 1, waiting + 1
    return count, waiting


@tiered
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


class Sheet(NamedTuple):
    """One choice, laid out for its search."""

    over: np.ndarray  # [operand, fan-out, loop] how far loops are spread, as fractions
    under: np.ndarray
    steps: np.ndarray
    togo: np.ndarray  # what cuts cost at least, from `least_from`
    offsets: np.ndarray  # by operand: where its part begins
    shared: np.ndarray  # by cut: which of the memories that operands share it lies in, or -1
    limit: np.ndarray  # by shared memory: its bits


@inner
def ground_of(
    arrays: Arrays, bounds: Arrays, sheet: Sheet, final_sums: bool
) -> tuple[int, Placed, Ground, tuple[int, int]]:
    """What a search stands on, and why there is none: `FOUND` if there is one, else `NOTHING` or `TOO_LARGE`.

    At last what results cost at the units in whole femtojoules, and 1 if partial sums come from them.
    """
    operands, loops = arrays.moving.shape
    steps = sheet.steps
    unplaced = no_choice(arrays)
    placed = Placed(
        unplaced.over, unplaced.under, unplaced.share, unplaced.differing, unplaced.exchanging, unplaced.outside,
        unplaced.whole, unplaced.instances, steps, int(np.prod(steps)),
    )  # fmt: skip
    axes = divisors(steps, np.ones(loops, np.bool_))
    strides = np.ones((operands + 1, len(axes)), np.int64)  # of the lattice of each operand, and of all loops
    points = 1
    for axis in range(len(axes) - 1, -1, -1):
        strides[operands, axis] = points
        points *= axes[axis, 2]
    first, inside = np.zeros(operands + 1, np.int64), np.ones(operands, np.int64)
    for operand in range(operands):
        place(arrays, placed, operand, sheet.over[operand], sheet.under[operand], 0.0)
        for axis in range(len(axes) - 1, -1, -1):
            strides[operand, axis] = 0
            if arrays.moving[operand, axes[axis, 0]]:
                strides[operand, axis] = inside[operand]
                inside[operand] *= axes[axis, 2]
        cuts = arrays.levels[operand] + (0 if operand == operands - 1 else 1)
        first[operand + 1] = first[operand] + cuts
    ended, in_turn = FOUND, 0
    if operands == 3:
        common = common_loops(arrays)
        one, other = in_turn_fj(arrays, placed, 0, common), in_turn_fj(arrays, placed, 1, common)
        in_turn = min(one, other)
        if in_turn < 0:
            ended = TOO_LARGE
    is_partial, units_fj = from_units(arrays, placed)
    if units_fj < 0:
        ended = TOO_LARGE
    place_of, states = np.empty(operands, np.int64), 2
    for operand in range(operands):
        place_of[operand] = states
        states *= first[operand + 1] - first[operand] + 1
    if ended == FOUND and not _have_room(bounds, placed, first, sheet.shared, sheet.limit, final_sums):
        ended = NOTHING
    ground = Ground(
        first, place_of, axes, strides, inside, sheet.offsets, sheet.togo, in_turn, sheet.shared, sheet.limit, points,
        final_sums,
    )  # fmt: skip
    return ended, placed, ground, (int(units_fj), 1 if is_partial else 0)


@inner
def desk_of(ground: Ground, loops: int) -> Desk:
    """Room for the label at hand."""
    operands = len(ground.place_of)
    return Desk(
        np.zeros(operands, np.int64), np.zeros(operands, np.int64), np.zeros(operands, np.int64),
        np.zeros(len(ground.axes), np.int64), np.ones(loops, np.int64), np.zeros(len(ground.limit), np.float64),
    )  # fmt: skip


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
    labels: Labels, order: Order, heads: np.ndarray, tools: tuple[Arrays, Placed, Ground], desk: Desk,
    counts: tuple[int, int], limits: tuple[int, int],
) -> tuple[int, int, int, int]:  # fmt: skip
    """Go on from label to label as long as there is room: how it ended, the last label, how many there are and wait.

    `limits` are the most labels, and what costs must be below.
    """
    (arrays, placed, ground), (count, waiting), (most, below) = tools, counts, limits
    ended, label = GOES_ON, -1
    while ended == GOES_ON:
        ended, label, waiting = take_next(labels, order, ground, (count, waiting), most)
        if ended == GOES_ON:
            more, waiting = _go_on(labels, order, heads, arrays, placed, ground, desk, label, count, waiting, below)
            ended, count = (TOO_LARGE, count) if more < 0 else (GOES_ON, more)
    return ended, label, count, waiting


@compiled
def least_of_choice(
    arrays: Arrays, bounds: Arrays, sheet: Sheet, heads: np.ndarray, most: int, below: int, final_sums: bool
) -> tuple[int, int, int, np.ndarray]:
    """How the search of one choice ended, its least cost or a bound of it, how many labels there were, and its chain.

    `heads` is all -1, before and after. What does not cost less than `below` is no chain.
    """
    nothing = np.empty((0, 2), np.int64)
    ended, placed, ground, (fixed, start) = ground_of(arrays, bounds, sheet, final_sums)
    if ended != FOUND:
        return ended, NEVER, 0, nothing
    operands, points, first = len(ground.place_of), ground.points, ground.first
    below = min(below, NEVER) - fixed if below < NEVER else NEVER
    cuts, desk = int(first[operands]), desk_of(ground, len(sheet.steps))
    labels = empty(1024, len(sheet.limit))
    order = order_of(labels)
    count, waiting = 0, 0
    value, chain = NEVER, nothing
    least_of_all = rest_of(ground, desk, start, -1)
    if least_of_all < below:
        labels.bound[0], labels.rank[0], labels.heap[0] = least_of_all, 0, 0
        enter(labels.trail, heads, 0, start * points, (0, start, 0, -1, -1), desk.taken)
        count, waiting = 1, 1
    ended = GROWS
    while ended == GROWS:
        if count + operands + len(ground.axes) > len(labels.bound):
            labels = grown(labels, len(labels.bound))
            order = order_of(labels)
        ended, label, count, waiting = _run(
            labels, order, heads, (arrays, placed, ground), desk, (count, waiting), (most, below)
        )
        if ended == FOUND:
            value, chain = labels.trail.spent[label] + fixed, chain_of(labels.trail, label, cuts)
        elif ended == STOPPED:
            value = labels.bound[label] + fixed
    for number in range(count):
        heads[labels.trail.state[number] * points + labels.trail.point[number]] = -1
    return ended, value, count, chain

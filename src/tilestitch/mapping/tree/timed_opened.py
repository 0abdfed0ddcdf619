"""The search of `timed_labels.py` for one spatial choice, without tables over the lattice, as `opened.py` has it.

It says below which value nothing of the choice is. So it ends with the first complete label, and of choices that are
equally good the caller decides.
"""

from typing import NamedTuple, TypeAlias

import numpy as np

from tilestitch.base.jit import inner, lending, tiered
from tilestitch.mapping.tree.ground import TOO_LARGE, Desk, Ground, Sheet, closes, desk_of, ground_of, lay, rest_of
from tilestitch.mapping.tree.labels import FOUND, NEVER, STOPPED, enter
from tilestitch.mapping.tree.near import (
    MOST_POINTS,
    Near,
    more_together,
    near_box,
    point_in,
    step_in,
    to_come,
    without_box,
)
from tilestitch.mapping.tree.opened import GOES_ON, GROWS, UNMADE, USEFUL, USELESS, take_next
from tilestitch.mapping.tree.quick_arrays import Arrays, Placed
from tilestitch.mapping.tree.quick_prices import TOO_MUCH, cut_of, held_elements
from tilestitch.mapping.tree.timed_labels import (
    FASTEST,
    Pending,
    TimedLabels,
    is_beaten_in_time,
    is_known,
    timed_empty,
    timed_grown,
    timed_order,
    value_of,
)
from tilestitch.mapping.tree.timed_near import Clock, cycles_from, timed_near_of
from tilestitch.mapping.tree.timed_pace import SUMS, cross, latency_at_least, repeat
from tilestitch.mapping.tree.timed_quick import Timing, follow, load_of, serve_crossing, start_row, way_of
from tilestitch.mapping.tree.waiting import Order, push


class Aim(NamedTuple):
    """What is looked for."""

    objective: int
    fixed_fj: float  # of every mapping, without what results cost at the units
    cutoff: float  # a value; nothing above it
    tie: float  # what is no better than this value
    tie_fj: float  # costs no more than this
    width: int  # labels that are opened of as many moves, 0 for all: with few some mapping is found, and nothing proven
    known: np.ndarray  # [point, energy (fJ, as `tie_fj`) and cycles], by energy: nothing is looked for that one beats


TIMED_LABEL_POINTS = 16  # as `opened.LABEL_POINTS`: a label takes twice as long
NO_POINTS = np.zeros((0, 2), np.int64)


@lending
def _crossing_of(ground: Ground, operand: int, cut: int) -> int:
    """The crossing that a cut pays for; -1 of the outermost memory."""
    if cut == ground.first[operand + 1] - ground.first[operand] - 1:
        return -1
    return cut + 1 if operand == len(ground.place_of) - 1 else cut


_Tools: TypeAlias = tuple[Arrays, Timing, Placed, Ground, Near, Clock, Aim]


class Bench(NamedTuple):
    """What is written to, from label to label."""

    row: np.ndarray  # the pace of the label that comes of the one at hand
    load: np.ndarray  # what a crossing adds to it
    togo: np.ndarray  # by column: what is still to come at least
    served: np.ndarray  # [inwards or outwards, port]
    following: np.ndarray  # [operand, crossing, port] what follows a crossing for which the units stop
    opened: np.ndarray  # by moves: how many labels so far away were opened


@lending
def _pending(timing: Timing, desk: Desk) -> Pending:
    """What cuts that are not chosen will do."""
    crosses, stops = False, False
    for operand in range(len(desk.chosen)):
        cut = desk.chosen[operand]
        crosses, stops = crosses or timing.crosses[operand, cut], stops or timing.stops[operand, cut]
    return Pending(crosses, stops)


@lending
def _forget(timing: Timing, desk: Desk, row: np.ndarray) -> None:
    """Leave the sums to which no cut that is not chosen adds."""
    for column in range(SUMS, len(row)):
        needed = False
        for operand in range(len(desk.chosen)):
            needed = needed or timing.later[operand, desk.chosen[operand], column]
        if not needed:
            row[column] = 0


@lending
def _least_cycles(
    timing: Timing, ground: Ground, clock: Clock, near: Near, desk: Desk, bench: Bench,
    where: tuple[int, int, int, int, int],
) -> int:  # fmt: skip
    """What no mapping that goes on from here is faster than; `where`: partial sums, axis, other tiles, near cuts."""
    (partial, axis, others, some, point), last = where, len(desk.chosen) - 1
    bench.togo[:] = 0
    for operand in range(last + 1):
        cut = desk.chosen[operand]
        if cut < ground.first[operand + 1] - ground.first[operand]:
            here = desk.here[operand] + (ground.strides[operand, axis] if axis >= 0 else 0)
            at = cycles_from(timing, ground, clock, operand, (cut, partial), here)
            for number in range(timing.many_sums[operand]):
                bench.togo[timing.sums[operand, number]] += clock.table[at + number]
    if some > 0:
        for number in range(len(timing.together)):
            bench.togo[timing.together[number, 0]] += near.more[1 + number, near.place[point], some]
    return latency_at_least(bench.row, timing.columns, bench.togo, others)


@lending
def _is_hopeless(aim: Aim, value: float, energy_fj: int, cycles: int) -> bool:
    if value > aim.cutoff or (value >= aim.tie and energy_fj > aim.tie_fj):
        return True
    return len(aim.known) > 0 and is_known(aim.known, energy_fj, cycles)


@lending
def _note(labels: TimedLabels, label: int, bound: tuple[int, int, float], rank: int, row: np.ndarray) -> None:
    """Write of a label what its trail does not say; `bound` are energy, cycles and value."""
    labels.least_fj[label], labels.least_cycles[label], labels.value[label] = bound
    labels.rank[label] = rank
    for column in range(len(row)):
        labels.pace[label, column] = row[column]


@lending
def _is_among_the_first(opened: np.ndarray, moves: int, width: int) -> bool:
    """Count a label that is so many moves away, unless there were enough of them."""
    is_first = opened[moves] < width
    opened[moves] += 1 if is_first else 0
    return is_first


@lending
def _place(
    arrays: Arrays, ground: Ground, desk: Desk, placed: Placed, operand: int, partial: int
) -> tuple[int, int]:  # fmt: skip
    """Place the next cut of an operand: what it costs, and 1 if partial sums go on; NEVER where it cannot, -1."""
    action = ground.first[operand] + desk.placed[operand]
    if action >= ground.first[operand + 1]:
        return NEVER, 0
    is_write = operand == len(desk.placed) - 1
    side = partial if is_write else 0
    cost, room, after = cut_of(arrays, placed, operand, desk.placed[operand], desk.tile, side, ground.final_sums)
    if cost == TOO_MUCH:
        return -1, 0
    desk.chosen[operand] += 1
    component = int(ground.shared[action])
    if component >= 0:
        desk.taken[component] += room
        if desk.taken[component] > ground.limit[component]:
            return NEVER, 0
        if closes(ground, desk, component):
            desk.taken[component] = 0.0
    return int(cost), 1 if after else 0


@lending
def _go_on(
    labels: TimedLabels, order: Order, heads: np.ndarray, tools: _Tools,
    desk: Desk, bench: Bench, fixed_fj: float, label: int, counts: tuple[int, int],
) -> tuple[int, int]:  # fmt: skip
    """All labels that come of one: how many there are then and how many wait; -1 where energies are not compared."""
    arrays, timing, placed, ground, near, clock, aim = tools
    row, (count, waiting) = bench.row, counts
    trail = labels.trail
    state, point = trail.state[label], trail.point[label]
    lay(ground, desk, state, point)
    operands, depth, inside = len(desk.placed), 0, 1
    for operand in range(operands):
        depth += desk.placed[operand]
    for loop in range(len(desk.tile)):
        inside *= desk.tile[loop]
    tiles, at = placed.total // inside, point_in(near, desk)
    if aim.width > 0 and not _is_among_the_first(bench.opened, depth + desk.powers.sum(), aim.width):
        return count, waiting
    for move in range(operands + len(ground.axes)):
        for component in range(len(desk.taken)):
            desk.taken[component] = trail.taken[label, component]
        for operand in range(operands):
            desk.chosen[operand] = desk.placed[operand]
        to_state, partial, spent, target, axis, left = state, state % 2, trail.spent[label], point, -1, tiles
        cost, after = 0, 0
        if move < operands:
            cost, after = _place(arrays, ground, desk, placed, move, partial)
            if cost < 0:
                return -1, waiting
            if cost >= NEVER:
                continue
            to_state += ground.place_of[move]
            if move == operands - 1:
                to_state += after - partial
                partial = after
            spent += cost
        else:
            axis = move - operands
            if desk.powers[axis] + 1 >= ground.axes[axis, 2]:
                continue
            target += ground.strides[operands, axis]
            left = tiles // ground.axes[axis, 1]
        some, to = to_come(near, desk), step_in(near, desk, at, axis)
        rest = rest_of(ground, desk, partial, axis) + more_together(near, some, to)
        if rest >= NEVER:
            continue
        energy = spent + rest
        # with the cycles that its label has at least a label may be left before its pace is known
        known = labels.least_cycles[label]
        if _is_hopeless(aim, value_of(aim.objective, fixed_fj, energy, known), energy, known):
            continue
        for column in range(len(row)):
            row[column] = labels.pace[label, column]
        if axis >= 0:
            repeat(row, timing.columns, ground.axes[axis, 1])
        else:
            crossing = _crossing_of(ground, move, desk.placed[move])
            if crossing >= 0:
                held = 1.0 if crossing == 0 else held_elements(arrays, placed, move, crossing, desk.tile)
                where = (move, crossing)
                serve_crossing(arrays, timing, placed, where, desk.tile, held, after == 1, bench.served)
                way = way_of(timing, move, crossing, after == 1)
                load_of(timing, where, way, bench.served, bench.following[where], bench.load)
                cross(row, timing.columns, bench.load)
            _forget(timing, desk, row)
        pending = _pending(timing, desk)
        cycles = _least_cycles(timing, ground, clock, near, desk, bench, (partial, axis, left - 1, some, to))
        cycles = max(cycles, known)  # what comes of a label is no faster than it is said to be at least
        value = value_of(aim.objective, fixed_fj, energy, cycles)
        place = to_state * ground.points + target
        if _is_hopeless(aim, value, energy, cycles):
            continue
        if is_beaten_in_time(labels, heads, place, spent, row, timing.columns, desk.taken, pending, left - 1):
            continue
        rank = (depth + (1 if move < operands else 0)) * ground.points + target
        _note(labels, count, (energy, cycles, value), rank, row)
        enter(trail, heads, count, place, (spent, to_state, target, label, -1), desk.taken)
        push(labels.heap, order, waiting, count)
        count, waiting = count + 1, waiting + 1
    return count, waiting


@lending
def _run(
    labels: TimedLabels, order: Order, heads: np.ndarray, tools: _Tools,
    desk: Desk, bench: Bench, fixed_fj: float, most: int, counts: tuple[int, int],
) -> tuple[int, int, int, int]:  # fmt: skip
    """Go on from label to label as long as there is room: how it ended, the last label, how many there are and wait."""
    _, _, _, ground, _, _, _ = tools
    ended, label, (count, waiting) = GOES_ON, -1, counts
    while ended == GOES_ON:
        ended, label, waiting = take_next(labels, order, ground, (count, waiting), most)
        if ended == GOES_ON:
            more, waiting = _go_on(labels, order, heads, tools, desk, bench, fixed_fj, label, (count, waiting))
            ended, count = (TOO_LARGE, count) if more < 0 else (GOES_ON, more)
    return ended, label, count, waiting


@inner
def _search(
    tools: _Tools, fixed_fj: float, start: int, heads: np.ndarray,
    most: int,
) -> tuple[int, int, float, int, int]:  # fmt: skip
    """How a search ended, labels, and value, energy and cycles of the best.

    They are as in `best_of_choice`, but that energies are without what results cost at the units.

    Partial sums come from the units if `start` is 1.
    """
    arrays, timing, placed, ground, near, clock, aim = tools
    operands, points = len(ground.place_of), ground.points
    desk = desk_of(ground, len(placed.steps))
    ends = timing.columns.end
    labels = timed_empty(256, ends, len(ground.limit))
    order = timed_order(labels)
    bench = Bench(
        np.zeros(ends, np.int64), np.zeros(ends, np.int64), np.zeros(ends, np.int64), np.zeros((2, timing.many)),
        np.zeros((operands, timing.hides.shape[1], timing.many), np.int64),
        np.zeros(1 + ground.first[operands] + np.sum(ground.axes[:, 2]), np.int64),
    )  # fmt: skip
    start_row(arrays, timing, placed, start, desk.tile, (bench.served, bench.following[0, 0], bench.load), bench.row)
    _forget(timing, desk, bench.row)
    follow(arrays, timing, placed, start, desk.tile, bench.served, bench.following)
    count, waiting = 0, 0
    some = to_come(near, desk)
    rest = rest_of(ground, desk, start, -1) + more_together(near, some, 0)
    if rest < NEVER:
        cycles = _least_cycles(timing, ground, clock, near, desk, bench, (start, -1, placed.total - 1, some, 0))
        value = value_of(aim.objective, fixed_fj, rest, cycles)
        if not _is_hopeless(aim, value, rest, cycles):
            _note(labels, 0, (rest, cycles, value), 0, bench.row)
            enter(labels.trail, heads, 0, start * points, (0, start, 0, -1, -1), desk.taken)
            labels.heap[0] = 0
            count, waiting = 1, 1
    ended, label = GROWS, -1
    while ended == GROWS:
        if count + operands + len(ground.axes) > len(labels.value):
            labels = timed_grown(labels, len(labels.value))
            order = timed_order(labels)
        ended, label, count, waiting = _run(labels, order, heads, tools, desk, bench, fixed_fj, most, (count, waiting))
    for number in range(count):
        heads[labels.trail.state[number] * points + labels.trail.point[number]] = -1
    if ended in (FOUND, STOPPED):
        return ended, count, labels.value[label], labels.least_fj[label], labels.least_cycles[label]
    return ended, count, np.inf, NEVER, NEVER


@tiered
def best_of_choice(
    tables: tuple[Arrays, Arrays, Timing], sheet: Sheet, clock: Clock, aim: Aim, heads: np.ndarray, most: int,
    options: tuple[bool, bool],
) -> tuple[int, int, float, int, int, int]:  # fmt: skip
    """How the search of one choice ended, how many labels there were, and the value, energy and cycles of the best.

    At last whether a table of near cuts was of use, and `options`, as in `least_of_choice`.

    `tables` are the operands, the same relaxed, and their ports. Energies are femtojoules without `aim.fixed_fj`. Where
    it stopped, value, energy and cycles are bounds of what was not looked at. `heads` is all -1, before and after.
    """
    (arrays, bounds, timing), (final_sums, may_have) = tables, options
    ended, placed, ground, (units_fj, start) = ground_of(arrays, bounds, sheet, final_sums)
    if ended != FOUND:
        return ended, 0, np.inf, NEVER, NEVER, UNMADE
    fixed_fj = aim.fixed_fj + units_fj
    known = aim.known.copy()
    known[:, 0] -= units_fj
    aim = Aim(aim.objective, fixed_fj, aim.cutoff, aim.tie, aim.tie_fj - units_fj, aim.width, known)
    box, points = near_box(ground, start)
    by_energy = aim.objective != FASTEST
    may_have = may_have and 0 < points <= MOST_POINTS and (by_energy or len(timing.together) > 0)
    few, use = min(most, points // TIMED_LABEL_POINTS) if may_have else most, UNMADE
    tools = arrays, timing, placed, ground, without_box(box), clock, aim
    ended, count, value, energy, cycles = _search(tools, fixed_fj, start, heads, few)
    if ended == STOPPED and count <= most:
        near, in_energy, in_time = timed_near_of(arrays, timing, placed, ground, clock, start, box, points)
        tools = arrays, timing, placed, ground, near, clock, aim
        ended, more, value, energy, cycles = _search(tools, fixed_fj, start, heads, most - count)
        count, use = count + more, USEFUL if in_time or (by_energy and in_energy) else USELESS
    return ended, count, value, energy + units_fj if ended in (FOUND, STOPPED) else NEVER, cycles, use

"""The search for energy and latency together: labels as in `labels`, which know the pace of their tile as well.

A label's pace is a row of `timed_pace`. Its bound has two parts, the least energy and the least latency of every
mapping that goes on from it. Which label goes first depends on the objective; every label that might lead to something
better is looked at before the search ends.
"""

from typing import NamedTuple

import numpy as np

from tilestitch.base.jit import compiled, lending, tiered
from tilestitch.mapping.tree.labels import (
    FOUND,
    NEVER,
    NOTHING,
    STOPPED,
    Problem,
    Trail,
    copy_trail,
    empty_trail,
    enter,
    is_free,
    place_cut,
    remaining,
)
from tilestitch.mapping.tree.timed_pace import SUMS, Columns, cross, keeps_up, latency_at_least, repeat
from tilestitch.mapping.tree.waiting import Order, chain_of, pop, push

FRONT, FASTEST, EDP, ED2P = 0, 1, 2, 3  # what is least
SLACK = 1e-12  # products of numbers below 2**53 are compared so; who is best among equals is decided in whole numbers


class TimedProblem(NamedTuple):
    """What is searched: energies and rooms, and the cycles of every cut. Indices as in `Problem`."""

    base: Problem
    columns: Columns
    rows: np.ndarray  # by column and cut: which row of `loads`, or -1
    loads: np.ndarray  # by row and point: cycles
    uses: np.ndarray  # by column and cut: whether the cut changes the sum
    stops: np.ndarray  # by cut: the units stop
    crosses: np.ndarray  # by cut: anything crosses, as it does not into the outermost memory
    left: np.ndarray  # by point: how many such tiles there are
    least: np.ndarray  # by sum: of a cut and the later ones of its operand from a point on what they add at least
    start: np.ndarray  # the row of one iteration with its results
    fixed_fj: float  # of every mapping


class TimedLabels(NamedTuple):
    """Every label that was made, by its number, and the heap of those that wait."""

    trail: Trail
    least_fj: np.ndarray  # the bound of energy, without what is fixed
    least_cycles: np.ndarray
    value: np.ndarray  # of both, by the objective
    rank: np.ndarray  # how far it is: of equal bounds the farthest goes first
    pace: np.ndarray  # by column of a row
    heap: np.ndarray


class Pending(NamedTuple):
    """What cuts that are not placed will do: move anything, stop the units."""

    crosses: bool
    stops: bool


@tiered
def timed_empty(size: int, columns: int, components: int) -> TimedLabels:
    return TimedLabels(
        empty_trail(size, components),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.float64),
        np.empty(size, np.int64),
        np.empty((size, columns), np.int64),
        np.empty(size, np.int64),
    )


@tiered
def timed_grown(old: TimedLabels, used: int) -> TimedLabels:
    """The same labels with room for twice as many."""
    new = timed_empty(2 * used, old.pace.shape[1], old.trail.taken.shape[1])
    copy_trail(old.trail, new.trail, used)
    new.least_fj[:used], new.least_cycles[:used], new.value[:used] = old.least_fj, old.least_cycles, old.value
    new.rank[:used], new.pace[:used], new.heap[:used] = old.rank, old.pace, old.heap
    return new


@tiered
def timed_order(labels: TimedLabels) -> Order:
    """By its value, then by the bound of energy, then by that of latency."""
    return Order(labels.value, labels.least_fj, labels.least_cycles, labels.rank)


@lending
def value_of(objective: int, fixed_fj: float, energy_fj: int, cycles: int) -> float:
    """What is least, of an energy and a latency; of a front the energy, so that it is found from one end."""
    if objective == FASTEST:
        return float(cycles)
    if objective == FRONT:
        return float(energy_fj)
    product = (fixed_fj + energy_fj) * cycles
    return product * cycles if objective == ED2P else product


@lending
def _least_cycles(
    timed: TimedProblem, placed: np.ndarray, partial: int, point: int, row: np.ndarray, togo: np.ndarray, weight: int
) -> int:
    """What no mapping that goes on from here is faster than; `togo` is written to."""
    base = timed.base
    togo[:] = 0
    for operand in range(len(placed)):
        cut = base.first[operand] + placed[operand]
        if cut < base.first[operand + 1]:
            side = partial if operand == base.write else 0
            for column in range(SUMS, timed.columns.until):
                togo[column] += weight * timed.least[column - SUMS, cut, side, point]
    return latency_at_least(row, timed.columns, togo, timed.left[point] - 1)


@lending
def _pending(timed: TimedProblem, placed: np.ndarray, row: np.ndarray) -> Pending:
    """What cuts that are not placed will do; sums to which none of them adds are forgotten."""
    base = timed.base
    crosses, stops = False, False
    for operand in range(len(placed)):
        for cut in range(base.first[operand] + placed[operand], base.first[operand + 1]):
            crosses, stops = crosses or timed.crosses[cut], stops or timed.stops[cut]
    for column in range(SUMS, len(row)):
        needed = False
        for operand in range(len(placed)):
            for cut in range(base.first[operand] + placed[operand], base.first[operand + 1]):
                needed = needed or timed.uses[column, cut]
        if not needed:
            row[column] = 0
    return Pending(crosses, stops)


@lending
def is_beaten_in_time(
    labels: TimedLabels,
    heads: np.ndarray,
    place: int,
    spent: int,
    row: np.ndarray,
    columns: Columns,
    taken: np.ndarray,
    pending: Pending,
    others: int,
) -> bool:
    """Whether a label at this place is at least as good; if not, those that the new one beats are dropped."""
    trail, other = labels.trail, heads[place]
    before = -1
    while other >= 0:
        better = trail.spent[other] <= spent
        worse = trail.spent[other] >= spent
        for component in range(len(taken)):
            better = better and trail.taken[other, component] <= taken[component]
            worse = worse and trail.taken[other, component] >= taken[component]
        its = labels.pace[other]
        if better and keeps_up(its, row, columns, others, pending.crosses, pending.stops):
            return True
        if worse and keeps_up(row, its, columns, others, pending.crosses, pending.stops):
            trail.dead[other] = True
            if before < 0:
                heads[place] = trail.following[other]
            else:
                trail.following[before] = trail.following[other]
        else:
            before = other
        other = trail.following[other]
    return False


@lending
def is_known(known: np.ndarray, energy_fj: int, cycles: int) -> bool:
    """Whether a front, in ascending order of energy, has a point that is at least as good in both."""
    low, high = 0, len(known)
    while low < high:
        middle = (low + high) // 2
        if known[middle, 0] <= energy_fj:
            low = middle + 1
        else:
            high = middle
    return low > 0 and known[low - 1, 1] <= cycles


@tiered
def chains_of(trail: Trail, found: np.ndarray, cuts: int) -> np.ndarray:
    chains = np.empty((len(found), cuts, 2), np.int64)
    for number in range(len(found)):
        chains[number] = chain_of(trail, found[number], cuts)
    return chains


@compiled
def least_chains(
    timed: TimedProblem, objective: int, cutoff: float, known: np.ndarray, weight: int, most: int
) -> tuple[int, tuple[float, int, int], int, np.ndarray, np.ndarray]:
    """How it ended, a bound of what was not looked at, how many labels there were, and what was found.

    What was found are rows (femtojoules without what is fixed, cycles), and for each rows (cut, point) of its chain:
    the whole front in ascending order of energy; or all whose value is the least but for rounding. Nothing is looked
    for whose value is above `cutoff`, or that a point of `known` beats. Bounds count what is left `weight` times: more
    than once finds some chain sooner, and proves nothing. The bound of what was not looked at: value, energy, latency.
    """
    base = timed.base
    operands, points = len(base.first) - 1, base.cost.shape[2]
    cuts, axes, columns = base.first[operands], len(base.shape), timed.columns
    place_of, states = np.empty(operands, np.int64), 2
    for operand in range(operands):
        place_of[operand] = states
        states *= base.first[operand + 1] - base.first[operand] + 1
    heads = np.full(states * points, -1, np.int32)
    labels = timed_empty(1024, columns.end, len(base.limit))
    placed, row = np.zeros(operands, np.int64), timed.start.copy()
    togo, load = np.zeros(columns.end, np.int64), np.zeros(columns.end, np.int64)
    taken = np.zeros(len(base.limit), np.float64)
    order, found = timed_order(labels), np.empty(64, np.int64)
    fastest = NEVER  # of the front so far
    start = 1 if base.starts_partial else 0
    many, count, waiting, ended = 0, 0, 0, FOUND
    bound = (np.inf, NEVER, NEVER)
    label, move, moves, rank, target, state, partial = -1, -1, 0, 0, 0, start, start
    spent, fits = 0, True
    while True:
        rest = remaining(base, placed, partial, target) if fits else NEVER
        if rest < NEVER:
            pending = _pending(timed, placed, row)
            energy = spent + weight * rest
            cycles = _least_cycles(timed, placed, partial, target, row, togo, weight)
            value = value_of(objective, timed.fixed_fj, energy, cycles)
            place = state * points + target
            hopeless = value > cutoff or cycles >= fastest or (len(known) > 0 and is_known(known, energy, cycles))
            others = timed.left[target] - 1
            if not hopeless and not is_beaten_in_time(
                labels, heads, place, spent, row, columns, taken, pending, others
            ):
                if count == len(labels.value):
                    labels = timed_grown(labels, count)
                    order = timed_order(labels)
                labels.least_fj[count], labels.least_cycles[count], labels.value[count] = energy, cycles, value
                labels.rank[count], labels.pace[count, :] = rank, row
                action = base.first[move] + placed[move] - 1 if 0 <= move < operands else -1
                enter(labels.trail, heads, count, place, (spent, state, target, label, action), taken)
                push(labels.heap, order, waiting, count)
                count, waiting = count + 1, waiting + 1
        move, trail = move + 1, labels.trail
        if label < 0 or move >= moves:
            label = -1
            while waiting > 0 and label < 0:
                label = pop(labels.heap, order, waiting)
                waiting -= 1
                if trail.dead[label] or labels.least_cycles[label] >= fastest:
                    label = -1
                elif labels.value[label] > cutoff:
                    label, waiting = -1, 0
                elif labels.rank[label] // points == cuts:
                    if many == len(found):
                        found = np.concatenate((found, np.empty(many, np.int64)))
                    found[many] = label
                    many += 1
                    if objective == FRONT:
                        fastest = labels.least_cycles[label]
                    elif objective == FASTEST:
                        waiting = 0
                    else:
                        cutoff = min(cutoff, labels.value[label] * (1 + SLACK))
                    label = -1
            if label < 0:
                break
            if count > most:
                ended = STOPPED
                bound = (labels.value[label], labels.least_fj[label], labels.least_cycles[label])
                break
            move, moves = 0, operands + axes
        partial, spent, target = trail.state[label] % 2, trail.spent[label], trail.point[label]
        state, rank, fits = trail.state[label], 0, True
        for operand in range(operands):
            size = base.first[operand + 1] - base.first[operand] + 1
            placed[operand] = state // place_of[operand] % size
            rank += placed[operand]
        taken[:], row[:] = trail.taken[label, :], labels.pace[label, :]
        if move < operands:
            cost = place_cut(base, placed, move, partial, target, taken)
            fits = cost < NEVER
            if fits:
                cut = base.first[move] + placed[move] - 1
                if move == base.write:
                    after = 1 if base.after[cut, target] else 0
                    state += after - partial
                    partial = after
                for column in range(columns.end):
                    at = timed.rows[column, cut]
                    load[column] = timed.loads[at, target] if at >= 0 else 0
                cross(row, columns, load)
                spent, state, rank = spent + cost, state + place_of[move], (rank + 1) * points + target
        else:
            axis = move - operands
            index = target // base.strides[axis] % base.shape[axis]
            fits = index + 1 < base.shape[axis] and is_free(base, placed, target, axis)
            if fits:
                inside = timed.left[target]
                target += base.strides[axis]
                repeat(row, columns, int(inside // timed.left[target]))
            rank = rank * points + target
    if many == 0 and ended == FOUND:
        ended = NOTHING
    chosen = found[:many].copy()
    values = np.empty((many, 2), np.int64)
    for at in range(many):
        values[at, 0], values[at, 1] = labels.trail.spent[chosen[at]], labels.least_cycles[chosen[at]]
    return ended, bound, count, values, chains_of(labels.trail, chosen, cuts)

"""Every way worth keeping to come to every tile: labels on a lattice, swept from the smallest tile outwards.

A label stands at a tile and knows which cuts are placed, what they cost, and the room that they take in each memory.
It goes on by placing the next cut of an operand or by multiplying one loop by one prime, so all that leads to a tile is
known when the sweep comes to it. Of two labels at one place that with no less cost and no less room is dropped, and so
is every label that could not end within a budget: its bound adds what the other cuts cost at least from there.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilestitch.base.jit import compiled, lending
from tilestitch.mapping.tree.labels import NEVER, Trail, empty_trail, enter, grown_trail, is_beaten, is_open, remaining


class Field(NamedTuple):
    """What is swept; costs and rooms are indexed by cut, whether partial sums arrive, and point."""

    cost: np.ndarray
    room: np.ndarray
    after: np.ndarray  # by cut and point: whether partial sums go on from there
    shared: np.ndarray  # by cut: which room it takes, or -1
    stays: np.ndarray  # by room: whether what is taken counts to the end
    limit: np.ndarray  # by room: its bits
    first: np.ndarray  # by operand: its first cut; one more at the end
    write: int  # the operand that is the result, or -1
    togo: np.ndarray  # the least that a cut and the later ones of its operand cost from a point on
    strides: np.ndarray  # by axis of the lattice
    shape: np.ndarray
    order: np.ndarray  # the states, those with fewer cuts first


def radix(first: Sequence[int]) -> list[int]:
    """What one more cut of each operand adds to a state; the lowest place says whether sums are partial."""
    found, states = [], 2
    for start, end in pairwise(first):
        found.append(states)
        states *= int(end - start) + 1
    return [*found, states]


def order_of_states(first: Sequence[int]) -> NDArray[np.int64]:
    """All states, those with fewer cuts placed first."""
    steps = radix(first)
    states = np.arange(steps[-1], dtype=np.int64)
    placed = np.zeros(len(states), np.int64)
    for operand, step in enumerate(steps[:-1]):
        placed += states // step % (int(first[operand + 1] - first[operand]) + 1)
    return states[np.argsort(placed, kind="stable")]


@lending
def placed_in(field: Field, state: int, placed: np.ndarray) -> None:
    """Write how many cuts of each operand are placed."""
    left = state // 2
    for operand in range(len(placed)):
        size = field.first[operand + 1] - field.first[operand] + 1
        placed[operand] = left % size
        left //= size


@lending
def place_next(
    field: Field, operand: int, step: int, state: int, point: int, placed: np.ndarray, taken: np.ndarray
) -> tuple[int, int, int]:
    """Place the next cut of an operand, which adds a step to the state: its cost, or NEVER; the cut, and the new state.

    `placed` and `taken` are as they are then.
    """
    cut, partial = field.first[operand] + placed[operand], state % 2
    if cut >= field.first[operand + 1]:
        return NEVER, -1, state
    side = partial if operand == field.write else 0
    cost, room = field.cost[cut, side, point], int(field.shared[cut])
    if cost >= NEVER:
        return NEVER, -1, state
    if room >= 0:
        taken[room] += field.room[cut, side, point]
        if taken[room] > field.limit[room]:
            return NEVER, -1, state
    placed[operand] += 1
    if room >= 0 and not field.stays[room] and not is_open(field, room, placed):
        taken[room] = 0.0
    state += step
    if operand == field.write:
        state += (1 if field.after[cut, point] else 0) - partial
    return cost, cut, state


@compiled
def sweep(
    field: Field,
    seed_point: np.ndarray,
    seed_state: np.ndarray,
    seed_spent: np.ndarray,
    seed_taken: np.ndarray,
    heads: np.ndarray,
    budget: int,
    most: int,
) -> tuple[int, Trail]:
    """All labels from some seeds whose bound is within the budget, and how many; -1 where that is more than `most`.

    The parent of a label that began as a seed is -1 less the number of the seed. `heads` holds -1 for every state and
    point, and holds the first label of each place at the end.
    """
    operands, points = len(field.first) - 1, field.cost.shape[2]
    place_of = np.empty(operands, np.int64)
    states = 2
    for operand in range(operands):
        place_of[operand] = states
        states *= field.first[operand + 1] - field.first[operand] + 1
    labels = empty_trail(1024, len(field.limit))
    placed = np.zeros(operands, np.int64)
    taken = np.zeros(len(field.limit), np.float64)
    count = 0
    for seed in range(len(seed_point)):
        state, point = seed_state[seed], seed_point[seed]
        placed_in(field, state, placed)
        rest = remaining(field, placed, state % 2, point)
        if rest >= NEVER or seed_spent[seed] + rest > budget:
            continue
        taken[:] = seed_taken[seed, :]
        if is_beaten(labels, heads, state * points + point, seed_spent[seed], taken):
            continue
        if count == len(labels.spent):
            labels = grown_trail(labels, count)
        enter(labels, heads, count, state * points + point, (seed_spent[seed], state, point, -1 - seed, -1), taken)
        count += 1
    for point in range(points):
        for state in field.order:
            label = int(heads[state * points + point])
            while label >= 0:
                if count > most:
                    return -1, labels
                placed_in(field, state, placed)
                for move in range(operands + len(field.shape)):
                    taken[:] = labels.taken[label, :]
                    spent, target, new_state, action = int(labels.spent[label]), point, int(state), -1
                    if move < operands:
                        cost, action, new_state = place_next(field, move, place_of[move], state, point, placed, taken)
                        if cost >= NEVER:
                            continue
                        spent += cost
                    else:
                        axis = move - operands
                        if point // field.strides[axis] % field.shape[axis] + 1 >= field.shape[axis]:
                            continue
                        target = point + field.strides[axis]
                    rest = remaining(field, placed, new_state % 2, target)
                    if move < operands:
                        placed[move] -= 1
                    if rest >= NEVER or spent + rest > budget:
                        continue
                    place = new_state * points + target
                    if is_beaten(labels, heads, place, spent, taken):
                        continue
                    if count == len(labels.spent):
                        labels = grown_trail(labels, count)
                    enter(labels, heads, count, place, (spent, new_state, target, label, action), taken)
                    count += 1
                label = int(labels.following[label])
    return count, labels

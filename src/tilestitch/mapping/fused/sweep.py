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

from tilestitch.base.jit import compiled, tiered
from tilestitch.mapping.tree.labels import NEVER, is_beaten, is_open, remaining


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


class Swept(NamedTuple):
    """The labels of a sweep by number; those that are dead were dropped."""

    spent: np.ndarray
    state: np.ndarray
    point: np.ndarray
    parent: np.ndarray  # below 0: began as seed number -1 - parent
    action: np.ndarray  # the cut that was placed, or -1
    following: np.ndarray
    dead: np.ndarray
    taken: np.ndarray


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


@tiered
def _empty(size: int, rooms: int) -> Swept:
    return Swept(
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.zeros(size, np.bool_),
        np.empty((size, rooms), np.float64),
    )


@tiered
def _grown(old: Swept, used: int) -> Swept:
    new = _empty(2 * used, old.taken.shape[1])
    new.spent[:used], new.state[:used], new.point[:used] = old.spent, old.state, old.point
    new.parent[:used], new.action[:used], new.following[:used] = old.parent, old.action, old.following
    new.dead[:used] = old.dead
    new.taken[:used] = old.taken
    return new


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
) -> tuple[int, Swept]:
    """All labels from some seeds whose bound is within the budget, and how many; -1 where that is more than `most`.

    `heads` holds -1 for every state and point, and holds the first label of each place at the end.
    """
    operands, points = len(field.first) - 1, field.cost.shape[2]
    place_of = np.empty(operands, np.int64)
    states = 2
    for operand in range(operands):
        place_of[operand] = states
        states *= field.first[operand + 1] - field.first[operand] + 1
    labels = _empty(1024, len(field.limit))
    placed = np.zeros(operands, np.int64)
    taken = np.zeros(len(field.limit), np.float64)
    count = 0
    for seed in range(len(seed_point)):
        state, point = seed_state[seed], seed_point[seed]
        for operand in range(operands):
            placed[operand] = state // place_of[operand] % (field.first[operand + 1] - field.first[operand] + 1)
        rest = remaining(field, placed, state % 2, point)
        if rest >= NEVER or seed_spent[seed] + rest > budget:
            continue
        taken[:] = seed_taken[seed, :]
        if is_beaten(labels, heads, state * points + point, seed_spent[seed], taken):
            continue
        if count == len(labels.spent):
            labels = _grown(labels, count)
        labels.spent[count], labels.state[count], labels.point[count] = seed_spent[seed], state, point
        labels.parent[count], labels.action[count], labels.dead[count] = -1 - seed, -1, False
        labels.taken[count, :] = taken
        labels.following[count] = heads[state * points + point]
        heads[state * points + point] = count
        count += 1
    for point in range(points):
        for state in field.order:
            label = heads[state * points + point]
            while label >= 0:
                if count > most:
                    return -1, labels
                partial = state % 2
                for operand in range(operands):
                    size = field.first[operand + 1] - field.first[operand] + 1
                    placed[operand] = state // place_of[operand] % size
                for move in range(operands + len(field.shape)):
                    taken[:] = labels.taken[label, :]
                    spent, target, new_state, after, action = int(labels.spent[label]), point, state, partial, -1
                    if move < operands:
                        cut = field.first[move] + placed[move]
                        if cut >= field.first[move + 1]:
                            continue
                        side = partial if move == field.write else 0
                        if field.cost[cut, side, point] >= NEVER:
                            continue
                        spent += field.cost[cut, side, point]
                        room = int(field.shared[cut])
                        if room >= 0:
                            taken[room] += field.room[cut, side, point]
                            if taken[room] > field.limit[room]:
                                continue
                        placed[move] += 1
                        if room >= 0 and not field.stays[room] and not is_open(field, room, placed):
                            taken[room] = 0.0
                        action, new_state = cut, state + place_of[move]
                        if move == field.write:
                            after = 1 if field.after[cut, point] else 0
                            new_state += after - partial
                    else:
                        axis = move - operands
                        if point // field.strides[axis] % field.shape[axis] + 1 >= field.shape[axis]:
                            continue
                        target = point + field.strides[axis]
                    rest = remaining(field, placed, after, target)
                    if move < operands:
                        placed[move] -= 1
                    if rest >= NEVER or spent + rest > budget:
                        continue
                    if is_beaten(labels, heads, new_state * points + target, spent, taken):
                        continue
                    if count == len(labels.spent):
                        labels = _grown(labels, count)
                    labels.spent[count], labels.state[count], labels.point[count] = spent, new_state, target
                    labels.parent[count], labels.action[count], labels.dead[count] = label, action, False
                    labels.taken[count, :] = taken
                    labels.following[count] = heads[new_state * points + target]
                    heads[new_state * points + target] = count
                    count += 1
                label = labels.following[label]
    return count, labels

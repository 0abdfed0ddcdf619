"""The search itself: labels on the lattice of tiles, the least bound first.

A label stands at a tile, knows which cuts are placed, whether the last cut of the result passes partial sums on, what
the placed cuts cost, and the room taken in every memory that operands share as long as some of them have no cut there.
It goes on by placing the next cut of an operand, or by multiplying one loop by one prime. Its bound is its cost plus,
of every operand, the least that its other cuts cost from here if no memory were shared. A label that another one at the
same place beats in cost and in every room is dropped. The first complete label that is taken has the least cost of all.
"""

from typing import NamedTuple, Protocol

import numpy as np

from tilestitch.base.jit import compiled, inner, lending, tiered
from tilestitch.mapping.tree.waiting import Order, chain_of, pop, push

FOUND, NOTHING, STOPPED = 0, 1, 2  # the least; there is none; more labels than allowed
NEVER = 2**61  # what cannot be; three times as much is still a number


class Cuts(Protocol):
    """What tells which cuts are left, and what they cost at least: of a problem, and of a sweep of fused operators."""

    @property
    def shared(self) -> np.ndarray: ...
    @property
    def first(self) -> np.ndarray: ...
    @property
    def write(self) -> int: ...
    @property
    def togo(self) -> np.ndarray: ...


class Problem(NamedTuple):
    """What is searched; costs are indexed by cut, whether partial sums arrive, and point."""

    cost: np.ndarray
    room: np.ndarray  # bits that a cut takes
    after: np.ndarray  # by cut and point: whether partial sums go on from there
    shared: np.ndarray  # by cut: which of the shared memories it lies in, or -1
    limit: np.ndarray  # by shared memory: its bits
    first: np.ndarray  # by operand: its first cut; one more at the end
    write: int  # the operand that is the result
    togo: np.ndarray  # the least that a cut and the later ones of its operand cost from a point on
    strides: np.ndarray  # by axis of the lattice
    shape: np.ndarray
    starts_partial: bool  # whether partial sums come from the units
    is_restricted: bool  # whether any of the following forbids anything
    free: np.ndarray  # by cut and axis of the lattice: whether it may be stepped along while the cut is the next one
    place: np.ndarray  # by cut: the chain whose only cut is the place of its memory, or -1
    follows: np.ndarray  # by cut and chain: whether the cut comes only after this chain, which is a place
    alone: np.ndarray  # by operand and axis: whether the loop leaves the operand alone
    allowed: np.ndarray  # by point: whether an order that is given comes to it
    ceiling: int  # what a chain has to cost less than


class Trail(NamedTuple):
    """Labels by number: what every search knows of one, and what it came from."""

    spent: np.ndarray
    state: np.ndarray  # which cuts are placed, and whether partial sums go on
    point: np.ndarray
    parent: np.ndarray
    action: np.ndarray  # the cut that was placed, or -1
    following: np.ndarray  # the next label at the same place
    dead: np.ndarray  # it was dropped for a better one
    taken: np.ndarray  # by shared memory


class Labels(NamedTuple):
    """Every label that was made, by its number, and the heap of those that wait."""

    trail: Trail
    bound: np.ndarray
    rank: np.ndarray  # how far it is: of equal bounds the farthest goes first
    heap: np.ndarray


@tiered
def empty_trail(size: int, components: int) -> Trail:
    return Trail(
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.bool_),
        np.empty((size, components), np.float64),
    )


@tiered
def grown_trail(old: Trail, used: int) -> Trail:
    """The same labels with room for twice as many."""
    new = empty_trail(2 * used, old.taken.shape[1])
    copy_trail(old, new, used)
    return new


@inner
def copy_trail(old: Trail, new: Trail, used: int) -> None:
    """Write so many labels where there is more room."""
    new.spent[:used], new.state[:used], new.point[:used] = old.spent, old.state, old.point
    new.parent[:used], new.action[:used], new.following[:used] = old.parent, old.action, old.following
    new.dead[:used], new.taken[:used] = old.dead, old.taken


@lending
def enter(
    trail: Trail, heads: np.ndarray, label: int, place: int, of: tuple[int, int, int, int, int], taken: np.ndarray
) -> None:
    """Write a label as the first at its place; `of` are spent, state, point, parent and action."""
    trail.spent[label], trail.state[label], trail.point[label], trail.parent[label], trail.action[label] = of
    trail.dead[label] = False
    for component in range(len(taken)):
        trail.taken[label, component] = taken[component]
    trail.following[label] = heads[place]
    heads[place] = label


@tiered
def empty(size: int, components: int) -> Labels:
    return Labels(
        empty_trail(size, components), np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    )


@tiered
def order_of(labels: Labels) -> Order:
    """The least bound first."""
    return Order(labels.bound, labels.bound, labels.bound, labels.rank)


@tiered
def grown(old: Labels, used: int) -> Labels:
    """The same labels with room for twice as many."""
    new = empty(2 * used, old.trail.taken.shape[1])
    copy_trail(old.trail, new.trail, used)
    new.bound[:used], new.rank[:used], new.heap[:used] = old.bound, old.rank, old.heap
    return new


@lending
def remaining(problem: Cuts, placed: np.ndarray, partial: int, point: int) -> int:
    """The least that all cuts that are not placed cost from a point, if no memory were shared."""
    total = 0
    for operand in range(len(placed)):
        cut = problem.first[operand] + placed[operand]
        if cut < problem.first[operand + 1]:
            least = problem.togo[cut, partial if operand == problem.write else 0, point]
            if least >= NEVER:
                return NEVER
            total += least
    return total


@lending
def is_open(problem: Cuts, component: int, placed: np.ndarray) -> bool:
    """Whether an operand that shares a memory has no cut there yet."""
    for operand in range(len(placed)):
        for cut in range(problem.first[operand] + placed[operand], problem.first[operand + 1]):
            if problem.shared[cut] == component:
                return True
    return False


@lending
def is_beaten(trail: Trail, heads: np.ndarray, place: int, spent: int, taken: np.ndarray) -> bool:
    """Whether a label at this place is at least as good; if not, those that the new one beats are dropped."""
    other = heads[place]
    before = -1
    while other >= 0:
        better = trail.spent[other] <= spent
        worse = trail.spent[other] >= spent
        for component in range(len(taken)):
            better = better and trail.taken[other, component] <= taken[component]
            worse = worse and trail.taken[other, component] >= taken[component]
        if better:
            return True
        if worse:
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
def is_free(problem: Problem, placed: np.ndarray, point: int, axis: int) -> bool:
    """Whether a loop may go on from a point.

    A row of windows takes one loop. From the place of a memory to the cut of an operand there, loops leave it alone.
    """
    if not problem.is_restricted:
        return True
    if not problem.allowed[point + problem.strides[axis]]:
        return False
    for operand in range(len(placed)):
        for cut in range(problem.first[operand] + placed[operand], problem.first[operand + 1]):
            if cut == problem.first[operand] + placed[operand] and not problem.free[cut, axis]:
                return False
            if problem.place[cut] >= 0 and placed[problem.place[cut]] > 0 and not problem.alone[operand, axis]:
                return False
    return True


@lending
def place_cut(problem: Problem, placed: np.ndarray, operand: int, partial: int, point: int, taken: np.ndarray) -> int:
    """Place the next cut of an operand: what it costs, `taken` and `placed` as they are then; NEVER where it cannot."""
    cut = problem.first[operand] + placed[operand]
    if cut >= problem.first[operand + 1]:
        return NEVER
    for chain in range(problem.write + 1, len(placed)):
        if problem.follows[cut, chain] and placed[chain] == 0:
            return NEVER
    side = partial if operand == problem.write else 0
    component = int(problem.shared[cut])
    placed[operand] += 1
    if component >= 0:
        taken[component] += problem.room[cut, side, point]
        if taken[component] > problem.limit[component]:
            return NEVER
        if not is_open(problem, component, placed):
            taken[component] = 0.0
    return problem.cost[cut, side, point]


@compiled
def least_chain(problem: Problem, weight: int, most: int) -> tuple[int, int, int, np.ndarray]:
    """How it ended, the least cost or a bound of it, how many labels there were, and rows (cut, point) of the chain.

    Bounds count what is left `weight` times: more than once finds some chain sooner, and proves nothing. Chains that
    cost as much as `problem.ceiling` are as if they were none.
    """
    operands, points = len(problem.first) - 1, problem.cost.shape[2]
    cuts, axes = problem.first[operands], len(problem.shape)
    nothing = np.empty((0, 2), np.int64)
    place_of, states = np.empty(operands, np.int64), 2
    for operand in range(operands):
        place_of[operand] = states
        states *= problem.first[operand + 1] - problem.first[operand] + 1
    heads = np.full(states * points, -1, np.int32)
    labels = empty(1024, len(problem.limit))
    order = order_of(labels)
    placed = np.zeros(operands, np.int64)
    taken = np.zeros(len(problem.limit), np.float64)
    start = 1 if problem.starts_partial else 0
    rest = remaining(problem, placed, start, 0)
    if rest >= NEVER:
        return NOTHING, NEVER, 0, nothing
    count, waiting = 0, 0
    label, move, target, state, spent, new_spent = -1, -1, 0, start, 0, 0
    moves, partial, rank = 0, start, 0
    while True:
        is_needless = rest >= NEVER or new_spent + rest >= problem.ceiling
        if not is_needless and not is_beaten(labels.trail, heads, state * points + target, new_spent, taken):
            if count == len(labels.bound):
                labels = grown(labels, count)
                order = order_of(labels)
            labels.bound[count], labels.rank[count] = new_spent + weight * rest, rank
            action = problem.first[move] + placed[move] - 1 if 0 <= move < operands else -1
            enter(labels.trail, heads, count, state * points + target, (new_spent, state, target, label, action), taken)
            push(labels.heap, order, waiting, count)
            count, waiting = count + 1, waiting + 1
        move, trail = move + 1, labels.trail
        if label < 0 or move >= moves:
            label = -1
            while waiting > 0 and (label < 0 or trail.dead[label]):
                label = pop(labels.heap, order, waiting)
                waiting -= 1
            if label < 0 or trail.dead[label]:
                return NOTHING, NEVER, count, nothing
            if labels.rank[label] // points == cuts:
                return FOUND, trail.spent[label], count, chain_of(trail, label, cuts)
            if count > most:
                return STOPPED, labels.bound[label], count, nothing
            move, moves = 0, operands + axes
        partial, spent, target = trail.state[label] % 2, trail.spent[label], trail.point[label]
        state, rank = trail.state[label], 0
        for operand in range(operands):
            size = problem.first[operand + 1] - problem.first[operand] + 1
            placed[operand] = state // place_of[operand] % size
            rank += placed[operand]
        taken[:] = trail.taken[label, :]
        if move < operands:
            price = place_cut(problem, placed, move, partial, target, taken)
            if price >= NEVER:
                rest = NEVER
                continue
            if move == problem.write:
                after = 1 if problem.after[problem.first[move] + placed[move] - 1, target] else 0
                state += after - partial
                partial = after
            new_spent, state, rank = spent + price, state + place_of[move], (rank + 1) * points + target
        else:
            axis = move - operands
            is_last = target // problem.strides[axis] % problem.shape[axis] + 1 >= problem.shape[axis]
            if is_last or not is_free(problem, placed, target, axis):
                rest = NEVER
                continue
            new_spent, target = spent, target + problem.strides[axis]
            rank = rank * points + target
        rest = remaining(problem, placed, partial, target)

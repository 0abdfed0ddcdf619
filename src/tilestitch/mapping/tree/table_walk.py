"""The checker's walk over tables, compiled: in time, and where cuts depend on the loops between them.

Beginnings of chains are followed from the units outwards, in the order of their length. What a beginning knows of time
is what docs/trees.md#latency says of a tile. Another one of the same place makes it needless if it spent no more, takes
no more room, and none of its numbers is larger: then nothing that comes later makes it slower.
"""

from typing import NamedTuple

import numpy as np

from tilestitch.base.jit import compiled, inner, lending
from tilestitch.mapping.tree.outside_in import NEVER, SETTLED, SURVIVED, TOO_MANY
from tilestitch.mapping.tree.walk_tables import WalkCuts

ENERGY, LATENCY, PRODUCT, SQUARE, FRONT = 0, 1, 2, 3, 4  # what is least; of a front nothing else may be on it
_ROUNDING = 1e-12  # of products of whole numbers below 2^60; what is that close is compared exactly
_MOST_CLOSE = 4096


class Least(NamedTuple):
    """Of each cut and the later ones of its operand the least from a tile on: [cut, whether sums arrive, tile]."""

    price: np.ndarray
    wait: np.ndarray  # once for each crossing
    work: np.ndarray  # what the units stop, as often as they do
    load: np.ndarray  # by port as well


class Target(NamedTuple):
    """What no chain may reach: everything below a value, or what no point of a front is as good as."""

    objective: int
    beside: int  # femtojoules of every chain
    whole: int  # the value of energy or of latency
    product: float  # the value of EDP or of ED2P
    front: np.ndarray  # rows of femtojoules and cycles, in ascending order of energy


class Walk(NamedTuple):
    """Beginnings of chains in the order in which they were found."""

    spent: np.ndarray
    state: np.ndarray  # cuts placed, and whether partial sums go on
    tile: np.ndarray
    following: np.ndarray  # of the same place
    dead: np.ndarray
    taken: np.ndarray  # by shared memory
    alone: np.ndarray
    turn: np.ndarray
    ready: np.ndarray
    busy: np.ndarray  # by port


@compiled
def onwards(cuts: WalkCuts, cost: np.ndarray) -> np.ndarray:
    """The least of these costs, by cut and tile, of each cut and the later ones of its operand from a tile on."""
    operands, tiles = len(cuts.first) - 1, cuts.price.shape[1]
    found = np.full((cuts.first[operands], 2, tiles), NEVER, np.int64)
    for operand in range(operands):
        for cut in range(cuts.first[operand + 1] - 1, cuts.first[operand] - 1, -1):
            is_last = cut == cuts.first[operand + 1] - 1
            for side in range(2):
                for tile in range(tiles - 1, -1, -1):
                    least = NEVER
                    if cuts.possible[cut, side, tile]:
                        after = 1 if cuts.partial[cut, tile] else 0
                        least = cost[cut, tile] + (0 if is_last else found[cut + 1, after, tile])
                    for prime in range(len(cuts.up)):
                        if cuts.up[prime, tile] >= 0:
                            least = min(least, found[cut, side, cuts.up[prime, tile]])
                    found[cut, side, tile] = min(least, NEVER)
    return found


@compiled
def broken_onwards(cuts: WalkCuts, cost: np.ndarray, found: np.ndarray) -> int:
    """On how many edges a potential is more than the edge costs and the potential behind it."""
    operands, tiles = len(cuts.first) - 1, cuts.price.shape[1]
    broken = 0
    for operand in range(operands):
        for cut in range(cuts.first[operand], cuts.first[operand + 1]):
            is_last = cut == cuts.first[operand + 1] - 1
            for side in range(2):
                for tile in range(tiles):
                    here = found[cut, side, tile]
                    if cuts.possible[cut, side, tile]:
                        after = 1 if cuts.partial[cut, tile] else 0
                        behind = 0 if is_last else found[cut + 1, after, tile]
                        broken += 1 if here > min(NEVER, cost[cut, tile] + behind) else 0
                    for prime in range(len(cuts.up)):
                        if cuts.up[prime, tile] >= 0 and here > found[cut, side, cuts.up[prime, tile]]:
                            broken += 1
    return broken


@inner
def _room_for(size: int, memories: int, ports: int) -> Walk:
    return Walk(
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.zeros(size, np.bool_),
        np.zeros((size, memories), np.int64),
        np.zeros(size, np.int64),
        np.zeros(size, np.int64),
        np.zeros(size, np.int64),
        np.zeros((size, ports), np.int64),
    )


@inner
def _longer(old: Walk, used: int) -> Walk:
    new = _room_for(2 * used, old.taken.shape[1], old.busy.shape[1])
    new.spent[:used], new.state[:used], new.tile[:used] = old.spent, old.state, old.tile
    new.following[:used], new.dead[:used], new.taken[:used] = old.following, old.dead, old.taken
    new.alone[:used], new.turn[:used], new.ready[:used] = old.alone, old.turn, old.ready
    new.busy[:used] = old.busy
    return new


@lending
def _is_below(target: Target, spent_fj: int, cycles: int) -> bool:
    """Whether an energy and a latency are below the target, or too close to it to say."""
    if target.objective == ENERGY:
        return spent_fj < target.whole
    if target.objective == LATENCY:
        return cycles < target.whole
    if target.objective == FRONT:
        low, high = 0, len(target.front)  # of the points with no more energy the last one is the fastest
        while low < high:
            middle = (low + high) // 2
            if target.front[middle, 0] <= spent_fj:
                low = middle + 1
            else:
                high = middle
        return low == 0 or target.front[low - 1, 1] > cycles
    value = float(spent_fj) * cycles
    if target.objective == SQUARE:
        value *= cycles
    return value < target.product * (1 + _ROUNDING)


@lending
def _is_free(cuts: WalkCuts, placed: np.ndarray, tile: int, prime: int) -> bool:
    """Whether a loop may go on: in a row of windows its own, behind a place those that leave its operands alone."""
    loop = cuts.loop[prime]
    if not cuts.allowed[cuts.up[prime, tile]]:
        return False
    for operand in range(len(placed)):
        following = cuts.first[operand] + placed[operand]
        if following < cuts.first[operand + 1] and cuts.row[following] >= 0 and cuts.row[following] != loop:
            return False
        for cut in range(following, cuts.first[operand + 1]):
            if cuts.place[cut] >= 0 and placed[cuts.place[cut]] == 1 and cuts.moves[operand, loop]:
                return False
    return True


@lending
def _is_wanted(cuts: WalkCuts, memory: int, placed: np.ndarray) -> bool:
    """Whether an operand has yet to place its cut in a shared memory."""
    for operand in range(len(placed)):
        for cut in range(cuts.first[operand] + placed[operand], cuts.first[operand + 1]):
            if cuts.shared[cut] == memory:
                return True
    return False


@lending
def _forget(cuts: WalkCuts, placed: np.ndarray, busy: np.ndarray) -> None:
    """Forget how busy ports are that no cut needs any more."""
    for port in range(len(busy)):
        is_needed = False
        for operand in range(len(placed)):
            for cut in range(cuts.first[operand] + placed[operand], cuts.first[operand + 1]):
                is_needed = is_needed or cuts.uses[port, cut]
        if not is_needed:
            busy[port] = 0


@lending
def _is_needless(
    walk: Walk, heads: np.ndarray, at: int, spent: int, pace: tuple[int, int, int], busy: np.ndarray, taken: np.ndarray
) -> bool:
    """Whether another one of a place is no worse in anything; those that are no better in anything are let go."""
    other = heads[at]
    alone, turn, ready = pace
    while other >= 0:
        if not walk.dead[other]:
            no_more = walk.spent[other] <= spent and walk.alone[other] <= alone and walk.turn[other] <= turn
            no_less = walk.spent[other] >= spent and walk.alone[other] >= alone and walk.turn[other] >= turn
            no_more = no_more and walk.ready[other] <= ready
            no_less = no_less and walk.ready[other] >= ready
            if no_more or no_less:
                for memory in range(len(taken)):
                    no_more = no_more and walk.taken[other, memory] <= taken[memory]
                    no_less = no_less and walk.taken[other, memory] >= taken[memory]
                for port in range(len(busy)):
                    no_more = no_more and walk.busy[other, port] <= busy[port]
                    no_less = no_less and walk.busy[other, port] >= busy[port]
            if no_more:
                return True
            if no_less:
                walk.dead[other] = True
        other = walk.following[other]
    return False


@lending
def _least_after(
    cuts: WalkCuts,
    least: Least,
    target: Target,
    placed: np.ndarray,
    partial: int,
    tile: int,
    so_far: tuple[int, int, int, int],
    busy: np.ndarray,
) -> tuple[int, int]:
    """What no chain that goes on from here comes below, in energy and in cycles."""
    spent, alone, turn, ready = so_far
    others = cuts.left[tile] - 1
    waits, work = 0, 0
    for operand in range(len(placed)):
        cut = cuts.first[operand] + placed[operand]
        if cut < cuts.first[operand + 1]:
            side = partial if operand == cuts.write else 0
            spent = min(NEVER, spent + least.price[cut, side, tile])
            if target.objective != ENERGY and spent < NEVER:
                waits += least.wait[cut, side, tile]
                work += least.work[cut, side, tile]
    if target.objective == ENERGY or spent >= NEVER:
        return spent, 0
    cycles = max(alone + others * turn + waits, alone + others * ready + work)
    for port in range(len(busy)):
        total = (others + 1) * busy[port]
        for operand in range(len(placed)):
            cut = cuts.first[operand] + placed[operand]
            if cut < cuts.first[operand + 1]:
                total += least.load[port, cut, partial if operand == cuts.write else 0, tile]
        cycles = max(cycles, total)
    return spent, cycles


@compiled
def walked(cuts: WalkCuts, least: Least, target: Target, most: int) -> tuple[int, np.ndarray, int]:
    """How it ended, rows (femtojoules without what all pay, cycles) of chains that are or may be better, and how many
    beginnings there were.

    One row where a chain is better; those too close to a product to say are all there, and the walk goes on.
    """
    operands, tiles = len(cuts.first) - 1, cuts.price.shape[1]
    memories, ports, primes = len(cuts.limit), len(cuts.busy), len(cuts.up)
    in_state, states = np.ones(operands, np.int64), 2
    for operand in range(operands):
        in_state[operand] = states
        states *= cuts.first[operand + 1] - cuts.first[operand] + 1
    heads = np.full(states * tiles, -1, np.int32)
    walk = _room_for(1024, memories, ports)
    close = np.empty((_MOST_CLOSE, 2), np.int64)
    many = 0
    placed, taken, busy = np.zeros(operands, np.int64), np.zeros(memories, np.int64), cuts.busy.copy()
    timed = target.objective != ENERGY
    start = (0, cuts.alone, cuts.turn, 1)
    bound, cycles = _least_after(cuts, least, target, placed, cuts.from_units, 0, start, busy)
    if bound >= NEVER or not _is_below(target, bound + target.beside, cycles):
        return SETTLED, close[:0], 0
    walk.spent[0], walk.state[0], walk.tile[0], walk.following[0] = 0, cuts.from_units, 0, -1
    if timed:
        walk.alone[0], walk.turn[0], walk.ready[0] = cuts.alone, cuts.turn, 1
        walk.busy[0] = busy
    heads[cuts.from_units * tiles] = 0
    used, label = 1, 0
    while label < used:
        if walk.dead[label]:
            label += 1
            continue
        state, here = walk.state[label], walk.tile[label]
        partial = state % 2
        for move in range(operands + primes):
            for operand in range(operands):
                placed[operand] = state // in_state[operand] % (cuts.first[operand + 1] - cuts.first[operand] + 1)
            taken[:], busy[:] = walk.taken[label], walk.busy[label]
            spent, alone, turn, ready = walk.spent[label], walk.alone[label], walk.turn[label], walk.ready[label]
            new_state, target_tile, passes = state, here, partial
            if move < operands:
                cut = cuts.first[move] + placed[move]
                side = partial if move == cuts.write else 0
                if cut == cuts.first[move + 1] or not cuts.possible[cut, side, here]:
                    continue
                if cuts.place[cut] >= 0 and placed[cuts.place[cut]] == 0:
                    continue
                placed[move] += 1
                memory = int(cuts.shared[cut])
                if memory >= 0:
                    taken[memory] += cuts.room[cut, side, here]
                    if taken[memory] > cuts.limit[memory]:
                        continue
                    if not _is_wanted(cuts, memory, placed):
                        taken[memory] = 0
                spent, new_state = spent + cuts.price[cut, here], state + in_state[move]
                if move == cuts.write:
                    passes = 1 if cuts.partial[cut, here] else 0
                    new_state += passes - partial
                if timed:
                    wait = cuts.wait[cut, here]
                    alone += wait
                    if not cuts.hides[cut]:
                        ready += wait
                    turn = max(turn, ready, wait)
                    for port in range(ports):
                        busy[port] += cuts.load[port, cut, here]
                        turn = max(turn, busy[port])
                    _forget(cuts, placed, busy)
            else:
                prime = move - operands
                if cuts.up[prime, here] < 0 or not _is_free(cuts, placed, here, prime):
                    continue
                target_tile = cuts.up[prime, here]
                if timed:
                    times = cuts.left[here] // cuts.left[target_tile]
                    more = (times - 1) * turn
                    alone, ready, turn = alone + more, ready + more, times * turn
                    busy *= times
            so_far = (spent, alone, turn, ready)
            bound, cycles = _least_after(cuts, least, target, placed, passes, target_tile, so_far, busy)
            if bound >= NEVER or not _is_below(target, bound + target.beside, cycles):
                continue
            is_complete = True
            for operand in range(operands):
                is_complete = is_complete and placed[operand] == cuts.first[operand + 1] - cuts.first[operand]
            if is_complete:
                close[many, 0], close[many, 1] = spent, alone
                value = float(spent + target.beside) * alone * (alone if target.objective == SQUARE else 1)
                is_product = target.objective == PRODUCT or target.objective == SQUARE
                if not is_product or value < target.product * (1 - _ROUNDING):
                    return SURVIVED, close[many : many + 1].copy(), used
                is_known = False
                for one in range(many):
                    is_known = is_known or (close[one, 0] == spent and close[one, 1] == alone)
                many += 0 if is_known else 1
                if many == _MOST_CLOSE:
                    return TOO_MANY, close[:0], used
                continue
            at = new_state * tiles + target_tile
            if _is_needless(walk, heads, at, spent, (alone, turn, ready), busy, taken):
                continue
            if used >= most:
                return TOO_MANY, close[:0], used
            if used == len(walk.spent):
                walk = _longer(walk, used)
            walk.spent[used], walk.state[used], walk.tile[used] = spent, new_state, target_tile
            walk.following[used], walk.dead[used] = heads[at], False
            walk.taken[used], walk.busy[used] = taken, busy
            walk.alone[used], walk.turn[used], walk.ready[used] = alone, turn, ready
            heads[at] = used
            used += 1
        label += 1
    return SETTLED, close[:many].copy(), used

"""The checker's walk over tables, compiled: in time, and where cuts depend on the loops between them.

Beginnings of chains are followed from the units outwards, in the order of their length. What a beginning knows of time
is what docs/trees.md#latency says of a tile. Another one of the same place makes it needless if it spent no more, takes
no more room, and none of its numbers is larger: then nothing that comes later makes it slower.
"""

from typing import NamedTuple

import numpy as np

from tilestitch.base.jit import compiled, inner, lending
from tilestitch.mapping.tree.choice_cuts import above_larger, from_larger
from tilestitch.mapping.tree.outside_in import NEVER, SETTLED, SURVIVED, TOO_MANY
from tilestitch.mapping.tree.pace import FOLLOWED, INPUTS, THROUGH
from tilestitch.mapping.tree.walk_tables import AFTER, BEFORE, BRINGS, OCCUPIED, STOPPED, STOPPING, TRAILING, WalkCuts

# of a pace; between them the most that units stop, before and after, and of operands what `walk_tables` has as kinds
_TURN, _WORK, _AHEAD, _LATE = 0, 1, 2, 6
_STOPPED = _LATE + FOLLOWED
_BRINGS = _STOPPED + INPUTS
_BEGINS = _BRINGS + FOLLOWED
_WAITS = _BEGINS + INPUTS
_APART = _WAITS + INPUTS
_SUMS = _APART + 1
ENERGY, LATENCY, PRODUCT, SQUARE, FRONT = 0, 1, 2, 3, 4  # what is least; of a front nothing else may be on it
_ROUNDING = 1e-12  # of products of whole numbers below 2^60; what is that close is compared exactly
_MOST_CLOSE = 4096


class Least(NamedTuple):
    """Of each cut and the later ones of its operand the least from a tile on: [cut, whether sums arrive, tile, *]."""

    price: np.ndarray  # one
    sums: np.ndarray  # by column; before and after all steps once, else as often as they come
    column: np.ndarray  # by operand and sum, up to those of occupied ports: where the operand has it, or -1


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
    pace: np.ndarray  # by the numbers of one tile, and every sum


@lending
def _from_here(cuts: WalkCuts, operand: int, cut: int, costs: np.ndarray, many: int, found: np.ndarray) -> None:
    """Write what the cuts of an operand from one on cost where that is placed at each tile."""
    for side in range(2 if operand == cuts.write else 1):
        for tile in range(costs.shape[1]):
            leaving = 1 if cuts.partial[cut, tile] else 0
            for number in range(many):
                cost = NEVER
                if cuts.possible[cut, side, tile]:
                    cost = costs[cut, tile, number]
                    if cut < cuts.first[operand + 1] - 1:
                        cost += found[cut + 1, leaving, tile, number]
                found[cut, side, tile, number] = min(NEVER, cost)


@lending
def _broken_here(cuts: WalkCuts, operand: int, cut: int, costs: np.ndarray, many: int, found: np.ndarray) -> int:
    """Over how many edges that place a cut a potential falls by more than the edge costs."""
    broken, is_last = 0, cut == cuts.first[operand + 1] - 1
    for side in range(2 if operand == cuts.write else 1):
        for tile in range(costs.shape[1]):
            if cuts.possible[cut, side, tile]:
                leaving = 1 if cuts.partial[cut, tile] else 0
                for number in range(many):
                    behind = 0 if is_last else found[cut + 1, leaving, tile, number]
                    broken += found[cut, side, tile, number] > min(NEVER, costs[cut, tile, number] + behind)
    return broken


@compiled
def onwards(cuts: WalkCuts, costs: np.ndarray, many: np.ndarray) -> np.ndarray:
    """The least of each of these costs, of each cut and the later ones of its operand from a tile on.

    `costs` is by cut, tile and cost, of which an operand has so `many`; what is found by cut, whether sums arrive (of
    results), tile and cost. What an operand does not have, and partial sums of what is read, are not written.
    """
    found = np.empty((len(costs), 2, *costs.shape[1:]), np.int64)
    for operand in range(len(many)):
        for cut in range(cuts.first[operand + 1] - 1, cuts.first[operand] - 1, -1):
            _from_here(cuts, operand, cut, costs, many[operand], found)
            for side in range(2 if operand == cuts.write else 1):
                from_larger(cuts.up, many[operand], found[cut, side])
    return found


@compiled
def broken_onwards(cuts: WalkCuts, costs: np.ndarray, many: np.ndarray, found: np.ndarray) -> int:
    """On how many edges a potential is more than the edge costs and the potential behind it."""
    broken = 0
    for operand in range(len(many)):
        for cut in range(cuts.first[operand], cuts.first[operand + 1]):
            broken += _broken_here(cuts, operand, cut, costs, many[operand], found)
            for side in range(2 if operand == cuts.write else 1):
                broken += above_larger(cuts.up, many[operand], found[cut, side])
    return broken


@inner
def _room_for(size: int, memories: int, numbers: int) -> Walk:
    return Walk(
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.zeros(size, np.bool_),
        np.zeros((size, memories), np.int64),
        np.zeros((size, numbers), np.int64),
    )


@inner
def _longer(old: Walk, used: int) -> Walk:
    new = _room_for(2 * used, old.taken.shape[1], old.pace.shape[1])
    new.spent[:used], new.state[:used], new.tile[:used] = old.spent, old.state, old.tile
    new.following[:used], new.dead[:used], new.taken[:used] = old.following, old.dead, old.taken
    new.pace[:used] = old.pace
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
def _is_its_turn(cuts: WalkCuts, placed: np.ndarray, cut: int) -> bool:
    """Whether all places that a cut waits for are behind."""
    waits = 0
    for operand in range(len(placed)):
        waits += cuts.waits[cut, operand] and placed[operand] == 0
    return waits == 0


@lending
def _is_wanted(cuts: WalkCuts, memory: int, placed: np.ndarray) -> bool:
    """Whether an operand has yet to place its cut in a shared memory."""
    for operand in range(len(placed)):
        for cut in range(cuts.first[operand] + placed[operand], cuts.first[operand + 1]):
            if cuts.shared[cut] == memory:
                return True
    return False


@lending
def _forget(cuts: WalkCuts, placed: np.ndarray, pace: np.ndarray) -> None:
    """Forget sums to which no cut adds any more."""
    for number in range(len(cuts.kind)):
        is_needed = False
        for operand in range(len(placed)):
            for cut in range(cuts.first[operand] + placed[operand], cuts.first[operand + 1]):
                is_needed = is_needed or cuts.uses[number, cut]
        if not is_needed:
            pace[_SUMS + number] = 0


@lending
def _most_of(kind: int) -> int:
    """Where a pace has the most of a kind."""
    if kind == OCCUPIED:
        return _TURN
    return _AHEAD + 1 + kind if kind < OCCUPIED else _STOPPED + kind - STOPPED


@lending
def _join(cuts: WalkCuts, number: int, pace: np.ndarray) -> None:
    """What trails where the units stop for an input is a part of that stop."""
    for row in range(len(cuts.kind)):
        cycles = pace[_SUMS + row]
        if cuts.kind[row] == TRAILING + number and cycles > 0:
            for to in cuts.joins[row]:
                if to >= 0:
                    pace[_SUMS + to] += cycles
            pace[_SUMS + row], pace[_WAITS + number] = 0, 1


@lending
def _place(cuts: WalkCuts, cut: int, tile: int, pace: np.ndarray) -> None:
    """What a cut at a tile makes of its time."""
    if cuts.leads[cut] >= 0:
        _join(cuts, cuts.leads[cut], pace)
    goes_on = cuts.result[cut, tile] == THROUGH and pace[_APART] == 0
    if cuts.result[cut, tile] > 0:
        pace[_APART] = 0
    for kind in range(TRAILING):
        if kind != STOPPING or not goes_on:
            most = _most_of(kind)
            pace[most] = max(pace[most], cuts.single[kind, cut, tile])
    for number in range(len(cuts.kind)):
        if cuts.kind[number] != STOPPING or not goes_on:
            pace[_SUMS + number] += cuts.sums[number, cut, tile]
            if cuts.kind[number] < TRAILING:
                most = _most_of(cuts.kind[number])
                pace[most] = max(pace[most], pace[_SUMS + number])
    if cuts.input[cut] >= 0:
        pace[_WAITS + cuts.input[cut]] = 1
    pace[_TURN] = max(pace[_TURN], pace[_AHEAD] + pace[_AHEAD + 1])
    for number in range(INPUTS):
        if pace[_WAITS + number] > 0:
            pace[_TURN] = max(pace[_TURN], pace[_LATE + number] + pace[_STOPPED + number])


@lending
def _multiply(cuts: WalkCuts, times: int, pace: np.ndarray) -> None:
    """What a loop of so many of its tiles, at least two, makes of the time of one."""
    turn, work = pace[_TURN], pace[_WORK]
    more, second = (times - 1) * turn, work + pace[_AHEAD + 1]
    pace[_AHEAD] = min(pace[_AHEAD] + more, second + work + more - turn)
    for number in range(FOLLOWED):
        begins = max(second, pace[_BRINGS + number])
        pace[_LATE + number] = min(pace[_LATE + number] + more, begins + work + more - turn)
        if pace[_BRINGS + number] > 0:
            pace[_BRINGS + number] += more
    pace[_WORK] += more
    pace[_TURN] *= times
    pace[_APART] = 1
    for number in range(len(cuts.kind)):
        if cuts.kind[number] == OCCUPIED:
            pace[_SUMS + number] *= times
        elif BRINGS <= cuts.kind[number] < BRINGS + FOLLOWED and pace[_SUMS + number] > 0:
            pace[_SUMS + number] += more


@lending
def _is_needless(walk: Walk, heads: np.ndarray, at: int, spent: int, pace: np.ndarray, taken: np.ndarray) -> bool:
    """Whether another one of a place is no worse in anything; those that are no better in anything are let go."""
    other = heads[at]
    while other >= 0:
        if not walk.dead[other]:
            no_more, no_less = walk.spent[other] <= spent, walk.spent[other] >= spent
            for memory in range(len(taken)):
                no_more = no_more and walk.taken[other, memory] <= taken[memory]
                no_less = no_less and walk.taken[other, memory] >= taken[memory]
            for number in range(len(pace)):
                if not no_more and not no_less:
                    break
                no_more = no_more and walk.pace[other, number] <= pace[number]
                no_less = no_less and walk.pace[other, number] >= pace[number]
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
    spent: int,
    pace: np.ndarray,
) -> tuple[int, int]:
    """What no chain that goes on from here comes below, in energy and in cycles."""
    for operand in range(len(placed)):
        cut = cuts.first[operand] + placed[operand]
        if cut < cuts.first[operand + 1]:
            side = partial if operand == cuts.write else 0
            spent = min(NEVER, spent + least.price[cut, side, tile, 0])
    if target.objective == ENERGY or spent >= NEVER:
        return spent, 0
    tiles, turn = cuts.left[tile], pace[_TURN]
    before, after, cycles = pace[_AHEAD + 1 + BEFORE], pace[_AHEAD + 1 + AFTER], tiles * turn
    for number in range(least.column.shape[1]):
        kind, more = cuts.kind[number], 0
        for operand in range(len(placed)):
            cut, column = cuts.first[operand] + placed[operand], least.column[operand, number]
            if column >= 0 and cut < cuts.first[operand + 1]:
                more += least.sums[cut, partial if operand == cuts.write else 0, tile, column]
        here = pace[_SUMS + number]
        if kind == BEFORE:
            before = max(before, here + more)
        elif kind == AFTER:
            after = max(after, here + more)
        else:
            cycles = max(cycles, tiles * (here + (pace[_AHEAD] if kind == STOPPING else 0)) + more)
    for number in range(FOLLOWED):
        late = pace[_LATE + number] + (tiles - 1) * turn
        if tiles > 1:
            begins = max(pace[_WORK] + pace[_AHEAD + 1], pace[_BRINGS + number])
            late = min(late, begins + pace[_WORK] + (tiles - 2) * turn)
        cycles = max(cycles, late + (pace[_BEGINS + number] if number < INPUTS else before) + after)
    return spent, cycles


@compiled
def walked(cuts: WalkCuts, least: Least, target: Target, most: int) -> tuple[int, np.ndarray, int]:
    """How it ended, rows (femtojoules without what all pay, cycles) of chains that are or may be better, and how many
    beginnings there were.

    One row where a chain is better; those too close to a product to say are all there, and the walk goes on.
    """
    operands, tiles = len(cuts.first) - 1, cuts.price.shape[1]
    memories, primes = len(cuts.limit), len(cuts.up)
    in_state, states = np.ones(operands, np.int64), 2
    for operand in range(operands):
        in_state[operand] = states
        states *= cuts.first[operand + 1] - cuts.first[operand] + 1
    heads = np.full(states * tiles, -1, np.int32)
    walk = _room_for(1024, memories, len(cuts.begin))
    close = np.empty((_MOST_CLOSE, 2), np.int64)
    many = 0
    placed, taken, pace = np.zeros(operands, np.int64), np.zeros(memories, np.int64), cuts.begin.copy()
    timed = target.objective != ENERGY
    bound, cycles = _least_after(cuts, least, target, placed, cuts.from_units, 0, 0, pace)
    if bound >= NEVER or not _is_below(target, bound + target.beside, cycles):
        return SETTLED, close[:0], 0
    walk.spent[0], walk.state[0], walk.tile[0], walk.following[0] = 0, cuts.from_units, 0, -1
    if timed:
        walk.pace[0] = pace
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
            taken[:], pace[:], spent = walk.taken[label], walk.pace[label], walk.spent[label]
            new_state, target_tile, passes = state, here, partial
            if move < operands:
                cut = cuts.first[move] + placed[move]
                side = partial if move == cuts.write else 0
                if cut == cuts.first[move + 1] or not cuts.possible[cut, side, here]:
                    continue
                if not _is_its_turn(cuts, placed, cut):
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
                    _place(cuts, cut, here, pace)
                    _forget(cuts, placed, pace)
            else:
                prime = move - operands
                if cuts.up[prime, here] < 0 or not _is_free(cuts, placed, here, prime):
                    continue
                target_tile = cuts.up[prime, here]
                if timed:
                    _multiply(cuts, int(cuts.left[here] // cuts.left[target_tile]), pace)
            bound, cycles = _least_after(cuts, least, target, placed, passes, target_tile, spent, pace)
            if bound >= NEVER or not _is_below(target, bound + target.beside, cycles):
                continue
            is_complete = True
            for operand in range(operands):
                is_complete = is_complete and placed[operand] == cuts.first[operand + 1] - cuts.first[operand]
            if is_complete:
                close[many, 0], close[many, 1] = spent, cycles
                value = float(spent + target.beside) * cycles * (cycles if target.objective == SQUARE else 1)
                is_product = target.objective == PRODUCT or target.objective == SQUARE
                if not is_product or value < target.product * (1 - _ROUNDING):
                    return SURVIVED, close[many : many + 1].copy(), used
                is_known = False
                for one in range(many):
                    is_known = is_known or (close[one, 0] == spent and close[one, 1] == cycles)
                many += 0 if is_known else 1
                if many == _MOST_CLOSE:
                    return TOO_MANY, close[:0], used
                continue
            at = new_state * tiles + target_tile
            if _is_needless(walk, heads, at, spent, pace, taken):
                continue
            if used >= most:
                return TOO_MANY, close[:0], used
            if used == len(walk.spent):
                walk = _longer(walk, used)
            walk.spent[used], walk.state[used], walk.tile[used] = spent, new_state, target_tile
            walk.following[used], walk.dead[used] = heads[at], False
            walk.taken[used], walk.pace[used] = taken, pace
            heads[at] = used
            used += 1
        label += 1
    return SETTLED, close[:many].copy(), used

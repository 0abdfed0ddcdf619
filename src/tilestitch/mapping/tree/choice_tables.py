"""The tables of the checker's walk in time, of one spatial choice after another, compiled.

They are those of `walk_tables` where no windows slide, nothing is stored evenly and no order of loops is asked for.
Those are made with numpy, which takes longer than the walk where a choice has few tiles.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tilestitch.base.jit import compiled, inner, lending
from tilestitch.mapping.tree.choice_cuts import Choice, Task, cut_at, elements_of, leave_partial, taken_choice
from tilestitch.mapping.tree.choice_pace import served_by
from tilestitch.mapping.tree.choice_walk import results_fj
from tilestitch.mapping.tree.crossings import OperandOnTree
from tilestitch.mapping.tree.loads import delayed_by, followed_as
from tilestitch.mapping.tree.outside_in import NEVER
from tilestitch.mapping.tree.pace import ELSE, FOLLOWED, INPUTS, RESULT, RESULTS, THROUGH
from tilestitch.mapping.tree.port_uses import PortUses
from tilestitch.mapping.tree.quick_prices import TOO_MUCH, no_choice
from tilestitch.mapping.tree.walk_tables import (
    AFTER,
    BEFORE,
    BEGINS,
    BRINGS,
    KINDS,
    OCCUPIED,
    STOPPED,
    STOPPING,
    WalkCuts,
)

_MOST_CYCLES = 2.0**53
_LATE = 6  # where a pace has when the next tiles of followed operands begin; kinds behind `OCCUPIED` come behind those
_SUMS = _LATE + FOLLOWED + KINDS - STOPPED + INPUTS + 1  # and where its sums begin
_NOTHING, _INWARDS, _OUTWARDS, _BOTH, _STOPS = range(5)  # what of a crossing's cycles counts


class Pauses(NamedTuple):
    """For what the units stop, and which operands a pace follows."""

    hidden: np.ndarray  # [operand, crossing] whether the units go on meanwhile
    through: np.ndarray  # by crossing of the result: whether it may leave with the tile with which it came
    followed: np.ndarray  # by operand: the number by which a pace follows it
    delays: np.ndarray  # [operand, whether the units stop, number] whose next tile waits until an operand has moved


def pauses_of(operands: Sequence[OperandOnTree]) -> Pauses:
    """The pauses of operands that move anything, the last of which is the result."""
    count, levels = len(operands), max(len(one.memories) for one in operands)
    found = Pauses(
        np.zeros((count, levels), np.bool_),
        np.zeros(levels, np.bool_),
        np.array([followed_as(one) for one in operands], np.int64),
        np.zeros((count, 2, FOLLOWED), np.bool_),
    )
    for number, one in enumerate(operands):
        for crossing in range(len(one.memories)):
            found.hidden[number, crossing] = one.is_hidden(crossing)
            found.through[crossing] |= one.may_go_through(crossing)
        for stops in range(2):
            found.delays[number, stops, list(delayed_by(one, stops=bool(stops)))] = True
    return found


@lending
def _counted(pauses: Pauses, operand: int, crossing: int, kind: int) -> int:
    """Which of a crossing's cycles count as a kind."""
    hides = pauses.hidden[operand, crossing]
    if kind == STOPPING:
        return _NOTHING if hides else _STOPS
    if kind == BEFORE:
        return _INWARDS
    if kind == AFTER:
        return _OUTWARDS
    if kind == OCCUPIED:
        return _BOTH
    if kind < BRINGS:
        return _STOPS if not hides and pauses.followed[operand] <= kind - STOPPED else _NOTHING
    if kind == BRINGS + RESULTS and pauses.followed[operand] == RESULTS and crossing == 0:
        return _OUTWARDS  # at the units sums come in before others have left
    if kind < BEGINS:
        return _BOTH if pauses.delays[operand, 0 if hides else 1, kind - BRINGS] else _NOTHING
    return _INWARDS if pauses.followed[operand] <= kind - BEGINS else _NOTHING


@lending
def _cycles(what: int, inwards: int, outwards: int, behind: int) -> int:
    if what == _INWARDS:
        return inwards
    if what == _OUTWARDS:
        return outwards
    if what == _BOTH:
        return inwards + outwards
    return inwards + outwards + behind if what == _STOPS else 0


@lending
def _tile_of(choice: Choice, number: int, tile: np.ndarray) -> None:
    for loop in range(len(tile)):
        tile[loop] = choice.divisors[loop, number // choice.units[-1, loop] % choice.counts[loop]]


@lending
def _serve(
    task: Task, ports: PortUses, choice: Choice, cut: tuple[int, int], tile: np.ndarray, partial: int,
    served: np.ndarray,
) -> None:  # fmt: skip
    """Write the cycles of every port, inwards and outwards, for one crossing of an operand at a tile."""
    operand, crossing = cut
    over, under, held = choice.over[operand], choice.under[operand], 1.0
    if crossing > 0:
        count, parts = elements_of(task.arrays, over[crossing], under[crossing], operand, tile)
        held = np.rint(count / parts)
    together, apart = elements_of(task.arrays, over[crossing + 1], under[crossing + 1], operand, tile)
    served_by(task.arrays, ports, choice, cut, (held, np.rint(together / apart), partial), served)


@lending
def _follow(
    task: Task, ports: PortUses, pauses: Pauses, choice: Choice, operand: int, crossing: int,
    room: tuple[np.ndarray, np.ndarray], behind: np.ndarray,
) -> None:  # fmt: skip
    """Write what has to follow through memories further in before the units go on, by port."""
    ones, served = room
    is_write = operand == len(task.arrays.axes) - 1
    behind[:] = 0
    for further in range(crossing - 1, -1, -1):
        if not pauses.hidden[operand, further]:
            break
        if not is_write or further == 0:
            starts = 1 if is_write and leave_partial(task.arrays, choice) else 0
            _serve(task, ports, choice, (operand, further), ones, starts, served)
            for port in range(len(behind)):
                behind[port] += int(served[0, port]) + int(served[1, port])


@inner
def _up(choice: Choice) -> tuple[np.ndarray, np.ndarray]:
    """By prime and tile the tile that is so much larger, or -1; and the loop of each prime."""
    tiles = choice.sizes[-1]
    up, loops = np.full((len(choice.primes), tiles), -1, np.int64), np.empty(len(choice.primes), np.int64)
    for prime in range(len(choice.primes)):
        loop = choice.primes[prime, 0]
        loops[prime] = loop
        unit = choice.units[-1, loop]
        for at in range(tiles):
            number = at // unit % choice.counts[loop]
            larger = choice.above[prime, number]
            if larger >= 0:
                up[prime, at] = at + (larger - number) * unit
    return up, loops


@inner
def _shared(task: Task, choice: Choice) -> tuple[np.ndarray, np.ndarray]:
    """By cut which of the shared memories it lies in, or -1; and their rooms, in parts of a bit."""
    number, count = np.full(len(task.size), -1, np.int64), 0
    limit = np.empty(len(task.size), np.int64)
    for memory in range(len(task.size)):
        if task.sharing[memory] > 1:
            number[memory] = count
            fits = task.size[memory] < 2**62 // choice.scale[memory]
            limit[count] = task.size[memory] * choice.scale[memory] if fits else 2**62
            count += 1
    shared = np.full(len(task.memory), -1, np.int64)
    for cut in range(len(task.memory)):
        if task.memory[cut] >= 0:
            shared[cut] = number[task.memory[cut]]
    return shared, limit[:count].copy()


class _Served(NamedTuple):
    """The cycles of every port for each cut, once at each tile; the last row is one iteration with its results."""

    operand: np.ndarray  # by cut
    crossing: np.ndarray  # by cut; -1 where nothing crosses
    cycles: np.ndarray  # [way, cut, port, tile] inwards and outwards
    behind: np.ndarray  # [cut, port] what has to follow before the units go on


@inner
def _used(served: _Served) -> np.ndarray:
    """[way, cut, port] whether any tile takes cycles."""
    _, cuts, many, tiles = served.cycles.shape
    found = np.zeros((2, cuts, many), np.bool_)
    for way in range(2):
        for cut in range(cuts):
            for port in range(many):
                for at in range(tiles):
                    if served.cycles[way, cut, port, at] > 0:
                        found[way, cut, port] = True
                        break
    return found


@lending
def _what(pauses: Pauses, served: _Served, used: np.ndarray, cut: int, port: int, kind: int) -> int:
    """Which of a cut's cycles of a port count as a kind, if there are any."""
    if served.crossing[cut] < 0:
        return _NOTHING
    operand = served.operand[cut]
    what = _counted(pauses, operand, served.crossing[cut], kind)
    most = _cycles(what, used[0, cut, port], used[1, cut, port], served.behind[cut, port])
    return what if most > 0 else _NOTHING


@inner
def _rows(pauses: Pauses, served: _Served, used: np.ndarray) -> np.ndarray:
    """By kind and port the number of its sum, if several cuts use it, or the units' results do; or it is of stops."""
    _, cuts, many, _ = served.cycles.shape
    found, count = np.full((KINDS, many), -1, np.int64), 0
    for kind in range(KINDS):
        for port in range(many):
            users = 0
            for cut in range(cuts):
                users += 1 if _what(pauses, served, used, cut, port, kind) != _NOTHING else 0
            if users > 1 or (users > 0 and kind == STOPPING):
                found[kind, port] = count
                count += 1
    return found


@inner
def _paces(pauses: Pauses, served: _Served) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The most of what does not add up, what does, its kinds, and the pace of one iteration, as `WalkCuts` has them."""
    _, last, many, tiles = served.cycles.shape
    cuts, used = last - 1, _used(served)
    rows = _rows(pauses, served, used)
    count = rows.max() + 1 if rows.size else 0
    single, sums = np.zeros((KINDS, cuts, tiles), np.int64), np.zeros((count, cuts, tiles), np.int64)
    kinds, begin = np.empty(count, np.int64), np.zeros(_SUMS + count, np.int64)
    begin[0], begin[1], begin[2], begin[_LATE : _LATE + FOLLOWED] = 1, 1, 1, 1
    for kind in range(KINDS):
        at_begin = 0 if kind == OCCUPIED else 3 + kind if kind < OCCUPIED else _LATE + FOLLOWED + kind - STOPPED
        for port in range(many):
            row = rows[kind, port]
            if row >= 0:
                kinds[row] = kind
            what = _what(pauses, served, used, cuts, port, kind)
            cycles = _cycles(what, served.cycles[0, cuts, port, 0], served.cycles[1, cuts, port, 0], 0)
            begin[at_begin] = max(begin[at_begin], cycles)
            if row >= 0:
                begin[_SUMS + row] = cycles
            for cut in range(cuts):
                what = _what(pauses, served, used, cut, port, kind)
                if what == _NOTHING:
                    continue
                for at in range(tiles):
                    inwards, outwards = served.cycles[0, cut, port, at], served.cycles[1, cut, port, at]
                    cycles = _cycles(what, inwards, outwards, served.behind[cut, port])
                    if row < 0:
                        single[kind, cut, at] = max(single[kind, cut, at], cycles)
                    else:
                        sums[row, cut, at] = cycles
    return single, sums, kinds, begin


class _Costs(NamedTuple):
    """What cuts cost and hold, as `WalkCuts` has it."""

    price: np.ndarray
    possible: np.ndarray
    partial: np.ndarray
    room: np.ndarray


@lending
def _fill_costs(task: Task, choice: Choice, where: tuple[int, int], tile: np.ndarray, at: int, costs: _Costs) -> bool:
    """Write what a cut costs at a tile; false where that is too much to be compared."""
    operand, cut = where
    own, alone = cut - task.first[operand], 1
    for loop in range(len(tile)):
        alone *= 1 if task.arrays.moving[operand, loop] else tile[loop]
    for side in range(2):
        how = (side, task.final_sums)
        cost, costs.room[cut, side, at], partial = cut_at(task.arrays, choice, operand, own, tile, alone, how)
        if cost < 0:
            return False
        costs.partial[cut, at] = partial == 1
        costs.possible[cut, side, at] = cost < NEVER
        if cost < NEVER:
            costs.price[cut, at] = cost
    return True


@inner
def _fill_served(
    task: Task, ports: PortUses, pauses: Pauses, choice: Choice, costs: _Costs, left: np.ndarray, served: _Served
) -> bool:
    """Write costs and cycles of all cuts; false where there are too many of them to be compared."""
    write, ones = len(task.arrays.axes) - 1, np.ones(len(choice.counts), np.int64)
    tile, here = ones.copy(), np.zeros((2, len(ports.bits)))
    for operand in range(write + 1):
        for cut in range(task.first[operand], task.first[operand + 1]):
            crossing = cut - task.first[operand] + (1 if operand == write else 0)
            served.operand[cut] = operand
            if crossing < task.arrays.levels[operand]:
                served.crossing[cut] = crossing
                if not pauses.hidden[operand, crossing]:
                    _follow(task, ports, pauses, choice, operand, crossing, (ones, here), served.behind[cut])
            for at in range(len(left)):
                _tile_of(choice, at, tile)
                if not _fill_costs(task, choice, (operand, cut), tile, at, costs):
                    return False
                if served.crossing[cut] < 0:
                    continue
                _serve(task, ports, choice, (operand, crossing), tile, int(costs.partial[cut, at]), here)
                for port in range(len(ports.bits)):
                    if (here[0, port] + here[1, port]) * left[at] > _MOST_CYCLES:
                        return False
                    for way in range(2):
                        served.cycles[way, cut, port, at] = int(here[way, port])
    served.operand[-1], served.crossing[-1] = write, 0
    start = 1 if leave_partial(task.arrays, choice) else 0
    _serve(task, ports, choice, (write, 0), ones, start, here)
    for port in range(len(ports.bits)):
        for way in range(2):
            served.cycles[way, len(served.operand) - 1, port, 0] = int(here[way, port])
    return True


@inner
def _results(pauses: Pauses, served: _Served, write: int) -> np.ndarray:
    """By cut and tile how results leave a memory there, as `WalkCuts` has it."""
    _, last, many, tiles = served.cycles.shape
    found = np.full((last - 1, tiles), ELSE, np.int64)
    for cut in range(last - 1):
        if served.operand[cut] == write and served.crossing[cut] > 0:
            for at in range(tiles):
                comes_back = False
                for port in range(many):
                    comes_back = comes_back or served.cycles[0, cut, port, at] > 0
                goes_through = pauses.through[served.crossing[cut]] and not comes_back
                found[cut, at] = THROUGH if goes_through else RESULT
    return found


@inner
def _stopped_for(pauses: Pauses, served: _Served) -> np.ndarray:
    """By cut the input for which the units stop there, or -1."""
    found = np.full(len(served.operand) - 1, -1, np.int64)
    for cut in range(len(found)):
        operand, crossing = served.operand[cut], served.crossing[cut]
        if crossing >= 0 and not pauses.hidden[operand, crossing] and pauses.followed[operand] < INPUTS:
            found[cut] = pauses.followed[operand]
    return found


@compiled
def tables_of_choice(
    task: Task, ports: PortUses, pauses: Pauses, over: np.ndarray, under: np.ndarray, steps: np.ndarray
) -> tuple[int, WalkCuts]:
    """What results cost at the units, and the tables of one choice; -1 where something is too large to be compared.

    `over` and `under` are [operand, fan-out, loop], numerators and denominators.
    """
    arrays = task.arrays
    choice = taken_choice(task, no_choice(arrays), over, under, steps)
    operands, cuts, tiles, many = len(arrays.axes), len(task.memory), choice.sizes[-1], len(ports.bits)
    left, tile = np.empty(tiles, np.int64), np.ones(len(steps), np.int64)
    for at in range(tiles):
        _tile_of(choice, at, tile)
        left[at] = choice.placed.total
        for loop in range(len(steps)):
            left[at] //= tile[loop]
    costs = _Costs(
        np.zeros((cuts, tiles), np.int64), np.zeros((cuts, 2, tiles), np.bool_), np.zeros((cuts, tiles), np.bool_),
        np.zeros((cuts, 2, tiles), np.int64),
    )  # fmt: skip
    served = _Served(
        np.zeros(cuts + 1, np.int64), np.full(cuts + 1, -1, np.int64), np.zeros((2, cuts + 1, many, tiles), np.int64),
        np.zeros((cuts + 1, many), np.int64),
    )  # fmt: skip
    is_comparable = choice.is_comparable and _fill_served(task, ports, pauses, choice, costs, left, served)
    single, sums, kinds, begin = _paces(pauses, served)
    uses = np.zeros((len(kinds), cuts), np.bool_)
    for row in range(len(kinds)):
        for cut in range(cuts):
            uses[row, cut] = np.any(sums[row, cut] > 0)
    up, prime_loops = _up(choice)
    shared, limit = _shared(task, choice)
    start = 1 if leave_partial(arrays, choice) else 0
    at_units = results_fj(arrays, choice)
    is_comparable = is_comparable and at_units != TOO_MUCH
    return int(at_units) if is_comparable else -1, WalkCuts(
        costs.price, costs.possible, costs.partial, costs.room, shared, limit, task.first, operands - 1, up,
        prime_loops, np.full(cuts, -1, np.int64), np.full(cuts, -1, np.int64), np.zeros((cuts, operands), np.bool_),
        arrays.moving, np.ones(tiles, np.bool_), left, single, sums, kinds, uses, begin, start,
        _stopped_for(pauses, served), _results(pauses, served, operands - 1),
    )  # fmt: skip

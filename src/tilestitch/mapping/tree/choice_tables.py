"""The tables of the checker's walk in time, of one spatial choice after another, compiled.

They are those of `walk_tables` where no windows slide, nothing is stored evenly and no order of loops is asked for.
Those are made with numpy, which takes longer than the walk where a choice has few tiles.
"""

from typing import NamedTuple

import numpy as np

from tilestitch.base.jit import compiled, inner, lending
from tilestitch.mapping.tree.choice_cuts import Choice, Task, cut_at, elements_of, leave_partial, taken_choice
from tilestitch.mapping.tree.choice_pace import served_by
from tilestitch.mapping.tree.choice_sums import Pauses, Served, inputs_at, paces, results_leaving, uses_of
from tilestitch.mapping.tree.choice_walk import results_fj
from tilestitch.mapping.tree.outside_in import NEVER
from tilestitch.mapping.tree.pace import LEADS, TRAILS
from tilestitch.mapping.tree.port_uses import PortUses
from tilestitch.mapping.tree.quick_prices import TOO_MUCH, no_choice
from tilestitch.mapping.tree.walk_tables import WalkCuts

_MOST_CYCLES = 2.0**53


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
    """Write what has to follow through memories further in before the units go on, whatever the tile, by port."""
    ones, served = room
    is_write = operand == len(task.arrays.axes) - 1
    behind[:] = 0
    for further in range(crossing - 1, -1, -1):
        if not pauses.hidden[operand, further]:
            break
        if further == 0 or not (is_write or pauses.line[operand, further] == TRAILS):
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
    task: Task, ports: PortUses, pauses: Pauses, choice: Choice, costs: _Costs, left: np.ndarray, served: Served
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
    served = Served(
        np.zeros(cuts + 1, np.int64), np.full(cuts + 1, -1, np.int64), np.zeros((2, cuts + 1, many, tiles), np.int64),
        np.zeros((cuts + 1, many), np.int64),
    )  # fmt: skip
    is_comparable = choice.is_comparable and _fill_served(task, ports, pauses, choice, costs, left, served)
    single, sums, kinds, begin, joins = paces(pauses, served)
    leads = inputs_at(pauses, served, pauses.line == LEADS)
    uses = uses_of(sums, kinds, joins, leads)
    up, prime_loops = _up(choice)
    shared, limit = _shared(task, choice)
    start = 1 if leave_partial(arrays, choice) else 0
    at_units = results_fj(arrays, choice)
    is_comparable = is_comparable and at_units != TOO_MUCH
    return int(at_units) if is_comparable else -1, WalkCuts(
        costs.price, costs.possible, costs.partial, costs.room, shared, limit, task.first, operands - 1, up,
        prime_loops, np.full(cuts, -1, np.int64), np.full(cuts, -1, np.int64), np.zeros((cuts, operands), np.bool_),
        arrays.moving, np.ones(tiles, np.bool_), left, single, sums, kinds, uses, begin, start,
        joins, inputs_at(pauses, served, ~pauses.hidden), leads, results_leaving(pauses, served, operands - 1),
    )  # fmt: skip

"""Below how many cycles no mapping of a spatial choice comes, compiled: the checker's own bound of latency.

A port moves at least what its operands move through it if each had all memories for itself; and where crossings stop
the units, what they move through one port adds to the steps as often as it comes.
"""

from typing import NamedTuple

import numpy as np

from tilestitch.base.jit import compiled, inner, lending
from tilestitch.mapping.tree.choice_cuts import Choice, Task, cut_at, elements_of, kept_inside, others_add, taken_choice
from tilestitch.mapping.tree.outside_in import NEVER
from tilestitch.mapping.tree.quick_arrays import TOGETHER
from tilestitch.mapping.tree.quick_prices import no_choice

_MOST_CYCLES = 2.0**59


class Ports(NamedTuple):
    """The ports of operands; `side` 0 is that towards the units, 1 outwards; of two the second is for partial sums."""

    number: np.ndarray  # [operand, level, side, 2] of all ports of the tree; -1 where there is none
    cycles: np.ndarray  # [operand, level, side, 2] of an access of the whole width
    many: int
    hides: np.ndarray  # [operand, crossing] whether the units go on meanwhile


@lending
def _add(task: Task, ports: Ports, where: tuple[int, int, int], bits: float, partial: int, served: np.ndarray) -> None:
    """Enter the cycles of one end of a crossing, by port."""
    operand, level, side = where
    for at in range(2 if partial == 1 else 1):
        port = ports.number[operand, level, side, at]
        granule, width = task.arrays.ports[operand, level, side, 2 * at : 2 * at + 2]
        if port >= 0:
            accesses = np.ceil(np.ceil(bits / granule) * granule / width)
            served[port] += np.ceil(accesses * ports.cycles[operand, level, side, at] - 1e-9)


@lending
def _serve(
    task: Task,
    ports: Ports,
    choice: Choice,
    cut: tuple[int, int],
    amounts: tuple[float, float, int],
    served: np.ndarray,
) -> None:
    """Enter the cycles of every port for one crossing of an operand.

    `amounts` are elements in each memory inside, those that they hold together, and 1 if they are partial sums.
    """
    (operand, crossing), (held, shared, partial) = cut, amounts
    served[:] = 0.0
    is_write = operand == len(task.arrays.axes) - 1
    bits = task.relaxed.bits[operand, 1 if is_write and partial == 0 else 0]
    outer = held * choice.placed.differing[operand, crossing] * bits
    if not is_write and task.arrays.sharing[operand, crossing] >= TOGETHER:
        outer = shared * bits
    _add(task, ports, (operand, crossing, 0), outer, partial, served)
    if crossing > 0:
        _add(task, ports, (operand, crossing - 1, 1), held * bits, partial, served)


@inner
def _least(task: Task, ports: Ports, choice: Choice, operand: int) -> np.ndarray:
    """The least cycles of every port for one operand in all, then of the crossings that stop the units."""
    is_write = operand == len(task.arrays.axes) - 1
    cuts, tiles, loops = task.first[operand + 1] - task.first[operand], choice.sizes[operand], len(choice.counts)
    behind, here = np.zeros((2 * ports.many, tiles)), np.zeros((2 * ports.many, tiles))
    served, tile = np.zeros(ports.many), np.ones(loops, np.int64)
    for cut in range(cuts - 1, -1, -1):
        crossing = cut + 1 if is_write else cut
        stays = kept_inside(task.arrays, choice, operand, cut)
        for at in range(tiles - 1, -1, -1):
            times = choice.placed.total // stays
            for loop in range(loops):
                if task.arrays.moving[operand, loop]:
                    tile[loop] = choice.divisors[loop, at // choice.units[operand, loop] % choice.counts[loop]]
                    times //= tile[loop]
            price, _, partial = cut_at(task.relaxed, choice, operand, cut, tile, stays, (0, task.final_sums))
            if price >= NEVER:
                here[:, at] = np.inf
            elif cut == cuts - 1:
                here[:, at] = behind[:, at]
            else:
                held = 1.0
                if crossing > 0:
                    count, parts = elements_of(
                        task.arrays, choice.over[operand, crossing], choice.under[operand, crossing], operand, tile
                    )
                    held = np.rint(count / parts)
                together, apart = elements_of(
                    task.arrays, choice.over[operand, crossing + 1], choice.under[operand, crossing + 1], operand, tile
                )
                amounts = (held, np.rint(together / apart), int(partial))
                _serve(task, ports, choice, (operand, crossing), amounts, served)
                for port in range(ports.many):
                    cycles = served[port] * times
                    stops = 0.0 if ports.hides[operand, crossing] else cycles
                    here[port, at] = behind[port, at] + cycles
                    here[ports.many + port, at] = behind[ports.many + port, at] + stops
            for row in range(len(choice.primes)):
                loop = choice.primes[row, 0]
                if task.arrays.moving[operand, loop]:
                    number = at // choice.units[operand, loop] % choice.counts[loop]
                    if choice.above[row, number] >= 0:
                        larger = at + (choice.above[row, number] - number) * choice.units[operand, loop]
                        for port in range(2 * ports.many):
                            here[port, at] = min(here[port, at], here[port, larger])
        behind, here = here, behind
    return behind[:, 0].copy()


@compiled
def least_cycles(task: Task, ports: Ports, spread: tuple[np.ndarray, np.ndarray, np.ndarray]) -> np.ndarray:
    """Of many choices below how many cycles no mapping comes; NEVER where nothing fits or it is more than 2^59."""
    over, under, steps = spread
    found = np.empty(len(steps), np.int64)
    operands = len(task.arrays.axes)
    empty = no_choice(task.arrays)
    served = np.zeros(ports.many)
    for number in range(len(steps)):
        choice = taken_choice(task, empty, over[number], under[number], steps[number])
        start = 1 if choice.stays[operands - 1] > 1 or others_add(task.arrays, choice, 0) else 0
        _serve(task, ports, choice, (operands - 1, 0), (1.0, 1.0, start), served)
        total = np.zeros(2 * ports.many)
        total[: ports.many] = served * choice.placed.total
        for operand in range(operands):
            total += _least(task, ports, choice, operand)
        most = float(choice.placed.total)
        for port in range(ports.many):
            most = max(most, total[port], choice.placed.total + total[ports.many + port])
        found[number] = int(most) if most < _MOST_CYCLES else NEVER
    return found

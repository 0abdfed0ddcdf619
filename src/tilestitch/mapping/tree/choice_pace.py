"""Below how many cycles no mapping of a spatial choice comes, compiled: the checker's own bound of latency.

A port moves at least what its operands move through it if each had all memories for itself. A step takes as long as
the port that is busiest with its results, but that steps begin up to two of these times less one cycle early: where
they have to end before the units may stop, before the first one, or behind the last. What comes before and behind all
steps adds to them; and where crossings stop the units, what they move through one port as often as it comes.
"""

from typing import NamedTuple

import numpy as np

from tilestitch.base.jit import compiled, inner, lending
from tilestitch.mapping.tree.choice_cuts import Choice, Task, cut_at, elements_of, kept_inside, others_add, taken_choice
from tilestitch.mapping.tree.outside_in import NEVER
from tilestitch.mapping.tree.quick_arrays import TOGETHER
from tilestitch.mapping.tree.quick_prices import no_choice

_MOST_CYCLES = 2.0**59
_ALL, _STOPS, _IN, _OUT = (
    0,
    1,
    2,
    3,
)  # cycles of a port: in all, while units stop, of every crossing once inwards, outwards


class Ports(NamedTuple):
    """The ports of operands; `side` 0 is that towards the units, 1 outwards; of two the second is for partial sums."""

    number: np.ndarray  # [operand, level, side, 2] of all ports of the tree; -1 where there is none
    cycles: np.ndarray  # [operand, level, side, 2] of an access of the whole width
    many: int
    hides: np.ndarray  # [operand, crossing] whether the units go on meanwhile


@lending
def _add(task: Task, ports: Ports, where: tuple[int, int, int], bits: float, partial: int, served: np.ndarray) -> None:
    """Enter the cycles of one end of a crossing, by port: inwards, and outwards."""
    operand, level, side = where
    is_write = operand == len(task.arrays.axes) - 1
    for at in range(2 if partial == 1 else 1):
        port = ports.number[operand, level, side, at]
        granule, width = task.arrays.ports[operand, level, side, 2 * at : 2 * at + 2]
        if port >= 0:
            accesses = np.ceil(np.ceil(bits / granule) * granule / width)
            way = 1 if is_write and at == 0 else 0
            served[way, port] += np.ceil(accesses * ports.cycles[operand, level, side, at] - 1e-9)


@lending
def _serve(
    task: Task,
    ports: Ports,
    choice: Choice,
    cut: tuple[int, int],
    amounts: tuple[float, float, int],
    served: np.ndarray,
) -> None:
    """Enter the cycles of every port for one crossing of an operand, inwards and outwards.

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
def _least(task: Task, ports: Ports, choice: Choice, operand: int, early: float) -> np.ndarray:
    """The least cycles of every port for one operand, by kind; of each stop without those that steps end early."""
    is_write = operand == len(task.arrays.axes) - 1
    cuts, tiles, loops = task.first[operand + 1] - task.first[operand], choice.sizes[operand], len(choice.counts)
    behind, here = np.zeros((4, ports.many, tiles)), np.zeros((4, ports.many, tiles))
    served, tile = np.zeros((2, ports.many)), np.ones(loops, np.int64)
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
                here[:, :, at] = np.inf
            elif cut == cuts - 1:
                here[:, :, at] = behind[:, :, at]
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
                    inwards, outwards = served[0, port], served[1, port]
                    cycles = (inwards + outwards) * times
                    here[_ALL, port, at] = behind[_ALL, port, at] + cycles
                    here[_STOPS, port, at] = behind[_STOPS, port, at]
                    if not ports.hides[operand, crossing]:
                        here[_STOPS, port, at] += max(0.0, inwards + outwards - early) * times
                    here[_IN, port, at] = behind[_IN, port, at] + inwards
                    here[_OUT, port, at] = behind[_OUT, port, at] + outwards
            for row in range(len(choice.primes)):
                loop = choice.primes[row, 0]
                if task.arrays.moving[operand, loop]:
                    number = at // choice.units[operand, loop] % choice.counts[loop]
                    if choice.above[row, number] >= 0:
                        larger = at + (choice.above[row, number] - number) * choice.units[operand, loop]
                        for kind in range(4):
                            for port in range(ports.many):
                                here[kind, port, at] = min(here[kind, port, at], here[kind, port, larger])
        behind, here = here, behind
    return behind[:, :, 0].copy()


@compiled
def least_cycles(task: Task, ports: Ports, spread: tuple[np.ndarray, np.ndarray, np.ndarray]) -> np.ndarray:
    """Of many choices below how many cycles no mapping comes; NEVER where nothing fits or it is more than 2^59."""
    over, under, steps = spread
    found = np.empty(len(steps), np.int64)
    operands = len(task.arrays.axes)
    empty = no_choice(task.arrays)
    served = np.zeros((2, ports.many))
    for number in range(len(steps)):
        choice = taken_choice(task, empty, over[number], under[number], steps[number])
        start = 1 if choice.stays[operands - 1] > 1 or others_add(task.arrays, choice, 0) else 0
        _serve(task, ports, choice, (operands - 1, 0), (1.0, 1.0, start), served)
        total = np.zeros((4, ports.many))
        total[_ALL], total[_IN], total[_OUT] = (served[0] + served[1]) * choice.placed.total, served[0], served[1]
        step = max(1.0, (served[0] + served[1]).max())
        early = 2 * (step - 1)
        for operand in range(operands):
            total += _least(task, ports, choice, operand, early)
        once = total[_IN].max() + total[_OUT].max() - early
        most = max(total[_ALL].max(), choice.placed.total * step + max(total[_STOPS].max(), once))
        found[number] = int(most) if most < _MOST_CYCLES else NEVER
    return found

"""Below how many cycles no mapping of a spatial choice comes, compiled: the checker's own bound of latency.

A port, a network of a stated bandwidth or an engine moves at least what its operands move through it if each had all
memories for itself. A step takes as long as the port that is busiest with its results, but that steps begin up to two
of these times less one cycle early: where they have to end before the units may stop, before the first one, or behind
the last. What comes before and behind all steps adds to them; and where crossings stop the units, what they move
through one port as often as it comes. However early steps end, each takes a cycle, and all stops at a port come to
these.
"""

import numpy as np

from tilestitch.base.jit import compiled, inner, lending
from tilestitch.mapping.tree.choice_cuts import (
    Choice,
    Task,
    cut_at,
    elements_of,
    from_larger,
    kept_inside,
    leave_partial,
    own_tiles,
    taken_choice,
)
from tilestitch.mapping.tree.outside_in import NEVER
from tilestitch.mapping.tree.port_uses import PortUses
from tilestitch.mapping.tree.quick_arrays import TOGETHER, Arrays
from tilestitch.mapping.tree.quick_prices import no_choice

_MOST_CYCLES = 2.0**59
# cycles of a port: in all; while units stop, without those that steps end early; of every crossing once inwards, and
# outwards; while units stop
_ALL, _STOPS, _IN, _OUT, _LONGEST = range(5)


@lending
def _add(
    arrays: Arrays, ports: PortUses, where: tuple[int, int, int], bits: float, comes_back: bool, served: np.ndarray
) -> None:
    """Enter the cycles of one end of a crossing, by port: inwards, and outwards."""
    operand, level, side = where
    is_write = operand == len(arrays.axes) - 1
    for at in range(2 if comes_back else 1):
        port = ports.number[operand, level, side, at]
        granule, width = arrays.ports[operand, level, side, 2 * at : 2 * at + 2]
        if port >= 0:
            accesses = np.ceil(np.ceil(bits / granule) * granule / width)
            way = 1 if is_write and at == 0 else 0
            served[way, port] += np.ceil(accesses * ports.cycles[operand, level, side, at] - 1e-9)


@lending
def _carry(ports: PortUses, port: int, bits: float, is_write: bool, comes_back: bool, served: np.ndarray) -> None:
    """Enter the cycles of a network or an engine, if it is any: inwards, and outwards."""
    if port >= 0 and bits > 0:
        cycles = ports.setup[port] + np.ceil(bits / ports.bits[port] - 1e-9)
        served[1 if is_write else 0, port] += cycles
        if comes_back:
            served[0, port] += cycles


@lending
def served_by(
    arrays: Arrays,
    ports: PortUses,
    choice: Choice,
    cut: tuple[int, int],
    amounts: tuple[float, float, int],
    served: np.ndarray,
) -> None:
    """Write the cycles of every port for one crossing of an operand, inwards and outwards.

    `amounts` are elements in each memory inside, those that they hold together, and 1 if they are partial sums.
    """
    (operand, crossing), (held, shared, partial) = cut, amounts
    served[:] = 0.0
    is_write = operand == len(arrays.axes) - 1
    comes_back = is_write and (partial == 1 or (crossing == 0 and not arrays.has_latches))
    bits = arrays.bits[operand, 1 if is_write and partial == 0 else 0]
    outer = held * choice.placed.differing[operand, crossing] * bits
    if not is_write and arrays.sharing[operand, crossing] >= TOGETHER:
        outer = shared * bits
    _add(arrays, ports, (operand, crossing, 0), outer, comes_back, served)
    for axis in range(ports.network.shape[2]):
        _carry(ports, ports.network[operand, crossing, axis], outer, is_write, comes_back, served)
    if crossing > 0:
        _add(arrays, ports, (operand, crossing - 1, 1), held * bits, comes_back, served)
        for engine in range(ports.engine.shape[2]):
            _carry(ports, ports.engine[operand, crossing, engine], held * bits, is_write, comes_back, served)


@inner
def _own_ports(task: Task, ports: PortUses, operand: int) -> np.ndarray:
    """The ports through which an operand goes."""
    used = np.zeros(len(ports.bits), np.bool_)
    for level in range(task.arrays.levels[operand]):
        for side in range(2):
            for at in range(2):
                if ports.number[operand, level, side, at] >= 0:
                    used[ports.number[operand, level, side, at]] = True
        for axis in range(ports.network.shape[2]):
            if ports.network[operand, level, axis] >= 0:
                used[ports.network[operand, level, axis]] = True
        for engine in range(ports.engine.shape[2]):
            if ports.engine[operand, level, engine] >= 0:
                used[ports.engine[operand, level, engine]] = True
    return np.flatnonzero(used)


@inner
def _least(task: Task, ports: PortUses, choice: Choice, operand: int, early: float) -> np.ndarray:
    """The least cycles of every port for one operand, by kind; the last one only where steps may end early."""
    is_write = operand == len(task.arrays.axes) - 1
    cuts, tiles = task.first[operand + 1] - task.first[operand], choice.sizes[operand]
    own, (sizes, up) = _own_ports(task, ports, operand), own_tiles(task.arrays, choice, operand)
    kinds = 5 if early > 0 else 4
    many = kinds * len(own)
    behind, here = np.zeros((tiles, many)), np.zeros((tiles, many))  # by tile: every kind of each port
    served = np.zeros((2, len(ports.bits)))
    for cut in range(cuts - 1, -1, -1):
        crossing = cut + 1 if is_write else cut
        stays = kept_inside(task.arrays, choice, operand, cut)
        over, under = choice.over[operand], choice.under[operand]
        for at in range(tiles):
            tile, times = sizes[at], choice.placed.total // stays
            price, _, partial = cut_at(task.relaxed, choice, operand, cut, tile, stays, (0, task.final_sums))
            if price >= NEVER or cut == cuts - 1:
                for one in range(many):
                    here[at, one] = np.inf if price >= NEVER else behind[at, one]
                continue
            for loop in range(len(tile)):
                times //= tile[loop]
            held = 1.0
            if crossing > 0:
                count, parts = elements_of(task.arrays, over[crossing], under[crossing], operand, tile)
                held = np.rint(count / parts)
            together, apart = elements_of(task.arrays, over[crossing + 1], under[crossing + 1], operand, tile)
            amounts = (held, np.rint(together / apart), int(partial))
            served_by(task.relaxed, ports, choice, (operand, crossing), amounts, served)
            for number in range(len(own)):
                inwards, outwards, first = served[0, own[number]], served[1, own[number]], kinds * number
                stops = 0.0 if ports.hides[operand, crossing] else inwards + outwards
                here[at, first + _ALL] = behind[at, first + _ALL] + (inwards + outwards) * times
                here[at, first + _STOPS] = behind[at, first + _STOPS] + max(0.0, stops - early) * times
                here[at, first + _IN] = behind[at, first + _IN] + inwards
                here[at, first + _OUT] = behind[at, first + _OUT] + outwards
                if early > 0:
                    here[at, first + _LONGEST] = behind[at, first + _LONGEST] + stops * times
        from_larger(up, many, here)
        behind, here = here, behind
    found = np.zeros((5, len(ports.bits)))
    for number in range(len(own)):
        for kind in range(kinds):
            found[kind, own[number]] = behind[0, kinds * number + kind]
    return found


@compiled
def least_cycles(task: Task, ports: PortUses, spread: tuple[np.ndarray, np.ndarray, np.ndarray]) -> np.ndarray:
    """Of many choices below how many cycles no mapping comes; NEVER where nothing fits or it is more than 2^59."""
    over, under, steps = spread
    found = np.empty(len(steps), np.int64)
    operands = len(task.arrays.axes)
    empty = no_choice(task.arrays)
    served = np.zeros((2, len(ports.bits)))
    for number in range(len(steps)):
        choice = taken_choice(task, empty, over[number], under[number], steps[number])
        start = 1 if leave_partial(task.arrays, choice) else 0
        served_by(task.relaxed, ports, choice, (operands - 1, 0), (1.0, 1.0, start), served)
        total = np.zeros((5, len(ports.bits)))
        total[_ALL], total[_IN], total[_OUT] = (served[0] + served[1]) * choice.placed.total, served[0], served[1]
        step = max(1.0, (served[0] + served[1]).max())
        early = 2 * (step - 1)
        for operand in range(operands):
            total += _least(task, ports, choice, operand, early)
        once = total[_IN].max() + total[_OUT].max() - early
        most = max(total[_ALL].max(), choice.placed.total * step + max(total[_STOPS].max(), once))
        most = max(most, choice.placed.total + total[_LONGEST].max())  # a step takes a cycle, even if it ends early
        found[number] = int(most) if most < _MOST_CYCLES else NEVER
    return found

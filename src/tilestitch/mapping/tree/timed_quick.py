"""How long crossings take, compiled: one spatial choice after another asks for it, without tables over the lattice.

Cycles are those of `OperandOnTree.ways`; networks of a stated bandwidth and DMA engines are ports as well. Of each
operand alone there are tables of the least that its cuts take from a tile on, on the lattice of the loops that move it.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tilestitch.base.jit import lending, tiered
from tilestitch.mapping.tree.crossings import OperandOnTree
from tilestitch.mapping.tree.loads import delayed_by, followed_as, line_of
from tilestitch.mapping.tree.pace import ELSE, FOLLOWED, INPUTS, LEADS, RESULT, RESULTS, THROUGH, TRAILS
from tilestitch.mapping.tree.port_uses import PortUses, port_uses
from tilestitch.mapping.tree.quick_arrays import TOGETHER, Arrays, Placed
from tilestitch.mapping.tree.quick_bounds import placed_alone
from tilestitch.mapping.tree.quick_prices import from_units, held_elements, no_choice
from tilestitch.mapping.tree.timed_pace import (
    APART,
    BEGUN,
    FIRST,
    LAST,
    LEADING,
    OWN,
    STOPS,
    SUMS,
    TURN,
    UNTIL,
    WAITS,
    Columns,
    Using,
    in_line,
    latency_at_least,
    start_of_units,
    tracked,
)

INWARDS, OUTWARDS = 0, 1
_UNTIL = 4  # kinds of `Loads` behind stops, first, last and busy
_OWN = _UNTIL + INPUTS
_BEGUN = _OWN + FOLLOWED
_TRAIL = _BEGUN + INPUTS
NEAR = 1  # the crossing into the innermost memories


class Timing(NamedTuple):
    """The ports of the operands, and the columns that they have in rows of `timed_pace`."""

    number: np.ndarray  # [operand, level, side, 2] of all ports, or -1; sides are towards units and outwards
    cycles: np.ndarray  # [operand, level, side, 2] of an access of the whole width
    network: np.ndarray  # [operand, crossing, axis] of all ports, or -1; only axes that have any of a stated bandwidth
    engine: np.ndarray  # [operand, crossing, engine] of all ports, or -1; only engines that carry anything
    bits: np.ndarray  # [port] of a network or an engine in a cycle
    setup: np.ndarray  # [port] cycles of an engine for each transfer
    hides: np.ndarray  # [operand, crossing] whether the units go on meanwhile
    through: np.ndarray  # [operand, crossing] or if complete results arrived with the same tile
    line: np.ndarray  # [operand, crossing] as in `Loads`
    slot: np.ndarray  # [kind, port] the column of a sum, or -1
    followed: np.ndarray  # [operand] the number by which a pace follows it, as in `Loads`
    delays: np.ndarray  # [operand, whether units stop, number] whether the next tile of this number waits for it
    waits: np.ndarray  # [input] whether the units ever stop for it
    sums: np.ndarray  # [operand, number] the columns to which it adds, of those in bounds
    place: np.ndarray  # [operand, column - SUMS] the number of a column among these, or -1
    many_sums: np.ndarray  # [operand]
    later: np.ndarray  # [operand, cuts placed, column] whether a cut that is not placed adds there
    crosses: np.ndarray  # [operand, cuts placed] whether a cut that is not placed moves anything
    stops: np.ndarray  # [operand, cuts placed] or stops the units
    columns: Columns
    many: int  # ports
    together: np.ndarray  # rows of column, kind and port: stops and busy ports to which several near cuts add


def timing_of(operands: Sequence[OperandOnTree]) -> Timing:
    """The ports of operands that move anything; the last one is the result."""
    levels = max(len(one.memories) for one in operands)
    ports = port_uses(operands)
    hides, through = np.zeros((2, len(operands), levels), np.bool_)
    line = np.zeros((len(operands), levels), np.int64)
    users = {
        (at, crossing): _users(ports, one, at, crossing)
        for at, one in enumerate(operands)
        for crossing in range(len(one.memories))
    }
    for at, one in enumerate(operands):
        for level in range(len(one.memories)):
            hides[at, level], through[at, level] = one.is_hidden(level), one.may_go_through(level)
            line[at, level] = line_of(one, level)
    moving = [where for where, each in users.items() if any(each) or line[where] == LEADS]
    crossed = dict(zip(moving, in_line([_using(one, users, hides, operands) for one in moving]), strict=True))
    result, last = len(operands) - 1, len(operands[-1].memories) - 1
    sums = tracked(list(crossed.values()), [int(one) for one in ports.number[result, last, 0, :1] if one >= 0])
    slot, columns = np.full((len(sums.ports), ports.many), -1, np.int64), sums.columns
    uses = np.zeros((len(operands), levels, columns.end), np.bool_)
    together: list[tuple[int, int, int]] = []
    for where, one in crossed.items():
        uses[where] = sums.used_by(one)
    for column, kind, port in sums.each:
        slot[kind, port] = column
        if kind in (0, 3) and uses[:, NEAR : NEAR + 1, column].sum() > 1:
            together.append((column, kind, port))
    followed = np.array([followed_as(one) for one in operands], np.int64)
    waiting = [[delayed_by(one, stops=stops) for stops in (False, True)] for one in operands]
    delays = np.array([[[at in each for at in range(FOLLOWED)] for each in one] for one in waiting], np.bool_)
    return Timing(
        ports.number, ports.cycles, _carriers(ports.network), _carriers(ports.engine), ports.bits, ports.setup,
        hides, through, line, slot, followed, delays, np.array(sums.waits, np.bool_),
        *_sums_of(uses, columns), *_later(operands, uses, hides), columns, ports.many,
        np.array(together, np.int64).reshape(-1, 3),
    )  # fmt: skip


def _sums_of(uses: np.ndarray, columns: Columns) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`Timing.sums`, `place` and `many_sums`."""
    many = np.zeros(len(uses), np.int64)
    sums, place = np.full((2, len(uses), columns.until - SUMS), -1, np.int64)
    for operand in range(len(uses)):
        own = np.flatnonzero(uses[operand, :, SUMS : columns.until].any(axis=0))
        sums[operand, : len(own)], place[operand, own] = SUMS + own, np.arange(len(own))
        many[operand] = len(own)
    return sums, place, many


def _later(
    operands: Sequence[OperandOnTree], uses: np.ndarray, hides: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`Timing.later`, `crosses` and `stops`."""
    count, levels, columns = uses.shape
    later = np.zeros((count, levels + 2, columns), np.bool_)
    crosses, stops = np.zeros((count, levels + 2), np.bool_), np.zeros((count, levels + 2), np.bool_)
    for at, one in enumerate(operands):
        crossings = range(1 if one.is_write else 0, len(one.memories))
        for placed, first in enumerate(crossings):
            later[at, placed] = uses[at, first : len(one.memories)].any(axis=0)
            crosses[at, placed], stops[at, placed] = True, not hides[at, first : len(one.memories)].all()
    return later, crosses, stops


def _carriers(ports: np.ndarray) -> np.ndarray:
    """Networks or engines by operand and crossing, without those that are none: most machines have none at all."""
    return np.ascontiguousarray(ports[:, :, (ports >= 0).any(axis=(0, 1))])


def _users(ports: PortUses, operand: OperandOnTree, at: int, crossing: int) -> tuple[set[int], set[int]]:
    """The ports that a crossing occupies: inwards, and outwards."""
    inwards, outwards = set[int](), set[int]()
    for side in range(2 if crossing > 0 else 1):
        for which in range(2):
            (outwards if operand.is_write and which == 0 else inwards).add(
                int(ports.number[at, crossing - side, side, which])
            )
    for port in (*ports.network[at, crossing].tolist(), *ports.engine[at, crossing].tolist()):
        inwards.add(port)
        if operand.is_write:
            outwards.add(port)
    return inwards - {-1}, outwards - {-1}


def _using(
    where: tuple[int, int],
    users: Mapping[tuple[int, int], tuple[set[int], set[int]]],
    hides: np.ndarray,
    operands: Sequence[OperandOnTree],
) -> Using[int]:
    """The ports of one crossing, and those of what follows it, whatever its tile, where the units stop for it."""
    (operand, crossing), (inwards, outwards) = where, users[where]
    stops: set[int] = set()
    if not hides[where]:
        stops = inwards | outwards
        for inner in range(crossing - 1, -1, -1):
            if not hides[operand, inner]:
                break
            if inner == 0 or (line_of(operands[operand], inner) != TRAILS and not operands[operand].is_write):
                stops |= set.union(*users.get((operand, inner), (set(), set())))
    one = operands[operand]
    may_hide = one.may_go_through(crossing)
    ports = frozenset(inwards), frozenset(outwards), frozenset(stops)
    delays = delayed_by(one, stops=not hides[where])
    return Using(*ports, followed_as(one), may_hide, delays, line_of(one, crossing))


@lending
def _serve(
    arrays: Arrays, timing: Timing, where: tuple[int, int, int], bits: float, back: float, served: np.ndarray
) -> None:
    """Enter the cycles of the two directions of one end of a crossing."""
    operand, level, side = where
    is_write = operand == len(arrays.axes) - 1
    for which in range(2 if is_write else 1):
        port = timing.number[operand, level, side, which]
        if port >= 0:
            granule = arrays.ports[operand, level, side, 2 * which]
            width = arrays.ports[operand, level, side, 2 * which + 1]
            accesses = np.ceil(np.ceil((back if which == 1 else bits) / granule) * granule / width)
            way = OUTWARDS if is_write and which == 0 else INWARDS
            served[way, port] += np.ceil(accesses * timing.cycles[operand, level, side, which] - 1e-9)


@lending
def _carry(timing: Timing, port: int, bits: float, back: float, is_write: bool, served: np.ndarray) -> None:
    """Enter the cycles of the two directions of a network or an engine, if it is any."""
    if port >= 0 and bits > 0:
        served[OUTWARDS if is_write else INWARDS, port] += timing.setup[port] + np.ceil(bits / timing.bits[port] - 1e-9)
        if back > 0:
            served[INWARDS, port] += timing.setup[port] + np.ceil(back / timing.bits[port] - 1e-9)


@lending
def serve_crossing(
    arrays: Arrays, timing: Timing, placed: Placed, cut: tuple[int, int], tile: np.ndarray, held: float, partial: bool,
    served: np.ndarray,
) -> None:  # fmt: skip
    """Enter the cycles of every port, inwards and outwards, for one crossing of an operand at a tile, once.

    `cut` are the operand and the crossing, `held` elements in each memory inside, before they are rounded.
    """
    operand, crossing = cut
    is_write = operand == len(arrays.axes) - 1
    served[:] = 0.0
    bits = arrays.bits[operand, 1 if is_write and not partial else 0]
    held = np.rint(held)
    outer = held * placed.differing[operand, crossing]
    if not is_write and arrays.sharing[operand, crossing] >= TOGETHER:
        outer = np.rint(held_elements(arrays, placed, operand, crossing + 1, tile))
    returns = is_write and (partial or (crossing == 0 and not arrays.has_latches))
    _serve(arrays, timing, (operand, crossing, 0), outer * bits, outer * bits if returns else 0.0, served)
    for at in range(timing.network.shape[2]):
        port = timing.network[operand, crossing, at]
        _carry(timing, port, outer * bits, outer * bits if returns else 0.0, is_write, served)
    if crossing == 0:
        return
    _serve(arrays, timing, (operand, crossing - 1, 1), held * bits, held * bits if returns else 0.0, served)
    for at in range(timing.engine.shape[2]):
        port = timing.engine[operand, crossing, at]
        _carry(timing, port, held * bits, held * bits if returns else 0.0, is_write, served)


@lending
def follow(
    arrays: Arrays, timing: Timing, placed: Placed, start: int, ones: np.ndarray, served: np.ndarray, found: np.ndarray
) -> None:
    """Enter what follows each crossing for which the units stop, whatever its tile, by operand, crossing and port.

    See `loads.behind`; what trails a crossing that leads is not in it.
    """
    found[:] = 0
    result = len(arrays.axes) - 1
    for operand in range(result + 1):
        begun = -1  # the first of the crossings that hide in a row
        for crossing in range(arrays.levels[operand]):
            if timing.hides[operand, crossing]:
                begun = crossing if begun < 0 else begun
                continue
            for inner in range(crossing if begun < 0 else begun, crossing):
                if inner == 0 or (operand < result and timing.line[operand, inner] != TRAILS):
                    held = 1.0 if inner == 0 else held_elements(arrays, placed, operand, inner, ones)
                    serve_crossing(arrays, timing, placed, (operand, inner), ones, held, start == 1, served)
                    for port in range(timing.many):
                        found[operand, crossing, port] += int(served[INWARDS, port] + served[OUTWARDS, port])
            begun = -1


@lending
def _enter(load: np.ndarray, column: int, largest: int, cycles: int) -> None:
    if column >= 0:
        load[column] = cycles
    else:
        load[largest] = max(load[largest], cycles)


@lending
def way_of(timing: Timing, operand: int, crossing: int, partial: bool) -> int:
    """What crosses, as a pace has it."""
    if operand < len(timing.followed) - 1 or crossing == 0:
        return ELSE
    return THROUGH if timing.through[operand, crossing] and not partial else RESULT


@lending
def load_of(
    timing: Timing, cut: tuple[int, int], way: int, served: np.ndarray, following: np.ndarray, load: np.ndarray
) -> None:  # fmt: skip
    """The row that a crossing of an operand adds, of its cycles at every port and of what follows it there."""
    operand, stops, line, followed = cut[0], not timing.hides[cut], timing.line[cut], timing.followed[cut[0]]
    load[:] = 0
    load[APART] = way
    load[LEADING] = followed + 1 if line == LEADS else 0
    if stops and followed < INPUTS:
        load[WAITS + followed] = 1
    for port in range(timing.many):
        inwards, outwards = int(served[INWARDS, port]), int(served[OUTWARDS, port])
        for number in range(INPUTS):
            if followed <= number:
                if stops and timing.waits[number]:
                    both = inwards + outwards + following[port]
                    _enter(load, timing.slot[_UNTIL + number, port], UNTIL + number, both)
                _enter(load, timing.slot[_BEGUN + number, port], BEGUN + number, inwards)
        for number in range(FOLLOWED):
            if timing.delays[operand, 1 if stops else 0, number]:
                leaves = number == RESULTS and followed == RESULTS and way == ELSE
                moved = outwards if leaves else inwards + outwards
                _enter(load, timing.slot[_OWN + number, port], OWN + number, moved)
        _enter(load, timing.slot[1, port], FIRST, inwards)
        _enter(load, timing.slot[2, port], LAST, outwards)
        _enter(load, timing.slot[3, port], TURN, inwards + outwards)
        if stops:
            _enter(load, timing.slot[0, port], STOPS, inwards + outwards + following[port])
        if line == TRAILS and inwards + outwards > 0:
            load[timing.slot[_TRAIL + followed, port]] = inwards + outwards


@tiered
def starts_of(
    arrays: Arrays, timing: Timing, spread: tuple[np.ndarray, np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Of many choices the row of one iteration with its results, and whether these are partial sums.

    `spread` is what the result sees, as in `clocks_alone`.
    """
    over, under, steps = spread
    write = len(arrays.axes) - 1
    found, partial = np.zeros((len(over), timing.columns.end), np.int64), np.zeros(len(over), np.int64)
    empty, tile = no_choice(arrays), np.ones(steps.shape[1], np.int64)
    room = np.zeros((2, timing.many)), np.zeros(timing.many, np.int64), np.zeros(timing.columns.end, np.int64)
    for number in range(len(over)):
        placed = placed_alone(arrays, empty, write, over[number], under[number], steps[number])
        is_partial, _ = from_units(arrays, placed)
        partial[number] = 1 if is_partial else 0
        start_row(arrays, timing, placed, partial[number], tile, room, found[number])
    return found, partial


@lending
def start_row(
    arrays: Arrays, timing: Timing, placed: Placed, start: int, tile: np.ndarray,
    room: tuple[np.ndarray, np.ndarray, np.ndarray], row: np.ndarray,
) -> None:  # fmt: skip
    """Write the row of one iteration with its results; `start` is 1 if these are partial sums."""
    served, following, load = room
    write = len(arrays.axes) - 1
    serve_crossing(arrays, timing, placed, (write, 0), tile, 1.0, start == 1, served)
    load_of(timing, (write, 0), ELSE, served, following, load)
    start_of_units(row, timing.columns, load)


@tiered
def latencies_at_least(rows: np.ndarray, columns: Columns, least: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Below what no latency of many choices comes, with their rows of one iteration and the least that is to come."""
    found = np.empty(len(rows), np.int64)
    for number in range(len(rows)):
        found[number] = latency_at_least(rows[number], columns, least[number], steps[number] - 1)
    return found

"""What near cuts take together of a port, compiled: see `near`, which has their energies."""

from typing import NamedTuple

import numpy as np

from tilestitch.base.jit import inlined, inner, lending
from tilestitch.mapping.tree.ground import Ground, rest_from
from tilestitch.mapping.tree.labels import NEVER
from tilestitch.mapping.tree.near import (
    Near,
    Rates,
    Tiles,
    close,
    energies_of,
    rates_of,
    says_more,
    tile_at_point,
    tiles_of,
)
from tilestitch.mapping.tree.quick_arrays import Arrays, Placed
from tilestitch.mapping.tree.quick_prices import held_elements
from tilestitch.mapping.tree.timed_pace import SUMS
from tilestitch.mapping.tree.timed_quick import INWARDS, OUTWARDS, Timing, serve_crossing


class Clock(NamedTuple):
    """The least cycles of one choice, from `clocks_alone`, and where those of each operand begin."""

    table: np.ndarray
    offsets: np.ndarray


@inlined
def cycles_from(timing: Timing, ground: Ground, clock: Clock, operand: int, cut: tuple[int, int], here: int) -> int:
    """Where the least cycles of a cut and the later ones begin; `cut` says whether partial sums arrive as well."""
    at = cut[0] * 2 + cut[1] if operand == len(ground.place_of) - 1 else cut[0]
    return clock.offsets[operand] + (at * ground.inner[operand] + here) * timing.many_sums[operand]


@lending
def _cycles(timing: Timing, operand: int, kind: int, port: int, partial: bool, served: np.ndarray) -> int:
    """Of a near cut, each time, by which the units stop (kind 0) or a port is busy."""
    if kind == 0 and (timing.hides[operand, 1] or (timing.through[operand, 1] and not partial)):
        return 0
    return int(served[INWARDS, port] + served[OUTWARDS, port])


@lending
def _cycle_rates(
    arrays: Arrays, timing: Timing, placed: Placed, ground: Ground, near: Near, start: int, rates: Rates,
    room: tuple[np.ndarray, np.ndarray], found: np.ndarray,
) -> None:  # fmt: skip
    """Write [sum, point, partial] of near cuts; room is for a tile and for cycles."""
    tile, served = room
    last = len(near.cuts) - 1
    for operand in range(last + 1):
        if near.cuts[operand] < 0:
            continue
        for here in range(ground.inner[operand]):
            if rest_from(ground, operand, near.cuts[operand], start, here) >= NEVER:
                continue
            tile_at_point(ground, operand, here, tile)
            held, at = held_elements(arrays, placed, operand, 1, tile), rates.first[operand] + here
            for partial in range(2 if operand == last else 1):
                serve_crossing(arrays, timing, placed, (operand, 1), tile, held, partial == 1, served)
                for number in range(len(timing.together)):
                    _, kind, port = timing.together[number]
                    found[number, at, partial] = _cycles(timing, operand, kind, port, partial == 1, served)


@lending
def _cycles_of(
    timing: Timing, placed: Placed, ground: Ground, clock: Clock, near: Near, start: int, number: int, tiles: Tiles,
    rates: Rates, cycles: np.ndarray, alone: np.ndarray, own: np.ndarray,
) -> None:  # fmt: skip
    """As `energies_of`, of one of the sums."""
    last, column = len(near.cuts) - 1, timing.together[number, 0] - SUMS
    for tile in range(len(tiles.points)):
        times = tiles.times[tile]
        for operand in range(last + 1):
            alone[tile, operand] = own[tile, operand] = NEVER
            if not tiles.fitting[tile] >> operand & 1:
                continue
            cut, here, among = near.cuts[operand], tiles.here[tile, operand], timing.place[operand, column]
            at = rates.first[operand] + here
            partial = 1 if operand == last and (placed.outside[operand, 1] or times > rates.moved[at]) else 0
            alone[tile, operand], behind = 0, 0
            if among >= 0:
                alone[tile, operand] = clock.table[
                    cycles_from(timing, ground, clock, operand, (cut, start), here) + among
                ]
                behind = clock.table[cycles_from(timing, ground, clock, operand, (cut + 1, partial), here) + among]
            cost = float(times) * cycles[at, partial]
            own[tile, operand] = min(int(cost) + behind, NEVER) if cost < NEVER else NEVER


@inner
def timed_near_of(
    arrays: Arrays, timing: Timing, placed: Placed, ground: Ground, clock: Clock, start: int, box: Near, points: int
) -> tuple[Near, bool, bool]:
    """What near cuts cost more together: energy, and each sum of `Timing.together`; and whether that is notable."""
    operands, kinds = len(box.cuts), 1 + len(timing.together)
    near = Near(box.cuts, box.shape, box.strides, np.full(points, -1, np.int32), box.more)
    tiles = tiles_of(ground, placed, near, start, points)
    count = len(tiles.points)
    near = Near(near.cuts, near.shape, near.strides, near.place, np.empty((kinds, count, 1 << operands), np.int64))
    alone, own = np.empty((count, operands), np.int64), np.empty((count, operands), np.int64)
    rates = rates_of(arrays, placed, ground, near, start)
    energies_of(arrays, placed, ground, near, start, tiles, rates, alone, own)
    close(near, tiles, 0, alone, own)
    in_energy, in_time = says_more(near, 0, alone), False
    cycles = np.zeros((len(timing.together), len(rates.whole), 2), np.int64)
    room = np.ones(len(placed.steps), np.int64), np.zeros((2, timing.many))
    _cycle_rates(arrays, timing, placed, ground, near, start, rates, room, cycles)
    for number in range(len(timing.together)):
        _cycles_of(timing, placed, ground, clock, near, start, number, tiles, rates, cycles[number], alone, own)
        close(near, tiles, 1 + number, alone, own)
        in_time = in_time or says_more(near, 1 + number, alone)
    return near, in_energy, in_time

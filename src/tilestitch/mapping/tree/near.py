"""What the cuts into the innermost memories cost together, compiled: more than the least that each costs alone.

Alone, each operand keeps all loops that leave it alone inside its cut. But tiles contain one another: the loops inside
one cut are inside all cuts further out, and an innermost memory holds few elements. Where two of these *near* cuts are
still to come, both tiles fit only a small part of the lattice, a box. There we know at every tile what the near cuts
that are left come to in the best order, each with the least that its operand costs further out.
"""

from typing import NamedTuple

import numpy as np

from tilestitch.base.jit import inlined, inner, lending
from tilestitch.mapping.tree.ground import Desk, Ground, rest_from
from tilestitch.mapping.tree.labels import NEVER
from tilestitch.mapping.tree.quick_arrays import TOGETHER, Arrays, Placed
from tilestitch.mapping.tree.quick_prices import crossing_fj, held_elements
from tilestitch.mapping.tree.tables import FEMTO

MOST_POINTS = 2**16  # of a box; of larger ones nothing is known
NOTABLE = 0.02  # of what all cuts cost alone


class Near(NamedTuple):
    """What near cuts cost more together."""

    cuts: np.ndarray  # by operand: its near cut, or -1
    shape: np.ndarray  # by axis: how many powers the box has
    strides: np.ndarray  # by axis, in the box
    place: np.ndarray  # by point of the box: which of those it is at which two near cuts fit, or -1
    more: np.ndarray  # by kind of cost, such a point, and cuts to come as bits by operand; NEVER where they do not fit


class Tiles(NamedTuple):
    """The points of a box at which two near cuts fit, in ascending order."""

    points: np.ndarray
    fitting: np.ndarray  # the operands whose cuts fit, as bits
    larger: np.ndarray  # the axes along which the box goes on, as bits
    times: np.ndarray  # how many such tiles there are
    here: np.ndarray  # [tile, operand] in the lattice of each operand


class Rates(NamedTuple):
    """What near cuts cost for each time (fJ), by point of the lattices of all operands, one after another."""

    first: np.ndarray  # by operand
    moved: np.ndarray  # how many tiles there are if all that leaves the operand alone is inside
    whole: np.ndarray  # of what is read, and of complete sums
    partial: np.ndarray
    back: np.ndarray  # of partial sums that come back
    slack: np.ndarray  # by operand: what rounding may take of all times together


@inner
def near_box(ground: Ground, start: int) -> tuple[Near, int]:
    """The box of the near cuts, without what they cost, and how many points it has; `start` is 1 for partial sums."""
    operands, many = len(ground.place_of), 0
    cuts = np.full(operands, -1, np.int64)
    for operand in range(operands):
        near = 0 if operand == operands - 1 else 1
        if ground.first[operand + 1] - ground.first[operand] > near + 1:  # there is a memory further out
            cuts[operand] = near
            many += 1
    shape, strides = np.ones(len(ground.axes), np.int64), np.zeros(len(ground.axes), np.int64)
    points = 1 if many > 1 else 0
    for axis in range(len(shape) - 1, -1, -1):
        strides[axis] = points
        for power in range(1, ground.axes[axis, 2]):
            fits = 0
            for operand in range(operands):
                here = power * ground.strides[operand, axis]
                if cuts[operand] >= 0 and rest_from(ground, operand, cuts[operand], start, here) < NEVER:
                    fits += 1
            if fits >= 2:
                shape[axis] = power + 1
        points *= shape[axis]
    return Near(cuts, shape, strides, np.zeros(0, np.int32), np.zeros((1, 0, 0), np.int64)), points


@inner
def without_box(near: Near) -> Near:
    """Nothing is known of near cuts."""
    return Near(np.full(len(near.cuts), -1, np.int64), near.shape, near.strides, near.place, near.more)


@inner
def tiles_of(ground: Ground, placed: Placed, near: Near, start: int, points: int) -> Tiles:
    """The points of a box at which two near cuts fit, with their places in `near`."""
    operands, axes = len(near.cuts), len(near.shape)
    tiles = Tiles(
        np.empty(points, np.int64), np.empty(points, np.int64), np.empty(points, np.int64), np.empty(points, np.int64),
        np.empty((points, operands), np.int64),
    )  # fmt: skip
    powers, here = np.zeros(axes, np.int64), np.zeros(operands, np.int64)
    count, point, times, axis = 0, 0, placed.total, 0
    while axis >= 0:
        some, many = 0, 0
        for operand in range(operands):
            cut = near.cuts[operand]
            if cut >= 0 and rest_from(ground, operand, cut, start, here[operand]) < NEVER:
                some += 1 << operand
                many += 1
        axis, ends = axes - 1, many < 2
        if ends:  # where two cuts do not fit, they fit in nothing larger
            while axis >= 0 and powers[axis] == 0:
                axis -= 1
        else:
            tiles.points[count], tiles.fitting[count], tiles.times[count] = point, some, times
            larger = 0
            for one in range(axes):
                larger += 1 << one if powers[one] + 1 < near.shape[one] else 0
            tiles.larger[count] = larger
            for operand in range(operands):
                tiles.here[count, operand] = here[operand]
            near.place[point] = count
            count += 1
        while axis >= 0 and (ends or powers[axis] + 1 == near.shape[axis]):
            point -= powers[axis] * near.strides[axis]
            for operand in range(operands):
                here[operand] -= powers[axis] * ground.strides[operand, axis]
            for _ in range(powers[axis]):
                times *= ground.axes[axis, 1]
            powers[axis], ends = 0, False
            axis -= 1
        if axis >= 0:
            powers[axis] += 1
            point += near.strides[axis]
            times //= ground.axes[axis, 1]
            for operand in range(operands):
                here[operand] += ground.strides[operand, axis]
    return Tiles(
        tiles.points[:count], tiles.fitting[:count], tiles.larger[:count], tiles.times[:count], tiles.here[:count]
    )


@lending
def tile_at_point(ground: Ground, operand: int, here: int, tile: np.ndarray) -> int:
    """Write the tile at a point of an operand's lattice, and say how many there are if all else is inside."""
    tile[:] = 1
    moved = 1
    for axis in range(len(ground.axes)):
        stride = ground.strides[operand, axis]
        if stride > 0:
            loop, prime, powers = ground.axes[axis, 0], ground.axes[axis, 1], ground.axes[axis, 2]
            power = here // stride % powers
            for at in range(powers - 1):
                if at < power:
                    tile[loop] *= prime
                else:
                    moved *= prime
    return moved


@lending
def _rate(all_times_fj: float, total: int) -> float:
    """What it costs each time; nothing where that is too much to compare, and infinite where it cannot be."""
    if all_times_fj >= NEVER:
        return np.inf
    return max(0.0, all_times_fj) / total


@inner
def rates_of(arrays: Arrays, placed: Placed, ground: Ground, near: Near, start: int) -> Rates:
    """What near cuts cost for each time at every point of the lattices of the operands, at least."""
    operands = len(near.cuts)
    first = np.zeros(operands + 1, np.int64)
    for operand in range(operands):
        first[operand + 1] = first[operand] + ground.inner[operand]
    size = first[operands]
    rates = Rates(first, np.ones(size, np.int64), np.zeros(size), np.zeros(size), np.zeros(size), np.zeros(operands))
    tile, total = np.ones(len(placed.steps), np.int64), placed.total
    for operand in range(operands):
        if near.cuts[operand] < 0:
            continue
        inside, around = arrays.access_pj[operand, 0, 1], arrays.access_pj[operand, 1, 0]
        rates.slack[operand] = FEMTO * (inside[0] + inside[1] + around[0] + around[1]) + 4
        for here in range(ground.inner[operand]):
            if rest_from(ground, operand, near.cuts[operand], start, here) >= NEVER:
                continue
            at = first[operand] + here
            rates.moved[at] = tile_at_point(ground, operand, here, tile)
            held, shared = np.rint(held_elements(arrays, placed, operand, 1, tile)), 0.0
            if arrays.sharing[operand, 1] >= TOGETHER:
                shared = np.rint(held_elements(arrays, placed, operand, 2, tile))
            whole = crossing_fj(arrays, placed, operand, 1, held, shared, total, 0, False)
            rates.whole[at] = _rate(whole, total)
            if operand == operands - 1:
                out = crossing_fj(arrays, placed, operand, 1, held, shared, total, 0, True)
                both = crossing_fj(arrays, placed, operand, 1, held, shared, total, total, True)
                rates.partial[at] = _rate(out, total)
                rates.back[at] = _rate(both - out, total) if both < NEVER else np.inf
    return rates


@lending
def energies_of(
    arrays: Arrays, placed: Placed, ground: Ground, near: Near, start: int, tiles: Tiles, rates: Rates,
    alone: np.ndarray, own: np.ndarray,
) -> None:  # fmt: skip
    """Write what a near cut and later ones cost at least, from a tile on and if it is there: [tile, operand]."""
    operands = len(near.cuts)
    for number in range(len(tiles.points)):
        times = tiles.times[number]
        for operand in range(operands):
            alone[number, operand] = own[number, operand] = NEVER
            if not tiles.fitting[number] >> operand & 1:
                continue
            cut, here = near.cuts[operand], tiles.here[number, operand]
            at = rates.first[operand] + here
            partial = operand == operands - 1 and (placed.outside[operand, 1] or times > rates.moved[at])
            cost = times * (rates.partial[at] if partial else rates.whole[at])
            if partial:
                cost += rates.back[at] * (times if arrays.reads_first_sums else times - rates.moved[at])
            alone[number, operand] = rest_from(ground, operand, cut, start, here)
            if cost < NEVER:
                least = max(0, int(cost * (1 - 1e-12) - rates.slack[operand]))
                behind = rest_from(ground, operand, cut + 1, 1 if partial else 0, here)
                own[number, operand] = min(least + behind, NEVER)


@lending
def close(near: Near, tiles: Tiles, kind: int, alone: np.ndarray, own: np.ndarray) -> None:
    """Enter one kind of cost; see `energies_of`."""
    more, operands = near.more[kind], alone.shape[1]
    for number in range(len(tiles.points) - 1, -1, -1):
        here, fitting, larger = more[number], tiles.fitting[number], tiles.larger[number]
        for some in range(len(here)):
            here[some] = NEVER
        here[0] = 0
        for axis in range(len(near.shape)):
            if larger >> axis & 1:
                place = near.place[tiles.points[number] + near.strides[axis]]
                if place >= 0:
                    for some in range(3, len(here)):
                        here[some] = min(here[some], more[place, some])
        for some in range(1, len(here)):
            if some & fitting != some:
                continue
            for operand in range(operands):
                bit = 1 << operand
                if some == bit:
                    here[some] = alone[number, operand]
                elif some & bit:
                    here[some] = min(here[some], own[number, operand] + here[some - bit])
    for number in range(len(tiles.points)):
        here = more[number]
        for some in range(1, len(here)):
            if here[some] < NEVER:
                for operand in range(operands):
                    here[some] -= alone[number, operand] if some >> operand & 1 else 0
                here[some] = max(0, here[some])
            else:
                here[some] = NEVER


@lending
def says_more(near: Near, kind: int, alone: np.ndarray) -> bool:
    """Whether of all near cuts a table says notably more than what they and later ones cost alone: [tile, operand]."""
    some, least = 0, 0
    for operand in range(len(near.cuts)):
        if near.cuts[operand] >= 0 and len(alone) > 0:
            some += 1 << operand
            least += alone[0, operand]
    return some == 0 or near.more[kind, 0, some] > NOTABLE * least


@inner
def near_of(arrays: Arrays, placed: Placed, ground: Ground, start: int, box: Near, points: int) -> tuple[Near, bool]:
    """What near cuts cost more energy together, and whether that is notable."""
    operands = len(box.cuts)
    near = Near(box.cuts, box.shape, box.strides, np.full(points, -1, np.int32), box.more)
    tiles = tiles_of(ground, placed, near, start, points)
    count = len(tiles.points)
    near = Near(near.cuts, near.shape, near.strides, near.place, np.empty((1, count, 1 << operands), np.int64))
    alone, own = np.empty((count, operands), np.int64), np.empty((count, operands), np.int64)
    rates = rates_of(arrays, placed, ground, near, start)
    energies_of(arrays, placed, ground, near, start, tiles, rates, alone, own)
    close(near, tiles, 0, alone, own)
    return near, says_more(near, 0, alone)


@inlined
def point_in(near: Near, desk: Desk) -> int:
    """The point of a tile in the box, or -1."""
    if len(near.place) == 0:
        return -1
    point = 0
    for axis in range(len(near.shape)):
        if desk.powers[axis] >= near.shape[axis]:
            return -1
        point += desk.powers[axis] * near.strides[axis]
    return point


@inlined
def step_in(near: Near, desk: Desk, point: int, axis: int) -> int:
    """The point a step along an axis further, or -1."""
    if axis < 0 or point < 0:
        return point
    return point + near.strides[axis] if desk.powers[axis] + 1 < near.shape[axis] else -1


@inlined
def to_come(near: Near, desk: Desk) -> int:
    """The near cuts that are not chosen, as bits by operand; 0 if these are less than two."""
    some, many = 0, 0
    for operand in range(len(near.cuts)):
        if desk.chosen[operand] <= near.cuts[operand]:
            some += 1 << operand
            many += 1
    return some if many > 1 else 0


@inlined
def more_together(near: Near, some: int, point: int) -> int:
    """What near cuts to come cost more together than alone; NEVER where they do not fit."""
    if some == 0:
        return 0
    place = near.place[point] if point >= 0 else -1
    return int(near.more[0, place, some]) if place >= 0 else NEVER

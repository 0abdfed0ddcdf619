"""What the search of one spatial choice stands on: its lattice, the rooms that are shared, and what is left to pay.

What a cut costs is asked when a label comes to it. What the later cuts of an operand cost at least from a tile on
depends only on the loops that move it, so those tables are small.
"""

from typing import NamedTuple

import numpy as np

from tilestitch.base.jit import inlined, inner, lending, tiered
from tilestitch.mapping.tree.labels import FOUND, NEVER, NOTHING
from tilestitch.mapping.tree.quick_arrays import Arrays, Placed
from tilestitch.mapping.tree.quick_bounds import common_loops, divisors, in_turn_fj
from tilestitch.mapping.tree.quick_prices import cut_of, from_units, no_choice, place

TOO_LARGE = 3  # energies that are not compared


class Ground(NamedTuple):
    """What the search of one choice stands on."""

    first: np.ndarray  # by operand: its first cut; one more at the end
    place_of: np.ndarray  # by operand: what a cut that is placed adds to the state
    axes: np.ndarray  # of the lattice: loop, prime, how many powers
    strides: np.ndarray  # [operand, axis] of the lattice of each operand, at the end of all loops
    inner: np.ndarray  # by operand: points of its lattice
    offsets: np.ndarray  # by operand: where its part of `togo` begins
    togo: np.ndarray  # by cut, whether partial sums arrive, and point: what it and the later cuts cost at least
    in_turn_fj: int  # what two operands cost more at the units because only one of them can stay
    shared: np.ndarray  # by cut: which of the shared memories it lies in, or -1
    limit: np.ndarray  # by shared memory: its bits
    points: int
    final_sums: bool


class Desk(NamedTuple):
    """The label that is at hand, and the one that comes of it."""

    placed: np.ndarray  # by operand: cuts that are placed
    chosen: np.ndarray  # and in the one that comes of it
    here: np.ndarray  # by operand: its point
    powers: np.ndarray  # by axis
    tile: np.ndarray
    taken: np.ndarray  # by shared memory


@lending
def lay(ground: Ground, desk: Desk, state: int, point: int) -> None:
    """Take a label at this state and point."""
    desk.tile[:] = 1
    desk.here[:] = 0
    for operand in range(len(desk.placed)):
        size = ground.first[operand + 1] - ground.first[operand] + 1
        desk.placed[operand] = state // ground.place_of[operand] % size
    for axis in range(len(ground.axes)):
        power = point // ground.strides[len(desk.placed), axis] % ground.axes[axis, 2]
        desk.powers[axis] = power
        for _ in range(power):
            desk.tile[ground.axes[axis, 0]] *= ground.axes[axis, 1]
        for operand in range(len(desk.placed)):
            desk.here[operand] += power * ground.strides[operand, axis]


@inlined
def rest_from(ground: Ground, operand: int, cut: int, partial: int, here: int) -> int:
    """The least that a cut of an operand and its later ones cost from a point of its lattice on.

    Of the result it matters whether partial sums arrive.
    """
    side = partial if operand == len(ground.place_of) - 1 else 0
    return int(ground.togo[ground.offsets[operand] + (cut * 2 + side) * ground.inner[operand] + here])


@lending
def rest_of(ground: Ground, desk: Desk, partial: int, axis: int) -> int:
    """The least that all cuts that are not chosen cost, if no memory were shared, a step along an axis further."""
    rest, last = 0, len(desk.placed) - 1
    for operand in range(last + 1):
        cut = desk.chosen[operand]
        if cut < ground.first[operand + 1] - ground.first[operand]:
            here = desk.here[operand] + (ground.strides[operand, axis] if axis >= 0 else 0)
            rest += rest_from(ground, operand, cut, partial, here)
            if rest >= NEVER:
                return NEVER
    return rest + ground.in_turn_fj if last == 2 and desk.chosen[0] + desk.chosen[1] == 0 else rest


@lending
def closes(ground: Ground, desk: Desk, component: int) -> bool:
    """Whether all operands that share a memory have their cut there."""
    for operand in range(len(desk.placed)):
        for other in range(ground.first[operand] + desk.chosen[operand], ground.first[operand + 1]):
            if ground.shared[other] == component:
                return False
    return True


@tiered
def _have_room(
    bounds: Arrays, placed: Placed, first: np.ndarray, shared: np.ndarray, limit: np.ndarray, final_sums: bool
) -> bool:
    """Whether the operands fit together into the outermost memories, where all of them lie whole."""
    taken = np.zeros(len(limit))
    for operand in range(len(bounds.axes)):
        component = shared[first[operand + 1] - 1]
        if component >= 0:
            cut = first[operand + 1] - first[operand] - 1
            _, room, _ = cut_of(bounds, placed, operand, cut, placed.steps, 0, final_sums)
            taken[component] += room
            if taken[component] > limit[component]:
                return False
    return True


class Sheet(NamedTuple):
    """One choice, laid out for its search."""

    over: np.ndarray  # [operand, fan-out, loop] how far loops are spread, as fractions
    under: np.ndarray
    steps: np.ndarray
    togo: np.ndarray  # what cuts cost at least, from `least_from`
    offsets: np.ndarray  # by operand: where its part begins
    shared: np.ndarray  # by cut: which of the memories that operands share it lies in, or -1
    limit: np.ndarray  # by shared memory: its bits


@inner
def ground_of(
    arrays: Arrays, bounds: Arrays, sheet: Sheet, final_sums: bool
) -> tuple[int, Placed, Ground, tuple[int, int]]:
    """What a search stands on, and why there is none: `FOUND` if there is one, else `NOTHING` or `TOO_LARGE`.

    At last what results cost at the units in whole femtojoules, and 1 if partial sums come from them.
    """
    operands, loops = arrays.moving.shape
    steps = sheet.steps
    unplaced = no_choice(arrays)
    placed = Placed(
        unplaced.over, unplaced.under, unplaced.share, unplaced.differing, unplaced.exchanging, unplaced.outside,
        unplaced.whole, unplaced.instances, steps, int(np.prod(steps)),
    )  # fmt: skip
    axes = divisors(steps, np.ones(loops, np.bool_))
    strides = np.ones((operands + 1, len(axes)), np.int64)  # of the lattice of each operand, and of all loops
    points = 1
    for axis in range(len(axes) - 1, -1, -1):
        strides[operands, axis] = points
        points *= axes[axis, 2]
    first, inside = np.zeros(operands + 1, np.int64), np.ones(operands, np.int64)
    for operand in range(operands):
        place(arrays, placed, operand, sheet.over[operand], sheet.under[operand], 0.0)
        for axis in range(len(axes) - 1, -1, -1):
            strides[operand, axis] = 0
            if arrays.moving[operand, axes[axis, 0]]:
                strides[operand, axis] = inside[operand]
                inside[operand] *= axes[axis, 2]
        cuts = arrays.levels[operand] + (0 if operand == operands - 1 else 1)
        first[operand + 1] = first[operand] + cuts
    ended, in_turn = FOUND, 0
    if operands == 3:
        common = common_loops(arrays)
        one, other = in_turn_fj(arrays, placed, 0, common), in_turn_fj(arrays, placed, 1, common)
        in_turn = min(one, other)
        if in_turn < 0:
            ended = TOO_LARGE
    is_partial, units_fj = from_units(arrays, placed)
    if units_fj < 0:
        ended = TOO_LARGE
    place_of, states = np.empty(operands, np.int64), 2
    for operand in range(operands):
        place_of[operand] = states
        states *= first[operand + 1] - first[operand] + 1
    if ended == FOUND and not _have_room(bounds, placed, first, sheet.shared, sheet.limit, final_sums):
        ended = NOTHING
    ground = Ground(
        first, place_of, axes, strides, inside, sheet.offsets, sheet.togo, in_turn, sheet.shared, sheet.limit, points,
        final_sums,
    )  # fmt: skip
    return ended, placed, ground, (int(units_fj), 1 if is_partial else 0)


@inner
def desk_of(ground: Ground, loops: int) -> Desk:
    """Room for the label at hand."""
    operands = len(ground.place_of)
    return Desk(
        np.zeros(operands, np.int64), np.zeros(operands, np.int64), np.zeros(operands, np.int64),
        np.zeros(len(ground.axes), np.int64), np.ones(loops, np.int64), np.zeros(len(ground.limit), np.float64),
    )  # fmt: skip

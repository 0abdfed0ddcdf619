"""Latency of a mapping in the default mode: slots of passes of the register files, and the DMA of tiles beside them.

docs/mapping.md#the-model says the rules; tests/helpers/array_timing.py goes by them pass by pass.
"""

from typing import NamedTuple

import numpy as np

from tilestitch.base.jit import inner
from tilestitch.mapping.parts import CYCLES, words_of
from tilestitch.mapping.tables import DOUBLE, NETWORK, MachineTable, NestTable, Pass, Tiles

# Of `stays`: level, operand, product. Of a run of a level's innermost loops: all factors, and those of loops that move
# the result. A row for each operand, of the loops that leave it alone; one more, of the loops that move the result.
SCRATCHPAD, MEMORY = range(2)
ALL, OF_RESULT = range(2)


@inner
def pass_cycles(nest: NestTable, machine: MachineTable, published: bool, rf: np.ndarray) -> int:
    """Cycles of arithmetic in a pass of the register files.

    One multiply-accumulate of each element a cycle; two additions to one result are the stages of the adder apart.
    """
    iterations = 1
    for factor in rf:
        iterations *= factor
    if published or machine.adder_stages == 1:
        return iterations
    results = int(words_of(nest, len(nest.operands) - 1, rf))
    return iterations if results >= machine.adder_stages else -(-iterations * machine.adder_stages // results)


@inner
def slot_cycles(
    nest: NestTable,
    machine: MachineTable,
    work: Pass,
    changes: np.ndarray,
    level: int,
    leaves: bool,
    comes: bool,
) -> int:
    """Cycles of a slot: a pass is computed while inputs of the next come and results go.

    The inputs that come are those that change after at most `level` passes. `leaves` says that results go, `comes` that
    partial sums of a later pass come back. What has one buffer waits until the pass is over.
    """
    written = len(nest.operands) - 1
    compute, exchanged = work.compute, work.exchanged
    end = compute
    for network in range(3):
        busy, brings, waits = 0, False, False
        for k in range(written):
            if nest.operands[k, NETWORK] == network and changes[k] <= level:
                brings = True
                if nest.operands[k, DOUBLE]:
                    busy += int(exchanged[k, CYCLES])
                else:
                    waits = True
        if waits:
            busy = max(busy, compute)
            for k in range(written):
                if nest.operands[k, NETWORK] == network and changes[k] <= level and not nest.operands[k, DOUBLE]:
                    busy += int(exchanged[k, CYCLES])
        if brings:
            end = max(end, busy + machine.late)
        if (leaves or comes) and nest.operands[written, NETWORK] == network:
            if leaves:
                busy = max(busy, machine.drain + work.sums + (0 if nest.operands[written, DOUBLE] else compute))
            end = max(end, busy + int(exchanged[written, CYCLES]) + (machine.late if comes else 0))
    return end


@inner
def ends_cycles(nest: NestTable, machine: MachineTable, work: Pass) -> int:
    """Cycles after the last pass: of results with two buffers, and until the last word has arrived."""
    written = len(nest.operands) - 1
    extra = 0
    if nest.operands[written, DOUBLE]:
        extra = machine.drain + work.sums + int(work.exchanged[written, CYCLES])
    return extra + machine.latency + 1


@inner
def no_pass(work: Pass) -> Pass:
    """What is exchanged with `work`, and nothing computed beside it."""
    return Pass(0, 0, 0.0, work.exchanged)


@inner
def boundary_slot(
    nest: NestTable, machine: MachineTable, work: Pass, changes: np.ndarray, level: int
) -> tuple[int, int]:
    """Cycles of a slot that brings what changes after `level` passes, and how many more where older sums come too.

    docs/mapping.md#slots-at-a-boundary.
    """
    written = len(nest.operands) - 1
    overlapped = nest.operands[written, DOUBLE] != 0
    changed = changes[written] <= level
    leaves = changes[written] == 1 if overlapped else changed
    slot = slot_cycles(nest, machine, work, changes, level, leaves, False)
    if changed and (overlapped or machine.late > 0):
        return slot, slot_cycles(nest, machine, work, changes, level, leaves, True) - slot
    return slot, 0


@inner
def next_level(stays: np.ndarray, operands: int, level: int, end: int, own_end: int) -> tuple[int, int]:
    """The next longer time for which an operand stays, and how many different results there are in it.

    `end` and `own_end` where none stays longer than `level`. docs/mapping.md#counting-boundaries.
    """
    after, own = end, own_end
    for k in range(operands):
        if level < stays[k, ALL] < after:
            after, own = stays[k, ALL], stays[k, OF_RESULT]
    return after, own


class Boundaries(NamedTuple):
    """The boundaries between tiles at which the same operands change. docs/mapping.md#counting-boundaries."""

    after: int  # they come at multiples of a level that are no multiples of this, the next level
    own: int  # fresh tiles among so many
    many: int
    to_fresh: int  # of these boundaries: the tile after them is fresh
    fresh_both: int  # the tile before and the tile after
    from_fresh: int  # the tile before, but not the tile after
    inputs: int  # how many operands that are read change
    loads: int  # cycles of DMA of these inputs
    slot: int  # cycles of the slot that brings the first pass of the tile after
    more: int  # cycles that it takes longer where older sums come with it


@inner
def boundaries_of(
    nest: NestTable,
    machine: MachineTable,
    work: Pass,
    tiles: Tiles,
    stays: np.ndarray,
    changes: np.ndarray,
    level: int,
    own: int,
) -> Boundaries:
    """The boundaries at multiples of `level` tiles; of the tiles between two of them `own` are fresh."""
    written = len(nest.operands) - 1
    fresh, unbroken = int(tiles.first_tiles), stays[MEMORY, written + 1, ALL]  # fresh tiles come in rows of so many
    after, after_own = next_level(stays[MEMORY], written + 1, level, tiles.tiles, fresh)
    inputs = loads = 0
    for k in range(written):
        if stays[MEMORY, k, ALL] <= level:
            loads += int(tiles.moved[k, CYCLES])
            inputs += 1
    fresh_both = from_fresh = 0
    if level < unbroken:
        fresh_both = fresh // unbroken * (unbroken // level - unbroken // min(after, unbroken))
    if level <= unbroken < after and fresh < tiles.tiles:
        from_fresh = fresh // unbroken
    slot, more = boundary_slot(nest, machine, work, changes, tiles.passes * level)
    return Boundaries(
        after,
        after_own,
        tiles.tiles // level - tiles.tiles // after,
        fresh // own - fresh // after_own,
        fresh_both,
        from_fresh,
        inputs,
        loads,
        slot,
        more,
    )


@inner
def slots_inside(
    nest: NestTable,
    machine: MachineTable,
    work: Pass,
    stays: np.ndarray,
    changes: np.ndarray,
    passes: int,
    fresh_passes: int,
) -> tuple[int, int]:
    """Cycles of all slots of a tile but its last, of a fresh tile and of another; `stays` in the scratchpad."""
    fresh = again = 0
    level, own = 1, 1
    while level < passes:
        after, after_own = next_level(stays, len(nest.operands), level, passes, fresh_passes)
        many = passes // level - passes // after
        slot, more = boundary_slot(nest, machine, work, changes, level)
        fresh += many * slot + (many - fresh_passes // own + fresh_passes // after_own) * more
        again += many * (slot + more)
        level, own = after, after_own
    return fresh, again


@inner
def layer_cycles(nest: NestTable, machine: MachineTable, work: Pass, tiles: Tiles, stays: np.ndarray) -> int:
    """Cycles of all tiles of the scratchpad.

    A tile or pass is called fresh if its results were never worked on before. Boundaries between passes, and between
    tiles, go by the operands that change there, those that change more often first.
    """
    operands = len(nest.operands)
    written = operands - 1
    overlapped = nest.operands[written, DOUBLE] != 0
    passes, all_passes = tiles.passes, tiles.passes * tiles.tiles
    changes = np.empty(operands, np.int64)  # after so many passes
    load = 0
    for k in range(operands):
        changes[k] = stays[SCRATCHPAD, k, ALL]
        if changes[k] == passes:
            changes[k] *= stays[MEMORY, k, ALL]
        if k < written:
            load += int(tiles.moved[k, CYCLES])

    fresh_inside, again_inside = slots_inside(
        nest, machine, work, stays[SCRATCHPAD], changes, passes, tiles.fresh_passes
    )
    # With two buffers, results that changed after a pass go in the next: never in the very first slot.
    opening = 0
    if overlapped and all_passes > 1:
        opening = slot_cycles(nest, machine, work, changes, 1, True, False)
        opening -= slot_cycles(nest, machine, work, changes, 1, False, False)
        if changes[written] > 1:
            fresh_inside += passes // changes[written] * opening
            again_inside += passes // changes[written] * opening

    time = max(machine.configuration, load) + int(tiles.moved[written, CYCLES]) + ends_cycles(nest, machine, work)
    fill = slot_cycles(nest, machine, no_pass(work), changes, all_passes, False, False)
    leaves = not overlapped or (changes[written] == 1 and all_passes > 1)
    last = slot_cycles(nest, machine, work, changes, 0, leaves, False)
    if tiles.tiles == 1:
        return time + fill + fresh_inside + last - (opening if passes > 1 else 0)
    inside = (fresh_inside, again_inside)
    if overlapped:
        return time + fill + _tiles_overlapped(nest, machine, work, tiles, stays, changes, inside, opening, last)
    return time + last + _tiles_in_turn(nest, machine, work, tiles, stays, changes, inside, fill)


@inner
def _tiles_overlapped(
    nest: NestTable,
    machine: MachineTable,
    work: Pass,
    tiles: Tiles,
    stays: np.ndarray,
    changes: np.ndarray,
    inside: tuple[int, int],
    opening: int,
    last: int,
) -> int:
    """Cycles of several tiles whose results have two buffers: each takes its slots or its DMA.

    `inside` are all slots of a tile but its last, of a fresh tile and of another; `opening` what a slot takes longer if
    results go in it, `last` the very last. docs/mapping.md#results-with-two-buffers.
    """
    written = len(nest.operands) - 1
    fresh_inside, again_inside = inside
    fresh_tiles, store, result_stays = (
        int(tiles.first_tiles),
        int(tiles.moved[written, CYCLES]),
        stays[MEMORY, written, ALL],
    )
    time = 0
    level, own = 1, 1
    while level < tiles.tiles:
        at = boundaries_of(nest, machine, work, tiles, stays, changes, level, own)
        fresh, again = fresh_inside + at.slot, again_inside + at.slot
        loads = at.loads
        back = store if result_stays <= level else 0  # older sums, loaded again
        if result_stays == 1:
            time += at.fresh_both * max(fresh, loads + store)
            time += at.from_fresh * max(fresh + at.more, loads + back + store)
            time += (at.to_fresh - at.fresh_both) * max(again, loads + store)
            time += (at.many - at.to_fresh - at.from_fresh) * max(again + at.more, loads + back + store)
            if level == 1:  # the first tile stores nothing
                time += max(fresh - opening, loads) - max(fresh, loads + store)
        else:
            time += at.to_fresh * max(again, loads)
            rest = at.many - at.to_fresh
            if level == 1:  # of tiles after a change of results one stores them; the tile after it has the same
                changed = tiles.tiles // result_stays
                skips = opening if changes[written] > tiles.passes else 0
                time += (fresh_tiles - 1) * max(fresh + at.more + skips, loads + store)
                time += (changed - fresh_tiles) * max(again + at.more + skips, loads + store)
                time += max(fresh + at.more - (opening - skips), loads)
                rest -= changed
            time += rest * max(again + at.more, loads + back)
        level, own = at.after, at.own
    last += fresh_inside if fresh_tiles == tiles.tiles else again_inside
    return time + max(last, store if result_stays == 1 else 0)


@inner
def _tiles_in_turn(
    nest: NestTable,
    machine: MachineTable,
    work: Pass,
    tiles: Tiles,
    stays: np.ndarray,
    changes: np.ndarray,
    inside: tuple[int, int],
    fill: int,
) -> int:
    """Cycles of several tiles whose results have one buffer, but for the very last slot.

    `inside` is as in `_tiles_overlapped`; `fill` brings the very first pass. docs/mapping.md#results-with-one-buffer.
    """
    written = len(nest.operands) - 1
    fresh_inside, again_inside = inside
    fresh_tiles, store, result_stays = (
        int(tiles.first_tiles),
        int(tiles.moved[written, CYCLES]),
        stays[MEMORY, written, ALL],
    )
    time = fresh_turn = again_turn = base = base_again = 0
    level, own = 1, 1
    while level < tiles.tiles:
        at = boundaries_of(nest, machine, work, tiles, stays, changes, level, own)
        loads = at.loads
        stored = store if result_stays <= level else 0  # in the turn of the tile after the boundary
        again = loads + stored  # the same may be loaded in the turn of the tile before it
        if level == 1:
            fresh_turn, again_turn = fresh_inside + at.slot, again_inside + at.slot + at.more
            base, base_again = loads, again
            time += max(fill + fresh_inside, loads)
            # Later boundaries, and of them those to fresh tiles: turns before and after them are counted there.
            later, later_fresh = tiles.tiles // at.after - 1, fresh_tiles // at.own - 1
            if result_stays == 1:
                final = fresh_turn if fresh_tiles == tiles.tiles else again_turn
                time += max(final, store)
                time += (at.fresh_both - 1 - later_fresh) * max(fresh_turn, loads + store)
                time += at.from_fresh * max(fresh_turn, again + store)
                time += (at.to_fresh - at.fresh_both) * max(again_turn, loads + store)
                rest = at.many - at.to_fresh - at.from_fresh - later + later_fresh
                time += rest * max(again_turn, again + store)
            elif at.inputs == written and machine.late == 0:
                with_results = slot_cycles(nest, machine, work, changes, tiles.passes * result_stays, True, False)
                return time + _tiles_with_late_stores(
                    machine, tiles, result_stays, again_turn, again_inside, loads, store, with_results
                )
            else:
                time += again_turn + (at.many - 1 - later) * max(again_turn, loads)
        else:
            kept = store if result_stays == 1 else 0  # stored in the turn before the boundary, of results before those
            time += at.fresh_both * max(fresh_turn, loads + kept)
            time += at.from_fresh * max(fresh_turn, again + kept)
            time += (at.to_fresh - at.fresh_both) * max(again_turn, loads + kept)
            time += (at.many - at.to_fresh - at.from_fresh) * max(again_turn, again + kept)
            time += at.to_fresh * max(fresh_inside + at.slot, base + stored)
            time += (at.many - at.to_fresh) * max(again_inside + at.slot + at.more, base_again + stored)
        level, own = at.after, at.own
    return time


@inner
def _tiles_with_late_stores(
    machine: MachineTable,
    tiles: Tiles,
    result_stays: int,
    turn: int,
    inside: int,
    loads: int,
    store: int,
    slot: int,
) -> int:
    """Cycles of tiles but the first where results stay for several and all inputs move with every one.

    Results that changed with a tile go in `slot`, which begins its turn; what their store takes then may go on in the
    next turn, whose loads come after it.
    """
    fresh_tiles, changed = int(tiles.first_tiles), tiles.tiles // result_stays - 1
    time = 0
    begin = max(slot + inside, loads)
    late = max(0, max(slot + machine.latency + 1, loads) + store - begin)
    returned = changed + 1 - fresh_tiles
    if result_stays == 2:
        time += changed * begin + max(turn, late if changed > 0 else 0)
        if changed > 0:  # the first turn, then those of which the one before has stored
            time += max(turn, loads) + (fresh_tiles - 2) * max(turn, late + loads)
            time += returned * max(turn, late + loads + store)
        return time
    time += changed * (begin + max(turn, late + loads)) + turn
    time += (fresh_tiles - 1) * max(turn, loads) + returned * max(turn, loads + store)
    return time + (tiles.tiles - 2 - 3 * changed) * max(turn, loads)

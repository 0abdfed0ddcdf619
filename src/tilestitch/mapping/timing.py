"""Latency of a mapping in the default mode: slots of passes of the register files, and the DMA of tiles beside them.

docs/mapping.md#the-model says the rules; tests/helpers/array_timing.py goes by them pass by pass.
"""

import numpy as np

from tilestitch.base.jit import compiled
from tilestitch.mapping.parts import CYCLES, words_of
from tilestitch.mapping.tables import DOUBLE, NETWORK, MachineTable, NestTable

# Of `stays`: level, operand, product. Of a run of a level's innermost loops: all factors, and those of loops that move
# the result. A row for each operand, of the loops that leave it alone; one more, of the loops that move the result.
SCRATCHPAD, MEMORY = range(2)
ALL, OF_RESULT = range(2)


@compiled
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


@compiled
def slot_cycles(
    nest: NestTable,
    machine: MachineTable,
    exchanged: np.ndarray,
    compute: int,
    sums: int,
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
                busy = max(busy, machine.drain + sums + (0 if nest.operands[written, DOUBLE] else compute))
            end = max(end, busy + int(exchanged[written, CYCLES]) + (machine.late if comes else 0))
    return end


@compiled
def ends_cycles(nest: NestTable, machine: MachineTable, exchanged: np.ndarray, sums: int) -> int:
    """Cycles after the last pass: of results with two buffers, and until the last word has arrived."""
    written = len(nest.operands) - 1
    extra = 0
    if nest.operands[written, DOUBLE]:
        extra = machine.drain + sums + int(exchanged[written, CYCLES])
    return extra + machine.latency + 1


@compiled
def layer_cycles(
    nest: NestTable,
    machine: MachineTable,
    compute: int,
    passes: int,
    tiles: int,
    exchanged: np.ndarray,
    sums: int,
    moved: np.ndarray,
    stays: np.ndarray,
    fresh_passes: int,
    fresh_tiles: int,
) -> int:
    """Cycles of all `tiles` of the scratchpad with `passes` each.

    `fresh_passes` and `fresh_tiles` are different results of the passes of a tile, and of tiles. A tile or pass is
    called fresh if its results were never worked on before. Boundaries between passes, and between tiles, go by the
    operands that change there, those that change more often first.
    """
    operands = len(nest.operands)
    written = operands - 1
    overlapped = nest.operands[written, DOUBLE] != 0
    returns = overlapped or machine.late > 0  # partial sums that come may take longer than results that go
    changes = np.empty(operands, np.int64)  # after so many passes
    load = 0
    for k in range(operands):
        changes[k] = stays[SCRATCHPAD, k, ALL]
        if changes[k] == passes:
            changes[k] *= stays[MEMORY, k, ALL]
        if k < written:
            load += int(moved[k, CYCLES])
    store = int(moved[written, CYCLES])
    always = overlapped and changes[written] == 1

    # All slots of a tile but its last: of a fresh tile, and of another.
    fresh_inside = again_inside = 0
    level, own = 1, 1
    while level < passes:
        after, after_own = passes, fresh_passes
        for k in range(operands):
            if level < stays[SCRATCHPAD, k, ALL] < after:
                after, after_own = stays[SCRATCHPAD, k, ALL], stays[SCRATCHPAD, k, OF_RESULT]
        many = passes // level - passes // after
        leaves = always if overlapped else changes[written] <= level
        slot = slot_cycles(nest, machine, exchanged, compute, sums, changes, level, leaves, False)
        fresh_inside += many * slot
        again_inside += many * slot
        if returns and changes[written] <= level:
            more = slot_cycles(nest, machine, exchanged, compute, sums, changes, level, leaves, True) - slot
            fresh_inside += (many - fresh_passes // own + fresh_passes // after_own) * more
            again_inside += many * more
        level, own = after, after_own
    # With two buffers, results that changed after a pass go in the next: never in the very first slot.
    opening = 0
    if overlapped and tiles * passes > 1:
        opening = slot_cycles(nest, machine, exchanged, compute, sums, changes, 1, True, False)
        opening -= slot_cycles(nest, machine, exchanged, compute, sums, changes, 1, False, False)
        if changes[written] > 1:
            fresh_inside += passes // changes[written] * opening
            again_inside += passes // changes[written] * opening

    time = max(machine.configuration, load) + store + ends_cycles(nest, machine, exchanged, sums)
    fill = slot_cycles(nest, machine, exchanged, 0, 0, changes, passes * tiles, False, False)
    leaves = not overlapped or (changes[written] == 1 and tiles * passes > 1)
    last = slot_cycles(nest, machine, exchanged, compute, sums, changes, 0, leaves, False)
    if tiles == 1:
        return time + fill + fresh_inside + last - (opening if passes > 1 else 0)
    inside = (fresh_inside, again_inside)
    if overlapped:
        return (
            time
            + fill
            + _tiles_overlapped(
                nest,
                machine,
                compute,
                passes,
                tiles,
                exchanged,
                sums,
                moved,
                stays,
                changes,
                fresh_tiles,
                inside,
                opening,
                last,
            )
        )
    return (
        time
        + last
        + _tiles_in_turn(
            nest, machine, compute, passes, tiles, exchanged, sums, moved, stays, changes, fresh_tiles, inside, fill
        )
    )


@compiled
def _tiles_overlapped(
    nest: NestTable,
    machine: MachineTable,
    compute: int,
    passes: int,
    tiles: int,
    exchanged: np.ndarray,
    sums: int,
    moved: np.ndarray,
    stays: np.ndarray,
    changes: np.ndarray,
    fresh_tiles: int,
    inside: tuple[int, int],
    opening: int,
    last: int,
) -> int:
    """Cycles of several tiles whose results have two buffers: each takes its slots or its DMA.

    `inside` are all slots of a tile but its last, of a fresh tile and of another; `opening` what a slot takes longer if
    results go in it, `last` the very last.
    """
    written = len(nest.operands) - 1
    fresh_inside, again_inside = inside
    store, result_stays = int(moved[written, CYCLES]), stays[MEMORY, written, ALL]
    always = changes[written] == 1
    time = 0
    unbroken = stays[MEMORY, written + 1, ALL]  # fresh tiles come in rows of so many
    level, own = 1, 1
    while level < tiles:
        after, after_own = tiles, fresh_tiles
        for k in range(written + 1):
            if level < stays[MEMORY, k, ALL] < after:
                after, after_own = stays[MEMORY, k, ALL], stays[MEMORY, k, OF_RESULT]
        many = tiles // level - tiles // after
        loads = 0
        for k in range(written):
            if stays[MEMORY, k, ALL] <= level:
                loads += int(moved[k, CYCLES])
        # Boundaries by whether the tile before, and the tile after, is fresh.
        to_fresh = fresh_tiles // own - fresh_tiles // after_own
        fresh_both = fresh_tiles // unbroken * (unbroken // level - unbroken // min(after, unbroken))
        if level >= unbroken:
            fresh_both = 0
        from_fresh = fresh_tiles // unbroken if level <= unbroken < after and fresh_tiles < tiles else 0
        slot = slot_cycles(nest, machine, exchanged, compute, sums, changes, passes * level, always, False)
        more = 0
        if changes[written] <= passes * level:
            more = slot_cycles(nest, machine, exchanged, compute, sums, changes, passes * level, always, True) - slot
        again = store if result_stays <= level else 0  # loaded
        if result_stays == 1:
            time += fresh_both * max(fresh_inside + slot, loads + store)
            time += from_fresh * max(fresh_inside + slot + more, loads + again + store)
            time += (to_fresh - fresh_both) * max(again_inside + slot, loads + store)
            time += (many - to_fresh - from_fresh) * max(again_inside + slot + more, loads + again + store)
            if level == 1:  # the first tile stores nothing
                time += max(fresh_inside + slot - opening, loads) - max(fresh_inside + slot, loads + store)
        else:
            time += to_fresh * max(again_inside + slot, loads)
            rest = many - to_fresh
            if level == 1:  # of tiles after a change of results one stores them; the tile after it has the same
                changed = tiles // result_stays
                skips = opening if changes[written] > passes else 0
                time += (fresh_tiles - 1) * max(fresh_inside + slot + more + skips, loads + store)
                time += (changed - fresh_tiles) * max(again_inside + slot + more + skips, loads + store)
                time += max(fresh_inside + slot + more - (opening - skips), loads)
                rest -= changed
            time += rest * max(again_inside + slot + more, loads + again)
        level, own = after, after_own
    last += fresh_inside if fresh_tiles == tiles else again_inside
    return time + max(last, store if result_stays == 1 else 0)


@compiled
def _tiles_in_turn(
    nest: NestTable,
    machine: MachineTable,
    compute: int,
    passes: int,
    tiles: int,
    exchanged: np.ndarray,
    sums: int,
    moved: np.ndarray,
    stays: np.ndarray,
    changes: np.ndarray,
    fresh_tiles: int,
    inside: tuple[int, int],
    fill: int,
) -> int:
    """Cycles of several tiles whose results have one buffer, but for the very last slot.

    What is loaded for the next tile comes from the slot on that brings the first pass of a tile (which belongs to the
    tile before), and must be there before the slot that brings the first pass of the next: in that time, its turn, a
    tile takes its slots or its DMA. `inside` is as in `_tiles_overlapped`; `fill` brings the very first pass.
    """
    written = len(nest.operands) - 1
    fresh_inside, again_inside = inside
    store, result_stays = int(moved[written, CYCLES]), stays[MEMORY, written, ALL]
    unbroken = stays[MEMORY, written + 1, ALL]  # fresh tiles come in rows of so many
    time = fresh_turn = again_turn = base = base_again = 0
    level, own = 1, 1
    while level < tiles:
        after, after_own = tiles, fresh_tiles
        for k in range(written + 1):
            if level < stays[MEMORY, k, ALL] < after:
                after, after_own = stays[MEMORY, k, ALL], stays[MEMORY, k, OF_RESULT]
        many = tiles // level - tiles // after
        loads = 0
        moving = 0
        for k in range(written):
            if stays[MEMORY, k, ALL] <= level:
                loads += int(moved[k, CYCLES])
                moving += 1
        # Boundaries by whether the tile before, and the tile after, is fresh.
        to_fresh = fresh_tiles // own - fresh_tiles // after_own
        fresh_both = fresh_tiles // unbroken * (unbroken // level - unbroken // min(after, unbroken))
        if level >= unbroken:
            fresh_both = 0
        from_fresh = fresh_tiles // unbroken if level <= unbroken < after and fresh_tiles < tiles else 0
        # The slot of a turn that brings its first pass, and what sums that come with it take longer.
        leaves = changes[written] <= passes * level
        slot = slot_cycles(nest, machine, exchanged, compute, sums, changes, passes * level, leaves, False)
        more = 0
        if leaves and machine.late > 0:
            more = slot_cycles(nest, machine, exchanged, compute, sums, changes, passes * level, True, True) - slot
        stored = store if result_stays <= level else 0  # in the turn of the tile after the boundary
        again = loads + stored  # the same may be loaded in the turn of the tile before it
        if level == 1:
            fresh_turn, again_turn = fresh_inside + slot, again_inside + slot + more
            base, base_again = loads, again
            time += max(fill + fresh_inside, loads)
            # Later boundaries, and of them those to fresh tiles: turns before and after them are counted there.
            later, later_fresh = tiles // after - 1, fresh_tiles // after_own - 1
            if result_stays == 1:
                final = fresh_turn if fresh_tiles == tiles else again_turn
                time += max(final, store)
                time += (fresh_both - 1 - later_fresh) * max(fresh_turn, loads + store)
                time += from_fresh * max(fresh_turn, again + store)
                time += (to_fresh - fresh_both) * max(again_turn, loads + store)
                rest = many - to_fresh - from_fresh - later + later_fresh
                time += rest * max(again_turn, again + store)
            elif moving == written and machine.late == 0:
                return time + _tiles_with_late_stores(
                    machine,
                    tiles,
                    result_stays,
                    fresh_tiles,
                    again_turn,
                    again_inside,
                    loads,
                    store,
                    slot_cycles(nest, machine, exchanged, compute, sums, changes, passes * result_stays, True, False),
                )
            else:
                time += again_turn + (many - 1 - later) * max(again_turn, loads)
        else:
            kept = store if result_stays == 1 else 0  # stored in the turn before the boundary, of results before those
            time += fresh_both * max(fresh_turn, loads + kept)
            time += from_fresh * max(fresh_turn, again + kept)
            time += (to_fresh - fresh_both) * max(again_turn, loads + kept)
            time += (many - to_fresh - from_fresh) * max(again_turn, again + kept)
            time += to_fresh * max(fresh_inside + slot, base + stored)
            time += (many - to_fresh) * max(again_inside + slot + more, base_again + stored)
        level, own = after, after_own
    return time


@compiled
def _tiles_with_late_stores(
    machine: MachineTable,
    tiles: int,
    result_stays: int,
    fresh_tiles: int,
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
    changed = tiles // result_stays - 1
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
    return time + (tiles - 2 - 3 * changed) * max(turn, loads)

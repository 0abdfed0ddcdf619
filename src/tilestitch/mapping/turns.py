"""What an array takes for the tiles of a mapping one after another, as the instructions of a program.

The slots are those of `timing`. A turn here has the slots of its tile and, at its end, the one that brings the first
pass of the next tile beside its own last pass. So turns add up to the latency of a mapping whose transfers cost
nothing: exactly where results have one buffer in the registers, else within a few cycles a turn.
"""

from dataclasses import dataclass

import numpy as np

from tilestitch.base.jit import tiered
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.ir.loop_nest import LoopMapping, LoopNest
from tilestitch.mapping.parts import exchange
from tilestitch.mapping.price import runs_of
from tilestitch.mapping.tables import DOUBLE, MachineTable, NestTable, Pass, machine_table, nest_table
from tilestitch.mapping.timing import (
    ALL,
    boundary_slot,
    ends_cycles,
    no_pass,
    pass_cycles,
    slot_cycles,
    slots_inside,
)

FRESH, AGAIN, BEGIN, END, LATER, FIGURES = range(6)


@dataclass(frozen=True, slots=True)
class Turns:
    """Cycles of the turns of a mapping, by what changes from a tile to the next.

    `slots` has a row for each set of operands, as bits, of which the next tile has others, the result being the last:
    the slot that brings its first pass, and how many cycles more where sums of its results exist already.
    """

    fresh: int  # slots of a tile but its last, of results that were never worked on before
    again: int  # likewise of others
    begin: int  # before the first tile: its first pass comes
    end: int  # after the last pass
    later: int  # of a tile after others than its own results, where results leave beside the next pass
    slots: tuple[tuple[int, int], ...]

    def cycles(self, *, fresh: bool, before: int | None, after: int | None, next_is_fresh: bool) -> int:
        """Of one tile; `before` and `after` are what changes at its two ends, None at the ends of the layer."""
        result = len(self.slots) // 2
        found = self.fresh if fresh else self.again
        found += self.begin if before is None else self.later if before & result else 0
        if after is None:
            return found + self.end
        slot, more = self.slots[after]
        return found + slot + (0 if next_is_fresh else more)


def turns_of(nest: LoopNest, machine: ArrayMachine, mapping: LoopMapping) -> Turns:
    """The turns of a mapping; what is not exact counts as a whole tile."""
    operands = len(nest.operands)
    figures, slots = np.zeros(FIGURES, np.int64), np.zeros((1 << operands, 2), np.int64)
    factors = np.array([mapping.spm, mapping.rf, mapping.spatial], np.int64)
    order = np.array(mapping.spm_order, np.int64)
    count_turns(nest_table(nest, machine), machine_table(machine), factors, order, figures, slots)
    rows = tuple((int(slot), int(more)) for slot, more in slots)
    fresh, again, begin, end, later = map(int, figures)
    return Turns(fresh, again, begin, end, later, rows)


@tiered
def count_turns(
    nest: NestTable,
    machine: MachineTable,
    factors: np.ndarray,
    order: np.ndarray,
    figures: np.ndarray,
    slots: np.ndarray,
) -> None:
    """Fill `figures` and `slots` with the fields of `Turns`; `factors` are rows of scratchpad, registers and space."""
    spm, rf, spatial = factors[0], factors[1], factors[2]
    loops, operands = len(nest.extents), len(nest.operands)
    written = operands - 1
    overlapped = nest.operands[written, DOUBLE] != 0
    runs, stays = np.empty((operands + 1, loops), np.int64), np.empty((operands + 1, 2), np.int64)
    runs_of(nest, spm, order, runs, stays)
    passes = fresh_passes = 1
    for i in range(loops):
        passes *= spm[i]
        if nest.indexed[written, i]:
            fresh_passes *= spm[i]
    exchanged = np.empty((operands, 3))
    sums, hops = exchange(nest, machine, False, rf, spatial, exchanged)
    work = Pass(pass_cycles(nest, machine, False, rf), sums, hops, exchanged)
    changes, never = np.empty(operands, np.int64), 2 * passes
    for k in range(operands):
        changes[k] = stays[k, ALL] if stays[k, ALL] < passes else never
    fresh, again = slots_inside(nest, machine, work, stays, changes, passes, fresh_passes)
    opening = 0
    each = passes > 1 and stays[written, ALL] == 1  # results leave in every slot
    if overlapped:
        opening = slot_cycles(nest, machine, work, changes, 1, True, False)
        opening -= slot_cycles(nest, machine, work, changes, 1, False, False)
        if not each and stays[written, ALL] < passes:
            fresh += passes // stays[written, ALL] * opening
            again += passes // stays[written, ALL] * opening
    figures[FRESH], figures[AGAIN] = fresh, again
    inside = passes > 1 and stays[written, ALL] < passes
    figures[BEGIN] = slot_cycles(nest, machine, no_pass(work), changes, never, False, False)
    figures[BEGIN] -= opening if overlapped and inside else 0
    figures[LATER] = opening if overlapped and not inside and passes > 1 else 0
    leaves = not overlapped or each
    figures[END] = slot_cycles(nest, machine, work, changes, 0, leaves, False) + ends_cycles(nest, machine, work)
    for changed in range(1 << operands):
        for k in range(operands):
            changes[k] = stays[k, ALL]
            if stays[k, ALL] == passes and not changed >> k & 1:
                changes[k] = never
        slot, more = boundary_slot(nest, machine, work, changes, passes)
        slots[changed, 0], slots[changed, 1] = slot, more

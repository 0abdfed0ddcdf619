"""The controller that lets passes and tiles overlap: slot after slot, until the last result is in DRAM.

A slot computes one pass while the networks bring what the next needs, also where that is the first of the next tile;
before the first slot one fills the registers. Results that have one buffer go while nothing is computed, those with
two in the next slot.
"""

from typing import NamedTuple

import numpy as np

from tilestitch.base.arrays import copy_row
from tilestitch.base.jit import compiled, inner, tiered
from tilestitch.sim.array.dma import NEVER, READ_TILES, start_queue
from tilestitch.sim.array.events import WAIT_EVENT, add_event
from tilestitch.sim.array.jobs import (
    V_CLASS,
    V_GROUP,
    V_PLACE,
    V_REGISTERS,
    V_RETURNS,
    V_TILE,
    add_job,
    bring,
    exchange,
    execute,
    registers_at,
    scratchpad_at,
)
from tilestitch.sim.array.loops import END, NEXT_TILE, began, class_of, next_pass, place
from tilestitch.sim.array.plan import CLASSES, CONFIGURATION, DOUBLE, DRAIN, FETCH_TO_READ, LATE, LATENCY, Plan
from tilestitch.sim.array.repeats import Known, slot_or_known
from tilestitch.sim.array.state import (
    AFTER_IN,
    APART,
    CLASS,
    CLOSES,
    DRAINED,
    ISSUE,
    JOBS,
    LIKE,
    READ_LAG,
    START,
    SUM_CLASS,
    SUM_RELEASE,
    Array,
    Flight,
    Log,
    Queue,
)
from tilestitch.sim.array.tally import FIRST_LOAD, LAST_STORE, LOAD_WAIT
from tilestitch.sim.array.waiting import until_done, until_loaded, wake

# Where the controller is.
NOW, TILES_READ, CURRENT, NEXT_CLASS, LEFT, PENDING, GROUP_GOES, STARTED, FINISHED, POSITION = range(10)


class Controller(NamedTuple):
    """What the controller remembers between slots."""

    position: np.ndarray
    tile: np.ndarray  # of the pass whose inputs are next
    turn: np.ndarray  # that pass within it
    moved: np.ndarray  # operands that it has other words of in the registers than the pass before
    tile_moved: np.ndarray  # and in the scratchpad
    half: np.ndarray  # which of the two tiles of each operand in the scratchpad
    buffer: np.ndarray  # which of the two buffers of each operand in the registers
    new_buffer: np.ndarray
    visit: np.ndarray  # results in the registers
    coming: np.ndarray  # those that are next
    gone: np.ndarray  # those that wait in their second buffer to go out
    slot: np.ndarray
    jobs: np.ndarray
    loaded: np.ndarray  # what elements execute next, as in Array


@tiered
def run_overlapped(
    plan: Plan,
    controller: Controller,
    flight: Flight,
    array: Array,
    log: Log,
    queue: Queue,
    known: Known,
    values: bool,
    every_slot: bool,
    slots: int,
    counts: np.ndarray,
    passes: np.ndarray,
    events: np.ndarray,
    window: np.ndarray,
) -> None:
    """Run so many slots more, or to the end; `passes` counts those of each class.

    Without `every_slot` a slot like one before is not run again. When a slot begins, networks, pipeline and elements
    are as they were at the beginning of any other; DMA is not, but touches it only where results wait for it: such
    slots are run. So the same pass with the same words to bring and take lasts the same cycles.
    """
    position, slot, jobs = controller.position, controller.slot, controller.jobs
    moved, tile_moved = controller.moved, controller.tile_moved
    buffer, visit, coming = controller.buffer, controller.visit, controller.coming
    written = len(plan.operands) - 1
    doubled = plan.operands[written, DOUBLE] == 1
    if position[STARTED] == 0:
        _start(plan, controller, flight, array, log, queue, values, every_slot, counts, events, window)
    for _ in range(slots):
        left, current = position[LEFT] == 1, position[CURRENT]
        queue.numbers[READ_TILES] = position[TILES_READ]
        wake(queue, position[NOW])
        changes = left and moved[written] == 1 and current >= 0
        ends = current >= 0 and (changes or not left)
        group_ends = ends and (not left or tile_moved[written] == 1)
        _plan_slot(plan, controller, changes, position[PENDING] == 1 if doubled else ends)
        slot[CLOSES] = position[GROUP_GOES] if doubled else group_ends
        if current >= 0:
            passes[current] += 1
        now = slot_or_known(
            plan, slot, jobs, flight, array, log, queue, known, values, every_slot, counts, events, window
        )
        position[PENDING], position[GROUP_GOES] = doubled and ends, doubled and group_ends
        if position[PENDING] == 1:
            copy_row(controller.gone, visit)
        if changes:
            copy_row(visit, coming)
        copy_row(buffer, controller.new_buffer)
        if left:
            now = _next(plan, controller, flight, array, log, queue, now, values, every_slot, counts, events, window)
        elif position[PENDING] == 1:
            position[CURRENT] = -1
        else:
            end = until_done(plan, queue, flight, array, log, now, values, every_slot, counts, events, window)
            counts[LAST_STORE] += end - now
            add_event(events, window, WAIT_EVENT, LAST_STORE, now, end, 0, 0)
            now = end
            position[FINISHED] = 1
        position[NOW] = now
        if position[FINISHED] == 1 or now >= NEVER:
            return


@inner
def _start(
    plan: Plan,
    controller: Controller,
    flight: Flight,
    array: Array,
    log: Log,
    queue: Queue,
    values: bool,
    every_run: bool,
    counts: np.ndarray,
    events: np.ndarray,
    window: np.ndarray,
) -> None:
    """The array is configured while the inputs of the first tile come."""
    position, visit = controller.position, controller.visit
    start_queue(plan, queue)
    now = until_loaded(plan, queue, flight, array, log, 0, 1, values, every_run, counts, events, window)
    now = max(now, plan.numbers[CONFIGURATION])
    counts[FIRST_LOAD] += now
    add_event(events, window, WAIT_EVENT, FIRST_LOAD, 0, now, 0, 0)
    controller.moved[:] = 1
    position[NOW], position[TILES_READ], position[CURRENT], position[LEFT], position[STARTED] = now, 1, -1, 1, 1
    position[NEXT_CLASS] = class_of(plan.loops, controller.tile, controller.turn)
    written = len(plan.operands) - 1
    visit[V_CLASS], visit[V_PLACE] = position[NEXT_CLASS], scratchpad_at(plan, written, 0, 0)
    visit[V_REGISTERS] = registers_at(plan, written, 0)


@inner
def _plan_slot(plan: Plan, controller: Controller, changes: bool, goes: bool) -> None:
    """What is done in the next slot: its pass, the inputs of the one after it, and results that go and come."""
    position, slot, jobs = controller.position, controller.slot, controller.jobs
    tile, turn, moved, visit, coming = (
        controller.tile,
        controller.turn,
        controller.moved,
        controller.visit,
        controller.coming,
    )
    numbers, written = plan.numbers, len(plan.operands) - 1
    doubled = plan.operands[written, DOUBLE] == 1
    current, left = position[CURRENT], position[LEFT] == 1
    slot[:] = 0
    slot[START], slot[CLASS], slot[SUM_CLASS] = position[NOW], current, -1
    slot[READ_LAG], slot[AFTER_IN] = FETCH_TO_READ, numbers[LATE]
    if current >= 0:
        slot[ISSUE] = execute(plan, slot, controller.loaded, current, controller.buffer)
    brought = 0
    for late in range(2):  # inputs with two buffers at once, the others when the last instruction has been issued
        for operand in range(written):
            if left and moved[operand] == 1 and plan.operands[operand, DOUBLE] == 1 - late:
                at = add_job(slot, jobs, operand, late * slot[ISSUE])
                if current >= 0 and late == 0:
                    controller.new_buffer[operand] = controller.buffer[operand] ^ 1
                place_of = scratchpad_at(plan, operand, controller.half[operand], place(plan.pass_step[operand], turn))
                bring(
                    plan,
                    jobs,
                    at,
                    position[NEXT_CLASS],
                    place_of,
                    registers_at(plan, operand, controller.new_buffer[operand]),
                )
                brought |= 1 << operand
    if changes:
        coming[V_CLASS], coming[V_TILE] = position[NEXT_CLASS], position[TILES_READ] - 1
        coming[V_PLACE] = scratchpad_at(plan, written, controller.half[written], place(plan.pass_step[written], turn))
        coming[V_GROUP] = visit[V_GROUP] + controller.tile_moved[written]
        coming[V_RETURNS] = began(plan.loops, tile) or began(plan.loops, turn)
        controller.new_buffer[written] = controller.buffer[written] ^ plan.operands[written, DOUBLE]
        coming[V_REGISTERS] = registers_at(plan, written, controller.new_buffer[written])
    comes = changes and coming[V_RETURNS] == 1
    out = controller.gone if doubled else visit
    apart = -1
    if goes or comes:
        release = numbers[LATENCY] + 1  # what went out in the slot before is in the scratchpad then
        if goes:
            slot[DRAINED], slot[SUM_CLASS] = numbers[DRAIN], out[V_CLASS]
            slot[SUM_RELEASE] = numbers[DRAIN] + (0 if doubled else slot[ISSUE])
            release = slot[SUM_RELEASE] + plan.sum_cycles[out[V_CLASS]]
        exchange(plan, slot, jobs, release, out, goes, coming, comes, numbers[LATENCY] + 1)
        apart = jobs[slot[JOBS] - 1, APART]
    classes = numbers[CLASSES] + 1
    like = (current + 1) * classes + position[NEXT_CLASS] + 1
    like = (like * classes + (out[V_CLASS] + 1 if goes else 0)) * 3 + min(apart, 1) + 1
    slot[LIKE] = ((like << written) + brought) * 4 + 2 * goes + comes


@compiled
def _next(
    plan: Plan,
    controller: Controller,
    flight: Flight,
    array: Array,
    log: Log,
    queue: Queue,
    now: int,
    values: bool,
    every_run: bool,
    counts: np.ndarray,
    events: np.ndarray,
    window: np.ndarray,
) -> int:
    """Go on to the next pass; the cycle in which its slot may begin."""
    position, tile_moved = controller.position, controller.tile_moved
    position[CURRENT] = position[NEXT_CLASS]
    step = next_pass(
        plan.loops,
        plan.dram_order,
        plan.spm_order,
        plan.indexed,
        controller.tile,
        controller.turn,
        controller.moved,
        tile_moved,
    )
    position[LEFT] = step != END
    if step != END:
        position[NEXT_CLASS] = class_of(plan.loops, controller.tile, controller.turn)
    if step == NEXT_TILE:
        for operand in range(len(tile_moved)):
            controller.half[operand] ^= tile_moved[operand]
        position[TILES_READ] += 1
        before = now
        now = until_loaded(
            plan, queue, flight, array, log, now, position[TILES_READ], values, every_run, counts, events, window
        )
        counts[LOAD_WAIT] += now - before
        add_event(events, window, WAIT_EVENT, LOAD_WAIT, before, now, 0, 0)
    return now

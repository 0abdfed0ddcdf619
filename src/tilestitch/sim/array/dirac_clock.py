"""The controller of DiRAC: what overlaps there, and what does not.

A pass of the scratchpad loads one tile, computes the one before and stores the one before that; it ends when DMA and
the array have, and nothing crosses its end. So every tile has two slots more than passes of the register files: in slot
r the networks bring pass r, elements compute pass r - 1 and results of pass r - 2 go out. All operands have two
buffers. Source: the released code of DiRAC (2022), by which cycles are counted; both of its bundled tests take as many
as there (`tilestitch reproduce dirac`). That results come back into the scratchpad after those before them have gone,
and that ragged passes last as long as whole ones, is INFERRED.
"""

import numpy as np

from tilestitch.base.arrays import copy_row
from tilestitch.base.jit import inner, lending, tiered
from tilestitch.sim.array.clock import FINISHED, NEXT_CLASS, NOW, STARTED, TILES_READ, Controller
from tilestitch.sim.array.dma import (
    CHANGED,
    GROUP_OF,
    KIND,
    LAST_RUN,
    NEVER,
    ORIGIN,
    RETURNED_TILES,
    RETURNS,
    RUN,
    STORED_GROUPS,
    WAKE,
    WORDS,
    begin_transfer,
    copy_run,
    run_address,
    run_bytes,
)
from tilestitch.sim.array.dram import dram_cycles
from tilestitch.sim.array.events import DMA_EVENT, WAIT_EVENT, add_event
from tilestitch.sim.array.jobs import (
    V_CLASS,
    V_GROUP,
    V_PLACE,
    V_REGISTERS,
    V_RETURNS,
    add_job,
    bring,
    exchange,
    execute,
    registers_at,
    scratchpad_at,
)
from tilestitch.sim.array.loops import NEXT_PASS, began, class_of, kind_of, next_pass, next_tile, place
from tilestitch.sim.array.plan import ADDER, CLASSES, CONFIGURATION, DRAIN, LATENCY, TILES, Plan
from tilestitch.sim.array.repeats import Known, slot_or_known
from tilestitch.sim.array.state import (
    AFTER_IN,
    AFTER_OUT,
    APART,
    AT_LEAST,
    CLASS,
    DRAINED,
    ISSUE,
    JOBS,
    LIKE,
    READ_LAG,
    START,
    SUM_CLASS,
    TAIL,
    Array,
    Flight,
    Log,
    Queue,
)
from tilestitch.sim.array.tally import DMA_BUSY, DMA_REQUESTS, FIRST_LOAD, LAST_STORE, LOAD_WAIT, LOADED, STORED

BEFORE = 1  # cycles of initialisation
AFTER = 3  # cycles in which the controller finds that everything is over
ACKNOWLEDGED = 2  # cycles of a request beyond its transfer: its acknowledgement, and until the next may begin
TRIGGERED = 5  # cycles from the beginning of a slot until the first instruction reads registers
COLLECTED_AFTER = 4  # cycles from the trigger to write results, beyond the drain of the pipeline, until the first goes
ARRIVES = 2  # cycles from the last word that comes in until the controller has seen that it was the last
TAKEN = 6  # cycles from the last word that goes out until it is in the scratchpad and the controller has seen it


@tiered
def run_dirac(
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
    """Run so many passes of the scratchpad more, or to the end; see `run_overlapped`."""
    position = controller.position
    tiles = 1
    for loop in range(len(plan.loops)):
        tiles *= plan.loops[loop, TILES]
    if position[STARTED] == 0:
        position[NOW] = BEFORE + plan.numbers[CONFIGURATION]
        position[STARTED] = 1
        queue.numbers[WAKE] = queue.numbers[RETURNED_TILES] = queue.numbers[STORED_GROUPS] = NEVER
        queue.moved[:] = 1
        queue.parity[:] = 1
    for _ in range(slots):
        at = position[TILES_READ]
        begin = position[NOW]
        end = begin + _move_tiles(plan, queue, array, at, tiles, begin, values, counts, events, window)
        computed = begin
        if 0 < at <= tiles:
            computed = _compute_tile(
                plan, controller, flight, array, log, queue, known, values, every_slot, counts, passes, events, window
            )
        if at == 0:
            counts[FIRST_LOAD] += end
        elif at > tiles:
            counts[LAST_STORE] += end + AFTER - begin
        elif end > computed:
            counts[LOAD_WAIT] += end - computed
            add_event(events, window, WAIT_EVENT, LOAD_WAIT, computed, end, 0, 0)
        position[NOW] = max(end, computed)
        position[TILES_READ] += 1
        if at > tiles:
            position[NOW] += AFTER
            position[FINISHED] = 1
            return


@lending
def _move_tiles(
    plan: Plan,
    queue: Queue,
    array: Array,
    at: int,
    tiles: int,
    begin: int,
    values: bool,
    counts: np.ndarray,
    events: np.ndarray,
    window: np.ndarray,
) -> int:
    """What DMA does in pass `at` of the scratchpad; its cycles. One request at a time, and a cycle for each operand."""
    results, operands = queue.results, len(plan.operands)
    written = operands - 1
    for fact in range(results.shape[1]):
        results[0, fact], results[1, fact] = results[1, fact], results[2, fact]
    cycles = 1 if at > 0 else 0
    comes = False
    if at < tiles:
        if at > 0:
            next_tile(plan.loops, plan.dram_order, plan.indexed, queue.tile, queue.moved)
        results[2, ORIGIN] = place(plan.origin[written], queue.tile)
        results[2, KIND] = kind_of(plan.loops, queue.tile)
        results[2, CHANGED] = queue.moved[written] if at > 0 else 0
        results[2, GROUP_OF] = results[1, GROUP_OF] + results[2, CHANGED]
        results[2, RETURNS] = queue.moved[written] == 1 and began(plan.loops, queue.tile)
        comes = results[2, RETURNS] == 1
        for operand in range(written):
            if queue.moved[operand] == 1:
                queue.parity[operand] ^= 1
                origin = place(plan.origin[operand], queue.tile)
                begin_transfer(plan, queue.numbers, operand, results[2, KIND], origin, 0, queue.parity)
                cycles += _move(plan, queue, array, operand, False, begin + cycles, values, counts, events, window)
        cycles += operands
    if at >= min(tiles, 2):
        if at > 1 and (at > tiles or results[1, CHANGED] == 1):
            queue.parity[written] = results[0, GROUP_OF] & 1
            begin_transfer(plan, queue.numbers, written, results[0, KIND], results[0, ORIGIN], 1, queue.parity)
            cycles += _move(plan, queue, array, written, True, begin + cycles, values, counts, events, window)
        cycles += operands
    if comes:
        queue.parity[written] = results[2, GROUP_OF] & 1
        begin_transfer(plan, queue.numbers, written, results[2, KIND], results[2, ORIGIN], 0, queue.parity)
        cycles += _move(plan, queue, array, written, False, begin + cycles, values, counts, events, window)
    return cycles


@lending
def _move(
    plan: Plan,
    queue: Queue,
    array: Array,
    operand: int,
    stores: bool,
    begin: int,
    values: bool,
    counts: np.ndarray,
    events: np.ndarray,
    window: np.ndarray,
) -> int:
    """Move a tile, run by run; words are copied when their request is made."""
    cycles = 0
    size = run_bytes(plan, queue.numbers, operand)
    for run in range(queue.numbers[RUN], queue.numbers[LAST_RUN]):
        address = run_address(plan, queue.numbers, operand, run)
        takes = dram_cycles(plan.dram, queue.state, address, size, stores, begin + cycles)
        add_event(events, window, DMA_EVENT, operand, begin + cycles, begin + cycles + takes, int(stores), size)
        cycles += takes + ACKNOWLEDGED
        counts[DMA_BUSY] += takes
        counts[DMA_REQUESTS] += 1
        counts[(STORED if stores else LOADED) + operand] += queue.numbers[WORDS]
        if values:
            copy_run(plan, queue.numbers, run, array.scratchpad, array.memory, stores)
    return cycles


@inner
def _compute_tile(
    plan: Plan,
    controller: Controller,
    flight: Flight,
    array: Array,
    log: Log,
    queue: Queue,
    known: Known,
    values: bool,
    every_slot: bool,
    counts: np.ndarray,
    passes: np.ndarray,
    events: np.ndarray,
    window: np.ndarray,
) -> int:
    """All slots of one tile; the cycle after the last."""
    position, slot, jobs = controller.position, controller.slot, controller.jobs
    visit, gone, moved = controller.visit, controller.gone, controller.moved
    written = len(plan.operands) - 1
    if position[TILES_READ] > 1:
        for operand in range(written + 1):
            controller.half[operand] ^= controller.tile_moved[operand]
        controller.coming[V_GROUP] += controller.tile_moved[written]
    turn, current, left, pending = 0, -1, True, False
    now = position[NOW]
    moved[:] = 1
    while True:
        ends = current >= 0 and (not left or moved[written] == 1)
        _plan_slot(plan, controller, turn, current, left, pending, now)
        if current >= 0:
            passes[current] += 1
        now = slot_or_known(
            plan, slot, jobs, flight, array, log, queue, known, values, every_slot, counts, events, window
        )
        if not left and current < 0:
            return now
        if ends:
            copy_row(gone, visit)
        pending = ends
        if left and moved[written] == 1:
            copy_row(visit, controller.coming)
        copy_row(controller.buffer, controller.new_buffer)
        current = -1
        if left:
            current = position[NEXT_CLASS]
            left = (
                next_pass(
                    plan.loops,
                    plan.dram_order,
                    plan.spm_order,
                    plan.indexed,
                    controller.tile,
                    controller.turn,
                    moved,
                    controller.tile_moved,
                )
                == NEXT_PASS
            )
        turn += 1


@lending
def _plan_slot(plan: Plan, controller: Controller, turn: int, current: int, left: bool, goes: bool, now: int) -> None:
    """What is done in slot `turn` of a tile."""
    position, slot, jobs, coming = controller.position, controller.slot, controller.jobs, controller.coming
    written = len(plan.operands) - 1
    slot[:] = 0
    slot[START], slot[CLASS], slot[SUM_CLASS], slot[READ_LAG] = now, current, -1, TRIGGERED
    slot[AFTER_IN], slot[AFTER_OUT] = ARRIVES, TAKEN
    whole = plan.together[0]
    instructions = plan.program_first[1] - plan.program_first[0]
    slot[AT_LEAST] = instructions // whole * max(whole, plan.numbers[ADDER])
    slot[TAIL] = not left or turn < 2
    if current >= 0:
        slot[ISSUE] = execute(plan, slot, controller.loaded, current, controller.buffer)
    brought = 0
    comes = False
    if left:
        position[NEXT_CLASS] = class_of(plan.loops, controller.tile, controller.turn)
        for operand in range(written + 1):
            if controller.moved[operand] == 1:
                controller.new_buffer[operand] = controller.buffer[operand] ^ 1
                brought |= 1 << operand
        for operand in range(written):
            if controller.moved[operand] == 1:
                at = add_job(slot, jobs, operand, 0)
                offset = place(plan.pass_step[operand], controller.turn)
                bring(
                    plan,
                    jobs,
                    at,
                    position[NEXT_CLASS],
                    scratchpad_at(plan, operand, controller.half[operand], offset),
                    registers_at(plan, operand, controller.new_buffer[operand]),
                )
        if controller.moved[written] == 1:
            coming[V_CLASS] = position[NEXT_CLASS]
            offset = place(plan.pass_step[written], controller.turn)
            coming[V_PLACE] = scratchpad_at(plan, written, controller.half[written], offset)
            coming[V_RETURNS] = began(plan.loops, controller.tile) or began(plan.loops, controller.turn)
            coming[V_REGISTERS] = registers_at(plan, written, controller.new_buffer[written])
            comes = coming[V_RETURNS] == 1
    apart = -1
    if goes or comes:
        release = 0
        if goes:
            slot[DRAINED] = release = plan.numbers[DRAIN] + COLLECTED_AFTER
        exchange(plan, slot, jobs, release, controller.gone, goes, coming, comes, plan.numbers[LATENCY] + 1)
        apart = jobs[slot[JOBS] - 1, APART]
    classes = plan.numbers[CLASSES] + 1
    like = ((current + 1) * classes + position[NEXT_CLASS] + 1) * classes
    like += controller.gone[V_CLASS] + 1 if goes else 0
    like = (like * 3 + min(apart, 1) + 1) * 4 + 2 * slot[TAIL] + left
    slot[LIKE] = ((like << (written + 1)) + brought) * 4 + 2 * goes + comes

"""The DMA queue, cycle by cycle: which lists of runs it works through, what each waits for, and what they move.

For tile 0, and then for every tile k: the inputs of tile k + 1 that change, once the networks read tile k; the results
of tile k - 1 if those of k are others, once all of them are in the scratchpad; the results of tile k + 1 if they are
others than those of k and were stored before. At last the results of the last tile.
"""

import numpy as np

from tilestitch.base.jit import lending
from tilestitch.sim.array.dram import dram_cycles
from tilestitch.sim.array.events import DMA_EVENT, add_event
from tilestitch.sim.array.loops import began, kind_of, next_tile, place
from tilestitch.sim.array.plan import (
    BASE,
    CHANNELS,
    FIRST_WORD,
    KINDS,
    SCRATCHPAD,
    TILE,
    WORD_BITS,
    Plan,
)
from tilestitch.sim.array.state import Array, Queue
from tilestitch.sim.array.tally import DMA_BUSY, DMA_REQUESTS, LOADED, STORED

NEVER = np.int64(2**62)

# Numbers of the queue.
(
    WAKE,  # the next cycle in which something happens
    LIST,  # number of the tile k, from -1 on
    STAGE,
    OPERAND,  # next one of this stage
    ACTIVE,  # 1 while runs of a transfer are under way
    RUN,  # next run of it
    LAST_RUN,
    STORES,  # 1 where it stores
    DRAM_AT,
    SCRATCHPAD_AT,
    MOVED_OPERAND,
    WORDS,
    LEFT,  # 0 where there is no tile k + 1
    LOADED_TILES,  # whose inputs are in the scratchpad
    RETURNED_TILES,  # whose results are there, as far as they come back
    STORED_GROUPS,  # tiles of results in DRAM; tiles that share them count once
    READ_TILES,  # whose inputs the networks have begun to read
    OUT_GROUPS,  # tiles of results that are in the scratchpad whole
    OUT_AT,  # the cycle from which the last of them is
    DONE,
    QUEUE_NUMBERS,
) = range(21)
# The tiles of which the queue knows the place: k - 1, k, k + 1. Columns of their results.
ORIGIN, KIND, GROUP_OF, CHANGED, RETURNS = range(5)
INPUTS, STORE, RETURN = range(3)


@lending
def dma_step(
    plan: Plan,
    now: int,
    each_run: bool,
    of: Queue,
    array: Array,
    values: bool,
    counts: np.ndarray,
    events: np.ndarray,
    window: np.ndarray,
) -> None:
    """Do what happens in the queue in cycle `now`, and say in its WAKE when the next thing does.

    With `each_run` every run is a request of its own; else a transfer is one, which takes as long: all runs of a
    transfer are of one length, and a flat memory has no state.
    """
    queue, ends, flying = of.numbers, of.ends, of.flying
    scratchpad, memory = array.scratchpad, array.memory
    channels = plan.numbers[CHANNELS]
    while True:
        if queue[ACTIVE] == 1:
            operand = queue[MOVED_OPERAND]
            busy, first_end = 0, NEVER
            for channel in range(channels):
                if flying[channel] >= 0 and ends[channel] <= now:
                    if values and queue[STORES] == 0 and each_run:
                        copy_run(plan, queue, flying[channel], scratchpad, memory, False)
                    flying[channel] = -1
                if flying[channel] < 0 and queue[RUN] < queue[LAST_RUN]:
                    run = queue[RUN]
                    size, address = run_bytes(plan, queue, operand), run_address(plan, queue, operand, run)
                    cycles = dram_cycles(plan.dram, of.state, address, size, queue[STORES] == 1, now)
                    runs = 1
                    if not each_run:
                        runs = queue[LAST_RUN] - queue[RUN]
                    counts[DMA_BUSY] += cycles * runs
                    if not each_run:
                        cycles *= -(-runs // channels)
                    elif values and queue[STORES] == 1:
                        copy_run(plan, queue, run, scratchpad, memory, True)
                    queue[RUN] += runs
                    flying[channel] = run
                    ends[channel] = now + cycles
                    counts[DMA_REQUESTS] += runs
                    counts[(STORED if queue[STORES] == 1 else LOADED) + operand] += runs * queue[WORDS]
                    if each_run:
                        add_event(events, window, DMA_EVENT, operand, now, now + cycles, queue[STORES], size)
                if flying[channel] >= 0:
                    busy += 1
                    first_end = min(first_end, ends[channel])
            if busy > 0:
                queue[WAKE] = first_end
                return
            queue[ACTIVE] = 0
            continue
        if not _next_transfer(plan, now, of):
            return


@lending
def _next_transfer(plan: Plan, now: int, of: Queue) -> bool:
    """Begin the next transfer; False, with WAKE, where it has to wait or there is none."""
    queue, tile, moved, parity, results = of.numbers, of.tile, of.moved, of.parity, of.results
    written = len(parity) - 1
    while True:
        if queue[DONE] == 1:
            queue[WAKE] = NEVER
            return False
        if queue[STAGE] == INPUTS:
            if queue[LEFT] == 1 and queue[READ_TILES] <= queue[LIST]:
                queue[WAKE] = NEVER  # until the networks read tile k
                return False
            while queue[OPERAND] < written and (queue[LEFT] == 0 or moved[queue[OPERAND]] == 0):
                queue[OPERAND] += 1
            if queue[OPERAND] < written:
                operand = queue[OPERAND]
                parity[operand] ^= 1
                begin_transfer(
                    plan, queue, operand, kind_of(plan.loops, tile), place(plan.origin[operand], tile), 0, parity
                )
                queue[OPERAND] += 1
                return True
            if queue[LEFT] == 1:
                queue[LOADED_TILES] += 1
            queue[STAGE] = STORE
        elif queue[STAGE] == STORE:
            queue[STAGE] = RETURN
            if results[1, CHANGED] == 1:  # the results of k are others than those of k - 1
                if queue[OUT_GROUPS] <= results[0, GROUP_OF] or now < queue[OUT_AT]:
                    queue[STAGE] = STORE
                    queue[WAKE] = NEVER if queue[OUT_GROUPS] <= results[0, GROUP_OF] else queue[OUT_AT]
                    return False
                results[1, CHANGED] = 2  # counted as stored once the transfer is over
                parity[written] = results[0, GROUP_OF] & 1
                begin_transfer(plan, queue, written, results[0, KIND], results[0, ORIGIN], 1, parity)
                return True
        else:
            if results[1, CHANGED] == 2:
                queue[STORED_GROUPS] += 1
                results[1, CHANGED] = 0
            if queue[LEFT] == 1 and results[2, RETURNS] == 1:
                results[2, RETURNS] = 0
                parity[written] = results[2, GROUP_OF] & 1
                begin_transfer(plan, queue, written, results[2, KIND], results[2, ORIGIN], 0, parity)
                return True
            if queue[LEFT] == 1:
                queue[RETURNED_TILES] += 1
            _next_list(plan, of)


@lending
def _next_list(plan: Plan, of: Queue) -> None:
    """Go on to the next tile k."""
    queue, tile, moved, results = of.numbers, of.tile, of.moved, of.results
    written = len(of.parity) - 1
    if queue[LEFT] == 0 and results[1, KIND] < 0:
        queue[DONE] = 1
        return
    queue[LIST] += 1
    queue[STAGE], queue[OPERAND] = INPUTS, 0
    for fact in range(results.shape[1]):
        results[0, fact], results[1, fact] = results[1, fact], results[2, fact]
    if queue[LEFT] == 1 and next_tile(plan.loops, plan.dram_order, plan.indexed, tile, moved):
        results[2, ORIGIN] = place(plan.origin[written], tile)
        results[2, KIND] = kind_of(plan.loops, tile)
        results[2, CHANGED] = moved[written]
        results[2, GROUP_OF] = results[1, GROUP_OF] + moved[written]
        results[2, RETURNS] = moved[written] and began(plan.loops, tile)
    else:  # after the last tile its results are stored, as if there were others to come
        queue[LEFT] = 0
        results[2, :] = 0
        results[2, CHANGED], results[2, KIND] = 1, -1


@lending
def begin_transfer(
    plan: Plan, queue: np.ndarray, operand: int, kind: int, origin: int, stores: int, parity: np.ndarray
) -> None:
    transfer = operand * plan.numbers[KINDS] + kind
    """Let the queue be at a transfer: the tile of a kind that begins `origin` words into an operand."""
    queue[ACTIVE], queue[MOVED_OPERAND], queue[STORES] = 1, operand, stores
    queue[RUN], queue[LAST_RUN] = plan.run_first[transfer], plan.run_first[transfer + 1]
    queue[WORDS] = plan.run_words[transfer]
    queue[DRAM_AT] = plan.operands[operand, FIRST_WORD] + origin
    queue[SCRATCHPAD_AT] = plan.operands[operand, SCRATCHPAD] + parity[operand] * plan.operands[operand, TILE]


@lending
def run_bytes(plan: Plan, queue: np.ndarray, operand: int) -> int:
    """Of every run of the transfer that the queue is at."""
    return -(-queue[WORDS] * plan.operands[operand, WORD_BITS] // 8)


@lending
def run_address(plan: Plan, queue: np.ndarray, operand: int, run: int) -> int:
    """The first byte of a run in DRAM."""
    first = queue[DRAM_AT] - plan.operands[operand, FIRST_WORD] + plan.run_dram[run]
    return plan.operands[operand, BASE] + first * plan.operands[operand, WORD_BITS] // 8


@lending
def copy_run(plan: Plan, queue: np.ndarray, run: int, scratchpad: np.ndarray, memory: np.ndarray, stores: bool) -> None:
    """Move the words of a run between DRAM and scratchpad."""
    dram, inside = queue[DRAM_AT] + plan.run_dram[run], queue[SCRATCHPAD_AT] + plan.run_scratchpad[run]
    for word in range(queue[WORDS]):
        if stores:
            memory[dram + word] = scratchpad[inside + word]
        else:
            scratchpad[inside + word] = memory[dram + word]


@lending
def start_queue(plan: Plan, queue: Queue) -> None:
    """Before cycle 0: the inputs of tile 0 are next."""
    queue.numbers[:] = 0
    queue.tile[:] = 0
    queue.numbers[LIST] = -1
    queue.numbers[LEFT] = 1
    queue.moved[:] = 1
    queue.parity[:] = 1  # the first tile goes to the first of two places
    queue.results[:] = 0
    queue.results[2, KIND] = kind_of(plan.loops, queue.tile)
    queue.flying[:] = -1

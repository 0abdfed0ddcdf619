"""Slots that are like one before, which need not be run again."""

from typing import NamedTuple

import numpy as np

from tilestitch.base.jit import inner
from tilestitch.sim.array.dma import NEVER, RETURNED_TILES, STORED_GROUPS, WAKE, dma_step
from tilestitch.sim.array.plan import CHECKED, EMPTIED, LATENCY, Plan
from tilestitch.sim.array.slot import out_of_array, run_slot
from tilestitch.sim.array.state import (
    CLOSES,
    ENDS,
    IN_TOKEN,
    JOBS,
    LIKE,
    OUT_ENDED,
    OUT_TOKEN,
    RELEASE,
    START,
    Array,
    Flight,
    Log,
    Queue,
)
from tilestitch.sim.array.tally import REPEATED

KNOWN = 2**10  # kinds of slots that are remembered


class Known(NamedTuple):
    """Slots that were run before."""

    keys: np.ndarray
    cycles: np.ndarray
    out_cycles: np.ndarray  # until the last result that goes out has gone
    counts: np.ndarray


@inner
def slot_or_known(
    plan: Plan,
    slot: np.ndarray,
    jobs: np.ndarray,
    flight: Flight,
    array: Array,
    log: Log,
    queue: Queue,
    known: Known,
    values: bool,
    every_slot: bool,
    counts: np.ndarray,
    events: np.ndarray,
    window: np.ndarray,
) -> int:
    """Run a slot, or find how long one like it took; the cycle after its last."""
    if every_slot:
        run_slot(plan, slot, jobs, flight, array, log, queue, values, True, counts, events, window)
        return slot[ENDS]
    waits = False
    if slot[JOBS] > 0:
        last = slot[JOBS] - 1
        if jobs[last, IN_TOKEN] > 0 or jobs[last, OUT_TOKEN] > 0:
            until = slot[START] + jobs[last, RELEASE]
            while queue.numbers[WAKE] <= until:
                dma_step(plan, queue.numbers[WAKE], False, queue, array, False, counts, events, window)
            waits = (
                queue.numbers[RETURNED_TILES] < jobs[last, IN_TOKEN]
                or queue.numbers[STORED_GROUPS] < jobs[last, OUT_TOKEN]
            )
    keys = known.keys
    at, tries = slot[LIKE] % len(keys), 0
    while keys[at] != slot[LIKE] and keys[at] >= 0 and tries < len(keys):
        at = (at + 1) % len(keys)
        tries += 1
    if waits or tries == len(keys) or plan.numbers[CHECKED] == 1 or plan.numbers[EMPTIED] > 0:
        run_slot(plan, slot, jobs, flight, array, log, queue, False, False, counts, events, window)
        return slot[ENDS]
    closes = slot[CLOSES] == 1
    if keys[at] < 0:
        wake = queue.numbers[WAKE]
        queue.numbers[WAKE], slot[CLOSES] = NEVER, 0  # what DMA does meanwhile is counted below
        run_slot(plan, slot, jobs, flight, array, log, queue, False, False, known.counts[at], events, window)
        queue.numbers[WAKE] = wake
        keys[at], known.cycles[at] = slot[LIKE], slot[ENDS] - slot[START]
        known.out_cycles[at] = jobs[slot[JOBS] - 1, OUT_ENDED] if slot[JOBS] > 0 else 0
    else:
        counts[REPEATED] += 1
    counts += known.counts[at]
    end = slot[START] + known.cycles[at]
    if closes:
        out = slot[START] + known.out_cycles[at]
        while queue.numbers[WAKE] < out:
            dma_step(plan, queue.numbers[WAKE], False, queue, array, False, counts, events, window)
        out_of_array(queue.numbers, out, plan.numbers[LATENCY] + 1)
    while queue.numbers[WAKE] < end:
        dma_step(plan, queue.numbers[WAKE], False, queue, array, False, counts, events, window)
    return end

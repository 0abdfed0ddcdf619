"""What happens between slots: the array waits for the DMA queue."""

import numpy as np

from tilestitch.base.jit import inner
from tilestitch.sim.array.dma import DONE, LOADED_TILES, NEVER, WAKE, dma_step
from tilestitch.sim.array.plan import Plan
from tilestitch.sim.array.slot import settle
from tilestitch.sim.array.state import Array, Flight, Log, Queue


@inner
def wake(queue: Queue, now: int) -> None:
    """What the queue waits for may be there."""
    if queue.numbers[WAKE] == NEVER:
        queue.numbers[WAKE] = now


@inner
def until_loaded(
    plan: Plan,
    queue: Queue,
    flight: Flight,
    array: Array,
    log: Log,
    now: int,
    tiles: int,
    values: bool,
    every_run: bool,
    counts: np.ndarray,
    events: np.ndarray,
    window: np.ndarray,
) -> int:
    """The first cycle from `now` on in which the inputs of so many tiles are in the scratchpad."""
    begin = settled = now
    while queue.numbers[LOADED_TILES] < tiles:
        now = max(now, queue.numbers[WAKE])
        if now >= NEVER:  # nothing that it waits for can happen
            return now
        if values:
            settled = settle(plan, flight, array, log, begin, settled, now)
        dma_step(plan, now, every_run, queue, array, values, counts, events, window)
    return now


@inner
def until_done(
    plan: Plan,
    queue: Queue,
    flight: Flight,
    array: Array,
    log: Log,
    now: int,
    values: bool,
    every_run: bool,
    counts: np.ndarray,
    events: np.ndarray,
    window: np.ndarray,
) -> int:
    """The cycle in which all results are in DRAM."""
    begin = settled = now
    while queue.numbers[DONE] == 0:
        now = max(now, queue.numbers[WAKE])
        if now >= NEVER:  # nothing that it waits for can happen
            return now
        if values:
            settled = settle(plan, flight, array, log, begin, settled, now)
        dma_step(plan, now, every_run, queue, array, values, counts, events, window)
    return now

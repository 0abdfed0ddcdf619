"""What happened when, in a window of cycles."""

import numpy as np

from tilestitch.base.jit import lending

PASS_EVENT, NETWORK_EVENT, SUMS_EVENT, RESULTS_EVENT, DMA_EVENT, WAIT_EVENT = range(6)
# Columns of an event: which of the above, the operand or class, cycles, and two numbers that depend on the kind.
KIND, WHAT, BEGIN, END, ONE, OTHER, EVENT_COLUMNS = range(7)
# The window: its first cycle, the cycle after its last, and how many events were in it so far.
WINDOW_BEGIN, WINDOW_END, FOUND, WINDOW_NUMBERS = range(4)


@lending
def add_event(
    events: np.ndarray, window: np.ndarray, kind: int, what: int, begin: int, end: int, one: int, other: int
) -> None:
    """Remember an event if the window has some of it; those beyond the room are counted only."""
    if begin < window[WINDOW_END] and end > window[WINDOW_BEGIN]:
        row = window[FOUND]
        if row < len(events):
            events[row, KIND], events[row, WHAT] = kind, what
            events[row, BEGIN], events[row, END] = begin, end
            events[row, ONE], events[row, OTHER] = one, other
        window[FOUND] += 1

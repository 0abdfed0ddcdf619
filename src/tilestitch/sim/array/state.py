"""What the array remembers from cycle to cycle, and the columns of what it does in a slot."""

from typing import NamedTuple

import numpy as np

# Columns of what networks do in a slot. A row brings the words of one operand, or takes results, or both at once.
(
    OPERAND,
    IN_WORD,  # next word of the stream that comes in
    IN_END,
    IN_PLACE,  # first word of its box in the scratchpad
    IN_REGISTERS,  # first register x elements of its buffer
    OUT_WORD,  # likewise of what goes out
    OUT_END,
    OUT_PLACE,
    OUT_REGISTERS,
    RELEASE,  # cycle of the slot from which on it may begin
    APART,  # cycles from the end of what goes out until anything comes in; -1: both at once
    IN_TOKEN,  # tiles whose results must have returned
    OUT_TOKEN,  # tiles of results that must have been stored
    CREDIT,  # that its network has for it, in eighths of a byte x the rate's lower part
    OUT_CREDIT,
    BEGAN,  # cycle in which its first word went; -1 before
    ENDED,  # the cycle of the slot after its last word
    IN_BEGAN,  # first word of its streams
    OUT_BEGAN,
    OUT_ENDED,  # the cycle of the slot after the last word that goes out
    JOB_COLUMNS,
) = range(21)
# Numbers of a slot.
(
    START,  # its first cycle
    JOBS,
    CLASS,  # of the pass that is computed; -1: none
    ISSUE,  # cycles in which its instructions are issued
    SUM_CLASS,  # of the sums that elements add up; -1: none
    SUM_RELEASE,  # cycle of the slot from which on they do
    DRAINED,  # cycles of the pipeline before that, in this slot
    AT_LEAST,  # cycles of the slot
    TAIL,  # cycles of it after all is done
    CLOSES,  # 1 where the last results of a tile of the scratchpad go out
    AFTER_IN,  # cycles from the last word that comes in to the end of the slot
    AFTER_OUT,
    LIKE,  # what its length depends on, as one number: equal for slots of equal lengths
    READ_LAG,  # cycles from the slot's first until its first instruction reads registers
    ENDS,  # the cycle after its last: what the slot finds out
    SLOT_NUMBERS,
) = range(16)
# What elements execute, since which cycle, in which pass. Then the first register x elements of every operand's buffer.
SINCE, NEXT, LAST, IN_ROUND, ROUND, PERIOD, MASK, PASS, BUFFERS = range(9)


class Flight(NamedTuple):
    """Words between scratchpad and registers: for each network, and for results, by cycle of sending."""

    words: np.ndarray  # lane, cycle: how many
    first: np.ndarray  # their first word in its stream
    place: np.ndarray  # first register x elements, or first word of the scratchpad
    value: np.ndarray  # lane, cycle, word


class Log(NamedTuple):
    """What is written down of a window of cycles, by `log`."""

    window: np.ndarray
    cycles: np.ndarray  # cycle, column
    words: np.ndarray  # cycle, lane, word: values as they were sent
    registers: np.ndarray  # at the beginning of the window


class Array(NamedTuple):
    """All that the array remembers from one cycle to the next."""

    registers: np.ndarray
    scratchpad: np.ndarray
    memory: np.ndarray
    running: np.ndarray  # what elements execute
    loaded: np.ndarray  # cycle, what: what they execute from a cycle on, by its number modulo the rows
    bank_until: np.ndarray  # read or write, bank: the last cycle in which it is taken
    bank_row: np.ndarray
    fifo: np.ndarray  # network, element: words in it
    fifo_at: np.ndarray  # when that was
    turn: np.ndarray  # network: the job that it is at


class Queue(NamedTuple):
    """What the DMA queue remembers."""

    numbers: np.ndarray
    tile: np.ndarray
    moved: np.ndarray
    parity: np.ndarray
    results: np.ndarray
    ends: np.ndarray
    flying: np.ndarray
    state: np.ndarray  # of the memory behind it

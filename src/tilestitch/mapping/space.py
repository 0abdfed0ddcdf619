"""The space of a search as arrays, for compiled code."""

from typing import NamedTuple

import numpy as np

from tilestitch.mapping.tables import NestTable


class Space(NamedTuple):
    """What a search may choose.

    Factors by what is left of a loop (`factors.Factors`), orders by which loops have several iterations
    (`factors.Orders`), limits, and tables of exact tiles: a tile stands at the sum over loops of `radix` times the
    place of its factor.
    """

    published: bool
    ragged: bool
    held: NestTable  # by whose tiles register files are full
    one_stays: bool  # at most one operand at a time can stay while loops run
    first: np.ndarray
    items: np.ndarray
    row: np.ndarray
    order_first: np.ndarray  # of the scratchpad's loops
    order_runs: np.ndarray
    outer_first: np.ndarray  # of DRAM's loops
    outer_runs: np.ndarray
    compulsory: np.ndarray  # operand: words that DRAM moves at least
    dram_most: np.ndarray  # loop: tiles of the scratchpad
    stays: int  # the operand that stays while the scratchpad's loops run, -1 for any
    least_registers: float  # bytes
    least_scratchpad: float
    radix: np.ndarray
    place: np.ndarray  # loop, factor
    # Of all tiles of the scratchpad that fit and are multiples of a tile: how many, and what they move at least, in
    # cycles of DMA and in picojoules beyond what DRAM must move. Then the same of the tile itself. Empty if ragged.
    below: np.ndarray
    least_busy: np.ndarray
    least_brought: np.ndarray
    busy: np.ndarray
    brought: np.ndarray

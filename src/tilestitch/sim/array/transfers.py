"""What DMA moves for a tile of the scratchpad: contiguous runs, each with its places in DRAM and in the scratchpad."""

from dataclasses import dataclass
from math import prod

import numpy as np

from tilestitch.ir.loop_nest import LoopOperand
from tilestitch.sim.array.geometry import Geometry, coefficients, strides_of


@dataclass(frozen=True)
class Transfers:
    """Runs of every operand for every kind of tile.

    Bit b of a *kind* says that the b-th of `ragged` loops is at its last tile, which is smaller. Transfer t of operand
    k in kind q is t = k x kinds + q; its runs are rows `first[t]` to `first[t + 1]`, each `words[t]` long. An operand's
    tile begins in DRAM at the sum of tile number x `origin[k]` over loops, in words from `base[k]` bytes on.
    """

    ragged: tuple[int, ...]
    kinds: int
    first: np.ndarray
    words: np.ndarray
    dram: np.ndarray
    scratchpad: np.ndarray
    origin: np.ndarray
    base: np.ndarray


def transfers_of(geometry: Geometry) -> Transfers:
    """All runs of a mapping. Arrays lie in DRAM one after another, in the order of operands."""
    whole, last = geometry.tile_sizes, geometry.last_tile_sizes
    ragged = tuple(loop for loop in range(len(whole)) if last[loop] < whole[loop])
    first, words, drams, scratchpads, origins, bases = [0], [], [], [], [], [0]
    for operand, bits in zip(geometry.nest.operands, geometry.element_bits, strict=True):
        for kind in range(1 << len(ragged)):
            sizes = list(whole)
            for bit, loop in enumerate(ragged):
                if kind >> bit & 1:
                    sizes[loop] = last[loop]
            length, dram, scratchpad = _runs(operand, operand.extents(sizes), operand.extents(whole))
            first.append(first[-1] + len(dram))
            words.append(length)
            drams.append(dram)
            scratchpads.append(scratchpad)
        steps = coefficients(operand, strides_of(operand.shape), len(whole))
        origins.append(steps * np.array(geometry.mapping.scratchpad_tile))
        bases.append(bases[-1] + -(-prod(operand.shape) * bits // 8))
    return Transfers(
        ragged,
        1 << len(ragged),
        np.array(first, np.int64),
        np.array(words, np.int64),
        np.concatenate(drams),
        np.concatenate(scratchpads),
        np.array(origins, np.int64),
        np.array(bases[:-1], np.int64),
    )


def _runs(operand: LoopOperand, extents: tuple[int, ...], room: tuple[int, ...]) -> tuple[int, np.ndarray, np.ndarray]:
    """Words of each contiguous run of a tile, and where the runs begin in DRAM and in its room of the scratchpad."""
    axes = len(extents)
    within = axes  # the first axis that a run has all of; the one before it may be cut
    while within > 0 and (within == axes or extents[within] == operand.shape[within]):
        within -= 1
    outer = np.indices(extents[:within]).reshape(within, -1) if within else np.zeros((0, 1), np.int64)
    dram = strides_of(operand.shape)[:within] @ outer
    scratchpad = strides_of(room)[:within] @ outer
    return prod(extents[within:]), dram.astype(np.int64), scratchpad.astype(np.int64)

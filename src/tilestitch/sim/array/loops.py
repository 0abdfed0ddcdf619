"""The loops outside the register files, counted pass by pass and tile by tile."""

import numpy as np

from tilestitch.base.jit import lending
from tilestitch.sim.array.plan import CLASS_BIT, KIND_BIT, LAST_PASSES, PASSES, SUMMED, TILES

END, NEXT_PASS, NEXT_TILE = range(3)


@lending
def next_tile(loops: np.ndarray, order: np.ndarray, indexed: np.ndarray, tile: np.ndarray, moved: np.ndarray) -> bool:
    """Count `tile` on by one; `moved` says which operands are others then. False after the last tile."""
    moved[:] = 0
    for at in range(len(order) - 1, -1, -1):
        loop = order[at]
        if loops[loop, TILES] == 1:
            continue
        for operand in range(len(moved)):
            moved[operand] |= indexed[operand, loop]
        tile[loop] += 1
        if tile[loop] < loops[loop, TILES]:
            return True
        tile[loop] = 0
    return False


@lending
def passes_of(loops: np.ndarray, tile: np.ndarray, loop: int) -> int:
    """Passes of a loop in a tile."""
    return loops[loop, LAST_PASSES] if tile[loop] == loops[loop, TILES] - 1 else loops[loop, PASSES]


@lending
def next_pass(
    loops: np.ndarray,
    dram_order: np.ndarray,
    spm_order: np.ndarray,
    indexed: np.ndarray,
    tile: np.ndarray,
    turn: np.ndarray,
    moved: np.ndarray,
    tile_moved: np.ndarray,
) -> int:
    """Count `turn`, the pass within a tile, on by one, and `tile` where that was its last.

    `moved` says which operands have other words in the register files then, `tile_moved` in the scratchpad.
    """
    moved[:] = 0
    tile_moved[:] = 0
    for at in range(len(spm_order) - 1, -1, -1):
        loop = spm_order[at]
        passes = passes_of(loops, tile, loop)
        if passes == 1:
            continue
        for operand in range(len(moved)):
            moved[operand] |= indexed[operand, loop]
        turn[loop] += 1
        if turn[loop] < passes:
            return NEXT_PASS
        turn[loop] = 0
    if not next_tile(loops, dram_order, indexed, tile, tile_moved):
        return END
    for operand in range(len(moved)):
        moved[operand] |= tile_moved[operand]
    return NEXT_TILE


@lending
def class_of(loops: np.ndarray, tile: np.ndarray, turn: np.ndarray) -> int:
    """Which class a pass is of."""
    found = 0
    for loop in range(len(loops)):
        if (
            loops[loop, CLASS_BIT]
            and tile[loop] == loops[loop, TILES] - 1
            and turn[loop] == loops[loop, LAST_PASSES] - 1
        ):
            found |= loops[loop, CLASS_BIT]
    return found


@lending
def kind_of(loops: np.ndarray, tile: np.ndarray) -> int:
    """Which kind a tile is of."""
    found = 0
    for loop in range(len(loops)):
        if loops[loop, KIND_BIT] and tile[loop] == loops[loop, TILES] - 1:
            found |= loops[loop, KIND_BIT]
    return found


@lending
def place(steps: np.ndarray, counts: np.ndarray) -> int:
    """Where a pass or a tile begins, in words."""
    found = 0
    for loop in range(len(counts)):
        found += steps[loop] * counts[loop]
    return found


@lending
def began(loops: np.ndarray, counts: np.ndarray) -> bool:
    """Whether some loop over which results are sums is beyond its first tile or pass."""
    found = False
    for loop in range(len(counts)):
        found |= loops[loop, SUMMED] == 1 and counts[loop] > 0
    return found

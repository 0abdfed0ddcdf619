"""Where sums lie in the accumulators, once the order of instructions is known.

Addresses are given out before that order, so that a product may wait for sums that happened to lie in its place. In the
order of the text each buffer is read for the last time before another one gets its place, whatever else runs meanwhile.
So each can lie where nothing was for longest in that order.
"""

from dataclasses import replace

import numpy as np

from tilestitch.hardware.accelerator import Level
from tilestitch.ir.program import Program
from tilestitch.lower.staging import places_by_use


def with_sums_moved(program: Program) -> Program | None:
    """The program with the same instructions in the same order, and sums at other addresses; None where all stay.

    They are at the same ones in every iteration. Waits are those of the program as it was. A memory in which a buffer
    would find no room stays as it is.
    """
    length, buffers = len(program) // program.iterations, program.buffers
    counts = np.diff(program.operand_offsets[: length + 1])
    user, used = np.repeat(np.arange(length), counts), program.operand_buffer[: program.operand_offsets[length]]
    first, last = np.full(len(buffers), len(program), np.int64), np.full(len(buffers), -1, np.int64)
    np.minimum.at(first, used, user)
    np.maximum.at(last, used, user)
    address, moved = buffers.address.copy(), np.zeros(len(buffers), np.bool_)
    for number, space in enumerate(program.spaces):
        if space.level is not Level.ACCUMULATORS:
            continue
        rows = np.flatnonzero((buffers.space == number) & (last >= 0))
        rows = rows[np.argsort(first[rows], kind="stable")]
        found = places_by_use(buffers.size_bytes[rows], first[rows], last[rows], space.size_bytes)
        if len(found) == len(rows):
            address[rows], moved[rows] = found, True
    if (address == buffers.address).all():
        return None
    own = (len(buffers) - len(program.constants)) // program.iterations  # constants have one buffer in all iterations
    for iteration in range(1, program.iterations):
        address[np.flatnonzero(moved) + own * iteration] = address[moved]
    return replace(program, buffers=replace(buffers, address=address))

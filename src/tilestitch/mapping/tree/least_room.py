"""What every mapping takes of a memory at least, whatever it spreads: a layer that is too large is said at once."""

from math import ceil

import numpy as np

from tilestitch.base.errors import DoesNotFit
from tilestitch.hardware.tree import TreeMemory
from tilestitch.mapping.tree.crossings import OperandOnTree, operands_on_tree
from tilestitch.mapping.tree.placed import PlacedNest

_CLOSE = 1e-6  # of a size: numbers of elements are averages, and rounded


def expect_room(bare: PlacedNest) -> None:
    """Refuse a nest whose operands do not fit together in a memory that each of them fits alone, whatever is spread.

    Operands lie as a whole in the outermost memory of theirs, and take a bank at least of one that has banks.
    """
    operands = operands_on_tree(bare)
    for memory in bare.tree.memories:
        bits = {one.array.name: _least_bits(one, memory, bare) for one in operands if memory in one.memories}
        room = memory.size_bits * (1 + _CLOSE)
        if bits and max(bits.values()) <= room < sum(bits.values()):
            each = ", ".join(f"{name} {least:,}" for name, least in bits.items())
            banks = ", in whole banks" if memory.bank_bits > 0 else ""
            raise DoesNotFit(
                f"{bare.nest.name}: every mapping needs at least {sum(bits.values()):,} bits in {memory.name} ({each}"
                f"{banks}), which has {memory.size_bits:,}.",
                "a larger memory",
                "a smaller layer",
            )


def _least_bits(operand: OperandOnTree, memory: TreeMemory, bare: PlacedNest) -> int:
    """Bits of an operand in one of these memories: all of it where that holds all, else of one element."""
    level = operand.memories.index(memory)
    is_whole = level == len(operand.memories) - 1 and {axis.name for axis in bare.tree.axes} <= set(memory.serves)
    tile = bare.steps if is_whole else (1,) * len(bare.steps)
    bits = min(operand.array.element_bits, bare.final_bits) if operand.is_write else operand.array.element_bits
    held = int(operand.held(level, np.array([tile], np.int64))[0]) * bits
    if memory.bank_bits > 0:
        return ceil(held / memory.bank_bits) * memory.bank_bits * memory.buffers
    return held  # a second buffer takes nothing where the tile is all of the operand

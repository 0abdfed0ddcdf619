"""Softmax block by block: what a block adds to the state of its rows, and exponentials that are never too large.

Source: Milakov and Gimelshein, Online normalizer calculation for softmax, 2018, arXiv 1805.02867; with a product behind
it Dao et al., FlashAttention, NeurIPS 2022, arXiv 2205.14135, section 3.1.
"""

from collections.abc import Sequence

import numpy as np

from tilestitch.ir.graph import Operator

CARRY = "carry"  # the kind that adds a block to the state
BLOCK_OF = "block_of"  # the attribute of a product of a block: groups, rows, depth and columns of that of all blocks
STATE_COLUMNS = 2  # of a row behind its product: the sum of exponentials, then the maximum


def is_block(op: Operator) -> bool:
    """Whether an operator is a block of a product."""
    return any(name == BLOCK_OF for name, _ in op.attributes)


def exp_difference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """exp(x - y); zero where both are minus infinity: of a block that is masked as a whole nothing counts."""
    return np.where(np.isneginf(x) & np.isneginf(y), np.float32(0), np.exp(x - y))


def carry(op: Operator, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The state of rows behind a block: sums of products, the sum of exponentials and the maximum, one after another.

    Of the product, sum and maximum of the block, and of the state before with what that is rescaled by, where there is
    one. The last two columns of the product are padding.
    """
    product, total, largest, *before = operands
    found = product.copy()
    found[..., -2] += total[..., 0]
    if before:
        state, factor = before
        found += state * factor
    found[..., -1] = largest[..., 0]
    return [found]

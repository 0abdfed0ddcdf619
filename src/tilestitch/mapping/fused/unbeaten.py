"""Of ways that go on alike those that no other beats."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tilestitch.base.jit import compiled


def unbeaten(alike: Sequence[NDArray], costs: NDArray[np.int64], rooms: NDArray[np.float64]) -> NDArray[np.int64]:
    """The numbers of ways that no other one beats, in ascending order; of equal ones the first.

    A way beats another one with the same values in all columns of `alike` if none of its costs and rooms is larger.
    """
    group = np.zeros(len(costs), np.int64)
    for column in alike:
        group = group * (int(column.max(initial=0)) + 1) + column
    order = np.lexsort([*rooms.T[::-1], *costs.T[::-1], group])
    return np.sort(order[_is_unbeaten(group[order], costs[order], rooms[order])])


@compiled
def _is_unbeaten(group: np.ndarray, costs: np.ndarray, rooms: np.ndarray) -> np.ndarray:
    """Of rows in ascending order, so that what beats a row stands before it."""
    many, first = 0, 0
    found = np.zeros(len(group), np.bool_)
    kept = np.empty(len(group), np.int64)
    for row in range(len(group)):
        if row and group[row] != group[row - 1]:
            first = many
        is_beaten = False
        for at in range(first, many):
            other, is_beaten = kept[at], True
            for column in range(costs.shape[1]):
                if costs[other, column] > costs[row, column]:
                    is_beaten = False
                    break
            for column in range(rooms.shape[1]):
                if not is_beaten or rooms[other, column] > rooms[row, column]:
                    is_beaten = False
                    break
            if is_beaten:
                break
        if not is_beaten:
            found[row], kept[many] = True, row
            many += 1
    return found

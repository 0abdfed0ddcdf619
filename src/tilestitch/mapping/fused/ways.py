"""Ways of one operator to the tiles at which it may be joined with others, of which none beats another."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilestitch.base.jit import compiled


@dataclass(frozen=True, slots=True, eq=False)
class Ways:
    """Ways of one operator to tiles at which it may be joined: a row each, in the order of their points.

    Points are of the lattice of the operator's own extents; `placed` counts the cuts of each operand in memories that
    all units share. In a search for latency `cycles` has the time of one visit, and for how long it keeps each port
    busy that shared loops use as well.
    """

    point: NDArray[np.int64]
    placed: NDArray[np.int64]
    partial: NDArray[np.bool_]
    spent: NDArray[np.int64]
    taken: NDArray[np.float64]
    choice: NDArray[np.int64]
    cycles: NDArray[np.int64]
    label: NDArray[np.int64]  # of the sweep of its choice

    def at(self, point: int) -> slice:
        """The rows of one point."""
        first, last = np.searchsorted(self.point, [point, point + 1])
        return slice(int(first), int(last))

    def __getitem__(self, chosen: NDArray[np.int64] | NDArray[np.bool_]) -> "Ways":
        return Ways(
            self.point[chosen],
            self.placed[chosen],
            self.partial[chosen],
            self.spent[chosen],
            self.taken[chosen],
            self.choice[chosen],
            self.cycles[chosen],
            self.label[chosen],
        )


def merged(found: Sequence[Ways], rooms: int, operands: int, clocks: int = 0) -> Ways:
    """All ways of several choices that none of another choice beats."""
    if not found:
        nothing = np.empty(0, np.int64)
        return Ways(
            nothing,
            np.empty((0, operands), np.int64),
            np.empty(0, np.bool_),
            nothing,
            np.empty((0, rooms)),
            nothing,
            np.empty((0, clocks), np.int64),
            nothing,
        )
    both = Ways(
        np.concatenate([one.point for one in found]),
        np.concatenate([one.placed for one in found]),
        np.concatenate([one.partial for one in found]),
        np.concatenate([one.spent for one in found]),
        np.concatenate([one.taken for one in found]),
        np.concatenate([one.choice for one in found]),
        np.concatenate([one.cycles for one in found]),
        np.concatenate([one.label for one in found]),
    )
    keys = np.column_stack([both.point, both.placed, both.partial.astype(np.int64)])
    worth = np.column_stack([both.cycles.astype(np.float64), both.taken])
    order = np.lexsort((both.choice, *worth.T[::-1], both.spent, *keys.T[::-1]))
    starts = np.flatnonzero(np.r_[True, (keys[order][1:] != keys[order][:-1]).any(axis=1)])
    return both[order[undominated(np.append(starts, len(order)), worth[order])]]


@compiled
def undominated(starts: np.ndarray, worth: np.ndarray) -> np.ndarray:
    """Of rows in ascending order of cost, those that no row before them in their group is as good as in all columns."""
    keep = np.ones(len(worth), np.bool_)
    kept = np.empty(len(worth), np.int64)
    for group in range(len(starts) - 1):
        count = 0
        for row in range(starts[group], starts[group + 1]):
            for at in range(count):
                as_good = True
                for column in range(worth.shape[1]):
                    if worth[kept[at], column] > worth[row, column]:
                        as_good = False
                        break
                if as_good:
                    keep[row] = False
                    break
            if keep[row]:
                kept[count] = row
                count += 1
    return keep

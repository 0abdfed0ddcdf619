"""What cuts of an operator that runs window by window cost at least, wherever they lie.

Inside of the loops over windows a cut is of one window, and crosses in each of them. Outside it is of a larger window
of which there are fewer, which may cost less: the rows at the edge of those inside are brought once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilestitch.mapping.tree.labels import NEVER
from tilestitch.mapping.tree.problem import Passing, least_from


@dataclass(frozen=True, slots=True, eq=False)
class Outside:
    """What the cuts in memories that all units share cost at least outside of the loops over windows, in all windows.

    An entry for each operand that moves anything, with a number for each such cut and the later ones together.
    """

    fj: tuple[NDArray[np.int64], ...]
    cycles: tuple[tuple[NDArray[np.int64], ...], ...]  # of each port that crossings outside use
    least_fj: int  # of all operands together, of their cuts in these memories wherever they lie


def least_togo(
    cuts: Sequence[Passing],
    costs: Sequence[NDArray[np.int64]],
    shape: tuple[int, ...],
    outside: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """Of every cut of one operand the least that it and the later ones cost from a point on: [cut, partial, point].

    The last cuts may also be `outside`, where each and the later ones cost at least so much.
    """
    if outside is None or not len(outside):
        return least_from(cuts, costs, shape)
    found = np.empty((len(cuts), 2, costs[0].shape[1]), np.int64)
    after = np.zeros_like(found[0])
    for cut in range(len(cuts) - 1, -1, -1):
        behind = np.where(cuts[cut].is_partial, after[1], after[0])
        here = np.minimum(costs[cut] + behind, NEVER)
        beyond = cut - (len(cuts) - len(outside))
        if beyond >= 0:
            here = np.minimum(here, outside[beyond])
        after = found[cut] = _from_each_on(here, shape)
    return found


def _from_each_on(values: NDArray[np.int64], shape: tuple[int, ...]) -> NDArray[np.int64]:
    """The least of each point and of those that are no smaller along any axis of the lattice."""
    least = values.reshape(len(values), *shape)
    for axis in range(1, least.ndim):
        least = np.flip(np.minimum.accumulate(np.flip(least, axis), axis), axis)
    return least.reshape(values.shape)

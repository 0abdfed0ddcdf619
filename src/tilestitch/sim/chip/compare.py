"""Two results beside one another, element by element: which values are wrong, and of how many that can be said."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

SMALLEST = float(np.finfo(np.float32).smallest_normal)  # what is closer to zero may be computed as zero
PEERS = 0.1  # a bound under this share of the values whose bounds are like it decides as well


@dataclass(frozen=True, slots=True)
class Element:
    """One value of an output: where it lies, and what there is on either side."""

    iteration: int
    place: tuple[int, ...]
    found: float
    expected: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """One output, all iterations: how many values were compared, how many are decided, the worst difference.

    `ratio` is the largest difference as a share of what rounding may do to that value; more than 1 is wrong. `worst`
    is that value, None where all are equal. `bound` is the largest bound of a value that is decided.
    """

    compared: int
    decided: int
    ratio: float
    worst: Element | None
    bound: float = 0.0

    @property
    def wrong(self) -> bool:
        return not self.ratio <= 1


def compare(found: Sequence[np.ndarray], expected: Sequence[np.ndarray], bounds: Sequence[np.ndarray]) -> Comparison:
    """Compare one output in all iterations; other shapes than expected are wrong everywhere."""
    compared = sum(array.size for array in expected)
    decided, ratio, worst, largest = 0, 0.0, None, 0.0
    for iteration, (ours, theirs, bound) in enumerate(zip(found, expected, bounds, strict=True)):
        if ours.shape != theirs.shape:
            return Comparison(compared, compared, np.inf, None)
        sure = decides(theirs, bound)
        decided += int(np.count_nonzero(sure))
        largest = max(largest, float(np.max(bound, initial=0.0, where=sure)))
        shares = excess(ours, theirs, bound)
        place = int(shares.argmax()) if shares.size else 0
        if shares.size and shares.flat[place] > ratio:
            ratio = float(shares.flat[place])
            index = tuple(int(number) for number in np.unravel_index(place, shares.shape))
            worst = Element(iteration, index, float(ours[index]), float(theirs[index]))
    return Comparison(compared, decided, ratio, worst, largest)


@np.errstate(invalid="ignore", over="ignore")
def gaps(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """How far values are apart: infinitely where one alone is no number, or is infinite."""
    apart = np.asarray(np.abs(np.subtract(found, expected, dtype=np.float64)))  # a scalar too can be written to
    odd = ~np.isfinite(apart)
    if odd.any():
        same = (found == expected) | ((found != found) & (expected != expected))  # NaN is not itself
        apart[odd] = np.where(np.broadcast_to(same, apart.shape)[odd], 0.0, np.inf)
    return apart


@np.errstate(invalid="ignore", over="ignore")
def excess(found: np.ndarray, expected: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """The difference of each value as a share of what is allowed; of a NaN or infinity on one side it is infinite."""
    gap = gaps(found, expected)
    if expected.dtype.kind == "f":
        gap[gap < SMALLEST] = 0.0
    with np.errstate(divide="ignore"):
        share = np.where(gap > 0, gap / bound, 0.0)
    return np.where(np.isposinf(bound) | (gap == 0), 0.0, share)


@np.errstate(invalid="ignore", over="ignore")
def decides(expected: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """Where a wrong value would show: the bound is less than the value itself, or a tenth of its peers.

    Peers are the values of the same array whose bounds are the same power of two; they differ as much among each
    other as a wrong value from the right one. An integer is decided where its bound is under a tenth of itself.
    """
    size = np.abs(expected.astype(np.float64))
    wide = bound.astype(np.float64)
    own = 1.0 if expected.dtype.kind == "f" else PEERS
    found = (wide < own * size) | (wide < SMALLEST) | ((wide < np.inf) & ~np.isfinite(size))
    open_ones = ~found & np.isfinite(wide)
    if open_ones.any():
        finite = np.isfinite(size) & np.isfinite(wide) & (wide > 0)
        power = np.frexp(np.where(finite, wide, 1.0))[1]
        for one in np.unique(power[open_ones]):
            peers = finite & (power == one)
            scale = np.sqrt(np.mean(np.square(size[peers]))) if peers.any() else 0.0
            found |= open_ones & peers & (wide < PEERS * scale)
    return found

"""Numbers to simulate with, and what a nest makes of them by numpy: computed another way than the array does."""

from collections.abc import Sequence
from functools import cache
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from threadpoolctl import ThreadpoolController

from tilestitch.ir.choices import Values
from tilestitch.ir.loop_nest import LoopNest, LoopOperand

INT_BITS = 32  # of what the array computes in
EXACT = {np.float32: 2**24, np.float64: 2**53}  # whole numbers up to here are held
_MOST_WORDS = 2**25  # of an operand that is written out for all iterations at a time
_ROUNDING = float(np.finfo(np.float32).eps) / 2


def random_operands(nest: LoopNest, values: Values) -> list[np.ndarray]:
    """Arrays for all that is read, the same for the same nest.

    Integers are so small that no sum leaves 32 bits, floats are between -1 and 1.
    """
    rng = np.random.default_rng(len(nest.loops))
    shapes = [operand.shape for operand in nest.reads]
    if values is Values.FLOATS:
        return [rng.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]
    most = 8
    while most > 1 and most ** len(shapes) * additions(nest) >= 2 ** (INT_BITS - 1):
        most -= 1
    return [rng.integers(-most, most + 1, shape, np.int32) for shape in shapes]


def additions(nest: LoopNest) -> int:
    """Products that make up one result."""
    return prod(loop.extent for at, loop in enumerate(nest.loops) if at not in nest.write.indexed_by)


def largest_sum(nest: LoopNest, operands: Sequence[np.ndarray]) -> int:
    """What no sum of products of these integers is larger than, nor any part of one."""
    return additions(nest) * prod(int(max(one.max(), -int(one.min()))) for one in operands)


def computed(nest: LoopNest, operands: Sequence[np.ndarray]) -> np.ndarray:
    """What is written, by numpy: in int64 for integers, which is exact, and in float64 for floats.

    Every operand is seen as an array with an axis for each loop that moves it. Integers go through floats as well,
    whose products are fast, where no sum can be beyond what these hold.
    """
    whole = all(np.issubdtype(one.dtype, np.integer) for one in operands)
    dtype = np.dtype(np.float64)
    if whole:
        most = largest_sum(nest, operands)
        dtype = np.dtype(next((one for one, exact in EXACT.items() if most <= exact), np.int64))
    result = np.zeros(nest.write.shape, dtype)
    loops = sorted(nest.write.indexed_by)
    largest = max(loops, key=lambda loop: nest.extents[loop], default=None)
    with _threads().limit(limits=1):  # so that products take as long on any number of cores, and sums are the same
        for begin, end in _parts(nest, largest):
            part = _product(nest, operands, dtype, largest, begin, end)
            _view(nest.write, nest, result, largest, begin, end)[...] = part
    return result.astype(np.int64) if whole else result


@cache
def _threads() -> ThreadpoolController:
    return ThreadpoolController()


def rounding_bound(nest: LoopNest, operands: Sequence[np.ndarray]) -> np.ndarray:
    """By how much float32 sums may differ from exact ones at most, whatever the order in which they are added.

    n roundings of unit u put a sum of products within n u / (1 - n u) of the sum of their magnitudes. Source: Higham,
    Accuracy and Stability of Numerical Algorithms, 2nd edition, section 3.1.
    """
    roundings = (additions(nest) + len(nest.reads) - 1) * _ROUNDING
    return computed(nest, [np.abs(one) for one in operands]) * (roundings / (1 - roundings))


def _parts(nest: LoopNest, loop: int | None) -> list[tuple[int, int]]:
    """Iterations of a loop in so many parts that what is written out for one of them is not large."""
    if loop is None:
        return [(0, 0)]
    words = max(prod(nest.extents[at] for at in operand.indexed_by) for operand in nest.reads)
    extent = nest.extents[loop]
    step = max(1, extent * _MOST_WORDS // max(words, _MOST_WORDS))
    return [(begin, min(begin + step, extent)) for begin in range(0, extent, step)]


def _product(
    nest: LoopNest, operands: Sequence[np.ndarray], dtype: np.dtype, loop: int | None, begin: int, end: int
) -> np.ndarray:
    """The results of so many iterations of a loop, an axis for each loop that moves them."""
    terms: list[Any] = []
    for operand, array in zip(nest.reads, operands, strict=True):
        terms += [_view(operand, nest, array.astype(dtype), loop, begin, end), sorted(operand.indexed_by)]
    read = frozenset[int]().union(*(operand.indexed_by for operand in nest.reads))
    for at in range(len(nest.loops)):  # numpy knows axes by the arrays that have them
        if at not in read:
            terms += [np.ones(end - begin if at == loop else nest.extents[at], dtype), [at]]
    return np.einsum(*terms, sorted(nest.write.indexed_by), optimize=True)


def _view(
    operand: LoopOperand, nest: LoopNest, array: np.ndarray, loop: int | None, begin: int, end: int
) -> np.ndarray:
    """An operand with an axis for each loop that moves it, in their order, as the loops see it."""
    steps = dict.fromkeys(sorted(operand.indexed_by), 0)
    for axis, stride in zip(operand.axes, array.strides, strict=True):
        for at, step in axis:
            steps[at] += step * stride
    if loop in steps:
        array = array.reshape(-1)[begin * steps[loop] // array.itemsize :]
    shape = [end - begin if at == loop else nest.extents[at] for at in steps]
    return as_strided(array, shape, list(steps.values()))

"""What numpy makes of operators that run together, and whether a simulated result is that."""

from collections.abc import Sequence

import numpy as np

from tilestitch.base.errors import InvalidIR
from tilestitch.ir.choices import Values
from tilestitch.ir.loop_nest import LoopNest
from tilestitch.sim.array.values import computed, random_operands, rounding_bound
from tilestitch.sim.tree.chain import ChainLink

Operands = Sequence[Sequence[np.ndarray | None]]  # of each operator what it reads; nothing for an intermediate
_ULP = float(np.finfo(np.float32).eps)


def chain_operands(nests: Sequence[LoopNest], links: Sequence[ChainLink], values: Values) -> Operands:
    """Arrays for all that nests read, each the result of the one before but for that."""
    found: list[list[np.ndarray | None]] = []
    for number, nest in enumerate(nests):
        arrays: list[np.ndarray | None] = [*random_operands(nest, values)]
        if number > 0:
            arrays[links[number - 1].read] = None
        found.append(arrays)
    return found


def passed_on(array: np.ndarray, link: ChainLink) -> np.ndarray:
    """What softmax makes of complete rows; of integers what is exact in it, each less the greatest of its row."""
    if not link.passes or not link.whole:
        return array
    axes = tuple(sorted(link.whole))
    less = array - array.max(axis=axes, keepdims=True)
    if np.issubdtype(array.dtype, np.integer):
        return less
    found = np.exp(less)
    return found / found.sum(axis=axes, keepdims=True)


def expected(
    nests: Sequence[LoopNest], links: Sequence[ChainLink], operands: Operands
) -> tuple[np.ndarray, np.ndarray]:
    """What numpy makes of nests one after another, and by how much float32 may differ from that at most."""
    value = error = np.zeros(())
    for number, nest in enumerate(nests):
        arrays = [array for array in operands[number] if array is not None]
        is_float, read = np.issubdtype(arrays[0].dtype, np.floating), -1
        if number > 0:
            read = links[number - 1].read
            value, error = (padded(one, nest.reads[read].shape) for one in (value, error))
            arrays.insert(read, value if is_float else value.astype(arrays[0].dtype))  # as memories hold it
        value = computed(nest, arrays)
        before, error = error, np.zeros(value.shape)
        if is_float:
            error = rounding_bound(nest, arrays)
            if number > 0:
                apart = [before if at == read else np.abs(array) for at, array in enumerate(arrays)]
                error = error + rounding_bound(nest, apart) + computed(nest, apart)
        else:
            value = value.astype(arrays[0].dtype)
        if number < len(links) and links[number].passes:
            whole = links[number].whole
            value = passed_on(value, links[number])
            if is_float and whole:
                axes = tuple(sorted(whole))
                length = int(np.prod([value.shape[axis] for axis in axes]))
                error = value * (np.expm1(2 * error.max(axis=axes, keepdims=True)) + 4 * (length + 8) * _ULP)
    return value, error


def padded(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """An array as it is read: what lies behind its end is zero."""
    found = np.zeros(shape, array.dtype)
    found[tuple(slice(0, size) for size in array.shape)] = array
    return found


def expect_right(
    where: str, result: np.ndarray, nests: Sequence[LoopNest], links: Sequence[ChainLink], operands: Operands
) -> None:
    """Raises `InvalidIR` where a result is not numpy's; of floats where it is further from it than rounding goes."""
    value, allowed = expected(nests, links, operands)
    wrong = np.argwhere(~(np.abs(result.astype(value.dtype) - value) <= allowed))
    if len(wrong) > 0:
        at = tuple(int(one) for one in wrong[0])
        raise InvalidIR(
            f"{where}: the simulated result at {list(at)} is {result[at]}, and numpy's is {value[at]} "
            f"({len(wrong):,} of {value.size:,} differ)"
        )

"""What numpy makes of operators that run together, and whether a simulated result is that."""

from collections.abc import Sequence

import numpy as np

from tilestitch.base.errors import InvalidIR
from tilestitch.ir.choices import Values
from tilestitch.sim.array.values import computed, random_operands, rounding_bound
from tilestitch.sim.tree.wiring import ChainLink, Reading, Wiring

Operands = Sequence[Sequence[np.ndarray | None]]  # of each operator what it reads; nothing for an intermediate
_ULP = float(np.finfo(np.float32).eps)


def chain_operands(wiring: Wiring, values: Values) -> Operands:
    """Arrays for all that nests read but for results of others."""
    found: list[list[np.ndarray | None]] = [[*random_operands(nest, values)] for nest in wiring.nests]
    for number, arrays in enumerate(found):
        for one in wiring.read_by(number):
            arrays[one.read] = None
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


def met(one: np.ndarray, other: np.ndarray, where: Reading) -> np.ndarray:
    """What two results are where they meet."""
    return one * other if where.is_factor else one + other


def expected(wiring: Wiring, operands: Operands) -> tuple[np.ndarray, np.ndarray]:
    """What numpy makes of nests one after another, and by how much float32 may differ from that at most."""
    links = wiring.links
    value = error = np.zeros(())
    known: list[tuple[np.ndarray, np.ndarray]] = []  # of each link the result as it is passed on
    for number, nest in enumerate(wiring.nests):
        made: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        for one in wiring.taken_by(number):
            made[one.read] = _met(made.get(one.read), known[one.link], one)
        dtype = next((array.dtype for array in operands[number] if array is not None), None)
        dtype = dtype or next(array.dtype for arrays in operands for array in arrays if array is not None)
        is_float = np.issubdtype(dtype, np.floating)
        arrays: list[np.ndarray] = []
        apart: list[np.ndarray | None] = []  # by how much what is read may differ
        for at, array in enumerate(operands[number]):
            if array is None:
                value, before = (padded(one, nest.reads[at].shape) for one in made[at])
                arrays.append(value if is_float else value.astype(dtype))  # as memories hold it
                apart.append(before)
            else:
                arrays.append(array)
                apart.append(None)
        value = computed(nest, arrays)
        error = np.zeros(value.shape)
        if is_float:
            error = rounding_bound(nest, arrays)
            sizes = [np.abs(array) for array in arrays]
            for at, before in enumerate(apart):
                if before is not None:
                    own = [before if at == one else size for one, size in enumerate(sizes)]
                    error = error + rounding_bound(nest, own) + computed(nest, own)
                    sizes[at] = sizes[at] + before  # as others may differ at the same time
        else:
            value = value.astype(dtype)
        if (added := made.get(len(nest.reads))) is not None:
            value, error = _met((value, error), added, Reading(0, number, len(nest.reads)))
            value = value if is_float else value.astype(dtype)
        if number < len(links) and links[number].passes:
            whole = links[number].whole
            value = passed_on(value, links[number])
            if is_float and whole:
                axes = tuple(sorted(whole))
                length = int(np.prod([value.shape[axis] for axis in axes]))
                error = value * (np.expm1(2 * error.max(axis=axes, keepdims=True)) + 4 * (length + 8) * _ULP)
        known.append((value, error))
    return value, error


def _met(
    one: tuple[np.ndarray, np.ndarray] | None, other: tuple[np.ndarray, np.ndarray], where: Reading
) -> tuple[np.ndarray, np.ndarray]:
    """What two results are where they meet, and by how much that may differ; the first may be nothing yet."""
    if one is None:
        return other
    (left, its), (right, other_its) = one, other
    value, error = met(left, right, where), its + other_its
    if where.is_factor:
        error = np.abs(left) * other_its + its * np.abs(right) + its * other_its
    return value, error + (np.abs(value) + error) * _ULP


def padded(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """An array as it is read: what lies behind its end is zero."""
    found = np.zeros(shape, array.dtype)
    found[tuple(slice(0, size) for size in array.shape)] = array
    return found


def expect_right(where: str, result: np.ndarray, wiring: Wiring, operands: Operands) -> None:
    """Raises `InvalidIR` where a result is not numpy's; of floats where it is further from it than rounding goes."""
    value, allowed = expected(wiring, operands)
    wrong = np.argwhere(~(np.abs(result.astype(value.dtype) - value) <= allowed))
    if len(wrong) > 0:
        at = tuple(int(one) for one in wrong[0])
        raise InvalidIR(
            f"{where}: the simulated result at {list(at)} is {result[at]}, and numpy's is {value[at]} "
            f"({len(wrong):,} of {value.size:,} differ)"
        )

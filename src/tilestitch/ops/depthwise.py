"""Depthwise convolutions, and what they take as banded products, see `passes.banded`."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import product
from math import prod

from tilestitch.base.dtypes import DType
from tilestitch.base.units import ceil_div
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.ir.graph import Dim, Graph, Operator
from tilestitch.ir.region import Region
from tilestitch.ops.contraction import ProductShape, roles
from tilestitch.ops.streaming import BLOCK_OF
from tilestitch.ops.work import class_cycles

Way = tuple[int, tuple[int, ...]]  # how many channels, and how many neighbouring results along each axis, are one row

BANDED = "depthwise"  # the attribute of a banded product: the sizes of its convolution


@dataclass(frozen=True, slots=True)
class Depthwise:
    """A depthwise convolution by its dims: channels, positions, the window at each position, and its steps."""

    channel: int
    positions: tuple[int, ...]
    window: tuple[int, ...]
    strides: tuple[int, ...]

    def sizes(self, dims: tuple[Dim, ...]) -> "Sizes":
        """Their extents."""
        positions, window = (tuple(dims[dim].extent for dim in found) for found in (self.positions, self.window))
        return Sizes(dims[self.channel].extent, positions, window, self.strides)


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large a depthwise convolution is."""

    channels: int
    positions: tuple[int, ...]
    window: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def flat(self) -> tuple[int, ...]:
        """All of them, as an attribute holds them."""
        return (self.channels, *self.positions, *self.window, *self.strides)

    def depth(self, channels: int, neighbours: tuple[int, ...]) -> int:
        """What a result is the sum of, zeros included, in a product of so many channels and neighbours."""
        spans = ((n - 1) * step + size for n, step, size in zip(neighbours, self.strides, self.window, strict=True))
        return channels * prod(spans)


def depthwise_of(op: Operator, graph: Graph) -> Depthwise | None:
    """The dims of a depthwise convolution with constant weights that is not banded; None of anything else."""
    if op.kind != "conv" or op.attributes or op.reads[1].tensor not in graph.constants:
        return None
    found = roles(op)
    if len(found.batch) != 1 or found.n:
        return None
    positions, window, strides = list[int](), list[int](), list[int]()
    for axis in op.reads[0].axes:
        inside = [term for term in axis.terms if term[0] in found.k]
        outside = [term for term in axis.terms if term[0] not in found.k]
        if inside and (len(inside) != 1 or len(outside) != 1 or inside[0][1] != 1):
            return None
        window += [dim for dim, _ in inside]
        positions += [dim for dim, _ in outside if inside]
        strides += [stride for _, stride in outside if inside]
    plain = all(len(axis.terms) <= 1 and all(stride == 1 for _, stride in axis.terms) for axis in op.reads[1].axes)
    written = [term for axis in op.writes[0].axes for term in axis.terms]
    apart = len({dim for dim, _ in written}) == len(written)
    if not (plain and apart) or sorted(window) != sorted(found.k) or min(strides, default=0) < 1:
        return None
    return Depthwise(found.batch[0], tuple(positions), tuple(window), tuple(strides))


def sizes_of(op: Operator, graph: Graph) -> Sizes | None:
    """Of a depthwise convolution, banded or not; None of anything else."""
    flat = op.attribute(BANDED, ())
    if flat != ():
        assert isinstance(flat, tuple)
        count = (len(flat) - 1) // 3
        numbers = tuple(map(int, flat[1:]))
        return Sizes(int(flat[0]), numbers[:count], numbers[count : 2 * count], numbers[2 * count :])
    found = depthwise_of(op, graph)
    return None if found is None else found.sizes(op.dims)


def whole_sizes_of(op: Operator, graph: Graph) -> Sizes | None:
    """As `sizes_of`; of some channels of a depthwise convolution, which is cut, those of all of it."""
    block = op.attribute(BLOCK_OF, ())
    if not block:
        return sizes_of(op, graph)
    assert isinstance(block, tuple), "it is a shape"
    found = depthwise_of(replace(op, attributes=()), graph)
    return None if found is None else replace(found.sizes(op.dims), channels=int(block[0]))


def plain_on_matrix(sizes: Sizes, results: int, dtype: DType, machine: Accelerator) -> tuple[bool, Fraction]:
    """Whether matrix units run the convolution as it is, see `on_matrix_unit`, and what it takes of its class.

    Of units of folds: an array of processing elements takes every product.
    """
    taps = prod(sizes.window)
    shape = ProductShape(sizes.channels, results // sizes.channels, taps, 1)
    matrix, vector = class_cycles(shape, results * taps, dtype, machine)
    if matrix is None or (vector is not None and vector < matrix):
        assert vector is not None, "some unit runs it"
        return False, vector
    return True, matrix


def results_in(op: Operator, box: Region) -> int:
    """How many results the iterations in `box` make."""
    extents = box.extents
    return prod(extents[dim] for dim in op.writes[0].dims)


@cache
def ways(sizes: Sizes, depth: int, columns: int) -> tuple[Way, ...]:
    """How a convolution can be a banded product on a unit of so many weights.

    Left out are those whose weights, zeros included, are so many for each result that others take fewer folds even if
    these fill the unit.
    """
    found: list[Way] = []
    best = folds_of(sizes, (1, (1,) * len(sizes.positions)), depth, columns)
    for way in sorted(_ways(sizes, best * depth * columns), key=lambda way: sizes.depth(*way)):
        if Fraction(sizes.depth(*way), depth * columns) <= best:
            found.append(way)
            best = min(best, folds_of(sizes, way, depth, columns))
    return tuple(found)


def folds_of(sizes: Sizes, way: Way, depth: int, columns: int) -> Fraction:
    """Folds of a unit of so many weights that one row takes, for each of the results in it."""
    results = way[0] * prod(way[1])
    return Fraction(ceil_div(sizes.depth(*way), depth) * ceil_div(results, columns), results)


@cache
def least_folds_of(sizes: Sizes, depth: int, columns: int) -> Fraction:
    """The fewest folds for each result, of all ways."""
    return min(folds_of(sizes, way, depth, columns) for way in ways(sizes, depth, columns))


def _ways(sizes: Sizes, most: Fraction) -> Iterator[Way]:
    """All that divide the convolution evenly, and are at most so deep."""
    for neighbours in product(*map(_divisors, sizes.positions)):
        if sizes.depth(1, neighbours) <= most:
            for channels in _divisors(sizes.channels):
                if sizes.depth(channels, neighbours) <= most:
                    yield channels, neighbours


def _divisors(number: int) -> list[int]:
    return [one for one in range(1, number + 1) if number % one == 0]

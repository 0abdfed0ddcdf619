"""Sums of products: convolutions and matrix products of every kind are one loop nest with two moving operands.

Two floating operands give float32 sums; a third operand is added at the end. Two integer operands give exact integer
sums, of the operands less the numbers that stand for zero in them (attribute `zeros`). Of the first that number may be
computed: it is operand 2 then, and operand 3 the sums of the second operand over the reduction (attribute `corrected`).
A complete sum can be rescaled (attribute `rescaled`): it is multiplied by `factor`, or where that is no attribute by
operand 2, and the last operand is added as a real bias; the result stays within `low` and `high`, and is quantised
where there is an attribute `to`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from tilestitch.base.dtypes import DType
from tilestitch.ir.graph import DimKind, Graph, Operator
from tilestitch.ir.region import Region
from tilestitch.ops.quantisation import quantise

KINDS = frozenset({"conv", "matmul"})


@dataclass(frozen=True, slots=True)
class Roles:
    """Dims of a contraction by the operands they move, read off its accesses.

    `batch` moves both operands and the result, `m` the first and the result, `n` the second and the result, `k` both
    operands but not the result. A depthwise convolution has its channels in `batch` and an empty `n`.
    """

    batch: tuple[int, ...]
    m: tuple[int, ...]
    n: tuple[int, ...]
    k: tuple[int, ...]


def roles(op: Operator) -> Roles:
    """Sort the dims of a contraction `out += reads[0] * reads[1]`."""
    first, second, out = op.reads[0].dims, op.reads[1].dims, op.writes[0].dims
    batch, m, n, k = [], [], [], []
    for number, dim in enumerate(op.dims):
        if dim.kind is DimKind.REDUCTION:
            k.append(number)
        elif number in first and number in second:
            batch.append(number)
        elif number in second:
            n.append(number)
        elif number in out:
            m.append(number)
    return Roles(tuple(batch), tuple(m), tuple(n), tuple(k))


@dataclass(frozen=True, slots=True)
class ProductShape:
    """`groups` independent matrix products of m x k by k x n."""

    groups: int
    m: int
    k: int
    n: int

    @property
    def macs(self) -> int:
        return self.groups * self.m * self.k * self.n


def product_shape(op: Operator, box: Region) -> ProductShape:
    """The matrix products that the iterations in `box` amount to (im2col for a convolution)."""
    extents, found = box.extents, roles(op)

    def size(dims: tuple[int, ...]) -> int:
        return prod(extents[d] for d in dims)

    return ProductShape(size(found.batch), size(found.m), size(found.k), size(found.n))


def multiply(op: Operator, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Sum of products over the reduction dims, which keep extent 1; operands have one axis per dim.

    Integers are multiplied in float64, which is many times faster in numpy, as long as no sum can leave the 53 bits
    that it holds exactly.
    """
    if first.dtype.kind != "i":
        return _sums_of_products(op, first, second)
    zeros = op.attribute("zeros", (0, 0))
    assert isinstance(zeros, tuple)
    a, b = first - zeros[0], second - zeros[1]
    terms = prod(dim.extent for dim in op.dims if dim.kind is DimKind.REDUCTION)
    largest = [int(np.abs(x).max(initial=0)) for x in (a, b)]
    if terms * prod(largest) >= 2**53:
        return _sums_of_products(op, a, b)
    return _sums_of_products(op, a.astype(np.float64), b.astype(np.float64)).astype(np.int64)


def _sums_of_products(op: Operator, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    found = roles(op)
    order_first = (*found.batch, *found.m, *found.k)
    order_second = (*found.batch, *found.k, *found.n)
    full = np.broadcast_shapes(first.shape, second.shape)
    groups, m = prod(full[d] for d in found.batch), prod(full[d] for d in found.m)
    k, n = prod(full[d] for d in found.k), prod(full[d] for d in found.n)
    rest = tuple(d for d in range(first.ndim) if d not in order_first)
    a = first.transpose(*order_first, *rest).reshape(groups, m, k)
    rest = tuple(d for d in range(second.ndim) if d not in order_second)
    b = second.transpose(*order_second, *rest).reshape(groups, k, n)
    out = a[0] @ b[0] if groups == 1 else a @ b
    order = (*found.batch, *found.m, *found.n)
    rest = tuple(d for d in range(first.ndim) if d not in order)
    out = out.reshape([full[d] for d in order] + [1] * len(rest))
    return out.transpose(np.argsort((*order, *rest)))


def finished(op: Operator, total: np.ndarray, others: Sequence[np.ndarray]) -> np.ndarray:
    """What becomes of a complete sum; `others` are the operands after the two that are multiplied."""
    if op.attribute("corrected", 0):
        zero, sums, *others = others
        total = total - zero * sums
    if not op.attribute("rescaled", 0):
        return total + others[0] if others else total
    factor, *bias = others if op.attribute("factor", "") == "" else (_number(op, "factor"), *others)
    result = total.astype(np.float32) * factor
    if bias:
        result = result + bias[0]
    result = np.clip(result, _number(op, "low", -np.inf), _number(op, "high", np.inf))
    to = op.attribute("to", "")
    if not to:
        return result
    return quantise(result, _number(op, "scale"), np.asarray(op.attribute("zero")), DType(str(to)))


def _number(op: Operator, name: str, default: float | None = None) -> np.ndarray:
    return np.asarray(op.attribute(name, default), np.float32)


def sum_dtype(op: Operator, graph: Graph) -> DType:
    """The type of partial sums, 32 bits either way."""
    return DType.FLOAT32 if graph.tensors[op.reads[0].tensor].dtype.is_float else DType.INT32

"""Sums of products: convolutions and matrix products of every kind are one loop nest with two moving operands."""

from dataclasses import dataclass
from math import prod

import numpy as np

from tilestitch.ir.graph import DimKind, Operator
from tilestitch.ir.region import Region

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
    """Sum of products over the reduction dims, which keep extent 1; operands have one axis per dim."""
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

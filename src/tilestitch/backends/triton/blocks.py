"""Blocks: several loops of an operator as one vector of lanes, and back."""

from collections.abc import Mapping, Sequence
from math import prod

from tilestitch.backends.triton.code import ORIGIN
from tilestitch.backends.triton.index import Guard, Index, Var, of_var
from tilestitch.backends.triton.values import Emitter
from tilestitch.ir.graph import Access, Operator
from tilestitch.ir.region import Region

SUFFIX = {(1, 0): "", (2, 0): "[:, None]", (2, 1): "[None, :]"}  # by axes of the block, and the one of the lanes


def lanes(
    e: Emitter, wish: str, size: str, count: int, *, start: str = "", axis: int = 0, of: int = 2, depth: int = 0
) -> Index:
    """The numbers of a block's lanes along one of its axes, from `start` on, guarded where there are more than count.

    `start` is a variable that is a multiple of the block's size; none is 0.
    """
    text = numbered(size, axis, of)
    name = e.code.let(wish, f"{start} + {text}" if start else text, depth)
    guards: tuple[Guard, ...] = ()
    if count % e.sizes[size]:
        guards = (Guard(e.code.let(f"{wish}_ok", f"{name} < {count}", depth), depth),)
    return of_var(Var(name, 0, count - 1, frozenset({axis}), guards, depth))


def numbered(size: str, axis: int, of: int = 2) -> str:
    """The numbers of a block's lanes along one of its axes, as text."""
    found, suffix = f"{ORIGIN} + tl.arange(0, {size})", SUFFIX[of, axis]
    return f"({found}){suffix}" if suffix else found


def unflattened(e: Emitter, flat: Index, op: Operator, order: Sequence[int], box: Region) -> dict[int, Index]:
    """Dims of an operator by number, of which `flat` counts the iterations in a box, the last of `order` fastest."""
    found, step = {}, 1
    for dim in reversed(order):
        extent = box.extents[dim]
        modulus = None if dim == order[0] else extent
        found[dim] = e.part(op.dims[dim].name, flat, step, modulus) + box.start[dim]
        step *= extent
    return found


def counted(box: Region, dims: Sequence[int]) -> int:
    """Iterations of some dims."""
    return prod(box.extents[dim] for dim in dims)


def by_stride(e: Emitter, access: Access, dims: Sequence[int]) -> list[int]:
    """Dims in the order in which an access passes through memory, the fastest last."""
    steps = e.strides(access.tensor)

    def step(dim: int) -> int:
        terms = (
            (step, stride)
            for step, axis in zip(steps, access.axes, strict=True)
            for d, stride in axis.terms
            if d == dim
        )
        return sum(step * abs(stride) for step, stride in terms)

    return sorted(dims, key=lambda dim: (-step(dim), dim))


def with_dims(dims: Sequence[Index], found: Mapping[int, Index]) -> list[Index]:
    """Indices of an operator with some of them replaced."""
    return [found.get(number, index) for number, index in enumerate(dims)]


def axes_of(dims: Sequence[Index], numbers: Sequence[int]) -> frozenset[int]:
    """The axes of the block along which some dims vary."""
    return frozenset(axis for number in numbers for axis in dims[number].axes)

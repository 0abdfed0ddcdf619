"""Shorthands for writing loop nests: dims, and the accesses that they move."""

from collections.abc import Collection

from tilestitch.ir.graph import Access, Axis, Dim, DimKind

Shape = tuple[int, ...]

FIXED = Axis(())  # an axis that no dim moves


class Nest:
    """The loops of one operator while they are written down; each method returns the new dim's number."""

    def __init__(self) -> None:
        self._dims: list[Dim] = []

    @property
    def dims(self) -> tuple[Dim, ...]:
        return tuple(self._dims)

    def parallel(self, name: str, extent: int) -> int:
        return self._add(Dim(name, extent, DimKind.PARALLEL))

    def reduction(self, name: str, extent: int) -> int:
        return self._add(Dim(name, extent, DimKind.REDUCTION))

    def whole(self, name: str, extent: int) -> int:
        return self._add(Dim(name, extent, DimKind.WHOLE))

    def _add(self, dim: Dim) -> int:
        self._dims.append(dim)
        return len(self._dims) - 1


def axis(*terms: tuple[int | None, int], offset: int = 0) -> Axis:
    """The index `sum(stride * dim) + offset`; a dim that is None was left out of the nest and adds nothing."""
    kept = [(dim, stride) for dim, stride in terms if dim is not None and stride != 0]
    return Axis(tuple(sorted(kept, key=lambda term: -abs(term[1]))), offset)


def along(*dims: int | None) -> tuple[Axis, ...]:
    """One axis per dim, moved by it alone; None is an axis that stays at 0."""
    return tuple(FIXED if dim is None else axis((dim, 1)) for dim in dims)


def dims_of(shape: Shape, *, reduced: Collection[int] = (), whole: Collection[int] = ()) -> tuple[Dim, ...]:
    """One dim per axis of a tensor, `d0` for the first."""

    def kind(number: int) -> DimKind:
        if number in reduced:
            return DimKind.REDUCTION
        return DimKind.WHOLE if number in whole else DimKind.PARALLEL

    return tuple(Dim(f"d{number}", extent, kind(number)) for number, extent in enumerate(shape))


def straight(tensor: str, rank: int) -> Access:
    """Axis i moves with dim i."""
    return Access(tensor, along(*range(rank)))


def aligned(tensor: str, shape: Shape, full: Shape) -> Access:
    """Broadcasting as in numpy: axes match those of `full` from the last; an axis of extent 1 does not stretch."""
    first = len(full) - len(shape)
    axes = (axis((first + i, 1)) if size == full[first + i] else FIXED for i, size in enumerate(shape))
    return Access(tensor, tuple(axes))


def broadcast(*shapes: Shape) -> Shape | None:
    """The common shape of operands under numpy's rules, or None where there is none."""
    rank = max(map(len, shapes))
    full = []
    for sizes in zip(*((1,) * (rank - len(shape)) + shape for shape in shapes), strict=True):
        stretched = {size for size in sizes if size != 1}
        if len(stretched) > 1:
            return None
        full.append(stretched.pop() if stretched else 1)
    return tuple(full)

"""How what a kernel touches moves when the iterations that it covers begin elsewhere."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import add

from tilestitch.ir.graph import Access, DimKind, Graph, Operator
from tilestitch.ir.region import Region
from tilestitch.lower.builder import Owner

Shift = tuple[int, ...]  # by axis of a tensor, or by dim of an operator


@dataclass(frozen=True)
class Motion:
    """For the dims of the sink along which a kernel can move as it is, what one step along each does."""

    steps: Mapping[int, Mapping[Owner, Shift]]

    def base(self, box: Region) -> tuple[int, ...]:
        """Where a kernel that covers `box` begins along the dims along which it cannot move, and 0 along the others."""
        return tuple(0 if dim in self.steps else at for dim, at in enumerate(box.start))

    def shift(self, owner: Owner, by: Sequence[int]) -> Shift:
        """How far a region of one owner moves when the sink's iterations move by so many steps along each dim."""
        moves = [(by[dim], step[owner]) for dim, step in self.steps.items() if by[dim]]
        return tuple(sum(count * step[at] for count, step in moves) for at in range(len(moves[0][1]))) if moves else ()


def motion_of(
    graph: Graph, operators: Sequence[Operator], box: Region, fixed: Sequence[str], sums: Mapping[str, str] = {}
) -> Motion:
    """The dims of a kernel's last operator that `box` does not cover whole and along which everything moves alike.

    Nowhere does an operator reach the border of a tensor along an axis that moves, so nothing is cut off there; what
    lies in the `fixed` tensors does not move. `sums` move as what they become.
    """
    steps = {}
    for number, (dim, extent) in enumerate(zip(operators[-1].dims, box.extents, strict=True)):
        found = _step(graph, operators, number) if extent < dim.extent else None
        if found is not None and not any(any(found.get(Owner(name), ())) for name in fixed):
            steps[number] = {**found, **{Owner(name): found[Owner(become)] for name, become in sums.items()}}
    return Motion(steps)


def moved(region: Region, shift: Shift) -> Region:
    """A region some indices further along each axis."""
    if not any(shift):
        return region
    return Region(tuple(map(add, region.start, shift)), tuple(map(add, region.stop, shift)))


def _step(graph: Graph, operators: Sequence[Operator], dim: int) -> dict[Owner, Shift] | None:
    """What one step along a dim of the last operator does to all; None where that is not the same everywhere."""
    sink = operators[-1]
    if sink.dims[dim].kind is not DimKind.PARALLEL:
        return None
    found: dict[Owner, Shift] = {}
    for op in reversed(operators):
        own: Shift | None = tuple(int(at == dim) for at in range(len(sink.dims))) if op is sink else None
        if op is not sink:
            for write in op.writes:
                wanted = found.get(Owner(write.tensor))
                if wanted is None:
                    continue
                shift = _iterations_shift(op, write, wanted, graph.tensors[write.tensor].shape)
                if shift is None or own not in (None, shift):
                    return None
                own = shift
        if own is None:
            return None
        found[Owner(op.name, True)] = own
        for access in (*op.writes, *op.reads):
            shift = tuple(sum(stride * own[d] for d, stride in axis.terms) for axis in access.axes)
            if found.setdefault(Owner(access.tensor), shift) != shift or _is_cut_off(graph, op, access, shift):
                return None
    return found


def _iterations_shift(op: Operator, write: Access, wanted: Shift, shape: tuple[int, ...]) -> Shift | None:
    """How the iterations move that write a region that moves; None unless each axis that does has a dim of its own."""
    found = [0] * len(op.dims)
    for axis, by, size in zip(write.axes, wanted, shape, strict=True):
        if by:
            if len(axis.terms) != 1 or axis.terms[0][1] != 1 or axis.offset:
                return None
            dim = axis.terms[0][0]
            if op.dims[dim].extent != size or op.dims[dim].kind is not DimKind.PARALLEL or found[dim]:
                return None
            found[dim] = by
    return tuple(found)


def _is_cut_off(graph: Graph, op: Operator, access: Access, shift: Shift) -> bool:
    """Whether an operator reaches over the border of a tensor, or picks rows, along an axis that moves."""
    hull, shape = access.hull(op.whole), graph.tensors[access.tensor].shape
    return any(
        by and (number == access.indirect_axis or hull.start[number] < 0 or hull.stop[number] > shape[number])
        for number, by in enumerate(shift)
    )

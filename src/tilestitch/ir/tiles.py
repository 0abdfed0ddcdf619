"""From a tile of a kernel's last operator to what every operator computes and every operand needs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd, lcm

from tilestitch.base.units import ceil_div
from tilestitch.ir.graph import Access, DimKind, Graph, Operator
from tilestitch.ir.region import Region, even_pieces, pieces
from tilestitch.ir.schedule import Kernel, Tiling


def box_for_region(op: Operator, write: Access, region: Region) -> Region:
    """The smallest box of iterations of `op` that writes all of `region`, as far as `op` writes it.

    An operator that writes only what lies outside (one part of a concat) gets the iteration nearest to it: no box is
    empty.

    An axis written by several dims (64h + d) is a mixed-radix number: one value of the outer dim lets the inner be
    cut, more than one need all of it.
    """
    start, stop = [0] * len(op.dims), [dim.extent for dim in op.dims]
    for axis, low, high in zip(write.axes, region.start, region.stop, strict=True):
        low, high = low - axis.offset, high - axis.offset
        for dim, stride in axis.terms:
            first, last = low // stride, (high - 1) // stride
            start[dim] = min(max(0, first), op.dims[dim].extent - 1)
            stop[dim] = max(start[dim], min(op.dims[dim].extent - 1, last)) + 1
            if first != last:
                break
            low, high = low - first * stride, high - first * stride
    for number, dim in enumerate(op.dims):
        if dim.kind is DimKind.WHOLE:
            start[number], stop[number] = 0, dim.extent
    return Region(tuple(start), tuple(stop))


def box_for_needs(op: Operator, needed: Mapping[str, Region]) -> Region | None:
    """The smallest box of iterations of `op` that writes what is needed of its results; None where nothing is."""
    box: Region | None = None
    for write in op.writes:
        if write.tensor in needed:
            found = box_for_region(op, write, needed[write.tensor])
            box = found if box is None else box.hull(found)
    return box


def operator_boxes(graph: Graph, operators: Sequence[Operator], sink_box: Region) -> dict[str, Region]:
    """What each operator of a kernel must compute so that its last one can compute `sink_box`."""
    needed: dict[str, Region] = {}
    boxes: dict[str, Region] = {}
    for op in reversed(operators):
        box = sink_box if op is operators[-1] else box_for_needs(op, needed)
        assert box is not None, f"nothing in the kernel reads what {op.name} writes"
        boxes[op.name] = box
        for read in op.reads:
            region = graph.read_region(read, box)
            needed[read.tensor] = region.hull(needed[read.tensor]) if read.tensor in needed else region
    return boxes


def core_pieces(box: Region, splits: Sequence[int], steps: Sequence[int]) -> list[Region]:
    """The part of the sink's iterations in `box` that each core computes, outermost split dim first."""
    axes = [
        [(start + a, start + b) for a, b in even_pieces(extent, count, step)]
        for start, extent, count, step in zip(box.start, box.extents, splits, steps, strict=True)
    ]
    return [Region(tuple(a for a, _ in piece), tuple(b for _, b in piece)) for piece in product(*axes)]


def largest_piece(extents: Sequence[int], steps: Sequence[int], splits: Sequence[int]) -> tuple[int, ...]:
    """Extents of the largest piece of a core."""
    return tuple(
        min(e, step * ceil_div(ceil_div(e, step), s)) for e, step, s in zip(extents, steps, splits, strict=True)
    )


def core_parts(graph: Graph, kernel: Kernel) -> list[tuple[int, Region]]:
    """The cores at work on a kernel, each with the iterations of the sink that it computes."""
    if kernel.strips:
        return list(kernel.strips)
    box = graph.by_name[kernel.sink].whole if kernel.box is None else kernel.box
    return list(zip(kernel.cores, core_pieces(box, kernel.tiling.splits, kernel.tiling.steps), strict=False))


def tiles_of(piece: Region, tiling: Tiling) -> list[Region]:
    """The tiles of one core's piece in execution order."""
    cuts = [pieces(a, b, extent) for a, b, extent in zip(piece.start, piece.stop, tiling.tile, strict=True)]
    found = []
    for choice in product(*(cuts[dim] for dim in tiling.order)):
        start, stop = list(piece.start), list(piece.stop)
        for dim, (a, b) in zip(tiling.order, choice, strict=True):
            start[dim], stop[dim] = a, b
        found.append(Region(tuple(start), tuple(stop)))
    if tiling.halves is None:
        return found
    dim, first, last = tiling.halves.dim, tiling.halves.first, tiling.halves.last
    step = tiling.steps[dim]
    middle = piece.start[dim] + step * (ceil_div(piece.extents[dim], step) // 2)
    behind = max(first, len(found) - last)
    return [*_in_halves(found[:first], dim, middle), *found[first:behind], *_in_halves(found[behind:], dim, middle)]


def _in_halves(tiles: Sequence[Region], dim: int, middle: int) -> list[Region]:
    """What lies before the middle along a dim, then what lies behind it, each in the order of the tiles."""
    before, behind = list[Region](), list[Region]()
    for tile in tiles:
        start, stop = list(tile.start), list(tile.stop)
        if tile.start[dim] < middle:
            before.append(Region(tile.start, (*stop[:dim], min(middle, stop[dim]), *stop[dim + 1 :])))
        if middle < tile.stop[dim]:
            behind.append(Region((*start[:dim], max(middle, start[dim]), *start[dim + 1 :]), tile.stop))
    return [*before, *behind]


def reduction_parts(anchor: Operator, box: Region, extents: Sequence[int]) -> list[Region]:
    """`box` cut along the reduction dims of `anchor` into parts of at most `extents`."""
    cuts = [
        pieces(a, b, extent) if dim.kind is DimKind.REDUCTION else ((a, b),)
        for dim, a, b, extent in zip(anchor.dims, box.start, box.stop, extents, strict=True)
    ]
    return [Region(tuple(a for a, _ in c), tuple(b for _, b in c)) for c in product(*cuts)]


@dataclass(frozen=True, slots=True)
class Cuts:
    """Where the dims of a kernel's last operator may be cut, so that every operator's tile writes an exact box."""

    steps: tuple[int, ...]  # per dim: cuts lie at its multiples
    inside: tuple[int, ...]  # per dim: a tile shorter than a step has an extent that divides this; 0: there is none


def cuts_of(graph: Graph, operators: Sequence[Operator]) -> Cuts:
    """Per dim of the sink: where a cut may lie.

    An axis written as 64h + d inside the kernel is a box for whole multiples of 64, and for a part of one such block.
    The inner dims of the sink's own writes are cut only inside one iteration of the outer ones (`is_one_box`). A tensor
    that several operators of the kernel write part by part (a concat) is never cut along the axis of its parts, so
    that every tile has a piece of each.
    """
    sink = operators[-1]
    extents = [dim.extent for dim in sink.dims]
    steps, inside = [1] * len(extents), [0] * len(extents)
    never = {d for d, dim in enumerate(sink.dims) if dim.kind is not DimKind.PARALLEL}  # cut inside a step
    for write in sink.writes:
        for axis in write.axes:
            for d, _ in axis.terms[1:]:
                steps[d] = inside[d] = extents[d]
    for op in operators[:-1]:
        for write in op.writes:
            shape, hull = graph.tensors[write.tensor].shape, write.hull(op.whole)
            for number, axis in enumerate(write.axes):
                in_parts = hull.stop[number] - hull.start[number] < shape[number]
                if not in_parts and len(axis.terms) < 2:
                    continue
                block = shape[number] if in_parts else axis.terms[0][1]
                for d, straight in _aligned_dims(graph, operators, write.tensor, number, block):
                    steps[d] = lcm(steps[d], block) if straight else extents[d]
                    inside[d] = gcd(inside[d], block)
                    if in_parts or not straight:
                        never.add(d)
    return Cuts(
        tuple(
            dim.extent if dim.kind is not DimKind.PARALLEL else min(dim.extent, step)
            for dim, step in zip(sink.dims, steps, strict=True)
        ),
        tuple(0 if d in never else block for d, block in enumerate(inside)),
    )


def is_one_box(sink: Operator, tile: Sequence[int]) -> bool:
    """Whether a tile of the sink writes a box: an inner dim of an axis is cut only where the outer ones are at 1."""
    for write in sink.writes:
        for axis in write.axes:
            for at, (dim, _) in enumerate(axis.terms):
                if tile[dim] < sink.dims[dim].extent and any(tile[outer] > 1 for outer, _ in axis.terms[:at]):
                    return False
    return True


def _aligned_dims(
    graph: Graph, operators: Sequence[Operator], tensor: str, axis: int, block: int
) -> Iterator[tuple[int, bool]]:
    """The dims of the sink whose cuts cut an inner tensor along one axis, and whether they do it index by index.

    Operators between that move the axis by one dim alone, element by element, hand the cuts on; where one does
    anything else all of the sink's dims are concerned.
    """
    sink = operators[-1]
    for reader in operators:
        for read in reader.reads:
            if read.tensor != tensor or not read.axes[axis].terms:
                continue
            (dim, stride), *others = read.axes[axis].terms
            straight = stride == 1 and not others and read.axes[axis].offset % block == 0
            if reader is sink:
                yield from ((moved, straight) for moved, _ in read.axes[axis].terms)
            elif straight and all(_axis_moved(write, dim) is not None for write in reader.writes):
                for write in reader.writes:
                    yield from _aligned_dims(graph, operators, write.tensor, _axis_moved(write, dim) or 0, block)
            else:
                yield from ((number, False) for number in range(len(sink.dims)))


def _axis_moved(access: Access, dim: int) -> int | None:
    """The axis that `dim` moves, one to one and no other dim; None where there is none."""
    for number, axis in enumerate(access.axes):
        if axis.terms == ((dim, 1),) and axis.offset == 0:
            return number
    return None


def kernels_of(
    graph: Graph, operators: Sequence[Operator], closed: frozenset[str] = frozenset()
) -> list[tuple[Operator, ...]]:
    """Cut a group, in running order, into kernels with one last operator each that every other one leads to.

    An operator that leads to the ends of several kernels, or whose result is read outside the group as well, belongs
    to none of them: a tile computes only what its own kernel's end needs, so such an operator runs in a kernel before.
    Whoever reads a tensor that several kernels write part by part reads it from memory: its writers are `closed`, each
    the end of its own kernel, or those that read another part are.
    """
    members = {op.name for op in operators}
    ends: dict[str, frozenset[str]] = {}  # operator -> last operators that it leads to
    for op in reversed(operators):
        readers = {reader.name for reader in graph.readers[op.name]}
        found = frozenset[str]().union(*(ends[name] for name in readers & members))
        leaves = bool(readers - members) or any(name in graph.outputs for name in op.outputs)
        ends[op.name] = found | {op.name} if leaves or not found else found
        if op.name in closed:
            ends[op.name] = frozenset((op.name,))
    kernels: dict[str, list[Operator]] = {}
    shared = []
    for op in operators:
        if len(ends[op.name]) > 1:
            shared.append(op)
        else:
            kernels.setdefault(next(iter(ends[op.name])), []).append(op)
    found = [*(kernels_of(graph, shared, closed) if shared else ()), *map(tuple, kernels.values())]
    partial = {name for kernel in found for name in _apart(graph, kernel)}
    return found if partial <= closed else kernels_of(graph, operators, closed | partial)


def _apart(graph: Graph, kernel: tuple[Operator, ...]) -> set[str]:
    """Operators at which a kernel is cut, as it reads and writes parts of a tensor that others write as well.

    Those that write what the kernel reads, and those that read what only others write.
    """
    inside = {op.name for op in kernel}
    found: set[str] = set()
    for op in kernel:
        for name in op.outputs:
            if all(writer.name in inside for writer in graph.producers[name]):
                continue
            here = {reader.name for reader in graph.readers[op.name]}
            read = {reader.name for reader in kernel if name in reader.inputs}
            found |= {op.name} if read & here else read
    return found

"""Binding of pieces of work to cores, and where their results wait: from the last piece to the first.

Source: Zhao et al., GraphTurbo, OSDI 2023, section 3.4, Algorithm 4.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tilestitch.hardware.accelerator import Level
from tilestitch.ir.following import axes_that_follow
from tilestitch.ir.graph import DimKind, Graph
from tilestitch.ir.region import Region

Factors = tuple[int, ...]  # over how many cores each axis of a result is divided


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of work in the order of execution: its result, and which axes of its producers' follow those of it."""

    extents: tuple[int, ...]
    free: tuple[bool, ...]  # axes that may be bound to cores: not those that are joined, summed or normalised along
    producers: Mapping[int, tuple[int | None, ...]]  # number -> per axis of its result, the axis here that it follows


@dataclass(frozen=True, slots=True)
class Binding:
    """The factors of a piece, and where its result waits for its readers."""

    factors: Factors
    scope: Level


@dataclass(frozen=True, slots=True)
class Work:
    """Operators that run together, what they make of their result, and what they read of other works' results."""

    operators: tuple[str, ...]
    result: str
    region: Region
    reads: Mapping[str, Region]


def bind(pieces: Sequence[Piece], cores: int) -> tuple[Binding, ...]:
    """The binding of every piece, for pieces in the order of execution.

    A piece without a binding takes the plain one and hands it on to its producers; where a producer is bound otherwise
    already, its result goes to GB, from where every core takes what it needs.

    INFERRED where the paper leaves a choice: a piece that was bound by its reader hands its factors on to its own
    producers as well, as otherwise every second level would get an unrelated plain binding. DDR is never assigned.
    """
    factors: list[Factors] = [()] * len(pieces)
    in_gb: set[int] = set()
    for number in reversed(range(len(pieces))):
        piece = pieces[number]
        if not factors[number] or number in in_gb:
            factors[number] = plain(piece, cores)
        else:
            kept, fresh = update(factors[number], piece), plain(piece, cores)
            factors[number] = fresh if prod(fresh) > prod(kept) else kept
        for producer in sorted(piece.producers):
            wanted = infer(factors[number], piece, pieces, producer)
            if not wanted:
                continue
            if not factors[producer]:
                factors[producer] = wanted
            elif factors[producer] != wanted:
                in_gb.add(producer)
    return tuple(Binding(one, Level.GB if at in in_gb else Level.LB) for at, one in enumerate(factors))


def plain(piece: Piece, cores: int) -> Factors:
    """As many cores as the outermost axes divide evenly, one axis after another: of 8 cores 8, 4, 2 or 1 for each."""
    found, left = [], cores
    for extent, free in zip(piece.extents, piece.free, strict=True):
        factor = next(n for n in range(left, 0, -1) if left % n == 0 and extent % n == 0) if free else 1
        found.append(factor)
        left //= factor
    return tuple(found)


def infer(factors: Factors, piece: Piece, pieces: Sequence[Piece], producer: int) -> Factors:
    """The factors of a producer's result that follow from those of its reader; empty where none do.

    That is where no axis that is bound follows, or one does that may not be bound or divided so.
    """
    other, axes = pieces[producer], piece.producers[producer]
    found = tuple(1 if axis is None else factors[axis] for axis in axes)
    if prod(found) == 1 < prod(factors):
        return ()
    bound = zip(found, other.extents, other.free, strict=True)
    return found if all(factor == 1 or (free and extent % factor == 0) for factor, extent, free in bound) else ()


def update(factors: Factors, piece: Piece) -> Factors:
    """Factors that a reader has handed on, without those of axes that may not be bound."""
    return tuple(factor if free else 1 for factor, free in zip(factors, piece.free, strict=True))


def pieces_of(graph: Graph, works: Sequence[Work]) -> list[Piece]:
    """What Algorithm 4 looks at of some works, in the order of execution. Axes are in the order of memory.

    A work reads a result of those before it that made what it needs, the latest that did. Axes along which several
    operators join their results are not free, nor are those along which an operator normalises.
    """
    makers: dict[str, list[int]] = {}  # the latest last
    found: list[Piece] = []
    for number, work in enumerate(works):
        operators = [graph.by_name[name] for name in work.operators]
        layout = graph.tensors[work.result].layout
        following = [axes_that_follow(graph, operators, {work.result: axis}) for axis in layout]
        producers: dict[int, tuple[int | None, ...]] = {}
        for tensor, needed in work.reads.items():
            followed = {axes[tensor]: place for place, axes in enumerate(following) if tensor in axes}
            for maker in makers.get(tensor, ()):
                if works[maker].region.overlaps(needed):
                    producers[maker] = tuple(followed.get(axis) for axis in graph.tensors[tensor].layout)
        extents = tuple(work.region.extents[axis] for axis in layout)
        found.append(Piece(extents, tuple(_free(graph, work, axis) for axis in layout), producers))
        makers.setdefault(work.result, []).append(number)
    return found


def _free(graph: Graph, work: Work, axis: int) -> bool:
    whole = (0, graph.tensors[work.result].shape[axis])
    for maker in graph.producers[work.result]:
        for write in maker.writes:
            if write.tensor != work.result:
                continue
            hull = write.hull(maker.whole)
            dims = [dim for dim, _ in write.axes[axis].terms]
            if (hull.start[axis], hull.stop[axis]) != whole:
                return False  # joined along this axis
            if any(maker.dims[dim].kind is not DimKind.PARALLEL for dim in dims):
                return False
    return True

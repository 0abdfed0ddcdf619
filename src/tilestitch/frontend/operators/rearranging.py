"""Elements picked along every axis by constant indices, as views where the indices are affine piece by piece."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from tilestitch.frontend.network import Node, Reading, Target
from tilestitch.frontend.operators.accesses import Nest, Shape, axis, straight
from tilestitch.ir.graph import Access, Axis, Operator

MOST_PIECES = 3  # of one axis of a view: a middle, and what is repeated or mirrored on both sides


@dataclass(frozen=True, slots=True)
class Piece:
    """`indices[start + inner * i + k] == first + outer_step * i + inner_step * k` for i < outer, k < inner."""

    start: int
    first: int
    outer: int
    outer_step: int
    inner: int
    inner_step: int

    @property
    def length(self) -> int:
        return self.outer * self.inner


def affine_pieces(indices: Sequence[int]) -> tuple[Piece, ...]:
    """Cut indices into as long pieces as can be found from the left.

    A piece is a run of equal steps (0 repeats an element, -1 mirrors), or such runs of equal lengths one after
    another: 0 0 1 1 2 2 is one piece, and so is 0 1 1 2 2 3.
    """
    found: list[Piece] = []
    at = 0
    while at < len(indices):
        longest = _run(indices, at, len(indices))
        candidates = [_blocks(indices, at, inner) for inner in range(1, longest + 1)] if longest < 8 else []
        candidates.append(Piece(at, indices[at], 1, 0, longest, _step(indices, at, longest)))
        best = max(candidates, key=lambda piece: piece.length)
        found.append(best)
        at += best.length
    return tuple(found)


def _step(indices: Sequence[int], at: int, length: int) -> int:
    return indices[at + 1] - indices[at] if length > 1 else 1


def _run(indices: Sequence[int], at: int, end: int) -> int:
    """How many indices from `at` on have one step."""
    length = min(2, end - at)
    while at + length < end and indices[at + length] - indices[at + length - 1] == indices[at + 1] - indices[at]:
        length += 1
    return length


def _blocks(indices: Sequence[int], at: int, inner: int) -> Piece:
    """The longest piece whose runs have length `inner`."""
    block = indices[at : at + inner]
    outer, outer_step = 1, 0
    while at + inner * (outer + 1) <= len(indices):
        start = at + inner * outer
        step = indices[start] - indices[start - inner]
        if outer > 1 and step != outer_step:
            break
        if any(indices[start + k] - block[k] != outer * step for k in range(inner)):
            break
        outer, outer_step = outer + 1, step
    return Piece(at, indices[at], outer, outer_step, inner, _step(indices, at, inner))


def afford_picks(node: Node, network: Reading, count: int) -> None:
    """Refuse so many indices along axes before they are listed: Python's numbers are large, and slow to compare."""
    network.afford(node, 32 * count)


def pick(node: Node, network: Reading, x: str, indices: Sequence[Sequence[int]], target: Target) -> str:
    """`result[i, j, ...] = x[indices[0][i], indices[1][j], ...]`.

    One view; but rows along an axis that falls into many pieces are fetched by their numbers.
    """
    afford_picks(node, network, sum(network.shape(x)) + sum(map(len, indices)))
    same = [list(range(size)) for size in network.shape(x)]
    pieces = [affine_pieces(list(along)) for along in indices]
    fetched = [at for at, cut in enumerate(pieces) if len(cut) > MOST_PIECES]
    viewed = [same[at] if at in fetched else list(along) for at, along in enumerate(indices)]
    if viewed != same or not fetched:
        x = _view(node, network, x, viewed, network.step(node, "picked") if fetched else target)
    for at in fetched:
        last = at == fetched[-1]
        x = fetch(node, network, x, at, indices[at], target if last else network.step(node, f"axis{at}"))
    return x


def fetch(node: Node, network: Reading, x: str, at: int, rows: Sequence[int], target: Target) -> str:
    """Rows of `x` along one axis by a constant list of indices."""
    shape = network.shape(x)
    result = (*shape[:at], len(rows), *shape[at + 1 :])
    names = network.new_constant(node, f"rows{at}", np.asarray(rows, np.int64))
    nest = Nest()
    dims = [nest.parallel(f"d{number}", extent) for number, extent in enumerate(result)]
    axes = tuple(axis() if number == at else axis((dim, 1)) for number, dim in enumerate(dims))
    reads = (Access(x, axes, indirect_axis=at), Access(names, (axis((dims[at], 1)),)))
    op = Operator(target.operator, "gather", nest.dims, reads, (straight(target.tensor, len(shape)),))
    return network.emit(node, op, result)


def _view(node: Node, network: Reading, x: str, indices: Sequence[Sequence[int]], target: Target) -> str:
    """A view with one pair of accesses for every combination of pieces."""
    pieces = [affine_pieces(along) for along in indices]
    nest = Nest()
    moves: list[list[tuple[Axis, Axis]]] = []  # per axis and piece: where it is read, and where it is written
    for number, cut in enumerate(pieces):
        moves.append([])
        for at, piece in enumerate(cut):
            name = f"d{number}" if len(cut) == 1 else f"d{number}_{at}"
            outer = nest.parallel(name if piece.inner == 1 else f"{name}o", piece.outer) if piece.outer > 1 else None
            inner = None
            if piece.inner > 1 or outer is None:
                inner = nest.parallel(name if outer is None else f"{name}i", piece.inner)
            read = axis((outer, piece.outer_step), (inner, piece.inner_step), offset=piece.first)
            moves[-1].append((read, axis((outer, piece.inner), (inner, 1), offset=piece.start)))
    shape: Shape = tuple(map(len, indices))
    network.define(node, target.tensor, shape, network.element_type(x))
    pairs = list(product(*moves))
    reads = tuple(Access(x, tuple(read for read, _ in pair)) for pair in pairs)
    writes = tuple(Access(target.tensor, tuple(write for _, write in pair)) for pair in pairs)
    op = Operator(target.operator, "rearrange", nest.dims, reads, writes)
    network.add(node, op)
    return target.tensor

"""Where values stand in the memories of a tree, and the tables by which they move."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd, prod
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from tilestitch.ir.loop_nest import LoopOperand
from tilestitch.sim.array.values import EXACT, largest_sum
from tilestitch.sim.tree.move import COLUMNS, LANES, SUMS
from tilestitch.sim.tree.run import TreeRun
from tilestitch.sim.tree.streams import Stream, Streams
from tilestitch.sim.tree.tiles import Digit, Digits, Indices, TileShape, addresses

MOST_ROWS = 2**20  # of products that are listed for a block of steps
_LEAST_FILLED = 0.4  # of what is multiplied at once, and so many rows of the short operand, where matrices are faster
_LEAST_REUSED = 4  # than rows


class Matrices(NamedTuple):
    """Products of matrices, where both operands are used again: rows of a long operand, times those of a short one."""

    is_swapped: bool  # whether the second operand is the long one
    long: np.ndarray  # of each row of the long operand: where it stands there, and in the result
    adjoins: (
        np.ndarray
    )  # of so many of these rows as are brought at a time: whether they stand next to one another there
    short: np.ndarray  # likewise of the other operand; nothing where products are not those of matrices
    sums: np.ndarray  # of each product of a sum: where it stands in the long operand, and in the other one
    packed: np.ndarray  # room for rows of the long operand that are multiplied at a time
    total: np.ndarray  # and for results


class Moves(NamedTuple):
    """The tables of values, of each stream and of the units; `block` is 0 where nothing is computed.

    Ragged tables have first places: those of stream s are from `pairs[s]` to `pairs[s + 1]`.
    """

    moves: np.ndarray  # whether a stream moves values; those at the units do not
    up: np.ndarray
    clears: np.ndarray  # whether sums begin in the memory outside
    outer: np.ndarray  # where the memory outside stands, how large all copies of it are, and how many tiles it has
    outer_size: np.ndarray
    outer_buffers: np.ndarray
    inner: np.ndarray
    inner_size: np.ndarray
    inner_buffers: np.ndarray
    stretch: np.ndarray  # elements that move together, at even distances in either memory
    stretch_inner: np.ndarray  # how far these are apart in the memory inside, and outside
    stretch_outer: np.ndarray
    pairs: np.ndarray
    pair_inner: np.ndarray  # of each element of a tile, or first of a stretch: where it stands inside, and outside
    pair_outer: np.ndarray
    jumps: np.ndarray
    jump: np.ndarray  # of each tile of the one outside: where it begins in that
    copies: np.ndarray
    copy_inner: np.ndarray  # of each memory inside, or first of a stretch: where it stands, and its part outside
    copy_outer: np.ndarray
    leads: np.ndarray  # of each stream how many bring the sum so far; behind them are those that add to theirs
    block: int  # steps of which products are computed together
    held: np.ndarray  # of each operand: steps for which the innermost memory keeps a tile
    kept: np.ndarray
    kept_size: np.ndarray
    kept_buffers: np.ndarray
    begins: bool  # whether sums begin in the innermost memory
    blocks: np.ndarray
    block_first: np.ndarray
    rows: np.ndarray  # of each row of products, or of each product of matrices: where its operands stand in their tiles
    run: int  # products of a row
    run_strides: tuple[int, int, int]
    matrices: Matrices


@dataclass(frozen=True, slots=True)
class Store:
    """A memory of one operand, with all its copies and buffers."""

    first: int  # address
    shape: TileShape
    copies: tuple[Digit, ...]  # what is spread outside it
    buffers: int
    held: int  # iterations for which it holds a tile

    @property
    def size(self) -> int:
        """Of all copies, of one buffer."""
        return self.shape.size * prod(one.factor for one in self.copies)

    @property
    def strides(self) -> dict[Digit, int]:
        """By how much an address grows with each digit, of the tile or of the copies.

        All copies of an element stand next to one another: so they move together, and units multiply together.
        """
        found, done = {}, 1
        for one in self.copies:
            found[one] = done
            done *= one.factor
        return found | {one: stride * done for one, stride in self.shape.strides.items()}


@dataclass(frozen=True, slots=True)
class Values:
    """The tables, and the array in which all memories stand, with what is read in the outermost ones."""

    moves: Moves
    memory: np.ndarray
    result: slice
    result_shape: tuple[int, ...]
    dtype: np.dtype  # of what was given

    def written(self, shape: Sequence[int]) -> np.ndarray:
        """The result, as it stands in its outermost memory."""
        found = self.memory[self.result].reshape(self.result_shape).astype(self.dtype, copy=False)
        return found[tuple(slice(0, size) for size in shape)]


def values_of(streams: Streams, operands: Sequence[np.ndarray]) -> Values:
    """All tables, and memories in which nothing but the operands stand.

    Integers stand there as float32 where that is exact, because it is multiplied faster.
    """
    run, digits = streams.run, streams.digits
    stores, size = stores_of(run, digits)
    dtype = operands[0].dtype
    if np.issubdtype(dtype, np.integer) and largest_sum(run.nest, operands) <= EXACT[np.float32]:
        dtype = np.dtype(np.float32)
    memory = room_for(size, dtype)
    for array, levels in zip(operands, stores, strict=False):
        fill(memory, levels[-1], array)
    last = stores[run.written][-1]
    return Values(
        moves_of(streams, stores, memory.dtype),
        memory,
        slice(last.first, last.first + last.size),
        tuple(last.shape.sizes or ()),
        operands[0].dtype,
    )


def room_for(size: int, dtype: np.dtype) -> np.ndarray:
    """An array of so many addresses; behind these are some that are read together with the last ones, and not used."""
    return np.zeros(size + LANES, dtype)


def fill(memory: np.ndarray, store: Store, array: np.ndarray) -> None:
    """Put an array into the memory where all of it is kept."""
    whole = memory[store.first : store.first + store.size].reshape(store.shape.sizes or ())
    whole[tuple(slice(0, one) for one in array.shape)] = array


def nothing(streams: Streams) -> tuple[Moves, np.ndarray]:
    """Tables that move nothing."""
    count, none, three = len(streams.every), np.zeros(1, np.int64), np.ones(3, np.int64)
    table, ends, no = np.zeros(count, np.int64), np.zeros(count + 1, np.int64), np.zeros(count, np.bool_)
    moves = Moves(
        *(no, no, no),
        *(table, table, table, table, table, table),
        *(table, table, table),
        *(ends, none, none, ends, none, ends, none, none, table),
        *(0, three, three, three, three, False, none, three, np.zeros((1, 3), np.int64), 0, (0, 0, 0)),
        _no_matrices(np.dtype(np.int32)),
    )
    return moves, np.zeros(1, np.int32)


def stores_of(
    run: TreeRun, digits: Digits, first: int = 0, kept: Mapping[int, tuple[int, tuple[int, ...]]] = MappingProxyType({})
) -> tuple[list[list[Store]], int]:
    """The memories of every operand, from the innermost, in the addresses from the first on; and which comes then.

    `kept` says where operands are that are kept in a memory for others, and their extents there.
    """
    found: list[list[Store]] = []
    copies = _copies(run, digits)
    for number, array in enumerate(run.operands):
        levels: list[Store] = []
        count = len(run.chains[number]) if run.moves(number) else 1
        for level in range(count):
            is_outermost = level == count - 1
            inside = digits.inside(number, len(run.chains[number]) - 1 if is_outermost else level)
            sizes, at = None, first
            if is_outermost and number in kept:
                at, sizes = kept[number]
            elif is_outermost:
                needed = array.extents(run.spans)
                sizes = tuple(max(one, other) for one, other in zip(array.shape, needed, strict=True))
            near = () if is_outermost or level == 0 else _near(array, levels[-1].copies, inside)
            store = Store(
                at,
                TileShape(inside, array.axes, sizes, near),
                () if is_outermost else tuple(one for one in copies if one not in inside),
                1 if is_outermost else run.buffers(number, level + 1),
                run.steps_inside(run.loops_of(number) if is_outermost else run.places[number][level + 1]),
            )
            levels.append(store)
            if not (is_outermost and number in kept):
                first += store.size * store.buffers
        found.append(levels)
    return found, first


def _copies(run: TreeRun, digits: Digits) -> list[Digit]:
    """What is spread, in the order in which copies stand: those of results first, and of these what more operands have.

    So rows go on over the copies of one operand as they do over those of the others.
    """
    moved = run.operands[run.written].indexed_by
    inside = [digits.inside(number, 0) for number in range(len(run.operands))]

    def place(one: Digit) -> tuple[bool, int, int]:
        return one.loop not in moved, sum(one in tile for tile in inside), one.loop

    return sorted((one for one in digits.every if one.place is None), key=place)


def _near(array: LoopOperand, copies: Sequence[Digit], inside: Sequence[Digit]) -> tuple[Digit, ...]:
    """What a tile spreads over the copies of the memory inside, so that what moves together stands together."""
    alone = {loop for terms in array.axes if len(terms) == 1 for loop, _ in terms}
    windows = {one.loop for one in inside if one.reach}
    return tuple(one for one in copies if one in inside and one.loop in alone - windows)


def moves_of(streams: Streams, stores: list[list[Store]], dtype: np.dtype) -> Moves:
    run = streams.run
    per_stream = [_stream_tables(streams, one, stores[one.operand]) for one in streams.every]
    block, held, together, blocks = _blocks(streams, stores)
    strides = [levels[0].strides for levels in stores]
    apart, matrices = _matrices(together, strides, dtype)
    rows, length, along = _rows(apart, strides)
    innermost = [levels[0] for levels in stores]
    last = run.written
    is_filled = len(stores[last]) > 1 and streams.find(last, 1, is_up=False) >= 0

    def column(name: str) -> np.ndarray:
        return np.array([getattr(one, name) for one in per_stream], np.int64)

    def flat(name: str) -> np.ndarray:
        return np.concatenate([getattr(one, name) for one in per_stream])

    def ends(name: str) -> np.ndarray:
        return np.cumsum([0, *(len(getattr(one, name)) for one in per_stream)])

    return Moves(
        moves=column("moves").astype(np.bool_),
        up=np.array([one.is_up for one in streams.every], np.bool_),
        clears=column("clears").astype(np.bool_),
        outer=column("outer"),
        outer_size=column("outer_size"),
        outer_buffers=column("outer_buffers"),
        inner=column("inner"),
        inner_size=column("inner_size"),
        inner_buffers=column("inner_buffers"),
        stretch=np.array([one.stretch.count for one in per_stream], np.int64),
        stretch_inner=np.array([one.stretch.inner for one in per_stream], np.int64),
        stretch_outer=np.array([one.stretch.outer for one in per_stream], np.int64),
        pairs=ends("pair_inner"),
        pair_inner=flat("pair_inner"),
        pair_outer=flat("pair_outer"),
        jumps=ends("jump"),
        jump=flat("jump"),
        copies=ends("copy_inner"),
        copy_inner=flat("copy_inner"),
        copy_outer=flat("copy_outer"),
        leads=column("leads"),
        block=block,
        held=held,
        kept=np.array([one.first for one in innermost], np.int64),
        kept_size=np.array([one.size for one in innermost], np.int64),
        kept_buffers=np.array([one.buffers for one in innermost], np.int64),
        begins=len(stores[last]) > 1 and not is_filled,
        blocks=np.concatenate(blocks),
        block_first=np.cumsum([0, *map(len, blocks)])[:3],
        rows=rows,
        run=length,
        run_strides=along,
        matrices=matrices,
    )


@dataclass(frozen=True, slots=True)
class _Stretch:
    """So many places that follow one another at even distances, in the memory inside and in the one outside."""

    count: int = 1
    inner: int = 0
    outer: int = 0

    @property
    def speed(self) -> float:
        """How well they move: many of them, next to one another."""
        return min(self.count, 256) * (1.0 if self.inner == self.outer == 1 else 0.25)


@dataclass(frozen=True, slots=True)
class _StreamTables:
    """The tables of one stream, named as in `Moves`."""

    pair_inner: Indices
    pair_outer: Indices
    jump: Indices
    copy_inner: Indices
    copy_outer: Indices
    leads: int = 1
    stretch: _Stretch = _Stretch()
    moves: bool = False
    clears: bool = False
    outer: int = 0
    outer_size: int = 0
    outer_buffers: int = 1
    inner: int = 0
    inner_size: int = 0
    inner_buffers: int = 1


def _stream_tables(streams: Streams, stream: Stream, stores: list[Store]) -> _StreamTables:
    if stream.crossing == 0:
        zero = np.zeros(1, np.int64)
        return _StreamTables(zero, zero, zero, zero, zero)
    small, large = stores[stream.crossing - 1], stores[stream.crossing]
    inside = small.shape.digits
    temporal = [one for one in large.shape.digits if one.place is not None and one not in inside]
    moved = streams.run.operands[stream.operand].indexed_by
    adding = [one for one in small.copies if one in large.shape.digits and one.loop not in moved]
    is_write = stream.operand == streams.run.written
    follows = addresses(small.copies, dict.fromkeys(adding, 1 if is_write else 0)) > 0
    order = np.argsort(follows, kind="stable")
    copies = addresses(small.copies, small.strides)[order], addresses(small.copies, large.strides)[order]
    leads = len(follows) - int(follows.sum())
    parts = [_along(terms, small, large) for terms in streams.run.operands[stream.operand].axes]
    stretches = [*(_stretch(*one) for one in parts), _stretch(*copies, leads)]
    fastest = max(range(len(stretches)), key=lambda at: stretches[at].speed)
    each = stretches[fastest].count
    if fastest == len(parts):
        copies, leads = (copies[0][::each], copies[1][::each]), leads // each
    else:
        parts[fastest] = parts[fastest][0][::each], parts[fastest][1][::each]
    is_filled = streams.find(stream.operand, stream.crossing + 1, is_up=False) >= 0
    return _StreamTables(
        _sums([one for one, _ in parts]),
        _sums([one for _, one in parts]),
        addresses(temporal, large.strides),
        *copies,
        leads,
        stretches[fastest],
        True,
        is_write and not stream.is_up and not is_filled and stream.crossing < len(stores) - 1,
        large.first,
        large.size,
        large.buffers,
        small.first,
        small.size,
        small.buffers,
    )


def _along(terms: Sequence[tuple[int, int]], small: Store, large: Store) -> tuple[Indices, Indices]:
    """Where the indices of a tile along an axis stand in the memory inside and in the one outside, each index once."""
    loops = {loop for loop, _ in terms}
    digits = [one for one in small.shape.digits if one.loop in loops]
    if not digits:
        return np.zeros(1, np.int64), np.zeros(1, np.int64)
    here, kept = np.unique(addresses(digits, small.strides), return_index=True)
    return here, addresses(digits, large.strides)[kept]


def _stretch(inner: Indices, outer: Indices, leads: int = 0) -> _Stretch:
    """The longest stretches of one length that places come in, of which each leads or does not."""
    if len(inner) < 2:
        return _Stretch()
    inside, outside = np.diff(inner), np.diff(outer)
    ends = np.flatnonzero((inside != inside[0]) | (outside != outside[0])) + 1
    count = gcd(len(inner), leads, *ends.tolist())
    return _Stretch(count, int(inside[0]), int(outside[0])) if count > 1 else _Stretch()


def _sums(parts: Sequence[Indices]) -> Indices:
    """All sums of one of each; the last moves fastest."""
    found = np.zeros(1, np.int64)
    for one in parts:
        found = (found[:, None] + one).ravel()
    return found


def _blocks(streams: Streams, stores: list[list[Store]]) -> tuple[int, np.ndarray, tuple[Digit, ...], list[Indices]]:
    """Steps of a block, steps of the tiles, the digits of a block's products, and where each block begins in tiles."""
    run, every = streams.run, streams.digits.every
    innermost = [levels[0] for levels in stores]
    held = np.array([one.held for one in innermost], np.int64)
    temporal = [one for one in every if one.place is not None]
    inside = [one for one in temporal if run.steps_inside((one.place or 0) + 1) <= held.min()]
    spread = [one for one in every if one.place is None]
    units = prod(one.factor for one in spread)
    while inside and units * prod(one.factor for one in inside) > MOST_ROWS:
        inside.pop()
    blocks = [
        addresses([one for one in temporal if one not in inside and one in store.shape.digits], store.strides)
        for store in innermost
    ]
    return prod(one.factor for one in inside), held, (*spread, *inside), blocks


def _rows(
    together: Sequence[Digit], strides: Sequence[dict[Digit, int]]
) -> tuple[np.ndarray, int, tuple[int, int, int]]:
    """Where rows of products begin, how many there are in each, and how far they are apart in each operand.

    A row goes on along the next digit where that goes on in all operands as the row does.
    """
    along, steps = _best_row(together, strides)
    others = [one for one in together if one not in along]
    others.sort(key=lambda one: strides[2].get(one, 0) != 0)  # rows of the same results one after another
    rows = np.stack([addresses(others, one) for one in strides], axis=1)
    return rows, prod(one.factor for one in along), steps


def _best_row(
    together: Sequence[Digit], strides: Sequence[dict[Digit, int]]
) -> tuple[list[Digit], tuple[int, int, int]]:
    """The digits along which products go best, one after another."""
    found = [_row_along(one, together, strides) for one in together] or [([], (0, 0, 0))]
    return max(found, key=lambda one: _speed(*one))


def _row_along(
    first: Digit, together: Sequence[Digit], strides: Sequence[dict[Digit, int]]
) -> tuple[list[Digit], tuple[int, int, int]]:
    """The digits of a row that begins along one of them, and its steps in each operand."""
    one, other, third = (each.get(first, 0) for each in strides)
    steps = (one, other, third)
    found: list[Digit] = []
    following: Digit | None = first
    while following is not None:
        found.append(following)
        done = prod(digit.factor for digit in found)
        goes_on = (
            digit
            for digit in together
            if digit not in found
            and all(each.get(digit, 0) == done * step for each, step in zip(strides, steps, strict=True))
        )
        following = next(goes_on, None)
    return found, steps


def _no_matrices(dtype: np.dtype) -> Matrices:
    pairs, room = np.zeros((0, 2), np.int64), np.zeros(1, dtype)
    return Matrices(False, pairs, _adjoins(pairs), pairs, pairs, packed=room, total=room)


def _matrices(
    together: Sequence[Digit], strides: Sequence[dict[Digit, int]], dtype: np.dtype
) -> tuple[tuple[Digit, ...], Matrices]:
    """A block as products of matrices, and the digits that tell these apart; all digits where there is little to reuse.

    Every digit moves the long operand and the result, the short one and the result, what is added up, or all three.
    """
    parts: dict[tuple[bool, bool], list[Digit]] = {(one, other): [] for one in (False, True) for other in (False, True)}
    apart: list[Digit] = []
    for one in together:
        left, right, result = (step.get(one, 0) != 0 for step in strides)
        if left and right and result:
            apart.append(one)
        else:
            parts[right and result, result].append(one)
    left, right, sums = parts[False, True], parts[True, True], parts[False, False]
    rows, columns = (prod(one.factor for one in digits) for digits in (left, right))
    is_swapped = _filled(columns) * _together(right, strides[2]) > _filled(rows) * _together(left, strides[2])
    long, short = (right, left) if is_swapped else (left, right)
    is_reused = min(rows, columns) >= _LEAST_REUSED and max(_filled(rows), _filled(columns)) >= _LEAST_FILLED
    is_apart = rows * columns >= LANES and not _is_alike(_best_row(together, strides)[1])
    if not is_reused and not is_apart:
        return tuple(together), _no_matrices(dtype)
    own, other = (strides[1], strides[0]) if is_swapped else (strides[0], strides[1])
    products = _up_to(SUMS, prod(one.factor for one in sums))
    in_order = sorted(long, key=lambda one: strides[2].get(one, 0))
    rows_of_long = np.stack([addresses(in_order, one) for one in (own, strides[2])], axis=1)
    return tuple(apart), Matrices(
        is_swapped,
        rows_of_long,
        _adjoins(rows_of_long),
        np.stack([addresses(short, one) for one in (other, strides[2])], axis=1),
        np.stack([addresses(sums, one) for one in (own, other)], axis=1),
        np.zeros(products * LANES, dtype),
        np.zeros(COLUMNS * LANES, dtype),
    )


def _adjoins(rows: np.ndarray) -> np.ndarray:
    """Of each `LANES` rows whether they follow one another, on either side."""
    groups = [np.diff(rows[begin : begin + LANES], axis=0) == 1 for begin in range(0, len(rows), LANES)]
    return np.array([one.all(axis=0) for one in groups], np.bool_).reshape(len(groups), 2)


def _together(digits: Sequence[Digit], strides: Mapping[Digit, int]) -> int:
    """How much faster rows of results are brought and put back where they stand next to one another."""
    found = np.sort(addresses(digits, strides))
    return 2 if found[-1] - found[0] == len(found) - 1 else 1


def _up_to(width: int, count: int) -> int:
    """So many, and as many more as are missing to a whole number of widths."""
    return -(-count // width) * width


def _filled(count: int) -> float:
    """The part of all lanes that have work."""
    return count / _up_to(LANES, count)


def _speed(digits: Sequence[Digit], steps: Sequence[int]) -> float:
    """How well products along a row go: many of them, next to one another, each of a result of its own."""
    return min(prod(one.factor for one in digits), 256) * (1.0 if _is_alike(steps) else 0.1)


def _is_alike(steps: Sequence[int]) -> bool:
    """Whether products of a row are of neighbours, or of one element and neighbours, each of its own result."""
    return max(steps) <= 1 and steps[2] == 1

"""Windows over a tile that stays on chip: convolutions whose first operand another product of the kernel makes.

A program makes a tile of results. What its windows reach of the product before is the tile with its halo: it is
computed as one block, and the elements under a window are picked from it, tap by tap (`tl.gather`, which goes through
shared memory). That product may have such a window itself. Neighbouring tiles compute the halo again, so that no two
programs wait for each other (DLFusion's way; the first result goes through shared memory, as in the case study of
GraphTurbo). Channels of a depthwise convolution are those of the block, so that nothing is computed again for them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from tilestitch.backends.triton import integers
from tilestitch.backends.triton.blocks import axes_of, by_stride, counted, lanes, numbered, unflattened, with_dims
from tilestitch.backends.triton.code import Value
from tilestitch.backends.triton.functions import bracketed
from tilestitch.backends.triton.index import Guard, Index, Var, along, of_var
from tilestitch.backends.triton.products import LEAST, Sums, cut, depth_of, fetched, multiplied
from tilestitch.backends.triton.values import Emitter, Frame, Unfused, pieces, span
from tilestitch.base.units import ceil_div
from tilestitch.ir.graph import Access, Operator
from tilestitch.ir.region import Region
from tilestitch.ops.contraction import KINDS, roles

MOST_OF_TILE = 256  # results of a product that a tile with halo takes, for one channel


@dataclass(frozen=True, slots=True)
class Window:
    """How a window moves along one axis: which dims, how far apart, and where it begins."""

    axis: int  # of the tensor
    place: int  # the dim of the result
    tap: int  # the dim of the window
    stride: int
    apart: int
    offset: int


@dataclass(frozen=True, slots=True)
class Reach:
    """What the windows of a tile reach along one axis: from a corner on, and where the window of each row begins."""

    corner: Index
    begin: Index
    extent: int
    tiles: int


def window_of(op: Operator, access: Access) -> tuple[Window, ...]:
    """The windows of a convolution, along each axis that it slides along; none where all windows are one element.

    What moves both operands, such as the heads of attention in one axis with their features, slides along nothing.
    """
    found, reduction, batch = [], set(roles(op).k), set(roles(op).batch)
    for number, axis in enumerate(access.axes):
        taps = [(dim, step) for dim, step in axis.terms if dim in reduction]
        places = [(dim, step) for dim, step in axis.terms if dim not in reduction]
        if len(taps) == 1 and len(places) == 1 and places[0][0] not in batch:
            found.append(Window(number, places[0][0], taps[0][0], places[0][1], taps[0][1], axis.offset))
    return tuple(found) if any(op.dims[one.tap].extent > 1 for one in found) else ()


def slides(e: Emitter, op: Operator) -> bool:
    """Whether an operator's windows slide over what a product of the same kernel makes."""
    if op.kind not in KINDS or not any(one.kind in KINDS for one in e.chain(op.reads[0].tensor)):
        return False
    return bool(window_of(op, op.reads[0]))


def tile(
    e: Emitter, sink: Operator, box: Region, places: Sequence[int], columns: Sequence[int], sizes: tuple[int, int]
) -> tuple[list[Index], Frame, int, int]:
    """The last operator's dims in one program, which makes a tile of `places` for some `columns`.

    `sizes` are results of a tile along each place at most, and columns. Also returned: what the extents of the block
    are called, programs of the grid, and blocks along the columns.
    """
    sides = [ceil_div(box.extents[dim], pieces(box.extents[dim], sizes[0])) for dim in places]  # as even as can be
    rows = e.size("BLOCK_M", max(span(prod(sides)), LEAST))
    cols = e.size("BLOCK_N", sizes[1])
    program = of_var(Var(e.code.let("program", "tl.program_id(0)"), 0, 2**31 - 1))
    count = counted(box, columns)
    parts = step = pieces(count, e.sizes[cols])
    block = e.part("columns_block", program, 1, parts)
    start = e.code.let("first_columns", f"{block} * {cols}") if parts > 1 else ""
    flat = lanes(e, "columns", cols, count, start=start, axis=1)
    e.guards += flat.guards
    found = unflattened(e, flat, sink, by_stride(e, sink.writes[0], columns), box) if columns else {}
    tiles = [pieces(box.extents[dim], side) for dim, side in zip(places, sides, strict=True)]
    inside = of_var(Var(e.code.let("rows", numbered(rows, 0), 0), 0, e.sizes[rows] - 1, frozenset({0})))
    inner = _split(e, inside, sides, tiles)
    for number in reversed(range(len(places))):
        corner = e.part("tile", program, step, tiles[number]) * sides[number] + box.start[places[number]]
        step *= tiles[number]
        found[places[number]] = _row(e, sink, places[number], box, (corner, inner[number]), sides[number])
    if e.sizes[rows] > prod(sides):
        e.guards.append(Guard(e.code.let("in_tile", f"{numbered(rows, 0)} < {prod(sides)}", 0), 0))
    for dim in reversed(range(len(sink.dims))):
        if dim not in found and sink.dims[dim].kind != "reduction":
            found[dim] = e.part(sink.dims[dim].name, program, step, box.extents[dim]) + box.start[dim]
            step *= box.extents[dim]
    return [found.get(number, Index()) for number in range(len(sink.dims))], (rows, cols), step, parts


def _row(e: Emitter, sink: Operator, dim: int, box: Region, parts: tuple[Index, Index], side: int) -> Index:
    """The index of the last operator's dim in each row, guarded where a tile goes beyond the end."""
    stop, at = box.stop[dim], parts[0] + parts[1]
    name = e.code.let(sink.dims[dim].name, str(at), 0)
    e.apart[name] = parts
    guards: tuple[Guard, ...] = ()
    if box.extents[dim] % side:
        guards = (Guard(e.code.let(f"{name}_ok", f"{name} < {stop}", 0), 0),)
    e.guards += guards
    return of_var(Var(name, box.start[dim], stop - 1, frozenset({0}), guards))


def _split(e: Emitter, flat: Index, extents: Sequence[int], tiles: Sequence[int]) -> list[Index]:
    """Where a row of a tile lies along each of its axes; beyond the last row they begin anew."""
    found: list[Index] = []
    step = 1
    for extent, count in zip(reversed(extents), reversed(tiles), strict=True):
        found.insert(0, e.part("at", flat, step, extent))
        e.tiles |= {var.name: count for var, _ in found[0].terms}
        step *= extent
    return found


def slid(e: Emitter, op: Operator, dims: Sequence[Index], frame: Frame) -> Value:
    """A block of a convolution that slides over a block of the same kernel, with its bias."""
    found, windows = roles(op), window_of(op, op.reads[0])
    if len(frame) != 2 or axes_of(dims, found.m) - {0}:
        raise Unfused(f"{op.name} slides over what the kernel computes, and its blocks are no tiles")
    reach = [_reach(e, op, dims[one.place], one) for one in windows]
    extents = [one.extent for one in reach]
    if prod(extents) > MOST_OF_TILE:
        raise Unfused(f"{op.name} would take tiles of {prod(extents):,} results of the product before it")
    shape = e.graph.tensors[op.reads[0].tensor].shape
    made = [one.tiles * one.extent for one in reach]
    spread = prod(made) / prod(min(shape[one.axis], each) for one, each in zip(windows, made, strict=True))
    size = e.size("BLOCK_HALO", max(span(prod(extents)), LEAST))
    (around,) = (var for var, _ in lanes(e, "around", size, prod(extents)).terms)
    every = replace(around, high=e.sizes[size] - 1)  # lanes beyond the tile load nothing, and are places in it
    offsets = _split(e, of_var(every), extents, [one.tiles for one in reach])
    taken = {one.tap for one in windows}
    channels = [dim for dim in found.k if dim not in taken]
    move = _Move(e, op, windows, reach, offsets, size, spread)
    if counted(op.whole, (*channels, *found.n)) == 1 and axes_of(dims, found.batch) <= {1}:
        result = move.of_channels(dims, frame)
    elif axes_of(dims, found.batch) or axes_of(dims, found.n) - {1}:
        raise Unfused(f"{op.name} slides over groups of channels that the kernel computes")
    else:
        result = move.of_all(dims, frame, channels)
    return integers.finished(e, op, dims, frame, result)


def _reach(e: Emitter, op: Operator, place: Index, window: Window) -> Reach:
    """What a window reaches over all rows of a tile, along one axis."""
    if window.stride < 1 or window.apart < 1:
        raise Unfused(f"{op.name} slides backwards")
    corner, inner = Index(offset=place.offset), Index()
    for var, factor in place.terms:
        if var.name in e.apart:
            corner, inner = corner + e.apart[var.name][0] * factor, inner + e.apart[var.name][1] * factor
        elif var.name in e.tiles:
            inner = inner + of_var(var) * factor
        elif var.axes:
            raise Unfused(f"{op.name} slides over what the kernel computes, and its blocks are no tiles")
        else:
            corner = corner + of_var(var) * factor
    low, high = inner.low, inner.high
    extent = (high - low) * window.stride + (op.dims[window.tap].extent - 1) * window.apart + 1
    tiles = max((e.tiles[var.name] for var, _ in inner.terms), default=1)
    corner = (corner + low) * window.stride + window.offset
    return Reach(corner, (inner + -low) * window.stride, extent, tiles)


@dataclass(frozen=True, slots=True)
class _Move:
    """Windows over one block: the rows of the tile with its halo, `offsets` from the corners."""

    e: Emitter
    op: Operator
    windows: tuple[Window, ...]
    reach: Sequence[Reach]
    offsets: Sequence[Index]
    size: str  # what the rows of the block are called
    spread: float  # how often its elements are computed, over all tiles

    def of_channels(self, dims: Sequence[Index], frame: Frame) -> Value:
        """Of a depthwise convolution: each column of the block by itself."""
        e, op, code = self.e, self.op, self.e.code
        kind = "float" if e.graph.tensors[op.reads[0].tensor].dtype.is_float else "int"
        with e.asked(op, spread=self.spread):
            middle = self._middle(dims, (self.size, frame[1]))
        e.sums += e.sizes[frame[0]] * e.sizes[frame[1]]
        acc = code.let("acc", f"tl.zeros(({', '.join(frame)}), dtype=tl.{kind}32)", code.depth)
        zeros = integers.zeros(op)
        with code.loop(f"for {(turn := code.name('tap'))} in tl.static_range({self._taps()}):"):
            place, found = self._place(turn)
            a = code.let("a", f"{_gathered(middle, place, frame)}.to(tl.{kind}32)")
            b = e.operand(op.reads[1], with_dims(dims, found), frame).name
            first, second = (
                f"({each} - {bracketed(str(zero))})" if zero else each for each, zero in zip((a, b), zeros, strict=True)
            )
            code.line(f"{acc} += {first} * {second}")
        return Value(acc, kind, frozenset({0, 1}), code.depth)

    def of_all(self, dims: Sequence[Index], frame: Frame, channels: Sequence[int]) -> Value:
        """Of any other: some channels of the block before at a time, and what the window makes of them."""
        e, op, code = self.e, self.op, self.e.code
        count = counted(op.whole, channels)
        depth = e.size("BLOCK_C", depth_of(e, op, count))
        sums = Sums(e, op, frame)

        def turn(start: str) -> None:
            order, at = by_stride(e, op.reads[0], channels), code.depth if start else 0
            across = lanes(e, "c", depth, count, start=start, axis=1, depth=at)
            middle = self._middle(with_dims(dims, unflattened(e, across, op, order, op.whole)), (self.size, depth))
            middle = multiplied(e, op, op.reads[0], middle)
            if across.guards:
                middle = cut(e, middle, across.guards[0].text)
            down = lanes(e, "c_down", depth, count, start=start, axis=0, depth=at)
            rows = with_dims(dims, unflattened(e, down, op, order, op.whole))
            with code.loop(f"for {(tap := code.name('tap'))} in tl.static_range({self._taps()}):"):
                place, found = self._place(tap)
                a = code.let("a", _gathered(middle, place, (frame[0], depth)))
                b = fetched(e, op.reads[1], with_dims(rows, found), (depth, frame[1]))
                b = multiplied(e, op, op.reads[1], b)
                if b.kind == "int" and down.guards:
                    b = cut(e, b, down.guards[0].text)
                sums.add(Value(a, middle.kind), b)

        with e.asked(op, turns=pieces(count, e.sizes[depth]), spread=self.spread):
            if e.sizes[depth] >= count:
                turn("")
            else:
                with code.loop(f"for {(start := code.name('c_start'))} in range(0, {count}, {depth}):"):
                    turn(start)
        return sums.complete(counted(op.whole, roles(op).k))

    def _middle(self, dims: Sequence[Index], frame: Frame) -> Value:
        """The block over which the windows slide, as it would be stored."""
        access = self.op.reads[0]
        index = [along(axis, dims) for axis in access.axes]
        for window, reach, offset in zip(self.windows, self.reach, self.offsets, strict=True):
            index[window.axis] = offset + reach.corner
        slid_along = {one.axis for one in self.windows}
        if any(0 in at.axes for axis, at in enumerate(index) if axis not in slid_along):
            raise Unfused(f"{self.op.name} slides over what the kernel computes, and its blocks are no tiles")
        return self.e.full(self.e.value(access.tensor, index, frame, pad=access.pad_value, raw=True), frame)

    def _taps(self) -> int:
        return prod(self.op.dims[one.tap].extent for one in self.windows)

    def _place(self, turn: str) -> tuple[str, dict[int, Index]]:
        """The row of the block under one element of each row's window, and that element's iterations."""
        e, extents = self.e, [self.op.dims[one.tap].extent for one in self.windows]
        flat: Index = of_var(Var(turn, 0, prod(extents) - 1, depth=e.code.depth))
        found: dict[int, Index] = {}
        place, step, passed = Index(), 1, 1
        for window, reach, extent in reversed(list(zip(self.windows, self.reach, extents, strict=True))):
            found[window.tap] = e.part("tap_at", flat, passed, extent)
            place = place + (reach.begin + found[window.tap] * window.apart) * step
            step, passed = step * reach.extent, passed * extent
        return e.code.let("place", str(place)), found


def _gathered(middle: Value, place: str, frame: Frame) -> str:
    """Rows of a block that stays on chip."""
    return f"tl.gather({middle.name}, tl.broadcast_to({place}, ({', '.join(frame)})), 0)"

"""Two convolutions in one kernel: a tile of the first with its halo stays on chip, and the second slides over it.

The halo is computed again by neighbouring tiles, so that no two programs wait for each other (DLFusion's way; the
first result goes through shared memory, as in the case study of GraphTurbo).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tilestitch.backends.triton import integers
from tilestitch.backends.triton.blocks import by_stride, counted, lanes, unflattened, with_dims
from tilestitch.backends.triton.code import Value
from tilestitch.backends.triton.index import Guard, Index, Var, along, of_var
from tilestitch.backends.triton.products import LEAST, Sums, cut, least_depth, multiplied
from tilestitch.backends.triton.values import Emitter, Unfused, pieces, span
from tilestitch.base.units import ceil_div
from tilestitch.ir.graph import Access, Operator
from tilestitch.ir.region import Region
from tilestitch.ops.contraction import roles

SIDE = 8  # results along each axis of a tile at most
MOST_OF_TILE = 1024  # results of the first convolution that a tile takes, for one channel


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
class Stitched:
    """What became of a fused pair: programs of its grid, and how often its first product is computed."""

    programs: int
    again: float


def window_of(op: Operator, access: Access) -> tuple[Window, ...]:
    """The windows of a convolution, along each axis that it slides along; none where a window is one element.

    What moves both operands, such as the heads of attention in one axis with their features, slides along nothing.
    """
    found, reduction, batch = [], set(roles(op).k), set(roles(op).batch)
    for number, axis in enumerate(access.axes):
        terms = [(dim, step) for dim, step in axis.terms if op.dims[dim].extent > 1 or dim not in reduction]
        taps = [(dim, step) for dim, step in terms if dim in reduction]
        places = [(dim, step) for dim, step in terms if dim not in reduction]
        if len(taps) == 1 and len(places) == 1 and places[0][0] not in batch:
            found.append(Window(number, places[0][0], taps[0][0], places[0][1], taps[0][1], axis.offset))
    return tuple(found)


def stitched(e: Emitter, sink: Operator, op: Operator, box: Region, columns: Sequence[int], width: int) -> Stitched:
    """Write a kernel for a convolution `op` whose first operand another product of the kernel makes.

    `sink` is the last operator, in a box of its iterations; `columns` are those of its dims that are channels.
    """
    return _Tile(e, sink, op, box, columns, width).write()


class _Tile:
    """One kernel of a fused pair while it is written."""

    def __init__(
        self, e: Emitter, sink: Operator, op: Operator, box: Region, columns: Sequence[int], width: int
    ) -> None:
        self.e, self.sink, self.op, self.box, self.columns = e, sink, op, box, columns
        self.windows = window_of(op, op.reads[0])
        self.places = [self._place(window) for window in self.windows]
        extents = [box.extents[place] for place in self.places]
        self.sides = [ceil_div(extent, pieces(extent, SIDE)) for extent in extents]  # as even as can be
        self.tiles = [pieces(extent, side) for extent, side in zip(extents, self.sides, strict=True)]
        self.halo = [
            (side - 1) * one.stride + (op.dims[one.tap].extent - 1) * one.apart + 1
            for side, one in zip(self.sides, self.windows, strict=True)
        ]
        if prod(self.halo) > MOST_OF_TILE or any(one.stride < 1 or one.apart < 1 for one in self.windows):
            raise Unfused(f"{op.name} would take tiles of {prod(self.halo):,} results of the product before it")
        taken = {one.tap for one in self.windows}
        self.channels = [dim for dim in roles(op).k if dim not in taken]
        self.rows = e.size("BLOCK_M", max(span(prod(self.sides)), LEAST))
        self.cols = e.size("BLOCK_N", width)
        self.around = e.size("BLOCK_HALO", max(span(prod(self.halo)), LEAST))
        count = counted(op.whole, self.channels)
        self.depth = e.size("BLOCK_C", min(max(span(count), least_depth(e, op)), e.depth_of_sums))

    def _place(self, window: Window) -> int:
        """The dim of the last operator that moves a window: its result has the same shape."""
        axis = next(
            number
            for number, one in enumerate(self.op.writes[0].axes)
            if one.terms == ((window.place, 1),) and one.offset == 0
        )
        access = next((one for one in self.sink.reads if one.tensor == self.op.outputs[0]), None)
        if self.sink is self.op:
            return window.place
        terms = self.sink.writes[0].axes[axis].terms
        if access is None and len(terms) != 1:
            raise Unfused(f"{self.sink.name} changes the shape of {self.op.name}")
        if (
            len(terms) != 1
            or terms[0][1] != 1
            or self.sink.dims[terms[0][0]].extent != self.op.dims[window.place].extent
        ):
            raise Unfused(f"{self.sink.name} changes the shape of {self.op.name}")
        return terms[0][0]

    def write(self) -> Stitched:
        e, sink = self.e, self.sink
        program = of_var(Var(e.code.let("program", "tl.program_id(0)"), 0, 2**31 - 1))
        count = counted(self.box, self.columns)
        parts = pieces(count, e.sizes[self.cols])
        block = e.part("columns_block", program, 1, parts)
        start = e.code.let("first_columns", f"{block} * {self.cols}") if parts > 1 else ""
        flat = lanes(e, "columns", self.cols, count, start=start, axis=1)
        e.guards += flat.guards
        order = by_stride(e, sink.writes[0], self.columns)
        found = unflattened(e, flat, sink, order, self.box) if order else {}
        step = parts
        corners: list[Index] = []
        for number in reversed(range(len(self.windows))):
            tile = e.part("tile", program, step, self.tiles[number])
            step *= self.tiles[number]
            corners.insert(0, tile * self.sides[number] + self.box.start[self.places[number]])
        for dim in self._grid():
            found[dim] = e.part(sink.dims[dim].name, program, step, self.box.extents[dim]) + self.box.start[dim]
            step *= self.box.extents[dim]
        inner = self._inside_tile()
        for number, (place, corner, at) in enumerate(zip(self.places, corners, inner, strict=True)):
            found[place] = self._row(number, place, corner, at)
        dims = [found.get(number, Index()) for number in range(len(sink.dims))]
        self._pair(dims, corners, inner)
        self._store(dims)
        return Stitched(step, parts * self._share())

    def _grid(self) -> list[int]:
        taken = {*self.places, *self.columns}
        return [
            number
            for number, dim in reversed(list(enumerate(self.sink.dims)))
            if number not in taken and dim.kind != "reduction"
        ]

    def _inside_tile(self) -> list[Index]:
        """Where a row of the block lies in its tile, along each window's axis."""
        rows = of_var(Var(self._arange("rows", self.rows), 0, self.e.sizes[self.rows] - 1, frozenset({0})))
        return self._split(rows, self.sides)

    def _arange(self, wish: str, size: str) -> str:
        return self.e.code.let(wish, f"tl.arange(0, {size})[:, None]", 0)

    def _split(self, flat: Index, extents: Sequence[int]) -> list[Index]:
        found: list[Index] = []
        step = 1
        for extent in reversed(extents):
            found.insert(0, self.e.part("at", flat, step, extent))
            step *= extent
        return found

    def _row(self, number: int, place: int, corner: Index, at: Index) -> Index:
        """The index of the last operator's dim in each row, guarded where a tile goes beyond the end."""
        stop = self.box.stop[place]
        text = str(corner + at)
        name = self.e.code.let(self.sink.dims[place].name, text, 0)
        guards: tuple[Guard, ...] = ()
        if self.box.extents[place] % self.sides[number]:
            guards = (Guard(self.e.code.let(f"{name}_ok", f"{name} < {stop}", 0), 0),)
        if number == 0 and self.e.sizes[self.rows] > prod(self.sides):
            rows = self.e.code.let("in_tile", f"tl.arange(0, {self.rows})[:, None] < {prod(self.sides)}", 0)
            guards = (*guards, Guard(rows, 0))
        self.e.guards += guards
        return of_var(Var(name, self.box.start[place], stop - 1, frozenset({0}), guards))

    def _pair(self, dims: Sequence[Index], corners: Sequence[Index], inner: Sequence[Index]) -> None:
        """Write both products, and remember the second as what its operator computes."""
        e, op, code = self.e, self.op, self.e.code
        at = self._dims_of_op(dims)
        sums = Sums(e, op, (self.rows, self.cols))
        around = lanes(e, "around", self.around, prod(self.halo))
        offsets = self._split(around, self.halo)
        count = counted(op.whole, self.channels)
        if e.sizes[self.depth] >= count:
            self._turn(sums, at, corners, inner, offsets, "")
        else:
            start = code.name("c_start")
            with code.loop(f"for {start} in range(0, {count}, {self.depth}):"):
                self._turn(sums, at, corners, inner, offsets, start)
        terms = counted(op.whole, roles(op).k)
        e.made[op.name] = integers.finished(e, op, at, (self.rows, self.cols), sums.complete(terms))

    def _dims_of_op(self, dims: Sequence[Index]) -> list[Index]:
        """The iterations of the second convolution, where those of the last operator are given."""
        if self.op is self.sink:
            return list(dims)
        index = [along(axis, dims) for axis in self.sink.writes[0].axes]
        return self.e.solved(self.op.writes[0], index, self.op)

    def _turn(
        self,
        sums: Sums,
        at: Sequence[Index],
        corners: Sequence[Index],
        inner: Sequence[Index],
        offsets: Sequence[Index],
        start: str,
    ) -> None:
        """Some channels of the first result, with halo, and what the second convolution makes of them."""
        e, op, depth = self.e, self.op, self.e.code.depth
        access, count = op.reads[0], counted(op.whole, self.channels)
        order = by_stride(e, access, self.channels)
        across = lanes(e, "c", self.depth, count, start=start, axis=1, depth=depth)
        index = [along(axis, with_dims(at, unflattened(e, across, op, order, op.whole))) for axis in access.axes]
        for window, corner, offset in zip(self.windows, corners, offsets, strict=True):
            base = corner * window.stride + window.offset
            index[window.axis] = offset + base
        frame = (self.around, self.depth)
        middle = e.full(e.value(access.tensor, index, frame, pad=access.pad_value, raw=True), frame)
        middle = multiplied(e, op, access, middle)
        if across.guards:
            middle = cut(e, middle, across.guards[0].text)
        down = lanes(e, "c_down", self.depth, count, start=start, axis=0, depth=depth)
        found = unflattened(e, down, op, order, op.whole)
        self._taps(sums, at, inner, middle, found, down)

    def _taps(
        self,
        sums: Sums,
        at: Sequence[Index],
        inner: Sequence[Index],
        middle: Value,
        found: dict[int, Index],
        down: Index,
    ) -> None:
        """The sum over the window: its elements are picked from the tile on chip."""
        e, op, code = self.e, self.op, self.e.code
        taps = [op.dims[one.tap].extent for one in self.windows]
        turn = code.name("tap")
        with code.loop(f"for {turn} in tl.static_range({prod(taps)}):"):
            flat = of_var(Var(turn, 0, prod(taps) - 1, depth=code.depth))
            each = self._split(flat, taps)
            place, step = Index(), 1
            for number in reversed(range(len(self.windows))):
                one = self.windows[number]
                place = place + (inner[number] * one.stride + each[number] * one.apart) * step
                step *= self.halo[number]
                found[one.tap] = each[number]
            picked = code.let("place", str(place))
            shape = f"({self.rows}, {self.depth})"
            a = code.let("a", f"tl.gather({middle.name}, tl.broadcast_to({picked}, {shape}), 0)")
            frame = (self.depth, self.cols)
            b = e.full(e.operand(op.reads[1], with_dims(at, found), frame, raw=True), frame)
            b = multiplied(e, op, op.reads[1], b)
            if b.kind == "int" and down.guards:
                b = cut(e, b, down.guards[0].text)
            sums.add(Value(a, middle.kind), b)

    def _store(self, dims: Sequence[Index]) -> None:
        e, sink, frame = self.e, self.sink, (self.rows, self.cols)
        value = e.full(e.computed(sink, dims, frame), frame)
        e.store(sink.outputs[0], [along(axis, dims) for axis in sink.writes[0].axes], value, e.guards, frame)

    def _share(self) -> float:
        """Results of the first product that all tiles compute, over those that they need at least once.

        What lies outside the tensor counts as well: its lanes are there.
        """
        shape = self.e.graph.tensors[self.op.reads[0].tensor].shape
        made = prod(tiles * halo for tiles, halo in zip(self.tiles, self.halo, strict=True))
        return made / prod(
            min(shape[one.axis], tiles * halo)
            for one, tiles, halo in zip(self.windows, self.tiles, self.halo, strict=True)
        )

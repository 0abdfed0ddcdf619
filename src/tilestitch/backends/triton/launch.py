"""One kernel of Triton for some operators: what one program of its grid makes, and the text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from tilestitch.backends.triton.blocks import by_stride, counted, lanes, unflattened
from tilestitch.backends.triton.code import ORIGIN, Value
from tilestitch.backends.triton.functions import ELEMENTWISE
from tilestitch.backends.triton.index import Index, Var, along, of_var
from tilestitch.backends.triton.products import LEAST, is_large, product
from tilestitch.backends.triton.reductions import STEPS, WHOLE, is_row, reduced, whole_rows
from tilestitch.backends.triton.values import Emitter, Frame, Rule, Storage, Unfused, pieces, span
from tilestitch.backends.triton.windows import slid, slides, tile, window_of
from tilestitch.base.dtypes import DType
from tilestitch.ir.graph import DimKind, Graph, Operator
from tilestitch.ir.region import Region
from tilestitch.ops.contraction import KINDS, roles


def _product(e: Emitter, op: Operator, dims: Sequence[Index], frame: Frame) -> Value:
    """A block of a product, whose windows may slide over another block of the kernel."""
    return slid(e, op, dims, frame) if slides(e, op) else product(e, op, dims, frame)


RULES: dict[str, Rule] = {
    **dict.fromkeys(KINDS, _product),
    **dict.fromkeys(STEPS, reduced),
    **dict.fromkeys(WHOLE, whole_rows),
}
KNOWN = frozenset((*RULES, *ELEMENTWISE, "gather"))
ROW_ELEMENTS = 4096  # of a block that holds whole rows, where its rows are shorter
# Results along each of two axes of a tile at most, and channels at a time: the first that fits. A guess.
TILES = ((8, 64), (8, 32), (7, 64), (7, 32), (4, 64), (4, 32))
WARPS = ((8_192, 4), (16_384, 8))  # elements of all blocks of sums, and how many warps hold them; more take 16
# Triton fetches the operands of the next two turns of a loop ahead, with three stages, of the next one with two; with
# one none. They lie in shared memory, beside what is turned from one layout into another: bytes at most, of the 163 KiB
# of an A100 (CUDA C++ Programming Guide, technical specifications per compute capability).
AHEAD = 128 * 1024
STAGES = 3


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest blocks of a kernel, and how many programs keep the machine busy."""

    rows: int = 128
    columns: int = 128
    depth: int = 64
    elements: int = 1024
    programs: int = 132  # as many as there are streaming multiprocessors
    again: float = 4 / 3  # of the multiplications of its products, how many a fused kernel may do
    sums: int = 8_192  # elements of all its blocks of sums
    windows: bool = False  # whether windows may slide over what the same kernel computes

    # How a kernel for several products compares with a kernel for each was measured on an H200 (docs/build.md). Windows
    # that slide on chip took 2.5 to 17 times as long. Two products in one kernel took 0.64 of the time with 4,096 sums,
    # 0.87 with 6,144, and 1.9 and 1.6 times as long with 10,240 and 20,480.

    @classmethod
    def of_all(cls, programs: int = 132) -> "Limits":
        """Fuse whatever fits: half the registers of a multiprocessor hold sums."""
        return cls(programs=programs, sums=32_768, windows=True)


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel as text, and how it is started."""

    name: str
    operators: tuple[str, ...]
    output: str
    reads: tuple[str, ...]  # tensors in the order of the parameters, the output last
    text: str
    programs: int
    blocks: tuple[tuple[str, int], ...]
    warps: int
    stages: int  # of the pipeline by which Triton fetches operands ahead
    again: float  # how often the product `most` is computed; 1.0 where nothing is computed again
    most: str
    form: str  # "products", "fused products", "attention", "rows" or "elements"


@dataclass(frozen=True, slots=True)
class _Roots:
    """How the iterations of the last operator are divided: dims along the grid, along rows and along columns."""

    grid: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    form: str
    products: tuple[Operator, ...] = ()  # that make blocks of rows and columns, from the last to the first
    tiles: tuple[int, ...] = ()  # dims whose iterations are divided into tiles, where windows slide inside the kernel


def launch(
    graph: Graph, storage: Storage, name: str, operators: Sequence[Operator], box: Region | None, limits: Limits
) -> Launch:
    """One kernel that makes the result of the last operator, in a box of its iterations. Raises `Unfused`."""
    sink = operators[-1]
    box = sink.whole if box is None else box
    _expect_whole_sums(sink, box)
    if len(sink.outputs) > 1:
        raise Unfused(f"{sink.name} has several results")
    roots = _roots(graph, storage, operators)
    if roots.tiles and not limits.windows:
        raise Unfused("windows would slide over what the kernel computes, which is slower than kernels apart")
    why: Unfused | None = None
    for side, depth in TILES if roots.tiles else ((0, limits.depth),):
        e = Emitter(graph, storage, operators, RULES)
        e.slowly = len(operators) == 1
        wide = storage.floats is DType.FLOAT32  # whose blocks take twice the room on chip
        e.depth_of_sums = max(min(depth, limits.depth) // (2 if wide else 1), LEAST)
        try:
            programs, form = _tiled(e, sink, roots, box, side, limits) if side else _framed(e, sink, roots, box, limits)
            _expect_worth_it(e, operators, limits)
        except Unfused as error:
            why = why or error
            continue
        return _written(e, name, operators, programs, form)
    assert why is not None
    raise why


def _expect_worth_it(e: Emitter, operators: Sequence[Operator], limits: Limits) -> None:
    """Refuse a kernel that computes a product too often, or holds more sums than the registers do."""
    again, most = _most(e)
    work = {op.name: prod(dim.extent for dim in op.dims) for op in operators if op.name in e.often}
    total = sum(e.often[name] * each for name, each in work.items()) / sum(work.values()) if work else 1.0
    if total > limits.again:
        raise Unfused(f"{most} would be computed {again:.2f} times, and the kernel would do {total:.2f} times the work")
    if sum(op.kind in KINDS for op in operators) > 1 and e.sums > limits.sums:
        raise Unfused(f"a kernel would hold {e.sums:,} sums, and registers have room for {limits.sums:,}")


def _most(e: Emitter) -> tuple[float, str]:
    """How often the product is computed that is computed most, the first of several, and its name."""
    return max(((times, name) for name, times in e.often.items()), key=lambda one: one[0], default=(1.0, ""))


def _tiled(e: Emitter, sink: Operator, roots: _Roots, box: Region, side: int, limits: Limits) -> tuple[int, str]:
    """Write a kernel whose rows are a tile, over which or over whose halo windows slide; programs, and the form."""
    along = {1: side * side, 2: side}.get(len(roots.tiles), 4)
    sizes = (along, _columns(roots, box, 2 * limits.columns))
    dims, frame, programs, parts = tile(e, sink, box, roots.tiles, roots.columns, sizes)
    e.asks = (1.0, float(parts), 1.0)
    store(e, sink, dims, frame)
    return programs, roots.form


def _framed(e: Emitter, sink: Operator, roots: _Roots, box: Region, limits: Limits) -> tuple[int, str]:
    """Write a kernel whose block is rows, or rows and columns; programs, and the form."""
    fused = roots.form == "fused products"
    if roots.form == "elements":
        sizes = (min(limits.elements, span(counted(box, roots.rows))),)
    elif roots.form == "rows":
        columns = span(counted(box, roots.columns))
        sizes = (min(max(ROW_ELEMENTS // columns, 1), span(counted(box, roots.rows))), columns)
    else:
        most = limits
        if len(roots.products) > 2:
            low = e.storage.floats is DType.FLOAT16  # else weights of so many columns have no room on chip
            most = replace(limits, columns=limits.columns * (2 if low else 1), rows=limits.rows // 4)
        elif fused or roots.form == "attention":
            most = replace(limits, columns=2 * limits.columns, rows=limits.rows // 2)
        sizes = _blocks(roots, box, most)
    wishes = ("BLOCK",) if len(sizes) == 1 else ("BLOCK_M", "BLOCK_N")
    frame: Frame = tuple(e.size(wish, size) for wish, size in zip(wishes, sizes, strict=True))
    dims, programs, blocks = _dims(e, sink, roots, box, frame)
    e.asks = (1.0, float(blocks), 1.0)
    if roots.form == "rows":
        e.columns = tuple(dims[dim] for dim in roots.columns if sink.dims[dim].extent > 1)
    store(e, sink, dims, frame)
    return programs, roots.form


def store(e: Emitter, sink: Operator, dims: Sequence[Index], frame: Frame) -> None:
    """Compute the last operator's block, and write it."""
    index = [along(axis, dims) for axis in sink.writes[0].axes]
    value = e.computed(sink, dims, frame)
    moving = frozenset(axis for at in dims for axis in at.axes)
    if moving - value.axes:
        value = e.full(value, frame)
    e.store(sink.outputs[0], index, value, e.guards, frame)


def _dims(e: Emitter, sink: Operator, roots: _Roots, box: Region, frame: Frame) -> tuple[list[Index], int, int]:
    """Indices of the last operator's dims in one program, programs of the grid, and blocks along the columns."""
    program = of_var(Var(e.code.let("program", "tl.program_id(0)"), 0, 2**31 - 1))
    found: dict[int, Index] = {}
    step, column_blocks = 1, 1
    for axis, (dims, wish) in enumerate(((roots.columns, "columns"), (roots.rows, "rows"))):
        place = 1 - axis
        if len(frame) == 1 and place == 1:
            continue
        size, count = frame[place], counted(box, dims)
        parts = pieces(count, e.sizes[size])
        block = e.part(f"{wish}_block", program, step, parts) if parts > 1 else Index()
        start = e.code.let(f"first_{wish}", f"{block} * {size}") if parts > 1 else ""
        flat = lanes(e, wish, size, count, start=start, axis=place, of=len(frame))
        e.guards += flat.guards
        found |= unflattened(e, flat, sink, by_stride(e, sink.writes[0], dims), box) if dims else {}
        step *= parts
        column_blocks = parts if place == 1 else column_blocks
    order = by_stride(e, sink.writes[0], roots.grid)
    for dim in reversed(order):
        extent = box.extents[dim]
        found[dim] = e.part(sink.dims[dim].name, program, step, extent) + box.start[dim]
        step *= extent
    return [found.get(number, Index()) for number in range(len(sink.dims))], step, column_blocks


def _expect_whole_sums(sink: Operator, box: Region) -> None:
    for dim, start, stop in zip(sink.dims, box.start, box.stop, strict=True):
        if dim.kind is not DimKind.PARALLEL and (start, stop) != (0, dim.extent):
            raise Unfused(f"{sink.name} is cut along {dim.name}, which needs all its iterations at once")


def _roots(graph: Graph, storage: Storage, operators: Sequence[Operator]) -> _Roots:
    """Divide the iterations of the last operator by what the operators before it need of them.

    Each of its dims gets an axis of its own in a kernel that is written for nothing but this.
    """
    sink = operators[-1]
    e = Emitter(graph, storage, operators, {})
    dims = [
        of_var(Var(f"d{number}", 0, dim.extent - 1, frozenset({number}))) if dim.kind != "reduction" else Index()
        for number, dim in enumerate(sink.dims)
    ]
    places = {sink.name: dims}
    _trace(e, sink, places)
    whole = [e.inside[name] for name in _names(e, places) if is_row(e.inside[name])]
    products = [e.inside[name] for name in _names(e, places) if e.inside[name].kind in KINDS]
    free = tuple(number for number, dim in enumerate(sink.dims) if dim.kind is not DimKind.REDUCTION)
    if whole:
        return _rows(places, whole, free)
    if products:
        found = _products(e, products[0], places, free)
        if found is not None:
            return found
    return _Roots((), free, (), "elements")


def _slid(e: Emitter, traced: Mapping[str, list[Index]]) -> tuple[int, ...]:
    """Dims of the last operator that move windows over what the same kernel computes, in the order of their axes.

    `traced` has the iterations of every operator down to products; here those before them are traced as well.
    """
    places, left, found = dict(traced), [op for op in e.inside.values() if op.name in traced], dict[int, None]()
    while left:
        op = left.pop(0)
        if slides(e, op):
            axes = [axis for one in window_of(op, op.reads[0]) for axis in sorted(places[op.name][one.place].axes)]
            if len(axes) > sum(bool(places[op.name][one.place].axes) for one in window_of(op, op.reads[0])):
                raise Unfused(f"the kernel changes the shape of what {op.name} makes")
            found |= dict.fromkeys(axes)
        for access in op.reads:
            before = e.inside.get(access.tensor)
            if before is not None and before.name not in places:
                index = [along(axis, places[op.name]) for axis in access.axes]
                places[before.name] = e.solved(before.writes[0], index, before)
                left.append(before)
    return tuple(found)


def _names(e: Emitter, places: dict[str, list[Index]]) -> list[str]:
    """Results of the operators that were reached."""
    return [name for name, op in e.inside.items() if op.name in places]


def _trace(e: Emitter, op: Operator, places: dict[str, list[Index]]) -> None:
    """Find at which of its iterations every operator is asked for, down to products and what takes whole rows."""
    if op.kind in KINDS or is_row(op):
        return
    for access in op.reads:
        before = e.inside.get(access.tensor)
        if before is not None and before.name not in places:
            index = [along(axis, places[op.name]) for axis in access.axes]
            places[before.name] = e.solved(before.writes[0], index, before)
            _trace(e, before, places)


def _moved(dims: Sequence[Index], numbers: Sequence[int]) -> set[int]:
    return {axis for number in numbers for axis in dims[number].axes}


def _rows(places: dict[str, list[Index]], whole: Sequence[Operator], free: Sequence[int]) -> _Roots:
    columns: set[int] = set()
    for op in whole:
        dims = places[op.name]
        if op.kind in WHOLE:
            columns |= _moved(dims, [number for number, dim in enumerate(op.dims) if dim.kind is DimKind.WHOLE])
        else:
            columns |= set(free) - _moved(dims, range(len(dims)))
    rows = tuple(dim for dim in free if dim not in columns)
    return _Roots((), rows, tuple(dim for dim in free if dim in columns), "rows")


def _products(e: Emitter, op: Operator, places: Mapping[str, list[Index]], free: Sequence[int]) -> _Roots | None:
    found, dims = roles(op), places[op.name]
    batch, m, n = (_moved(dims, numbers) for numbers in (found.batch, found.m, found.n))
    if m & n:
        return None
    if any(slides(e, one) for one in (op, *e.chain(op.reads[0].tensor))):
        tiles = _slid(e, places)
        channels = n if is_large(op, found) else batch | n
        columns = tuple(dim for dim in free if dim in channels and dim not in tiles)
        return _Roots((), (), columns, "fused products", (op,), tiles)
    if not is_large(op, found):
        return None
    rows = tuple(dim for dim in free if dim in m and dim not in batch)
    columns = tuple(dim for dim in free if dim in n and dim not in batch)
    grid = tuple(dim for dim in free if dim not in rows and dim not in columns)
    inner = e.chain(op.reads[0].tensor)
    products = (op, *(one for one in inner if one.kind in KINDS))
    if op.reads[0].tensor in e.inside and inner[0].kind == "softmax":
        return _Roots(grid, rows, columns, "attention", products[:1])
    return _Roots(grid, rows, columns, "fused products" if len(products) > 1 else "products", products)


def _columns(roots: _Roots, box: Region, most: int) -> int:
    return min(max(span(counted(box, roots.columns)), LEAST), most)


def _blocks(roots: _Roots, box: Region, limits: Limits) -> tuple[int, int]:
    """Rows and columns of a block: large, but so small that there is one for each multiprocessor, if possible."""
    count = counted(box, roots.rows), counted(box, roots.columns)
    m = min(max(span(count[0]), LEAST), limits.rows)
    n = _columns(roots, box, limits.columns)
    grid = counted(box, roots.grid)
    fixed = roots.form != "products"  # of others the first operand is computed for all columns
    while grid * pieces(count[0], m) * pieces(count[1], n) < limits.programs and max(m, n) > 2 * LEAST:
        if m >= n or fixed:
            if m <= 2 * LEAST:
                break
            m //= 2
        else:
            n //= 2
    return m, n


def _written(e: Emitter, name: str, operators: Sequence[Operator], programs: int, form: str) -> Launch:
    output = operators[-1].outputs[0]
    reads = tuple(tensor for tensor in e.pointers if tensor != output)
    pointers = [e.pointers[tensor] for tensor in (*reads, output)]
    parameters = [*pointers, ORIGIN, *(f"{size}: tl.constexpr" for size in e.sizes)]
    text = ["@triton.jit", f"def {name}("]
    text += [f"    {parameter}," for parameter in parameters]
    text += ["):", *e.code.lines]
    kept, blocks = tuple(op.name for op in operators), tuple(e.sizes.items())
    held = e.sums or prod(e.sizes[size] for size in list(e.sizes)[:2])
    warps = next((warps for most, warps in WARPS if held <= most), 16)
    stages = max(min(AHEAD // max(e.fetched, 1) + 1, STAGES), 1)
    again, most = _most(e)
    return Launch(
        name, kept, output, (*reads, output), "\n".join(text), programs, blocks, warps, stages, again, most, form
    )

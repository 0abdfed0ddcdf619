"""One kernel of Triton for some operators: what one program of its grid makes, and the text."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from tilestitch.backends.triton.blocks import by_stride, counted, lanes, unflattened
from tilestitch.backends.triton.functions import ELEMENTWISE
from tilestitch.backends.triton.index import Index, Var, along, of_var
from tilestitch.backends.triton.products import LEAST, is_large, product
from tilestitch.backends.triton.reductions import STEPS, WHOLE, is_row, reduced, whole_rows
from tilestitch.backends.triton.stitched import stitched, window_of
from tilestitch.backends.triton.values import Emitter, Frame, Rule, Storage, Unfused, pieces, span
from tilestitch.ir.graph import DimKind, Graph, Operator
from tilestitch.ir.region import Region
from tilestitch.ops.contraction import KINDS, roles

RULES: dict[str, Rule] = {
    **dict.fromkeys(KINDS, product),
    **dict.fromkeys(STEPS, reduced),
    **dict.fromkeys(WHOLE, whole_rows),
}
KNOWN = frozenset((*RULES, *ELEMENTWISE, "gather"))
ROW_ELEMENTS = 4096  # of a block that holds whole rows, where its rows are shorter


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest blocks of a kernel, and how many programs keep the machine busy."""

    rows: int = 128
    columns: int = 128
    depth: int = 64
    elements: int = 1024
    programs: int = 132  # as many as there are streaming multiprocessors
    again: float = 2.0  # times that a fused kernel may compute its first product


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
    again: float  # how often the first product of a fused pair is computed; 1.0 where nothing is computed again
    form: str  # "products", "fused products", "attention", "rows" or "elements"


@dataclass(frozen=True, slots=True)
class _Roots:
    """How the iterations of the last operator are divided: dims along the grid, along rows and along columns."""

    grid: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    form: str
    anchor: Operator | None = None
    pair: Operator | None = None  # the product that makes the anchor's first operand


def launch(
    graph: Graph, storage: Storage, name: str, operators: Sequence[Operator], box: Region | None, limits: Limits
) -> Launch:
    """One kernel that makes the result of the last operator, in a box of its iterations. Raises `Unfused`."""
    sink = operators[-1]
    box = sink.whole if box is None else box
    _expect_whole_sums(sink, box)
    e = Emitter(graph, storage, operators, RULES)
    e.slowly = len(operators) == 1
    e.depth_of_sums = limits.depth
    roots = _roots(graph, storage, operators)
    if len(sink.outputs) > 1:
        raise Unfused(f"{sink.name} has several results")
    if roots.pair is not None and window_of(roots.anchor, roots.anchor.reads[0]):  # type: ignore[union-attr]
        made = stitched(e, sink, roots.anchor, box, roots.columns, _columns(roots, box, 2 * limits.columns))  # type: ignore[arg-type]
        again, programs, form = made.again, made.programs, "fused products"
    else:
        programs, again, form = _framed(e, sink, roots, box, limits)
    if again > limits.again:
        first = next(op for op in operators if op.kind in KINDS)
        raise Unfused(f"{first.name} would be computed {again:.2f} times")
    return _written(e, name, operators, programs, again, form)


def _framed(e: Emitter, sink: Operator, roots: _Roots, box: Region, limits: Limits) -> tuple[int, float, str]:
    """Write a kernel whose block is rows, or rows and columns; programs, how often a first product, and the form."""
    fused = roots.form == "products" and roots.pair is not None
    if roots.form == "elements":
        sizes = (min(limits.elements, span(counted(box, roots.rows))),)
    elif roots.form == "rows":
        columns = span(counted(box, roots.columns))
        sizes = (min(max(ROW_ELEMENTS // columns, 1), span(counted(box, roots.rows))), columns)
    else:
        most = (
            replace(limits, columns=2 * limits.columns, rows=limits.rows // 2)
            if fused or roots.form == "attention"
            else limits
        )
        sizes = _blocks(roots, box, most)
    wishes = ("BLOCK",) if len(sizes) == 1 else ("BLOCK_M", "BLOCK_N")
    frame: Frame = tuple(e.size(wish, size) for wish, size in zip(wishes, sizes, strict=True))
    dims, programs, blocks = _dims(e, sink, roots, box, frame)
    if roots.form == "rows":
        e.columns = tuple(dims[dim] for dim in roots.columns if sink.dims[dim].extent > 1)
    store(e, sink, dims, frame)
    return (
        programs,
        float(blocks) if fused or roots.form == "attention" else 1.0,
        "fused products" if fused else roots.form,
    )


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
        found = _products(e, products[0], places[products[0].name], free)
        if found is not None:
            return found
    return _Roots((), free, (), "elements")


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


def _products(e: Emitter, op: Operator, dims: Sequence[Index], free: Sequence[int]) -> _Roots | None:
    found = roles(op)
    batch, m, n = (_moved(dims, numbers) for numbers in (found.batch, found.m, found.n))
    if not is_large(op, found) or m & n:
        return None
    rows = tuple(dim for dim in free if dim in m and dim not in batch)
    columns = tuple(dim for dim in free if dim in n and dim not in batch)
    grid = tuple(dim for dim in free if dim not in rows and dim not in columns)
    inner = e.chain(op.reads[0].tensor)
    pair = next((one for one in inner if one.kind in KINDS), None)
    form = "attention" if op.reads[0].tensor in e.inside and inner[0].kind == "softmax" else "products"
    return _Roots(grid, rows, columns, form, op, None if form == "attention" else pair)


def _columns(roots: _Roots, box: Region, most: int) -> int:
    return min(max(span(counted(box, roots.columns)), LEAST), most)


def _blocks(roots: _Roots, box: Region, limits: Limits) -> tuple[int, int]:
    """Rows and columns of a block: large, but so small that there is one for each multiprocessor, if possible."""
    count = counted(box, roots.rows), counted(box, roots.columns)
    m = min(max(span(count[0]), LEAST), limits.rows)
    n = _columns(roots, box, limits.columns)
    grid = counted(box, roots.grid)
    fixed = roots.pair is not None or roots.form == "attention"  # whose first operand is computed for all columns
    while grid * pieces(count[0], m) * pieces(count[1], n) < limits.programs and max(m, n) > 2 * LEAST:
        if m >= n or fixed:
            if m <= 2 * LEAST:
                break
            m //= 2
        else:
            n //= 2
    return m, n


def _written(e: Emitter, name: str, operators: Sequence[Operator], programs: int, again: float, form: str) -> Launch:
    output = operators[-1].outputs[0]
    reads = tuple(tensor for tensor in e.pointers if tensor != output)
    pointers = [e.pointers[tensor] for tensor in (*reads, output)]
    parameters = [*pointers, *(f"{size}: tl.constexpr" for size in e.sizes)]
    text = ["@triton.jit", f"def {name}("]
    text += [f"    {parameter}," for parameter in parameters]
    text += ["):", *e.code.lines]
    largest = max(prod(e.sizes[size] for size in list(e.sizes)[:2]), 1)
    warps = 8 if largest >= 128 * 128 else 4
    kept = tuple(op.name for op in operators)
    return Launch(
        name, kept, output, (*reads, output), "\n".join(text), programs, tuple(e.sizes.items()), warps, again, form
    )

"""Choose how one kernel is cut: splits over cores, tiles, loop order, parts of the reduction, what stays in GB."""

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from tilestitch.cost.kernel import Estimate, KernelShape, estimate, kernel_shape, operand_region, part_box
from tilestitch.errors import DoesNotFit
from tilestitch.hardware.accelerator import Accelerator, Core, Level
from tilestitch.hardware.units import matrix_rate
from tilestitch.ir.graph import DimKind, Graph, Operator
from tilestitch.ir.region import Region
from tilestitch.ir.schedule import Kernel, Tiling
from tilestitch.ir.tiles import operator_boxes, steps_of
from tilestitch.ops.work import operand_dtype, tile_cycles
from tilestitch.units import ceil_div

SPLITS_KEPT = 5  # core splits that get a full search of tiles, best compute time first


def tile_kernel(graph: Graph, operators: tuple[Operator, ...], name: str, machine: Accelerator) -> Kernel:
    """The tiling of least estimated cycles among splits over any parallel dims and tiles by repeated halving.

    Ties go to the candidate found first. Raises `DoesNotFit` with the best inequality where nothing fits.
    """
    core = machine.cores[0]
    shape = kernel_shape(graph, operators, machine, core)
    best: tuple[Estimate, Tiling] | None = None
    misfit = ""
    for splits in _splits(shape, machine, core):
        for tiling, found in _tilings(shape, machine, core, splits):
            if found.misfit is not None:
                misfit = found.misfit
            elif best is None or found.cycles < best[0].cycles:
                best = found, tiling
    if best is None:
        raise DoesNotFit(
            f"kernel {' + '.join(op.name for op in operators)}: its smallest tile needs {misfit}. "
            f"Try: a machine with more of that memory; strategy layerwise; a smaller batch."
        )
    anchor = shape.anchor.name if shape.anchor is not None else None
    return Kernel(name, tuple(op.name for op in operators), anchor, best[1], best[0].cycles)


def _splits(shape: KernelShape, machine: Accelerator, core: Core) -> list[tuple[int, ...]]:
    """Core splits worth a search: those of the least compute time, at most `SPLITS_KEPT` of them."""
    sink, cores = shape.sink, len(machine.cores)
    steps = steps_of(shape.graph, shape.operators)
    divisors = [d for d in range(1, cores + 1) if cores % d == 0]
    found: list[tuple[int, ...]] = []

    def extend(prefix: tuple[int, ...], left: int) -> None:
        if len(prefix) == len(sink.dims):
            found.append(prefix)
            return
        dim, step = sink.dims[len(prefix)], steps[len(prefix)]
        for d in divisors:
            if d <= left and left % d == 0 and d <= ceil_div(dim.extent, step):
                extend((*prefix, d), left // d)

    extend((), cores)
    timed = []
    for splits in found:
        piece = tuple(
            min(dim.extent, step * ceil_div(ceil_div(dim.extent, step), s))
            for dim, step, s in zip(sink.dims, steps, splits, strict=True)
        )
        boxes = operator_boxes(shape.graph, shape.operators, Region((0,) * len(piece), piece))
        cycles = sum(
            tile_cycles(
                op, boxes[op.name], operand_dtype(op, shape.graph), core, matrix=op.name in shape.matrix
            )
            for op in shape.operators
        )
        timed.append((cycles, len(timed), splits))
    timed.sort()
    return [splits for _, _, splits in timed[:SPLITS_KEPT]]


def _tilings(
    shape: KernelShape, machine: Accelerator, core: Core, splits: tuple[int, ...]
) -> Iterator[tuple[Tiling, Estimate]]:
    """Tilings under one core split: for each cut of the second operand's dims, the largest tiles that fit."""
    sink = shape.sink
    steps = steps_of(shape.graph, shape.operators)
    piece = tuple(
        min(dim.extent, step * ceil_div(ceil_div(dim.extent, step), s))
        for dim, step, s in zip(sink.dims, steps, splits, strict=True)
    )
    parallel = [d for d, dim in enumerate(sink.dims) if dim.kind is DimKind.PARALLEL]
    second = next((o.tensor for o in shape.operands if o.level is Level.WEIGHTS), None)
    second_dims = [d for d in parallel if second is not None and d in shape.movers[second]]
    other_dims = [d for d in parallel if d not in second_dims]
    last: tuple[Tiling, Estimate] | None = None
    yielded = False
    for second_cut in _halvings(piece, second_dims, steps):
        fitting = 0
        for tile in _halvings(second_cut, other_dims, steps):
            reduction = _reduction(shape, machine, core, tile)
            for order in ((*second_dims, *other_dims), (*other_dims, *second_dims)):
                whole = tuple(d for d in range(len(piece)) if d not in parallel)
                tiling = Tiling(splits, tile, steps, (*order, *whole), reduction, ())
                for choice, found in _residencies(shape, machine, core, tiling):
                    if found.misfit is None:
                        yielded = True
                        yield choice, found
                    last = choice, found
                if not second_dims or not other_dims:
                    break
            assert last is not None
            if last[1].misfit is None or yielded:
                fitting += 1
            if fitting > 3:
                break
    if not yielded and last is not None:
        yield last


def _halvings(tile: tuple[int, ...], dims: list[int], steps: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """`tile`, then with its extents along `dims` halved one after another, the outermost dim first, down to steps."""
    current = list(tile)
    yield tuple(current)
    for d in dims:
        while current[d] > steps[d]:
            current[d] = steps[d] * ceil_div(ceil_div(current[d], steps[d]), 2)
            yield tuple(current)


def _reduction(shape: KernelShape, machine: Accelerator, core: Core, tile: tuple[int, ...]) -> tuple[int, ...]:
    """The largest parts of the anchor's reduction whose second operand fits half of its area."""
    anchor = shape.anchor
    if anchor is None:
        return ()
    extents = [dim.extent for dim in anchor.dims]
    memory = machine.memory(Level.WEIGHTS)
    operand = next((o for o in shape.operands if o.level is Level.WEIGHTS), None)
    if memory is None or operand is None:
        return tuple(extents)
    boxes = operator_boxes(shape.graph, shape.operators, Region((0,) * len(tile), tile))
    tensor = shape.graph.tensors[operand.tensor]
    cut = [d for d, dim in enumerate(anchor.dims) if dim.kind is DimKind.REDUCTION]
    assert core.matrix is not None
    depth = core.matrix.k

    def size() -> int:
        part = part_box(anchor, boxes[anchor.name], extents)
        return tensor.bytes_of(operand_region(shape, operand, boxes, part))

    while 2 * size() > memory.size_bytes:
        # Cut the longest loop; keep multiples of the array's depth as long as there are any.
        longest = max(cut, key=lambda d: (extents[d], -d))
        if extents[longest] == 1:
            break
        half = ceil_div(extents[longest], 2)
        extents[longest] = ceil_div(half, depth) * depth if half > depth else half
    return tuple(extents)


def _residencies(
    shape: KernelShape, machine: Accelerator, core: Core, tiling: Tiling
) -> Iterator[tuple[Tiling, Estimate]]:
    """The tiling with nothing kept in GB, then with each operand kept that saves traffic, one added at a time."""
    found = estimate(shape, machine, core, tiling)
    yield tiling, found
    if machine.memory(Level.GB) is None:
        return
    for tensor in dict.fromkeys(o.tensor for o in shape.operands):
        more = replace(tiling, resident=(*tiling.resident, tensor))
        candidate = estimate(shape, machine, core, more)
        if candidate.misfit is None and (found.misfit is not None or candidate.ddr_bytes < found.ddr_bytes):
            tiling, found = more, candidate
            yield tiling, found


def kernel_signature(graph: Graph, operators: tuple[Operator, ...]) -> tuple:
    """Equal for kernels that differ only in names: same loops, accesses, shapes, types, layouts and borders."""
    numbers: dict[str, int] = {}
    members = {op.name for op in operators}

    def number(tensor: str) -> int:
        return numbers.setdefault(tensor, len(numbers))

    parts: list = []
    for op in operators:
        accesses = tuple(
            (number(a.tensor), a.axes, a.pad_value, a.indirect_axis) for a in (*op.reads, *op.writes)
        )
        parts.append((op.kind, op.dims, len(op.reads), accesses))
    for tensor in numbers:
        value = graph.tensors[tensor]
        readers = graph.consumers.get(tensor, ())
        outside = tensor in graph.outputs or any(c.name not in members for c in readers)
        parts.append((value.shape, value.dtype, value.layout, outside, len(readers) == 1))
    return tuple(parts)


def local_names(graph: Graph, operators: tuple[Operator, ...]) -> list[str]:
    """Tensors of a kernel in the order in which `kernel_signature` numbers them."""
    return list(dict.fromkeys(a.tensor for op in operators for a in (*op.reads, *op.writes)))

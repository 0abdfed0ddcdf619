"""Choose how one kernel is cut: splits over cores, tiles, loop order, parts of the reduction, what stays in GB."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tilestitch.cost.kernel import Estimate, TileFigures, estimate, measure
from tilestitch.cost.shape import KernelShape, Operand, kernel_shape, operand_region, part_box
from tilestitch.cost.stream import streamed_cycles
from tilestitch.cost.surroundings import FROM_DDR, NOWHERE, Room, Shares, Surroundings, kept_bytes
from tilestitch.errors import DoesNotFit
from tilestitch.hardware.accelerator import Accelerator, CoreGroup, Level
from tilestitch.ir.graph import DimKind, Graph, Operator
from tilestitch.ir.region import Region
from tilestitch.ir.schedule import Kernel, Tiling
from tilestitch.ir.tiles import cuts_of, is_one_box, operator_boxes
from tilestitch.ops import generic
from tilestitch.ops.work import can_run
from tilestitch.schedule.splits import largest_piece, outermost, splits_worth_a_search
from tilestitch.units import ceil_div

SIZES_KEPT = 4  # tile sizes tried for one cut of the second operand, from the largest that fits
TOLERANCE = 1.05  # of the least estimate: within this, fewer tiles win
BINDING_TOLERANCE = 1.1  # likewise where results stay on chip: within this, the binding to cores decides first


@dataclass(frozen=True, slots=True)
class _Candidate:
    """One tiling with its estimate; `tiles` is the number of tiles of a core, parts included."""

    group: CoreGroup
    anchor: str | None
    tiling: Tiling
    estimate: Estimate
    tiles: int
    copied: int  # operands on chip that some core cannot read where they lie


def tile_kernel(
    graph: Graph,
    operators: tuple[Operator, ...],
    name: str,
    machine: Accelerator,
    around: Surroundings = NOWHERE,
    *,
    launches: bool = True,
) -> Kernel:
    """A tiling of nearly the least estimated cycles, over any parallel dims, with tiles by repeated halving.

    The kernel runs on one group of alike cores, of those whose units can run it. Among the candidates within
    `TOLERANCE` of the least, the one with the fewest tiles: the estimate is no finer than that, and fewer tiles are
    fewer instructions. Where tensors stay on chip, the split over cores is chosen before: of those within
    `BINDING_TOLERANCE`, the one whose cores find most operands where they lie, then the outermost. Ties go to the
    candidate found first. Raises `DoesNotFit` with the inequality of the smallest tile where nothing fits.
    """
    found, misfit = _fitting(graph, operators, machine, around, inside=False)
    if not found:  # inside the blocks of a grouped convolution there are many more cuts, which few kernels need
        found, misfit = _fitting(graph, operators, machine, around, inside=True)
    if not found and operators[-1].kind == generic.KIND and around.is_empty(machine):
        return _streamed(graph, operators[-1], name, machine, around.box, launches=launches)
    if not found:
        raise DoesNotFit(
            f"kernel {' + '.join(op.name for op in operators)}: its smallest tile needs {misfit}. "
            f"Try: a machine with more of that memory; strategy layerwise; a smaller batch."
        )
    if around.on_chip:  # kernels that hand on their results in the cores agree best on the outermost dims
        limit = BINDING_TOLERANCE * min(candidate.estimate.cycles for candidate in found)
        near = [candidate for candidate in found if candidate.estimate.cycles <= limit]
        sink = operators[-1]
        bound = min(near, key=lambda c: (c.copied, outermost(graph, sink, c.tiling.splits), c.estimate.cycles))
        found = [c for c in near if c.tiling.splits == bound.tiling.splits and c.copied == bound.copied]
    limit = TOLERANCE * min(candidate.estimate.cycles for candidate in found)
    best = min((c for c in found if c.estimate.cycles <= limit), key=lambda c: (c.tiles, c.estimate.cycles))
    return Kernel(
        name,
        tuple(op.name for op in operators),
        best.anchor,
        best.tiling,
        best.group.numbers,
        best.estimate.cycles,
        box=around.box,
        launches=launches,
    )


def _fitting(
    graph: Graph, operators: tuple[Operator, ...], machine: Accelerator, around: Surroundings, *, inside: bool
) -> tuple[list[_Candidate], str]:
    """All candidates that fit, and what the last one lacked that did not."""
    found: list[_Candidate] = []
    misfit = ""
    for group in machine.groups:
        if not can_run(group.core, operators, graph, machine):
            continue
        if around.results is Level.LB and machine.local(group.core, Level.LB) is None:
            misfit = misfit or "a local buffer for its results, which its cores do not have"
            continue
        shape = kernel_shape(graph, operators, machine, group.core)
        for splits, origins in splits_worth_a_search(shape, group.numbers, around):
            for candidate in _candidates(shape, machine, group, splits, origins, around, inside=inside):
                if candidate.estimate.misfit is not None:
                    misfit = candidate.estimate.misfit
                else:
                    found.append(candidate)
    return found, misfit or "another division among the cores"


def _streamed(
    graph: Graph, op: Operator, name: str, machine: Accelerator, box: Region | None, *, launches: bool
) -> Kernel:
    """A generic operator that does not fit, on the first core with a vector unit: it is whole, so it is not cut."""
    group = next(group for group in machine.groups if can_run(group.core, (op,), graph, machine))
    extents = tuple(dim.extent for dim in op.dims)
    tiling = Tiling((1,) * len(extents), extents, extents, tuple(range(len(extents))), (), ())
    cycles = streamed_cycles(graph, op, machine, group.core)
    return Kernel(name, (op.name,), None, tiling, group.numbers, cycles, True, box, launches)


def _candidates(
    shape: KernelShape,
    machine: Accelerator,
    group: CoreGroup,
    splits: tuple[int, ...],
    origins: Mapping[Operand, Shares],
    around: Surroundings,
    *,
    inside: bool,
) -> Iterator[_Candidate]:
    """Tilings under one core split: for each cut of the second operand's dims, the largest tiles that fit.

    Where nothing fits, the last one tried, with its misfit.
    """
    sink = shape.sink
    cuts = cuts_of(shape.graph, shape.operators)
    steps, blocks = cuts.steps, cuts.inside if inside else (0,) * len(cuts.steps)
    piece = largest_piece(around.iterations(sink).extents, steps, splits)
    kept = kept_bytes(shape, around, splits, steps)
    copied = sum(not found.direct for found in origins.values())
    parallel = [d for d, dim in enumerate(sink.dims) if dim.kind is DimKind.PARALLEL]
    whole = tuple(d for d in range(len(piece)) if d not in parallel)
    second = next((o.tensor for o in shape.operands if o.level is Level.WEIGHTS), None)
    second_dims = tuple(d for d in parallel if second is not None and d in shape.movers[second])
    other_dims = tuple(d for d in parallel if d not in second_dims)
    orders = [(*second_dims, *other_dims, *whole)]
    if second_dims and other_dims:
        orders.append((*other_dims, *second_dims, *whole))
    anchor = shape.anchor.name if shape.anchor is not None else None
    last: _Candidate | None = None
    any_fits, least = False, 0
    for second_cut in _halvings(piece, second_dims, steps, blocks):
        sizes_that_fit = 0
        for tile in _halvings(second_cut, other_dims, steps, blocks):
            if not is_one_box(sink, tile):
                continue
            reduction = _reduction(shape, machine, tile, around)
            figures = measure(shape, machine, splits, tile, steps, reduction, around, origins, kept)
            fits = False
            busy = figures.tiles * max(figures.matrix_cycles, figures.vector_cycles)
            if around.on_chip and least and busy > BINDING_TOLERANCE * least:
                continue  # no order helps
            for order in orders:
                for resident, found in _residencies(figures, machine, order):
                    tiling = Tiling(splits, tile, steps, order, reduction, resident)
                    last = _Candidate(group, anchor, tiling, found, figures.tiles * figures.parts, copied)
                    if found.misfit is None:
                        fits = True
                        least = min(least or found.cycles, found.cycles)
                        yield last
            any_fits = any_fits or fits
            sizes_that_fit += fits
            if sizes_that_fit == SIZES_KEPT:
                break
    if not any_fits and last is not None:
        yield last


def _halvings(
    tile: tuple[int, ...], dims: tuple[int, ...], steps: tuple[int, ...], blocks: tuple[int, ...]
) -> Iterator[tuple[int, ...]]:
    """`tile`, then with its extents along `dims` halved one after another, the outermost dim first, down to steps.

    Where there are `blocks`, the extents go on inside a step, by the largest that divide its block.
    """
    current = list(tile)
    yield tuple(current)
    for d in dims:
        while current[d] > steps[d]:
            current[d] = steps[d] * ceil_div(ceil_div(current[d], steps[d]), 2)
            yield tuple(current)
        while blocks[d] and current[d] > 1:
            current[d] = next(n for n in range(current[d] // 2, 0, -1) if blocks[d] % n == 0)
            yield tuple(current)


def _reduction(
    shape: KernelShape, machine: Accelerator, tile: tuple[int, ...], around: Surroundings
) -> tuple[int, ...]:
    """The largest parts of the anchor's reduction whose second operand fits half of its area.

    Without accumulators nothing keeps partial sums, so a reduction is one part.
    """
    anchor = shape.anchor
    if anchor is None:
        return ()
    extents = [dim.extent for dim in anchor.dims]
    memory = machine.local(shape.core, Level.WEIGHTS)
    operand = next((o for o in shape.operands if o.level is Level.WEIGHTS), None)
    if memory is None or operand is None or machine.local(shape.core, Level.ACCUMULATORS) is None:
        return tuple(extents)
    boxes = operator_boxes(shape.graph, shape.operators, Region((0,) * len(tile), tile))
    tensor = shape.graph.tensors[operand.tensor]
    cut = [d for d, dim in enumerate(anchor.dims) if dim.kind is DimKind.REDUCTION]
    assert shape.core.matrix is not None
    depth = shape.core.matrix.k

    def size() -> int:
        part = part_box(anchor, boxes[anchor.name], extents)
        return tensor.bytes_of(operand_region(shape, operand, boxes, part))

    room = around.rooms.get(Level.WEIGHTS, Room(memory.size_bytes)).bytes
    while 2 * size() > room:
        # Cut the longest loop; keep multiples of the array's depth as long as there are any.
        longest = max(cut, key=lambda d: (extents[d], -d))
        if extents[longest] == 1:
            break
        half = ceil_div(extents[longest], 2)
        extents[longest] = ceil_div(half, depth) * depth if half > depth else half
    return tuple(extents)


def _residencies(
    figures: TileFigures, machine: Accelerator, order: tuple[int, ...]
) -> Iterator[tuple[tuple[str, ...], Estimate]]:
    """Nothing kept in GB, then each operand kept that saves traffic, one added after another."""
    resident: tuple[str, ...] = ()
    found = estimate(figures, machine, order, frozenset())
    yield resident, found
    if machine.memory(Level.GB) is None or figures.misfit is not None:
        return
    for tensor in dict.fromkeys(o.tensor for o in figures.operands if o.shares is FROM_DDR):
        candidate = estimate(figures, machine, order, frozenset((*resident, tensor)))
        if candidate.misfit is None and (found.misfit is not None or candidate.ddr_bytes < found.ddr_bytes):
            resident, found = (*resident, tensor), candidate
            yield resident, found

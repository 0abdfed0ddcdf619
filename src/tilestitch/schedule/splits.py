"""How a kernel's work may be divided among cores, and which divisions are worth a search of tiles."""

from collections.abc import Sequence

from tilestitch.cost.shape import KernelShape, Operand
from tilestitch.cost.surroundings import Shares, Surroundings, made_sizes, nearest_cores, shares
from tilestitch.ir.boxes import Boxes
from tilestitch.ir.graph import Graph, Operator
from tilestitch.ir.region import Region
from tilestitch.ir.tiles import core_pieces, cuts_of
from tilestitch.units import ceil_div

SPLITS_KEPT = 5  # core splits that get a full search of tiles, best compute time first
LOCAL_SPLITS_KEPT = 3  # likewise where operands lie on chip
SPLITS_WORTH = 1.1  # of the least compute time: within this, splits are compared by what they copy


def splits_worth_a_search(
    shape: KernelShape, numbers: tuple[int, ...], around: Surroundings
) -> list[tuple[tuple[int, ...], tuple[int, ...], dict[Operand, Shares]]]:
    """Pieces per dim of the sink, for those splits over the cores `numbers` that take the least compute time.

    Each with the cores in the order in which they take the pieces, and where the operands on chip come from; among
    splits of nearly the same compute time those that copy least from core to core.
    """
    sink, cores = shape.sink, len(numbers)
    box = around.iterations(sink)
    steps = cuts_of(shape.graph, shape.operators).steps
    divisors = [d for d in range(1, cores + 1) if cores % d == 0]
    found: list[tuple[int, ...]] = []

    def extend(prefix: tuple[int, ...], left: int) -> None:
        if len(prefix) == len(sink.dims):
            found.append(prefix)
            return
        extent, step = box.extents[len(prefix)], steps[len(prefix)]
        for d in divisors:
            if d <= left and left % d == 0 and d <= ceil_div(extent, step):
                extend((*prefix, d), left // d)

    extend((), cores)
    if around.splits in found:
        found = [around.splits]
    if around.core_map is not None:
        outer = _dims_in_memory(shape.graph, sink)[0] if sink.dims else 0
        mapped = [splits for splits in found if splits and splits[outer] == around.core_map.parts]
        found = mapped or found  # a kernel with fewer rows than the map has parts takes the cores in its order
    fixed: dict[tuple[int, ...], tuple[int, ...]] = {}
    if around.core_map is not None:
        fixed = dict.fromkeys(found, numbers)
    if around.instead:
        orders = ((splits, _filling(shape, around, splits, steps)) for splits in found)
        able = ((splits, order) for splits, order in orders if order and set(order) <= set(numbers))
        fixed = {splits: order for splits, order in able if fixed.get(splits, order) == order}
        found = list(fixed)
    timed = []
    for splits in found:
        piece = largest_piece(box.extents, steps, splits)
        stop = tuple(a + b for a, b in zip(box.start, piece, strict=True))
        boxes = shape.boxes(Region(box.start, stop))
        cycles = sum(shape.cycles(op, boxes[op.name].extents) for op in shape.operators)
        rank = outermost(shape.graph, sink, splits) if around.on_chip else (len(timed),)
        timed.append((cycles, rank, splits))
    timed.sort()
    if not around.sources or not timed:
        return [(splits, numbers, {}) for _, _, splits in timed[:SPLITS_KEPT]]
    known = []
    worth = [one for at, one in enumerate(timed) if at < SPLITS_KEPT or one[0] <= SPLITS_WORTH * timed[0][0]]
    _bind(shape, around, numbers, [(splits, fixed.get(splits)) for _, _, splits in worth], steps)
    for cycles, rank, splits in worth:
        order, origins = around.bound[numbers, splits, fixed.get(splits)]
        copied = sum(not origin.direct and origin.lb > 0 for origin in origins.values())
        known.append((cycles, copied, rank, splits, order, origins))
    known.sort(key=lambda one: one[:3])
    local = min(known, key=lambda one: (one[1], one[0], one[2]))  # the one that copies least is always tried
    kept = known[:LOCAL_SPLITS_KEPT]
    return [(splits, *others) for _, _, _, splits, *others in (kept if local in kept else [*kept[:-1], local])]


def _bind(
    shape: KernelShape,
    around: Surroundings,
    numbers: tuple[int, ...],
    asked: Sequence[tuple[tuple[int, ...], tuple[int, ...] | None]],
    steps: tuple[int, ...],
) -> None:
    """Find the order of the cores, unless it is fixed, and where what they need comes from, under splits all at once.

    Kernel and sources are the same in all surroundings that share `around.bound`, so each is found once.
    """
    new = [one for one in asked if (numbers, *one) not in around.bound]
    if not new:
        return
    pieces = [core_pieces(around.iterations(shape.sink), splits, steps) for splits, _ in new]
    needs = shape.needs([piece for of_split in pieces for piece in of_split], around.sources)
    end = 0
    for (splits, fixed), of_split in zip(new, pieces, strict=True):
        begin, end = end, end + len(of_split)
        own = {operand: Boxes(one.start[:, begin:end], one.stop[:, begin:end]) for operand, one in needs.items()}
        order = fixed or nearest_cores(shape, around, numbers, own)
        around.bound[numbers, splits, fixed] = order, shares(shape, around, order, own)


def largest_piece(extents: tuple[int, ...], steps: tuple[int, ...], splits: tuple[int, ...]) -> tuple[int, ...]:
    """Extents of the largest piece of a core."""
    return tuple(
        min(e, step * ceil_div(ceil_div(e, step), s)) for e, step, s in zip(extents, steps, splits, strict=True)
    )


def outermost(graph: Graph, sink: Operator, splits: tuple[int, ...]) -> tuple[int, ...]:
    """Smallest for the split that cuts most along the dims that are outermost in memory."""
    return tuple(-splits[dim] for dim in _dims_in_memory(graph, sink))


def _dims_in_memory(graph: Graph, sink: Operator) -> list[int]:
    """The dims of an operator as they lie in its result's memory, outermost first; those that do not move it last."""
    write = sink.writes[0]
    in_memory = [dim for axis in graph.tensors[write.tensor].layout for dim, _ in write.axes[axis].terms]
    return [*in_memory, *(dim for dim in range(len(sink.dims)) if dim not in in_memory)]


def _filling(
    shape: KernelShape, around: Surroundings, splits: tuple[int, ...], steps: tuple[int, ...]
) -> tuple[int, ...]:
    """The cores in the order in which each makes exactly the part whose place the result takes; none if it cannot."""
    pieces = core_pieces(around.iterations(shape.sink), splits, steps)
    holder = {part: core for core, part in around.instead}
    order = tuple(holder.get(made_sizes(shape, piece, around.kept)[0][0], -1) for piece in pieces)
    return order if len(holder) == len(pieces) and sorted(order) == sorted(holder.values()) else ()

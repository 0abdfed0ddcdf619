"""How a kernel's work may be divided among cores, and which divisions are worth a search of tiles."""

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from tilestitch.base.units import ceil_div
from tilestitch.hardware.accelerator import Level
from tilestitch.ir.graph import DimKind, Graph, Operator
from tilestitch.ir.region import Region
from tilestitch.kernels.division import cycles_under, most_made, nearest_cores, needed_by, parts_of, shares
from tilestitch.kernels.nest import Nest
from tilestitch.kernels.shape import KernelShape, Operand, local_names
from tilestitch.kernels.surroundings import Bound, Shares, Surroundings, made_in_parts

SPLITS_KEPT = 5  # core splits that get a full search of tiles, best compute time first
LOCAL_SPLITS_KEPT = 3  # likewise where operands lie on chip
MOST_MAPPED = 64  # cores of a cluster, up to which it is looked at which one holds what
SLOW = 2.0  # times the least compute time: a split that is decided already gives way, where it may
SPLITS_WORTH = 1.1  # of the least compute time: within this, splits are compared by what they copy

Loops = tuple[np.ndarray, np.ndarray, np.ndarray]  # where iterations start, their extents, at which steps they are cut


class CoreOrders:
    """Orders of cores under splits, each found once: of one kernel, in surroundings that have the same sources."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...] | None], Bound] = {}

    def under(
        self,
        splits: tuple[int, ...],
        shape: KernelShape,
        nest: Nest,
        around: Surroundings,
        numbers: tuple[int, ...],
        loops: Loops,
        fixed: tuple[int, ...] | None,
    ) -> Bound:
        """The order of the cores under a split, unless it is fixed, and where what they need comes from."""
        key = numbers, splits, fixed
        if key not in self._known:
            self._known[key] = _bound(shape, nest, around, numbers, _parts(around, loops, splits), fixed)
        return self._known[key]


def splits_worth_a_search(
    shape: KernelShape,
    nest: Nest,
    numbers: tuple[int, ...],
    around: Surroundings,
    orders: CoreOrders,
    *,
    gives_way: bool = False,
) -> list[tuple[tuple[int, ...], tuple[int, ...], Mapping[Operand, Shares]]]:
    """Pieces per dim of the sink, for those splits over the cores `numbers` that take the least compute time.

    Each with the cores in the order in which they take the pieces, and where the operands on chip come from; among
    splits of nearly the same compute time those that copy least from core to core.
    """
    if around.strips:
        return _of_strips(shape, nest, numbers, around, orders)
    sink, box = shape.sink, around.iterations(shape.sink)
    steps = shape.cuts.steps
    found = possible_splits(tuple(map(ceil_div, box.extents, steps)), len(numbers))
    in_memory = _dims_in_memory(shape.graph, sink)
    loops = _loops(box, steps)
    if around.splits in found and not (gives_way and _is_slow(nest, loops, around.splits, found)):
        found = [around.splits]
    if around.core_map is not None:
        mapped = [splits for splits in found if splits and splits[in_memory[0]] == around.core_map.parts]
        found = mapped or found  # a kernel with fewer rows than the map has parts takes the cores in its order
    fixed: dict[tuple[int, ...], tuple[int, ...]] = {}
    if around.core_map is not None:
        fixed = dict.fromkeys(found, numbers)
    if around.instead:
        filled = ((splits, _filling(shape, nest, around, splits, steps)) for splits in found)
        able = ((splits, order) for splits, order in filled if order and set(order) <= set(numbers))
        fixed = {splits: order for splits, order in able if fixed.get(splits, order) == order}
        found = list(fixed)
    if not found:
        return []
    cycles = cycles_under(nest, *loops, np.array(found, np.int64).reshape(len(found), len(steps))).tolist()
    ranks = [
        tuple(-splits[dim] for dim in in_memory) if around.on_chip else (number,) for number, splits in enumerate(found)
    ]
    timed = sorted(zip(cycles, ranks, found, strict=True))
    if not around.sources:
        return [(splits, numbers, {}) for _, _, splits in timed[:SPLITS_KEPT]]
    known = []
    for number, (busy, rank, splits) in enumerate(timed):
        if number >= SPLITS_KEPT and busy > SPLITS_WORTH * timed[0][0]:
            break
        order, origins = orders.under(splits, shape, nest, around, numbers, loops, fixed.get(splits))
        copied = sum(not origin.direct and origin.lb > 0 for origin in origins.values())
        known.append((busy, copied, rank, splits, order, origins))
    known.sort(key=lambda one: one[:3])
    local = min(known, key=lambda one: (one[1], one[0], one[2]))  # the one that copies least is always tried
    kept = known[:LOCAL_SPLITS_KEPT]
    return [(splits, *others) for _, _, _, splits, *others in (kept if local in kept else [*kept[:-1], local])]


def _is_slow(nest: Nest, loops: Loops, splits: tuple[int, ...], others: list[tuple[int, ...]]) -> bool:
    """Whether the parts of a split take much longer than those of another."""
    cycles = cycles_under(nest, *loops, np.array([splits, *others], np.int64).reshape(1 + len(others), len(splits)))
    return bool(cycles[0] > SLOW * cycles.min())


def most_pieces(op: Operator) -> tuple[int, ...]:
    """Of each dim how many pieces of it cores can have: a reduction stays whole."""
    return tuple(dim.extent if dim.kind is DimKind.PARALLEL else 1 for dim in op.dims)


@lru_cache(maxsize=4096)
def possible_splits(units: tuple[int, ...], cores: int) -> list[tuple[int, ...]]:
    """Every way to give each dim a divisor of the cores' number, no more than it has `units`, for no more than all."""
    divisors = [d for d in range(1, cores + 1) if cores % d == 0]
    found: list[tuple[tuple[int, ...], int]] = [((), cores)]  # with how many each piece can still be cut into
    for most in units:
        found = [((*splits, d), left // d) for splits, left in found for d in divisors if d <= most and left % d == 0]
    return [splits for splits, _ in found]


def _loops(box: Region, steps: tuple[int, ...]) -> Loops:
    """Where the iterations start, their extents, and the steps at which they may be cut."""
    start, extents = np.array(box.start, np.int64), np.array(box.extents, np.int64)
    return start, extents, np.array(steps, np.int64)


def _parts(around: Surroundings, loops: Loops, splits: tuple[int, ...]) -> np.ndarray:
    """What each core computes: the strips that are given, else the parts under a split."""
    if around.strips:
        return np.array([(strip.start, strip.stop) for _, strip in around.strips], np.int64)
    return parts_of(*loops, np.array(splits, np.int64))


def _of_strips(
    shape: KernelShape, nest: Nest, numbers: tuple[int, ...], around: Surroundings, orders: CoreOrders
) -> list[tuple[tuple[int, ...], tuple[int, ...], Mapping[Operand, Shares]]]:
    """The division that is given: along each dim as many pieces as there are places where a strip begins."""
    cores, strips = (tuple(column) for column in zip(*around.strips, strict=True))
    splits = tuple(len(set(starts)) for starts in zip(*(strip.start for strip in strips), strict=True))
    steps = shape.cuts.steps
    if not set(cores) <= set(numbers) or (around.instead and _filling(shape, nest, around, splits, steps) != cores):
        return []
    if not around.sources:
        return [(splits, cores, {})]
    loops = _loops(around.iterations(shape.sink), steps)
    return [(splits, *orders.under(splits, shape, nest, around, cores, loops, cores))]


def _bound(
    shape: KernelShape,
    nest: Nest,
    around: Surroundings,
    numbers: tuple[int, ...],
    parts: np.ndarray,
    fixed: tuple[int, ...] | None,
) -> Bound:
    """The order of the cores that compute these parts, unless it is fixed, and where what they need comes from."""
    lying, rows = around.lying
    held = [number for number, operand in enumerate(shape.operands) if operand.tensor in rows]
    operands = np.array(held, np.int64)
    spans = np.array([rows[shape.operands[number].tensor] for number in held], np.int64).reshape(-1, 2)
    needs = needed_by(nest, parts, operands)
    order, in_lb = np.array(fixed or numbers, np.int64), shape.home is Level.LB
    if fixed is None and in_lb and len(numbers) <= MOST_MAPPED:
        order = nearest_cores(nest, needs, operands, spans, lying, order)
    found = shares(nest, needs, operands, spans, lying, order, in_lb)
    origins = {
        shape.operands[number]: Shares(bool(direct), *levels)
        for number, (direct, *levels) in zip(held, found.tolist(), strict=True)
    }
    return tuple(order.tolist()), origins


def outermost(graph: Graph, sink: Operator, splits: tuple[int, ...]) -> tuple[int, ...]:
    """Smallest for the split that cuts most along the dims that are outermost in memory."""
    return tuple(-splits[dim] for dim in _dims_in_memory(graph, sink))


def _dims_in_memory(graph: Graph, sink: Operator) -> list[int]:
    """The dims of an operator as they lie in its result's memory, outermost first; those that do not move it last."""
    write = sink.writes[0]
    in_memory = [dim for axis in graph.tensors[write.tensor].layout for dim, _ in write.axes[axis].terms]
    return [*in_memory, *(dim for dim in range(len(sink.dims)) if dim not in in_memory)]


def _filling(
    shape: KernelShape, nest: Nest, around: Surroundings, splits: tuple[int, ...], steps: tuple[int, ...]
) -> tuple[int, ...]:
    """The cores in the order in which each makes exactly the part whose place the result takes; none if it cannot."""
    parts = _parts(around, _loops(around.iterations(shape.sink), steps), splits)
    if len(parts) != len(around.instead):
        return ()
    holder = {part: core for core, part in around.instead}
    made = made_in_parts(shape, nest, parts, around.kept)
    order = tuple(holder.get(of_part[0][0], -1) for of_part in made)
    return order if len(holder) == len(parts) and sorted(order) == sorted(holder.values()) else ()


def kept_bytes(
    shape: KernelShape, nest: Nest, around: Surroundings, splits: tuple[int, ...], steps: tuple[int, ...]
) -> int:
    """What the results take where they stay: in GB all of their pieces, in LB the largest part of a core."""
    names = local_names(shape.graph, shape.operators)
    loops = _loops(around.iterations(shape.sink), steps)
    in_gb = around.results is Level.GB
    parts = parts_of(*loops, np.ones(len(splits), np.int64)) if in_gb else _parts(around, loops, splits)
    return int(most_made(nest, parts, np.array([names.index(name) for name in around.kept], np.int64)))

"""Choose how one kernel is cut: splits over cores, tiles, loop order, parts of the reduction, what stays in GB."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tilestitch.base.errors import EVERY_OPERATOR_ALONE, SMALLER_BATCH, DoesNotFit
from tilestitch.cost.place import LEVELS, Place, misfit_text, place_of, rates_of
from tilestitch.cost.stream import streamed_cycles
from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.ir.graph import DimKind, Graph, Operator
from tilestitch.ir.region import Region
from tilestitch.ir.schedule import Kernel, Tiling
from tilestitch.ir.tile_rule import BY_ESTIMATE, TileRule
from tilestitch.kernels.nest import ARRAY_DEPTH, CUT_BY, CUT_TO_FIT, ON_TREE, Nest, flatten, is_alone
from tilestitch.kernels.runnable import multiplies_by_itself
from tilestitch.kernels.shape import KernelShape, Signatures, kernel_shape
from tilestitch.kernels.surroundings import NOWHERE, Room, Surroundings, made_in_parts
from tilestitch.ops import generic
from tilestitch.ops.work import can_run
from tilestitch.schedule.halves import have_room, with_halves
from tilestitch.schedule.search import CYCLES, NUMBER, ORDER, Cuts, Found
from tilestitch.schedule.searches import Searches
from tilestitch.schedule.splits import CoreOrders, kept_bytes, outermost, splits_worth_a_search
from tilestitch.schedule.whole import Tiled, with_whole_constants

TOLERANCE = 1.05  # of the least estimate: within this, fewer tiles win
ON_TREES = 16  # times the depth of a tree's units: a part of a reduction that is cut to fit has no fewer iterations
BINDING_TOLERANCE = 1.1  # likewise where results stay on chip: within this, the binding to cores decides first


class Shapes:
    """Shapes and loops of a graph's kernels, each found once: neither depends on what lies around a kernel."""

    def __init__(self, graph: Graph, machine: Accelerator, like: "Shapes | None" = None) -> None:
        """`like` are those of another graph on the same machine: what either searches, both know."""
        self.graph, self.machine = graph, machine
        self.searches = Searches(machine) if like is None else like.searches
        self.signatures = Signatures(graph, None if like is None else like.signatures)
        self._shapes: dict[tuple[tuple[str, ...], int], KernelShape] = {}
        self._nests: dict[tuple[tuple[str, ...], int], Nest] = {}
        self._alike: dict[tuple, Nest] = {} if like is None else like._alike  # whatever the names
        self._kept_bytes: dict[tuple, int] = {}
        self._made: dict[tuple, list[list[tuple[Region, int]]]] = {}

    def shape(self, operators: tuple[Operator, ...], core: int) -> KernelShape:
        """Of a kernel on a core."""
        key = tuple([op.name for op in operators]), core
        if key not in self._shapes:
            self._shapes[key] = kernel_shape(self.graph, operators, self.machine, self.machine.cores[core])
        return self._shapes[key]

    def nest(self, operators: tuple[Operator, ...], core: int) -> Nest:
        """Its loops; raises `OverflowError` where an index is too large for them."""
        key = tuple([op.name for op in operators]), core
        if key not in self._nests:
            alike = self.signatures.of(key[0])[0], tuple(op.attributes for op in operators), core
            if alike not in self._alike:
                self._alike[alike] = flatten(self.shape(operators, core), self.machine)
            self._nests[key] = self._alike[alike]
        return self._nests[key]

    def kept_bytes(self, shape: KernelShape, nest: Nest, around: Surroundings, splits: tuple[int, ...]) -> int:
        """See the function of this name."""
        if not around.kept or around.instead or around.in_place:
            return 0
        divided = None if around.results is Level.GB else (splits, around.strips)
        key = tuple([op.name for op in shape.operators]), around.kept, around.box, divided, around.results
        if key not in self._kept_bytes:
            self._kept_bytes[key] = kept_bytes(shape, nest, around, splits, shape.cuts.steps)
        return self._kept_bytes[key]

    def made_in_parts(
        self, operators: tuple[Operator, ...], core: int, parts: np.ndarray, results: tuple[str, ...]
    ) -> list[list[tuple[Region, int]]]:
        """See the function of this name; nobody may change what it gives."""
        key = tuple([op.name for op in operators]), core, parts.tobytes(), results
        if key not in self._made:
            self._made[key] = made_in_parts(self.shape(operators, core), self.nest(operators, core), parts, results)
        return self._made[key]


@dataclass(frozen=True, slots=True, eq=False)
class _Searched:
    """What the search found under one split over some cores."""

    cores: tuple[int, ...]  # in the order in which they take parts
    shape: KernelShape
    splits: tuple[int, ...]
    cuts: Cuts
    found: Found
    copied: int  # operands on chip that some core cannot read where they lie
    direct: frozenset[str]  # tensors on chip that all cores can
    place: Place


@dataclass(frozen=True, slots=True, eq=False)
class Rooms:
    """Those in which a search finds the same, everything else around a kernel being alike."""

    results: Level
    tested: Sequence[
        tuple[int, Sequence[tuple[float, float]]]
    ]  # bytes of results that stay; what fits and what does not

    def hold(self, rooms: Mapping[Level, Room], machine: Accelerator) -> bool:
        """Whether some rooms are such; an absent one is the whole memory."""
        for size_bytes, tested in self.tested:
            for level, (fits, does_not) in zip(LEVELS, tested, strict=True):
                memory = machine.memory(level)
                if memory is not None:
                    room = rooms.get(level, Room(memory.size_bytes)).left(size_bytes if level is self.results else 0)
                    if not fits <= room < does_not:
                        return False
        return True


def tile_kernel(
    shapes: Shapes,
    operators: tuple[Operator, ...],
    name: str,
    around: Surroundings = NOWHERE,
    *,
    launches: bool = True,
    orders: CoreOrders | None = None,
    rule: TileRule = BY_ESTIMATE,
) -> Kernel:
    """See `tile_in_rooms`."""
    return tile_in_rooms(shapes, operators, name, around, launches=launches, orders=orders, rule=rule)[0]


def tile_in_rooms(
    shapes: Shapes,
    operators: tuple[Operator, ...],
    name: str,
    around: Surroundings = NOWHERE,
    *,
    launches: bool = True,
    orders: CoreOrders | None = None,
    rule: TileRule = BY_ESTIMATE,
) -> tuple[Kernel, Rooms | None]:
    """A tiling of nearly the least estimated cycles, over any parallel dims, with tiles by repeated halving.

    The kernel runs on one group of alike cores, of those whose units can run it. Among the candidates within
    `TOLERANCE` of the least, the one with the fewest tiles: the estimate is no finer than that, and fewer tiles are
    fewer instructions. Where tensors stay on chip, the split over cores is chosen before: of those within
    `BINDING_TOLERANCE`, the one whose cores find most operands where they lie, then the outermost. Ties go to the
    candidate found first. Raises `DoesNotFit` with the inequality of the smallest tile where nothing fits. `orders`
    of cores are of this kernel among these sources. Gives the rooms as well in which the same is found; None where
    they decide about more than what fits.
    """
    graph, machine = shapes.graph, shapes.machine
    if multiplies_by_itself(graph, operators, machine):
        raise DoesNotFit(
            f"kernel {' + '.join(op.name for op in operators)}: it makes the second operand of its own product.",
            EVERY_OPERATOR_ALONE,
        )
    orders = CoreOrders() if orders is None else orders
    tested: dict[int, np.ndarray] = {}
    searched, misfit = _fitting(shapes, operators, around, orders, rule, tested, inside=False)
    if not searched:  # inside the blocks of a grouped convolution there are many more cuts, which few kernels need
        searched, misfit = _fitting(shapes, operators, around, orders, rule, tested, inside=True)
    if not searched and around.is_empty(machine) and [op.kind for op in operators] == [generic.KIND]:
        return _streamed(graph, operators[-1], name, machine, around.box, launches=launches), None
    if not searched:
        raise DoesNotFit(
            f"kernel {' + '.join(op.name for op in operators)}: its smallest tile needs {misfit}.",
            "a machine with more of that memory",
            *((EVERY_OPERATOR_ALONE,) if len(operators) > 1 else ()),
            SMALLER_BATCH,
        )
    if around.on_chip:  # kernels that hand on their results in the cores agree best on the outermost dims
        searched = _well_bound(graph, operators[-1], searched)
    cycles, number = (np.concatenate([one.found.figures[:, column] for one in searched]) for column in (CYCLES, NUMBER))
    near = _near(cycles, number, rule.least)
    best = int(near[np.lexsort((cycles[near], number[near]))[0]])
    ends = np.cumsum([len(each.found.figures) for each in searched])
    one = searched[int(np.searchsorted(ends, best, side="right"))]
    best -= int(ends[searched.index(one)]) - len(one.found.figures)
    shape, found = one.shape, one.found
    anchor = shape.anchor
    resident, estimated = found.resident[best], int(found.figures[best, CYCLES])
    if rule.whole and machine.memory(Level.GB) is not None:
        nest, order = shapes.nest(operators, one.cores[0]), one.cuts.orders[int(found.figures[best, ORDER])]
        kept = shapes.kept_bytes(shape, nest, around, one.splits)
        tiled = Tiled(found.tiles[best], found.parts[best], order, resident)
        resident, estimated = with_whole_constants(shape, nest, rates_of(machine), one.place, tiled, tested[kept])
    tiling = Tiling(
        one.splits,
        _numbers(found.tiles[best]),
        _numbers(one.cuts.steps),
        _numbers(one.cuts.orders[int(found.figures[best, ORDER])]),
        () if anchor is None else _numbers(found.parts[best, : len(anchor.dims)]),
        tuple(dict.fromkeys(o.tensor for o, held in zip(shape.operands, resident, strict=True) if held)),
    )
    kernel = Kernel(
        name,
        tuple(op.name for op in operators),
        None if anchor is None else anchor.name,
        tiling,
        one.cores,
        estimated,
        box=around.box,
        launches=launches,
    )
    if all(core.array is None and core.inside is None for core in machine.cores):
        if rule.first_cycles or rule.last_cycles:
            nest = shapes.nest(operators, one.cores[0])
            kept = shapes.kept_bytes(shape, nest, around, one.splits)
            asked = _in_halves(shape, tiling, around, one.direct, rule, machine, kept, tested[kept])
            if asked is tiling or have_room(shape, nest, rates_of(machine), one.place, asked, tested[kept]):
                kernel = replace(kernel, tiling=asked)
        rows = tuple((size_bytes, found.tolist()) for size_bytes, found in tested.items())
        return kernel, Rooms(around.results, rows)
    from tilestitch.schedule.mapped import mapped_kernel  # a mapper, which cores without an array do not need

    kept = shapes.kept_bytes(shape, shapes.nest(operators, one.cores[0]), around, one.splits)
    return mapped_kernel(shape, machine, kernel, around, kept) or kernel, None


def _in_halves(
    shape: KernelShape,
    tiling: Tiling,
    around: Surroundings,
    direct: Collection[str],
    rule: TileRule,
    machine: Accelerator,
    kept: int,
    tested: np.ndarray,
) -> Tiling:
    """With tiles in halves, where there is room for them in GB; adds to what was `tested`."""
    halved, need = with_halves(shape, tiling, rule, around, direct)
    memory = machine.memory(Level.GB)
    if memory is None or not need:
        return halved
    room = around.rooms.get(Level.GB, Room(memory.size_bytes)).left(kept if around.results is Level.GB else 0)
    level = LEVELS.index(Level.GB)
    if need > room:
        tested[level, 1] = min(tested[level, 1], need)
        return tiling
    tested[level, 0] = max(tested[level, 0], need)
    return halved


def _near(cycles: np.ndarray, number: np.ndarray, least: int) -> np.ndarray:
    """Which tilings are near the least estimate of those with so many tiles, or of all where none has so many."""
    enough = number >= min(least, number.max())
    return np.flatnonzero(enough & (cycles <= TOLERANCE * cycles[enough].min()))


def _well_bound(graph: Graph, sink: Operator, searched: Sequence[_Searched]) -> list[_Searched]:
    """What was found under the best split over cores, as far as it is near the least estimate."""
    limit = BINDING_TOLERANCE * min(float(one.found.figures[:, CYCLES].min()) for one in searched)
    near = []
    for one in searched:
        rows = one.found.figures[:, CYCLES] <= limit
        if rows.any():
            figures, tiles, parts, resident = (array[rows] for array in one.found[:4])
            found = one.found._replace(figures=figures, tiles=tiles, parts=parts, resident=resident)
            near.append(replace(one, found=found))
    best = min(
        near,
        key=lambda one: (one.copied, outermost(graph, sink, one.splits), float(one.found.figures[:, CYCLES].min())),
    )
    return [one for one in near if one.splits == best.splits and one.copied == best.copied]


def _numbers(row: np.ndarray) -> tuple[int, ...]:
    return tuple(int(number) for number in row)


def _fitting(
    shapes: Shapes,
    operators: tuple[Operator, ...],
    around: Surroundings,
    orders: CoreOrders,
    rule: TileRule,
    tested: dict[int, np.ndarray],
    *,
    inside: bool,
) -> tuple[list[_Searched], str]:
    """What was found under every split over cores under which something fits; what the last one lacked that did not.

    Adds to what was `tested`, by the bytes of results that stay: see `Found`.
    """
    graph, machine = shapes.graph, shapes.machine
    found: list[_Searched] = []
    misfit = ""
    for group in machine.groups:
        if not can_run(group.core, operators, graph, machine):
            continue
        if around.results is Level.LB and machine.local(group.core, Level.LB) is None:
            misfit = misfit or "a local buffer for its results, which its cores do not have"
            continue
        shape = shapes.shape(operators, group.numbers[0])
        try:
            nest = shapes.nest(operators, group.numbers[0])
        except OverflowError:
            raise DoesNotFit(
                f"kernel {' + '.join(op.name for op in operators)}: its loops or tensors need indices of more than "
                "64 bits.",
                "a network with smaller tensors",
                SMALLER_BATCH,
            ) from None
        steps = shape.cuts.steps
        numbers = group.numbers
        if around.core_map is not None and set(around.core_map.cores) <= set(numbers):
            numbers = around.core_map.cores
        for splits, cores, origins in splits_worth_a_search(shape, nest, numbers, around, orders, gives_way=rule.even):
            kept = shapes.kept_bytes(shape, nest, around, splits)
            place = place_of(shape, machine, splits, steps, around, origins, kept)
            cuts = _cuts(shape, splits, around, rule, _fewest(nest, shape, rule), inside=inside)
            result = shapes.searches.find(nest, place, cuts)
            before = tested.get(kept, result.tested)
            tested[kept] = np.stack(
                [np.maximum(before[:, 0], result.tested[:, 0]), np.minimum(before[:, 1], result.tested[:, 1])], axis=1
            )
            if len(result.figures):
                copied = sum(not origin.direct for origin in origins.values())
                direct = frozenset(operand.tensor for operand, origin in origins.items() if origin.direct)
                found.append(_Searched(cores, shape, splits, cuts, result, copied, direct, place))
            elif result.level >= 0:
                misfit = misfit_text(machine, result.level, result.need, place.rooms)
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


def _fewest(nest: Nest, shape: KernelShape, rule: TileRule) -> int:
    """Iterations below which a part of the reduction is not halved so that a tile fits; 0: no part is."""
    depth = int(nest.core[ARRAY_DEPTH])
    if nest.core[ON_TREE]:
        return ON_TREES * depth if nest.core[ON_TREE] == CUT_TO_FIT else 0
    return 2 * depth if rule.parts and nest.core[CUT_BY] >= 0 and is_alone(shape) else 0


def _cuts(
    shape: KernelShape, splits: tuple[int, ...], around: Surroundings, rule: TileRule, fewest: int, *, inside: bool
) -> Cuts:
    """The tiles to try under one split: the second operand's dims are cut first, and either may be the outer loops."""
    sink, cuts = shape.sink, shape.cuts
    parallel = [d for d, dim in enumerate(sink.dims) if dim.kind is DimKind.PARALLEL]
    whole = [d for d in range(len(sink.dims)) if d not in parallel]
    tensor = None if shape.anchor is None else shape.anchor.reads[1].tensor
    second = [d for d in parallel if tensor is not None and d in shape.movers[tensor]]
    others = [d for d in parallel if d not in second]
    grain = 0 if shape.core.matrix is None or shape.core.array is not None else shape.core.matrix.n * rule.columns
    orders = [[*second, *others, *whole]]
    if second and others:
        orders.append([*others, *second, *whole])
    return Cuts(
        np.array(around.largest_piece(sink, splits, cuts.steps), np.int64),
        np.array(cuts.steps, np.int64),
        np.array(cuts.inside if inside else (0,) * len(cuts.steps), np.int64),
        np.array([grain if d in second else 0 for d in range(len(cuts.steps))], np.int64),
        np.array(second, np.int64),
        np.array(others, np.int64),
        np.array(orders, np.int64).reshape(len(orders), len(sink.dims)),
        BINDING_TOLERANCE if around.on_chip else 0.0,
        fewest,
    )

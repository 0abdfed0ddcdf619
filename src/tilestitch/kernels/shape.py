"""What follows from the operators of a kernel alone: its anchor, its operands and results, and who needs what."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import TypeVar

from tilestitch.hardware.accelerator import Accelerator, Core, Level
from tilestitch.ir.boxes import Boxes, hulls, read_regions
from tilestitch.ir.graph import Access, DimKind, Graph, Operator, Tensor
from tilestitch.ir.region import Region
from tilestitch.ir.schedule import Kernel
from tilestitch.ir.tiles import Cuts, cuts_of, operator_boxes
from tilestitch.ops import is_elementwise
from tilestitch.ops.streaming import CARRY
from tilestitch.ops.work import on_matrix_unit, operand_dtype, tile_cycles


@dataclass(frozen=True, slots=True, eq=False)
class Operand:
    """A tensor that a kernel reads from outside, and into which area of a core it goes.

    Each belongs to one `KernelShape`, and equals itself alone: lowering looks them up for every instruction.
    """

    tensor: str
    level: Level  # where the core has its operands (LB, else GB), or WEIGHTS
    in_parts: bool  # multiplied by the anchor and read by nobody else, so that a part of a reduction needs a part of it
    from_the_start: bool  # multiplied by the anchor, so that the first part needs it
    reader: str | None = None  # the product that alone reads this part of the tensor, where products read apart parts

    def is_read_by(self, op: Operator) -> bool:
        """Whether an operator reads this part, if it reads the tensor there."""
        return self.reader is None or self.reader == op.name


@dataclass(frozen=True)
class KernelShape:
    """What follows from a kernel's operators and its core: its anchor, operands and results."""

    graph: Graph
    core: Core
    home: Level  # where a tile's operands and results lie: LB, or GB for a core without
    operators: tuple[Operator, ...]
    anchor: Operator | None
    operands: tuple[Operand, ...]
    results: tuple[str, ...]  # tensors that leave the kernel
    matrix: frozenset[str]  # operators on the matrix unit

    @property
    def sink(self) -> Operator:
        return self.operators[-1]

    @cached_property
    def movers(self) -> Mapping[str, frozenset[int]]:
        """Per operand's tensor, the dims of the sink that move what a tile needs of it."""
        return _movers(self)

    @cached_property
    def padded(self) -> bool:
        """Whether an operator reads beyond the border of an operand."""
        reads = ((op, read) for op in self.operators for read in op.reads)
        return any(_leaves(read.hull(op.whole), self.graph.tensors[read.tensor]) for op, read in reads)

    @cached_property
    def cuts(self) -> Cuts:
        """Where the dims of the sink may be cut."""
        return cuts_of(self.graph, self.operators)

    def cycles(self, op: Operator, extents: tuple[int, ...]) -> int:
        """Of one of its operators on so many iterations."""
        dtype, matrix = operand_dtype(op, self.graph), op.name in self.matrix
        if matrix and self.core.array is not None:
            from tilestitch.mapping.tile import tile_cost  # a fifth of all that is imported, for few machines

            return tile_cost(self.graph, op, extents, self.core.array).cycles
        if matrix and self.core.inside is not None:
            from tilestitch.mapping.network import nest_of_tile
            from tilestitch.mapping.tree.tile import tile_on_tree

            return tile_on_tree(nest_of_tile(self.graph, op, extents), self.core.inside).cycles
        return tile_cycles(op, Region.whole(extents), dtype, self.core, matrix=matrix)

    @cached_property
    def in_place(self) -> Mapping[str, str]:
        """Per operator that can write where an operand lay, that operand's tensor."""
        found = {op.name: _in_place_operand(self, op) for op in self.operators}
        return {name: tensor for name, tensor in found.items() if tensor is not None}


def _leaves(hull: Region, tensor: Tensor) -> bool:
    return any(a < 0 or b > size for a, b, size in zip(*hull, tensor.shape, strict=True))


def kernel_shape(graph: Graph, operators: Sequence[Operator], machine: Accelerator, core: Core) -> KernelShape:
    """Sort the tensors of a kernel into operands, inner tensors and results."""
    produced = {name for op in operators for name in op.outputs}
    members = {op.name for op in operators}
    matrix = {op.name for op in operators if on_matrix_unit(op, operand_dtype(op, graph), machine)}
    home = machine.home(core)
    anchor = next((op for op in operators if op.name in matrix), None)
    operands: dict[tuple[str, Level, str | None], list[bool]] = {}  # whether each reader is a product of the anchor
    apart = _read_apart(operators, matrix)
    for op in operators:
        for number, read in enumerate(op.reads):
            if read.tensor in produced or read.indirect_axis is not None:
                continue
            second = number == 1 and op.name in matrix and machine.local(core, Level.WEIGHTS) is not None
            reader = op.name if second and read.tensor in apart else None
            key = (read.tensor, Level.WEIGHTS if second else home, reader)
            operands.setdefault(key, []).append(op is anchor and number < 2)
    results = tuple(
        name
        for op in operators
        for name in op.outputs
        if name in graph.outputs or any(c.name not in members for c in graph.consumers.get(name, ()))
    )
    return KernelShape(
        graph,
        core,
        home,
        tuple(operators),
        anchor,
        tuple(Operand(name, level, all(by), any(by), reader) for (name, level, reader), by in operands.items()),
        tuple(dict.fromkeys(results)),
        frozenset(matrix),
    )


def _read_apart(operators: Sequence[Operator], matrix: Collection[str]) -> set[str]:
    """Tensors of which several products read parts as their second operands, no element more than one.

    Such as key and value in what one product made of both: each is brought to where the products read it.
    """
    hulls: dict[str, list[Region]] = {}
    for op in operators:
        if op.name in matrix and len(op.reads) > 1:
            hulls.setdefault(op.reads[1].tensor, []).append(op.reads[1].hull(op.whole))
    return {
        tensor
        for tensor, found in hulls.items()
        if len(found) > 1 and not any(one.overlaps(other) for one, other in combinations(found, 2))
    }


def passes_through(shape: KernelShape, tensor: str) -> bool:
    """Whether the one result is made from an operand element by element, and no other element of it is needed.

    So a tile of the result can take the place of the same tile of the operand. The same holds for the state that a
    block of a softmax gets and hands on: of its rows a tile reads the whole, and no others.
    """
    readers = [(op, read) for op in shape.operators for read in op.reads if read.tensor == tensor]
    if len(shape.results) != 1 or len(shape.sink.writes) != 1:
        return False
    if shape.sink.kind == CARRY:
        return _rows_pass_through(shape, tensor)
    if len(readers) != 1:
        return False
    graph, (op, read) = shape.graph, readers[0]
    while is_elementwise(op) and len(op.writes) == 1 and read.axes == op.writes[0].axes:
        made = op.writes[0].tensor
        if op is shape.sink:
            return _alike(graph, tensor, made)
        following = [(later, use) for later in shape.operators for use in later.reads if use.tensor == made]
        if len(following) != 1 or len(graph.producers[made]) != 1:
            return False
        op, read = following[0]
    return False


def _alike(graph: Graph, tensor: str, other: str) -> bool:
    one, two = graph.tensors[tensor], graph.tensors[other]
    return (one.shape, one.dtype, one.layout) == (two.shape, two.dtype, two.layout)


def _rows_pass_through(shape: KernelShape, tensor: str) -> bool:
    """Whether what a tile reads of a tensor is what the last operator, which reads it last, writes in its place."""
    sink, write = shape.sink, shape.sink.writes[0]
    if all((read.tensor, read.axes) != (tensor, write.axes) for read in sink.reads):
        return False
    ends = [Region.whole(tuple(1 if dim.kind is DimKind.PARALLEL else dim.extent for dim in sink.dims))]
    ends += [
        ends[0].slab(at, n - 1, n) for at, n in enumerate(dim.extent for dim in sink.dims) if ends[0].stop[at] == 1
    ]
    for end in ends:
        boxes, written = operator_boxes(shape.graph, shape.operators, end), write.hull(end)
        reads = [
            shape.graph.read_region(read, boxes[op.name])
            for op in shape.operators
            for read in op.reads
            if read.tensor == tensor
        ]
        if not all(written.contains(region) for region in reads):
            return False
    return _alike(shape.graph, tensor, write.tensor)


_Box = TypeVar("_Box", Region, Boxes)


def _read(graph: Graph, access: Access, box: _Box) -> _Box:
    return read_regions(graph, access, box) if isinstance(box, Boxes) else graph.read_region(access, box)


def _written(access: Access, box: _Box) -> _Box:
    return hulls(access, box) if isinstance(box, Boxes) else access.hull(box)


def part_box(anchor: Operator, box: Region, extents: Sequence[int]) -> Region:
    """The first (and largest) part of `box` when the reduction dims of `anchor` are cut by `extents`."""
    stop = tuple(
        min(b, a + extent) if dim.kind is DimKind.REDUCTION else b
        for dim, a, b, extent in zip(anchor.dims, box.start, box.stop, extents, strict=True)
    )
    return Region(box.start, stop)


def operand_region(shape: KernelShape, operand: Operand, boxes: Mapping[str, _Box], part: _Box | None) -> _Box:
    """What one tile needs of an operand, or each of many: the hull over all of its readers in the kernel."""
    region: _Box | None = None
    for op, number in readers_of(shape, operand):
        box = part if part is not None and operand.in_parts and op is shape.anchor else boxes[op.name]
        found = _read(shape.graph, op.reads[number], box)
        region = found if region is None else region.hull(found)
    assert region is not None
    return region


def readers_of(shape: KernelShape, operand: Operand) -> Iterator[tuple[Operator, int]]:
    """The operators of a kernel that read an operand, each with the number of the access."""
    for op in shape.operators:
        for number, read in enumerate(op.reads):
            if read.tensor != operand.tensor or read.indirect_axis is not None or not operand.is_read_by(op):
                continue
            second = number == 1 and op.name in shape.matrix
            if second != (operand.level is Level.WEIGHTS) and any(
                o.tensor == operand.tensor and o.level is not operand.level for o in shape.operands
            ):
                continue
            yield op, number


def _movers(shape: KernelShape) -> dict[str, frozenset[int]]:
    """Per external tensor, the dims of the sink that move what a tile needs of it."""
    sink, graph = shape.sink, shape.graph
    ones = Region((0,) * len(sink.dims), (1,) * len(sink.dims))
    base = operator_boxes(graph, shape.operators, ones)
    moving: dict[str, set[int]] = {o.tensor: set() for o in shape.operands}
    for d, dim in enumerate(sink.dims):
        if dim.extent == 1:
            continue
        at = tuple(dim.extent - 1 if i == d else 0 for i in range(len(sink.dims)))
        boxes = operator_boxes(graph, shape.operators, Region(at, tuple(a + 1 for a in at)))
        for op in shape.operators:
            for read in op.reads:
                if read.tensor in moving and graph.read_region(read, boxes[op.name]) != graph.read_region(
                    read, base[op.name]
                ):
                    moving[read.tensor].add(d)
    return {tensor: frozenset(dims) for tensor, dims in moving.items()}


def made_regions(shape: KernelShape, boxes: Mapping[str, _Box]) -> dict[str, _Box]:
    """What a tile makes of each tensor, inner ones and results: the hull over the operators that write it."""
    found: dict[str, _Box] = {}
    for op in shape.operators:
        for write in op.writes:
            region = _written(write, boxes[op.name])
            found[write.tensor] = region.hull(found[write.tensor]) if write.tensor in found else region
    return found


def _in_place_operand(shape: KernelShape, op: Operator) -> str | None:
    """The inner tensor whose place the result of an element-wise operator can take: same box, and dead afterwards."""
    if not is_elementwise(op):
        return None
    graph, write = shape.graph, op.writes[0]
    if len(graph.producers[write.tensor]) > 1:
        return None  # one of several parts, each from an operand of its own
    produced = {name for other in shape.operators for name in other.outputs}
    for read in op.reads:
        if (
            read.tensor in produced
            and read.tensor not in shape.results
            and read.axes == write.axes
            and graph.tensors[read.tensor].dtype == graph.tensors[write.tensor].dtype
            and graph.tensors[read.tensor].layout == graph.tensors[write.tensor].layout
            and len(graph.consumers[read.tensor]) == len(graph.producers[read.tensor]) == 1
            and sum(other.tensor == read.tensor for other in op.reads) == 1
        ):
            return read.tensor
    return None


def kernel_signature(graph: Graph, operators: tuple[Operator, ...]) -> tuple:
    """Equal for kernels that differ only in names: same loops, accesses, shapes, types, layouts and borders."""
    numbers: dict[str, int] = {}
    members = {op.name for op in operators}

    def number(tensor: str) -> int:
        return numbers.setdefault(tensor, len(numbers))

    parts: list = []
    for op in operators:
        accesses = tuple((number(a.tensor), a.axes, a.pad_value, a.indirect_axis) for a in (*op.reads, *op.writes))
        parts.append((op.kind, op.dims, len(op.reads), accesses))
    for tensor in numbers:
        value = graph.tensors[tensor]
        readers = graph.consumers.get(tensor, ())
        outside = tensor in graph.outputs or any(c.name not in members for c in readers)
        parts.append((value.shape, value.dtype, value.layout, outside, len(readers) == 1))
    return tuple(parts)


def local_names(graph: Graph, operators: Sequence[Operator]) -> list[str]:
    """Tensors of a kernel in the order in which `kernel_signature` numbers them."""
    return list(dict.fromkeys(a.tensor for op in operators for a in (*op.reads, *op.writes)))


class Signatures:
    """The kernels of a graph by numbers, equal for those that differ only in names: to compare them takes no time."""

    def __init__(self, graph: Graph, like: "Signatures | None" = None) -> None:
        """`like` are those of another graph: kernels of either have the same number where they are alike."""
        self.graph = graph
        self._numbers: dict[tuple, int] = {} if like is None else like._numbers
        self._known: dict[tuple[str, ...], tuple[int, list[str]]] = {}

    def of(self, operators: tuple[str, ...]) -> tuple[int, list[str]]:
        """The number of a kernel, and the names of its tensors in one order."""
        if operators not in self._known:
            found = tuple(self.graph.by_name[name] for name in operators)
            number = self._numbers.setdefault(kernel_signature(self.graph, found), len(self._numbers))
            self._known[operators] = number, local_names(self.graph, found)
        return self._known[operators]


def kernel_key(signatures: Signatures, kernel: Kernel) -> tuple:
    """Equal for kernels of a schedule that differ only in names: same operators, cut alike, launched alike."""
    signature, names = signatures.of(kernel.operators)
    anchor = None if kernel.anchor is None else kernel.operators.index(kernel.anchor)
    tiling = replace(kernel.tiling, resident=())
    resident = tuple(names.index(name) for name in kernel.tiling.resident)
    flags = kernel.streamed, kernel.launches, kernel.mapping, kernel.ring, kernel.together
    where = kernel.cores, kernel.box, kernel.strips
    return signature, anchor, tiling, resident, *where, *flags

"""What a kernel computes and reads when its result is cut along one axis: its parts' times, weights and operands."""

from collections.abc import Sequence
from dataclasses import dataclass

from tilestitch.base.units import ceil_div
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.hardware.units import matrix_rate, matrix_tile_cycles, vector_lanes
from tilestitch.ir.following import axes_that_follow
from tilestitch.ir.graph import DimKind, Graph, Operator
from tilestitch.ir.region import Region
from tilestitch.ir.tiles import box_for_needs, cuts_of, operator_boxes
from tilestitch.ops import is_elementwise
from tilestitch.ops.contraction import product_shape
from tilestitch.ops.work import on_matrix_unit, operand_dtype, vector_operations

WHOLE = -1  # in place of an axis: every piece needs all of the tensor
HALVINGS = 8  # of a kernel, whose times are looked up; smaller parts are as fast as the smallest of these


@dataclass(frozen=True, slots=True)
class Followed:
    """How much of an operand some indices of a result need along one axis: `stride * (indices - 1) + window`."""

    axis: int  # of the operand, or `WHOLE`
    stride: float = 0.0
    window: float = 0.0


@dataclass(frozen=True, slots=True)
class KernelCost:
    """One kernel, by axis of its result: whether it may be cut there, and what of its work and its operands follows."""

    cuttable: tuple[bool, ...]
    cycles: tuple[tuple[float, ...], ...]  # of the whole, a half, a quarter, ... on all cores
    repeated_bytes: tuple[int, ...]  # constants that every piece reads
    once_bytes: tuple[int, ...]  # constants of which every piece reads its part
    reads: tuple[tuple[Followed, ...], ...]  # for each operand, by axis
    in_place: bool  # the result takes an operand's place where that ends


def kernel_cost(graph: Graph, operators: Sequence[Operator], machine: Accelerator) -> KernelCost:
    """What cuts of a kernel along each axis of its result cost."""
    sink = operators[-1]
    (write, *_) = sink.writes
    shape = graph.tensors[write.tensor].shape
    hull, operands = write.hull(sink.whole), operands_of(graph, operators)
    constants = dict.fromkeys(name for op in operators for name in op.inputs if name in graph.constants)
    steps = cuts_of(graph, operators).steps
    cuttable, cycles, repeated, once = [], [], [], []
    reads: list[list[Followed]] = [[] for _ in operands]
    for axis, extent in enumerate(shape):
        dims = [dim for dim, _ in write.axes[axis].terms[:1]]
        able = len(sink.writes) == 1 and hull.extents[axis] == extent > 1 and len(dims) == 1
        able = able and sink.dims[dims[0]].kind is DimKind.PARALLEL and steps[dims[0]] < sink.dims[dims[0]].extent
        cuttable.append(able)
        following = axes_that_follow(graph, operators, {write.tensor: axis}) if able else {}
        one, half = (_needed(graph, operators, axis, size) for size in (1, ceil_div(extent, 2)))
        for place, name in enumerate(operands):
            reads[place].append(_followed(following.get(name), name, one, half, ceil_div(extent, 2)))
        moved = [name for name in constants if able and half[name] != Region.whole(graph.tensors[name].shape)]
        once.append(sum(_constant_bytes(graph, operators, name) for name in moved))
        repeated.append(sum(_constant_bytes(graph, operators, name) for name in constants if name not in moved))
        parts = [max(1, extent >> times) for times in range(HALVINGS + 1 if able else 1)]
        found = [_cycles(graph, operators, machine, axis, part) for part in parts]
        cycles.append(tuple(found + [found[-1]] * (HALVINGS + 1 - len(found))))
    if not shape:
        whole = _cycles(graph, operators, machine, 0, 1)
        cycles.append((whole,) * (HALVINGS + 1))
        cuttable.append(False)
        once.append(0)
        repeated.append(sum(_constant_bytes(graph, operators, name) for name in constants))
        for place in range(len(operands)):
            reads[place].append(Followed(WHOLE))
    in_place = all(is_elementwise(op) for op in operators)
    return KernelCost(tuple(cuttable), tuple(cycles), tuple(repeated), tuple(once), tuple(map(tuple, reads)), in_place)


def operands_of(graph: Graph, operators: Sequence[Operator]) -> list[str]:
    """What a kernel reads of others, each once; constants left out."""
    made = {name for op in operators for name in op.outputs}
    read = dict.fromkeys(name for op in operators for name in op.inputs)
    return [name for name in read if name not in graph.constants and name not in made]


def _boxes(graph: Graph, operators: Sequence[Operator], axis: int, size: int) -> dict[str, Region]:
    """The iterations of every operator for so many indices in the middle of one axis of the result."""
    sink = operators[-1]
    shape = graph.tensors[sink.writes[0].tensor].shape
    if not shape or size >= shape[axis]:
        return operator_boxes(graph, operators, sink.whole)
    first = (shape[axis] - size) // 2
    middle = Region.whole(shape).slab(axis, first, first + size)
    box = box_for_needs(sink, {sink.writes[0].tensor: middle})
    assert box is not None
    return operator_boxes(graph, operators, box)


def _needed(graph: Graph, operators: Sequence[Operator], axis: int, size: int) -> dict[str, Region]:
    boxes = _boxes(graph, operators, axis, size)
    found: dict[str, Region] = {}
    for op in operators:
        for read in op.reads:
            region = graph.read_region(read, boxes[op.name])
            found[read.tensor] = region.hull(found[read.tensor]) if read.tensor in found else region
    return found


def _followed(axis: int | None, name: str, one: dict[str, Region], half: dict[str, Region], size: int) -> Followed:
    if axis is None:
        return Followed(WHOLE)
    window, longer = one[name].extents[axis], half[name].extents[axis]
    return Followed(axis, (longer - window) / max(1, size - 1), window)


def _constant_bytes(graph: Graph, operators: Sequence[Operator], name: str) -> int:
    """Bytes of a constant that a kernel reads; of a table that is only gathered from, what it gathers."""
    readers = [(op, read) for op in operators for read in op.reads if read.tensor == name]
    tensor = graph.tensors[name]
    if all(read.indirect_axis is not None for _, read in readers):
        return min(tensor.size_bytes, sum(op.iterations for op, _ in readers) * tensor.dtype.size_bytes)
    return tensor.size_bytes


def _cycles(graph: Graph, operators: Sequence[Operator], machine: Accelerator, axis: int, size: int) -> float:
    """Cycles of arithmetic of a part of a kernel on all cores that can run it, each operator divided at its best."""
    boxes = _boxes(graph, operators, axis, size)
    total = 0.0
    for op in operators:
        if op.kind in ("gather", "copy"):
            continue  # moved, not computed
        dtype, box = operand_dtype(op, graph), boxes[op.name]
        if not on_matrix_unit(op, dtype, machine):
            units = [core.vector for core in machine.cores if core.vector is not None]
            total += vector_operations(op, box) / sum(vector_lanes(unit, dtype) for unit in units)
            continue
        shape = product_shape(op, box)
        best = None
        for group in machine.groups:
            unit, cores = group.core.matrix, len(group.numbers)
            if unit is None or matrix_rate(unit, dtype) is None:
                continue
            for groups, rows in _divisions(cores):
                cut = (
                    ceil_div(shape.groups, groups),
                    ceil_div(shape.m, rows),
                    ceil_div(shape.n, cores // groups // rows),
                )
                found = matrix_tile_cycles(unit, dtype, m=cut[1], k=shape.k, n=cut[2], groups=cut[0])
                best = found if best is None else min(best, found)
        total += best or 0
    return total


def _divisions(cores: int) -> list[tuple[int, int]]:
    return [
        (groups, rows)
        for groups in range(1, cores + 1)
        if cores % groups == 0
        for rows in range(1, cores // groups + 1)
        if cores // groups % rows == 0
    ]

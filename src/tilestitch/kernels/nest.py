"""The loops of a kernel as plain arrays: what compiled code needs to know to measure tiles."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from tilestitch.base.dtypes import DType
from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.hardware.units import array_of, matrix_rate, vector_lanes
from tilestitch.ir.graph import DimKind, Operator
from tilestitch.kernels.shape import KernelShape
from tilestitch.ops import generic
from tilestitch.ops.contraction import product_shape, roles
from tilestitch.ops.work import operand_dtype, vector_operations

BRINGS, VECTOR, MATRIX, FIRST_MATRIX = range(4)  # what an operator keeps busy; gathers are brought by movers
BATCH, ROWS, DEPTH, COLUMNS = range(1, 5)  # what a dim of a product is
IN_LB, IN_WEIGHTS, IN_GB = range(3)  # where a core has an operand
# Columns of the arrays below.
DIMS, UNIT, OPERATIONS, LANES, RATE, _, FIRST_READ, FIRST_WRITE, END = range(9)
EXTENT, UNCUT, REDUCED, ROLE = range(4)
OWNER, TENSOR, INDIRECT = range(3)
OFFSET, FIRST_TERM, END_TERM = range(3)
RANK, ELEMENT = range(2)
SHAPE, LAYOUT = range(2)
TENSOR_OF, WHERE, IN_PARTS, FIRST_READER, END_READER = range(5)
IN_PLACE, IS_RESULT = range(1, 3)  # after TENSOR_OF
ARRAY_DEPTH = 1  # of the six of the matrix unit
ANCHOR, CUT_BY, SUMS, HOME, PADDED, ON_TREE = range(6, 12)  # after these
MAPPED, CUT_TO_FIT = 1, 2  # on the units of a tree: how sums are added up is the mapping's; they may be cut as well


class Nest(NamedTuple):
    """Arrays of int64, padded with zeros.

    Operators, accesses (operator by operator, reads before writes), operands and tensors go by their numbers.
    """

    operators: np.ndarray  # dims, unit, operations an iteration (negative: in all), lanes, rate, its accesses
    dims: np.ndarray  # operator, dim: extent, 1 where never cut, 1 for a reduction, role in a product
    accesses: np.ndarray  # operator, tensor, axis that is indexed by values or -1
    axes: np.ndarray  # access, axis: offset, where its terms begin and end
    terms: np.ndarray  # dim, stride
    tensors: np.ndarray  # rank, bytes of an element
    places: np.ndarray  # tensor, axis: extent, and which axis comes at this place in memory
    operands: np.ndarray  # tensor, where a core has it, 1 where it comes in parts, where its readers begin and end
    moving: np.ndarray  # operand, dim of the sink: 1 where that dim changes what a tile needs
    readers: np.ndarray  # access, 1 where it reads a part of a reduction
    made: np.ndarray  # of what tiles make: tensor, 1 in place of an operand, 1 for a result
    # Its matrix unit; anchor and operand whose size cuts its sum (or -1); 1 with sums; home; 1 padded; on a tree.
    core: np.ndarray


def flatten(shape: KernelShape, machine: Accelerator) -> Nest:
    """The arrays of one kernel on one kind of core."""
    graph, operators = shape.graph, shape.operators
    names = list(dict.fromkeys(a.tensor for op in operators for a in (*op.reads, *op.writes)))
    number = {name: at for at, name in enumerate(names)}
    tensors = [graph.tensors[name] for name in names]
    accesses = [(at, access) for at, op in enumerate(operators) for access in (*op.reads, *op.writes)]
    axes = [axis for _, access in accesses for axis in access.axes]
    dims = max(1, *(len(op.dims) for op in operators))
    rank = max(1, *(len(tensor.shape) for tensor in tensors))

    ends = [0, *accumulate(len(op.reads) + len(op.writes) for op in operators)]
    axis_ends = [0, *accumulate(len(access.axes) for _, access in accesses)]
    term_ends = [0, *accumulate(len(axis.terms) for axis in axes)]
    rows = [(axis.offset, begin, end) for axis, (begin, end) in zip(axes, pairwise(term_ends), strict=True)]
    readers = [_readers(shape, at, ends) for at in range(len(shape.operands))]
    reader_ends = [0, *accumulate(map(len, readers))]
    in_place = {op.writes[0].tensor for op in operators if op.name in shape.in_place}
    made = dict.fromkeys(write.tensor for op in operators for write in op.writes)
    second = next((at for at, o in enumerate(shape.operands) if o.level is Level.WEIGHTS), -1)
    sums = machine.local(shape.core, Level.ACCUMULATORS) is not None
    cut = second if sums and machine.local(shape.core, Level.WEIGHTS) is not None else -1
    anchor = -1 if shape.anchor is None else operators.index(shape.anchor)
    levels = {Level.LB: IN_LB, Level.WEIGHTS: IN_WEIGHTS, Level.GB: IN_GB}
    return Nest(
        operators=_table(
            [
                (
                    len(op.dims),
                    _unit(shape, op),
                    _operations(op),
                    *_rates(shape, op),
                    first,
                    first + len(op.reads),
                    first + len(op.reads) + len(op.writes),
                )
                for op, first in zip(operators, ends, strict=False)
            ],
            END + 1,
        ),
        dims=_cube([_dims(op, is_product=op.name in shape.matrix) for op in operators], dims, ROLE + 1),
        accesses=_table(
            [(at, number[a.tensor], -1 if a.indirect_axis is None else a.indirect_axis) for at, a in accesses], 3
        ),
        axes=_cube([rows[begin:end] for begin, end in pairwise(axis_ends)], rank, 3),
        terms=_table([pair for axis in axes for pair in axis.terms], 2),
        tensors=_table([(len(tensor.shape), tensor.dtype.size_bytes) for tensor in tensors], 2),
        places=_cube([list(zip(tensor.shape, tensor.layout, strict=True)) for tensor in tensors], rank, 2),
        operands=_table(
            [
                (number[o.tensor], levels[o.level], o.in_parts, end, end + len(found))
                for o, found, end in zip(shape.operands, readers, reader_ends, strict=False)
            ],
            5,
        ),
        moving=_table(
            [[d in shape.movers[o.tensor] for d in range(len(shape.sink.dims))] for o in shape.operands], dims
        ),
        readers=_table([row for rows in readers for row in rows], 2),
        made=_table([(number[name], name in in_place, name in shape.results) for name in made], 3),
        core=_table(
            [
                (
                    *((0,) * 6 if shape.core.matrix is None else array_of(shape.core.matrix, _sharing(shape))),
                    anchor,
                    cut,
                    sums,
                    levels[shape.home],
                    shape.padded,
                    0 if shape.core.inside is None else CUT_TO_FIT if sums and is_alone(shape) else MAPPED,
                )
            ],
            ON_TREE + 1,
        )[0],
    )


def is_alone(shape: KernelShape) -> bool:
    """Whether the anchor is the one product, and reads nothing that the kernel makes, so that parts find all of it."""
    made = {write.tensor for op in shape.operators for write in op.writes}
    anchor = shape.anchor
    return anchor is not None and len(shape.matrix) == 1 and not made & {read.tensor for read in anchor.reads}


def _sharing(shape: KernelShape) -> Fraction:
    """How many elements of the M x K matrix of the anchor's first operand each of its words stands for: windows."""
    if shape.anchor is None:
        return Fraction(1)
    product, read = product_shape(shape.anchor, shape.anchor.whole), shape.anchor.reads[0]
    words = shape.graph.read_region(read, shape.anchor.whole).size
    return Fraction(product.groups * product.m * product.k, words)


def _readers(shape: KernelShape, operand: int, ends: Sequence[int]) -> list[tuple[int, int]]:
    """Accesses of an operand, and whether each reads a part of a reduction. A tensor may be two operands."""
    wanted = shape.operands[operand]
    twice = any(o.tensor == wanted.tensor and o.level is not wanted.level for o in shape.operands)
    found = []
    for at, op in enumerate(shape.operators):
        for number, read in enumerate(op.reads):
            if read.tensor != wanted.tensor or read.indirect_axis is not None or not wanted.is_read_by(op):
                continue
            second = number == 1 and op.name in shape.matrix
            if not twice or second == (wanted.level is Level.WEIGHTS):
                found.append((ends[at] + number, wanted.in_parts and op is shape.anchor))
    return found


def _unit(shape: KernelShape, op: Operator) -> int:
    if op.kind == "gather":
        return BRINGS
    if op is shape.anchor:
        return FIRST_MATRIX
    return MATRIX if op.name in shape.matrix else VECTOR


def _dims(op: Operator, *, is_product: bool) -> list[tuple[int, ...]]:
    known = [0] * len(op.dims)
    if is_product:
        found = roles(op)
        for role, members in ((BATCH, found.batch), (ROWS, found.m), (DEPTH, found.k), (COLUMNS, found.n)):
            for dim in members:
                known[dim] = role
    return [
        (dim.extent, dim.kind is DimKind.WHOLE, dim.kind is DimKind.REDUCTION, role)
        for dim, role in zip(op.dims, known, strict=True)
    ]


def _operations(op: Operator) -> int:
    """Of one iteration on the vector unit; of a generic operator, which is never cut, less all of them."""
    if op.kind == generic.KIND:
        return -vector_operations(op, op.whole)
    return vector_operations(op, op.whole) // op.iterations


def _rates(shape: KernelShape, op: Operator) -> tuple[int, int, int]:
    dtype: DType = operand_dtype(op, shape.graph)
    if op.name not in shape.matrix:
        return (1 if shape.core.vector is None else vector_lanes(shape.core.vector, dtype)), 1, 1
    assert shape.core.matrix is not None
    rate = matrix_rate(shape.core.matrix, dtype)
    assert rate is not None
    return 1, rate.numerator, rate.denominator


def _table(rows: Sequence[Sequence[int]], width: int) -> np.ndarray:
    found = np.zeros((len(rows), width), np.int64)
    for at, row in enumerate(rows):
        found[at, : len(row)] = row
    return found


def _cube(tables: Sequence[Sequence[Sequence[int]]], height: int, width: int) -> np.ndarray:
    found = np.zeros((len(tables), height, width), np.int64)
    for at, rows in enumerate(tables):
        if rows:
            found[at, : len(rows)] = rows
    return found

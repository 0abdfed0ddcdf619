"""What the instructions of a program are worth: work by kernel and operator, and whom each transfer serves."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tilestitch.base.dtypes import DType
from tilestitch.base.shown import Brief
from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.hardware.units import peak_macs_per_cycle
from tilestitch.ir.graph import Graph
from tilestitch.ir.program import EngineKind, Kind, Mode, Program
from tilestitch.ops import is_contraction
from tilestitch.ops.contraction import product_shape
from tilestitch.ops.work import operand_dtype, vector_operations

TRANSFERS = (Kind.COPY, Kind.GATHER, Kind.STREAM)


@dataclass(frozen=True, slots=True)
class Work:
    """What one kernel executes of one operator; both are numbers in the program."""

    kernel: int
    operator: int
    macs: int  # on any unit
    matrix_macs: int  # on matrix units
    vector_operations: int  # on vector units; a contraction there counts as both
    peak_cycles: Fraction  # that its products on matrix units would take at the peak of all of them


@dataclass(frozen=True, repr=False)
class Transfers(Brief):
    """The transfers among some instructions, with both ends; columns of equal length."""

    number: np.ndarray  # of the instruction
    source: np.ndarray  # number of the buffer that is read; -1 where it comes from a unit
    target: np.ndarray  # of the buffer that is written, the last one of a broadcast; -1 where it goes to a unit


def work(program: Program, machine: Accelerator, instructions: np.ndarray) -> tuple[Work, ...]:
    """A row for each kernel and operator of these instructions that computes; tiles of the same extents work alike."""
    computes = instructions[program.kind[instructions] == Kind.COMPUTE]
    on_vector = np.array([engine.kind is EngineKind.VECTOR for engine in program.engines], bool)
    columns = (
        program.kernel[computes],
        program.operator[computes],
        program.box[computes],
        on_vector[program.engine[computes]],
    )
    sizes = (len(program.kernels), len(program.operators), len(program.regions), 2)
    alike, counts = np.unique(np.ravel_multi_index(columns, sizes), return_counts=True)
    rows = zip(*(column.tolist() for column in np.unravel_index(alike, sizes)), counts.tolist(), strict=True)
    peaks = _peaks(program, machine)
    known: dict[tuple[int, tuple[int, ...]], tuple[int, int]] = {}
    found: dict[tuple[int, int], tuple[int, int, int]] = {}
    for kernel, operator, box, vector, count in rows:
        region = program.regions[box]
        key = operator, region.extents
        if key not in known:
            op = program.graph.by_name[program.operators[operator]]
            products = product_shape(op, region).macs if is_contraction(op) else 0
            known[key] = products, vector_operations(op, region)
        products, primitives = known[key]
        macs, on_matrix, operations = found.get((kernel, operator), (0, 0, 0))
        if vector or (products and not peaks[operator]):  # an array does what it has no rate for as vector work
            found[kernel, operator] = macs + count * products, on_matrix, operations + count * primitives
        else:
            found[kernel, operator] = macs + count * products, on_matrix + count * products, operations
    return tuple(
        Work(kernel, operator, macs, on_matrix, operations, on_matrix / peaks[operator] if on_matrix else Fraction(0))
        for (kernel, operator), (macs, on_matrix, operations) in found.items()
    )


def _peaks(program: Program, machine: Accelerator) -> list[Fraction]:
    """By operator, the multiply-accumulates a cycle of all matrix units at its width."""
    rates = {dtype: peak_macs_per_cycle(machine, dtype) for dtype in DType}
    return [rates[operand_dtype(program.graph.by_name[name], program.graph)] for name in program.operators]


def transfers(program: Program, instructions: np.ndarray) -> Transfers:
    """Those of the instructions that move bytes from a first operand to a last one, or have one of them alone."""
    moves = instructions[np.isin(program.kind[instructions], TRANSFERS)]
    buffer, reads = program.operand_buffer, program.operand_mode == Mode.READ
    first, last = program.operand_offsets[moves], program.operand_offsets[moves + 1] - 1
    return Transfers(moves, np.where(reads[first], buffer[first], -1), np.where(reads[last], -1, buffer[last]))


def bytes_at(program: Program, moves: Transfers, level: Level) -> np.ndarray:
    """Per transfer, the payload that it reads from and writes to the memories of a level."""
    there = np.array([space.level is level for space in program.spaces], bool)[program.buffers.space]
    ends = np.zeros(len(moves.number), np.int64)
    for end in (moves.source, moves.target):
        ends += (end >= 0) & there[end]
    return program.size_bytes[moves.number] * ends


def operators_served(program: Program, kernels: Sequence[Sequence[str]]) -> np.ndarray:
    """Per instruction, the operator that it computes or moves something for; -1 for launches.

    `kernels` are the operators of each kernel. What a kernel loads is for the first of its operators that reads the
    tensor, what it stores is of the one that writes it; what it moves for other kernels is for an operator of theirs.
    """
    served = program.operator.astype(np.int64)
    open_ones = np.flatnonzero((served < 0) & np.isin(program.kind, TRANSFERS))
    moves = transfers(program, open_ones)
    distance = np.array([_DISTANCE[space.level] for space in program.spaces], np.int64)[program.buffers.space]
    origin, goal = (np.where(end >= 0, distance[end], 0) for end in (moves.source, moves.target))
    keys = (
        program.kernel[moves.number],
        program.buffers.tensor[np.where(moves.source >= 0, moves.source, moves.target)],
        (goal > origin).astype(np.int64),
    )
    sizes = (len(program.kernels), len(program.tensors), 2)
    alike, which = np.unique(np.ravel_multi_index(keys, sizes), return_inverse=True)
    rows = zip(*(column.tolist() for column in np.unravel_index(alike, sizes)), strict=True)
    number_of = {name: number for number, name in enumerate(program.operators)}
    answers = []
    for kernel, tensor, stores in rows:
        name = _served(program.graph, kernels[int(kernel)], program.tensors[tensor], stores=bool(stores))
        answers.append(number_of.get(name, -1))
    served[moves.number] = np.array(answers, np.int64)[which]
    return served


_DISTANCE = {Level.ACCUMULATORS: 0, Level.WEIGHTS: 0, Level.LB: 0, Level.GB: 1, Level.DDR: 2}  # from the units


def _served(graph: Graph, kernel: Sequence[str], tensor: str, *, stores: bool) -> str:
    readers = [op.name for op in graph.consumers.get(tensor, ())]
    writers = [op.name for op in graph.producers.get(tensor, ())]
    inside = set(kernel)
    order = (writers, readers) if stores else (readers, writers)
    for names in order:
        own = [name for name in names if name in inside]
        if own:
            return own[0]
    return next((names[0] for names in order if names), kernel[0])


def occupied_cycles(start: np.ndarray, end: np.ndarray, label: np.ndarray, labels: int) -> np.ndarray:
    """Per label, the time in which at least one of its intervals is open; a label below 0 is none."""
    order = np.lexsort((start, label))
    order = order[label[order] >= 0]
    total = np.zeros(labels, np.int64)
    if not len(order):
        return total
    start, end, label = start[order].astype(np.int64), end[order].astype(np.int64), label[order].astype(np.int64)
    span = int(end.max()) + 1
    seen = np.maximum.accumulate(end + label * span) - label * span  # the latest end so far of this label
    before = np.concatenate(([0], seen[:-1]))
    before[np.flatnonzero(np.diff(label, prepend=-1))] = 0
    np.add.at(total, label, np.maximum(end - np.maximum(start, before), 0))
    return total

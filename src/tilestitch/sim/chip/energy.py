"""The energy of a simulated program: of the bytes that moved, bursts included, and of the arithmetic."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from tilestitch.base.errors import InvalidIR
from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.ir.graph import Graph, Operator
from tilestitch.ir.program import Flag, Kind, Mode, Program
from tilestitch.ir.trace import Trace
from tilestitch.ops.contraction import product_shape
from tilestitch.ops.work import vector_operations


@dataclass(frozen=True, slots=True)
class EnergyBreakdown:
    """Picojoules of the one cluster that a program describes; idle and clock power are not modelled."""

    memories_pj: tuple[tuple[str, float], ...]  # per level: what transfers and units read and write there
    links_pj: float
    matrix_pj: float
    vector_pj: float

    @property
    def parts(self) -> tuple[tuple[str, float], ...]:
        """Every part by name."""
        units = (("link", self.links_pj), ("matrix units", self.matrix_pj), ("vector units", self.vector_pj))
        return (*self.memories_pj, *units)

    @property
    def total_pj(self) -> float:
        return sum(energy for _, energy in self.parts)


TileEnergy: TypeAlias = Callable[[Graph, Operator, tuple[int, ...], int], float]


def energy(trace: Trace, machine: Accelerator, on_array: TileEnergy | None = None) -> EnergyBreakdown:
    """What the bytes and the arithmetic of a simulated program cost.

    A transfer reads its source and writes its targets, runs rounded up to the burst of each memory, and its bytes pass
    the links of the cores at its ends. A unit reads each operand of a tile once and writes each result once;
    accumulators are written in every part of a reduction and read in all but the first. Multiply-accumulates and
    primitive vector operations cost what the unit of their core says; tiles on arrays of processing elements what
    `on_array` says of an operator, extents and the number of a core.
    """
    program = trace.program
    moved = _memory_bytes(program)
    memories = []
    for level in dict.fromkeys(space.level for space in program.spaces):
        memory = machine.memory(level)
        assert memory is not None
        read, written = moved[level]
        memories.append((str(level), read * memory.read_pj_per_byte + written * memory.write_pj_per_byte))
    links_pj = 0.0
    for resource, size_bytes in zip(program.resources, trace.resource_bytes, strict=True):
        links_pj += int(size_bytes) * resource.pj_per_byte
    matrix_pj = vector_pj = 0.0
    macs, operations, tiles_pj = _work(program, machine, on_array)
    for core, count in macs.items():
        unit = machine.cores[core].matrix
        if unit is None:
            raise InvalidIR(f"program: computes on the matrix unit of core {core}, and {machine.name} has none there")
        matrix_pj += count * unit.mac_pj
    for core, count in operations.items():
        vector = machine.cores[core].vector
        if vector is None:
            raise InvalidIR(f"program: computes on the vector unit of core {core}, and {machine.name} has none there")
        vector_pj += count * vector.operation_pj
    return EnergyBreakdown(tuple(memories), links_pj, matrix_pj + tiles_pj, vector_pj)


def _memory_bytes(program: Program) -> dict[Level, tuple[int, int]]:
    """Per level of memory, the bytes read and the bytes written, bursts included."""
    if not program.spaces:
        return {}
    owner = np.repeat(np.arange(len(program)), np.diff(program.operand_offsets))
    space = program.buffers.space[program.operand_buffer]
    bursts = np.array([resource.burst_bytes for resource in program.resources[: len(program.spaces)]])
    burst = bursts[space]
    elements = np.array([region.size for region in program.regions], np.int64)[program.operand_region]
    width = np.array([program.graph.tensors[name].dtype.size_bytes for name in program.tensors])
    in_accumulators = np.array([s.level is Level.ACCUMULATORS for s in program.spaces])[space]
    width = np.where(in_accumulators, 4, width[program.buffers.tensor[program.operand_buffer]])
    kind, mode = program.kind[owner], program.operand_mode
    home = _homes(program)[program.engine[owner]]
    space = np.where((kind == Kind.COMPUTE) & (space == 0), home, space)  # of streamed operands
    payload = program.size_bytes[owner]
    run = np.maximum(1, np.where(program.run_bytes[owner] > 0, program.run_bytes[owner], payload))
    transfer = np.isin(kind, (Kind.COPY, Kind.STREAM)) | ((kind == Kind.GATHER) & ((space == 0) | (mode == Mode.WRITE)))
    moved = np.where(transfer, payload // run * -(-run // burst) * burst, elements * width)
    first = (program.flags[owner] & Flag.FIRST) > 0
    reads = (mode == Mode.READ) | ((mode == Mode.ACCUMULATE) & ~first)
    writes = mode != Mode.READ
    streams = kind == Kind.STREAM  # their other end
    space = np.concatenate([space, home[streams]])
    rounded = -(-payload // bursts[home]) * bursts[home]
    moved = np.concatenate([moved, rounded[streams]])
    reads, writes = np.concatenate([reads, writes[streams]]), np.concatenate([writes, reads[streams]])
    found = {}
    for level in dict.fromkeys(s.level for s in program.spaces):
        here = np.array([s.level is level for s in program.spaces])[space]
        found[level] = int(moved[here & reads].sum()), int(moved[here & writes].sum())
    return found


def _homes(program: Program) -> np.ndarray:
    """Per engine, the memory in which its core works: its local buffer, or the global one; 0 for none."""
    places = {(space.level, space.core): number for number, space in enumerate(program.spaces)}
    shared = places.get((Level.GB, None), 0)
    return np.array([places.get((Level.LB, engine.core), shared) for engine in program.engines], np.int64)


def _work(
    program: Program, machine: Accelerator, on_array: TileEnergy | None
) -> tuple[dict[int, int], dict[int, int], float]:
    """Per core, multiply-accumulates on its matrix unit, operations on its vector unit; picojoules of all arrays."""
    computes = program.kind == Kind.COMPUTE
    columns = (program.operator, program.box, program.engine, program.flags & Flag.MATRIX)
    alike = Counter(zip(*(column[computes].tolist() for column in columns), strict=True))
    macs: dict[int, int] = {}
    operations: dict[int, int] = {}
    done: dict[tuple[int, tuple[int, ...], int], int] = {}  # by operator and extents: many boxes are alike
    tiles_pj = 0.0
    for (operator, box, engine, matrix), count in alike.items():
        core = program.engines[engine].core
        if operator < 0 or box < 0 or core is None:
            raise InvalidIR(f"program: a compute on {program.engines[engine].name} has no operator, box or core")
        if matrix and on_array is not None and machine.cores[core].has_mapper:
            op = program.graph.by_name[program.operators[operator]]
            tiles_pj += count * on_array(program.graph, op, program.regions[box].extents, core)
            continue
        key = operator, program.regions[box].extents, matrix
        if key not in done:
            op, region = program.graph.by_name[program.operators[operator]], program.regions[box]
            done[key] = product_shape(op, region).macs if matrix else vector_operations(op, region)
        work = macs if matrix else operations
        work[core] = work.get(core, 0) + count * done[key]
    return macs, operations, tiles_pj

"""What the machine executes: buffers with addresses, and one in-order stream of instructions per engine.

A program is columns (numpy arrays, one entry an instruction), because it may hold a million instructions;
`program[i]` is a frozen view of one of them for people and tests. It describes one cluster; clusters are identical.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction

import numpy as np

from tilestitch.base.dtypes import DType
from tilestitch.base.shown import Brief
from tilestitch.base.units import counted
from tilestitch.hardware.accelerator import Level
from tilestitch.ir.graph import Graph
from tilestitch.ir.region import Region


class Kind(IntEnum):
    """What an instruction does."""

    COPY = 0  # one region of a tensor from one buffer to one or more others
    COMPUTE = 1  # one tile of one operator
    GATHER = 2  # a copy whose rows are named by an index operand
    LAUNCH = 3  # the start of a kernel: waits for all that came before
    STREAM = 4  # a tensor passes between DDR and the units of a core, and is kept nowhere on the way


class Mode(IntEnum):
    """How an instruction uses an operand."""

    READ = 0
    WRITE = 1
    ACCUMULATE = 2  # float32 partial sums: written, and read unless this is the first part of the reduction


class Flag(IntEnum):
    """Bits of the flags column."""

    FIRST = 1  # first part of a reduction: the accumulators are overwritten
    LAST = 2  # last part: the result leaves the accumulators
    MATRIX = 4  # on the matrix unit


class EngineKind(IntEnum):
    """The engines of a cluster; each executes its instructions in order."""

    CONTROL = 0
    DMA_IN = 1  # DDR -> GB
    DMA_OUT = 2  # GB -> DDR
    MATRIX = 3
    VECTOR = 4
    MOVER = 5  # to and from the memories of a core


@dataclass(frozen=True, slots=True)
class Engine:
    """One in-order stream; `core` is None for the engines of the cluster."""

    name: str
    kind: EngineKind
    core: int | None


@dataclass(frozen=True, slots=True)
class Space:
    """One memory of the cluster; `core` is None for what all cores reach."""

    name: str
    level: Level
    core: int | None
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Resource:
    """What a transfer occupies: the port of a memory, or the network port of a core."""

    name: str
    bandwidth_bytes_per_cycle: Fraction
    burst_bytes: int  # contiguous runs round up to this
    pj_per_byte: float  # of the way itself; what a memory takes to read or write is the memory's


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand of an instruction: a region of a tensor, in a buffer."""

    buffer: int
    region: Region
    mode: Mode


@dataclass(frozen=True, slots=True)
class Instruction:
    """One row of a program, for people and tests."""

    number: int
    engine: str
    kind: Kind
    kernel: int
    operator: str | None
    box: Region | None
    flags: int
    operands: tuple[Operand, ...]
    cycles: int
    size_bytes: int
    waits: tuple[int, ...]


@dataclass(frozen=True, repr=False)
class Buffers(Brief):
    """Columns: where each buffer lies and which region of which tensor it holds, dense, in the tensor's layout."""

    space: np.ndarray  # int16: number in `Program.spaces`
    address: np.ndarray  # int64: byte
    size_bytes: np.ndarray  # int64
    tensor: np.ndarray  # int32: number in `Program.tensors`
    region: np.ndarray  # int32: number in `Program.regions`

    def __len__(self) -> int:
        return len(self.space)


@dataclass(frozen=True, repr=False)
class Program(Brief):
    """One cluster's instructions in an order in which they are legal one after another.

    Instruction i ends only after its `cycles` (compute: the whole time; copy: the set-up) and, for a copy, after its
    last granule; it starts when every instruction in its waits has ended and its engine is free. `path` is a number in
    `paths`: the resources that the bytes pass. Operand o of instruction i is at `operand_offsets[i] + o`.
    """

    graph: Graph  # what one iteration computes, views composed away
    iterations: int  # how often `graph` runs, each on its own slice of the batch
    spaces: tuple[Space, ...]
    engines: tuple[Engine, ...]
    resources: tuple[Resource, ...]
    paths: tuple[tuple[int, ...], ...]
    tensors: tuple[str, ...]  # names; an accumulator buffer has the name of the tensor it becomes
    regions: tuple[Region, ...]
    operators: tuple[str, ...]
    kernels: tuple[str, ...]
    granule_bytes: int
    buffers: Buffers
    engine: np.ndarray  # int16
    kind: np.ndarray  # int8
    flags: np.ndarray  # uint8
    kernel: np.ndarray  # int32: number in `kernels`
    iteration: np.ndarray  # int32
    operator: np.ndarray  # int32: number in `operators`, -1 for none
    box: np.ndarray  # int32: the loop iterations of a compute, a number in `regions`, -1 for none
    cycles: np.ndarray  # int64
    size_bytes: np.ndarray  # int64: payload of a copy
    run_bytes: np.ndarray  # int32: contiguous bytes of a copy, which round up to the burst of each resource
    path: np.ndarray  # int32: number in `paths`, -1 for none
    operand_offsets: np.ndarray  # int64, one more than instructions
    operand_buffer: np.ndarray  # int32
    operand_region: np.ndarray  # int32
    operand_mode: np.ndarray  # int8
    wait_offsets: np.ndarray  # int64, one more than instructions
    waits: np.ndarray  # int64
    inputs: tuple[tuple[int, ...], ...]  # per graph input: its DDR buffer in each iteration
    outputs: tuple[tuple[int, ...], ...]  # per graph output: likewise
    constants: tuple[tuple[str, int], ...]  # constants the program reads, with their DDR buffer

    def __len__(self) -> int:
        return len(self.engine)

    def __iter__(self) -> Iterator[Instruction]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, number: int) -> Instruction:
        if not 0 <= number < len(self):
            raise IndexError(f"instruction {number} of {len(self)}")
        box, operator = int(self.box[number]), int(self.operator[number])
        first, last = self.operand_offsets[number : number + 2]
        return Instruction(
            number=number,
            engine=self.engines[self.engine[number]].name,
            kind=Kind(self.kind[number]),
            kernel=int(self.kernel[number]),
            operator=self.operators[operator] if operator >= 0 else None,
            box=self.regions[box] if box >= 0 else None,
            flags=int(self.flags[number]),
            operands=tuple(
                Operand(int(self.operand_buffer[o]), self.regions[self.operand_region[o]], Mode(self.operand_mode[o]))
                for o in range(first, last)
            ),
            cycles=int(self.cycles[number]),
            size_bytes=int(self.size_bytes[number]),
            waits=tuple(int(w) for w in self.waits[self.wait_offsets[number] : self.wait_offsets[number + 1]]),
        )

    def buffer_text(self, number: int) -> str:
        """`conv1.out in lb3 @ 0x400`."""
        space = self.spaces[self.buffers.space[number]]
        return f"{self.tensors[self.buffers.tensor[number]]} in {space.name} @ {int(self.buffers.address[number]):#x}"

    def buffer_dtype(self, number: int) -> DType:
        """The element type of a buffer: its tensor's, or one of 32 bits in the accumulators."""
        if self.spaces[self.buffers.space[number]].level is Level.ACCUMULATORS:
            return DType.FLOAT32
        return self.graph.tensors[self.tensors[self.buffers.tensor[number]]].dtype

    def __str__(self) -> str:
        """The first hundred instructions."""
        return self.text(limit=100)

    def text(self, *, limit: int | None = None) -> str:
        """The instructions as lines; at most `limit` of them."""
        parts = ((len(self), "instruction"), (len(self.buffers), "buffer"), (self.iterations, "iteration"))
        lines = [f"program of {', '.join(counted(*part) for part in parts)}"]
        shown = len(self) if limit is None else min(limit, len(self))
        for instruction in (self[i] for i in range(shown)):
            lines.append("  " + self._line(instruction))
        if shown < len(self):
            lines.append(f"  ... {len(self) - shown:,} more")
        return "\n".join(lines)

    def _line(self, one: Instruction) -> str:
        what = one.kind.name.lower() if one.operator is None else f"{one.kind.name.lower()} {one.operator}"
        places = " ".join(f"{_MODE_MARK[o.mode]}{self.buffer_text(o.buffer)}{o.region}" for o in one.operands)
        waits = f" after {','.join(map(str, one.waits))}" if one.waits else ""
        size = f" {one.size_bytes:,} B" if one.size_bytes else ""
        return f"{one.number:6d} {one.engine:10s} {what}{size} {one.cycles:,} cycles  {places}{waits}"


_MODE_MARK = {Mode.READ: "<", Mode.WRITE: ">", Mode.ACCUMULATE: "+"}

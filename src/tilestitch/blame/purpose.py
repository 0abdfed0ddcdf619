"""What each instruction is for: which part of a gap it is to whom waits for it, and which operator it belongs to."""

from typing import NamedTuple

import numpy as np

from tilestitch.hardware.accelerator import Level
from tilestitch.ir.gap import PARTS, Part
from tilestitch.ir.program import EngineKind, Kind, Mode, Program

MOVES = (Kind.COPY, Kind.GATHER, Kind.STREAM)


class Purpose(NamedTuple):
    """Columns, one entry an instruction."""

    part: np.ndarray  # number in PARTS; of a compute that of other cores
    core: np.ndarray  # of its engine, -1 for those of the cluster
    tensor: np.ndarray  # that a transfer moves, a number in `Program.tensors`; -1 for others
    inward: np.ndarray  # whether it moves something to a core, or to GB from DDR
    owner: np.ndarray  # the operator that it is for


def purposes(program: Program) -> Purpose:
    """What the instructions are for.

    A transfer is known by its tensor and its ends: weights are constants on any way; a result that passes GB only
    between DDR and a core is a spill, or an input or output, on that way too.
    """
    levels = np.array([list(Level).index(space.level) for space in program.spaces], np.int64)
    source, target = ends(program)
    moves = np.isin(program.kind, MOVES)
    level = [_level(levels, program, buffer) for buffer in (source, target)]
    ddr, gb = list(Level).index(Level.DDR), list(Level).index(Level.GB)
    through_ddr = _through_ddr(program, moves, source, target, [at == ddr for at in level])
    tensor = np.where(moves, program.buffers.tensor[source] if len(program.buffers) else -1, -1).astype(np.int64)

    def is_one_of(names: object) -> np.ndarray:
        known = np.array([*(name in names for name in program.tensors), False], bool)  # pyright: ignore
        return known[tensor]  # the last entry is for -1

    graph = program.graph
    part = np.full(len(program), PARTS.index(Part.CORE_TO_CORE))
    part[(level[0] == gb) | (level[1] == gb)] = PARTS.index(Part.SHARED)
    part[through_ddr] = PARTS.index(Part.SPILLS)
    part[through_ddr & is_one_of({*graph.inputs, *graph.outputs})] = PARTS.index(Part.BORDERS)
    part[is_one_of(graph.constants)] = PARTS.index(Part.WEIGHTS)
    part[program.kind == Kind.COMPUTE] = PARTS.index(Part.OTHER_CORES)
    part[program.kind == Kind.LAUNCH] = PARTS.index(Part.LAUNCHES)
    core = np.array([-1 if engine.core is None else engine.core for engine in program.engines], np.int64)
    kind = np.array([engine.kind for engine in program.engines], np.int64)[program.engine]
    outward = (kind == EngineKind.DMA_OUT) | ((level[1] == gb) & (level[0] != ddr)) | (level[1] == ddr)
    return Purpose(part, core[program.engine], tensor, moves & ~outward, _owners(program, tensor, outward))


def ends(program: Program) -> tuple[np.ndarray, np.ndarray]:
    """Buffers of the first and of the last operand of each instruction; 0 where it has none."""
    counts = np.diff(program.operand_offsets)
    if not len(program.operand_buffer):
        return np.zeros(len(program), np.int64), np.zeros(len(program), np.int64)
    first = np.where(counts > 0, program.operand_offsets[:-1], 0)
    last = np.where(counts > 0, program.operand_offsets[1:] - 1, 0)
    return program.operand_buffer[first].astype(np.int64), program.operand_buffer[last].astype(np.int64)


def _level(levels: np.ndarray, program: Program, buffer: np.ndarray) -> np.ndarray:
    """The level of the memory that each of some buffers lies in."""
    return levels[program.buffers.space[buffer]] if len(program.buffers) else np.full(len(buffer), -1)


def _through_ddr(
    program: Program, moves: np.ndarray, source: np.ndarray, target: np.ndarray, in_ddr: list[np.ndarray]
) -> np.ndarray:
    """Whether a transfer is from or to DDR, or one step of the way between DDR and a core."""
    direct = moves & (in_ddr[0] | in_ddr[1])
    from_ddr, to_ddr, used = (np.zeros(max(1, len(program.buffers)), bool) for _ in range(3))
    from_ddr[target[moves & in_ddr[0]]] = True
    to_ddr[source[moves & in_ddr[1]]] = True
    others = np.repeat(~(moves & in_ddr[1]), np.diff(program.operand_offsets)) & (program.operand_mode == Mode.READ)
    used[program.operand_buffer[others]] = True  # also read by others, so DDR is not where it goes
    return direct | (moves & (from_ddr[source] | (to_ddr[target] & ~used[target])))


def _owners(program: Program, tensor: np.ndarray, outward: np.ndarray) -> np.ndarray:
    """The operator that computes, or for which something moves: of the same kernel, the first that reads or writes it.

    What no operator of its kernel touches is for the first that reads the tensor anywhere, or writes it.
    """
    owner = program.operator.astype(np.int64)
    numbers = {name: number for number, name in enumerate(program.operators)}
    computes = np.flatnonzero(owner >= 0)
    inside = {(k, o) for k, o in zip(program.kernel[computes].tolist(), owner[computes].tolist(), strict=True)}
    moving = np.flatnonzero((owner < 0) & (tensor >= 0))
    keys = np.stack([program.kernel[moving].astype(np.int64), tensor[moving], outward[moving].astype(np.int64)], axis=1)
    found, place = np.unique(keys, axis=0, return_inverse=True) if len(moving) else (keys, np.zeros(0, np.int64))
    graph = program.graph
    owners = []
    for kernel, which, stores in found.tolist():
        name = program.tensors[which]
        readers = [numbers[op.name] for op in graph.consumers.get(name, ()) if op.name in numbers]
        writers = [numbers[op.name] for op in graph.producers.get(name, ()) if op.name in numbers]
        wanted = [*writers, *readers] if stores else [*readers, *writers]
        here = [number for number in wanted if (kernel, number) in inside]
        owners.append((here or wanted or [-1])[0])
    owner[moving] = np.array(owners, np.int64)[place.reshape(-1)] if owners else -1
    return owner

"""What the instructions of a compiled network move."""

import numpy as np

from tilestitch.hardware.accelerator import Level
from tilestitch.ir.program import EngineKind, Kind, Program
from tilestitch.pipeline.compilation import Compilation


def sources(program: Program, kind: Kind, engine: EngineKind) -> list[tuple[str, Level]]:
    """Of each instruction of a kind on engines of a kind, what it moves and from which memory."""
    found = []
    for at in np.flatnonzero(program.kind == kind).tolist():
        if program.engines[program.engine[at]].kind is engine:
            buffer = program.operand_buffer[program.operand_offsets[at]]
            space = program.spaces[program.buffers.space[buffer]]
            found.append((program.tensors[program.buffers.tensor[buffer]], space.level))
    return found


def brought(done: Compilation) -> list[str]:
    """The tensors that DMA brings, one entry a transfer."""
    assert done.program is not None
    return [name for name, _ in sources(done.program, Kind.COPY, EngineKind.DMA_IN)]


def weight_bytes(done: Compilation) -> int:
    """What DMA brings of weights in an iteration."""
    program = done.program
    assert program is not None
    engines = np.array([engine.kind is EngineKind.DMA_IN for engine in program.engines])
    moved = np.flatnonzero(engines[program.engine] & (program.kind == Kind.COPY))
    tensors = program.buffers.tensor[program.operand_buffer[program.operand_offsets[moved]]]
    weights = np.array(["weight" in name for name in program.tensors])
    return int(program.size_bytes[moved][weights[tensors]].sum()) // program.iterations

"""Small programs whose instructions read and write buffers, for the tests of what they wait for."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tests.helpers.programs import Row, make_program
from tilestitch.base.dtypes import DType
from tilestitch.hardware.accelerator import Level
from tilestitch.ir.graph import Graph, Tensor
from tilestitch.ir.program import Buffers, Engine, EngineKind, Mode, Program, Resource, Space
from tilestitch.ir.region import Region

SPACES = (
    Space("ddr", Level.DDR, None, 1 << 30),
    Space("gb", Level.GB, None, 1 << 20),
    Space("lb0", Level.LB, 0, 1 << 16),
    Space("lb1", Level.LB, 1, 1 << 16),
)
ENGINES = tuple(
    Engine(name, kind, core)
    for name, kind, core in (
        ("control", EngineKind.CONTROL, None),
        ("dma_in", EngineKind.DMA_IN, None),
        ("dma_out", EngineKind.DMA_OUT, None),
        ("matrix0", EngineKind.MATRIX, 0),
        ("vector0", EngineKind.VECTOR, 0),
        ("mover0", EngineKind.MOVER, 0),
        ("matrix1", EngineKind.MATRIX, 1),
        ("vector1", EngineKind.VECTOR, 1),
        ("mover1", EngineKind.MOVER, 1),
    )
)
CONTROL, DMA_IN, DMA_OUT, MATRIX0, VECTOR0, MOVER0, MATRIX1, VECTOR1, MOVER1 = range(len(ENGINES))


def placed(
    rows: Sequence[tuple[Row, str, str]],
    buffers: Mapping[str, tuple[str, str]],
    resources: Sequence[Resource] = (),
    *,
    constants: Sequence[str] = (),
    inputs: Sequence[str] = (),
) -> Program:
    """A program of rows with the names of the buffers that each reads, and then of those that it writes.

    `buffers` says of each its tensor and its space.
    """
    tensors = list(dict.fromkeys(tensor for tensor, _ in buffers.values()))
    values = {name: np.zeros(1, np.float32) for name in constants}
    described = {name: Tensor(name, (1,), DType.FLOAT32, (0,)) for name in tensors}
    graph = Graph("placed", described, (), tuple(inputs), (), values)
    names, spaces = list(buffers), [space.name for space in SPACES]
    used = [(*reads.split(), *writes.split()) for _, reads, writes in rows]
    modes = [[Mode.READ] * len(reads.split()) + [Mode.WRITE] * len(writes.split()) for _, reads, writes in rows]
    program = make_program([row for row, _, _ in rows], resources, engines=ENGINES, graph=graph)
    count = sum(map(len, used))
    return replace(
        program,
        spaces=SPACES,
        tensors=tuple(tensors),
        regions=(Region((0,), (1,)),),
        buffers=Buffers(
            space=np.array([spaces.index(space) for _, space in buffers.values()], np.int16),
            address=np.zeros(len(names), np.int64),
            size_bytes=np.full(len(names), 4),
            tensor=np.array([tensors.index(tensor) for tensor, _ in buffers.values()], np.int32),
            region=np.zeros(len(names), np.int32),
        ),
        operand_offsets=np.cumsum([0, *map(len, used)], dtype=np.int64),
        operand_buffer=np.array([names.index(name) for row in used for name in row], np.int32),
        operand_region=np.zeros(count, np.int32),
        operand_mode=np.array([mode for row in modes for mode in row], np.int8),
    )

"""Small programs from plain values, for the tests of what runs them: rows for instructions, no tensors unless given."""

from collections.abc import Sequence
from fractions import Fraction
from random import Random
from typing import NamedTuple

import numpy as np

from tilestitch.ir.graph import Graph
from tilestitch.ir.program import Buffers, Engine, EngineKind, Kind, Program, Resource
from tilestitch.ir.region import Region

EMPTY = Graph("empty", {}, (), (), (), {})


class Row(NamedTuple):
    """One instruction; `path` lists numbers of resources, None for a copy that passes none."""

    engine: int
    kind: Kind
    cycles: int
    waits: tuple[int, ...] = ()
    size_bytes: int = 0
    path: tuple[int, ...] | None = None
    run_bytes: int = 0
    operator: str | None = None
    box: Region | None = None
    flags: int = 0


def compute(engine: int, cycles: int, waits: Sequence[int] = (), **more) -> Row:
    return Row(engine, Kind.COMPUTE, cycles, tuple(waits), **more)


def copy(engine: int, size_bytes: int, path: Sequence[int], waits: Sequence[int] = (), *, setup=0, run_bytes=0) -> Row:
    return Row(engine, Kind.COPY, setup, tuple(waits), size_bytes, tuple(path), run_bytes)


def make_program(
    rows: Sequence[Row],
    resources: Sequence[tuple] = (),
    *,
    engines: int | Sequence[Engine] | None = None,
    granule_bytes: int = 4096,
    graph: Graph = EMPTY,
) -> Program:
    """A program of these rows; `resources` are tuples (name, bandwidth, burst_bytes=1, pj_per_byte=0)."""
    if engines is None:
        engines = max((row.engine for row in rows), default=-1) + 1
    if isinstance(engines, int):
        engines = [Engine(f"e{e}", EngineKind.MOVER, e) for e in range(engines)]
    paths = list(dict.fromkeys(row.path for row in rows if row.path is not None))
    operators = list(dict.fromkeys(row.operator for row in rows if row.operator is not None))
    boxes = list(dict.fromkeys(row.box for row in rows if row.box is not None))

    def column(values, dtype) -> np.ndarray:
        return np.array(list(values), dtype)

    return Program(
        graph=graph,
        iterations=1,
        spaces=(),
        engines=tuple(engines),
        resources=tuple(
            Resource(name, Fraction(bandwidth), *(more + (1, 0.0)[len(more) :])) for name, bandwidth, *more in map(_listed, resources)
        ),
        paths=tuple(paths),
        tensors=(),
        regions=tuple(boxes),
        operators=tuple(operators),
        kernels=("k",),
        granule_bytes=granule_bytes,
        buffers=Buffers(*(np.zeros(0, t) for t in (np.int16, np.int64, np.int64, np.int32, np.int32))),
        engine=column((row.engine for row in rows), np.int16),
        kind=column((row.kind for row in rows), np.int8),
        flags=column((row.flags for row in rows), np.uint8),
        kernel=np.zeros(len(rows), np.int32),
        iteration=np.zeros(len(rows), np.int32),
        operator=column((-1 if row.operator is None else operators.index(row.operator) for row in rows), np.int32),
        box=column((-1 if row.box is None else boxes.index(row.box) for row in rows), np.int32),
        cycles=column((row.cycles for row in rows), np.int64),
        size_bytes=column((row.size_bytes for row in rows), np.int64),
        run_bytes=column((row.run_bytes for row in rows), np.int32),
        path=column((-1 if row.path is None else paths.index(row.path) for row in rows), np.int32),
        operand_offsets=np.zeros(len(rows) + 1, np.int64),
        operand_buffer=np.zeros(0, np.int32),
        operand_region=np.zeros(0, np.int32),
        operand_mode=np.zeros(0, np.int8),
        wait_offsets=np.cumsum([0, *(len(row.waits) for row in rows)], dtype=np.int64),
        waits=column((w for row in rows for w in row.waits), np.int64),
        inputs=(),
        outputs=(),
        constants=(),
    )

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


def port(name: str, bandwidth: int | str, burst_bytes: int = 1, pj_per_byte: float = 0.0) -> Resource:
    """A resource that passes `bandwidth` bytes a cycle: a number, or a ratio such as `"239/8"`."""
    return Resource(name, Fraction(bandwidth), burst_bytes, pj_per_byte)


def make_program(
    rows: Sequence[Row],
    resources: Sequence[Resource] = (),
    *,
    engines: int | Sequence[Engine] | None = None,
    granule_bytes: int = 4096,
    graph: Graph = EMPTY,
) -> Program:
    """A program of these rows; where `engines` is not given, there are as many movers as the rows need."""
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
        resources=tuple(resources),
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


BANDWIDTHS = ("1", "3", "8", "64", "5/8", "239/8", "1/2", "20/7")  # their ticks stay under a million a cycle


def random_program(seed: int, *, private: bool = False, rows: int = 30, engines: int = 5) -> Program:
    """Some copies, broadcasts and computes on a few engines, with waits on earlier rows and much contention.

    Bandwidths, bursts, runs and granules are small odd numbers, so that little divides evenly. Where `private`, no two
    engines share a resource.
    """
    rng = Random(seed)
    engines, ports = rng.randint(1, engines), rng.randint(1, 4)
    resources = [
        port(f"r{r}", rng.choice(BANDWIDTHS), rng.choice((1, 1, 4, 32)))
        for r in range(ports * engines if private else ports)
    ]
    made = []
    for number in range(rng.randint(1, rows)):
        engine = rng.randrange(engines)
        waits = tuple(rng.randrange(number) for _ in range(rng.randint(0, min(3, number))))
        first = engine * ports if private else 0
        path = tuple(first + r for r in rng.sample(range(ports), rng.randint(1, ports)))
        if rng.random() < 0.35:
            kind = rng.choice((Kind.COMPUTE, Kind.LAUNCH))
            # Bytes and a path mean nothing here.
            made.append(Row(engine, kind, rng.randint(0, 60), waits, rng.choice((0, 500)), path))
            continue
        run_bytes = rng.choice((0, 1, 5, 24))
        size_bytes = rng.randint(0, 20) * (run_bytes or rng.randint(1, 30))
        if rng.random() < 0.2:
            size_bytes += rng.randint(1, 4)  # a shorter last run
        if rng.random() < 0.1:
            path = (*path, path[0])
        kind = rng.choice((Kind.COPY, Kind.COPY, Kind.GATHER))
        setup = rng.choice((0, 0, 1, 10))
        made.append(Row(engine, kind, setup, waits, size_bytes, None if rng.random() < 0.05 else path, run_bytes))
    return make_program(made, resources, engines=engines, granule_bytes=rng.choice((1, 7, 64, 100, 4096)))

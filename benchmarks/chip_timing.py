"""The chip simulator on a million instructions, for a cluster of a few cores and for one of many."""

from fractions import Fraction
from time import perf_counter

import numpy as np

from tilestitch.ir.graph import Graph
from tilestitch.ir.program import Buffers, Engine, EngineKind, Kind, Program, Resource
from tilestitch.sim.chip.timing import simulate

INSTRUCTIONS = 1_000_000
REPEATS = 3


def build(instructions: int, cores: int, *, mean_bytes: int, seed: int = 0) -> Program:
    """A random program for two DMA engines and three engines a core, of which the movers and the DMA move data.

    Each instruction waits for three of those shortly before it; a transfer carries `mean_bytes` on average, in short
    runs. Every mover needs the GB port, one transfer in fifty is a broadcast, and the DDR's rate is odd (239/8).
    """
    rng = np.random.default_rng(seed)
    engines = [Engine("dma_in", EngineKind.DMA_IN, None), Engine("dma_out", EngineKind.DMA_OUT, None)]
    for core in range(cores):
        for kind in (EngineKind.MATRIX, EngineKind.VECTOR, EngineKind.MOVER):
            engines.append(Engine(f"{kind.name.lower()}{core}", kind, core))
    resources = [Resource("ddr", Fraction(239, 8), 64, 20.0), Resource("gb", Fraction(239), 32, 2.0)]
    resources += [Resource(f"lb{core}", Fraction(64), 32, 1.0) for core in range(cores)]
    everyone = tuple(range(2, 2 + cores))
    paths = [(0, 1), *((1, port) for port in everyone), (1, *everyone)]

    engine = rng.integers(0, len(engines), instructions)
    mover = (engine >= 2) & ((engine - 2) % 3 == 2)
    moves = (engine < 2) | mover
    path = np.where(mover, 1 + (engine - 2) // 3, np.where(engine < 2, 0, -1))
    path[mover & (rng.random(instructions) < 0.02)] = len(paths) - 1  # a few broadcasts
    run_bytes = np.where(moves, rng.choice([48, 256, 1024], instructions), 0)
    size_bytes = run_bytes * rng.integers(1, 1 + np.maximum(1, 2 * mean_bytes // np.maximum(1, run_bytes)))
    number = np.arange(instructions)
    waits = number[:, None] - rng.integers(1, 4 * len(engines), (instructions, 3))
    known = waits >= 0
    return Program(
        graph=Graph("empty", {}, (), (), (), {}),
        iterations=1,
        spaces=(),
        engines=tuple(engines),
        resources=tuple(resources),
        paths=tuple(paths),
        tensors=(),
        regions=(),
        operators=(),
        kernels=("k",),
        granule_bytes=4096,
        buffers=Buffers(*(np.zeros(0, t) for t in (np.int16, np.int64, np.int64, np.int32, np.int32))),
        engine=engine.astype(np.int16),
        kind=np.where(moves, Kind.COPY, Kind.COMPUTE).astype(np.int8),
        flags=np.zeros(instructions, np.uint8),
        kernel=np.zeros(instructions, np.int32),
        iteration=np.zeros(instructions, np.int32),
        operator=np.full(instructions, -1, np.int32),
        box=np.full(instructions, -1, np.int32),
        cycles=np.where(moves, 32, rng.integers(1, 1000, instructions)),
        size_bytes=size_bytes,
        run_bytes=run_bytes.astype(np.int32),
        path=path.astype(np.int32),
        operand_offsets=np.zeros(instructions + 1, np.int64),
        operand_buffer=np.zeros(0, np.int32),
        operand_region=np.zeros(0, np.int32),
        operand_mode=np.zeros(0, np.int8),
        wait_offsets=np.concatenate(([0], np.cumsum(known.sum(axis=1)))),
        waits=waits[known],
        inputs=(),
        outputs=(),
        constants=(),
    )


def granules(program: Program) -> int:
    """How many granules the transfers of a program are cut into."""
    run = np.maximum(1, program.run_bytes.astype(np.int64))
    longest = np.zeros(len(program), np.int64)
    for number, path in enumerate(program.paths):
        on_path = program.path == number
        for resource in (program.resources[r] for r in path):
            burst = resource.burst_bytes
            size = program.size_bytes[on_path] // run[on_path] * (-(-run[on_path] // burst) * burst)
            longest[on_path] = np.maximum(longest[on_path], size)
    return int((-(-longest // program.granule_bytes)).sum())


def main() -> None:
    simulate(build(1000, 1, mean_bytes=1000))  # compiles, or loads what an earlier run compiled
    for cores, mean_bytes in ((9, 4 << 10), (9, 64 << 10), (432, 4 << 10), (432, 64 << 10)):
        program = build(INSTRUCTIONS, cores, mean_bytes=mean_bytes)
        seconds = []
        for _ in range(REPEATS):
            begin = perf_counter()
            simulate(program)
            seconds.append(perf_counter() - begin)
        best, pieces = min(seconds), granules(program)
        print(
            f"  {len(program):,} instructions, {len(program.engines):,} engines, {pieces:,} granules: {best:.2f} s, "
            f"{len(program) / best / 1e6:.2f} M instructions/s, {pieces / best / 1e6:.1f} M granules/s"
        )

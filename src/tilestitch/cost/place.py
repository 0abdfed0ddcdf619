"""Where a kernel runs, as arrays: the machine's numbers, a split over cores, and the room that is left."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.kernels.shape import KernelShape, Operand
from tilestitch.kernels.surroundings import FROM_DDR, NOWHERE, Room, Shares, Surroundings

# Where something stays, and which memory has no room; the last is no memory.
DDR, LB, WEIGHTS, ACCUMULATORS, GB, UNSUMMED = range(6)
LEVELS = (Level.DDR, Level.LB, Level.WEIGHTS, Level.ACCUMULATORS, Level.GB)
MEMORIES = len(LEVELS)
DIRECT, FROM_DDR_SHARE, FROM_GB_SHARE, PLAIN = range(4)


class Rates(NamedTuple):
    """What of a machine every estimate needs: cycles and bytes a cycle."""

    ddr_burst: float
    gb_burst: float
    dma_cycles: float
    mover_cycles: float
    compute_cycles: float
    launch_cycles: float
    ddr: tuple[float, float]  # numerator and denominator
    channel: tuple[float, float]  # of DDR, for one core
    link: float
    gb: float  # 0: there is none


class Place(NamedTuple):
    """Where a kernel runs: its iterations, their split over cores, and what lies around."""

    start: np.ndarray  # of the iterations, by dim of the sink
    extents: np.ndarray
    splits: np.ndarray
    piece: np.ndarray  # extents of the largest part of a core
    cores: float  # at work
    shares: (
        np.ndarray
    )  # operand: 1 where it is read in place, shares of its bytes from DDR and GB, 1 where all is in DDR
    stays: np.ndarray  # of what tiles make: the level where it stays, and 1 where the units write it there
    rooms: np.ndarray  # free bytes by level; negative infinity: there is no such memory
    kept: float  # bytes of the results that stay


def rates_of(machine: Accelerator) -> Rates:
    """The numbers of a machine that estimates are made of."""
    gb, setup = machine.memory(Level.GB), machine.setup
    ddr, channel = machine.ddr.bandwidth_bytes_per_cycle, machine.channel_bytes_per_cycle
    return Rates(
        float(machine.ddr.burst_bytes),
        float(gb.burst_bytes) if gb is not None else 1.0,
        float(setup.dma_cycles),
        float(setup.mover_cycles),
        float(setup.compute_cycles),
        float(setup.launch_cycles),
        (float(ddr.numerator), float(ddr.denominator)),
        (float(channel.numerator), float(channel.denominator)),
        float(machine.link.bandwidth_bytes_per_cycle),
        float(gb.bandwidth_bytes_per_cycle) if gb is not None else 0.0,
    )


def place_of(
    shape: KernelShape,
    machine: Accelerator,
    splits: Sequence[int],
    steps: Sequence[int],
    around: Surroundings = NOWHERE,
    origins: Mapping[Operand, Shares] | None = None,
    kept_bytes: int = 0,
) -> Place:
    """A kernel under one split over cores.

    `origins` says where the bytes of operands on chip come from, `kept_bytes` what the results take where they stay.
    """
    box = around.iterations(shape.sink)
    known = {} if origins is None else origins
    found = [(known.get(operand, FROM_DDR), operand not in known) for operand in shape.operands]
    shares = np.array([(one.direct, one.ddr, one.gb, plain) for one, plain in found], np.float64).reshape(-1, 4)
    names = list(dict.fromkeys(write.tensor for op in shape.operators for write in op.writes))
    level = LEVELS.index(around.results)
    kept = [name in around.kept for name in names]
    alone = [one and name not in around.stored for name, one in zip(names, kept, strict=True)]
    made = zip(kept, alone, strict=True)
    stays = np.array([(level if only else DDR, one and around.results is shape.home) for one, only in made], np.int64)
    rooms = np.full(MEMORIES, -np.inf)
    for memory in machine.memories:
        if memory.level in LEVELS:
            room = around.rooms.get(memory.level, Room(memory.size_bytes))
            rooms[LEVELS.index(memory.level)] = room.left(kept_bytes if memory.level is around.results else 0)
    return Place(
        np.array(box.start, np.int64),
        np.array(box.extents, np.int64),
        np.array(splits, np.int64),
        np.array(around.largest_piece(shape.sink, splits, steps), np.int64),
        float(len(around.strips) or prod(splits)),
        shares,
        stays.reshape(-1, 2),
        rooms,
        float(kept_bytes),
    )


def misfit_text(machine: Accelerator, level: int, need: float, rooms: np.ndarray) -> str:
    """Which memory overflows, as an inequality; `rooms` is what is free of each."""
    if level == UNSUMMED:
        return "a reduction in parts, and the core has no accumulators to keep partial sums in"
    memory, room = machine.memory(LEVELS[level]), float(rooms[level])
    assert memory is not None
    kept = memory.size_bytes - int(room)
    beside = f" beside {kept:,} B that stay there" if kept else ""
    return (
        f"{int(need):,} B in {LEVELS[level]}, which holds {memory.size_bytes:,} B{beside} "
        f"({int(need - room):,} B too much)"
    )

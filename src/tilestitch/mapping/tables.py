"""A nest and an array machine as plain arrays and numbers, for compiled code."""

from fractions import Fraction
from math import lcm
from typing import NamedTuple

import numpy as np

from tilestitch.hardware.accelerator import Reduction
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.ir.loop_nest import LoopNest

# Columns of NestTable.operands.
FIRST_AXIS, END_AXIS, BITS, NETWORK, DOUBLE, ROOM, ROOM_OF_PARTS = range(7)
# Columns of NestTable.axes.
FIRST_TERM, END_TERM, DECLARED = range(3)
SERIAL, CHAIN, TREE = range(3)
_REDUCTIONS = {Reduction.SERIAL: SERIAL, Reduction.CHAIN: CHAIN, Reduction.TREE: TREE}


class NestTable(NamedTuple):
    """Arrays of int64. Operands are those that are read, then the one that is written."""

    extents: np.ndarray  # loop
    # Operand: its axes, bits of an element, network, 1 where registers have two buffers, bits of an element in the
    # scratchpad where a tile has complete sums, and where it has parts of them.
    operands: np.ndarray
    axes: np.ndarray  # axis: its terms, extent in memory
    terms: np.ndarray  # loop, step
    indexed: np.ndarray  # operand, loop: 1 where the loop moves it and has more than one iteration


class Pass(NamedTuple):
    """What a pass of the register files takes, in cycles, and what is exchanged in it."""

    compute: int
    sums: int  # until partial sums have gone through all elements that add to them
    hops: float  # partial sums that go from an element to another, of all results
    exchanged: np.ndarray  # operand: the columns of `parts`


class Tiles(NamedTuple):
    """How often there are passes and tiles of the scratchpad, and what DMA moves for a tile."""

    passes: int  # while one tile is in the scratchpad
    tiles: int
    first_passes: float  # different tiles of the result that the register files see
    fresh_passes: int  # of those, while one tile is in the scratchpad
    first_tiles: float  # different tiles of the result that the scratchpad sees
    moved: np.ndarray  # operand: the columns of `parts`


class MachineTable(NamedTuple):
    """What an `ArrayMachine` says, in the order of compiled code."""

    elements: int
    register_bytes: int
    banks: int
    bank_bytes: int
    rates: np.ndarray  # network (three, then that of partial sums): numerator and denominator of bytes a cycle
    multicast: bool
    reduction: int
    setup: int  # of a contiguous run, in parts of a cycle
    per_byte: int  # of DMA, in parts of a cycle
    parts: int  # of a cycle
    burst_bytes: int  # to which DMA rounds runs up
    strides: int  # of a descriptor of DMA; 0: every run has a set-up
    channels: int
    adder_stages: int
    drain: int  # cycles from the last instruction of a pass until its sum is in the register file
    latency: int  # of a network
    late: int  # of that, beyond the two cycles that hide behind the next barrier
    configuration: int  # cycles
    mac_pj: float
    register_pj: float  # per byte, as are the next three
    network_pj: float
    scratchpad_pj: float
    dram_pj: float


def nest_table(nest: LoopNest, machine: ArrayMachine, room: tuple[int, int] | None = None) -> NestTable:
    """The arrays of one nest on one machine; `room` are the last two columns of the result, by default its bits."""
    operands, axes, terms = [], [], []
    indexed = np.zeros((len(nest.operands), len(nest.loops)), np.int64)
    for number, operand in enumerate(nest.operands):
        first = len(axes)
        for pairs, declared in zip(operand.axes, operand.shape, strict=True):
            axes.append((len(terms), len(terms) + len(pairs), declared))
            terms += [(loop, abs(step)) for loop, step in pairs]
        role = 2 if operand is nest.write else min(number, 1)
        network = {3: role, 2: 2 if role == 2 else 1, 1: 0}[machine.networks]
        bits = operand.element_bits if machine.operand_bits is None else machine.operand_bits[role]
        own = room if room is not None and operand is nest.write else (bits, bits)
        operands.append((first, len(axes), bits, network, machine.micro.double_buffered[role], *own))
        for loop in operand.indexed_by:
            indexed[number, loop] = nest.loops[loop].extent > 1
    return NestTable(
        np.array(nest.extents, np.int64),
        np.array(operands, np.int64),
        np.array(axes, np.int64).reshape(-1, 3),
        np.array(terms, np.int64).reshape(-1, 2),
        indexed,
    )


def machine_table(machine: ArrayMachine) -> MachineTable:
    """The numbers of one machine."""
    setup, per_byte = _short(machine.run_start_cycles), _short(machine.dma_cycles_per_byte)
    parts = lcm(setup.denominator, per_byte.denominator)
    rates = [_short(rate) for rate in (*machine.network_bytes_per_cycle, machine.reduction_bytes_per_cycle)]
    return MachineTable(
        elements=machine.elements,
        register_bytes=machine.register_bytes,
        banks=machine.banks,
        bank_bytes=machine.bank_bytes,
        rates=np.array([(rate.numerator, rate.denominator) for rate in rates], np.int64),
        multicast=machine.multicast,
        reduction=_REDUCTIONS[machine.reduction],
        setup=int(setup * parts),
        per_byte=int(per_byte * parts),
        parts=parts,
        burst_bytes=machine.dma_burst_bytes,
        strides=machine.dma_strides,
        channels=machine.dma_channels,
        adder_stages=machine.micro.adder_stages,
        drain=machine.micro.drain_cycles,
        latency=machine.micro.network_latency_cycles,
        late=max(0, machine.micro.network_latency_cycles - 2),
        configuration=machine.configuration_cycles,
        mac_pj=machine.mac_pj,
        register_pj=machine.register_pj_per_byte,
        network_pj=machine.network_pj_per_byte,
        scratchpad_pj=machine.scratchpad_pj_per_byte,
        dram_pj=machine.dram_pj_per_byte,
    )


def _short(rate: Fraction) -> Fraction:
    """The nearest rate with a denominator of at most 1000, or of less than 1 with such an inverse: mostly itself.

    Products with sizes stay within 64 bits so. A file may say 26.666666666666668 bytes a cycle, whose inverse has 16
    digits above and below.
    """
    if 0 < rate < 1:
        return 1 / (1 / rate).limit_denominator(1000)
    return rate.limit_denominator(1000)

"""A mapping and its machine as plain arrays, for the compiled clock."""

from math import prod
from typing import NamedTuple

import numpy as np

from tilestitch.base.units import ceil_div
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.hardware.microarchitecture import ScratchpadLayout
from tilestitch.sim.array.dram import flat_dram
from tilestitch.sim.array.geometry import Geometry, coefficients, strides_of
from tilestitch.sim.array.programs import Programs, Sums
from tilestitch.sim.array.streams import Streams
from tilestitch.sim.array.transfers import Transfers

NETWORKS = 3
FETCH_TO_READ = 2  # cycles from the fetch of an instruction until it reads its registers
# Numbers of a plan.
(
    ELEMENTS,
    LATENCY,  # of the networks
    LATE,  # cycles by which words come later than an instruction that is fetched next reads them
    DRAIN,
    ADDER,
    CLASSES,
    KINDS,
    CHANNELS,
    CONFIGURATION,
    CHECKED,  # 1 where words of one cycle may be in one bank
    PORTS,
    FIFO,  # words
    EMPTIED,  # words a cycle that leave a FIFO; 0: as many as come
    NUMBERS,
) = range(14)
# Columns of operands.
(
    DOUBLE,  # 1 where registers have two buffers
    NETWORK,
    WORD_BITS,
    RATE_ABOVE,  # bytes a cycle
    RATE_BELOW,
    REGISTERS,  # first register x elements of its buffers
    BUFFER,  # registers x elements of a buffer
    SCRATCHPAD,  # first word of its tiles in the scratchpad
    TILE,  # words of a tile
    BASE,  # first byte in DRAM
    FIRST_WORD,  # first word in DRAM
    FIRST_BANK,
    BANKS,
    ROWS,  # of a bank: as many as a port can address; 0 where rows go round the banks
    ROW_BYTES,
    OPERAND_COLUMNS,
) = range(16)
# Columns of loops.
TILES, PASSES, LAST_PASSES, CLASS_BIT, KIND_BIT, SUMMED, LOOP_COLUMNS = range(7)


class Plan(NamedTuple):
    """Arrays of int64, but for `mask`. Operands that are read go before the one that is written."""

    numbers: np.ndarray
    operands: np.ndarray
    loops: np.ndarray
    dram_order: np.ndarray
    spm_order: np.ndarray
    indexed: np.ndarray  # operand, loop
    pass_step: np.ndarray  # operand, loop: words in the scratchpad from one pass to the next
    origin: np.ndarray  # operand, loop: words in DRAM from one tile to the next
    stream_first: np.ndarray
    offset: np.ndarray
    aim: np.ndarray
    target: np.ndarray
    program_first: np.ndarray
    registers: np.ndarray
    together: np.ndarray
    masked: np.ndarray
    mask: np.ndarray
    sum_first: np.ndarray
    sum_cycle: np.ndarray
    sum_source: np.ndarray
    sum_target: np.ndarray
    sum_cycles: np.ndarray
    run_first: np.ndarray
    run_words: np.ndarray
    run_dram: np.ndarray
    run_scratchpad: np.ndarray
    dram: np.ndarray  # table of the memory


def plan_of(
    geometry: Geometry,
    machine: ArrayMachine,
    streams: Streams,
    programs: Programs,
    sums: Sums,
    transfers: Transfers,
) -> Plan:
    """The arrays of one mapping on one machine."""
    micro, mapping = machine.micro, geometry.mapping
    operands = _operands(geometry, machine, transfers)
    wide = any(8 * row[RATE_ABOVE] > row[WORD_BITS] * row[RATE_BELOW] for row in operands)
    thick = any(row[WORD_BITS] > 8 * micro.scratchpad_port_bytes for row in operands)
    numbers = np.zeros(NUMBERS, np.int64)
    numbers[ELEMENTS] = geometry.elements
    numbers[LATENCY] = micro.network_latency_cycles
    numbers[LATE] = max(0, micro.network_latency_cycles - FETCH_TO_READ)
    numbers[DRAIN] = micro.drain_cycles
    numbers[ADDER] = micro.adder_stages
    numbers[CLASSES] = streams.classes
    numbers[KINDS] = transfers.kinds
    numbers[CHANNELS] = machine.dma_channels
    numbers[CONFIGURATION] = machine.configuration_cycles
    numbers[CHECKED] = wide or thick or micro.scratchpad_ports == 1
    numbers[PORTS] = micro.scratchpad_ports
    numbers[FIFO] = micro.fifo_words
    numbers[EMPTIED] = micro.register_writes_per_cycle or 0
    count = len(mapping.dram)
    loops = np.zeros((count, LOOP_COLUMNS), np.int64)
    for loop in range(count):
        last = ceil_div(geometry.last_tile_sizes[loop], mapping.pass_tile[loop])
        loops[loop, TILES], loops[loop, PASSES], loops[loop, LAST_PASSES] = mapping.dram[loop], mapping.spm[loop], last
        loops[loop, SUMMED] = loop in geometry.summed
    for bit, loop in enumerate(geometry.ragged):
        loops[loop, CLASS_BIT] = 1 << bit
    for bit, loop in enumerate(transfers.ragged):
        loops[loop, KIND_BIT] = 1 << bit
    indexed = np.zeros((len(operands), count), np.int64)
    pass_step = np.zeros((len(operands), count), np.int64)
    for number, operand in enumerate(geometry.nest.operands):
        indexed[number, sorted(operand.indexed_by)] = 1
        steps = coefficients(operand, strides_of(operand.extents(geometry.tile_sizes)), count)
        pass_step[number] = steps * np.array(mapping.pass_tile)
    return Plan(
        numbers=numbers,
        operands=operands,
        loops=loops,
        dram_order=np.array(mapping.dram_order, np.int64),
        spm_order=np.array(mapping.spm_order, np.int64),
        indexed=indexed,
        pass_step=pass_step,
        origin=transfers.origin,
        stream_first=streams.first,
        offset=streams.offset,
        aim=streams.aim,
        target=streams.target,
        program_first=programs.first,
        registers=programs.registers,
        together=programs.together,
        masked=programs.masked,
        mask=programs.mask,
        sum_first=sums.first,
        sum_cycle=sums.cycle,
        sum_source=sums.source,
        sum_target=sums.target,
        sum_cycles=sums.cycles,
        run_first=transfers.first,
        run_words=transfers.words,
        run_dram=transfers.dram,
        run_scratchpad=transfers.scratchpad,
        dram=flat_dram(machine),
    )


def _operands(geometry: Geometry, machine: ArrayMachine, transfers: Transfers) -> np.ndarray:
    micro, nest = machine.micro, geometry.nest
    rows = np.zeros((len(nest.operands), OPERAND_COLUMNS), np.int64)
    registers = scratchpad = first_word = first_bank = 0
    for number, operand in enumerate(nest.operands):
        role = 2 if operand is nest.write else min(number, 1)
        network = {3: role, 2: 2 if role == 2 else 1, 1: 0}[machine.networks]
        rate = machine.network_bytes_per_cycle[network].limit_denominator(1000)
        row = rows[number]
        row[DOUBLE] = micro.double_buffered[role]
        row[NETWORK] = network
        row[WORD_BITS] = geometry.element_bits[number]
        row[RATE_ABOVE], row[RATE_BELOW] = rate.numerator, rate.denominator
        row[REGISTERS] = registers
        row[BUFFER] = geometry.register_words[number] * geometry.elements
        registers += 2 * int(row[BUFFER])
        row[SCRATCHPAD] = scratchpad
        row[TILE] = geometry.tile_words[number]
        scratchpad += 2 * int(row[TILE])
        row[BASE] = transfers.base[number]
        row[FIRST_WORD] = first_word
        first_word += prod(operand.shape)
        row[FIRST_BANK] = first_bank
        row[BANKS] = min(ceil_div(geometry.tile_bytes[number], machine.bank_bytes), 2**16)
        first_bank += 2 * int(row[BANKS])
        row[ROW_BYTES] = micro.scratchpad_port_bytes
        if micro.scratchpad_layout is ScratchpadLayout.BLOCKED:
            row[ROWS] = ceil_div(machine.bank_bytes, micro.scratchpad_port_bytes)
    return rows

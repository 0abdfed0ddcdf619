"""A machine as a page of text for people."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import groupby

from tilestitch.base.dtypes import DType
from tilestitch.base.units import counted, format_bytes, format_number, format_rate
from tilestitch.hardware.accelerator import Accelerator, Core, Level, MatrixUnit, PEArray, Sharing, VectorUnit
from tilestitch.hardware.microarchitecture import Controller
from tilestitch.hardware.tree_chip import ROOM_BITS
from tilestitch.hardware.tree_describe import size_text
from tilestitch.hardware.units import vector_lanes


def describe(machine: Accelerator) -> str:
    """Shape, units, peaks, memories and ridge point of a machine; lines end in a newline."""
    sections = (
        [machine.name, machine.description],
        [_shape(machine)],
        ["units", *_columns(_unit_rows(machine))],
        ["peak, all cores", *_columns(_peak_rows(machine))],
        ["memories", *_columns(_memory_rows(machine))],
        *_inside(machine),
        ["transfers", *_columns(_transfer_rows(machine))],
        ["ridge point", *_columns(_ridge_rows(machine))],
    )
    return "\n\n".join("\n".join(section) for section in sections) + "\n"


def _matrix_flops(machine: Accelerator) -> dict[DType, Fraction]:
    """Operations per second of all matrix units together, per element type; a multiply-accumulate counts as two."""
    units = [core.matrix for core in machine.cores if core.matrix is not None and core.array is None]
    return _products(machine, units)


def _array_flops(machine: Accelerator) -> dict[DType, Fraction]:
    """Likewise of all arrays of processing elements."""
    return _products(machine, [core.array for core in machine.cores if core.array is not None])


def _products(machine: Accelerator, units: Sequence[MatrixUnit | PEArray]) -> dict[DType, Fraction]:
    peaks: dict[DType, Fraction] = {}
    for unit in units:
        rates = unit.rates
        if isinstance(unit, MatrixUnit) and _takes_any_type(unit):
            rates = ((DType.FLOAT16, Fraction(1)),)  # and every other type
        for dtype, rate in rates:
            flops = 2 * _macs_per_cycle(unit) * rate * machine.clock_hz * machine.clusters
            peaks[dtype] = peaks.get(dtype, Fraction(0)) + flops
    return peaks


def _takes_any_type(unit: MatrixUnit) -> bool:
    """Whether it stands for the units of a tree, whose file says no types of elements."""
    return unit.spreads_freely and len(unit.rates) == len(DType) - 1  # all but BOOL


def _macs_per_cycle(unit: MatrixUnit | PEArray) -> int:
    return unit.m * unit.k * unit.n if isinstance(unit, MatrixUnit) else unit.rows * unit.columns


def _vector_flops(machine: Accelerator) -> dict[DType, Fraction]:
    """Operations per second of all vector units together, per element type that any of them has lanes for.

    A vector unit without lanes for a type counts with those in which it runs it.
    """
    units = [core.vector for core in machine.cores if core.vector is not None and not core.only_array]
    return {
        dtype: Fraction(sum(vector_lanes(unit, dtype) for unit in units) * machine.clock_hz * machine.clusters)
        for dtype in DType
        if any(dtype in dict(unit.lanes) for unit in units)
    }


def _shape(machine: Accelerator) -> str:
    per_cluster = len(machine.cores)
    total = f"{counted(machine.clusters, 'cluster')} x {counted(per_cluster, 'core')}"
    return f"{total} = {counted(machine.clusters * per_cluster, 'core')}, clock {format_rate(machine.clock_hz, 'Hz')}"


def _unit_rows(machine: Accelerator) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for core, group in groupby(machine.cores):
        count = f"{counted(len(list(group)), 'core')} per cluster"
        lines = [line for unit in _units(core) for line in _unit_lines(unit)]
        for line in [*lines, *_memory_lines(machine, core)]:
            rows.append((count, line))
            count = ""
    return rows


def _units(core: Core) -> list[MatrixUnit | VectorUnit | PEArray]:
    """What the machine's file gives the core, without what stands for its array."""
    if core.array is None:
        return [unit for unit in (core.matrix, core.vector) if unit is not None]
    return [core.array] if core.only_array or core.vector is None else [core.array, core.vector]


def _memory_lines(machine: Accelerator, core: Core) -> list[str]:
    """Which memories the core has for itself, where other cores have others."""
    if all(other.levels == core.levels for other in machine.cores):
        return []
    own = ", ".join(core.levels) or "none"
    return [f"memories of its own: {own}{'' if Level.LB in core.levels else '; works in gb'}"]


def _unit_lines(unit: MatrixUnit | VectorUnit | PEArray) -> list[str]:
    match unit:
        case PEArray():
            speeds = ", ".join(f"{dtype} {format_number(rate)}" for dtype, rate in unit.rates)
            networks = (
                ("first operand", unit.first_bytes_per_cycle),
                ("second", unit.second_bytes_per_cycle),
                ("results", unit.result_bytes_per_cycle),
                ("partial sums", unit.reduction_bytes_per_cycle),
            )
            return [
                f"{unit.name}: {unit.rows:,} x {unit.columns:,} = "
                f"{counted(unit.rows * unit.columns, 'processing element')}, "
                f"registers of {counted(unit.register_bytes, 'byte')} each",
                f"multiply-accumulates of one a cycle: {speeds}; {unit.mac_pj:g} pJ each",
                f"networks, B/cycle: {', '.join(f'{name} {format_number(rate)}' for name, rate in networks)}",
                f"{_SHARED[unit.networks]}; a word goes to "
                f"{'all elements at once' if unit.multicast else 'one element'}; partial sums: {unit.reduction}",
                *_array_options(unit),
                f"{unit.register_pj_per_byte:g} pJ/B of registers, {unit.network_pj_per_byte:g} pJ/B of networks",
            ]
        case MatrixUnit(spreads_freely=True):
            macs = counted(_macs_per_cycle(unit), "multiply-accumulate")
            types = "any type" if _takes_any_type(unit) else " or ".join(dtype for dtype, _ in unit.rates)
            return [
                f"{unit.name}: {macs} per cycle, of {types}; {unit.mac_pj:g} pJ each",
                "a tile takes what its fastest mapping does on the memories inside lb",
            ]
        case MatrixUnit():
            macs = f"{_macs_per_cycle(unit):,} multiply-accumulates per cycle"
            extents = f"{counted(unit.m, 'row')} x {unit.k} deep x {counted(unit.n, 'column')}"
            speeds = ", ".join(f"{dtype} {format_number(rate)} x that" for dtype, rate in unit.rates)
            return [
                f"{unit.name}: {macs} ({extents})",
                f"{speeds}; {unit.mac_pj:g} pJ per multiply-accumulate",
                f"{unit.dataflow.replace('_', ' ')}, {'' if unit.systolic else 'not '}systolic, folds "
                f"{'' if unit.overlapped_folds else 'do not '}overlap",
            ]
        case VectorUnit():
            lanes = ", ".join(f"{dtype} {counted(count, 'lane')}" for dtype, count in unit.lanes)
            return [f"{unit.name}: one operation per lane and cycle; {lanes}; {unit.operation_pj:g} pJ per operation"]


_SHARED = {3: "a network for each", 2: "both operands share the second's", 1: "all share the first operand's"}


def _array_options(unit: PEArray) -> list[str]:
    """What the file of a machine may leave out, where it does not."""
    parts = []
    micro = unit.micro
    if micro.controller != Controller.OVERLAPPED:
        parts.append(f"controller as {micro.controller}")
    parts.append(
        f"pipeline of {micro.pipeline_stages} stages, {sum(micro.double_buffered)} of 3 operands double-buffered in "
        f"registers, networks of {counted(micro.network_latency_cycles, 'cycle')} latency"
    )
    if unit.dma_setup_cycles is not None:
        parts.append(f"set-up of DMA {format_number(unit.dma_setup_cycles)} cycles a run")
    if unit.dma_channels > 1:
        parts.append(f"{unit.dma_channels} channels of DMA")
    if unit.operand_bits is not None:
        parts.append("operands and result of " + ", ".join(map(str, unit.operand_bits)) + " bits")
    return ["; ".join(parts)] if parts else []


def _classes(machine: Accelerator) -> tuple[tuple[str, dict[DType, Fraction]], ...]:
    """The classes of units, each with its operations per second by element type."""
    return (
        ("arrays", _array_flops(machine)),
        ("matrix units", _matrix_flops(machine)),
        ("vector units", _vector_flops(machine)),
    )


def _peak_rows(machine: Accelerator) -> list[tuple[str, ...]]:
    return [
        (label, str(dtype), format_rate(flops, "FLOPS" if dtype.is_float else "OPS"))
        for label, peaks in _classes(machine)
        for dtype, flops in peaks.items()
    ]


def _memory_rows(machine: Accelerator) -> list[tuple[str, ...]]:
    return [
        (
            str(memory.level),
            f"1 per {memory.sharing}",
            format_bytes(memory.size_bytes),
            _bandwidth(memory.bandwidth_bytes_per_cycle, machine.clock_hz),
            f"bursts of {memory.burst_bytes} B{f', {memory.banks} banks' if memory.banks > 1 else ''}",
            f"{memory.read_pj_per_byte:g} pJ/B read, {memory.write_pj_per_byte:g} pJ/B written",
        )
        for memory in machine.memories
    ]


def _inside(machine: Accelerator) -> list[list[str]]:
    """The section of what is inside the local buffers, where only mappings of tiles are; none where nothing is."""
    inside = next((core.inside for core in machine.cores if core.inside is not None), None)
    if inside is None:
        return []
    rows = [
        (one.name, f"{inside.instances(one)} per core", size_text(one.size_bits), f"keeps {', '.join(one.operands)}")
        for one in inside.memories
        if one.size_bits != ROOM_BITS
    ]
    return [["inside lb, where tiles are mapped", *_columns(rows)]] if rows else []


def _transfer_rows(machine: Accelerator) -> list[tuple[str, ...]]:
    setup = machine.setup
    energy = f"{machine.link.pj_per_byte:g} pJ/B"
    return [
        ("link of a core", f"{_bandwidth(machine.link.bandwidth_bytes_per_cycle, machine.clock_hz)}, {energy}"),
        *_channel_rows(machine),
        ("granule", format_bytes(machine.granule_bytes)),
        ("set-up", f"DMA {counted(setup.dma_cycles, 'cycle')}, mover {counted(setup.mover_cycles, 'cycle')}"),
        ("", f"compute {counted(setup.compute_cycles, 'cycle')}, launch {counted(setup.launch_cycles, 'cycle')}"),
    ]


def _channel_rows(machine: Accelerator) -> list[tuple[str, ...]]:
    """How a kernel reaches a DDR of several channels."""
    if machine.ddr.channels == 1:
        return []
    one = _bandwidth(machine.channel_bytes_per_cycle, machine.clock_hz)
    return [("channels of DDR", f"{machine.ddr.channels}; a kernel on one core draws from one: {one}")]


def _ridge_rows(machine: Accelerator) -> list[tuple[str, ...]]:
    """The operational intensity above which a class of units, not DDR, limits the machine."""
    channels = machine.clusters if machine.ddr.sharing is Sharing.CLUSTER else 1
    bandwidth = machine.ddr.bandwidth_bytes_per_cycle * channels
    per_second = bandwidth * machine.clock_hz
    return [
        (label, str(DType.FLOAT16), f"{format_number(peaks[DType.FLOAT16] / per_second)} FLOP/byte of DDR traffic")
        for label, peaks in _classes(machine)
        if DType.FLOAT16 in peaks
    ] + [("DDR of the chip", "", _bandwidth(bandwidth, machine.clock_hz))]


def _columns(rows: list[tuple[str, ...]]) -> list[str]:
    """Rows of equal length as indented lines, their columns aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _bandwidth(bytes_per_cycle: Fraction, clock_hz: int) -> str:
    return f"{format_number(bytes_per_cycle)} B/cycle = {format_rate(bytes_per_cycle * clock_hz, 'B/s')}"

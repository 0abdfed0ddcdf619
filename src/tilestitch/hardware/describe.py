"""A machine as a page of text for people."""

from fractions import Fraction
from itertools import groupby

from tilestitch.dtypes import DType
from tilestitch.hardware.accelerator import Accelerator, Core, MatrixUnit, Sharing, VectorUnit
from tilestitch.units import format_bytes


def describe(machine: Accelerator) -> str:
    """Shape, units, peaks, memories and ridge point of a machine; lines end in a newline."""
    sections = (
        [machine.name, machine.description],
        [_shape(machine)],
        ["units", *_columns(_unit_rows(machine))],
        ["peak, all cores", *_columns(_peak_rows(machine))],
        ["memories", *_columns(_memory_rows(machine))],
        ["transfers", *_columns(_transfer_rows(machine))],
        ["ridge point", *_columns(_ridge_rows(machine))],
    )
    return "\n\n".join("\n".join(section) for section in sections) + "\n"


def _matrix_flops(machine: Accelerator) -> dict[DType, Fraction]:
    """Operations per second of all matrix units together, per element type; a multiply-accumulate counts as two."""
    peaks: dict[DType, Fraction] = {}
    for core in machine.cores:
        if core.matrix is not None:
            macs_per_cycle = core.matrix.m * core.matrix.k * core.matrix.n
            for dtype, rate in core.matrix.rates:
                flops = 2 * macs_per_cycle * rate * machine.clock_hz * machine.clusters
                peaks[dtype] = peaks.get(dtype, Fraction(0)) + flops
    return peaks


def _vector_flops(machine: Accelerator) -> dict[DType, Fraction]:
    """Operations per second of all vector units together, per element type that any of them has lanes for.

    A vector unit without lanes for a type runs it as float16, so it counts with its float16 lanes.
    """
    units = [dict(core.vector.lanes) for core in machine.cores]
    return {
        dtype: Fraction(
            sum(lanes.get(dtype, lanes[DType.FLOAT16]) for lanes in units) * machine.clock_hz * machine.clusters
        )
        for dtype in DType
        if any(dtype in lanes for lanes in units)
    }


def _shape(machine: Accelerator) -> str:
    per_cluster = len(machine.cores)
    total = f"{_count(machine.clusters, 'cluster')} x {_count(per_cluster, 'core')}"
    return f"{total} = {_count(machine.clusters * per_cluster, 'core')}, clock {_scaled(machine.clock_hz, 'Hz')}"


def _unit_rows(machine: Accelerator) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for core, group in groupby(machine.cores, key=_units):
        count = f"{_count(len(list(group)), 'core')} per cluster"
        for unit in core:
            for line in _unit_lines(unit):
                rows.append((count, line))
                count = ""
    return rows


def _units(core: Core) -> tuple[MatrixUnit | VectorUnit, ...]:
    return (core.vector,) if core.matrix is None else (core.matrix, core.vector)


def _unit_lines(unit: MatrixUnit | VectorUnit) -> list[str]:
    match unit:
        case MatrixUnit():
            macs = f"{unit.m * unit.k * unit.n:,} multiply-accumulates per cycle"
            extents = f"{_count(unit.m, 'row')} x {unit.k} deep x {_count(unit.n, 'column')}"
            speeds = ", ".join(f"{dtype} {_plain(rate)} x that" for dtype, rate in unit.rates)
            return [
                f"{unit.name}: {macs} ({extents})",
                f"{speeds}; {unit.mac_pj:g} pJ per multiply-accumulate",
                f"{unit.dataflow.replace('_', ' ')}, {'' if unit.systolic else 'not '}systolic, folds "
                f"{'' if unit.overlapped_folds else 'do not '}overlap",
            ]
        case VectorUnit():
            lanes = ", ".join(f"{dtype} {_count(count, 'lane')}" for dtype, count in unit.lanes)
            return [f"{unit.name}: one operation per lane and cycle; {lanes}; {unit.operation_pj:g} pJ per operation"]


def _peak_rows(machine: Accelerator) -> list[tuple[str, ...]]:
    classes = (("matrix units", _matrix_flops(machine)), ("vector units", _vector_flops(machine)))
    return [
        (label, str(dtype), _scaled(flops, "FLOPS" if dtype.is_float else "OPS"))
        for label, peaks in classes
        for dtype, flops in peaks.items()
    ]


def _memory_rows(machine: Accelerator) -> list[tuple[str, ...]]:
    return [
        (
            str(memory.level),
            f"1 per {memory.sharing}",
            format_bytes(memory.size_bytes),
            _bandwidth(memory.bandwidth_bytes_per_cycle, machine.clock_hz),
            f"bursts of {memory.burst_bytes} B",
            f"{memory.read_pj_per_byte:g} pJ/B read, {memory.write_pj_per_byte:g} pJ/B written",
        )
        for memory in machine.memories
    ]


def _transfer_rows(machine: Accelerator) -> list[tuple[str, ...]]:
    setup = machine.setup
    energy = f"{machine.link.pj_per_byte:g} pJ/B"
    return [
        ("link of a core", f"{_bandwidth(machine.link.bandwidth_bytes_per_cycle, machine.clock_hz)}, {energy}"),
        *_channel_rows(machine),
        ("granule", format_bytes(machine.granule_bytes)),
        ("set-up", f"DMA {_count(setup.dma_cycles, 'cycle')}, mover {_count(setup.mover_cycles, 'cycle')}"),
        ("", f"compute {_count(setup.compute_cycles, 'cycle')}, launch {_count(setup.launch_cycles, 'cycle')}"),
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
    classes = (("matrix units", _matrix_flops(machine)), ("vector units", _vector_flops(machine)))
    return [
        (label, str(DType.FLOAT16), f"{_plain(peaks[DType.FLOAT16] / per_second)} FLOP/byte of DDR traffic")
        for label, peaks in classes
        if DType.FLOAT16 in peaks
    ] + [("DDR of the chip", "", _bandwidth(bandwidth, machine.clock_hz))]


def _columns(rows: list[tuple[str, ...]]) -> list[str]:
    """Rows of equal length as indented lines, their columns aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _bandwidth(bytes_per_cycle: Fraction, clock_hz: int) -> str:
    return f"{_plain(bytes_per_cycle)} B/cycle = {_scaled(bytes_per_cycle * clock_hz, 'B/s')}"


def _plain(number: Fraction) -> str:
    """At most three digits after the point, and no zeros that say nothing; small numbers keep three digits."""
    if 0 < number < 1:
        return f"{float(number):.3g}"
    return f"{float(number):,.3f}".rstrip("0").rstrip(".")


def _scaled(per_second: Fraction | int, unit: str) -> str:
    for power, prefix in ((12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if per_second >= 10**power:
            return f"{_plain(Fraction(per_second) / 10**power)} {prefix}{unit}"
    return f"{_plain(Fraction(per_second))} {unit}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"

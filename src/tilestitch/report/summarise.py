"""From a simulated program to a `Report`: numbers by kernel, engine and memory, beside their bounds.

Everything but the sustained throughput concerns one batch: its first one where instructions are looked at (work,
kernels, engines), the mean over all batches where only totals are known (bytes through ports, energy).
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tilestitch.base.dtypes import FLOAT16_MAX, DType
from tilestitch.base.errors import InvalidIR
from tilestitch.base.units import ceil_div
from tilestitch.cost.bounds import Bounds
from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.hardware.tree import MachineTree
from tilestitch.hardware.tree_chip import roles_of
from tilestitch.ir.graph import Graph
from tilestitch.ir.program import EngineKind, Kind, Mode, Program
from tilestitch.ir.report import CheckRow, EngineRow, GenericRow, KernelRow, PlaceRow, TrafficRow
from tilestitch.ir.schedule import Kernel, Schedule
from tilestitch.ir.tiles import operator_boxes
from tilestitch.ir.trace import Trace
from tilestitch.ops import generic
from tilestitch.report.page import ReportPage
from tilestitch.report.work import work

OVERLAP = "One launch starts several kernels, which overlap: the time of each is by how much it ends after the others."


NARROW = (
    "Floating tensors take 8 bits an element, as wide as the machine's own. Only the width is known: where the program "
    "is executed their values are float16 and float32, so what rounding to 8 bits does is not seen."
)


@dataclass(frozen=True, slots=True)
class Workload:
    """The samples of a batch, those of them on the busiest cluster, and how many batches the program holds."""

    batch: int
    share: int
    batches: int  # back to back


def summarise(
    schedule: Schedule,
    trace: Trace,
    machine: Accelerator,
    workload: Workload,
    *,
    limits: Bounds,
    energy_pj: tuple[tuple[str, float], ...],
    checks: tuple[CheckRow, ...],
) -> ReportPage:
    """What a schedule makes of a workload; `limits` are those of one batch, `energy_pj` is that of the program."""
    batches = workload.batches
    program = trace.program
    if program.iterations % batches != 0 or len(program) == 0:
        raise InvalidIR(
            f"program of {len(program)} instructions and {program.iterations} iterations, {batches} batches"
        )
    iterations = program.iterations // batches
    first = np.flatnonzero(program.iteration < iterations)
    kernels = _kernel_rows(schedule, trace, machine, first, iterations)
    return ReportPage(
        network=schedule.graph.name,
        machine=machine.name,
        strategy=schedule.strategy,
        batch=workload.batch,
        clusters=schedule.clusters,
        clusters_simulated=1 if machine.private_ddr else schedule.clusters,  # those of one DDR contend for it
        batch_per_cluster=workload.share,
        batch_per_iteration=schedule.batch,
        iterations=iterations,
        batches=batches,
        clock_hz=machine.clock_hz,
        latency_cycles=ceil_div(int(trace.end_ticks[first].max()), trace.ticks_per_cycle),
        sustained_cycles_per_batch=trace.latency_cycles / batches,
        compute_bound_cycles=limits.compute_cycles,
        attainable_bound_cycles=limits.attainable_cycles,
        traffic_bound_cycles=limits.traffic_cycles,
        compulsory_bytes=limits.compulsory_bytes,
        ddr_bytes=sum(row.ddr_read_bytes + row.ddr_written_bytes for row in kernels),
        macs=limits.macs,
        vector_operations=limits.vector_operations,
        instructions=len(first),
        own_operators=sum(op.kind != generic.KIND for op in schedule.graph.operators),
        generic_operators=tuple(
            GenericRow(op.name, generic.onnx_operator(op), generic.value_source(op))
            for op in schedule.graph.operators
            if op.kind == generic.KIND
        ),
        places=place_rows(schedule),
        kernels=kernels,
        engines=_engine_rows(trace, first),
        traffic=_traffic_rows(trace, batches),
        energy_pj=tuple((part, value / batches) for part, value in energy_pj),
        checks=checks,
        notes=(*schedule.notes, *_notes(schedule), *_of_tree(machine, schedule.graph)),
    )


def place_rows(schedule: Schedule) -> tuple[PlaceRow, ...]:
    """Where the results of kernels stay; what has no home lies in DDR."""
    found = {level: [0, 0] for level in (Level.DDR, Level.GB, Level.LB)}
    for stay in stays(schedule):
        row = found[stay.level]
        row[0] += 1
        row[1] += stay.size_bytes
    return tuple(PlaceRow(level, count, size) for level, (count, size) in found.items())


@dataclass(frozen=True, slots=True)
class Stay:
    """What one kernel makes of a tensor for other kernels, or of an output, and where that waits."""

    tensor: str
    level: Level
    size_bytes: int


def stays(schedule: Schedule) -> list[Stay]:
    """Every result that leaves its kernel, in the order of the kernels."""
    graph = schedule.graph
    homes = {(home.first, home.tensor): home.level for home in schedule.homes}
    found: list[Stay] = []
    for number, kernel in enumerate(schedule.kernels):
        operators, inside = [graph.by_name[name] for name in kernel.operators], set(kernel.operators)
        boxes = operator_boxes(graph, operators, operators[-1].whole if kernel.box is None else kernel.box)
        made: dict[str, int] = {}
        for op in operators:
            for write in op.writes:
                read_outside = any(reader.name not in inside for reader in graph.consumers.get(write.tensor, ()))
                if read_outside or write.tensor in graph.outputs:
                    size = graph.tensors[write.tensor].bytes_of(write.hull(boxes[op.name]))
                    made[write.tensor] = made.get(write.tensor, 0) + size
        found += [Stay(tensor, homes.get((number, tensor), Level.DDR), size) for tensor, size in made.items()]
    return found


def _notes(schedule: Schedule) -> tuple[str, ...]:
    """What a reader must know of: kernels that overlap, and constants that float16 cannot hold and so are clamped."""
    overlapping = not all(kernel.launches for kernel in schedule.kernels)
    return (*((OVERLAP,) if overlapping else ()), *_clamped(schedule.graph))


def _carriers(tree: MachineTree) -> str:
    """What carries data to and from the cores, where no engine between DDR and GB does."""
    own = [one for one in tree.engines if one.inner == roles_of(tree).lb.name]
    if not own:
        return "no DMA engine carries transfers, cores do, as fast as ports and links"
    return f"each core has DMA engines of its own: {', '.join(f'{one.name} ({one.outer}, {one.inner})' for one in own)}"


def _of_tree(machine: Accelerator, graph: Graph) -> tuple[str, ...]:
    """What a tree's times rest on, who says what its layers take alone, and why that is another number."""
    inside = next((core.inside for core in machine.cores if core.inside is not None), None)
    if inside is None:
        return ()
    ports = "" if machine.has_dma or machine.tree is None else f"; {_carriers(machine.tree)}"
    stored = any(tensor.dtype is DType.FLOAT8 for tensor in graph.tensors.values())
    return (
        f"A tile of a product takes what its fastest mapping on the memories inside LB takes (estimated){ports}.",
        "Layers alone: tilestitch map --objective latency. There memories with one buffer stop the units while they "
        "fill, where programs load the next tile meanwhile; --beside-map puts their sum beside this.",
        *((NARROW,) if stored else ()),
    )


def _clamped(graph: Graph) -> tuple[str, ...]:
    clamped = [
        name
        for name, value in graph.constants.items()
        if name in graph.consumers and graph.tensors[name].dtype.has_float16 and _exceeds_float16(value)
    ]
    if not clamped:
        return ()
    shown = ", ".join(clamped[:3]) + (f" and {len(clamped) - 3} more" if len(clamped) > 3 else "")
    return (f"Constants beyond the range of float16 are clamped to +-65,504 in the float16 check: {shown}.",)


def _exceeds_float16(value: np.ndarray) -> bool:
    """Whether a finite number among some is beyond the range of float16."""
    if value.min(initial=0) >= -FLOAT16_MAX and value.max(initial=0) <= FLOAT16_MAX:  # which NaN is not
        return False
    return bool(np.abs(value, where=np.isfinite(value), out=np.zeros_like(value)).max(initial=0) > FLOAT16_MAX)


def _kernel_rows(
    schedule: Schedule, trace: Trace, machine: Accelerator, first: np.ndarray, iterations: int
) -> tuple[KernelRow, ...]:
    """One row per kernel of the schedule, over the instructions of the first batch, whose numbers are in `first`."""
    program = trace.program
    kinds = [engine.kind for engine in program.engines]
    cycles, spans = _cycles(trace, first, iterations)
    read, written = _ddr_bytes(program, first)
    busy = _busy_cycles(trace, first)
    macs, operations, at_peak = _work(program, machine, first)
    at_work = _cores_at_work(program, first)

    def row(number: int, kernel: Kernel) -> KernelRow:
        return KernelRow(
            name=kernel.name,
            operators=kernel.operators,
            kinds=tuple(dict.fromkeys(schedule.graph.by_name[name].kind for name in kernel.operators)),
            cycles=int(cycles[number]),
            span_cycles=int(spans[number]),
            estimated_cycles=kernel.estimated_cycles * iterations,
            macs=macs[number],
            vector_operations=operations[number],
            ddr_read_bytes=int(read[number]),
            ddr_written_bytes=int(written[number]),
            matrix_busy_cycles=float(busy[number, EngineKind.MATRIX]) / max(1, kinds.count(EngineKind.MATRIX)),
            matrix_peak_cycles=float(at_peak[number]),
            vector_busy_cycles=float(busy[number, EngineKind.VECTOR]) / max(1, kinds.count(EngineKind.VECTOR)),
            cores=int(at_work[number]),
        )

    return tuple(row(number, kernel) for number, kernel in enumerate(schedule.kernels))


def _cycles(trace: Trace, first: np.ndarray, iterations: int) -> tuple[np.ndarray, np.ndarray]:
    """Per kernel, summed over the iterations: cycles that it adds to the latency, and from its first start to its end.

    Kernels are looked at in the order of their ends, and each adds what it ends after the one before.
    """
    program = trace.program
    run = program.iteration[first].astype(np.int64) * len(program.kernels) + program.kernel[first]
    start = np.full(iterations * len(program.kernels), np.iinfo(np.int64).max)
    end = np.full(len(start), -1, np.int64)
    np.minimum.at(start, run, trace.start_ticks[first])
    np.maximum.at(end, run, trace.end_ticks[first])
    order = np.argsort(end, kind="stable")
    added = np.empty(len(end), np.int64)
    added[order] = np.diff(np.maximum(end[order], 0), prepend=0)
    spans = np.where(end < 0, 0, end - start)
    found = (-(-ticks.reshape(iterations, -1).sum(axis=0) // trace.ticks_per_cycle) for ticks in (added, spans))
    return next(found), next(found)


def _ddr_bytes(program: Program, first: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Per kernel, payload bytes read from DDR and written to it."""
    moves = first[np.isin(program.kind[first], (Kind.COPY, Kind.GATHER, Kind.STREAM))]
    ddr = np.array([space.level is Level.DDR for space in program.spaces], bool)
    found = []
    ends = program.operand_offsets[moves], program.operand_offsets[moves + 1] - 1
    for operand, reads in zip(ends, (True, False), strict=True):
        there = ddr[program.buffers.space[program.operand_buffer[operand]]]
        touching = moves[there & ((program.operand_mode[operand] == Mode.READ) == reads)]
        total = np.zeros(len(program.kernels), np.int64)
        np.add.at(total, program.kernel[touching], program.size_bytes[touching])
        found.append(total)
    return found[0], found[1]


def _busy_cycles(trace: Trace, first: np.ndarray) -> np.ndarray:
    """Per kernel and kind of engine, cycles in which an engine was occupied, summed over the engines."""
    program = trace.program
    kind = np.array([engine.kind for engine in program.engines], np.int64)[program.engine[first]]
    busy = np.zeros(len(program.kernels) * len(EngineKind), np.int64)
    np.add.at(busy, program.kernel[first] * len(EngineKind) + kind, trace.end_ticks[first] - trace.start_ticks[first])
    return busy.reshape(-1, len(EngineKind)) / trace.ticks_per_cycle


def _cores_at_work(program: Program, first: np.ndarray) -> np.ndarray:
    """Per kernel, the cores that compute or gather something."""
    core = np.array([-1 if engine.core is None else engine.core for engine in program.engines], np.int64)
    working = first[np.isin(program.kind[first], (Kind.COMPUTE, Kind.GATHER))]
    found = np.zeros((len(program.kernels), int(core.max(initial=0)) + 2), bool)
    found[program.kernel[working], core[program.engine[working]]] = True  # column -1: engines of no core
    return found[:, :-1].sum(axis=1)


def _work(program: Program, machine: Accelerator, first: np.ndarray) -> tuple[list[int], list[int], list[Fraction]]:
    """Per kernel, multiply-accumulates on any unit, and primitive operations on vector units, as executed.

    Last, the cycles that the products on matrix units would take at the peak of all of them for that element type.
    """
    at_peak = [Fraction(0)] * len(program.kernels)
    macs = [0] * len(program.kernels)
    operations = [0] * len(program.kernels)
    for row in work(program, machine, first):
        macs[row.kernel] += row.macs
        operations[row.kernel] += row.vector_operations
        at_peak[row.kernel] += row.peak_cycles
    return macs, operations, at_peak


def _engine_rows(trace: Trace, first: np.ndarray) -> tuple[EngineRow, ...]:
    """One row per kind of engine, in the order of `EngineKind`."""
    program = trace.program
    busy = np.zeros(len(program.engines), np.int64)
    np.add.at(busy, program.engine[first], trace.end_ticks[first] - trace.start_ticks[first])
    instructions = np.bincount(program.engine[first], minlength=len(program.engines))
    rows = []
    for kind in EngineKind:
        numbers = [number for number, engine in enumerate(program.engines) if engine.kind is kind]
        if numbers:
            mean = int(busy[numbers].sum()) / trace.ticks_per_cycle / len(numbers)
            rows.append(EngineRow(kind.name.lower(), len(numbers), mean, int(instructions[numbers].sum())))
    return tuple(rows)


def _traffic_rows(trace: Trace, batches: int) -> tuple[TrafficRow, ...]:
    """One row per level of memory, and one for the links, in the order of the resources."""
    ports: dict[str, list[int]] = {}
    for number, resource in enumerate(trace.program.resources):
        ports.setdefault(resource.name.rstrip("0123456789"), []).append(number)  # lb3 -> lb
    return tuple(
        TrafficRow(
            level=level,
            ports=len(numbers),
            size_bytes=ceil_div(int(trace.resource_bytes[numbers].sum()), batches),
            busy_cycles=int(trace.resource_busy_ticks[numbers].sum()) / trace.ticks_per_cycle / len(numbers) / batches,
        )
        for level, numbers in ports.items()
    )

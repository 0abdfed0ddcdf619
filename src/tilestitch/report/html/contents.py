"""What a page knows of one run: names and numbers in a header, and the program with its trace in columns."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from tilestitch.base.dtypes import DType
from tilestitch.base.json_values import Json
from tilestitch.base.shown import Brief
from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.hardware.units import peak_macs_per_cycle, vector_lanes
from tilestitch.ir.gap import MEANINGS, PARTS, Blame, Gap
from tilestitch.ir.graph import Graph
from tilestitch.ir.idle import CAUSES, Idle
from tilestitch.ir.program import Kind, Program
from tilestitch.ir.report import Report
from tilestitch.ir.samples import OutputSamples, TensorSamples
from tilestitch.ir.schedule import Schedule
from tilestitch.ir.trace import Trace
from tilestitch.ops import is_contraction
from tilestitch.ops.work import operand_dtype
from tilestitch.report.html.proof import proof
from tilestitch.report.html.values import passed_on, values
from tilestitch.report.report_json import report_tree
from tilestitch.report.totals import OneBatch, Total, one_batch

VERSION = 1

Columns: TypeAlias = dict[str, np.ndarray]


@dataclass(frozen=True, repr=False)
class SimulatedRun(Brief):
    """One network by one strategy, with all that the page draws."""

    report: Report
    schedule: Schedule
    trace: Trace
    machine: Accelerator
    blame: Blame | None  # of one batch; None where several were simulated
    idle: Idle
    samples: tuple[OutputSamples, ...] = ()  # values that were compared
    passed_on: tuple[TensorSamples, ...] = ()  # results between operators, tile by tile


@dataclass(frozen=True, slots=True)
class Parts:
    """Which sub-graph and which instance each kernel belongs to, by their numbers, and what these are called."""

    sub_graphs: tuple[str, ...]
    instances: tuple[str, ...]
    sub_graph: tuple[int, ...]  # of each kernel
    instance: tuple[int, ...]  # of each kernel


def contents(run: SimulatedRun) -> tuple[dict[str, Json], Columns]:
    """The header and the columns of a run."""
    program, graph = run.trace.program, run.schedule.graph
    batch = one_batch(run.schedule, run.trace, run.machine, run.report.iterations)
    parts = parts_of(run.schedule)
    header: dict[str, Json] = {
        "format": "tilestitch.page",
        "version": VERSION,
        "report": report_tree(run.report),
        "graph": _graph(graph, program),
        "program": _program(program, parts),
        "sub_graphs": list(parts.sub_graphs),
        "instances": list(parts.instances),
        "ceilings": _ceilings(run.machine, graph, program),
        "work": _work(batch, parts),
        "gaps": None if run.blame is None else _gaps(run.blame, parts),
        "causes": list(CAUSES),
        "proof": proof(run.report, run.schedule, run.trace, run.machine),
        "values": values(run.samples),
        "passed_on": passed_on(run.passed_on),
    }
    return header, _columns(run.trace, batch.served) | _idle_columns(run.idle, run.trace.ticks_per_cycle)


def parts_of(schedule: Schedule) -> Parts:
    """Pieces are instances of sub-graphs, else kernels of fused blocks, else kernels of groups of operators."""
    sub_graphs: dict[str, int] = {}
    instances: dict[str, int] = {}
    names: list[tuple[str, str]] = []
    for number, kernel in enumerate(schedule.kernels):
        others = len(kernel.operators) - 1
        name = kernel.operators[0] + (f" +{others}" if others else "")
        names.append((name, f"k{number} {name}"))
    for block in schedule.blocks:
        for number in range(block.first, block.last + 1):
            names[number] = f"block {block.number}", names[number][1]
    for piece in schedule.pieces:
        for number in range(piece.first, piece.last + 1):
            names[number] = piece.name.rstrip("0123456789"), piece.name
    return Parts(
        sub_graph=tuple(sub_graphs.setdefault(name, len(sub_graphs)) for name, _ in names),
        instance=tuple(instances.setdefault(name, len(instances)) for _, name in names),
        sub_graphs=tuple(sub_graphs),
        instances=tuple(instances),
    )


def _graph(graph: Graph, program: Program) -> dict[str, Json]:
    """Operators in the order of the program's numbers, then those that have no instruction; tensors likewise."""
    operators = list(dict.fromkeys([*program.operators, *(op.name for op in graph.operators)]))
    tensors = list(dict.fromkeys([*program.tensors, *graph.tensors]))
    number_of = {name: number for number, name in enumerate(tensors)}
    roles = dict.fromkeys(graph.constants, "constant")
    roles |= dict.fromkeys(graph.outputs, "output") | dict.fromkeys(graph.inputs, "input")
    found: list[Json] = []
    for name in operators:
        op = graph.by_name.get(name)
        reads = [] if op is None else [number_of[each] for each in op.inputs]
        writes = [] if op is None else [number_of[each] for each in op.outputs]
        found.append({"name": name, "kind": "" if op is None else op.kind, "reads": reads, "writes": writes})
    return {
        "operators": found,
        "tensors": [
            {"name": name, "shape": list(tensor.shape), "dtype": str(tensor.dtype), "size_bytes": tensor.size_bytes}
            | {"role": roles.get(name, "result")}
            if (tensor := graph.tensors.get(name)) is not None
            else {"name": name, "shape": [], "dtype": "", "size_bytes": 0, "role": "result"}
            for name in tensors
        ],
    }


def _program(program: Program, parts: Parts) -> dict[str, Json]:
    return {
        "kernels": [
            {"name": name, "sub_graph": sub_graph, "instance": instance}
            for name, sub_graph, instance in zip(program.kernels, parts.sub_graph, parts.instance, strict=True)
        ],
        "kinds": [kind.name.lower() for kind in Kind],
        "engines": [
            {"name": engine.name, "kind": engine.kind.name.lower(), "core": engine.core} for engine in program.engines
        ],
        "spaces": [
            {"name": space.name, "level": str(space.level), "core": space.core, "size_bytes": space.size_bytes}
            for space in program.spaces
        ],
        "resources": [
            {"name": resource.name, "bytes_per_cycle": float(resource.bandwidth_bytes_per_cycle)}
            for resource in program.resources
        ],
        "paths": [list(path) for path in program.paths],
        "inputs": sorted({buffer for one in program.inputs for buffer in one} | {b for _, b in program.constants}),
        "outputs": sorted({buffer for one in program.outputs for buffer in one}),
    }


def _ceilings(machine: Accelerator, graph: Graph, program: Program) -> dict[str, Json]:
    """Of one cluster: operations a cycle at the peak of its units (two a multiply-accumulate), and bytes of ports."""
    computed = {program.operators[number] for number in program.operator[program.kind == Kind.COMPUTE].tolist()}
    types = [operand_dtype(op, graph) for op in graph.operators if is_contraction(op) and op.name in computed]
    peaks: list[Json] = []
    for dtype in dict.fromkeys(types):
        macs = peak_macs_per_cycle(machine, dtype)
        if macs:
            peaks.append({"name": f"matrix units, {dtype}", "operations_per_cycle": float(2 * macs)})
    units = [core.vector for core in machine.cores if core.vector is not None]
    lanes = sum(max(vector_lanes(unit, DType.FLOAT16), *(count for _, count in unit.lanes)) for unit in units)
    if lanes:
        peaks.append({"name": "vector units", "operations_per_cycle": float(lanes)})
    levels = [level for level in (Level.DDR, Level.GB) if machine.memory(level) is not None]
    ports = {resource.name: resource for resource in program.resources}
    return {
        "peaks": peaks,
        "ports": [
            {"level": str(level), "bytes_per_cycle": float(ports[str(level)].bandwidth_bytes_per_cycle)}
            for level in levels
            if str(level) in ports
        ],
    }


def _work(batch: OneBatch, parts: Parts) -> dict[str, Json]:
    """What operators, sub-graphs and instances do in the first batch, each in a row; the rows of a kind add up."""
    kernel = batch.trace.program.kernel
    found: dict[str, Json] = {"operators": [_total(one) for one in batch.by_operator()]}
    for name, part, count in (
        ("sub_graphs", parts.sub_graph, len(parts.sub_graphs)),
        ("instances", parts.instance, len(parts.instances)),
    ):
        labels = np.array(part, np.int64)[kernel]
        found[name] = [_total(one) for one in batch.by(labels, [part[row.kernel] for row in batch.rows], count)]
    return found


def _total(total: Total) -> dict[str, Json]:
    return {
        "macs": total.macs,
        "matrix_macs": total.matrix_macs,
        "vector_operations": total.vector_operations,
        "ddr_bytes": total.ddr_bytes,
        "gb_bytes": total.gb_bytes,
        "occupied_cycles": total.occupied_cycles,
        "instructions": total.instructions,
        "cores": total.cores,
    }


def _gaps(blame: Blame, parts: Parts) -> dict[str, Json]:
    """The gap of the run, and those of operators, sub-graphs and instances in the order of their numbers."""
    kernel = blame.program.kernel
    return {
        "unit": blame.unit,
        "lanes": len(blame.lanes),
        "parts": list(PARTS),
        "meanings": [MEANINGS[part] for part in PARTS],
        "run": _gap(blame.whole()),
        "operators": [_gap(gap) for gap in blame.operators()],
        "sub_graphs": [_gap(gap) for gap in blame.by(np.array(parts.sub_graph, np.int64)[kernel], parts.sub_graphs)],
        "instances": [_gap(gap) for gap in blame.by(np.array(parts.instance, np.int64)[kernel], parts.instances)],
    }


def _gap(gap: Gap) -> dict[str, Json]:
    """A row for each part: its number in `PARTS`, its cycles, and those of them in set-up, at ports and for room."""
    return {
        "latency_cycles": float(gap.latency_cycles),
        "bound_cycles": float(gap.bound_cycles),
        "gap_cycles": float(gap.gap_cycles),
        "parts": [
            [PARTS.index(one.part)]
            + [float(value) for value in (one.cycles, one.setup_cycles, one.sharing_cycles, one.room_cycles)]
            for one in gap.parts
        ],
        "ends": [[PARTS.index(part), float(cycles)] for part, cycles in gap.ends],
    }


def _idle_columns(idle: Idle, ticks: int) -> Columns:
    """Idle times by engine, then by time; what each waited for is how many instructions before the next one."""
    return {
        "idle_engine": idle.engine,
        "idle_start": idle.begin_ticks // ticks,
        "idle_cycles": (idle.end_ticks - idle.begin_ticks) // ticks,
        "idle_cause": idle.cause,
        "idle_next": idle.waiting,
        "idle_back": np.where(idle.waiting < 0, 0, idle.waiting) - idle.waited_for,
    }


def _columns(trace: Trace, served: np.ndarray) -> Columns:
    """Instructions, their operands and waits, buffers and regions; times are whole numbers of cycles."""
    program, buffers = trace.program, trace.program.buffers
    ticks = trace.ticks_per_cycle
    numbers = np.repeat(np.arange(len(program)), np.diff(program.wait_offsets))
    ranks = np.array([len(region.start) for region in program.regions], np.int64)
    bounds = [bound for region in program.regions for bound in (*region.start, *region.stop)]
    return {
        "start": trace.start_ticks // ticks,
        "cycles": (trace.end_ticks - trace.start_ticks) // ticks,
        "engine": program.engine,
        "kind": program.kind,
        "flags": program.flags,
        "kernel": program.kernel,
        "iteration": program.iteration,
        "operator": served,
        "box": program.box,
        "own_cycles": program.cycles,  # of a transfer its set-up
        "size_bytes": program.size_bytes,
        "path": program.path,
        "operands": np.diff(program.operand_offsets),
        "operand_buffer": program.operand_buffer,
        "operand_region": program.operand_region,
        "operand_mode": program.operand_mode,
        "wait_count": np.diff(program.wait_offsets),
        "waits_back": numbers - program.waits,
        "buffer_space": buffers.space,
        "buffer_address": buffers.address,
        "buffer_bytes": buffers.size_bytes,
        "buffer_tensor": buffers.tensor,
        "buffer_region": buffers.region,
        "region_rank": ranks,
        "region_bounds": np.array(bounds, np.int64),
    }

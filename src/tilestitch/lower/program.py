"""A whole schedule as a program: DDR addresses, kernels in order, outer-loop iterations unrolled."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from tilestitch.errors import DoesNotFit
from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.ir.graph import Graph
from tilestitch.ir.program import Buffers, Program
from tilestitch.ir.region import Region
from tilestitch.ir.schedule import Schedule
from tilestitch.lower.builder import Builder
from tilestitch.lower.cluster import Cluster
from tilestitch.lower.kernel import lower_kernel, prepare_kernel
from tilestitch.units import aligned, format_bytes


@dataclass(frozen=True)
class _Plan:
    """DDR addresses: constants, then the results between kernels, then inputs and outputs of every iteration."""

    address: dict[str, int]  # of the first iteration
    per_iteration: frozenset[str]  # tensors with a place of their own in every iteration
    stride_bytes: int  # from one iteration's inputs and outputs to the next one's


def lower(
    schedule: Schedule, machine: Accelerator, *, progress: Callable[[int, int], None] = lambda done, total: None
) -> Program:
    """The program of one cluster.

    The first two iterations are lowered, the others repeat the second: same instructions, same places on chip, their
    own slices of inputs and outputs. Raises `DoesNotFit` when DDR is too small.
    """
    graph = schedule.graph
    plan = _plan_ddr(schedule, machine)
    builder = Builder(Cluster(machine))
    constants = {name: _ddr_buffer(builder, graph, name, plan.address[name]) for name in _used_constants(graph)}
    prepared = [prepare_kernel(graph, kernel, machine) for kernel in schedule.kernels]
    marks, borders = [], []
    for iteration in range(min(2, schedule.iterations)):
        marks.append((len(builder.engine), len(builder.buffer_rows)))
        ddr = dict(constants)
        for name, address in plan.address.items():
            if name not in constants:
                moved = address + iteration * plan.stride_bytes if name in plan.per_iteration else address
                ddr[name] = _ddr_buffer(builder, graph, name, moved)
        borders.append((tuple(ddr[name] for name in graph.inputs), tuple(ddr[name] for name in graph.outputs)))
        for number, kernel in enumerate(prepared):
            lower_kernel(builder, graph, kernel, number, ddr)
            progress(iteration * len(schedule.kernels) + number + 1, 2 * len(schedule.kernels))
    marks.append((len(builder.engine), len(builder.buffer_rows)))
    return _assemble(schedule, builder, plan, constants, marks, borders)


def _used_constants(graph: Graph) -> list[str]:
    return [name for name in graph.constants if name in graph.consumers]


def _plan_ddr(schedule: Schedule, machine: Accelerator) -> _Plan:
    graph = schedule.graph
    address: dict[str, int] = {}
    top = 0
    between = [name for name in graph.producers if name not in graph.outputs]
    stored = _stored(schedule)
    for name in (*_used_constants(graph), *(name for name in between if name in stored)):
        address[name], top = top, top + aligned(graph.tensors[name].size_bytes)
    begin = top
    per_iteration = tuple(dict.fromkeys((*graph.inputs, *graph.outputs)))
    for name in per_iteration:
        address[name], top = top, top + aligned(graph.tensors[name].size_bytes)
    need = begin + (top - begin) * schedule.iterations
    if need > machine.ddr.size_bytes:
        raise DoesNotFit(
            f"{graph.name} at batch {schedule.batch} x {schedule.iterations} needs {format_bytes(need)} of DDR, "
            f"{machine.name} has {format_bytes(machine.ddr.size_bytes)}. Try: a smaller --batch."
        )
    return _Plan(address, frozenset(per_iteration), top - begin)


def _stored(schedule: Schedule) -> frozenset[str]:
    """Tensors that some kernel reads from another one."""
    graph = schedule.graph
    home = {name: number for number, kernel in enumerate(schedule.kernels) for name in kernel.operators}
    return frozenset(
        tensor
        for tensor, writers in graph.producers.items()
        if any(home[c.name] != home[w.name] for w in writers for c in graph.consumers.get(tensor, ()))
    )


def _ddr_buffer(builder: Builder, graph: Graph, name: str, address: int) -> int:
    tensor = graph.tensors[name]
    space = builder.cluster.space(Level.DDR)
    return builder.buffer(space, address, tensor.size_bytes, name, Region.whole(tensor.shape))


def _assemble(
    schedule: Schedule,
    builder: Builder,
    plan: _Plan,
    constants: dict[str, int],
    marks: list[tuple[int, int]],
    borders: list[tuple[tuple[int, ...], tuple[int, ...]]],
) -> Program:
    """Turn the builder's lists into columns and repeat the second iteration."""
    repeats = schedule.iterations - (len(marks) - 1)
    (first, first_buffer), (last, last_buffer) = marks[-2], marks[-1]
    length, buffers_length = last - first, last_buffer - first_buffer

    def repeat(column: list[int] | np.ndarray, dtype: type, shift: int = 0) -> np.ndarray:
        """A column of instructions, its last iteration repeated, `shift` added per repetition."""
        values = np.asarray(column, dtype)
        block = values[first:last]
        return np.concatenate([values, *(block + shift * (i + 1) for i in range(repeats))]).astype(dtype)

    rows = np.asarray(builder.buffer_rows, np.int64).reshape(-1, 5)
    block = rows[first_buffer:last_buffer]
    moves = _moves_with_iterations(builder, block, plan)
    repeated = [rows]
    for i in range(repeats):
        copy = block.copy()
        copy[:, 1] += np.where(moves, plan.stride_bytes * (i + 1), 0)
        repeated.append(copy)
    rows = np.concatenate(repeated)

    operand_counts = repeat([len(o) for o in builder.operands], np.int64)
    flat = np.asarray([entry for o in builder.operands for entry in o], np.int64).reshape(-1, 3)
    begin = sum(len(o) for o in builder.operands[:first])
    flat_block = flat[begin:]
    shared = flat_block[:, 0] < first_buffer  # constants keep their buffer in every iteration
    pieces = [flat]
    for i in range(repeats):
        copy = flat_block.copy()
        copy[:, 0] += np.where(shared, 0, buffers_length * (i + 1))
        pieces.append(copy)
    flat = np.concatenate(pieces)

    wait_counts = repeat([len(w) for w in builder.waits], np.int64)
    waits = np.asarray([w for entry in builder.waits for w in entry], np.int64)
    wait_block = waits[sum(len(w) for w in builder.waits[:first]) :]
    waits = np.concatenate([waits, *(wait_block + length * (i + 1) for i in range(repeats))])

    iteration = np.repeat(np.arange(len(marks) - 1), [marks[i + 1][0] - marks[i][0] for i in range(len(marks) - 1)])
    cluster, graph = builder.cluster, schedule.graph
    inputs = [[border[0][k] for border in borders] for k in range(len(graph.inputs))]
    outputs = [[border[1][k] for border in borders] for k in range(len(graph.outputs))]
    for border in (*inputs, *outputs):
        border.extend([border[-1] + buffers_length * (i + 1) for i in range(repeats)])
    return Program(
        graph=graph,
        iterations=schedule.iterations,
        spaces=cluster.spaces,
        engines=cluster.engines,
        resources=cluster.resources,
        paths=tuple(builder.paths),
        tensors=tuple(builder.tensors),
        regions=tuple(builder.regions),
        operators=tuple(builder.operators),
        kernels=tuple(kernel.name for kernel in schedule.kernels),
        granule_bytes=cluster.machine.granule_bytes,
        buffers=Buffers(
            space=rows[:, 0].astype(np.int16),
            address=rows[:, 1],
            size_bytes=rows[:, 2],
            tensor=rows[:, 3].astype(np.int32),
            region=rows[:, 4].astype(np.int32),
        ),
        engine=repeat(builder.engine, np.int16),
        kind=repeat(builder.kind, np.int8),
        flags=repeat(builder.flags, np.uint8),
        kernel=repeat(builder.kernel, np.int32),
        iteration=repeat(iteration, np.int32, 1),
        operator=repeat(builder.operator, np.int32),
        box=repeat(builder.box, np.int32),
        cycles=repeat(builder.cycles, np.int64),
        size_bytes=repeat(builder.size_bytes, np.int64),
        run_bytes=repeat(builder.run_bytes, np.int32),
        path=repeat(builder.path, np.int32),
        operand_offsets=_offsets(operand_counts),
        operand_buffer=flat[:, 0].astype(np.int32),
        operand_region=flat[:, 1].astype(np.int32),
        operand_mode=flat[:, 2].astype(np.int8),
        wait_offsets=_offsets(wait_counts),
        waits=waits,
        inputs=tuple(tuple(border) for border in inputs),
        outputs=tuple(tuple(border) for border in outputs),
        constants=tuple(constants.items()),
    )


def _moves_with_iterations(builder: Builder, block: np.ndarray, plan: _Plan) -> np.ndarray:
    """Which buffers of an iteration are inputs or outputs in DDR, whose place differs in every iteration."""
    numbers = {builder.tensors[name] for name in plan.per_iteration if name in builder.tensors}
    in_ddr = block[:, 0] == builder.cluster.space(Level.DDR)
    return in_ddr & np.isin(block[:, 3], sorted(numbers))


def _offsets(counts: np.ndarray) -> np.ndarray:
    return np.asarray([0, *accumulate(counts.tolist())], np.int64)

"""A whole schedule as a program: DDR addresses, kernels in order, outer-loop iterations unrolled."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tilestitch.errors import DoesNotFit
from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.ir.graph import Graph
from tilestitch.ir.program import Buffers, Program
from tilestitch.ir.region import Region
from tilestitch.ir.schedule import Schedule
from tilestitch.lower.builder import Builder
from tilestitch.lower.cluster import Cluster
from tilestitch.lower.kernel import lower_kernel
from tilestitch.lower.limits import expect_few_steps
from tilestitch.lower.stream import lower_streamed
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

    One iteration is lowered, the others repeat it: same instructions, same places on chip, their own slices of inputs
    and outputs. That is exact because a kernel's launch waits for everything before it, so that nothing but the first
    launch of an iteration waits for the iteration before. Raises `DoesNotFit` when DDR is too small, or the program
    would be too long.
    """
    graph = schedule.graph
    plan = _plan_ddr(schedule, machine)
    expect_few_steps(schedule, machine)
    builder = Builder(Cluster(machine))
    ddr = {name: _ddr_buffer(builder, graph, name, plan.address[name]) for name in _used_constants(graph)}
    constants = tuple(ddr.items())
    for name, address in plan.address.items():
        if name not in ddr:
            ddr[name] = _ddr_buffer(builder, graph, name, address)
    for number, kernel in enumerate(schedule.kernels):
        (lower_streamed if kernel.streamed else lower_kernel)(builder, graph, kernel, number, ddr)
        progress(number + 1, len(schedule.kernels))
    return _assemble(schedule, builder, plan, ddr, constants)


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
    schedule: Schedule, builder: Builder, plan: _Plan, ddr: dict[str, int], constants: tuple[tuple[str, int], ...]
) -> Program:
    """Turn the builder's lists into columns, once for every iteration."""
    cluster, graph, iterations = builder.cluster, schedule.graph, schedule.iterations
    length, shared = len(builder.engine), len(constants)
    rows = np.asarray(builder.buffer_rows, np.int64).reshape(-1, 5)
    own = rows[shared:]  # constants keep their buffer in every iteration
    moves = _moves_with_iterations(builder, own, plan)

    def every(column: Sequence[int], dtype: type, shift: int = 0) -> np.ndarray:
        """A column of instructions for all iterations, `shift` added in each."""
        values = np.asarray(column, dtype)
        return np.concatenate([values + shift * i for i in range(iterations)]).astype(dtype)

    moved = []
    for i in range(iterations):
        copy = own.copy()
        copy[:, 1] += np.where(moves, plan.stride_bytes * i, 0)
        moved.append(copy)
    rows = np.concatenate([rows[:shared], *moved])
    flat = np.asarray([entry for o in builder.operands for entry in o], np.int64).reshape(-1, 3)
    in_iteration = np.where(flat[:, 0] < shared, 0, len(own))
    before, waits = (
        np.asarray(builder.all_before(), np.int64),
        np.asarray([w for ws in builder.waits for w in ws], np.int64),
    )
    wait_counts = np.asarray([len(w) for w in builder.waits] * iterations, np.int64)
    wait_counts[length::length] = len(before)  # the first launch of every iteration but the first
    all_waits = [waits] + [
        np.concatenate([before + length * (i - 1), waits + length * i]) for i in range(1, iterations)
    ]

    def borders(names: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(ddr[name] + len(own) * i for i in range(iterations)) for name in names)

    return Program(
        graph=graph,
        iterations=iterations,
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
        engine=every(builder.engine, np.int16),
        kind=every(builder.kind, np.int8),
        flags=every(builder.flags, np.uint8),
        kernel=every(builder.kernel, np.int32),
        iteration=every([0] * length, np.int32, 1),
        operator=every(builder.operator, np.int32),
        box=every(builder.box, np.int32),
        cycles=every(builder.cycles, np.int64),
        size_bytes=every(builder.size_bytes, np.int64),
        run_bytes=every(builder.run_bytes, np.int32),
        path=every(builder.path, np.int32),
        operand_offsets=_offsets(every([len(o) for o in builder.operands], np.int64)),
        operand_buffer=np.concatenate([flat[:, 0] + in_iteration * i for i in range(iterations)]).astype(np.int32),
        operand_region=np.tile(flat[:, 1], iterations).astype(np.int32),
        operand_mode=np.tile(flat[:, 2], iterations).astype(np.int8),
        wait_offsets=_offsets(wait_counts),
        waits=np.concatenate(all_waits),
        inputs=borders(graph.inputs),
        outputs=borders(graph.outputs),
        constants=constants,
    )


def _moves_with_iterations(builder: Builder, block: np.ndarray, plan: _Plan) -> np.ndarray:
    """Which buffers of an iteration are inputs or outputs in DDR, whose place differs in every iteration."""
    numbers = {builder.tensors[name] for name in plan.per_iteration if name in builder.tensors}
    in_ddr = block[:, 0] == builder.cluster.space(Level.DDR)
    return in_ddr & np.isin(block[:, 3], sorted(numbers))


def _offsets(counts: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])

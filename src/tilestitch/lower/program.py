"""A whole schedule as a program: DDR addresses, kernels in order, outer-loop iterations unrolled."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from tilestitch.base.errors import FEWER_BATCHES, SMALLER_BATCH, DoesNotFit
from tilestitch.base.units import aligned, format_bytes
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.ir.graph import Graph
from tilestitch.ir.program import Buffers, Program
from tilestitch.ir.schedule import Kernel, Schedule
from tilestitch.kernels.shape import Signatures
from tilestitch.lower.addresses import Surface, addresses, place
from tilestitch.lower.blocks import Blocks, Known, in_ddr
from tilestitch.lower.cluster import Cluster
from tilestitch.lower.homes import Around, Homes
from tilestitch.lower.limits import expect_few_steps
from tilestitch.lower.link import SPACE, Linker, Numbering
from tilestitch.lower.motion import Motion
from tilestitch.lower.sums import with_sums


@dataclass(frozen=True)
class _Plan:
    """DDR addresses: constants, then the results between kernels, then inputs and outputs of every iteration."""

    address: Mapping[str, int]  # of the first iteration
    per_iteration: frozenset[str]  # tensors with a place of their own in every iteration
    stride_bytes: int  # from one iteration's inputs and outputs to the next one's


class Lowered:
    """What schedules of one graph on one machine were lowered to, for others of these to share.

    `blocks` are those that others know by these `signatures`, who number their regions, names and paths by themselves.
    """

    def __init__(
        self,
        graph: Graph,
        machine: Accelerator,
        blocks: dict[tuple, Known] | None = None,
        signatures: Signatures | None = None,
    ) -> None:
        self.cluster, self.numbering = Cluster(machine), Numbering()
        self.blocks: dict[tuple, Known] = {} if blocks is None else blocks
        self.motions: dict[tuple, Motion] = {}
        self.signatures = Signatures(graph) if signatures is None else signatures
        if self.signatures.graph is not graph:
            self.signatures = Signatures(graph, self.signatures)


def lower(
    schedule: Schedule,
    machine: Accelerator,
    *,
    lowered: Lowered | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Program:
    """The program of one cluster.

    Kernels that differ only in names and in where they begin are lowered once, and of the iterations only one; the
    others repeat it: same instructions, same places on chip, their own slices of inputs and outputs. That is exact
    because a kernel's launch waits for everything before it, so that nothing but the first launch of an iteration waits
    for the iteration before. What other schedules of the same graph and machine were `lowered` to is used and added
    to; the program then differs only in how its regions, names and paths are numbered, and has those of the others as
    well. Raises `DoesNotFit` when DDR is too small, or the program would be too long.
    """
    graph = with_sums(schedule.graph, schedule.kernels)
    plan = _plan_ddr(schedule, machine)
    expect_few_steps(schedule, machine)
    lowered = Lowered(schedule.graph, machine) if lowered is None else lowered
    cluster = lowered.cluster
    linker = Linker(cluster, lowered.numbering, in_ddr(graph, cluster, plan.address))
    homes = Homes(linker, graph, schedule.homes)
    blocks = Blocks(cluster, graph, lowered.signatures, linker.in_ddr, lowered.blocks, lowered.motions)
    for number, kernel in enumerate(schedule.kernels):
        around, free = homes.enter(number, kernel)
        try:
            _add(linker, blocks, number, kernel, around, free)
        except DoesNotFit:
            if not kernel.together:
                raise
            _add(linker, blocks, number, replace(kernel, together=False), around, free)
        progress(number + 1, len(schedule.kernels))
    return _assemble(replace(schedule, graph=graph), cluster, linker, plan)


def _add(linker: Linker, blocks: Blocks, number: int, kernel: Kernel, around: Around, free: Surface) -> None:
    """Add the instructions of a kernel; raises `DoesNotFit`, and adds none, where what passes GB has no room there."""
    block, demand, here = blocks.find(number, kernel, around)
    spaces = block.buffers[:, SPACE]
    if here.cores is not None:
        demand, spaces = demand.on(here.cores.spaces), here.cores.spaces[spaces]
    places = place(linker.cluster, kernel, demand, free)
    linker.add(block, addresses(linker.cluster, block, spaces, places, free, ring=kernel.ring), here)


def expect_fits(schedule: Schedule, machine: Accelerator) -> None:
    """Raise `DoesNotFit` where `lower` would, without writing the program."""
    expect_room_in_ddr(schedule, machine)
    expect_few_steps(schedule, machine)


def expect_room_in_ddr(schedule: Schedule, machine: Accelerator) -> None:
    """Raise `DoesNotFit` where tensors have no room in DDR."""
    _plan_ddr(schedule, machine)


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
            f"{machine.name} has {format_bytes(machine.ddr.size_bytes)}.",
            SMALLER_BATCH,
            FEWER_BATCHES,
        )
    return _Plan(address, frozenset(per_iteration), top - begin)


def _stored(schedule: Schedule) -> frozenset[str]:
    """Tensors of which some kernel makes a part for others that is not on chip only."""
    graph, homes = schedule.graph, {(home.first, home.tensor) for home in schedule.homes if not home.stored}
    found: dict[str, None] = {}
    for number, kernel in enumerate(schedule.kernels):
        inside = set(kernel.operators)
        for tensor in (tensor for name in kernel.operators for tensor in graph.by_name[name].outputs):
            if (number, tensor) not in homes and any(r.name not in inside for r in graph.consumers.get(tensor, ())):
                found[tensor] = None
    return frozenset(found)


def _assemble(schedule: Schedule, cluster: Cluster, linker: Linker, plan: _Plan) -> Program:
    """The columns of one iteration, once for every iteration."""
    graph, iterations = schedule.graph, schedule.iterations
    constants = tuple((name, linker.in_ddr[name]) for name in _used_constants(graph))
    length, shared = len(linker), len(constants)
    rows = linker.buffers
    own = rows[shared:]  # constants keep their buffer in every iteration
    moves = _moves_with_iterations(linker, own, plan)

    def every(column: np.ndarray, dtype: type) -> np.ndarray:
        """A column of instructions for all iterations."""
        return np.tile(column.astype(dtype), iterations)

    moved = []
    for i in range(iterations):
        copy = own.copy()
        copy[:, 1] += np.where(moves, plan.stride_bytes * i, 0)
        moved.append(copy)
    rows = np.concatenate([rows[:shared], *moved])
    flat = linker.operands
    in_iteration = np.where(flat[:, 0] < shared, 0, len(own))
    found = linker.waits()
    before, waits = found.last, found.waits
    wait_counts = np.tile(found.counts, iterations)
    wait_counts[length::length] = len(before)  # the first launch of every iteration but the first
    all_waits = [waits] + [
        np.concatenate([before + length * (i - 1), waits + length * i]) for i in range(1, iterations)
    ]

    def borders(names: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(linker.in_ddr[name] + len(own) * i for i in range(iterations)) for name in names)

    return Program(
        graph=graph,
        iterations=iterations,
        spaces=cluster.spaces,
        engines=cluster.engines,
        resources=cluster.resources,
        paths=tuple(linker.numbering.paths),
        tensors=tuple(linker.numbering.tensors),
        regions=tuple(linker.numbering.regions),
        operators=tuple(linker.numbering.operators),
        kernels=tuple(kernel.name for kernel in schedule.kernels),
        granule_bytes=cluster.machine.granule_bytes,
        buffers=Buffers(
            space=rows[:, 0].astype(np.int16),
            address=rows[:, 1],
            size_bytes=rows[:, 2],
            tensor=rows[:, 3].astype(np.int32),
            region=rows[:, 4].astype(np.int32),
        ),
        engine=every(linker.column("engine"), np.int16),
        kind=every(linker.column("kind"), np.int8),
        flags=every(linker.column("flags"), np.uint8),
        kernel=every(linker.kernels, np.int32),
        iteration=np.repeat(np.arange(iterations, dtype=np.int32), length),
        operator=every(linker.column("operator"), np.int32),
        box=every(linker.column("box"), np.int32),
        cycles=every(linker.column("cycles"), np.int64),
        size_bytes=every(linker.column("size_bytes"), np.int64),
        run_bytes=every(linker.column("run_bytes"), np.int32),
        path=every(linker.column("path"), np.int32),
        operand_offsets=_offsets(every(np.diff(linker.operand_ends, prepend=0), np.int64)),
        operand_buffer=np.concatenate([flat[:, 0] + in_iteration * i for i in range(iterations)]).astype(np.int32),
        operand_region=np.tile(flat[:, 1], iterations).astype(np.int32),
        operand_mode=np.tile(flat[:, 2], iterations).astype(np.int8),
        wait_offsets=_offsets(wait_counts),
        waits=np.concatenate(all_waits),
        inputs=borders(graph.inputs),
        outputs=borders(graph.outputs),
        constants=constants,
    )


def _moves_with_iterations(linker: Linker, own: np.ndarray, plan: _Plan) -> np.ndarray:
    """Which buffers of an iteration are inputs or outputs in DDR, whose place differs in every iteration."""
    found = np.zeros(len(own), bool)
    for name, number in linker.in_ddr.items():
        if name in plan.per_iteration:
            found[number - (linker.buffer_count - len(own))] = True
    return found


def _offsets(counts: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])

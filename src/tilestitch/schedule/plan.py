"""From groups of operators to a schedule: one kernel a group, in order, kernel after kernel."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from tilestitch.cost.shape import kernel_signature, local_names
from tilestitch.errors import InputError
from tilestitch.hardware.accelerator import Accelerator, Level, Sharing
from tilestitch.ir.graph import Graph, Operator
from tilestitch.ir.schedule import Kernel, Schedule
from tilestitch.ir.tiles import kernels_of
from tilestitch.ops.work import can_run, on_matrix_unit, operand_dtype
from tilestitch.schedule.tiling import tile_kernel


def expect_compilable(machine: Accelerator) -> None:
    """Refuse a machine that can be described but not yet scheduled for, with every reason at once."""
    arrays = {group.core.array.name: None for group in machine.groups if group.core.array is not None}
    if arrays:
        raise InputError(
            f"{machine.name}: cannot be compiled for yet, because the mapper for its arrays of processing elements "
            f"({', '.join(arrays)}) does not exist; name a machine of matrix and vector units, such as stcp920"
        )
    reasons = []
    if all(group.core.vector is None for group in machine.groups):
        reasons.append("none of its cores has a vector unit")
    gb = machine.memory(Level.GB)
    if gb is None and any(machine.local(group.core, Level.LB) is None for group in machine.groups):
        reasons.append("it has cores with neither a local buffer (memories.lb) nor a global one (memories.gb)")
    if gb is not None and gb.sharing is Sharing.CHIP and machine.clusters > 1:
        reasons.append("its clusters share one global buffer (memories.gb per chip)")
    if reasons:
        raise InputError(
            f"{machine.name}: cannot be compiled for yet: {'; '.join(reasons)}; "
            "describe a vector unit, a buffer that each core works in, and a global buffer per cluster or none"
        )


def by_units(graph: Graph, kernel: tuple[Operator, ...], machine: Accelerator) -> list[tuple[Operator, ...]]:
    """Cut a kernel that no core can run whole where work passes from matrix to vector units or back.

    The pieces are in running order. Each runs on one class of units, so that some core can run it.
    """
    if any(can_run(group.core, kernel, graph, machine) for group in machine.groups):
        return [kernel]
    stages: dict[tuple[int, bool], list[Operator]] = {}  # by how often the class changed on the way there
    stage_of: dict[str, tuple[int, bool]] = {}  # of a tensor
    for op in kernel:
        matrix = on_matrix_unit(op, operand_dtype(op, graph), machine)
        before = [stage_of[name] for name in op.inputs if name in stage_of]
        stage = max((number + (other != matrix) for number, other in before), default=0), matrix
        for name in op.outputs:
            stage_of[name] = max(stage_of.get(name, stage), stage)
        stages.setdefault(stage, []).append(op)
    pieces = [piece for stage in sorted(stages) for piece in kernels_of(graph, stages[stage])]
    if pieces == [kernel]:  # products of types that no single core can multiply
        return [(op,) for op in kernel]
    return [part for piece in pieces for part in by_units(graph, piece, machine)]


def plan(
    graph: Graph,
    groups: Sequence[tuple[str, ...]],
    machine: Accelerator,
    *,
    strategy: str,
    batch: int,
    iterations: int,
    clusters: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Schedule:
    """Tile every group; groups that differ only in names are tiled once.

    `groups` hold operator names of `graph` (views composed away) in an order in which they can run.
    Raises `DoesNotFit`, and `InputError` for a machine that cannot be compiled for yet.
    """
    expect_compilable(machine)
    known: dict[tuple, tuple[Kernel, list[str]]] = {}
    kernels = []
    for number, group in enumerate(groups):
        operators = tuple(graph.by_name[name] for name in group)
        signature, names = kernel_signature(graph, operators), local_names(graph, operators)
        if signature in known:
            like, like_names = known[signature]
            renamed = dict(zip(like_names, names, strict=True))
            tiling = replace(like.tiling, resident=tuple(renamed[t] for t in like.tiling.resident))
            anchor = None if like.anchor is None else group[like.operators.index(like.anchor)]
            kernel = replace(like, name=f"k{number}", operators=group, anchor=anchor, tiling=tiling)
        else:
            kernel = tile_kernel(graph, operators, f"k{number}", machine)
            known[signature] = kernel, names
        kernels.append(kernel)
        progress(number + 1, len(groups))
    return Schedule(strategy, graph, batch, iterations, clusters, tuple(kernels))

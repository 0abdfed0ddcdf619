"""From groups of operators to a schedule: one kernel a group, in order, kernel after kernel."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from tilestitch.errors import InputError
from tilestitch.hardware.accelerator import Accelerator, Level, Sharing
from tilestitch.ir.graph import Graph
from tilestitch.ir.schedule import Kernel, Schedule
from tilestitch.schedule.tiling import kernel_signature, local_names, tile_kernel


def expect_compilable(machine: Accelerator) -> None:
    """Refuse a machine that can be described but not yet scheduled for, with every reason at once."""
    reasons = []
    if machine.memory(Level.LB) is None:
        reasons.append("its cores have no local buffer (memories.lb)")
    if machine.memory(Level.ACCUMULATORS) is None and any(core.matrix is not None for core in machine.cores):
        reasons.append("its matrix units have no accumulators (memories.accumulators)")
    if any(core != machine.cores[0] for core in machine.cores):
        reasons.append("its cores differ")
    shared = machine.memory(Level.GB)
    if shared is not None and shared.sharing is Sharing.CHIP and machine.clusters > 1:
        reasons.append("its clusters share one global buffer (memories.gb per chip)")
    if reasons:
        raise InputError(
            f"{machine.name}: cannot be compiled for yet: {'; '.join(reasons)}; "
            "describe alike cores with a local buffer and accumulators, and a global buffer per cluster or none"
        )


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
            kernel = Kernel(f"k{number}", group, anchor, tiling, like.estimated_cycles)
        else:
            kernel = tile_kernel(graph, operators, f"k{number}", machine)
            known[signature] = kernel, names
        kernels.append(kernel)
        progress(number + 1, len(groups))
    return Schedule(strategy, graph, batch, iterations, clusters, tuple(kernels))

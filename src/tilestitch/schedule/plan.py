"""From groups of operators to a schedule: one kernel a group, in order, kernel after kernel."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from tilestitch.hardware.accelerator import Accelerator
from tilestitch.ir.graph import Graph
from tilestitch.ir.schedule import Kernel, Schedule
from tilestitch.schedule.tiling import kernel_signature, local_names, tile_kernel


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
    Raises `DoesNotFit`.
    """
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

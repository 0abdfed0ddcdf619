"""Views composed away: what of a network runs, and which of it may run together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from tilestitch.hardware.accelerator import Accelerator
from tilestitch.hardware.compilable import expect_compilable
from tilestitch.ir.graph import Graph
from tilestitch.ir.partition import FusedBlock, Group, Kernels
from tilestitch.ir.rewriting import Rewriting
from tilestitch.ir.tiles import kernels_of
from tilestitch.ir.verify import verify_graph
from tilestitch.kernels.runnable import by_units
from tilestitch.passes.across import with_reductions_across
from tilestitch.passes.again import ends_of_again, with_operators_again
from tilestitch.passes.banded import with_bands
from tilestitch.passes.folding import folded
from tilestitch.passes.joined import joined
from tilestitch.passes.layouts import assign_layouts
from tilestitch.passes.outputs import write_outputs
from tilestitch.passes.packed import packed
from tilestitch.passes.parted import in_parts
from tilestitch.passes.split_k import ends_of_parts, with_split_k
from tilestitch.passes.streamed import ends_of_blocks, with_streams
from tilestitch.passes.views import resolve_views
from tilestitch.schedule.fitting import with_room

# A network without its views, and which operators do the work of each that was there.
WithoutViews: TypeAlias = tuple[Graph, Mapping[str, tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class Composed:
    """A network with views composed away and layouts chosen, and the kernels of its groups in running order."""

    simplified: Graph
    graph: Graph
    kernels: Kernels
    now: Mapping[str, tuple[str, ...]]  # operator of `simplified` -> the operators of `graph` that do its work


def compose_views(
    simplified: Graph, groups: Sequence[Group], machine: Accelerator, known: WithoutViews | None = None
) -> Composed:
    """Leave out views, and cut each group into kernels that have one end and can run on some core.

    `known` is the `composed_graph` of the network, where it was made before.
    """
    expect_compilable(machine)
    graph, now = composed_graph(simplified) if known is None else known
    grouped = {name for names in now.values() for name in names}
    closed = ends_of_blocks(graph) | ends_of_parts(graph) | ends_of_again(graph)
    kernels = []
    for group in groups:
        members = sorted((name for old in group.operators for name in now[old]), key=graph.position.__getitem__)
        for kernel in kernels_of(graph, [graph.by_name[name] for name in members], closed):
            for whole in by_units(graph, kernel, machine):
                kernels += [tuple(op.name for op in piece) for piece in with_room(graph, whole, machine)]
    kernels += [(op.name,) for op in graph.operators if op.name not in grouped]
    kernels.sort(key=lambda members: graph.position[members[-1]])
    return Composed(simplified, graph, tuple(kernels), now)


def composed_graph(
    simplified: Graph, rewriting: Rewriting = Rewriting(), resolved: WithoutViews | None = None
) -> WithoutViews:
    """The network without its views and rewritten, and which operators do the work of each that was there.

    `resolved` is what `resolve_views` gives for it, where it was asked before.
    """
    graph, now = resolve_views(simplified) if resolved is None else resolved
    graph = assign_layouts(with_bands(write_outputs(graph), rewriting.bands))
    folding = (folded,) if rewriting.folded else ()
    streaming = (partial(with_streams, streams=rewriting.streams),) if rewriting.streams else ()
    splitting = (partial(with_split_k, splits=rewriting.split_k),) if rewriting.split_k else ()
    dividing = (partial(with_reductions_across, asked=rewriting.across),) if rewriting.across else ()
    repeating = (partial(with_operators_again, asked=rewriting.again),) if rewriting.again else ()
    joining = (joined,) if rewriting.joined else ()
    parting = (in_parts,) if rewriting.apart else ()
    packing = (packed,) if rewriting.packed else ()
    for change in (*folding, *streaming, *splitting, *dividing, *repeating, *joining, *parting, *packing):
        graph, parts = change(graph)
        now = {old: tuple(dict.fromkeys(one for name in names for one in parts[name])) for old, names in now.items()}
    verify_graph(graph)
    return graph, now


def without_views(composed: Composed, blocks: Sequence[FusedBlock]) -> tuple[FusedBlock, ...]:
    """Fused blocks with the operators that do their work; what copies a constant to an output joins the last one.

    Of a network that copies only constants there are no blocks: these operators become one, on one core.
    """
    graph = composed.graph
    if not blocks and graph.operators:
        return (FusedBlock(tuple(op.name for op in graph.operators), 1),)
    found = [[name for old in block.operators for name in composed.now[old]] for block in blocks]
    if found:
        inside = {name for names in found for name in names}
        found[-1] += [op.name for op in graph.operators if op.name not in inside]
    return tuple(
        FusedBlock(tuple(sorted(names, key=graph.position.__getitem__)), block.cores)
        for names, block in zip(found, blocks, strict=True)
    )

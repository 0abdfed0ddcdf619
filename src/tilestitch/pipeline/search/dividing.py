"""Reductions divided among cores, where a product has few results for all of them: a move of the search."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod

from tilestitch.base.units import ceil_div
from tilestitch.ir.graph import Graph, Operator
from tilestitch.ir.rewriting import Across
from tilestitch.ops.contraction import product_shape
from tilestitch.passes.across import reduction_loop, with_reductions_across
from tilestitch.pipeline.search.candidate import Candidate
from tilestitch.pipeline.search.parting import in_terms_of
from tilestitch.pipeline.search.scene import Scene
from tilestitch.schedule.batch import divisors

FEW_RESULTS = 4096  # of a product, for each core: with more of them a core brings less for each than it adds up
PARTS = 4, 16, 2, 8
SUM_BYTES = 4  # of what a part comes to


def across(scene: Scene) -> Iterator[Candidate]:
    """All products of few results in the parts of which a core brings least; then those that are alike, in others."""
    candidate, graph, cores = scene.candidate, scene.graph, len(scene.machine.cores)
    if candidate.joined or candidate.apart or candidate.again:
        return
    kernel_of = {kernel[-1]: kernel for kernel in candidate.kernels}
    least: dict[str, int] = {}
    single: list[dict[str, int]] = []
    for sinks in scene.alike:
        names = [name for sink in sinks for name in kernel_of[sink]]
        ways = {name: found for name in names if (found := _ways(graph, graph.by_name[name], cores))}
        least.update({name: found[0] for name, found in ways.items() if found[0] > 1})
        for parts in PARTS if ways else ():
            if all(parts in found for found in ways.values()):
                single.append(dict.fromkeys(ways, parts))
    for parts_of in [least, *single] if least else single:
        yield with_reductions_divided(scene, parts_of)


def with_reductions_divided(scene: Scene, parts_of: Mapping[str, int]) -> Candidate:
    """The candidate with the reductions of some products in so many parts each."""
    candidate = scene.candidate
    asked = [Across(op.name, parts_of[op.name]) for op in scene.graph.operators if op.name in parts_of]
    graph, now = with_reductions_across(scene.graph, asked)
    kernels = {kernel[-1] for kernel in candidate.kernels if not parts_of.keys().isdisjoint(kernel)}
    rules = tuple(replace(rule, splits=()) if rule.sink in kernels else rule for rule in candidate.rules)
    found = in_terms_of(replace(candidate, rules=rules), graph, now, scene.machine)
    return replace(
        found, across=tuple(sorted((*candidate.across, *asked), key=lambda one: graph.position[one.operator]))
    )


def _ways(graph: Graph, op: Operator, cores: int) -> list[int]:
    """The numbers of parts that a product's reduction can have, and 1, first those of which a core brings least.

    None of what is no such product, or has results enough.
    """
    loop, results = reduction_loop(graph, op), prod(graph.tensors[op.outputs[0]].shape)
    if loop is None or results > FEW_RESULTS * cores:
        return []
    shape, width = product_shape(op, op.whole), graph.tensors[op.inputs[0]].dtype.size_bytes

    def brought(parts: int) -> float:
        """Bytes that a core brings of its rows and columns, and of what the parts of its results come to."""
        left = max(1, cores // parts)
        rows, columns = shape.groups * shape.m, shape.n
        lines = min(ceil_div(rows, by) + ceil_div(columns, left // by) for by in divisors(left))
        return shape.k / parts * lines * width + (2 * SUM_BYTES * results * parts / cores if parts > 1 else 0.0)

    able = [parts for parts in PARTS if parts <= cores and op.dims[loop].extent % parts == 0]
    return sorted((1, *able), key=lambda parts: (brought(parts), parts))

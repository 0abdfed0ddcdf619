"""Reductions divided among cores, where a product has few results for all of them: a move of the search."""

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from tilestitch.ir.graph import Graph
from tilestitch.ir.rewriting import Across
from tilestitch.passes.across import reduction_loop, with_reductions_across
from tilestitch.pipeline.search.candidate import Candidate
from tilestitch.pipeline.search.parting import in_terms_of
from tilestitch.pipeline.search.scene import Scene

FEW_RESULTS = 4096  # of a product, for each core: with more of them a core brings less for each than it adds up
PARTS = 4, 16, 2, 8


def across(scene: Scene) -> Iterator[Candidate]:
    """Products that are alike in so many parts of their reduction, of which each core can add up one."""
    candidate, graph, cores = scene.candidate, scene.graph, len(scene.machine.cores)
    if candidate.joined or candidate.apart:
        return
    kernel_of = {kernel[-1]: kernel for kernel in candidate.kernels}
    for sinks in scene.alike:
        products = [name for sink in sinks for name in kernel_of[sink] if _reduction(graph, name, cores) > 1]
        for parts in PARTS if products else ():
            if parts <= cores and all(_reduction(graph, name, cores) % parts == 0 for name in products):
                yield with_reductions_divided(scene, products, parts)


def with_reductions_divided(scene: Scene, products: list[str], parts: int) -> Candidate:
    """The candidate with the reductions of some products in so many parts each."""
    candidate = scene.candidate
    asked = [Across(name, parts) for name in products]
    graph, now = with_reductions_across(scene.graph, asked)
    kernels = {kernel[-1] for kernel in candidate.kernels if not set(products).isdisjoint(kernel)}
    rules = tuple(replace(rule, splits=()) if rule.sink in kernels else rule for rule in candidate.rules)
    found = in_terms_of(replace(candidate, rules=rules), graph, now, scene.machine)
    return replace(found, across=(*candidate.across, *asked))


def _reduction(graph: Graph, name: str, cores: int) -> int:
    """The iterations of the loop that can be divided; 1 of what is no such product, or has results enough."""
    op = graph.by_name[name]
    loop, results = reduction_loop(graph, op), prod(graph.tensors[op.outputs[0]].shape)
    return 1 if loop is None or results > FEW_RESULTS * cores else op.dims[loop].extent

"""Candidates in terms of a network in which other operators do the work: of parts, or without copies or factors."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tilestitch.hardware.accelerator import Accelerator
from tilestitch.ir.graph import Graph
from tilestitch.ir.tiles import kernels_of
from tilestitch.kernels.runnable import by_units
from tilestitch.passes.again import ends_of_again
from tilestitch.passes.folding import folded
from tilestitch.passes.joined import joined
from tilestitch.passes.packed import packed
from tilestitch.passes.parted import in_parts
from tilestitch.passes.split_k import ends_of_parts
from tilestitch.pipeline.search.candidate import Candidate, Cut
from tilestitch.pipeline.search.scene import Scene


def part(scene: Scene) -> Iterator[Candidate]:
    """The candidate with an operator for each part of a concatenation, each with its kernel, where there are such."""
    candidate = scene.candidate
    if candidate.apart:
        return
    graph, now = in_parts(scene.graph)
    if graph is scene.graph:
        return
    yield replace(in_terms_of(candidate, graph, now, scene.machine), apart=True)


def join(scene: Scene) -> Iterator[Candidate]:
    """The candidate without copies of what can be written where a concatenation has it, where there are such."""
    candidate = scene.candidate
    if candidate.joined or candidate.apart:
        return
    graph, now = joined(scene.graph)
    if graph is not scene.graph:
        yield replace(in_terms_of(candidate, graph, now, scene.machine), joined=True)


def pack(scene: Scene) -> Iterator[Candidate]:
    """The candidate with small constants packed, so that one transfer brings those of several kernels."""
    if not scene.candidate.packed and packed(scene.graph)[0] is not scene.graph:
        yield replace(scene.candidate, packed=True)


def with_folded_constants(candidate: Candidate, graph: Graph, machine: Accelerator) -> Candidate:
    """The candidate with factors, and scales and shifts of norms, in weights where they can be; itself without any."""
    found, now = folded(graph)
    if candidate.folded or candidate.joined or candidate.apart or found is graph:
        return candidate
    return replace(in_terms_of(candidate, found, now, machine), folded=True)


def in_terms_of(
    candidate: Candidate, graph: Graph, now: Mapping[str, tuple[str, ...]], machine: Accelerator
) -> Candidate:
    """The candidate of a network in which other operators do the work of those that were there."""
    kernels, cuts = list[tuple[str, ...]](), list[Cut]()
    closed = ends_of_parts(graph) | ends_of_again(graph)
    for kernel in candidate.kernels:
        names = sorted({one for name in kernel for one in now[name]}, key=graph.position.__getitem__)
        for own in kernels_of(graph, [graph.by_name[name] for name in names], closed):
            kernels += [tuple(op.name for op in piece) for piece in by_units(graph, own, machine)]
    kernels.sort(key=lambda kernel: graph.position[kernel[-1]])
    for cut in candidate.cuts:
        names = sorted((one for name in cut.operators for one in now[name]), key=graph.position.__getitem__)
        if names:
            cuts.append(replace(cut, operators=tuple(names)))
    asked = {name: rule for rule in candidate.rules for name in now[rule.sink]}
    rules = tuple(replace(asked[kernel[-1]], sink=kernel[-1]) for kernel in kernels if kernel[-1] in asked)
    return replace(candidate, kernels=tuple(kernels), cuts=tuple(cuts), rules=rules)


def with_operators_of(candidate: Candidate, graph: Graph, machine: Accelerator) -> Candidate:
    """The candidate in terms of the network at its batch, which may copy what is a view at another, or need no copy.

    An example is a reshape that merges samples and heads. A copy is a kernel of its own, in the sub-graph of the first
    that reads it, or where nobody does of the last that it reads from.
    """
    names = {name for cut in candidate.cuts for name in cut.operators}
    if names == graph.by_name.keys():
        return candidate
    found = in_terms_of(candidate, graph, {name: (name,) if name in graph.by_name else () for name in names}, machine)
    cut_of = {name: at for at, cut in enumerate(found.cuts) for name in cut.operators}
    more = [op for op in graph.operators if op.name not in names]
    for op in reversed(more):
        readers = [cut_of[reader.name] for reader in graph.readers[op.name] if reader.name in cut_of]
        makers = [cut_of[maker.name] for maker in graph.makers[op.name] if maker.name in cut_of]
        cut_of[op.name] = min(readers) if readers else max(makers, default=0)
    cuts = tuple(
        replace(
            cut, operators=tuple(sorted((one for one in cut_of if cut_of[one] == at), key=graph.position.__getitem__))
        )
        for at, cut in enumerate(found.cuts)
    )
    kernels = sorted((*found.kernels, *((op.name,) for op in more)), key=lambda kernel: graph.position[kernel[-1]])
    return replace(found, kernels=tuple(kernels), cuts=cuts)

"""Results computed again for later readers, instead of waiting for these: a move of the search."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tilestitch.ir.graph import Graph, Operator
from tilestitch.ir.rewriting import Again
from tilestitch.ops import is_contraction
from tilestitch.passes.again import can_be_again, with_operators_again
from tilestitch.pipeline.search.candidate import Candidate
from tilestitch.pipeline.search.fusing import with_readers
from tilestitch.pipeline.search.parting import in_terms_of
from tilestitch.pipeline.search.scene import Scene, Signature, signature
from tilestitch.schedule.pieces import KernelIndex

KINDS = 8  # of results and readers that are alike, of which it is tried: those that wait for most
MOST_READ = 2  # times the bytes of a result are read at most to compute it again


@dataclass(frozen=True, slots=True)
class _Late:
    """What a kernel reads that was made long before, and what makes that."""

    makers: tuple[str, ...]  # in the order of the network; the last one makes the result
    readers: tuple[str, ...]  # operators of one kernel
    waits: int  # bytes of the result, times the kernels for which it waits
    free: bool  # whether all that the makers read is there anyway when the kernel runs
    like: Signature


def again(scene: Scene) -> Iterator[Candidate]:
    """What late kernels read computed again: where all that needs is there, everywhere; then where kernels are alike.

    First where most bytes wait longest. No product is computed again.
    """
    if scene.candidate.joined or scene.candidate.apart:
        return
    alike: dict[Signature, list[_Late]] = {}
    for one in _late_readers(scene):
        alike.setdefault(one.like, []).append(one)
    kinds = sorted(alike.values(), key=lambda kind: -sum(one.waits for one in kind))
    free = [one for kind in kinds for one in kind if one.free]
    several = [free, *kinds[:KINDS]] if free and free != kinds[0] else kinds[:KINDS]
    for kind in several:
        yield from _with_makers_again(scene, kind)


def _late_readers(scene: Scene) -> Iterator[_Late]:
    """Every kernel but the first of those that read a result, where that can be computed again from little."""
    graph, candidate = scene.graph, scene.candidate
    index = KernelIndex(graph, candidate.kernels)
    kernels = [kernel for cut in candidate.cuts for kernel in index.within(cut.operators)]
    place = {op.name: at for at, kernel in enumerate(kernels) for op in kernel}
    for made, kernel in enumerate(kernels):
        makers = _makers(graph, kernel)
        if not makers:
            continue
        (result,) = makers[-1].outputs
        readers: dict[int, list[str]] = {}
        for reader in graph.consumers.get(result, ()):
            readers.setdefault(place[reader.name], []).append(reader.name)
        size_bytes, inside = graph.tensors[result].size_bytes, {op.name for op in makers}
        needed = {name for op in makers for name in op.inputs if inside.isdisjoint(_names(graph.producers.get(name)))}
        if sum(graph.tensors[name].size_bytes for name in needed) > MOST_READ * size_bytes:
            continue
        for at in sorted(readers)[1:]:
            waiting = [name for name in needed if not _is_there(graph, name, inside, place, at)]
            if sum(graph.tensors[name].size_bytes for name in waiting) < size_bytes:
                yield _Late(
                    tuple(op.name for op in makers),
                    tuple(readers[at]),
                    size_bytes * (at - made),
                    not waiting,
                    (signature(graph, makers), signature(graph, kernels[at])),
                )


def _makers(graph: Graph, kernel: Sequence[Operator]) -> list[Operator]:
    """The end of a kernel, as far back as there is no product, in the order of the network."""
    found: list[Operator] = []
    for op in reversed(kernel):
        ahead = {reader.name for reader in graph.readers[op.name]} <= {one.name for one in found}
        if (op is kernel[-1] or ahead) and not is_contraction(op) and can_be_again(graph, op):
            found.insert(0, op)
    return found if kernel[-1] in found else []


def _is_there(graph: Graph, name: str, inside: set[str], place: dict[str, int], at: int) -> bool:
    """Whether a tensor is there when a kernel runs, although nothing is computed again: in DDR, or for others."""
    if name not in graph.producers:
        return True
    return any(place[reader.name] >= at for reader in graph.consumers[name] if reader.name not in inside)


def _names(operators: Sequence[Operator] | None) -> list[str]:
    return [op.name for op in operators or ()]


def _with_makers_again(scene: Scene, late: Sequence[_Late]) -> Iterator[Candidate]:
    """The candidate in which some late kernels compute again what they read.

    Then that in which what was computed first is part of the kernel that alone reads it now, where it can be.
    """
    candidate, before = scene.candidate, scene.graph
    graph, asked = before, list[Again]()
    # The last of the network first: what is computed again reads what the network had, and not what is made anew.
    for one in sorted(late, key=lambda one: -before.position[one.makers[-1]]):
        twins: dict[str, str] = {}
        for name in reversed(one.makers):
            inside = tuple(twins[reader.name] for reader in before.readers[name] if reader.name in twins)
            entry = Again(name, inside or one.readers)
            found, _ = with_operators_again(graph, [entry])
            (twins[name],) = found.by_name.keys() - graph.by_name.keys()
            graph = found
            asked.append(entry)
    graph, now = with_operators_again(before, asked)
    found = in_terms_of(candidate, graph, now, scene.machine)
    rules = tuple(rule for rule in found.rules if rule.sink in before.by_name)
    found = replace(found, rules=rules, again=(*candidate.again, *asked))
    yield found
    fused = with_readers(found, graph, scene.machine, {one.makers[-1] for one in late})
    if fused != found:
        yield fused

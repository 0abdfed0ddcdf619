"""Which kernels become one, and which fall apart: moves of the search that change the grouping of operators."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from tilestitch.hardware.accelerator import Accelerator
from tilestitch.ir.graph import Graph
from tilestitch.ir.partition import Kernels
from tilestitch.ir.tiles import kernels_of
from tilestitch.kernels.runnable import by_units, multiplies_by_itself, picks_from_itself
from tilestitch.ops.work import on_matrix_unit, operand_dtype
from tilestitch.pipeline.search.candidate import Candidate
from tilestitch.pipeline.search.scene import Scene, Signature, signature

MOST_FUSED = 3  # kernels that become one in a single move

Chain = tuple[int, ...]  # numbers of kernels that follow one another


def fuse(scene: Scene) -> Iterator[Candidate]:
    """Kernels that follow one another as one, wherever they are like these.

    First come those that are like attention: what is between their products need not leave the core then.
    """
    graph, kernels = scene.graph, scene.candidate.kernels
    ranked = sorted(
        _fusable(graph, kernels, scene.machine),
        key=lambda chains: -sum(scene.lost(kernels[number]) for chain in chains for number in chain),
    )
    ranked.sort(key=lambda chains: not _is_attention(graph, scene.machine, kernels, chains[0]))
    for chains in ranked:
        yield _fused(graph, scene.candidate, chains)


def with_attention(candidate: Candidate, graph: Graph, machine: Accelerator) -> Candidate:
    """The candidate with all kernels fused that are like attention; itself where none are."""
    kernels = candidate.kernels
    alike = _fusable(graph, kernels, machine)
    found = [chain for chains in alike for chain in chains if _is_attention(graph, machine, kernels, chain)]
    return _fused(graph, candidate, found) if found else candidate


def with_readers(candidate: Candidate, graph: Graph, machine: Accelerator, sinks: Collection[str]) -> Candidate:
    """The candidate with kernels that end with some operators fused with the one that alone reads each, if any can."""
    kernels = candidate.kernels
    pairs = (chain for chains in _fusable(graph, kernels, machine) for chain in chains if len(chain) == 2)
    return _fused(graph, candidate, [pair for pair in pairs if kernels[pair[0]][-1] in sinks])


def unfuse(scene: Scene) -> Iterator[Candidate]:
    """The last operator of a kernel as a kernel of its own, wherever kernels are like it."""
    graph, kernels = scene.graph, scene.candidate.kernels
    alike: dict[Signature, list[tuple[str, ...]]] = {}
    for kernel in kernels:
        if len(kernel) > 1:
            alike.setdefault(signature(graph, [graph.by_name[name] for name in kernel]), []).append(kernel)
    for found in sorted(alike.values(), key=lambda found: -sum(scene.lost(kernel) for kernel in found)):
        chosen = set(found)
        apart: list[tuple[str, ...]] = [kernel for kernel in kernels if kernel not in chosen]
        for kernel in found:
            begin = kernels_of(graph, [graph.by_name[name] for name in kernel[:-1]])
            apart += [tuple(op.name for op in one) for one in begin] + [kernel[-1:]]
        yield replace(scene.candidate, kernels=_in_order(apart, graph.position))


def _fusable(graph: Graph, kernels: Kernels, machine: Accelerator) -> list[list[Chain]]:
    """Chains of kernels that can be one kernel, those that are alike together."""
    of_kernel = {name: number for number, kernel in enumerate(kernels) for name in kernel}
    alike: dict[Signature, list[Chain]] = {}
    for chain in _chains(graph, kernels, of_kernel):
        names = sorted((name for number in chain for name in kernels[number]), key=graph.position.__getitem__)
        operators = [graph.by_name[name] for name in names]
        whole = kernels_of(graph, operators)
        if picks_from_itself(operators) or multiplies_by_itself(graph, operators, machine):
            continue
        if len(whole) == 1 and len(by_units(graph, whole[0], machine)) == 1:
            alike.setdefault(signature(graph, operators), []).append(chain)
    return list(alike.values())


def _fused(graph: Graph, candidate: Candidate, chains: Sequence[Chain]) -> Candidate:
    """With chains as one kernel each; of those that share a kernel, with the first."""
    taken: dict[int, int] = {}
    for number, chain in enumerate(chains):
        if not any(one in taken for one in chain):
            taken.update(dict.fromkeys(chain, number))
    joined: dict[int, list[str]] = {}
    for one, number in taken.items():
        joined.setdefault(number, []).extend(candidate.kernels[one])
    fused = [tuple(sorted(names, key=graph.position.__getitem__)) for names in joined.values()]
    rest = [kernel for number, kernel in enumerate(candidate.kernels) if number not in taken]
    return replace(candidate, kernels=_in_order([*rest, *fused], graph.position))


def _chains(graph: Graph, kernels: Kernels, of_kernel: Mapping[str, int]) -> Iterator[Chain]:
    """Two and three kernels, each of which alone reads what the one before makes."""
    follower: dict[int, int] = {}
    for number, kernel in enumerate(kernels):
        readers = {
            of_kernel[reader.name]
            for name in kernel
            for tensor in graph.by_name[name].outputs
            for reader in graph.consumers.get(tensor, ())
        } - {number}
        if len(readers) == 1:
            follower[number] = readers.pop()
    for number in follower:
        chain = (number,)
        while len(chain) < MOST_FUSED and chain[-1] in follower:
            chain = (*chain, follower[chain[-1]])
            yield chain


def _is_attention(graph: Graph, machine: Accelerator, kernels: Kernels, chain: Chain) -> bool:
    """Whether a product, something else and a product follow, neither of the products with constants."""

    def multiplies(name: str) -> bool:
        op = graph.by_name[name]
        if any(tensor in graph.constants for tensor in op.inputs[:2]):
            return False
        return on_matrix_unit(op, operand_dtype(op, graph), machine)

    multiply = [any(map(multiplies, kernels[number])) for number in chain]
    return len(chain) > 2 and multiply[0] and multiply[-1] and not any(multiply[1:-1])


def _in_order(kernels: Sequence[tuple[str, ...]], position: Mapping[str, int]) -> Kernels:
    return tuple(sorted(kernels, key=lambda kernel: position[kernel[-1]]))

"""Products in parts of their reduction, where what they add up has no room on the chip as a whole."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.ir.graph import Graph
from tilestitch.ir.rewriting import SplitK
from tilestitch.ops import is_contraction
from tilestitch.passes.split_k import Reduction, reduction_of, with_split_k
from tilestitch.pipeline.search.candidate import Candidate, Cut
from tilestitch.pipeline.search.moves import with_rules
from tilestitch.pipeline.search.parting import in_terms_of
from tilestitch.pipeline.search.room import MOST_PARTS, room_for_results


def with_parts_that_fit(
    candidate: Candidate, graph: Graph, machine: Accelerator, times: int = 1, *, if_weights_do_not: bool = False
) -> Candidate:
    """The candidate with products in as few parts as it takes for one to have room; itself where all have room.

    Or in at least so many `times` as many, which leave room for tiles and constants. `if_weights_do_not`: others stay
    whole, as weights that fit can stay on the chip for all pieces of rows.
    """
    if candidate.split_k or candidate.joined or candidate.apart:
        return candidate
    room = room_for_results(machine)
    found = [one for op in graph.operators if (one := reduction_of(graph, op)) is not None]
    if if_weights_do_not:
        found = [one for one in found if _weights_bytes(one, graph) > room]
    pieces_of = {name: cut.count for cut in candidate.cuts for name in cut.operators}
    chosen: dict[str, SplitK] = {}
    taken = set[str]()
    for one in sorted(found, key=lambda one: -graph.tensors[one.hidden].size_bytes):  # what one cuts no other does
        own = {one.product.name, *(op.name for op, _ in one.makers)}
        split = _split(one, graph, room * pieces_of[one.product.name], times) if own.isdisjoint(taken) else None
        if split is not None:
            chosen[split.operator] = split
            taken |= own
    splits = tuple(chosen[op.name] for op in graph.operators if op.name in chosen)
    return in_parts_of(candidate, graph, machine, splits) if splits else candidate


def _weights_bytes(found: Reduction, graph: Graph) -> int:
    """Of the product, and of all that makes its parts."""
    read = {name for op in (found.product, *(op for op, _ in found.makers)) for name in op.inputs}
    return sum(graph.tensors[name].size_bytes for name in read if name in graph.constants)


def _split(found: Reduction, graph: Graph, room: float, times: int) -> SplitK | None:
    """In how few equal parts a product has room, of all of its pieces together; None where it has whole, or never.

    What each product among the makers comes to counts until the last one was added, as that of a gated perceptron;
    what follows element by element runs with it. That is more than is there at once, and leaves room for tiles.
    """
    made = [op.outputs[0] for op, _ in found.makers if is_contraction(op)]
    hidden, result = sum(graph.tensors[name].size_bytes for name in made), graph.tensors[found.result].size_bytes
    read = graph.tensors[found.makers[0][0].reads[0].tensor].size_bytes
    if read + hidden + result <= room:
        return None
    equal = [parts for parts in range(2, MOST_PARTS + 1) if found.channels % parts == 0]
    fits = (parts for parts in equal if read + hidden // parts + 2 * result <= room)  # a sum and the one before it
    fewest = next(fits, None)
    parts = None if fewest is None else next((parts for parts in equal if parts >= times * fewest), fewest)
    return None if parts is None else SplitK(found.product.name, parts)


def in_parts_of(candidate: Candidate, graph: Graph, machine: Accelerator, splits: tuple[SplitK, ...]) -> Candidate:
    """The candidate of the network in which products run in such parts; each part is where the product was.

    What is there before the first part, and read by none but the last, waits in GB: such as the residual. Each sum
    takes the place of the one before it.
    """
    after, now = with_split_k(graph, splits)
    moved = {split.operator: [op.name for op, _ in _of(graph, split).makers] for split in splits}
    whole = replace(candidate, cuts=_with_makers(candidate.cuts, moved))
    found = replace(in_terms_of(whole, after, now, machine), split_k=splits, in_place=True)
    waiting = {sink for split in splits for sink in _waiting(found, after, now[split.operator])}
    if machine.memory(Level.GB) is None or not waiting:
        return found
    return with_rules(found, sorted(waiting), scope=Level.GB)


def _waiting(candidate: Candidate, graph: Graph, parts: tuple[str, ...]) -> Iterator[str]:
    """The last operators of kernels before the first part of a product whose results only the last one reads."""
    kernels = candidate.kernels
    place = {name: at for at, kernel in enumerate(kernels) for name in kernel}
    first, last = (end(place[name] for name in parts) for end in (min, max))
    for kernel in kernels[:first]:
        leaving = graph.leaving([graph.by_name[name] for name in kernel])
        readers = [place[op.name] for tensor in leaving for op in graph.consumers.get(tensor, ())]
        if last in readers and not any(first <= at < last for at in readers):
            yield kernel[-1]


def _of(graph: Graph, split: SplitK) -> Reduction:
    found = reduction_of(graph, graph.by_name[split.operator])
    assert found is not None, "it was found before"
    return found


def _with_makers(cuts: tuple[Cut, ...], moved: Mapping[str, list[str]]) -> tuple[Cut, ...]:
    """The cuts with what makes parts in that of its product."""
    gone = {name for names in moved.values() for name in names}
    found = []
    for cut in cuts:
        own = [name for name in cut.operators if name not in gone]
        own += [name for product in cut.operators for name in moved.get(product, ())]
        if own:
            found.append(replace(cut, operators=tuple(own)))
    return tuple(found)

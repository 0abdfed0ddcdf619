"""Moves of the search that shift the border between two neighbouring sub-graphs by some kernels."""

from collections.abc import Iterator
from dataclasses import replace

from tilestitch.pipeline.search.candidate import Candidate, in_running_order
from tilestitch.pipeline.search.scene import Scene
from tilestitch.schedule.pieces import KernelIndex

MOST_MOVED = 6  # kernels that change sides


def borders(scene: Scene) -> Iterator[Candidate]:
    """The last kernels of a sub-graph in the next one, or the first ones of that before it; the others in their pieces.

    First those that lose more cycles than their share of the sub-graph's operators.
    """
    graph, cuts = scene.graph, scene.candidate.cuts
    index = KernelIndex(graph, scene.candidate.kernels)
    order = {op.name: at for at, op in enumerate(graph.operators)}
    found: list[tuple[float, Candidate]] = []
    for at in range(len(cuts) - 1):
        if (cuts[at].axis, cuts[at].pieces) == (cuts[at + 1].axis, cuts[at + 1].pieces):
            continue
        for giver, taker in ((at, at + 1), (at + 1, at)):
            own = cuts[giver].operators
            kernels = [tuple(op.name for op in kernel) for kernel in index.within(own)]
            lost = max(1, scene.lost(own))
            for count in range(1, min(MOST_MOVED, len(kernels) - 1) + 1):
                moved = {name for kernel in (kernels[-count:] if giver < taker else kernels[:count]) for name in kernel}
                kept = tuple(name for name in own if name not in moved)
                joined = tuple(sorted((*cuts[taker].operators, *moved), key=order.__getitem__))
                sides = (kept, joined) if giver < taker else (joined, kept)
                pair = [replace(cut, operators=names) for cut, names in zip(cuts[at : at + 2], sides, strict=True)]
                candidate = scene.with_cuts(at, 2, pair)
                if in_running_order(graph, candidate.cuts):
                    found.append((scene.lost(tuple(moved)) / lost - len(moved) / len(own), candidate))
    yield from (candidate for _, candidate in sorted(found, key=lambda one: -one[0]))

"""Moves of the search that shift the border between two neighbouring sub-graphs by some kernels."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from tilestitch.pipeline.search.candidate import Candidate, Cut, in_running_order
from tilestitch.pipeline.search.places import fits, narrow_places
from tilestitch.pipeline.search.scene import Cuts, Scene
from tilestitch.schedule.pieces import KernelIndex

MOST_MOVED = 6  # kernels that change sides where the others stay in their pieces
FAR = 6  # places, the narrowest, as far as which the border moves where the others are cut anew


def borders(scene: Scene) -> Iterator[Candidate]:
    """The last kernels of a sub-graph in the next one, or the first ones of that before it.

    The others stay in their pieces; or the border moves to a narrow place, and they are cut anew, in twice or half as
    many. First comes where what is cut otherwise loses more cycles than its share of the sub-graph's operators.
    """
    index = KernelIndex(scene.graph, scene.candidate.kernels)
    found: tuple[list[tuple[float, int, Candidate]], ...] = [], []
    passed = set[int]()
    for run in scene.runs(2):
        alone = passed.issuperset(run)  # it was looked at with those that are like it
        passed.update(run)
        for several in zip(*(_ways(scene, index, at) for at in run), strict=True):
            pairs = [way.pair for way in several]
            if any(pair is not None for pair in pairs):
                lost = sum(way.lost for way in several) / max(1, sum(way.of_lost for way in several))
                found[alone].append((several[0].share - lost, run[0], scene.with_cuts(run, 2, pairs)))
    for ranked in found:
        yield from (candidate for *_, candidate in sorted(ranked, key=lambda one: one[:2]))


class _Way(NamedTuple):
    """How a border can move."""

    pair: Cuts | None  # the cuts on both sides of it; None where they could not run in this order
    lost: int  # cycles, by what is cut otherwise
    of_lost: int  # by the whole sub-graph that it is of
    share: float  # of the operators of that sub-graph


def _ways(scene: Scene, index: KernelIndex, at: int) -> list[_Way]:
    """How the border behind a cut can move."""
    graph, cuts = scene.graph, scene.candidate.cuts
    if cuts[at].along == cuts[at + 1].along:
        return []
    found = []
    for giver, taker in ((at, at + 1), (at + 1, at)):
        own = cuts[giver].operators
        for moved, anew in _moved(scene, index, cuts[giver], forward=giver < taker):
            kept = tuple(name for name in own if name not in moved)
            joined = tuple(sorted((*cuts[taker].operators, *moved), key=graph.position.__getitem__))
            left = [replace(cuts[giver], operators=kept)]
            if anew:
                left = [one for one in _anew(cuts[giver], kept) if fits(graph, one)]
            for one in left:
                pair = (one, replace(cuts[taker], operators=joined))
                pair = pair if giver < taker else pair[::-1]
                runs = in_running_order(graph, (*cuts[:at], *pair, *cuts[at + 2 :]))
                changed = kept if anew else tuple(moved)
                share = len(changed) / len(own)
                found.append(_Way(pair if runs else None, scene.lost(changed), scene.lost(own), share))
    return found


def _moved(scene: Scene, index: KernelIndex, cut: Cut, *, forward: bool) -> Iterator[tuple[frozenset[str], bool]]:
    """What changes sides from the end of a sub-graph, or from its begin, and whether the rest of it is cut anew."""
    kernels = [tuple(op.name for op in kernel) for kernel in index.within(cut.operators)]
    for count in range(1, min(MOST_MOVED, len(kernels) - 1) + 1):
        yield frozenset(name for kernel in (kernels[-count:] if forward else kernels[:count]) for name in kernel), False
    for place in narrow_places(scene.graph, index, cut)[:FAR]:
        yield frozenset(cut.operators) - place.before if forward else place.before, True


def _anew(cut: Cut, kept: tuple[str, ...]) -> list[Cut]:
    """What is left of a sub-graph, in twice or half as many pieces."""
    counts = [count for count in (cut.pieces * 2, cut.pieces // 2) if count]
    return [replace(cut.in_pieces(count), operators=kept) for count in counts]

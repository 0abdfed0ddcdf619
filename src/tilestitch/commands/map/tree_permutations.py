"""Whether a mapping on a tree keeps to the permutations of Timeloop's constraints.

The search leaves permutations aside. What it finds runs loops between two cuts in any order, so they are put into the
order that is asked for; if the mapping then costs what it did, it is the best of those that keep to the permutations as
well. Else nothing that keeps to them costs less than it. A permutation is innermost first; loops that it leaves out run
outside those that it names.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tilestitch.mapping.tree.chain import TreeMapping, price
from tilestitch.mapping.tree.found import FoundMapping
from tilestitch.mapping.tree.placed import PlacedNest


@dataclass(frozen=True, slots=True)
class _Stretch:
    """The loops of one memory: those in its tiles that are in the tile of no memory inside it."""

    memory: str
    start: int
    end: int


def with_permutations(found: FoundMapping, orders: Mapping[str, Sequence[str]]) -> tuple[FoundMapping, tuple[str, ...]]:
    """The mapping with its loops in the order of some permutations, by memory, and notes on what keeps to them."""
    placed, mapping = found.placed, found.mapping
    names = [loop.name for loop in placed.nest.loops]
    ranks = {memory: _ranks(order, names) for memory, order in orders.items()}
    stretches = [one for one in _stretches(placed, mapping) if one.memory in ranks]
    if not stretches:
        return found, ()
    ordered = _sorted(mapping, stretches, ranks)
    priced = price(placed, ordered)
    same = priced.latency_cycles == found.price.latency_cycles and abs(
        priced.energy_pj - found.price.energy_pj
    ) <= 1e-9 * abs(found.price.energy_pj)
    kept = replace(found, mapping=ordered, price=priced) if same else found
    broken = [one.memory for one in stretches if not _is_in_order(kept.mapping, one, ranks[one.memory])]
    notes = [
        f"the permutation of {memory} ({', '.join(orders[memory])} from the innermost) is not kept; nothing that keeps "
        "to it is better"
        for memory in dict.fromkeys(broken)
    ]
    held = [memory for memory in dict.fromkeys(one.memory for one in stretches) if memory not in broken]
    if held:
        notes.append(f"loops run in the order of the permutations of {', '.join(held)}")
    return kept, tuple(notes)


def _ranks(order: Sequence[str], names: Sequence[str]) -> list[int]:
    """Of each loop its place in a permutation; those that it leaves out come after all others."""
    return [order.index(name) if name in order else len(order) for name in names]


def _stretches(placed: PlacedNest, mapping: TreeMapping) -> Iterator[_Stretch]:
    """The loops of every memory, from the innermost: to the end of its largest tile from that of those inside it."""
    start = 0
    for memory in placed.tree.memories:
        ends = [
            end
            for number, cuts in enumerate(mapping.cuts)
            if placed.operands[number].element_bits > 0
            for held, end in zip(placed.chain(number), cuts, strict=True)
            if held is memory
        ]
        end = max(ends, default=start)
        if end > start:
            yield _Stretch(memory.name, start, end)
            start = end


def _sorted(mapping: TreeMapping, stretches: Sequence[_Stretch], ranks: Mapping[str, Sequence[int]]) -> TreeMapping:
    """The loops between any two neighbouring cuts in the order of the first memory whose stretch they are in."""
    inner = {end for ends in mapping.cuts for end in ends} | {end for _, _, end in mapping.rows}
    places = sorted({0, len(mapping.loops), *inner})
    loops: list[tuple[int, int]] = []
    for start, end in pairwise(places):
        here = list(mapping.loops[start:end])
        stretch = next((one for one in stretches if one.start <= start and end <= one.end), None)
        if stretch is not None:
            rank = ranks[stretch.memory]
            here.sort(key=lambda loop: rank[loop[0]])
        loops += here
    return replace(mapping, loops=tuple(loops))


def _is_in_order(mapping: TreeMapping, stretch: _Stretch, rank: Sequence[int]) -> bool:
    found = [rank[loop] for loop, _ in mapping.loops[stretch.start : stretch.end]]
    return found == sorted(found)

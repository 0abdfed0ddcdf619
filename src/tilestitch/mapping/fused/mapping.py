"""A fused mapping: the loops of several operators, of which the outermost are one, and its price."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from tilestitch.base.shown import Brief
from tilestitch.hardware.tree import Flow
from tilestitch.mapping.fused.chain import Chain, at_home, windowed
from tilestitch.mapping.fused.group import Alone, Joined, tile_inside
from tilestitch.mapping.fused.shapes import Group, passes_pj
from tilestitch.mapping.tree.chain import PricedFlow, TreeMapping
from tilestitch.mapping.tree.crossings import Part, operands_on_tree
from tilestitch.mapping.tree.placed import PlacedNest, Unrolled


@dataclass(frozen=True, slots=True)
class FusedMapping:
    """How the operators of a chain run together.

    `mappings` are theirs, with loops from the innermost. Over link k the outermost `shared[k]` loops of both operators
    are one; inside them the first operator runs, and then the second. `homes[k]` is the memory in which the
    intermediate waits. A cut at the end of the loops that an operator has for itself lies inside the shared ones.
    Where windows overlap, a shared loop of the operator that is read goes over its windows.
    """

    chain: Chain
    unrolled: tuple[tuple[Unrolled, ...], ...]
    mappings: tuple[TreeMapping, ...]
    homes: tuple[str, ...]
    shared: tuple[int, ...]

    def own_loops(self, number: int) -> tuple[int, ...]:
        """How many of the innermost loops of an operator lie inside those that it shares with each neighbour."""
        count = len(self.mappings[number].loops)
        links = [link for link in (number - 1, number) if 0 <= link < len(self.shared)]
        return tuple(count - self.shared[link] for link in links)

    def inside(self, number: int, at: int) -> tuple[tuple[int, ...], int]:
        """The nest of which an operator makes one at a place in its loops, and how often: by windows that overlap."""
        chain, last = self.chain, len(self.mappings) - 1
        extents = list(chain.operators[number].nest.extents)
        loops = self.mappings[number].loops
        times = 1
        for thread in chain.threads(number, last):
            if not any(
                one.halo is not None and one.writes == thread[link - number]
                for link in range(number, last)
                for one in chain.crossings(link)
            ):
                continue
            outside = prod(factor for loop, factor in loops[at:] if loop == thread[0])
            end = chain.operators[last].nest.extents[thread[-1]]
            some = end // outside
            for link in range(last - 1, number - 1, -1):
                crossing = next(one for one in chain.crossings(link) if one.writes == thread[link - number])
                if crossing.halo is not None:
                    some = crossing.halo.window(some)
                some = min(some, chain.operators[link].nest.extents[crossing.writes])
            extents[thread[0]] = some
            times *= outside
        return tuple(extents), times


@dataclass(frozen=True, slots=True, repr=False)
class FusedPrice(Brief):
    """The energy of each operator of a fused mapping, and what is done to intermediates in between; estimated."""

    mac_pj: tuple[float, ...]
    flows: tuple[tuple[PricedFlow, ...], ...]
    passes_pj: tuple[float, ...]  # of each link

    @property
    def operators_pj(self) -> tuple[float, ...]:
        """Of each operator its arithmetic and what it moves."""
        pairs = zip(self.mac_pj, self.flows, strict=True)
        return tuple(mac + sum(flow.energy_pj for flow in flows) for mac, flows in pairs)

    @property
    def energy_pj(self) -> float:
        return sum(self.operators_pj) + sum(self.passes_pj)


def placed_operator(fused: FusedMapping, number: int, extents: Sequence[int]) -> PlacedNest:
    """An operator of a fused mapping whose intermediates end in their homes."""
    chain = fused.chain
    memories = {memory.name: memory for memory in chain.tree.memories}
    placed = replace(chain.operators[number], unrolled=fused.unrolled[number], slides=())
    if number > 0:
        placed = at_home(placed, chain.links[number - 1].read, memories[fused.homes[number - 1]])
    if number < len(chain.links):
        placed = at_home(placed, len(placed.nest.reads), memories[fused.homes[number]])
    return replace(placed, nest=windowed(placed.nest, extents))


def fused_price(fused: FusedMapping) -> FusedPrice:
    """The energy of a fused mapping, flow by flow."""
    macs, flows = [], []
    tree = fused.chain.tree
    for number in range(len(fused.mappings)):
        places = fused.own_loops(number)
        extents, times = fused.inside(number, min(places, default=len(fused.mappings[number].loops)))
        macs.append(tree.mac_pj * prod(extents) * times)
        flows.append(tuple(_flows(fused, number)))
    memories = {memory.name: memory for memory in tree.memories}
    passes = [passes_pj(fused.chain, link, memories[home]) for link, home in enumerate(fused.homes)]
    return FusedPrice(tuple(macs), tuple(flows), tuple(passes))


def fused_crossings(fused: FusedMapping, number: int) -> Iterator[tuple[int, int, int]]:
    """Operand, crossing and place of everything that crosses in one operator.

    A loop that leaves an operand alone directly outside belongs inside, but not out of the loops that an operator has
    for itself: what is there when the next operator begins is lost, unless its cut lies outside.
    """
    mapping = fused.mappings[number]
    extents, _ = fused.inside(number, len(mapping.loops))
    placed = placed_operator(fused, number, extents)
    stops = fused.own_loops(number)
    for operand in operands_on_tree(placed):
        if not operand.array.element_bits:
            continue
        inner = 0
        for crossing, cut in enumerate((0, *mapping.cuts[operand.number][:-1])):
            at = max(inner, cut)
            while at < len(mapping.loops) and at not in stops and mapping.loops[at][0] in operand.leaves_alone:
                at += 1
            inner = at
            if crossing == 0 and (operand.is_write or not placed.tree.has_latches):
                at = 0
            yield operand.number, crossing, at


def _flows(fused: FusedMapping, number: int) -> Iterator[PricedFlow]:
    mapping = fused.mappings[number]
    own = min(fused.own_loops(number), default=len(mapping.loops))
    for operand_number, crossing, at in fused_crossings(fused, number):
        extents, times = fused.inside(number, max(at, own))
        placed = placed_operator(fused, number, extents)
        operand = operands_on_tree(placed)[operand_number]
        tile = np.array([_tile(fused, number, at, placed)], np.int64)
        for moved in operand.moved(crossing, tile, Part.ALL):
            level = operand.memories.index(moved.memory)
            count, energy = int(moved.accesses[0]) * times, float(moved.energy_pj[0]) * times
            if moved.accesses[0] > 0:
                yield PricedFlow(operand_number, level, moved.memory.name, moved.flow, count, energy)
        delivered = float(operand.delivered_pj(crossing, tile)[0]) * times
        if delivered > 0:
            name = f"network inside {operand.memories[crossing].name}"
            flow = Flow.COLLECT if operand.is_write else Flow.FEED
            yield PricedFlow(operand_number, crossing, name, flow, 0, delivered)


def _tile(fused: FusedMapping, number: int, at: int, placed: PlacedNest) -> tuple[int, ...]:
    """Steps of each loop inside a place; of loops over windows that overlap, those of one window."""
    loops, own = fused.mappings[number].loops, min(fused.own_loops(number), default=0)
    windows = {
        loop for loop, extent in enumerate(fused.chain.operators[number].nest.extents) if _is_cut(fused, number, loop)
    }
    found = [prod(factor for which, factor in loops[:at] if which == loop) for loop in range(len(placed.steps))]
    if at >= own:
        for loop in windows:
            found[loop] = placed.steps[loop]
    return tuple(found)


def _is_cut(fused: FusedMapping, number: int, loop: int) -> bool:
    """Whether an operator runs over windows that overlap along a loop."""
    last = len(fused.mappings) - 1
    return any(
        thread[0] == loop and one.halo is not None and one.writes == thread[link - number]
        for thread in fused.chain.threads(number, last)
        for link in range(number, last)
        for one in fused.chain.crossings(link)
    )


@dataclass(slots=True)
class _Draft:
    """The loops of an operator as they grow, and where its cuts are."""

    loops: list[tuple[int, int]]
    tile: list[int]
    cuts: dict[tuple[int, int], int]
    placed: PlacedNest


def fused_mapping(group: Group, found: Joined) -> FusedMapping:
    """The loops and cuts of what a search found."""
    drafts: dict[int, _Draft] = {}
    shared: dict[int, int] = {}
    _drawn(group, found, _whole(group, found), drafts, shared)
    count = len(group.chain.operators)
    mappings: list[TreeMapping] = []
    for number in range(count):
        draft = drafts[number]
        total = len(draft.loops)
        cuts: list[tuple[int, ...]] = []
        for operand, _ in enumerate(draft.placed.operands):
            levels = len(draft.placed.chain(operand))
            is_write = operand == len(draft.placed.nest.reads)
            at = [draft.cuts.get((operand, level + (0 if is_write else 1)), total) for level in range(levels - 1)]
            cuts.append((*at, total))
        mappings.append(TreeMapping(tuple(draft.loops), tuple(cuts)))
    return FusedMapping(
        group.chain,
        tuple(drafts[number].placed.unrolled for number in range(count)),
        tuple(mappings),
        tuple(memory.name for memory in group.homes),
        tuple(len(drafts[link].loops) - shared[link] for link in range(count - 1)),
    )


def _drawn(
    group: Group,
    found: Joined,
    end: Sequence[int],
    drafts: dict[int, _Draft],
    shared: dict[int, int],
) -> None:
    """Draw the operators of a block up to a tile of its threads."""
    for one in found.inside:
        if isinstance(one, Alone):
            drafts[one.operator] = _alone(one)
            _grow_own(group, found, drafts[one.operator], one.operator)
        else:
            _drawn(group, one, _tile_of_block(group, one, found), drafts, shared)
    ends = [one.operator if isinstance(one, Alone) else one.last for one in found.inside]
    for link in ends[:-1]:
        shared[link] = len(drafts[link].loops)
    tile = found.joint
    for number, operand, cut, at in found.steps:
        _loops(found, drafts, tile, at)
        tile = at
        first = _first_outer(group, number, operand)
        drafts[number].cuts[operand, first + cut] = len(drafts[number].loops)
    _loops(found, drafts, tile, end)


def _tile_of_block(group: Group, block: Joined, outer: Joined) -> tuple[int, ...]:
    """The tile of a block's threads at which it is joined with others."""
    inside = tile_inside(block, outer.first, outer.threads, outer.joint)
    return tuple(some or all_ for some, all_ in zip(inside, _whole(group, block), strict=True))


def _whole(group: Group, found: Joined) -> tuple[int, ...]:
    extents = group.bare[found.last].nest.extents
    return tuple(extents[thread[-1]] for thread in found.threads)


def _loops(found: Joined, drafts: dict[int, _Draft], inner: Sequence[int], outer: Sequence[int]) -> None:
    """The loops that all operators of a block share from one tile of its threads to a larger one."""
    for thread, some, more in zip(found.threads, inner, outer, strict=True):
        if more > some:
            for number, loop in zip(range(found.first, found.last + 1), thread, strict=True):
                drafts[number].loops.append((loop, more // some))


def _first_outer(group: Group, number: int, operand: int) -> int:
    one = group.laid(number, group.bare[number].nest.extents)
    return one.outer[one.operands.index(operand)]


def _alone(found: Alone) -> _Draft:
    """An operator up to where it is joined."""
    placed, steps = found.search.path(found.joint, found.budget)
    draft = _Draft([], [1] * len(placed.steps), {}, placed)
    for step in steps:
        _extend(draft, step.tile)
        draft.cuts[step.operand, step.cut] = len(draft.loops)
    return draft


def _extend(draft: _Draft, tile: Sequence[int]) -> None:
    for loop, (some, more) in enumerate(zip(draft.tile, tile, strict=True)):
        if more > some:
            draft.loops.append((loop, more // some))
    draft.tile = list(tile)


def _grow_own(group: Group, outer: Joined, draft: _Draft, number: int) -> None:
    """The loops of an operator from its last cut to where it is joined."""
    placed = draft.placed
    target = list(placed.steps)
    inside = group.place(number, outer.first, outer.threads, outer.joint).tile
    for thread in outer.threads:
        loop = thread[number - outer.first]
        target[loop] = placed.steps[loop] // (placed.nest.extents[loop] // inside[loop])
    _extend(draft, target)

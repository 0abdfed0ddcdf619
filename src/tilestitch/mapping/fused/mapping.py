"""A fused mapping: the loops of several operators, of which the outermost are one, and where what crosses."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod

from tilestitch.mapping.fused.chain import Chain, Chunks, at_home, windowed
from tilestitch.mapping.tree.chain import TreeMapping
from tilestitch.mapping.tree.crossings import operands_on_tree
from tilestitch.mapping.tree.placed import PlacedNest, Unrolled


@dataclass(frozen=True, slots=True)
class FusedMapping:
    """How the operators of a chain run together.

    `mappings` are theirs, with loops from the innermost. The outermost `shared[k]` loops of operator k and the next one
    are one; inside them the first operator runs, and then the second. `homes[k]` is the memory in which the
    intermediate of link k waits. A cut at the end of the loops that an operator has for itself lies inside the shared
    ones. Where windows overlap, a shared loop of the operator that is read goes over its windows.
    """

    chain: Chain
    unrolled: tuple[tuple[Unrolled, ...], ...]
    mappings: tuple[TreeMapping, ...]
    homes: tuple[str, ...]
    shared: tuple[int, ...]

    def own_loops(self, number: int) -> tuple[int, ...]:
        """How many of the innermost loops of an operator lie inside those that it shares with others.

        An entry for each place in its loops where others run in between.
        """
        count, found = len(self.mappings[number].loops), list[int]()
        for links in (range(number - 1, -1, -1), range(number, len(self.shared))):
            least = count
            for link in links:
                if self.shared[link] < least or link == links[0]:
                    least = self.shared[link]
                    found.append(count - least)
        return tuple(found)

    def common(self, link: int) -> int:
        """How many loops, from the outermost, an operator shares with all that read its result."""
        return min(self.shared[link : self.chain.reader(link)])

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
            if chain.keeps and outside > 1:
                chunks = chain.chunks(number, thread, some)
                extents[thread[0]] = chunks.size
                times *= chunks.visits
                continue
            for link in range(last - 1, number - 1, -1):
                crossing = next(one for one in chain.crossings(link) if one.writes == thread[link - number])
                if crossing.halo is not None:
                    some = crossing.halo.window(some)
                some = min(some, chain.operators[link].nest.extents[crossing.writes])
            extents[thread[0]] = some
            times *= outside
        return tuple(extents), times

    def windows(self, number: int) -> tuple[tuple[int, int], ...]:
        """The loops of an operator that go over its windows: the place of each, and by how many iterations it moves."""
        chain, last = self.chain, len(self.mappings) - 1
        loops, end = self.mappings[number].loops, self.mappings[last].loops
        found: list[tuple[int, int]] = []
        for thread in chain.threads(number, last):
            crossings = [
                next(one for one in chain.crossings(link) if one.writes == thread[link - number])
                for link in range(number, last)
            ]
            if all(one.halo is None for one in crossings):
                continue
            step = prod(1 if one.halo is None else one.halo.step for one in crossings)
            for place in range(min(self.own_loops(number)), len(loops)):
                if loops[place][0] == thread[0]:
                    at = place - len(loops) + len(end)  # of the same loop in the last operator
                    inside = prod(factor for loop, factor in end[:at] if loop == thread[-1])
                    found.append((place, step * inside * self._spread(last, thread[-1])))
        return tuple(found)

    def kept_visits(self) -> tuple[int, ...]:
        """Where rows are kept, how often each operator runs in the loop over them: the innermost shared one."""
        return tuple(one.visits for one in self._chunks())

    def kept_ahead(self) -> tuple[int | None, ...]:
        """How many tiles of each intermediate are made before the first one is read; none where rows are not kept."""
        return tuple(one.ahead for one in self._chunks()[:-1]) or (None,) * len(self.homes)

    def _chunks(self) -> tuple[Chunks, ...]:
        last = len(self.mappings) - 1
        if not self.chain.keeps or not self.windows(0):
            return ()
        ((place, _),) = self.windows(0)
        loop, factor = self.mappings[0].loops[place]
        thread = next(one for one in self.chain.threads(0, last) if one[0] == loop)
        tile = self.chain.operators[last].nest.extents[thread[-1]] // factor
        return tuple(self.chain.chunks(number, thread[number:], tile) for number in range(last + 1))

    def _spread(self, number: int, loop: int) -> int:
        return prod(ceil(one.factor) for one in self.unrolled[number] if one.loop == loop)


def placed_operator(fused: FusedMapping, number: int, extents: Sequence[int]) -> PlacedNest:
    """An operator of a fused mapping whose intermediates end in their homes."""
    chain = fused.chain
    memories = {memory.name: memory for memory in chain.tree.memories}
    placed = replace(chain.operators[number], unrolled=fused.unrolled[number], slides=())
    for read, home in {one.read: fused.homes[one.link] for one in chain.read_by(number)}.items():
        placed = at_home(placed, read, memories[home])
    if number < len(chain.links):
        placed = at_home(placed, len(placed.nest.reads), memories[fused.homes[number]])
    return replace(placed, nest=windowed(placed.nest, extents))


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


def steps_inside(fused: FusedMapping, number: int, at: int, placed: PlacedNest) -> tuple[int, ...]:
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

"""The loops and cuts of what a search of a group found."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilestitch.mapping.fused.group import Alone, Joined, tile_inside
from tilestitch.mapping.fused.mapping import FusedMapping
from tilestitch.mapping.fused.shapes import Group
from tilestitch.mapping.tree.chain import TreeMapping
from tilestitch.mapping.tree.placed import PlacedNest


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
    tile = group.from_where(found.threads, found.joint)
    _loops(found, drafts, found.joint, tile)
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
    extents = group.whole[found.last]
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
    draft = _Draft([], [1] * len(found.placed.steps), {}, found.placed)
    for step in found.steps:
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
    target, whole = list(placed.steps), replace(placed, unrolled=group.chain.cells.unrolled(number)).steps
    place = group.visit(number, outer.first, outer.threads, outer.joint)
    assert place is not None
    inside = place.tile
    for thread in outer.threads:
        loop = thread[number - outer.first]
        target[loop] = placed.steps[loop] // (whole[loop] // inside[loop])
    _extend(draft, target)

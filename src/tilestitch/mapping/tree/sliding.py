"""Where windows of a nest may slide on a tree: a loop, or none, for each crossing that can keep an overlap."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import prod

from tilestitch.base.errors import TooLarge
from tilestitch.hardware.tree import MachineTree
from tilestitch.ir.loop_nest import LoopOperand
from tilestitch.mapping.tree.crossings import OperandOnTree, operands_on_tree
from tilestitch.mapping.tree.placed import PlacedNest, Slide
from tilestitch.mapping.tree.quick_arrays import sharing_of

MOST_SLIDES = 4096


def can_slide(tree: MachineTree) -> bool:
    """Whether a machine has a memory or a network that keeps overlaps."""
    passes_on = any(network.forwarding for axis in tree.axes for network in axis.networks)
    return passes_on or any(memory.has_sliding_window for memory in tree.memories)


def needs_tables(placed: PlacedNest) -> bool:
    """Whether crossings cost, or lie, otherwise than `quick_prices` knows: by windows, an order, or mixed axes."""
    tree = placed.tree
    is_even = any(memory.has_even_storage for memory in tree.memories)
    if placed.order or is_even or can_slide(tree):
        return True
    return any(
        sharing_of(operand, crossing) is None
        for operand in operands_on_tree(placed)
        for crossing in range(len(operand.memories))
    )


def with_slides(placements: Sequence[PlacedNest]) -> list[PlacedNest]:
    """Each placement as often as there are ways to slide its windows, the one without any first.

    Those whose slides are chosen are left as they are. Raises `TooLarge` where there are too many ways.
    """
    return [one for placed in placements for one in _choices(placed)]


def _choices(placed: PlacedNest) -> list[PlacedNest]:
    if placed.slides is not None or not can_slide(placed.tree):
        return [placed]
    places = [
        [None, *(Slide(operand.number, crossing, loop) for loop in sliding_loops(operand))]
        for operand in operands_on_tree(placed)
        for crossing in range(len(operand.memories))
        if operand.array.element_bits > 0 and operand.is_sliding(crossing)
    ]
    count = prod(map(len, places))
    if count > MOST_SLIDES:
        raise TooLarge(
            f"{placed.nest.name}: {count:,} ways to slide windows, at most {MOST_SLIDES:,} are searched; let windows "
            "slide in fewer memories and networks"
        )
    return [replace(placed, slides=tuple(one for one in chosen if one is not None)) for chosen in product(*places)]


def sliding_loops(operand: OperandOnTree) -> list[int]:
    """The loops whose next step needs in part what the last one had: one of two in an index, with steps to go."""
    array = operand.array
    return [
        loop
        for loop in sorted(array.indexed_by)
        if operand.placed.steps[loop] > 1 and _is_one_of_two(array, loop, operand.placed.nest.extents)
    ]


def _is_one_of_two(array: LoopOperand, loop: int, extents: Sequence[int]) -> bool:
    within = [terms for terms in array.axes if loop in (one for one, _ in terms)]
    return len(within) == 1 and len(within[0]) == 2 and all(extents[one] > 1 for one, _ in within[0])

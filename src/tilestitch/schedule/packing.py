"""Addresses for results that stay on chip, all at once, where one after another leaves holes between them.

First fit in two orders, each tried again with the blocks in front that came to lie too high, up to 32 times
(squeaky wheel optimisation: Joslin and Clements, JAIR 10, 1999). How far that is from the optimum is
tests/schedule/test_allocation.py's question.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from tilestitch.hardware.accelerator import Accelerator, Memory
from tilestitch.ir.allocation import AddressRange, blocks, live_bytes, occupied_bytes
from tilestitch.ir.schedule import Home

MOST_BLOCKS = 3_000  # of a level; the time grows with their square
TOLERANCE = 0.01  # more bytes than are live, up to which nothing is packed again
ROUNDS = 32

Addresses = dict[tuple[int, str], Home]  # by the kernel that makes a result, and its tensor

_ORDERS: tuple[Callable[[AddressRange], tuple[int, ...]], ...] = (
    lambda one: (one.first - one.last, -one.size_bytes, one.first),  # the longest first
    lambda one: (-one.size_bytes, one.first - one.last, one.first),  # the largest first
)


def better_addresses(homes: Sequence[Home], machine: Accelerator) -> Addresses:
    """Addresses for all results of each level that has holes at its peak, from 0 up; empty where nothing is gained."""
    found: Addresses = {}
    for memory in machine.memories:
        taken = blocks(homes, memory.level)
        if not taken or len(taken) > MOST_BLOCKS:
            continue
        occupied, live = occupied_bytes(taken, memory.size_bytes), live_bytes(taken)
        if occupied <= (1 + TOLERANCE) * live:
            continue
        places = packed(taken, live)
        if _top(taken, places) < occupied:
            for block, address in zip(taken, places, strict=True):
                found.update({(home.first, home.tensor): replace(home, address=address) for home in block.homes})
    return found


def packed(taken: Sequence[AddressRange], target_bytes: int) -> list[int]:
    """An address for each block, all below `target_bytes` where that is found, else as low as is found."""
    best: list[int] = []
    for order in _ORDERS:
        too_high = [0] * len(taken)  # how often
        for _ in range(ROUNDS):
            ranks = [(-count, *order(one)) for count, one in zip(too_high, taken, strict=True)]
            places = first_fit(taken, sorted(range(len(taken)), key=ranks.__getitem__))
            if not best or _top(taken, places) < _top(taken, best):
                best = places
            if _top(taken, best) <= target_bytes:
                return best
            for number, (one, at) in enumerate(zip(taken, places, strict=True)):
                too_high[number] += at + one.size_bytes > target_bytes
    return best


def addresses_with(homes: Sequence[Home], more: Sequence[Home], memory: Memory) -> Addresses:
    """Addresses for the results of a level and for as many `more` as find room when others move; empty if none does.

    What moves are blocks that lie there at the same time as one of the new ones, and those that do so with these.
    """
    taken, new, found = blocks(homes, memory.level), list[AddressRange](), Addresses()
    if len(taken) + len(more) > MOST_BLOCKS:
        return found
    for home in more:
        block = AddressRange(home.size_bytes, home.first, home.last, 0, [home])
        moved = _with_others_moved(taken, [*new, block], memory.size_bytes)
        if moved is not None:
            new.append(block)
            found = {(home.first, home.tensor): home for one in taken for home in one.homes} | moved
    return found


def _with_others_moved(taken: Sequence[AddressRange], new: Sequence[AddressRange], size_bytes: int) -> Addresses | None:
    """The addresses of new blocks and of all blocks near them; None where they do not all find room."""
    near = [one for one in taken if any(map(one.meets, new))]
    moving = [*new, *(one for one in taken if any(map(one.meets, near)))]
    stays = [one for one in taken if not any(one is other for other in moving)]
    fixed = [one for one in stays if any(map(one.meets, moving))]
    for order in _ORDERS:
        ranks = sorted(range(len(moving)), key=lambda number: order(moving[number]))
        places = first_fit(moving, ranks, fixed)
        if _top(moving, places) <= size_bytes:
            pairs = zip(moving, places, strict=True)
            return {(one.first, one.tensor): replace(one, address=at) for block, at in pairs for one in block.homes}
    return None


def first_fit(taken: Sequence[AddressRange], order: Sequence[int], fixed: Sequence[AddressRange] = ()) -> list[int]:
    """An address for each block: the lowest at which it fits beside those that come before it in `order`.

    Blocks that are `fixed` stay where they are.
    """
    places: list[int] = [0] * len(taken)
    placed: list[int] = []
    for number in order:
        one, at = taken[number], 0
        beside = [(places[n], taken[n].size_bytes) for n in placed if one.meets(taken[n])]
        beside += [(other.address, other.size_bytes) for other in fixed if one.meets(other)]
        for start, stop in sorted((start, start + size) for start, size in beside):
            if start - at >= one.size_bytes:
                break
            at = max(at, stop)
        places[number] = at
        placed.append(number)
    return places


def _top(taken: Sequence[AddressRange], places: Sequence[int]) -> int:
    return max(at + one.size_bytes for one, at in zip(taken, places, strict=True))

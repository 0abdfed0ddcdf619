"""What the readers of mappings share: names of loops become numbers, and what was read covers the nest."""

from collections.abc import Sequence

from tilestitch.base.errors import InputError, printable
from tilestitch.ir.loop_nest import LoopMapping, LoopNest


def loop_number(name: str, nest: LoopNest, where: str) -> int:
    """The number of a loop of that name."""
    number = nest.loop(name)
    if number is None:
        names = ", ".join(loop.name for loop in nest.loops)
        raise InputError(f"{where}: there is no loop {printable(name, 40)!r}; known: {names}")
    return number


def loop_order(names: Sequence[str], nest: LoopNest, where: str) -> tuple[int, ...]:
    """The numbers of the loops in an order that has each of them once."""
    order = tuple(loop_number(name, nest, where) for name in names)
    if len(set(order)) != len(nest.loops) or len(order) != len(nest.loops):
        loops = ", ".join(loop.name for loop in nest.loops)
        raise InputError(f"{where}: expected every loop once ({loops}), found {printable(', '.join(names), 120)}")
    return order


def exact(mapping: LoopMapping, nest: LoopNest, where: str) -> LoopMapping:
    """The mapping itself; refuses one whose factors do not multiply to the extents."""
    for number, loop in enumerate(nest.loops):
        total = mapping.dram[number] * mapping.scratchpad_tile[number]
        if total != loop.extent:
            raise InputError(
                f"{where}: loop {loop.name}: its factors multiply to {total:,}; expected its extent, {loop.extent:,}"
            )
    return mapping

"""The loops of operators that run together, as lines: shared loops outside, inside them those of each operator."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from tilestitch.commands.map.tree_text import factor_text
from tilestitch.mapping.fused.mapping import FusedMapping


class RowKind(StrEnum):
    """What a line is: what memories hold from there on, a loop, or an operator at the units."""

    HOLDS = "holds"
    LOOP = "loop"
    BODY = "body"


@dataclass(frozen=True, slots=True)
class NestRow:
    """One line, inside so many loops."""

    depth: int
    kind: RowKind
    text: str


def nest_rows(mapping: FusedMapping, names: tuple[str, ...]) -> list[NestRow]:
    """All lines of a fused mapping, from the outermost loop inwards; `names` are those of its operators."""
    return list(_rows(mapping, names, (0, len(names) - 1), 0, 0))


def _rows(
    mapping: FusedMapping, names: tuple[str, ...], group: tuple[int, int], outside: int, depth: int
) -> Iterator[NestRow]:
    """The loops of some operators inside so many that they share with others, as a tree."""
    first, last = group
    until = min(mapping.shared[first:last], default=len(mapping.mappings[first].loops))
    loops = mapping.mappings[last].loops
    for position in range(outside, until + 1):
        if held := _held(mapping, first, last, position):
            yield NestRow(depth, RowKind.HOLDS, f"# {', '.join(held)}")
        if position < until:
            loop, factor = loops[len(loops) - 1 - position]
            yield NestRow(
                depth, RowKind.LOOP, f"for {mapping.chain.operators[last].nest.loops[loop].name} in {factor}:"
            )
            depth += 1
    if first == last:
        placed = mapping.chain.operators[first]
        spread = [
            f"{placed.nest.loops[one.loop].name} over {factor_text(one.factor)} along {one.axis}"
            for one in mapping.unrolled[first]
        ]
        yield NestRow(depth, RowKind.BODY, f"{names[first]}: spread {', '.join(spread) or 'nothing'}")
        return
    start = first
    for link in [link for link in range(first, last) if mapping.shared[link] == until] + [last]:
        yield from _rows(mapping, names, (start, link), until, depth)
        start = link + 1


def _held(mapping: FusedMapping, first: int, last: int, outside: int) -> list[str]:
    """What is held inside so many loops from the outermost, of operators that share them."""
    found: list[str] = []
    for number in range(first, last + 1):
        placed, one = mapping.chain.operators[number], mapping.mappings[number]
        own = min(mapping.own_loops(number), default=0)
        for operand, array in enumerate(placed.operands):
            home = None
            if operand == len(placed.nest.reads) and number < len(mapping.homes):
                home = mapping.homes[number]
            for one_ in mapping.chain.read_by(number):
                if operand == one_.read:
                    home = mapping.homes[one_.link]
            names = [memory.name for memory in placed.chain(operand)]
            inner = names[: names.index(home)] if home is not None else names
            for name, cut in zip(inner, one.cuts[operand], strict=False):
                if len(one.loops) - cut == outside and array.element_bits and (first == last or cut > own):
                    found.append(f"{array.name} in {name}")
        if number < last and mapping.common(number) == outside:
            found.append(f"{placed.nest.write.name} in {mapping.homes[number]}")
    return found

"""A machine tree as a picture in SVG: a box for each memory, the outermost on top, and the units below."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from math import prod

from tilestitch.base.units import format_bytes, format_rate
from tilestitch.hardware.tree import NO_LIMIT, MachineTree, TreeMemory
from tilestitch.hardware.tree_describe import Branch, branches

_WIDTH, _HEIGHT = 200, 62  # of a box, at least
_ACROSS, _DOWN = 24, 34  # between boxes
_EDGE = 12
_ABOVE = 10  # room for a fan-out over the outermost memories
_LETTER = 6  # width of one, at most; of words in a box a little less on average
_MARGIN = 10  # of both sides of a box, beside its texts
_FAN_OUT = ' fill="#aa3311" stroke="white" stroke-width="4" paint-order="stroke"'
_COLOURS = ("#e8eef7", "#e9f4e6", "#fdf1dc", "#f7e6ee", "#ece7f6", "#e3f3f3")


@dataclass(frozen=True, slots=True)
class _Box:
    """A memory or the units in the picture: the middle of its upper edge, and its width."""

    branch: Branch
    x: float
    y: float
    width: float


def tree_svg(tree: MachineTree) -> str:
    """The picture; boxes of memories that hold the same operands have one colour.

    Solid lines are the branches of the tree; a dashed one leads to the units from the innermost memory of an operand
    that has no branch to them.
    """
    held = list(dict.fromkeys(memory.operands for memory in reversed(tree.memories)))
    colours = {operands: _COLOURS[at % len(_COLOURS)] for at, operands in enumerate(held)}
    boxes: list[_Box] = []
    left, wide = float(_EDGE), _width(tree)
    for root in branches(tree):
        boxes += _placed(root, left, _EDGE + _ABOVE, wide)
        left += _leaves(root) * (wide + _ACROSS)
    labels = [(box.x, len(_fan_out_text(tree, box.branch)) * _LETTER / 2) for box in boxes]
    low = min(0.0, *(x - half for x, half in labels))
    width = max(left - _ACROSS + _EDGE, *(x + half for x, half in labels)) - low
    height = max(box.y for box in boxes) + _HEIGHT + _EDGE
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="{low:g} 0 {width:g} {height:g}" font-family="sans-serif" font-size="11">',
        f"<title>{escape(tree.name)}</title>",
        f'<rect x="{low:g}" width="{width:g}" height="{height:g}" fill="white"/>',
        *_lines(tree, boxes),
    ]
    for box in boxes:
        lines += _drawn(tree, box, colours)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _width(tree: MachineTree) -> float:
    """Of every box: room for the longest text."""
    texts = [text for memory in tree.memories for text in _memory_texts(tree, memory)]
    return max(_WIDTH, max(map(len, (*texts, *_unit_texts(tree)))) * (_LETTER - 0.5) + _MARGIN)


def _leaves(branch: Branch) -> int:
    return sum(_leaves(one) for one in branch.inside) or 1


def _placed(branch: Branch, left: float, top: float, wide: float) -> Iterator[_Box]:
    """The box of a branch in the middle above those inside it, and these."""
    yield _Box(branch, left + (_leaves(branch) * (wide + _ACROSS) - _ACROSS) / 2, top, wide)
    for inner in branch.inside:
        yield from _placed(inner, left, top + _HEIGHT + _DOWN, wide)
        left += _leaves(inner) * (wide + _ACROSS)


def _lines(tree: MachineTree, boxes: Sequence[_Box]) -> Iterator[str]:
    for box in boxes:
        for inner in boxes:
            if any(inner.branch is one for one in box.branch.inside):
                yield _line(box, inner, "")
                yield from _engine_text(tree, box, inner)
    (units,) = (box for box in boxes if box.branch.memory is None)
    (parent,) = (box for box in boxes if any(units.branch is one for one in box.branch.inside))
    for box in boxes:
        memory = box.branch.memory
        if memory is not None and box is not parent and any(tree.chain(one)[0] is memory for one in tree.operands):
            yield _line(box, units, ' stroke-dasharray="4 3"')


def _engine_text(tree: MachineTree, above: _Box, below: _Box) -> Iterator[str]:
    """The DMA engines between two boxes, right of the line between them."""
    ends = (below.branch.memory, above.branch.memory)
    names = tuple(memory.name if memory is not None else "" for memory in ends)
    for engine in tree.engines:
        if (engine.inner, engine.outer) == names:
            text = f"DMA {engine.name} x {engine.count:,}"
            yield (
                f'<text x="{(above.x + below.x) / 2 + 6:.1f}" y="{(above.y + _HEIGHT + below.y) / 2 - 4:.1f}">'
                f"{escape(text)}</text>"
            )


def _line(above: _Box, below: _Box, more: str) -> str:
    return (
        f'<line x1="{above.x:.1f}" y1="{above.y + _HEIGHT:.1f}" x2="{below.x:.1f}" y2="{below.y:.1f}" '
        f'stroke="#555555"{more}/>'
    )


def _drawn(tree: MachineTree, box: _Box, colours: Mapping[tuple[str, ...], str]) -> Iterator[str]:
    """A box with its texts, and above it the fan-out that leads to it."""
    memory = box.branch.memory
    fill = colours[memory.operands] if memory is not None else "#ffffff"
    yield (
        f'<rect x="{box.x - box.width / 2:.1f}" y="{box.y:.1f}" width="{box.width:g}" height="{_HEIGHT}" rx="4" '
        f'fill="{fill}" stroke="#555555"/>'
    )
    for number, text in enumerate(_memory_texts(tree, memory) if memory is not None else _unit_texts(tree)):
        yield _text(box.x, box.y + 15 + 14 * number, text, ' font-weight="bold"' if number == 0 else "")
    if text := _fan_out_text(tree, box.branch):
        yield _text(box.x, box.y - 6, text, _FAN_OUT)


def _fan_out_text(tree: MachineTree, branch: Branch) -> str:
    """How many places there are along the axes above a box, and which axes these are; "" where there are none."""
    if not branch.fan_out:
        return ""
    count = prod(axis.size for axis in tree.axes if axis.name in branch.fan_out)
    return f"x {count:,}: {', '.join(branch.fan_out)}"


def _memory_texts(tree: MachineTree, memory: TreeMemory) -> tuple[str, ...]:
    size = format_bytes(memory.size_bits // 8) if memory.size_bits % 8 == 0 else f"{memory.size_bits:,} bits"
    size = "no end" if memory.size_bits >= NO_LIMIT else size
    count = tree.instances(memory)
    widths = "/".join(dict.fromkeys(f"{port.width_bits:,}" for port in memory.ports))
    return (
        memory.name,
        f"{size}{f', {count:,} of them' if count > 1 else ''}; {', '.join(memory.operands)}",
        f"{memory.read_pj:g} pJ read, {memory.write_pj:g} pJ write",
        f"of {widths} bits{_rate(tree, memory)}" if widths else "no port",
    )


def _rate(tree: MachineTree, memory: TreeMemory) -> str:
    """What all ports of one instance move together, where a port may be waited for at all."""
    if any(port.bits_per_cycle >= NO_LIMIT for port in memory.ports):
        return "; never waited for"
    if tree.clock_hz is None:
        return ""
    bits_per_cycle = sum((port.bits_per_cycle for port in memory.ports), Fraction(0))
    return f"; {format_rate(bits_per_cycle * tree.clock_hz / 8, 'B/s')}"


def _unit_texts(tree: MachineTree) -> tuple[str, ...]:
    return ("units", f"{tree.units:,}", f"{tree.mac_pj:g} pJ a multiply-accumulate")


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle"{more}>{escape(text)}</text>'

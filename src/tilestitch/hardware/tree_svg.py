"""A machine tree as a picture in SVG: a box for each memory, the outermost on top, and the units below."""

from collections.abc import Iterator
from html import escape
from math import prod

from tilestitch.base.units import format_bytes
from tilestitch.hardware.tree import MachineTree, TreeMemory
from tilestitch.hardware.tree_describe import Branch, branches

_WIDTH, _HEIGHT = 200, 62  # of a box
_ACROSS, _DOWN = 24, 34  # between boxes
_EDGE = 12
_FAN_OUT = ' fill="#aa3311" stroke="white" stroke-width="4" paint-order="stroke"'
_COLOURS = ("#e8eef7", "#e9f4e6", "#fdf1dc", "#f7e6ee", "#ece7f6", "#e3f3f3")


def tree_svg(tree: MachineTree) -> str:
    """The picture; boxes of memories that hold the same operands have one colour."""
    held = list(dict.fromkeys(memory.operands for memory in reversed(tree.memories)))
    colours = {operands: _COLOURS[at % len(_COLOURS)] for at, operands in enumerate(held)}
    roots = branches(tree)
    width = 2 * _EDGE + sum(_leaves(one) for one in roots) * (_WIDTH + _ACROSS) - _ACROSS
    height = 2 * _EDGE + max(_levels(one) for one in roots) * (_HEIGHT + _DOWN) - _DOWN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="11">',
        f"<title>{escape(tree.name)}</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    left = float(_EDGE)
    for root in roots:
        lines += _drawn(tree, root, left, _EDGE, colours)
        left += _leaves(root) * (_WIDTH + _ACROSS)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _leaves(branch: Branch) -> int:
    return sum(_leaves(one) for one in branch.inside) or 1


def _levels(branch: Branch) -> int:
    return 1 + max((_levels(one) for one in branch.inside), default=0)


def _centre(branch: Branch, left: float) -> float:
    return left + (_leaves(branch) * (_WIDTH + _ACROSS) - _ACROSS) / 2


def _drawn(
    tree: MachineTree, branch: Branch, left: float, top: float, colours: dict[tuple[str, ...], str]
) -> Iterator[str]:
    """The box of a branch, then lines to those inside it with their fan-outs, and these."""
    centre = _centre(branch, left)
    memory = branch.memory
    fill = colours[memory.operands] if memory is not None else "#ffffff"
    yield (
        f'<rect x="{centre - _WIDTH / 2:.1f}" y="{top:.1f}" width="{_WIDTH}" height="{_HEIGHT}" rx="4" '
        f'fill="{fill}" stroke="#555555"/>'
    )
    texts = _memory_texts(tree, memory) if memory is not None else _unit_texts(tree)
    for number, text in enumerate(texts):
        weight = ' font-weight="bold"' if number == 0 else ""
        yield _text(centre, top + 15 + 14 * number, text, weight)
    below = top + _HEIGHT + _DOWN
    for inner in branch.inside:
        to = _centre(inner, left)
        yield (f'<line x1="{centre:.1f}" y1="{top + _HEIGHT:.1f}" x2="{to:.1f}" y2="{below:.1f}" stroke="#555555"/>')
        if inner.fan_out:
            count = prod(axis.size for axis in tree.axes if axis.name in inner.fan_out)
            names = ", ".join(inner.fan_out)
            yield _text(to, below - 6, f"x {count:,}: {names}", _FAN_OUT)
        yield from _drawn(tree, inner, left, below, colours)
        left += _leaves(inner) * (_WIDTH + _ACROSS)


def _memory_texts(tree: MachineTree, memory: TreeMemory) -> tuple[str, ...]:
    size = format_bytes(memory.size_bits // 8) if memory.size_bits % 8 == 0 else f"{memory.size_bits:,} bits"
    count = tree.instances(memory)
    widths = "/".join(dict.fromkeys(f"{port.width_bits:,}" for port in memory.ports))
    return (
        memory.name,
        f"{size}{f', {count:,} of them' if count > 1 else ''}; {', '.join(memory.operands)}",
        f"{memory.read_pj:g} pJ read, {memory.write_pj:g} pJ write",
        f"of {widths} bits" if widths else "no port",
    )


def _unit_texts(tree: MachineTree) -> tuple[str, ...]:
    return ("units", f"{tree.units:,}", f"{tree.mac_pj:g} pJ a multiply-accumulate")


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle"{more}>{escape(text)}</text>'

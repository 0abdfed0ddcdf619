"""A machine tree as a page of text for people."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import prod

from tilestitch.base.units import counted, format_bytes, format_number, format_rate
from tilestitch.hardware.tree import Flow, MachineTree, Port, TreeMemory
from tilestitch.hardware.tree_dma import engine_lines
from tilestitch.hardware.tree_network import network_lines


@dataclass(frozen=True, slots=True)
class Branch:
    """A memory, or the units (None), with what is directly inside; the axes that lie between it and what is outside."""

    memory: TreeMemory | None
    fan_out: tuple[str, ...]
    inside: tuple["Branch", ...]


def branches(tree: MachineTree) -> tuple[Branch, ...]:
    """The outermost memories, with all that is inside.

    A memory is inside the next one outwards that holds one of its operands. The units are inside the memory that ends
    up deepest; what other operands come from is said by their chains.
    """
    outside: dict[int, int | None] = {}
    for number, memory in enumerate(tree.memories):
        later = range(number + 1, len(tree.memories))
        sharing = (at for at in later if set(memory.operands) & set(tree.memories[at].operands))
        outside[number] = next(sharing, None)
    deepest = max(outside, key=lambda number: (_depth(number, outside), -number))
    every = tuple(axis.name for axis in tree.axes)

    def inside(number: int | None) -> Iterator[Branch]:
        serves = every if number is None else tree.memories[number].serves
        for at in sorted((at for at in outside if outside[at] == number), reverse=True):
            memory = tree.memories[at]
            fan_out = tuple(axis for axis in every if axis in serves and axis not in memory.serves)
            yield Branch(memory, fan_out, tuple(inside(at)))
        if number == deepest:
            yield Branch(None, tuple(axis for axis in every if axis in serves), ())

    return tuple(inside(None))


def _depth(number: int, outside: dict[int, int | None]) -> int:
    above = outside[number]
    return 0 if above is None else 1 + _depth(above, outside)


def describe_tree(tree: MachineTree) -> str:
    """Memories from the outermost inwards with their ports and fan-outs, the units, and the chain of each operand."""
    lines = [tree.name, *([tree.description] if tree.description else []), ""]
    clock = f", clock {format_rate(tree.clock_hz, 'Hz')}" if tree.clock_hz is not None else ""
    lines += [f"{counted(tree.units, 'unit')}{_axes(tree, tuple(axis.name for axis in tree.axes), ' along ')}{clock}"]
    peak = f"; at most {format_rate(2 * tree.units * tree.clock_hz, 'OPS')}" if tree.clock_hz is not None else ""
    lines += [f"{tree.mac_pj:g} pJ a multiply-accumulate{peak}{_steps(tree)}"]
    if tree.bits is not None:
        lines += [f"{counted(tree.bits, 'bit')} an element, {tree.sum_bits} of a sum that is added to"]
    lines += ["", "memories, from the outermost"]
    for branch in branches(tree):
        lines += _branch_lines(tree, branch, 1)
    lines += network_lines(tree)
    lines += engine_lines(tree)
    lines += ["", "chains, from the units", *_columns([_chain(tree, operand) for operand in tree.operands])]
    areas = _area_lines(tree)
    return "\n".join([*lines, *areas]) + "\n"


def _branch_lines(tree: MachineTree, branch: Branch, depth: int) -> Iterator[str]:
    indent = "  " * depth
    if branch.fan_out:
        spread = prod(axis.size for axis in tree.axes if axis.name in branch.fan_out)
        yield f"{indent}{spread:,} of each{_axes(tree, branch.fan_out, ' along ')}:"
        depth, indent = depth + 1, indent + "  "
    if branch.memory is None:
        yield f"{indent}unit: {tree.mac_pj:g} pJ a multiply-accumulate{_loops(tree)}"
        return
    memory = branch.memory
    yield (
        f"{indent}{memory.name}: {size_text(memory.size_bits)}{_times(tree.instances(memory))}, keeps "
        f"{', '.join(memory.operands)}; {memory.read_pj:g} pJ a read, {memory.write_pj:g} pJ a write"
        f"{'; two buffers' if memory.buffers == 2 else ''}{'; sliding windows' if memory.has_sliding_window else ''}"
        f"{'; even storage' if memory.has_even_storage else ''}"
        f"{f'; banks of {size_text(memory.bank_bits)}' if memory.bank_bits > 8 else ''}"
    )
    for port in memory.ports:
        yield f"{indent}  port {port.name}: {_port(tree, memory, port)}"
    for inner in branch.inside:
        yield from _branch_lines(tree, inner, depth + 1)


def _steps(tree: MachineTree) -> str:
    """What differs from the defaults of a step."""
    found = [
        *([] if tree.has_latches else ["units read and write at every step"]),
        *([] if tree.reads_first_sums else ["first sums are not read"]),
        *(["tiles are boxes"] if tree.moves_boxes else []),
    ]
    return "".join(f"; {one}" for one in found)


def _times(count: int) -> str:
    return f", {count:,} of them" if count > 1 else ""


def size_text(bits: int) -> str:
    """A number of bits, as bytes where it is whole ones."""
    return format_bytes(bits // 8) if bits % 8 == 0 else counted(bits, "bit")


def _axes(tree: MachineTree, names: tuple[str, ...], before: str) -> str:
    found = [f"{axis.name} {axis.size:,}" for axis in tree.axes if axis.name in names]
    return before + " x ".join(found) if found else ""


def _loops(tree: MachineTree) -> str:
    """Which loops may be spread, where that is restricted."""
    found: list[str] = []
    for axis in tree.axes:
        limits = [", ".join(axis.loops)] if axis.loops else []
        limits += [f"loops of {' and '.join(axis.operands)} alone"] if axis.operands else []
        found += [f"{', if '.join(limits)} along {axis.name}"] if limits else []
    return f"; may be spread: {'; '.join(found)}" if found else ""


def _port(tree: MachineTree, memory: TreeMemory, port: Port) -> str:
    least = f", {port.granule_bits:,} at least" if port.granule_bits < port.width_bits else ""
    rate = f"{format_number(port.bits_per_cycle)} b/cycle"
    if tree.clock_hz is not None:
        rate += f" = {format_rate(port.bits_per_cycle * tree.clock_hz / 8, 'B/s')}"
    return f"{counted(port.width_bits, 'bit')} an access{least}; {rate}; {_served(memory, port)}"


def _served(memory: TreeMemory, port: Port) -> str:
    """What a port serves, operands of the same directions together."""
    by_flows: dict[tuple[Flow, ...], list[str]] = {}
    for operand in memory.operands:
        flows = tuple(flow for flow in Flow if (operand, flow) in port.flows)
        if flows:
            by_flows.setdefault(flows, []).append(operand)
    if tuple(Flow) in by_flows and len(by_flows[tuple(Flow)]) == len(memory.operands):
        return "everything"
    parts = [f"{', '.join(operands)} {'/'.join(flows)}" for flows, operands in by_flows.items()]
    return "; ".join(parts) or "nothing"


def _chain(tree: MachineTree, operand: str) -> tuple[str, str]:
    """The memories of an operand with the fan-outs between them."""
    parts: list[str] = []
    *inner, around = tree.fan_outs(operand)
    for memory, fan_out in zip(tree.chain(operand), inner, strict=True):
        if fan_out:
            parts.append(f"x {_axes(tree, fan_out, '')}")
        parts.append(memory.name)
    if around:
        parts.append(f"all of it x {_axes(tree, around, '')}")
    return operand, " - ".join(parts)


def _area_lines(tree: MachineTree) -> list[str]:
    """The area of what says one, all instances together."""
    rows = [
        (one.name, f"{format_number(Fraction(one.area_mm2) * tree.instances(one))} mm2")
        for one in reversed(tree.memories)
        if one.area_mm2 is not None
    ]
    if tree.mac_area_mm2 is not None:
        rows.append(("units", f"{format_number(Fraction(tree.mac_area_mm2) * tree.units)} mm2"))
    return ["", "area, as far as the file says it", *_columns(rows)] if rows else []


def _columns(rows: list[tuple[str, str]]) -> list[str]:
    width = max((len(first) for first, _ in rows), default=0)
    return [f"  {first.ljust(width)}  {second}" for first, second in rows]

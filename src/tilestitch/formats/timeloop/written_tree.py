"""A layer on a machine tree and its mapping as files of Timeloop v0.4.

A memory that holds operands at several places in the row becomes a level for each, as large as what it holds. Widths
of partial sums are those of the level; Timeloop itself was not run on these files, the readers here read them back.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from tilestitch.base.errors import InputError
from tilestitch.formats.exact_mapping import plain_name
from tilestitch.formats.foreign_tree import MAX_BITS, UNLIMITED
from tilestitch.formats.timeloop.problem import array_name, problem_text
from tilestitch.formats.tree_order import Holds, Node, Spreads, Steps, row_of
from tilestitch.hardware.tree import Flow
from tilestitch.mapping.tree.chain import TreeMapping
from tilestitch.mapping.tree.crossings import operands_on_tree
from tilestitch.mapping.tree.placed import PlacedNest


@dataclass(frozen=True, slots=True)
class _Level:
    """A level of storage or a mesh, with its loops from the outermost."""

    name: str
    node: Holds | Spreads
    loops: tuple[tuple[int, int], ...]


def timeloop_tree_files(placed: PlacedNest, mapping: TreeMapping) -> dict[str, str]:
    """Names and texts: the problem, the architecture, its energies and the mapping. Refuses what has no words there."""
    levels = _levels(placed, row_of(placed, mapping, "Timeloop"))
    names = tuple(loop.name for loop in placed.nest.loops)
    head = f"# {plain_name(placed.nest.name)} on {plain_name(placed.tree.name)}: "
    return {
        "problem.yaml": f"{head}the problem\n{problem_text(placed.nest, names)}",
        "arch.yaml": f"{head}the architecture\n{_architecture(placed, mapping, levels)}",
        "energies.yaml": f"{head}picojoules of an access of the whole width\n{_energies(placed, levels)}",
        "mapping.yaml": f"{head}the mapping; permutations are innermost first\n{_mapping(placed, levels, names)}",
    }


def _levels(placed: PlacedNest, row: Sequence[Node]) -> list[_Level]:
    """Every level with the loops between it and the next one inside."""
    found: list[_Level] = []
    several = [node.memory.name for node in row if isinstance(node, Holds)]
    for node in row:
        if isinstance(node, Steps):
            last = found[-1]
            loops = last.loops
            if loops and loops[-1][0] == node.loop:
                loops = (*loops[:-1], (node.loop, loops[-1][1] * node.factor))
            elif node.loop in (loop for loop, _ in loops):
                name = placed.nest.loops[node.loop].name
                raise InputError(
                    f"{placed.nest.name}: {last.name} has two loops of {name}; Timeloop has one factor each"
                )
            else:
                loops = (*loops, (node.loop, node.factor))
            found[-1] = _Level(last.name, last.node, loops)
        elif isinstance(node, Spreads):
            found.append(_Level(node.axis, node, node.loops))
        else:
            name = node.memory.name
            if several.count(name) > 1:
                name = "_".join([name, *(placed.operands[operand].name for operand in node.operands)])
            found.append(_Level(name, node, ()))
    return found


def _architecture(placed: PlacedNest, mapping: TreeMapping, levels: Sequence[_Level]) -> str:
    lines = ["architecture:", "  version: 0.4", "  nodes:", "  - !Container"]
    clock = placed.tree.clock_hz
    seconds = f", global_cycle_seconds: {1 / clock!r}" if clock is not None else ""
    lines += ["    name: system", f'    attributes: {{technology: "none"{seconds}}}']
    for level in levels:
        if isinstance(level.node, Spreads):
            lines += ["  - !Container", f"    name: {level.name}", f"    spatial: {{meshX: {level.node.size}}}"]
        elif isinstance(level.node, Holds):
            lines += _component(placed, mapping, level, level.node)
    lines += ["  - !Component", "    name: mac", "    class: intmac", "    attributes: {datawidth: 8}"]
    return "\n".join(lines) + "\n"


def _component(placed: PlacedNest, mapping: TreeMapping, level: _Level, node: Holds) -> list[str]:
    memory = node.memory
    widths = {port.width_bits for port in memory.ports}
    if len(widths) != 1:
        raise InputError(
            f"{memory.name}: its ports have widths of {', '.join(map(str, sorted(widths)))} bits; Timeloop has one"
        )
    width = widths.pop()
    word = max(placed.operands[operand].element_bits for operand in node.operands)
    if word > width:
        raise InputError(
            f"{memory.name}: a word of {word} bits is wider than its {width} bits; Timeloop has whole words"
        )
    kept = [array_name(placed.operands[operand]) for operand in node.operands]
    past = [array_name(array) for at, array in enumerate(placed.operands) if at not in node.operands]
    size = memory.size_bits if level.name == memory.name else _bits(placed, mapping, node)
    depth = "" if size >= MAX_BITS else f"depth: {ceil(size / width)}, "
    rates = ""
    for key, flow in (("read_bandwidth", Flow.FEED), ("write_bandwidth", Flow.FILL)):
        port = memory.port(placed.homes[node.operands[0]], flow) or memory.port(
            placed.homes[node.operands[0]], Flow.COLLECT
        )
        if port is not None and port.bits_per_cycle < UNLIMITED:
            rates += f", {key}: {float(port.bits_per_cycle / word):g}"
    return [
        "  - !Component",
        f"    name: {level.name}",
        f"    class: {'DRAM' if not depth else 'SRAM'}",
        f"    attributes: {{{depth}width: {width}, datawidth: {word}{rates}, multiple_buffering: {memory.buffers}}}",
        f"    constraints: {{dataspace: {{keep: [{', '.join(kept)}], bypass: [{', '.join(past)}]}}}}",
    ]


def _bits(placed: PlacedNest, mapping: TreeMapping, node: Holds) -> int:
    """What a level of its own holds."""
    tile = [1] * len(placed.nest.loops)
    for loop, factor in mapping.loops[: node.inside]:
        tile[loop] *= factor
    found = 0
    for operand in operands_on_tree(placed):
        if operand.number in node.operands:
            level = operand.memories.index(node.memory)
            found += ceil(float(operand.held(level, np.array([tile], np.int64))[0])) * operand.array.element_bits
    return found


def _energies(placed: PlacedNest, levels: Sequence[_Level]) -> str:
    lines = ["ERT:", "  version: 0.4", "  tables:"]
    for level in levels:
        if isinstance(level.node, Holds):
            memory = level.node.memory
            lines.append(f"  - name: system.{level.name}")
            rows = (("read", memory.read_pj), ("write", memory.write_pj), ("update", memory.write_pj))
            lines += ["    actions:", *(f"    - {{name: {name}, energy: {pj!r}}}" for name, pj in rows)]
    lines += ["  - name: system.mac", f"    actions: [{{name: compute, energy: {placed.tree.mac_pj!r}}}]"]
    return "\n".join(lines) + "\n"


def _mapping(placed: PlacedNest, levels: Sequence[_Level], names: Sequence[str]) -> str:
    lines = ["mapping:"]
    for level in levels:
        factors = dict(level.loops)
        inner = [loop for loop, _ in reversed(level.loops)]
        order = [*inner, *(loop for loop in range(len(names)) if loop not in factors)]
        kind = "spatial" if isinstance(level.node, Spreads) else "temporal"
        lines += [f"- target: {level.name}", f"  type: {kind}"]
        lines.append(f"  factors: [{', '.join(f'{name}={factors.get(at, 1)}' for at, name in enumerate(names))}]")
        lines.append(f"  permutation: [{', '.join(names[loop] for loop in order)}]")
        if isinstance(level.node, Spreads):
            lines.append(f"  split: {len(names)}")
        elif isinstance(level.node, Holds):
            held = level.node.operands
            kept = [array_name(placed.operands[operand]) for operand in held]
            past = [array_name(array) for at, array in enumerate(placed.operands) if at not in held]
            lines += [f"- target: {level.name}", "  type: dataspace"]
            lines += [f"  keep: [{', '.join(kept)}]", f"  bypass: [{', '.join(past)}]"]
    return "\n".join(lines) + "\n"

"""A layer on a machine tree and its mapping as files of ZigZag, so that its evaluator prices the same mapping.

ZigZag puts loops into memories itself, from the innermost, as long as they fit. So in the machine's file every operand
has memories of its own, as large as what the mapping holds in them: then ZigZag cuts where the mapping does. An access
costs what it costs on the tree; since what shared a port shares it no longer, latencies are not those of the tree.
"""

import re
from collections.abc import Sequence
from math import ceil

import numpy as np

from tilestitch.base.errors import InputError
from tilestitch.formats.exact_mapping import plain_name
from tilestitch.hardware.tree import Flow, Port, TreeMemory
from tilestitch.mapping.tree.chain import TreeMapping, crossing_places
from tilestitch.mapping.tree.crossings import OperandOnTree, operands_on_tree
from tilestitch.mapping.tree.placed import PlacedNest

_ROLES = (("I", "I1"), ("W", "I2"), ("O", "O"))  # as layers and memories call them
_FLOWS = {Flow.FILL: "fh", Flow.FEED: "tl", Flow.COLLECT: "fl", Flow.DRAIN: "th"}
SLACK = 1.0001  # of a memory's size, for factors that do not divide; one more iteration of a loop needs more
_LOOP = re.compile(r"[A-Z][A-Z0-9]*", re.ASCII)


def zigzag_tree_files(placed: PlacedNest, mapping: TreeMapping, operator: str = "Conv") -> dict[str, str]:
    """Names and texts: the workload, the accelerator and the mapping. Refuses what ZigZag has no words for."""
    nest = placed.nest
    if len(nest.reads) != 2:
        raise InputError(f"{nest.name}: ZigZag multiplies two arrays, found {len(nest.reads)}")
    for array in nest.operands:
        for axis in array.axes:
            if len(axis) > 2 or min((step for _, step in axis), default=1) < 1 or (len(axis) == 1 and axis[0][1] != 1):
                raise InputError(
                    f"{nest.name}: an index of {array.name!r}: ZigZag can express one loop, or a sum of two with "
                    "positive factors"
                )
    names = _loop_names(placed)
    arrays = _array_names(placed)
    head = f"# {plain_name(nest.name)} on {plain_name(placed.tree.name)}: "
    return {
        "workload.yaml": f"{head}the workload\n{_workload(placed, names, arrays, operator)}",
        "accelerator.yaml": f"{head}the accelerator, with memories as large as the tiles\n"
        + _accelerator(placed, mapping, arrays),
        "mapping.yaml": f"{head}the mapping, innermost loop first\n{_mapping(placed, mapping, names, arrays)}",
    }


def _loop_names(placed: PlacedNest) -> tuple[str, ...]:
    """The loops' own names where ZigZag can have them, else L0, L1 and so on."""
    names = tuple(loop.name.upper() for loop in placed.nest.loops)
    usable = all(_LOOP.fullmatch(name) for name in names) and len(set(names)) == len(names)
    return names if usable else tuple(f"L{number}" for number in range(len(names)))


def _array_names(placed: PlacedNest) -> tuple[tuple[str, str], ...]:
    """Of each operand what the layer and the memories call it."""
    known = dict(_ROLES)
    if {array.name for array in placed.operands} == set(known):
        return tuple((array.name, known[array.name]) for array in placed.operands)
    return _ROLES


def _workload(placed: PlacedNest, names: Sequence[str], arrays: Sequence[tuple[str, str]], operator: str) -> str:
    relations: dict[str, tuple[str, int, int]] = {}  # by index: the relation, its size, and its values with padding
    accesses: list[str] = []
    for (letter, _), array in zip(arrays, placed.operands, strict=True):
        indices = ""
        for at, (axis, size) in enumerate(zip(array.axes, array.shape, strict=True)):
            if len(axis) == 2:
                index = f"{letter.lower()}{at}"
                whole = sum(step * (placed.nest.extents[loop] - 1) for loop, step in axis) + 1
                terms = "+".join(f"{step}*{names[loop].lower()}" for loop, step in axis)
                relations[index] = (f"{index}={terms}", size, whole)
                indices += f"[{index}]"
            elif axis:
                indices += f"[{names[axis[0][0]].lower()}]"
        accesses.append(letter + indices)
    bits = {letter: array.element_bits for (letter, _), array in zip(arrays, placed.operands, strict=True)}
    precision = ", ".join(f"{letter}: {count}" for letter, count in (*bits.items(), ("O_final", placed.final_bits)))
    lines = [
        "- id: 0",
        f"  name: {plain_name(placed.nest.name)}",
        f"  operator_type: {operator}",
        f"  equation: {accesses[2]}+={accesses[1]}*{accesses[0]}",
        f"  dimension_relations: [{', '.join(relation for relation, _, _ in relations.values())}]",
        f"  loop_dims: [{', '.join(names)}]",
        f"  loop_sizes: [{', '.join(str(loop.extent) for loop in placed.nest.loops)}]",
        f"  operand_precision: {{{precision}}}",
        f"  operand_source: {{{arrays[0][0]}: 0, {arrays[1][0]}: 0}}",
    ]
    if relations:
        padding = [max(0, whole - size) for _, size, whole in relations.values()]
        lines += [
            f"  pr_loop_dims: [{', '.join(index.upper() for index in relations)}]",
            f"  pr_loop_sizes: [{', '.join(str(size) for _, size, _ in relations.values())}]",
            f"  padding: [{', '.join(f'[{around // 2}, {around - around // 2}]' for around in padding)}]",
        ]
    return "\n".join(lines) + "\n"


def _accelerator(placed: PlacedNest, mapping: TreeMapping, arrays: Sequence[tuple[str, str]]) -> str:
    tree = placed.tree
    sizes = {
        (operand.number, level): size
        for operand in operands_on_tree(placed)
        for level, size in enumerate(_sizes(operand, mapping))
    }
    lines = [f"name: {plain_name(tree.name)}", "memories:"]
    for memory in tree.memories:
        for operand in operands_on_tree(placed):
            home = placed.homes[operand.number]
            if memory in operand.memories:
                level = operand.memories.index(memory)
                lines += _memory(memory, home, arrays[operand.number], sizes[operand.number, level])
    axes = tree.axes or ()
    lines += [
        "operational_array:",
        f"  unit_energy: {tree.mac_pj!r}",
        "  unit_area: 0",
        f"  dimensions: [{', '.join(_axis_names(placed).values())}]",
        f"  sizes: [{', '.join(str(axis.size) for axis in axes)}]",
    ]
    text = "\n".join(lines) + "\n"
    for axis, name in _axis_names(placed).items():
        text = text.replace(f"<{axis}>", name)
    return text


def _axis_names(placed: PlacedNest) -> dict[str, str]:
    """ZigZag's axes are D1, D2 and so on."""
    return {axis.name: f"D{number}" for number, axis in enumerate(placed.tree.axes, 1)}


def _sizes(operand: OperandOnTree, mapping: TreeMapping) -> list[int]:
    """Bits that each memory has of an operand: sums that are still added to are partial ones, as ZigZag has it."""
    placed, found = operand.placed, []
    places = crossing_places(placed, mapping)[operand.number]
    for level in range(len(operand.memories)):
        inside = mapping.cuts[operand.number][level]
        count = float(operand.held(level, _tile(mapping, inside, placed))[0])
        arriving = operand.is_write and bool(operand.is_partial(level, _tile(mapping, places[level], placed))[0])
        bits = operand.array.element_bits if arriving or not operand.is_write else placed.final_bits
        is_top = level == len(operand.memories) - 1
        found.append(operand.memories[level].size_bits if is_top else max(1, ceil(count * bits * SLACK)))
    return found


def _tile(mapping: TreeMapping, inside: int, placed: PlacedNest) -> np.ndarray:
    tile = [1] * len(placed.nest.loops)
    for loop, factor in mapping.loops[:inside]:
        tile[loop] *= factor
    return np.array([tile], np.int64)


def _memory(memory: TreeMemory, home: str, array: tuple[str, str], size: int) -> list[str]:
    letter, operand = array
    served = ", ".join(f"<{axis}>" for axis in memory.serves)
    lines = [
        f"  {plain_name(memory.name)}_{letter}:",
        f"    size: {size}",
        f"    r_cost: {memory.read_pj!r}",
        f"    w_cost: {memory.write_pj!r}",
        "    area: 0",
        "    latency: 1",
        f"    operands: [{operand}]",
        "    ports:",
    ]
    counts = {"read": 0, "write": 0, "read_write": 0}
    for port in memory.ports:
        flows = [flow for flow in Flow if memory.port(home, flow) is port and (operand == "O" or flow in _INPUT)]
        if flows:
            kind = _kind(flows)
            counts[kind] += 1
            lines += _port(port, kind, counts[kind], operand, flows)
    return [*lines, f"    served_dimensions: [{served}]"]


_INPUT = (Flow.FILL, Flow.FEED)


def _kind(flows: Sequence[Flow]) -> str:
    if all(flow.is_read for flow in flows):
        return "read"
    return "read_write" if any(flow.is_read for flow in flows) else "write"


def _port(port: Port, kind: str, number: int, operand: str, flows: Sequence[Flow]) -> list[str]:
    sign = {"read": "r", "write": "w", "read_write": "rw"}[kind]
    return [
        f"      - name: {sign}_port_{number}",
        f"        type: {kind}",
        f"        bandwidth_min: {port.granule_bits}",
        f"        bandwidth_max: {port.width_bits}",
        "        allocation:",
        *(f"          - {operand}, {_FLOWS[flow]}" for flow in flows),
    ]


def _mapping(placed: PlacedNest, mapping: TreeMapping, names: Sequence[str], arrays: Sequence[tuple[str, str]]) -> str:
    axes = _axis_names(placed)
    links = ", ".join(f"{letter}: {operand}" for letter, operand in arrays)
    lines: list[str] = []
    for name in (plain_name(placed.nest.name), "default"):
        lines += [f"- name: {name}", "  spatial_mapping:"]
        for axis in placed.tree.axes:
            spread = [(names[one.loop], ceil(one.factor)) for one in placed.unrolled if one.axis == axis.name]
            lines.append(f"    {axes[axis.name]}:")
            lines += [f"      - {loop}, {factor}" for loop, factor in spread or [(names[0], 1)]]
        lines.append("  temporal_ordering:")
        lines += [f"    - [{names[loop]}, {factor}]" for loop, factor in mapping.loops] or ["    []"]
        lines.append(f"  memory_operand_links: {{{links}}}")
    return "\n".join(lines) + "\n"

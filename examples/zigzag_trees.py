"""ZigZag's accelerator files as machine trees: `python examples/zigzag_trees.py tests/data/zigzag/hardware OUT`.

Writes a tree for every file of the folder that describes an array of units; what computes in memory has no tree. The
presets in `src/tilestitch/hardware/presets` whose names end in what ZigZag calls its machines are made by it from
the files of zigzag-dse 3.9.1 (KU Leuven, MICAS; MIT), of which it takes the numbers. What it leaves out or changes is
in the comment at the top of each.
"""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from tilestitch.base.errors import InputError
from tilestitch.formats.zigzag.tree_machine import zigzag_tree
from tilestitch.hardware.tree import Flow, MachineTree, Port, TreeMemory

DESCRIPTIONS = {
    "ascend_like": "buffers of their own for inputs, weights and results",
    "edge_tpu_like": "32 KiB for weights, 2 MiB for the rest",
    "eyeriss_like": "three registers in each unit, 1 MiB on chip",
    "gemm_l1": "sums in registers, everything else in one L1",
    "gemm_l1_l3": "sums in registers, a double-buffered L1, an L3",
    "generic_array_cacti": "three registers in each unit, 32 MiB on chip",
    "meta_prototype": "buffers of their own for inputs and weights",
    "tesla_npu_like": "small buffers for inputs and weights, 1 MiB for each",
    "tpu_like": "a weight buffer and a sum in each unit, 2 MiB on chip",
}
INPUTS = (Flow.FILL, Flow.FEED)
WORD_BITS = 16  # of an element of a network, where neither it nor the machine says otherwise
NARROW = {"bits": 8, "sum_bits": 16}
WHY_NARROW = "operand_precision of ZigZag's workloads; a register holds no 16 bits"


def tree_file(text: str, file: str) -> str:
    """The tree of one accelerator file, as YAML."""
    tree, notes = zigzag_tree(text, file)
    stem = file.removesuffix(".yaml")
    lines = [
        f"# ZigZag 3.9.1's {stem}: every number is that of zigzag/inputs/hardware/{file}",
        "# in zigzag-dse 3.9.1 (KU Leuven, MICAS; MIT, see LICENSE-ZigZag), which names no sources of its own.",
        "# Written by examples/zigzag_trees.py, not by hand. Left out: areas, which have no unit there, latencies, and",
        "# what an array is besides its sizes and the energy of a unit.",
    ]
    lines += [f"# {note.partition(': ')[2]}." for note in notes]
    closed = tuple(_serves(tree, number) for number in range(len(tree.memories)))
    for memory, serves in zip(tree.memories, closed, strict=True):
        more = [name for name in serves if name not in memory.serves]
        if more:
            lines.append(
                f"# {memory.name} serves {', '.join(more)} too, as the memories inside it do: no price changes."
            )
    lines += [
        "",
        f"name: {stem.replace('_', '-')}",
        f'description: "ZigZag\'s {stem}: {_sizes(tree)} units, {DESCRIPTIONS[stem]}"',
    ]
    lines.append(f"mac_pj: {tree.mac_pj:g}")
    if any(memory.size_bits < WORD_BITS for memory in tree.memories):
        lines += [f"{name}: {bits}  # {WHY_NARROW}" for name, bits in NARROW.items()]
    lines.append("axes:")
    lines += [f"  - {{name: {axis.name}, size: {axis.size}}}" for axis in tree.axes]
    lines.append("memories:")
    for memory, serves in zip(tree.memories, closed, strict=True):
        lines += _memory(memory, serves)
    return "\n".join(lines) + "\n"


def _sizes(tree: MachineTree) -> str:
    return " x ".join(str(axis.size) for axis in tree.axes)


def _serves(tree: MachineTree, number: int) -> tuple[str, ...]:
    """The axes of a memory and of those inside it that hold one of its operands, in the order of the axes."""
    held = set(tree.memories[number].operands)
    inner = [one for one in tree.memories[: number + 1] if held & set(one.operands)]
    return tuple(axis.name for axis in tree.axes if any(axis.name in one.serves for one in inner))


def _memory(memory: TreeMemory, serves: Sequence[str]) -> list[str]:
    size = f"{memory.size_bits // 8}" if memory.size_bits % 8 == 0 else f"{memory.size_bits} b"
    lines = [
        f"  - name: {memory.name}",
        f"    size: {size}",
        f"    operands: {_list(memory.operands)}",
        f"    read_pj: {memory.read_pj:g}",
        f"    write_pj: {memory.write_pj:g}",
        f"    serves: {_list(serves)}",
    ]
    if memory.buffers > 1:
        lines.append(f"    buffers: {memory.buffers}")
    return [*lines, "    ports:", *(f"      - {_port(port, memory)}" for port in memory.ports)]


def _port(port: Port, memory: TreeMemory) -> str:
    """One line: operands, then directions. Inputs never go up, so that `collect` and `drain` say nothing of them."""
    operands = [one for one in memory.operands if any(name == one for name, _ in port.flows)]
    flows = [flow for flow in Flow if any(way is flow for _, way in port.flows)]
    for operand in operands:
        ways = {way for name, way in port.flows if name == operand}
        meant = {flow for flow in flows if operand == "O" or flow in INPUTS}
        if ways != meant:
            raise InputError(f"{memory.name}: port {port.name}: serves {operand} in other directions than the others")
    parts = [f"name: {port.name}", f"width_bits: {port.width_bits}"]
    if port.granule_bits < port.width_bits:
        parts.append(f"granule_bits: {port.granule_bits}")
    if len(operands) < len(memory.operands):
        parts.append(f"operands: {_list(operands)}")
    if len(flows) < len(Flow):
        parts.append(f"directions: {_list(flows)}")
    return "{" + ", ".join(parts) + "}"


def _list(words: Iterable[str]) -> str:
    return f"[{', '.join(words)}]"


def main(source: Path, target: Path) -> None:
    for file in sorted(source.glob("*.yaml")):
        try:
            text = tree_file(file.read_text(encoding="utf-8"), file.name)
        except InputError as refused:
            print(f"left out: {refused}")
            continue
        (target / f"{file.stem.replace('_', '-')}.yaml").write_text(text, encoding="utf-8")
        print(f"{file.stem.replace('_', '-')}.yaml")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

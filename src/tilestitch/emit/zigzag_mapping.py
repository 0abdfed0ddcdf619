"""A nest, a machine and a mapping as files of ZigZag, so that its model can price the same mapping.

ZigZag puts loops into memories itself, from the innermost, as long as they fit. So the memories of the machine's file
are as large as what the mapping has in them, one for each array: then ZigZag cuts where the mapping does. Every access
has its own price, so sizes change nothing else. A word that reaches an element costs what the network takes, in place
of writing the register. There are no words for the set-up of DMA and for moving data along with partial sums.
"""

from collections.abc import Sequence
from math import gcd, prod

from tilestitch.emit.foreign import check_exact, file_head, letters, plain_name
from tilestitch.errors import InputError
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.ir.loop_nest import LoopMapping, LoopNest, LoopOperand

_ARRAYS = ("I", "W", "O")
_OPERANDS = ("I1", "I2", "O")  # as its memories call them
_USUAL = {"N": "B", "M": "K", "C": "C", "Ox": "OY", "Oy": "OX", "Fx": "FY", "Fy": "FX", "G": "G"}


def zigzag_files(nest: LoopNest, machine: ArrayMachine, mapping: LoopMapping) -> dict[str, str]:
    """Names and texts: the workload, the accelerator and the mapping. Refuses what ZigZag has no words for."""
    check_exact(nest, mapping, "ZigZag")
    if len(nest.reads) != 2:
        raise InputError(f"{nest.name}: ZigZag multiplies two arrays, found {len(nest.reads)}")
    for array in nest.operands:
        if not any(array.axes):
            raise InputError(f"{nest.name}: ZigZag has no words for the array {array.name!r} of one element")
        for axis in array.axes:
            steps = [step for _, step in axis]
            if len(axis) > 2 or min(steps, default=1) < 1 or (len(axis) == 1 and steps != [1]):
                raise InputError(
                    f"{nest.name}: an index of {array.name!r}: ZigZag has words for one loop, or for a sum of two with "
                    "positive factors"
                )
    names = _names(nest)
    texts = {
        "workload.yaml": ("the workload", _workload(nest, machine, names)),
        "accelerator.yaml": ("the accelerator, with memories as large as the tiles", _hardware(nest, machine, mapping)),
        "mapping.yaml": ("the mapping, innermost loop first", _mapping(nest, mapping, names)),
    }
    return {file: file_head(nest, machine, what) + text for file, (what, text) in texts.items()}


def _names(nest: LoopNest) -> tuple[str, ...]:
    """ZigZag's usual names of a convolution's loops, or letters."""
    usual = tuple(_USUAL.get(loop.name, "") for loop in nest.loops)
    return usual if all(usual) else letters(nest)


def _bits(nest: LoopNest, machine: ArrayMachine) -> tuple[int, ...]:
    return machine.operand_bits or tuple(array.element_bits for array in nest.operands)


def _workload(nest: LoopNest, machine: ArrayMachine, names: Sequence[str]) -> str:
    relations: dict[str, str] = {}
    accesses: list[str] = []
    for letter, array in zip(_ARRAYS, nest.operands, strict=True):
        indices = ""
        for at, axis in enumerate(array.axes):
            if len(axis) == 2:
                index = f"{letter.lower()}{at}"
                relations[index] = f"{index}=" + "+".join(f"{step}*{names[loop].lower()}" for loop, step in axis)
                indices += f"[{index}]"
            elif axis:
                indices += f"[{names[axis[0][0]].lower()}]"
        accesses.append(letter + indices)
    first, second, result = _bits(nest, machine)
    return f"""- id: 0
  name: {plain_name(nest.name)}
  operator_type: Conv
  equation: {accesses[2]}+={accesses[1]}*{accesses[0]}
  dimension_relations: [{", ".join(relations.values())}]
  loop_dims: [{", ".join(names)}]
  loop_sizes: [{", ".join(str(loop.extent) for loop in nest.loops)}]
  operand_precision: {{I: {first}, W: {second}, O: {result}, O_final: {result}}}
  operand_source: {{I: 0, W: 0}}
"""


def _hardware(nest: LoopNest, machine: ArrayMachine, mapping: LoopMapping) -> str:
    """Memories from the innermost: registers of each array, its part of the scratchpad, DRAM."""
    lines = [f"name: {plain_name(machine.name)}", "", "memories:"]
    bits = _bits(nest, machine)
    for array, letter, operand, width in zip(nest.operands, _ARRAYS, _OPERANDS, bits, strict=True):
        read = machine.register_pj_per_byte * width / 8
        written = read if operand == "O" else machine.network_pj_per_byte * width / 8
        size = _elements(array, mapping.rf) * width
        lines += _memory(f"registers_{letter}", size, read, written, (operand,), width, ())
    for array, letter, operand, rate in zip(
        nest.operands, _ARRAYS, _OPERANDS, machine.network_bytes_per_cycle, strict=True
    ):
        width = max(1, int(rate * 8))
        price = machine.scratchpad_pj_per_byte * width / 8
        size = _elements(array, mapping.scratchpad_tile) * bits[_ARRAYS.index(letter)]
        lines += _memory(f"scratchpad_{letter}", size, price, price, (operand,), width, ("D1",))
    width = max(1, int(8 / machine.dma_cycles_per_byte))
    price = machine.dram_pj_per_byte * width / 8
    total = sum(_elements(array, nest.extents) * size for array, size in zip(nest.operands, bits, strict=True))
    lines += _memory("dram", total, price, price, _OPERANDS, width, ("D1",))
    lines += ["operational_array:", f"  unit_energy: {machine.mac_pj!r}", "  unit_area: 1"]
    lines += ["  dimensions: [D1]", f"  sizes: [{machine.elements}]"]
    return "\n".join(lines) + "\n"


def _memory(
    name: str, size: int, read: float, written: float, operands: Sequence[str], width: int, served: Sequence[str]
) -> list[str]:
    """One memory. DRAM has one port for everything; the others have one for each direction that is used."""
    lines = [f"  {name}:", f"    size: {size}", f"    r_cost: {read!r}", f"    w_cost: {written!r}", "    area: 0"]
    lines += ["    latency: 1", f"    operands: [{', '.join(operands)}]", "    ports:"]
    if len(operands) > 1:
        directions = [
            (one, way) for one in operands for way in (("fh", "tl", "fl", "th") if one == "O" else ("fh", "tl"))
        ]
        ports = [("rw_port_1", "read_write", directions)]
    else:
        one = operands[0]
        ports = [("r_port_1", "read", [(one, "tl")]), ("w_port_1", "write", [(one, "fh")])]
        if one == "O":
            ports += [("r_port_2", "read", [(one, "th")]), ("w_port_2", "write", [(one, "fl")])]
    for port, kind, directions in ports:
        lines += [f"      - name: {port}", f"        type: {kind}", f"        bandwidth_min: {width}"]
        lines += [f"        bandwidth_max: {width}", "        allocation:"]
        lines += [f"          - {operand}, {way}" for operand, way in directions]
    return [*lines, f"    served_dimensions: [{', '.join(served)}]", ""]


def _elements(array: LoopOperand, tile: Sequence[int]) -> int:
    """Elements of a tile as ZigZag counts them: different indices only, so gaps between windows take no room."""
    return prod(_different(axis, tile) for axis in array.axes)


def _different(axis: Sequence[tuple[int, int]], tile: Sequence[int]) -> int:
    """Different values of a sum of two loops; one that both reach counts once."""
    if len(axis) < 2:
        return prod(tile[loop] for loop, _ in axis)
    (first, first_step), (second, second_step) = axis
    common = gcd(first_step, second_step)
    again = max(0, tile[second] - first_step // common) * (tile[first] - second_step // common)
    return tile[first] * tile[second] - again


def _mapping(nest: LoopNest, mapping: LoopMapping, names: Sequence[str]) -> str:
    lines = []
    inner = tuple(range(len(names)))
    for name in (plain_name(nest.name), "default"):
        spatial = [(names[at], factor) for at, factor in enumerate(mapping.spatial) if factor > 1]
        lines += [f"- name: {name}", "  spatial_mapping:", "    D1:"]
        lines += [f"      - {loop}, {factor}" for loop, factor in spatial or [(names[0], 1)]]
        lines.append("  temporal_ordering:")
        for factors, order in (
            (mapping.rf, inner),
            (mapping.spm, mapping.spm_order),
            (mapping.dram, mapping.dram_order),
        ):
            lines += [f"    - [{names[at]}, {factors[at]}]" for at in reversed(order) if factors[at] > 1]
        lines.append("  memory_operand_links: {O: O, W: I2, I: I1}")
    return "\n".join(lines) + "\n"

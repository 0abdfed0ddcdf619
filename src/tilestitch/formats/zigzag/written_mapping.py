"""A nest, a machine and a mapping as files of ZigZag, so that its model can price the same mapping.

ZigZag puts loops into memories itself, from the innermost, as long as they fit. So the memories of the machine's file
are as large as what the mapping has in them, one for each array: then ZigZag cuts where the mapping does. Every access
has its own price, so sizes change nothing else. A word that reaches an element costs what the network takes, in place
of writing the register. There are no words for the set-up of DMA and for moving data along with partial sums.
"""

from collections.abc import Sequence
from math import gcd, prod

from tilestitch.base.errors import InputError
from tilestitch.formats.exact_mapping import check_exact, file_head, letters, plain_name
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.ir.loop_nest import LoopMapping, LoopNest, LoopOperand

_ARRAYS = ("I", "W", "O")
_DRAM_BITS = 2**43
_OPERANDS = ("I1", "I2", "O")  # as its memories call them
_USUAL = {"N": "B", "M": "K", "C": "C", "Ox": "OY", "Oy": "OX", "Fx": "FY", "Fy": "FX", "G": "G"}


def zigzag_files(nest: LoopNest, machine: ArrayMachine, mapping: LoopMapping) -> dict[str, str]:
    """Names and texts: the workload, the accelerator and the mapping. Refuses what ZigZag has no words for."""
    check_exact(nest, mapping, "ZigZag")
    if len(nest.reads) != 2:
        raise InputError(f"{nest.name}: ZigZag multiplies two arrays, found {len(nest.reads)}")
    for array in nest.operands:
        if not any(array.axes):
            raise InputError(f"{nest.name}: ZigZag cannot express the array {array.name!r} of one element")
        for axis in array.axes:
            steps = [step for _, step in axis]
            if len(axis) > 2 or min(steps, default=1) < 1 or (len(axis) == 1 and steps != [1]):
                raise InputError(
                    f"{nest.name}: an index of {array.name!r}: ZigZag can express one loop, or a sum of two with "
                    "positive factors"
                )
    names, bits = _names(nest), _bits(nest, machine)
    texts = {
        "workload.yaml": ("the workload", _workload(nest, machine, names)),
        "accelerator.yaml": (
            "the accelerator, with memories as large as the tiles",
            _hardware(machine, bits, _tiles(nest, bits, mapping)),
        ),
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


def zigzag_accelerator(machine: ArrayMachine, bits: tuple[int, int, int]) -> str:
    """The accelerator with its own memories, for a search by ZigZag; `bits` are those of an element of each array.

    A memory for all arrays has one price for writing, so the network costs nothing here.
    """
    registers, scratchpad = machine.register_bytes * 8, machine.scratchpad_bytes * 8
    return _hardware(machine, bits, {"registers": (registers,), "scratchpad": (scratchpad,)})


def _tiles(nest: LoopNest, bits: Sequence[int], mapping: LoopMapping) -> dict[str, tuple[int, ...]]:
    """Bits that each array has in the registers of an element, and in the scratchpad."""
    levels = {"registers": mapping.rf, "scratchpad": mapping.scratchpad_tile}
    arrays = tuple(zip(nest.operands, bits, strict=True))
    return {level: tuple(_elements(array, tile) * size for array, size in arrays) for level, tile in levels.items()}


def _hardware(machine: ArrayMachine, bits: Sequence[int], sizes: dict[str, tuple[int, ...]]) -> str:
    """Memories from the innermost: registers and scratchpad, each one for all arrays or one for each, and DRAM."""
    lines = [f"name: {plain_name(machine.name)}", "", "memories:"]
    rates = [max(1, int(rate * 8)) for rate in machine.network_bytes_per_cycle]
    for level, served in (("registers", ()), ("scratchpad", ("D1",))):
        widths = bits if level == "registers" else rates
        pooled = len(sizes[level]) == 1
        for group, size in zip((_OPERANDS,) if pooled else [(one,) for one in _OPERANDS], sizes[level], strict=True):
            at = _OPERANDS.index(group[0])
            if level == "registers":
                read = machine.register_pj_per_byte * widths[at] / 8
                written = read if "O" in group else machine.network_pj_per_byte * widths[at] / 8
            else:
                read = written = machine.scratchpad_pj_per_byte * widths[at] / 8
            name = level if pooled else f"{level}_{_ARRAYS[at]}"
            ports = [port for one in group for port in _ports(one, widths[_OPERANDS.index(one)], one if pooled else "")]
            lines += _memory(name, size, read, written, group, ports, served)
    width = max(1, int(8 / machine.dma_cycles_per_byte))
    price = machine.dram_pj_per_byte * width / 8
    ways = [(one, way) for one in _OPERANDS for way in (("fh", "tl", "fl", "th") if one == "O" else ("fh", "tl"))]
    lines += _memory("dram", _DRAM_BITS, price, price, _OPERANDS, [("rw_port_1", "read_write", width, ways)], ("D1",))
    lines += ["operational_array:", f"  unit_energy: {machine.mac_pj!r}", "  unit_area: 1"]
    lines += ["  dimensions: [D1]", f"  sizes: [{machine.elements}]"]
    return "\n".join(lines) + "\n"


_Port = tuple[str, str, int, list[tuple[str, str]]]  # name, kind, bits a cycle, (operand, direction)


def _ports(operand: str, width: int, suffix: str) -> list[_Port]:
    """A port for each way that an array takes."""
    ways = (("r", "read", "tl"), ("w", "write", "fh"), ("r", "read", "th"), ("w", "write", "fl"))
    first = 2 * _OPERANDS.index(operand) if suffix else 0
    return [
        (f"{sign}_port_{first + 1 + at // 2}", kind, width, [(operand, way)])
        for at, (sign, kind, way) in enumerate(ways if operand == "O" else ways[:2])
    ]


def _memory(
    name: str,
    size: int,
    read: float,
    written: float,
    operands: Sequence[str],
    ports: Sequence[_Port],
    served: Sequence[str],
) -> list[str]:
    lines = [f"  {name}:", f"    size: {size}", f"    r_cost: {read!r}", f"    w_cost: {written!r}", "    area: 0"]
    lines += ["    latency: 1", f"    operands: [{', '.join(operands)}]", "    ports:"]
    for port, kind, width, directions in ports:
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
    inner = _register_order(nest, mapping.rf)
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


def _register_order(nest: LoopNest, factors: Sequence[int]) -> tuple[int, ...]:
    """The loops of the registers outermost first; which order is all the same here, but not to ZigZag.

    It reads a register again only when a loop moves the array, and the result is read and written. So the innermost
    loops are those that leave the array alone for which that saves most.
    """

    def saved(array: LoopOperand) -> float:
        stays = prod(factor for at, factor in enumerate(factors) if at not in array.indexed_by)
        return (2 if array is nest.write else 1) * (1 - 1 / stays)

    best = max(nest.operands, key=saved)
    return tuple(sorted(range(len(factors)), key=lambda at: at not in best.indexed_by))

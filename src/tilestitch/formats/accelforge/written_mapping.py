"""A nest, a machine and a mapping as files of AccelForge, so that its model can price the same mapping.

AccelForge reads an array again for every iteration of a loop outside the place where it is stored, so each array is
stored outside the innermost loops that do not move it. It has no words for what stays in the registers while the
scratchpad has its next tile (it is read again there), for banks, the set-up of DMA, and the time of a network.
"""

from collections.abc import Sequence

from tilestitch.base.errors import InputError
from tilestitch.formats.accelforge.workload import einsum_name, workload_text
from tilestitch.formats.exact_mapping import check_exact, file_head, letters
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.ir.loop_nest import LoopMapping, LoopNest

_RESERVED = ("All", "Inputs", "Outputs", "Intermediates", "Nothing", "Persistent", "Shared", "Tensors")


def accelforge_files(nest: LoopNest, machine: ArrayMachine, mapping: LoopMapping) -> dict[str, str]:
    """Names and texts: the workload, the architecture and the mapping; energies in joules, times in seconds."""
    check_exact(nest, mapping, "AccelForge")
    if any(not any(array.axes) for array in nest.operands):
        raise InputError(f"{nest.name}: AccelForge cannot express an array of one element; use another program")
    names = tuple(letter.lower() for letter in letters(nest))
    arrays = tuple(f"{array.name}_" if array.name in _RESERVED else array.name for array in nest.operands)
    texts = {
        "workload.yaml": ("the workload", workload_text(nest, names, arrays, _bits(nest, machine))),
        "arch.yaml": ("the architecture, in joules and seconds", _architecture(machine)),
        "mapping.yaml": ("the mapping, outermost first", _mapping(nest, mapping, names, arrays)),
    }
    return {file: file_head(nest, machine, what) + text for file, (what, text) in texts.items()}


def _bits(nest: LoopNest, machine: ArrayMachine) -> list[int]:
    """Of each operand, as the machine stores it where it says so."""
    given, bits = machine.operand_bits, [array.element_bits for array in nest.operands]
    return bits if given is None else [given[0], *[given[1]] * (len(bits) - 2), given[2]]


def _architecture(machine: ArrayMachine) -> str:
    hz = machine.clock_hz
    first, second, result = (float(rate) * hz for rate in machine.network_bytes_per_cycle)
    read, write = {3: (first + second, result), 2: (second, result)}.get(machine.networks, (first, first))
    memories = (
        ("Memory", "DRAM", "inf", machine.dram_pj_per_byte, (float(1 / machine.dma_cycles_per_byte) * hz,) * 2),
        ("Memory", "Scratchpad", machine.scratchpad_bytes * 8, machine.scratchpad_pj_per_byte, (read, write)),
        ("Toll", "Network", None, machine.network_pj_per_byte, None),
        ("Memory", "Registers", machine.register_bytes * 8, machine.register_pj_per_byte, None),
    )
    lines = ["arch:", "  nodes:"]
    for kind, name, size, picojoules, rates in memories:
        lines += [f"  - !{kind}", f"    name: {name}", "    leak_power: 0", "    area: 0", "    tensors: {keep: All}"]
        if size is not None:
            lines.append(f"    size: {size}")
        if kind == "Toll":
            lines += ["    direction: up_and_down", "    spatial:", f"    - {{name: PE, fanout: {machine.elements}}}"]
        if rates is not None and name != "DRAM":
            lines.append("    total_latency: max(a.n_calls / a.throughput for a in actions)")
        lines.append("    actions:")
        for action, rate in zip(("read", "write"), rates or ("inf", "inf"), strict=True):
            if kind == "Memory" or action == "read":
                energy = f"{picojoules * 1e-12!r}"
                lines.append(f"    - {{name: {action}, energy: {energy}, bits_per_action: 8, throughput: {rate}}}")
    lines += ["  - !Compute", "    name: MAC", "    leak_power: 0", "    area: 0", "    actions:"]
    lines.append(f"    - {{name: compute, energy: {machine.mac_pj * 1e-12!r}, throughput: {hz}}}")
    return "\n".join(lines) + "\n"


def _mapping(nest: LoopNest, mapping: LoopMapping, names: Sequence[str], arrays: Sequence[str]) -> str:
    left = list(nest.extents)
    lines = ["mapping:", "  nodes:", f"  - !Storage {{tensors: [{', '.join(arrays)}], component: DRAM}}"]

    def loop(number: int, factor: int, kind: str = "Temporal", where: str = "") -> None:
        left[number] //= factor
        lines.append(f"  - !{kind} {{rank_variable: {names[number]}, tile_shape: {left[number]}{where}}}")

    def store(component: str, held: Sequence[str]) -> None:
        if component == "Registers":
            lines.append(f"  - !Toll {{tensors: [{', '.join(held)}], component: Network}}")
        lines.append(f"  - !Storage {{tensors: [{', '.join(held)}], component: {component}}}")

    levels = (
        ("Scratchpad", mapping.dram, mapping.dram_order),
        ("Registers", mapping.spm, mapping.spm_order),
    )
    for component, factors, order in levels:
        moving = [number for number in order if factors[number] > 1]
        starts = [_stays_from(moving, array.indexed_by) for array in nest.operands]
        for at in range(len(moving) + 1):
            if component == "Registers" and at == min(starts):
                for number, factor in enumerate(mapping.spatial):
                    if factor > 1:
                        loop(number, factor, "Spatial", ", name: PE, component: Network")
            held = [name for name, start in zip(arrays, starts, strict=True) if start == at]
            if held:
                store(component, held)
            if at < len(moving):
                loop(moving[at], factors[moving[at]])
    for number, factor in enumerate(mapping.rf):
        if factor > 1:
            loop(number, factor)
    lines.append(f"  - !Compute {{einsum: {einsum_name(nest)}, component: MAC}}")
    return "\n".join(lines) + "\n"


def _stays_from(loops: Sequence[int], indexed_by: frozenset[int]) -> int:
    """Where the innermost loops begin that do not move an array."""
    at = len(loops)
    while at > 0 and loops[at - 1] not in indexed_by:
        at -= 1
    return at

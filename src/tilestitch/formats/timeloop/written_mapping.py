"""A nest, a machine and a mapping as files of Timeloop v0.4, so that its model can count the same accesses.

Loops have letters, as Timeloop wants them. Energies are Timeloop's own (Accelergy estimates them): what can be compared
is accesses, cycles of the array and sizes. It has no words for banks that hold one array each, for the set-up of DMA,
and for padding in memory beyond what is read.
"""

from collections.abc import Sequence
from fractions import Fraction

from tilestitch.formats.exact_mapping import check_exact, file_head, letters, plain_name, word_bits
from tilestitch.formats.timeloop.machine import OWN_TARGETS
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.ir.loop_nest import LoopMapping, LoopNest

_ARRAYS = {"I": "Inputs", "W": "Weights", "O": "Outputs"}


def timeloop_files(nest: LoopNest, machine: ArrayMachine, mapping: LoopMapping) -> dict[str, str]:
    """Names and texts: the problem, the architecture and the mapping. Refuses what Timeloop has no words for."""
    check_exact(nest, mapping, "Timeloop")
    bits = word_bits(nest, machine, "Timeloop")
    names = letters(nest)
    texts = {
        "problem.yaml": ("the problem", _problem(nest, names)),
        "arch.yaml": ("the architecture; energies are Accelergy's", _architecture(machine, bits)),
        "mapping.yaml": ("the mapping; permutations are innermost first", _mapping(mapping, names)),
    }
    return {file: file_head(nest, machine, what) + text for file, (what, text) in texts.items()}


def _problem(nest: LoopNest, names: Sequence[str]) -> str:
    steps = dict.fromkeys((loop, step) for array in nest.operands for axis in array.axes for loop, step in axis)
    strides = {
        (loop, step): f"{names[loop]}step{'' if count == 0 else count}"
        for loop in range(len(names))
        for count, step in enumerate(step for at, step in steps if at == loop and step != 1)
    }
    lines = ["problem:", "  version: 0.4", "  shape:", f"    name: {plain_name(nest.name)}"]
    lines.append(f"    dimensions: [{', '.join(names)}]")
    if strides:
        lines.append("    coefficients:")
        lines += [f"    - {{name: {name}, default: {step}}}" for (_, step), name in strides.items()]
    lines.append("    data_spaces:")
    for array in nest.operands:
        lines.append(f"    - name: {_ARRAYS.get(array.name, array.name)}")
        axes = [_axis(axis, names, strides) for axis in array.axes if axis]  # one without loops has one index
        lines += ["      projection:", *(f"      - {axis}" for axis in axes)] if axes else ["      projection: []"]
        if array is nest.write:
            lines.append("      read_write: true")
    lines.append("  instance:")
    lines += [f"    {name}: {loop.extent}" for name, loop in zip(names, nest.loops, strict=True)]
    lines += [f"    {name}: {step}" for (_, step), name in strides.items()]
    return "\n".join(lines) + "\n"


def _axis(axis: Sequence[tuple[int, int]], names: Sequence[str], strides: dict[tuple[int, int], str]) -> str:
    terms = [f"[{names[loop]}, {strides[loop, step]}]" if step != 1 else f"[{names[loop]}]" for loop, step in axis]
    return f"[{', '.join(terms)}]"


def _architecture(machine: ArrayMachine, bits: int) -> str:
    word = Fraction(bits, 8)
    first, second, result = machine.network_bytes_per_cycle
    read = {3: first + second, 2: second}.get(machine.networks, first)
    write = result if machine.networks > 1 else first
    dram = 1 / (machine.dma_cycles_per_byte * word)
    return f"""architecture:
  version: 0.4
  nodes:
  - !Container
    name: system
    attributes: {{technology: "45nm", global_cycle_seconds: {1 / machine.clock_hz!r}}}
  - !Component
    name: {OWN_TARGETS.dram}
    class: DRAM
    attributes: {{width: {bits}, datawidth: {bits}, read_bandwidth: {_rate(dram)}, write_bandwidth: {_rate(dram)}}}
  - !Component
    name: {OWN_TARGETS.scratchpad}
    class: SRAM
    attributes:
      depth: {machine.scratchpad_bytes * 8 // bits}
      width: {bits}
      datawidth: {bits}
      read_bandwidth: {_rate(read / word)}
      write_bandwidth: {_rate(write / word)}
  - !Container
    name: {OWN_TARGETS.elements[0]}
    spatial: {{meshX: {machine.elements}}}
  - !Component
    name: {OWN_TARGETS.registers}
    class: regfile
    attributes: {{depth: {machine.register_bytes * 8 // bits}, width: {bits}, datawidth: {bits}}}
  - !Component
    name: mac
    class: intmac
    attributes: {{datawidth: {bits}}}
"""


def _mapping(mapping: LoopMapping, names: Sequence[str]) -> str:
    inner = tuple(range(len(names)))
    entries = (
        (OWN_TARGETS.dram, "temporal", mapping.dram, mapping.dram_order),
        (OWN_TARGETS.scratchpad, "temporal", mapping.spm, mapping.spm_order),
        (OWN_TARGETS.elements[0], "spatial", mapping.spatial, inner),
        (OWN_TARGETS.registers, "temporal", mapping.rf, inner),
    )
    lines = ["mapping:"]
    for target, kind, factors, order in entries:
        lines += [f"- target: {target}", f"  type: {kind}"]
        lines.append("  factors: " + " ".join(f"{name}={count}" for name, count in zip(names, factors, strict=True)))
        lines.append("  permutation: " + "".join(names[loop] for loop in reversed(order)))
        if kind == "spatial":
            lines.append(f"  split: {len(names)}")
    return "\n".join(lines) + "\n"


def _rate(rate: Fraction) -> str:
    return str(rate.numerator) if rate.denominator == 1 else repr(float(rate))

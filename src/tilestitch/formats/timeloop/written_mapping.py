"""A nest, a machine and a mapping as files of Timeloop v0.4, so that its model can count the same accesses.

Loops have letters, as Timeloop wants them. Energies are Timeloop's own (Accelergy estimates them): what can be compared
is accesses, cycles of the array and sizes. It has no words for banks that hold one array each, for the set-up of DMA,
and for padding in memory beyond what is read.
"""

from collections.abc import Sequence
from fractions import Fraction

from tilestitch.formats.exact_mapping import check_exact, file_head, letters, word_bits
from tilestitch.formats.timeloop.machine import OWN_TARGETS
from tilestitch.formats.timeloop.problem import problem_text
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.ir.loop_nest import LoopMapping, LoopNest


def timeloop_files(nest: LoopNest, machine: ArrayMachine, mapping: LoopMapping) -> dict[str, str]:
    """Names and texts: the problem, the architecture and the mapping. Refuses what Timeloop has no words for."""
    check_exact(nest, mapping, "Timeloop")
    bits = word_bits(nest, machine, "Timeloop")
    names = letters(nest)
    texts = {
        "problem.yaml": ("the problem", problem_text(nest, names)),
        "arch.yaml": ("the architecture; energies are Accelergy's", _architecture(machine, bits)),
        "mapping.yaml": ("the mapping; permutations are innermost first", _mapping(mapping, names)),
    }
    return {file: file_head(nest, machine, what) + text for file, (what, text) in texts.items()}


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

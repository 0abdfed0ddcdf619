"""The energy of a mapping by operand: what of each component goes into moving which array."""

from collections.abc import Mapping

from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.ir.choices import CostMode
from tilestitch.ir.loop_nest import LoopNest
from tilestitch.mapping.evaluate import Priced


def element_bits(nest: LoopNest, machine: ArrayMachine) -> tuple[int, ...]:
    """Bits of an element of every operand: as the machine stores them, else as the nest says."""
    if machine.operand_bits is None:
        return tuple(operand.element_bits for operand in nest.operands)
    written = len(nest.reads)
    return tuple(machine.operand_bits[2 if at == written else min(at, 1)] for at in range(written + 1))


def operand_energy(
    nest: LoopNest, machine: ArrayMachine, priced: Priced, mode: CostMode
) -> Mapping[str, tuple[float, ...]]:
    """Picojoules by component and operand, estimated, as docs/mapping.md counts them.

    What is left of a component is no operand's: arithmetic, and partial sums from element to element.
    """
    published = mode is CostMode.PUBLISHED
    found: dict[str, list[float]] = {name: [] for name in priced.components}
    for number, (bits, words) in enumerate(zip(element_bits(nest, machine), priced.accesses, strict=True)):
        size = bits / 8
        moved = (words.dram_load_words + words.dram_store_words) * size
        delivered = words.network_words * size
        touched = nest.macs * size * (2 if number == len(nest.reads) else 1)
        found["mac"].append(0.0)
        found["rf"].append((touched + (0.0 if published else delivered)) * machine.register_pj_per_byte)
        found["noc"].append(delivered * machine.network_pj_per_byte)
        shared = words.scratchpad_words * size + (0.0 if published else moved)
        found["spm"].append(shared * machine.scratchpad_pj_per_byte)
        found["dram"].append(moved * machine.dram_pj_per_byte)
    return {name: tuple(values) for name, values in found.items()}

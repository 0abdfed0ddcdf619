"""Accelerators of ZigZag as an array with its memories, where every array has three in a row.

That is registers in every element, a scratchpad for all elements, and one DRAM for everything. ZigZag may keep each
array in a memory of its own and price each access on its own; an array machine has one pool of each kind and one price.
So memories are added up and prices are averaged over what an iteration does, and notes say so. What such a file does
not say (clock, set-up of DMA, how partial sums come together) is that of another machine.

Source: the accelerator files of ZigZag 3 and the schema that it checks them with.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod

from tilestitch.formats.foreign_file import Part, yaml_file
from tilestitch.hardware.array_machine import ArrayMachine

MAX_ELEMENTS = 2**24
MAX_BITS = 2**53
OPERANDS = ("I1", "I2", "O")  # what is read first, the other, the result
_LEVELS = ("registers", "scratchpad", "dram")
_ARRAY_UNSUPPORTED = {
    "imc_type": "memories that compute have no model",
    "adc_resolution": "memories that compute have no model",
    "bit_serial_precision": "memories that compute have no model",
}
_MEMORY_FIELDS = ("size", "r_cost", "w_cost", "latency", "operands", "ports", "served_dimensions")
_PORT_FIELDS = ("name", "type", "bandwidth_min", "bandwidth_max", "allocation")


@dataclass(frozen=True, slots=True)
class _Memory:
    """One memory: usable bits, picojoules of an access of `width` bits, and the port of (operand, direction)."""

    name: str
    part: Part
    bits: int
    read_pj: float
    written_pj: float
    operands: tuple[str, ...]
    in_elements: bool
    ports: Mapping[tuple[str, str], tuple[str, int, int]]  # name, least and greatest bits a cycle

    def read_pj_per_byte(self, operand: str) -> float:
        return self.read_pj * 8 / self._width(operand, "tl")

    def written_pj_per_byte(self, operand: str) -> float:
        return self.written_pj * 8 / self._width(operand, "fh" if operand != "O" else "fl")

    def _width(self, operand: str, direction: str) -> int:
        return self.port(operand, direction)[1]

    def port(self, operand: str, direction: str) -> tuple[str, int, int]:
        """The port that moves an operand: to or from low or high (tl, fl, th, fh)."""
        if (operand, direction) not in self.ports:
            self.part.refuse(f"no port has the allocation {operand}, {direction}")
        return self.ports[operand, direction]


def zigzag_machine(text: str, where: str, base: ArrayMachine) -> tuple[ArrayMachine, tuple[str, ...]]:
    """The machine of an accelerator's file, and notes on what it makes one of; the rest is that of `base`.

    Raises `InputError` with the keys that lead to what an array machine cannot say.
    """
    file = yaml_file(text, where)
    parts = file.fields(("name", "memories", "operational_array"), (), {"dataflows": "give a mapping or a dataflow"})
    array = parts["operational_array"].fields(
        ("dimensions", "sizes", "unit_energy"),
        ("unit_area", "input_precision", "systolic_dimensions", "is_imc"),
        _ARRAY_UNSUPPORTED,
    )
    if "is_imc" in array and array["is_imc"].switch():
        array["is_imc"].refuse("not supported: memories that compute have no model")
    if "systolic_dimensions" in array and array["systolic_dimensions"].items("dimensions", least=0):
        array["systolic_dimensions"].refuse("not supported: a network brings a word to all elements at once")
    dimensions = [part.text("a dimension") for part in array["dimensions"].items("dimensions")]
    sizes = [part.whole("elements", 1, MAX_ELEMENTS) for part in array["sizes"].items("sizes")]
    if len(sizes) != len(dimensions) or prod(sizes) > MAX_ELEMENTS:
        array["sizes"].refuse(f"expected a size for each dimension, at most {MAX_ELEMENTS:,} elements together")
    memories = [_memory(name, part, dimensions) for name, part in parts["memories"].entries().items()]
    chains = {operand: _chain(operand, memories, parts["memories"]) for operand in OPERANDS}
    levels = [tuple(chains[operand][level] for operand in OPERANDS) for level in range(3)]
    if len({memory.name for memory in levels[2]}) != 1:
        parts["memories"].refuse("expected one outermost memory for I1, I2 and O")
    machine = _machine(parts["name"].text("a name"), base, levels, prod(sizes), array["unit_energy"].energy())
    return machine, _notes(levels)


def _memory(name: str, part: Part, dimensions: list[str]) -> _Memory:
    optional = ("area", "mem_type", "auto_cost_extraction", "force_double_buffering")
    fields = part.fields(_MEMORY_FIELDS, optional)
    if "auto_cost_extraction" in fields and fields["auto_cost_extraction"].switch():
        fields["auto_cost_extraction"].refuse("not supported: CACTI is not asked; write r_cost and w_cost")
    operands = tuple(item.text("an operand") for item in fields["operands"].items("operands"))
    if any(operand not in OPERANDS for operand in operands) or len(set(operands)) != len(operands):
        fields["operands"].refuse(f"expected some of {', '.join(OPERANDS)}, each once")
    served = {item.text("a dimension") for item in fields["served_dimensions"].items("dimensions", least=0)}
    if served and served != set(dimensions):
        fields["served_dimensions"].refuse(
            f"a memory of one row or column is not supported; expected [] (in every element) or all of "
            f"{', '.join(dimensions)}"
        )
    twice = "force_double_buffering" in fields and fields["force_double_buffering"].switch()
    bits = fields["size"].whole("bits", 8, MAX_BITS) // (2 if twice else 1)
    ports: dict[tuple[str, str], tuple[str, int, int]] = {}
    for item in fields["ports"].items("ports"):
        port = item.fields(_PORT_FIELDS)
        least = port["bandwidth_min"].whole("bits", 1, 2**20)
        most = port["bandwidth_max"].whole("bits", least, 2**20)
        for allocation in port["allocation"].items("allocations"):
            operand, _, direction = allocation.text("an allocation").partition(", ")
            if operand not in operands or direction not in ("tl", "fl", "th", "fh"):
                allocation.expected("an operand of this memory and tl, fl, th or fh, as in 'I1, tl'")
            if (operand, direction) in ports:
                allocation.refuse("this way is served twice; expected one port")
            ports[operand, direction] = (port["name"].text("a name"), least, most)
    prices = (fields["r_cost"].energy(), fields["w_cost"].energy())
    return _Memory(name, part, bits, *prices, operands, not served, ports)


def _chain(operand: str, memories: list[_Memory], part: Part) -> tuple[_Memory, _Memory, _Memory]:
    """The memories of an operand from the innermost: one in the elements, two outside."""
    chain = [memory for memory in memories if operand in memory.operands]
    if len(chain) != 3 or [memory.in_elements for memory in chain] != [True, False, False]:
        found = ", ".join(f"{memory.name} {'in elements' if memory.in_elements else 'shared'}" for memory in chain)
        part.refuse(
            f"expected three memories for {operand} (in elements with served_dimensions [], a scratchpad, DRAM), found "
            f"{found or 'none'}"
        )
    return chain[0], chain[1], chain[2]


def _machine(
    name: str, base: ArrayMachine, levels: list[tuple[_Memory, ...]], elements: int, mac_pj: float
) -> ArrayMachine:
    registers, scratchpad, dram = levels
    ways = [memory.port(operand, "tl") for memory, operand in zip(scratchpad, OPERANDS, strict=True)]
    first, second, result = [(memory.name, way[0]) for memory, way in zip(scratchpad, ways, strict=True)]
    if first == second == result:
        networks = 1
    elif result not in (first, second):
        networks = 2 if first == second else 3
    else:
        scratchpad[2].part.refuse("the port of O serves one of I1 and I2 too; expected all, or ports of its own")
    if len({way[2] for way in dram[0].ports.values()}) != 1:
        dram[0].part.refuse("expected ports of one bandwidth: DMA moves either way at one rate")
    usable = sum({memory.name: memory.bits for memory in scratchpad}.values()) // 8
    return replace(
        base,
        name=name,
        elements=elements,
        register_bytes=sum({memory.name: memory.bits for memory in registers}.values()) // 8,
        banks=usable,
        bank_bytes=1,
        networks=networks,
        network_bytes_per_cycle=(Fraction(ways[0][2], 8), Fraction(ways[1][2], 8), Fraction(ways[2][2], 8)),
        dma_cycles_per_byte=Fraction(8, dram[0].port("I1", "tl")[2]),
        operand_bits=None,
        mac_pj=mac_pj,
        register_pj_per_byte=_mean([*_reads(registers), registers[2].written_pj_per_byte("O")]),
        network_pj_per_byte=_mean(_writes(registers)[:2]),
        scratchpad_pj_per_byte=_mean([*_reads(scratchpad), *_writes(scratchpad)]),
        dram_pj_per_byte=_mean([*_reads(dram), *_writes(dram)]),
    )


def _reads(level: tuple[_Memory, ...]) -> list[float]:
    return [memory.read_pj_per_byte(operand) for memory, operand in zip(level, OPERANDS, strict=True)]


def _writes(level: tuple[_Memory, ...]) -> list[float]:
    return [memory.written_pj_per_byte(operand) for memory, operand in zip(level, OPERANDS, strict=True)]


def _mean(prices: list[float]) -> float:
    return sum(prices) / len(prices)


def _notes(levels: list[tuple[_Memory, ...]]) -> tuple[str, ...]:
    notes: list[str] = []
    for kind, level in zip(_LEVELS, levels, strict=True):
        names = list(dict.fromkeys(memory.name for memory in level))
        if len(names) > 1:
            notes.append(f"{kind}: {', '.join(names)} are one memory for all arrays here")
        prices = [*_reads(level), *(_writes(level) if kind != "registers" else [level[2].written_pj_per_byte("O")])]
        if max(prices) > min(prices):
            notes.append(f"{kind}: {min(prices):.6g} to {max(prices):.6g} pJ a byte are {_mean(prices):.6g} here")
    return tuple(notes)

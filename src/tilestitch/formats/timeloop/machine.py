"""Architectures of Timeloop v0.4 as an array with its memories, where they are one.

That is three memories one in the other (DRAM, one that is shared, one in every element), all for every array, elements
only between the second and the third, one multiply-accumulate in each. What such a file does not say (energies, which
Accelergy estimates; the set-up of DMA; the network) is that of another machine. Sizes count for all that is in a memory
at a time: a memory of `multiple_buffering: 2` offers half.

Source: the input formats of Timeloop v0.4, and the files of its exercises.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from tilestitch.formats.foreign_file import Part, yaml_file
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.hardware.yaml_tree import TAG

TAGS = ("!Container", "!Component", "!Element", "!Hierarchical", "!Parallel", "!Pipelined")
MAX_ELEMENTS = 2**24
MAX_BITS = 2**43
_STORAGE = ("DRAM", "SRAM", "regfile", "smartbuffer_SRAM", "smartbuffer_RF", "storage")
_COMPUTE = ("intmac", "fpmac", "mac", "compute")
_RENAMED = {"memory_depth": "depth", "memory_width": "width", "word-bits": "datawidth", "word_bits": "datawidth"}
_SILENT = (  # about area, energy or how a size is made; nothing of it is in an array machine
    *("technology", "block_size", "cluster-size", "cluster_size", "n_banks", "n_ports", "n_rdwr_ports", "n_rd_ports"),
    *(
        "n_wr_ports",
        "type",
        "has_power_gating",
        "update_fifo_depth",
        "multiplier_width",
        "adder_width",
        "min_utilization",
    ),
)
_USED = ("depth", "width", "datawidth", "read_bandwidth", "write_bandwidth", "multiple_buffering")
_UNSUPPORTED_NODE = {
    "constraints": "a constraint is of a search, and a memory holds every array; remove it, and give a mapping instead",
    "enabled": "write only what is there",
    "required_actions": "an action says nothing about an array; remove it",
}


@dataclass(frozen=True, slots=True)
class TimeloopTargets:
    """The names by which a mapping calls the memories and the elements."""

    dram: str
    scratchpad: str
    registers: str
    elements: tuple[str, ...]  # the nodes with a mesh


OWN_TARGETS = TimeloopTargets("DRAM", "scratchpad", "registers", ("PE",))  # of the files that are written here


def timeloop_machine(text: str, where: str, base: ArrayMachine) -> tuple[ArrayMachine, TimeloopTargets]:
    """The machine of an architecture's file, and the names in it; what the file does not say is that of `base`.

    Raises `InputError` with the keys that lead to what an array machine cannot say.
    """
    file = yaml_file(text, where, tags=TAGS)
    if "architecture" not in file.entries():
        file.refuse("the field architecture is missing")
    parts = file.entries()["architecture"].fields(("nodes",), ("version",), {"subtree": "write nodes, as version 0.4"})
    if "version" in parts and parts["version"].text() != "0.4":
        parts["version"].expected("0.4")
    memories: list[tuple[Part, dict[str, Part]]] = []
    meshes: list[str] = []
    elements, macs, clock = 1, 0, base.clock_hz
    for node in _nodes(parts["nodes"]):
        fields = node.fields((TAG, "name"), ("class", "attributes", "spatial"), _UNSUPPORTED_NODE)
        if macs > 0:
            node.refuse("expected nothing inside the multiply-accumulate")
        attributes = _attributes(fields)
        clock = _clock(attributes, clock)
        many = _mesh(fields)
        if many > 1:
            if len(memories) != 2:
                node.refuse("expected elements between the shared memory and the registers, found a mesh elsewhere")
            elements *= many
            meshes.append(fields["name"].text("a name"))
        if fields[TAG].text() == "!Container":
            continue
        kind = fields["class"].text("a class") if "class" in fields else ""
        if kind in _STORAGE:
            if len(memories) == 3:
                node.refuse("expected three memories one in the other (DRAM, shared, registers), found a fourth")
            memories.append((node, {"name": fields["name"], **attributes}))
        elif kind in _COMPUTE:
            macs += 1
        else:
            node.refuse(f"expected one of the classes {', '.join((*_STORAGE, *_COMPUTE))}, found {kind or 'none'}")
    if len(memories) != 3 or macs != 1 or not 1 <= elements <= MAX_ELEMENTS:
        parts["nodes"].refuse(
            f"expected three memories, one multiply-accumulate and 1 to {MAX_ELEMENTS:,} elements, found "
            f"{len(memories)}, {macs} and {elements:,}"
        )
    names = [attributes["name"].text("a name") for _, attributes in memories]
    machine = _machine(where, base, memories, elements, clock)
    return machine, TimeloopTargets(names[0], names[1], names[2], tuple(meshes))


def _machine(
    name: str, base: ArrayMachine, memories: list[tuple[Part, dict[str, Part]]], elements: int, clock: int
) -> ArrayMachine:
    words = {node.path: _word(node, attributes) for node, attributes in memories}
    (outer, dram), (shared, scratchpad), (inner, registers) = memories
    bits = words[shared.path]
    for node in (outer, inner):
        if words[node.path] not in (bits, 0):
            node.refuse(
                f"datawidth is {words[node.path]}, but {bits} in the shared memory; expected one word everywhere"
            )
    word = Fraction(bits, 8)
    usable = _usable_bytes(shared, scratchpad)
    machine = replace(
        base,
        name=name,
        elements=elements,
        register_bytes=_usable_bytes(inner, registers),
        banks=usable,  # every array may have any byte
        bank_bytes=1,
        operand_bits=(bits, bits, bits),
        clock_hz=clock,
    )
    for key in ("read_bandwidth", "write_bandwidth"):
        if key in registers:
            inner.refuse(f"{key} is not supported: registers serve the multiply-accumulate every cycle; remove it")
    if "read_bandwidth" in scratchpad or "write_bandwidth" in scratchpad:
        rates = [scratchpad[key] for key in ("read_bandwidth", "write_bandwidth") if key in scratchpad]
        if len(rates) != 2:
            shared.refuse("expected both read_bandwidth and write_bandwidth, or neither")
        read, write = (rate.ratio("words a cycle") * word for rate in rates)
        machine = replace(machine, networks=2, network_bytes_per_cycle=(read, read, write))
    if "read_bandwidth" in dram or "write_bandwidth" in dram:
        rates = [dram[key].ratio("words a cycle") for key in ("read_bandwidth", "write_bandwidth") if key in dram]
        if len(rates) != 2 or rates[0] != rates[1]:
            outer.refuse("expected read_bandwidth and write_bandwidth of one rate: DMA moves either way at one rate")
        machine = replace(machine, dma_cycles_per_byte=1 / (rates[0] * word))
    return machine


def _nodes(part: Part) -> Iterator[Part]:
    """The nodes from the outermost, those of a hierarchy in its place."""
    for node in part.items("nodes"):
        tag = node.entries().get(TAG)
        if tag is None or tag.text() not in TAGS:
            node.refuse(f"expected one of the tags {', '.join(TAGS)}")
        if tag.text() == "!Hierarchical":
            yield from _nodes(node.fields((TAG, "nodes"))["nodes"])
        elif tag.text() in ("!Parallel", "!Pipelined"):
            node.refuse(
                f"{tag.text()} is not supported: registers are one pool for all arrays; write one after another"
            )
        else:
            yield node


def _attributes(fields: dict[str, Part]) -> dict[str, Part]:
    if "attributes" not in fields:
        return {}
    part = fields["attributes"]
    found = {_RENAMED.get(key, key): value for key, value in part.entries().items()}
    kept = Part({key: value.value for key, value in found.items()}, part.file, part.path)
    return kept.fields((), (*_USED, *_SILENT, "global_cycle_seconds"))


def _clock(attributes: dict[str, Part], clock: int) -> int:
    if "global_cycle_seconds" not in attributes:
        return clock
    return round(1 / attributes["global_cycle_seconds"].ratio("seconds"))


def _mesh(fields: dict[str, Part]) -> int:
    if "spatial" not in fields:
        return 1
    sizes = fields["spatial"].fields((), ("meshX", "meshY"))
    count = 1
    for part in sizes.values():
        count *= part.whole("elements", 1, MAX_ELEMENTS)
    return count


def _word(node: Part, attributes: dict[str, Part]) -> int:
    """Bits of a word; 0 where a DRAM does not say."""
    if "datawidth" in attributes:
        return attributes["datawidth"].whole("bits", 1, 64)
    if "depth" in attributes:
        node.refuse("the attribute datawidth is missing")
    return 0


def _usable_bytes(node: Part, attributes: dict[str, Part]) -> int:
    for key in ("depth", "width"):
        if key not in attributes:
            node.refuse(f"the attribute {key} is missing")
    bits = attributes["depth"].whole("rows", 1, MAX_BITS) * attributes["width"].whole("bits", 1, MAX_BITS)
    buffers = (
        attributes["multiple_buffering"].ratio("buffers", 16) if "multiple_buffering" in attributes else Fraction(1)
    )
    size = Fraction(bits, 8) / buffers
    if not 1 <= size <= MAX_BITS // 8:
        node.refuse(f"expected a memory of 1 to {MAX_BITS // 8:,} bytes, found {float(size):,.6g}")
    return int(size)

"""What ZigZag says of one layer: `NAME_complete.json`, which every run of it writes.

It has the loops and the memories of every operand, from the innermost, and the accesses and the energy of each operand
at each memory in each direction. Source: the results of ZigZag 3.9.1 and the code that writes them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tilestitch.formats.foreign_file import Part, json_file
from tilestitch.formats.limits import MAX_EXTENT
from tilestitch.hardware.tree import Flow

WORDS = {  # what ZigZag calls the directions
    Flow.FILL: "wr_in_by_high",
    Flow.FEED: "rd_out_to_low",
    Flow.COLLECT: "wr_in_by_low",
    Flow.DRAIN: "rd_out_to_high",
}
_LOOP = re.compile(r"\(\s*([A-Za-z]\w*)\s*,\s*([0-9]{1,9})(?:\.0)?\s*\)", re.ASCII)


@dataclass(frozen=True, slots=True)
class ZigzagResult:
    """One layer's mapping and its price; `cuts` and `flows` by operand, as the layer calls it, from the innermost."""

    layer: str
    loops: tuple[tuple[str, int], ...]
    cuts: Mapping[str, tuple[int, ...]]
    flows: Mapping[tuple[str, int, Flow], tuple[float, float]]  # accesses and picojoules
    energy_pj: float
    mac_pj: float
    latency_cycles: float  # with loading before and unloading after


def zigzag_result(text: str, where: str) -> ZigzagResult:
    """The result in a file. Raises `InputError` with the keys that lead to what is not understood."""
    file = json_file(text, where)
    entries = file.entries()
    if not {"outputs", "inputs"} <= set(entries):
        file.refuse("expected outputs and inputs, as NAME_complete.json of a run of ZigZag has them")
    outputs, inputs = entries["outputs"].entries(), entries["inputs"].entries()
    loops, cuts = _mapping(_field(inputs, "temporal_mapping", entries["inputs"]))
    energy = _field(outputs, "energy", entries["outputs"])
    memory = _field(outputs, "memory", entries["outputs"])
    accesses = _field(memory.entries(), "word_accesses", memory)
    priced = _field(energy.entries(), "memory_energy_breakdown_per_level_per_operand", energy)
    flows: dict[tuple[str, int, Flow], tuple[float, float]] = {}
    for operand, levels in priced.entries().items():
        counted = _field(accesses.entries(), operand, accesses).items("memories")
        for level, (pj, words) in enumerate(zip(levels.items("memories"), counted, strict=False)):
            for flow, word in WORDS.items():
                both = [_field(one.entries(), word, one).energy() for one in (words, pj)]
                flows[operand, level, flow] = (both[0], both[1])
    layer = _field(inputs, "layer", entries["inputs"])
    latency = _field(outputs, "latency", entries["outputs"])
    return ZigzagResult(
        _field(layer.entries(), "name", layer).text("a name"),
        loops,
        cuts,
        flows,
        _field(energy.entries(), "energy_total", energy).energy(),
        _field(energy.entries(), "operational_energy", energy).energy(),
        sum(part.energy() for part in latency.entries().values()),
    )


def _field(entries: Mapping[str, Part], key: str, of: Part) -> Part:
    if key not in entries:
        of.refuse(f"the field {key} is missing; write the file NAME_complete.json of a run of ZigZag")
    return entries[key]


def _mapping(part: Part) -> tuple[tuple[tuple[str, int], ...], dict[str, tuple[int, ...]]]:
    """The loops, which are the same for all operands, and how many of them each memory is inside."""
    loops: tuple[tuple[str, int], ...] | None = None
    cuts: dict[str, tuple[int, ...]] = {}
    for operand, levels in part.entries().items():
        own: list[tuple[str, int]] = []
        ends: list[int] = []
        for level in levels.items("memories"):
            for item in level.items("loops", least=0):
                match = _LOOP.fullmatch(item.text("a loop and its factor"))
                if match is None or not 1 <= int(match[2]) <= MAX_EXTENT:
                    item.expected("a loop and its factor, as in (K, 4)")
                own.append((match[1].upper(), int(match[2])))
            ends.append(len(own))
        if loops is not None and tuple(own) != loops:
            levels.refuse("its loops are others than those of the first operand; expected one order")
        loops, cuts[operand] = tuple(own), tuple(ends)
    return loops or (), cuts

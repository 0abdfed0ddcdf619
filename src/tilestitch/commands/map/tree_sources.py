"""Layers for machine trees that need no mapping file: of networks, of einsum, of other programs' files."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tilestitch.base.text_files import file_text
from tilestitch.commands.map.sources import MAX_YAML_BYTES, Nests
from tilestitch.formats.zigzag.tree_workload import ZigzagLayer, zigzag_tree_layers
from tilestitch.hardware.tree import MachineTree
from tilestitch.mapping.tree.bound import as_wide, bound
from tilestitch.mapping.tree.placed import PlacedNest

SUMS_AS_RESULTS = "sums that are added to have the width of results, as in the nests of the network"


@dataclass(frozen=True, slots=True)
class TreeLayer(ZigzagLayer):
    """A layer of any source, and how often it is there."""

    times: int = 1


def is_zigzag_workload(model: str) -> bool:
    """Whether a file has ZigZag's layers, which say more than nests do: bits of partial and of complete sums."""
    path = Path(model)
    if path.suffix not in (".yaml", ".yml") or not path.is_file():
        return False
    text = file_text(path, "YAML", MAX_YAML_BYTES)
    return re.search(r"^\s*-?\s*operator_type\s*:", text, re.MULTILINE) is not None


def is_timeloop_problem(model: str) -> bool:
    """Whether a file has Timeloop's problem, which says nothing of bits: they are those of the machine's words."""
    path = Path(model)
    if path.suffix not in (".yaml", ".yml") or not path.is_file():
        return False
    return re.search(r"^\s*problem\s*:", file_text(path, "YAML", MAX_YAML_BYTES), re.MULTILINE) is not None


def with_words(
    layers: Sequence[TreeLayer], tree: MachineTree, bits: Mapping[str, tuple[int, int]]
) -> tuple[TreeLayer, ...]:
    """The layers with elements of a machine's words: `bits` are those of the innermost and outermost memory of each."""
    found: list[TreeLayer] = []
    for layer in layers:
        homes = bound_nest(layer, tree).homes
        reads = tuple(
            replace(array, element_bits=bits[home][0]) for array, home in zip(layer.nest.reads, homes, strict=False)
        )
        write = replace(layer.nest.write, element_bits=bits[homes[-1]][0])
        nest = replace(layer.nest, reads=reads, write=write)
        found.append(replace(layer, nest=nest, final_bits=bits[homes[-1]][1]))
    return tuple(found)


def as_wide_as_on(
    tree: MachineTree, layers: Sequence[TreeLayer], notes: Sequence[str]
) -> tuple[tuple[TreeLayer, ...], tuple[str, ...]]:
    """The layers with elements and sums of the widths that the machine states, if it does, and notes on them."""
    bits, sum_bits = tree.bits, tree.sum_bits
    if bits is None or sum_bits is None:
        return tuple(layers), tuple(notes)
    found: list[TreeLayer] = []
    for layer in layers:
        found.append(replace(layer, nest=as_wide(layer.nest, bits, sum_bits), final_bits=bits))
    kept = [note for note in notes if note != SUMS_AS_RESULTS]
    note = f"elements have {bits} bits, and {sum_bits} while they are added to, as on {tree.name}"
    return tuple(found), (*kept, note)


def zigzag_layers_of(model: str) -> tuple[str, tuple[TreeLayer, ...], tuple[str, ...]]:
    """The layers of ZigZag's file with its name, and notes."""
    path = Path(model)
    layers, notes = zigzag_tree_layers(file_text(path, "YAML", MAX_YAML_BYTES), path.name)
    return path.stem, tuple(TreeLayer(one.nest, one.final_bits, one.operator) for one in layers), notes


def layers_of_nests(nests: Nests) -> tuple[tuple[TreeLayer, ...], tuple[str, ...]]:
    """The nests of a network as they are: their sums have the width of results, partial ones as well."""
    notes = [*nests.notes, SUMS_AS_RESULTS]
    if nests.unmapped:
        kinds = ", ".join(f"{kind} {count}" for kind, count in nests.unmapped.items())
        notes.append(f"operators without products are not in it: {kinds}")
    found = (TreeLayer(one.nest, one.nest.write.element_bits, one.nest.kind, one.times) for one in nests.layers)
    return tuple(found), tuple(notes)


def bound_nest(layer: TreeLayer, tree: MachineTree) -> PlacedNest:
    """A layer with what the machine calls its operands, and nothing spread; see `bound`."""
    return bound(layer.nest, layer.final_bits, tree)

"""ZigZag's layers on a machine tree, its own or ours: the mapping of each that costs the least energy."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tilestitch.base.errors import InputError
from tilestitch.base.progress import Progress, quiet
from tilestitch.base.text_files import file_text
from tilestitch.commands.map.sources import MAX_YAML_BYTES
from tilestitch.formats.zigzag.tree_machine import zigzag_tree
from tilestitch.formats.zigzag.tree_mapping import ZigzagMapping, chosen_mapping, placed_layer, zigzag_tree_mappings
from tilestitch.formats.zigzag.tree_workload import ZigzagLayer, zigzag_tree_layers
from tilestitch.hardware.tree import MachineTree
from tilestitch.hardware.tree_file import machine_tree
from tilestitch.hardware.tree_load import tree_file_text
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.search import MOST_LABELS, FoundMapping, best_of
from tilestitch.mapping.tree.tables import Sums


@dataclass(frozen=True, slots=True)
class TreeTask:
    """Layers, a machine, and what is spread over its units."""

    name: str
    tree: MachineTree
    layers: tuple[ZigzagLayer, ...]
    mappings: tuple[ZigzagMapping, ...]
    mapping_file: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MappedOnTree:
    """One layer with its best mapping, and what of its spatial mapping was changed to fit."""

    name: str
    operator: str
    found: FoundMapping
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TreeMappings:
    """The best mapping of every layer, in the order of the workload."""

    task: TreeTask
    sums: Sums
    layers: tuple[MappedOnTree, ...]

    @property
    def energy_pj(self) -> float:
        return sum(layer.found.price.energy_pj for layer in self.layers)

    @property
    def bound_pj(self) -> float:
        return sum(layer.found.bound_pj for layer in self.layers)

    @property
    def is_proven(self) -> bool:
        return all(layer.found.is_proven for layer in self.layers)


def open_tree_task(workload: str, machine: str, spatial: str, names: Sequence[str]) -> TreeTask:
    """ZigZag's layers and spatial mapping, on its machine or a tree by name or file; `names` of layers, or all of them.

    Raises `InputError` for what is wrong with a file.
    """
    texts = [file_text(Path(given), "YAML", MAX_YAML_BYTES) for given in (workload, spatial)]
    where = [Path(given).name for given in (workload, spatial)]
    layers, notes = zigzag_tree_layers(texts[0], where[0])
    tree, machine_notes = open_tree(machine)
    mappings, mapping_notes = zigzag_tree_mappings(texts[1], where[1])
    chosen = tuple(_chosen(layers, names, where[0])) if names else layers
    return TreeTask(Path(workload).stem, tree, chosen, mappings, where[1], (*notes, *machine_notes, *mapping_notes))


def open_tree(machine: str) -> tuple[MachineTree, tuple[str, ...]]:
    """The tree of a name or file, ours or ZigZag's, and notes on what was read otherwise than it stands there."""
    text, where = tree_file_text(machine)
    where = Path(where).name
    if re.search(r"^operational_array\s*:", text, re.MULTILINE) is not None:
        return zigzag_tree(text, where)
    return machine_tree(text, where), ()


def _chosen(layers: Sequence[ZigzagLayer], names: Sequence[str], where: str) -> Iterator[ZigzagLayer]:
    for name in names:
        for number, layer in enumerate(layers, 1):
            if name in (str(number), layer.nest.name):
                yield layer
                break
        else:
            known = ", ".join(f"{number} {layer.nest.name}" for number, layer in enumerate(layers[:8], 1))
            raise InputError(f"--layer {name}: {where} has no such layer; known: {known}{', ...' * (len(layers) > 8)}")


def map_on_tree(
    task: TreeTask, sums: Sums = Sums.FULL, most_labels: int = MOST_LABELS, progress: Progress = quiet
) -> TreeMappings:
    """The best mapping of every layer; layers that differ only in their names are searched once.

    Raises `DoesNotFit` for a layer that no mapping fits.
    """
    placed = [
        placed_layer(layer, chosen_mapping(layer, task.mappings, task.mapping_file), task.tree) for layer in task.layers
    ]
    known: dict[tuple[PlacedNest, ...], FoundMapping] = {}
    layers: list[MappedOnTree] = []
    for number, (layer, (placements, notes)) in enumerate(zip(task.layers, placed, strict=True)):
        progress("map", number, len(placed))
        unnamed = tuple(replace(one, nest=replace(one.nest, name="")) for one in placements)
        if unnamed not in known:
            known[unnamed] = best_of(placements, sums, most_labels)
        found = known[unnamed]
        found = replace(found, placed=replace(found.placed, nest=layer.nest))
        layers.append(MappedOnTree(layer.nest.name, layer.operator, found, notes))
    return TreeMappings(task, sums, tuple(layers))

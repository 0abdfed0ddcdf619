"""Layers on the machines of ZigZag 3.9.1, and what its evaluator said of chains on them."""

import json
from functools import cache
from pathlib import Path

from tilestitch.formats.zigzag.tree_machine import zigzag_tree
from tilestitch.formats.zigzag.tree_mapping import chosen_mapping, placed_layer, zigzag_tree_mappings
from tilestitch.formats.zigzag.tree_workload import zigzag_tree_layers

DATA = Path(__file__).parent.parent / "data" / "zigzag"


@cache
def recorded():
    return json.loads((DATA / "chains.json").read_text())


@cache
def placed(machine, mapping, layer):
    """A layer of the recorded ones, by its name."""
    tree, _ = zigzag_tree((DATA / "hardware" / f"{machine}.yaml").read_text(), machine)
    entries, _ = zigzag_tree_mappings((DATA / "mapping" / f"{mapping}.yaml").read_text(), mapping)
    given = next(one for one in recorded()["layers"] if one["name"] == layer)
    (found,), _ = zigzag_tree_layers(json.dumps([given]), layer)
    (nest,), _ = placed_layer(found, chosen_mapping(found, entries, mapping), tree)
    return nest

"""Layers on the machines of ZigZag 3.9.1, and what its evaluator said of chains on them."""

import json
from functools import cache
from pathlib import Path

from tilestitch.formats.zigzag.tree_machine import zigzag_tree
from tilestitch.formats.zigzag.tree_mapping import chosen_mapping, placed_layer, zigzag_tree_mappings
from tilestitch.formats.zigzag.tree_workload import zigzag_tree_layers

DATA = Path(__file__).parent.parent / "data" / "zigzag"

CONV = """
- id: 0
  name: conv2_2
  operator_type: Conv
  equation: O[b][k][oy][ox]+=W[k][c][fy][fx]*I[b][c][iy][ix]
  dimension_relations: [ix=1*ox+1*fx, iy=1*oy+1*fy]
  loop_dims: [B, K, C, OY, OX, FY, FX]
  loop_sizes: [1, 64, 64, 56, 56, 3, 3]
  operand_precision: {W: 8, I: 8, O: 16, O_final: 8}
  operand_source: {W: 0, I: 0}
"""
LAYERS = f"""{CONV}- id: 1
  operator_type: Add
  equation: O[b][g][oy][ox]=W[b][g][oy][ox]+I[b][g][oy][ox]
  dimension_relations: []
  loop_dims: [B, G, OY, OX]
  loop_sizes: [1, 64, 56, 56]
  operand_precision: {{W: 8, I: 8, O: 16, O_final: 8}}
  operand_source: {{W: 0, I: 0}}
"""
TREE = """
name: small
mac_pj: 0.04
axes: [{name: D1, size: 8}, {name: D2, size: 8, loops: [C]}]
memories:
  - {name: rf, size: 4, operands: [O], read_pj: 0.02, write_pj: 0.02, serves: [D2], ports: [{width_bits: 16}]}
  - name: buffer
    size: 128 KiB
    operands: [I, W, O]
    read_pj: 20
    write_pj: 25
    serves: [D1, D2]
    ports: [{width_bits: 256, granule_bits: 64}]
  - {name: dram, size: 4 GiB, operands: [I, W, O], read_pj: 700, write_pj: 750, serves: [D1, D2],
     ports: [{width_bits: 64}]}
"""


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

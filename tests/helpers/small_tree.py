"""A small machine tree in a file: three memories, of which two are shared, and a fan-out of each axis."""

from pathlib import Path

SMALL_TREE = """
name: small
mac_pj: 0.04
axes: [{name: D1, size: 4}, {name: D2, size: 2}]
memories:
  - {name: rf, size: 8, operands: [O], read_pj: 0.02, write_pj: 0.02, serves: [D2], ports: [{width_bits: 16}]}
  - {name: buffer, size: 160, operands: [I, W, O], read_pj: 20, write_pj: 25, serves: [D1, D2],
     ports: [{width_bits: 256, granule_bits: 8}]}
  - {name: dram, size: 1 MiB, operands: [I, W, O], read_pj: 700, write_pj: 750, serves: [D1, D2],
     ports: [{width_bits: 64}]}
"""


def small_tree(folder: Path) -> Path:
    """The file, written to a folder."""
    path = folder / "small.yaml"
    path.write_text(SMALL_TREE)
    return path

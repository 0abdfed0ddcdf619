"""A tree of five memories inside DRAM, three of them shared: four cores of two arrays."""

FIVE_LEVELS = """\
name: five-levels
description: "Four cores of two arrays of 8 x 8 units, and five memories above one another"
clock: 1 GHz
mac_pj: 0.1
bits: 16
sum_bits: 32
axes:
  - {name: rows, size: 8, operands: [I, W]}
  - {name: columns, size: 8, operands: [W, O]}
  - {name: array, size: 2}
  - {name: core, size: 4}
memories:
  - {name: registers, size: 4, operands: [W], buffers: 2, serves: [], read_pj: 1, write_pj: 1,
     ports: [{name: use, width_bits: 16, directions: [feed]}, {name: load, width_bits: 16, directions: [fill]}]}
  - {name: sums, size: 4 KiB, operands: [O], serves: [rows, columns], read_pj: 2, write_pj: 2,
     ports: [{name: out, width_bits: 256, granule_bits: 32, directions: [feed, drain]},
             {name: in, width_bits: 256, granule_bits: 32, directions: [fill, collect]}]}
  - {name: buffer, size: 16 KiB, operands: [I, W], serves: [rows, columns], read_pj: 4, write_pj: 4,
     ports: [{width_bits: 256, granule_bits: 16, bandwidth: 64 B/cycle}]}
  - {name: local, size: 64 KiB, operands: [I, W, O], serves: [rows, columns, array], read_pj: 8, write_pj: 8,
     ports: [{width_bits: 256, granule_bits: 16, bandwidth: 64 B/cycle}]}
  - {name: shared, size: 1 MiB, operands: [I, W, O], serves: [rows, columns, array, core], read_pj: 16, write_pj: 16,
     ports: [{width_bits: 512, granule_bits: 16}]}
  - {name: dram, size: 1 GiB, operands: [I, W, O], serves: [rows, columns, array, core], read_pj: 100, write_pj: 100,
     ports: [{width_bits: 128}]}
"""

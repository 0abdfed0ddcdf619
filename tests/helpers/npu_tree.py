"""A machine tree in the form of its file: registers that sums go through, a buffer of two halves, and DRAM."""

TREE = """
name: npu
mac_pj: 0.5
axes:
  - {name: rows, size: 8, loops: [C]}
  - {name: columns, size: 16}
memories:
  - name: rf
    size: 16 b
    operands: [O]
    read_pj: 0.02
    write_pj: 0.03
    serves: [rows]
    ports:
      - {name: out, width_bits: 16, directions: [collect, drain]}
      - {name: in, width_bits: 16, directions: [fill, feed]}
  - name: buffer
    size: 64 KiB
    operands: [I, W, O]
    read_pj: 5
    write_pj: 6
    serves: [rows, columns]
    buffers: 2
    ports: [{width_bits: 256, granule_bits: 64}]
  - {name: dram, size: 2 GiB, operands: [I, W, O], read_pj: 500, write_pj: 550, serves: [rows, columns],
     ports: [{width_bits: 64}]}
"""

"""A small machine of our own in the forms of Timeloop and AccelForge: two meshes, registers side by side."""

TIMELOOP = """
architecture:
  version: 0.4
  nodes:
  - !Container {name: system, attributes: {technology: "32nm", global_cycle_seconds: 2e-9}}
  - !Component {name: DRAM, class: DRAM, attributes: {width: 64, datawidth: 8}}
  - !Component
    name: buffer
    class: SRAM
    attributes: {depth: 2048, width: 64, datawidth: 8, read_bandwidth: 16, write_bandwidth: 8}
    constraints: {dataspace: {keep: [Inputs, Outputs], bypass: [Weights]}}
  - !Container
    name: columns
    spatial: {meshX: 4}
    constraints: {spatial: {permutation: [P, R, C, M], factors: [P=1, R=1], split: 4}}
  - !Container {name: PE, spatial: {meshX: 2, meshY: 3}}
  - !Parallel
    nodes:
    - !Component
      name: inputs
      class: regfile
      attributes: {depth: 4, width: 8, datawidth: 8}
      constraints: {dataspace: {keep: [Inputs]}, temporal: {factors: [M=1, C<=2]}}
    - !Component
      name: weights
      class: regfile
      attributes: {depth: 8, width: 8, datawidth: 8}
      constraints: {dataspace: {keep: [Weights]}}
    - !Component
      name: sums
      class: regfile
      attributes: {depth: 4, width: 24, datawidth: 24, multiple_buffering: 2}
      constraints: {dataspace: {keep: [Outputs]}, temporal: {factors: [M=1, C=1]}}
  - !Component {name: mac, class: intmac}
"""
ERT = """
ERT:
  version: 0.4
  tables:
  - {name: "system.DRAM[1..1]", actions: [{name: read, energy: 512}, {name: write, energy: 500}]}
  - {name: "system.buffer[1..1]", actions: [{name: read, energy: 18.5}, {name: write, energy: 14}]}
  - {name: "system.inputs[1..24]", actions: [{name: read, energy: 0.1}, {name: write, energy: 0.2}]}
  - {name: "system.weights[1..24]", actions: [{name: read, energy: 0.1}, {name: update, energy: 0.25}]}
  - name: "system.sums[1..24]"
    actions:
    - {name: read, arguments: {data: 0}, energy: 0.3}
    - {name: read, arguments: {data: 1}, energy: 0.4}
    - {name: write, energy: 0.5}
  - {name: "system.mac[1..24]", actions: [{name: compute, energy: 0.21}]}
"""
SUBTREES = """
architecture:
  version: 0.3
  subtree:
  - name: system
    local: [{name: DRAM, class: DRAM, attributes: {width: 64, block-size: 4, word-bits: 16}}]
    subtree:
    - name: chip
      attributes: {technology: 45nm}
      local:
      - {name: buffer, class: SRAM, attributes: {memory_depth: 1024, memory_width: 64, word-bits: 16}}
      subtree:
      - name: PE[0..11]
        local:
        - {name: registers, class: regfile, attributes: {depth: 16, word-bits: 16, block-size: 1, meshX: 4}}
        - {name: mac, class: intmac, attributes: {datawidth: 16, meshX: 4}}
"""
FLAT = """
architecture:
  version: 0.2
  subtree:
  - name: adders
    local:
    - {name: DRAM, class: DRAM, attributes: {instances: 1, word-bits: 16}}
    - {name: buffer, class: SRAM, attributes: {entries: 64, instances: 1, meshX: 1, word-bits: 16, block-size: 4}}
    - {name: sums, class: regfile, attributes: {entries: 1, instances: 2, meshX: 2, word-bits: 16, cluster-size: 2}}
    - name: weights
      class: SRAM
      attributes: {depth: 8, instances: 8, meshX: 2, width: 64, word-bits: 16, cluster-size: 4}
    - {name: mac, class: intmac, attributes: {instances: 8, meshX: 2, word-bits: 16}}
mapspace:
  targets:
  - name: buffer
    constraints:
    - {type: bypassing, attributes: {keep: [Inputs, Outputs], bypass: [Weights]}}
    - {type: temporal, attributes: {factors: C=1, permutation: CP M}}
    - {type: spatial, attributes: {factors: M=2 C=1 P=1 R=1, permutation: M CPR, split: 1}}
  - name: sums
    constraints:
    - {type: bypassing, attributes: {keep: [Outputs], bypass: [Inputs, Weights]}}
  - name: weights
    constraints:
    - {type: bypassing, attributes: {keep: [Weights], bypass: [Inputs, Outputs]}}
ERT:
  tables:
  - {name: adders.DRAM, actions: [{name: read, energy: 512}, {name: write, energy: 512}]}
  - {name: adders.buffer, actions: [{name: read, energy: 20}, {name: write, energy: 20}]}
  - {name: adders.sums, actions: [{name: read, energy: 1}, {name: write, energy: 2}]}
  - {name: adders.weights, actions: [{name: read, energy: 1}, {name: write, energy: 2}]}
  - {name: adders.mac, actions: [{name: compute, energy: 2.2}]}
"""
SUBTREES_ERT = """
ERT:
  tables:
  - {name: system.DRAM, actions: [{name: read, energy: 512}, {name: write, energy: 512}]}
  - {name: system.chip.buffer, actions: [{name: read, energy: 20}, {name: write, energy: 20}]}
  - {name: "system.chip.PE[0..11].registers", actions: [{name: read, energy: 1}, {name: write, energy: 2}]}
  - {name: "system.chip.PE[0..11].mac", actions: [{name: mac_random, energy: 2.2}]}
"""
PROBLEM = """
problem:
  shape:
    name: conv
    dimensions: [C, M, R, P]
    data_spaces:
    - {name: Weights, projection: [[[C]], [[M]], [[R]]]}
    - {name: Inputs, projection: [[[C]], [[R], [P]]]}
    - {name: Outputs, projection: [[[M]], [[P]]], read_write: true}
  instance: {C: 16, M: 16, R: 3, P: 12}
"""
ACCELFORGE = """
arch:
  nodes:
  - !Memory
    name: Main
    size: inf
    actions:
    - {name: read, energy: 7e-12, throughput: 8 * 16e9}
    - {name: write, energy: 7e-12, throughput: 8 * 16e9}
    tensors: {keep: ~Intermediates, may_keep: All}
  - !Memory
    name: Buffer
    size: 1024 * 8 * 64
    area: 2e-6
    total_latency: max(a.n_calls / a.throughput for a in actions)
    actions:
    - {name: read, energy: 1e-12, throughput: 64e9, bits_per_action: 16}
    - {name: write, energy: 2e-12, throughput: 32e9}
    tensors: {keep: input | output}
  - !Container
    name: PE
    spatial: [{name: rows, fanout: 16 / 2}, {name: columns, fanout: 4, reuse: output}]
  - !Memory
    name: Register
    size: weight.bits_per_value if weight else 0
    component_class: Dummy
    tensors: {keep: weight}
  - !Compute
    name: Scalar
    actions: [{name: compute, energy: 0, throughput: 1e9}]
    enabled: len(All) == 2
  - !Compute
    name: MAC
    actions: [{name: compute, energy: 0.25e-12, throughput: 1e9}]
    enabled: len(All) == 3
"""
